"""Reads routing from the model section of moh's resolved configuration for the PyTorch models, and refuses models that
these do not implement. The standard library only."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Routing:
    """Numbers of heads in one layer: `shared` are active for every token, of the others each token selects `routed`."""

    shared: int  # S
    routed: int  # K
    two_stage: bool = True  # weigh shared against routed heads, if there are both


def per_layer(model, key):
    """A count of model.moh for each layer: a list, or one number for all layers."""
    value = model["moh"][key]
    counts = value if isinstance(value, list) else [value] * model["layers"]
    if len(counts) != model["layers"]:
        raise ValueError(f"model.moh.{key}: expected one number, or one for each of the {model['layers']} layers, found "
                         f"{value}")
    return counts


def layer_routings(model):
    """A Routing for each layer; None for those of a dense model."""
    if model["moh"]["router"] == "none":
        return [None] * model["layers"]
    pairs = zip(per_layer(model, "num_shared"), per_layer(model, "top_k"), strict=True)
    return [Routing(shared, routed, model["moh"]["two_stage"]) for shared, routed in pairs]


def block_routings(model):
    """The same for the blocks of an image classifier. A TransNeXt may list a count for each stage, too."""
    vit = model["architecture"] == "vit"
    depths = [model["vit"]["layers"]] if vit else model["transnext"]["depths"]

    def by_block(value):
        if isinstance(value, list) and len(value) == len(depths) and not vit:
            return [count for count, depth in zip(value, depths) for _ in range(depth)]
        return value

    counts = {key: by_block(model["moh"][key]) for key in ("num_shared", "top_k")}
    return layer_routings({"layers": sum(depths), "moh": {**model["moh"], **counts}})


def per_layer_heads(model):
    """The number of heads of each layer of a diffusion model."""
    heads = model["heads"]
    return heads if isinstance(heads, list) else [heads] * model["layers"]


def check_supported(model):
    """Raises ValueError for a language model that the PyTorch side would compute differently."""
    require([("kv_heads", model["kv_heads"], (0, model["heads"]), "one per query head"),
             ("rope_scaling.kind", model["rope_scaling"]["kind"], ("none",), "none"),
             ("dropout", model["dropout"], (0,), "0"), *common_limits(model)])


def check_supported_images(model):
    """The same for an image classifier."""
    require([("transnext.experts", model["transnext"]["experts"], (1,), "1"),
             ("transnext.fixed_pool_size", model["transnext"]["fixed_pool_size"], (0,), "0"), *common_limits(model)])


def check_supported_diffusion(model):
    """The same for a diffusion model."""
    require([("learn_variance", model["learn_variance"], (True,), "true"), *common_limits(model)])


def common_limits(model):
    moh = model["moh"]
    return [("recompute", model["recompute"], ("none",), "none"),
            ("moh.router", moh["router"], ("none", "learned"), "none or learned"),
            ("moh.shared_heads", moh["shared_heads"], ("first",), "first"),
            ("moh.gate_scaling", moh["gate_scaling"], ("code",), "code"),
            ("moh.balance_loss", moh["balance_loss"], ("code",), "code"),
            ("moh.balance_bias", moh.get("balance_bias", 0), (0,), "0")]


def require(expected):
    for key, found, supported, text in expected:
        if found not in supported:
            raise ValueError(f"model.{key}: expected {text}, all that the models in PyTorch have, found {found}")
