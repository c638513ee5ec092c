"""The paper's tables of image classifiers."""

from model_settings import number_or_list, preset, routed

from .table import Row, Small, Table

IMAGENET = "ImageNet-1K as folders of pictures by class (docs/pictures.md): data.train=imagenet/train data.validation=imagenet/val"
EPOCH = 1281024  # pictures of an epoch of the recipe
PAPER, ABLATIONS, DEIT = (f"configs/vit/{name}.yaml" for name in ("paper", "ablations", "deit"))
DENSE, HALF, THREE_QUARTERS, DENSE_VIT = (f"configs/vit/cifar10_{name}.yaml" for name in ("transnext_dense", "moh_50", "moh_75", "vit_dense"))
RECIPE_300, RECIPE_100 = "ImageNet-1K, 224 pixels, 300 epochs, best evaluation", "ImageNet-1K, 224 pixels, 100 epochs"
TOP1 = "top-1, %, after the last step"

ONE_STAGE = ("model.moh.two_stage=false",)  # shared and routed heads are weighed alike
# arXiv 2210.05144: no shared heads, one key and value for all of them, its balance loss and z-loss, which its release weighs by 0.01 and
# 0.001 in each layer (balance_layers: sum).
MOA = ("model.transnext.single_kv_head=true", "model.moh.gate_scaling=paper", *ONE_STAGE, "model.moh.balance_loss=shares",
       "model.moh.balance_layers=sum", "model.moh.router_init=zeros", "model.moh.z_loss_weight=0.001")


def kept_keys(*percent):
    """Sparse attention, whose kind is not published: all heads, and in the last two stages the 75% of the keys with the largest logits."""
    return (f"model.transnext.kept_keys={number_or_list(percent)}",)


def learned(shared, ratio):
    """Which heads are shared is learned, a third of them; K is this share of the routed ones. With a quarter half of the heads are active,
    as published. Not published: the masks, and when they are fixed. A difference that is known: in the review the masks themselves say
    how many heads of a layer are shared, in the manner of ACL 2025's "Masks Can be Learned as an Alternative to Experts"; here the number
    is given for each layer, and the masks learn which heads."""
    return ("model.moh.router=learned", f"model.moh.num_shared={number_or_list(shared)}", f"model.moh.top_k_ratio={ratio}",
            "model.moh.learn_shared_until=0.5")


def ablation(shared, selected):
    """Settings of MoH-ViT-S with other heads."""
    return (*preset("transnext_small"), *routed(shared, selected))


def shared_ratio(printed, shared, selected, small, top1):
    """A row of table 6. Active heads are always 75% of all; the lists are those that give the printed ratio."""
    return Row(f"{printed}% shared", 75, {"top1": top1}, ABLATIONS, small, ablation(shared, selected))


def active_ratio(percent, selected, small, top1):
    """A row of table H. The lists are not published; proposed are the shared heads of MoH-ViT-S 75%, and K by stage."""
    return Row(f"{percent}% active", percent, {"top1": top1}, ABLATIONS, small, ablation((3, 6, 3, 4), selected))


# Lists of models without shared heads are not published (proposed): at the paper's size, and small.
ALL_ROUTED, ALL_ROUTED_SMALL = ablation((0, 0, 0, 0), (2, 5, 9, 18)), routed((0, 0, 0), (3, 6, 12))
NO_SHARED = (*ALL_ROUTED, *ONE_STAGE)
FULL = preset("moh_vit_small_75")
SPARSE = (*preset("transnext_small"), *kept_keys(100, 100, 75, 75))
LEARNED = {ratio: (*preset("transnext_base"), *learned((1, 3, 5, 11), ratio)) for ratio in (0.125, 0.25, 0.5)}

# Small forms of the ablations, for CIFAR-10: a TransNeXt of three stages, two layers each with 4, 8 and 16 heads, 56 in all. "full" has 42
# of them active, 75%, and of these 20 shared, 48%.
SMALL = {name: Small(config, settings, name) for name, (config, settings) in {
    "full": (THREE_QUARTERS, ()),
    "dense": (DENSE, ()),
    "no_shared": (DENSE, (*ALL_ROUTED_SMALL, *ONE_STAGE)),
    "one_stage": (THREE_QUARTERS, ONE_STAGE),
    "shared_19": (DENSE, routed((4, 0, 0), (0, 6, 11))),  # 8 of the 42
    "shared_57": (DENSE, routed((4, 2, 6), (0, 4, 5))),  # 24
    "shared_76": (DENSE, routed((4, 4, 8), (0, 2, 3))),  # 32
    "active_57": (DENSE, routed((4, 2, 4), (0, 2, 4))),  # 32 of 56
    "active_75": (THREE_QUARTERS, ()),
    "active_86": (DENSE, routed((4, 2, 4), (0, 5, 9))),  # 48
    "moa": (DENSE, (*ALL_ROUTED_SMALL, *MOA)),
    "sparse": (DENSE, kept_keys(100, 75, 75)),
    "learned_125": (DENSE, learned((1, 3, 5), 0.125)),
    "learned_25": (DENSE, learned((1, 3, 5), 0.25)),
    "learned_5": (DENSE, learned((1, 3, 5), 0.5)),
    "moe": (DENSE, ("model.transnext.experts=2",)),
    "moh_moe": (THREE_QUARTERS, ("model.transnext.experts=2",)),
}.items()}


def split(shared, selected):
    """The small TransNeXt with these heads shared and selected in its stages."""
    return Small(DENSE, routed(shared, selected))


def classifiers(title, source, setting, epochs, rows, **further):
    return Table(title, source, "training", "top1", setting, tuple(rows), data="images", needs=IMAGENET, items=epochs * EPOCH,
                 small_score=TOP1, **further)


def ablations(title, source, rows, **further):
    return classifiers(title, source, f"MoH-ViT-S, {RECIPE_100}", 100, rows, **further)


TABLES = {
    "vit_imagenet": classifiers("Image classifiers", "table 1", RECIPE_300, 300, (
        Row("TransNeXt-S", 100, {"top1": 84.7, "params_m": 50}, PAPER, Small(DENSE), preset("transnext_small")),
        Row("MoH-ViT-S 80%", 80, {"top1": 84.7, "params_m": 50}, PAPER, split((4, 2, 5), (0, 4, 7)), preset("moh_vit_small_80")),
        Row("MoH-ViT-S 75%", 75, {"top1": 84.6, "params_m": 50}, PAPER, Small(THREE_QUARTERS), preset("moh_vit_small_75")),
        Row("TransNeXt-B", 100, {"top1": 84.8, "params_m": 90}, PAPER, Small(DENSE), preset("transnext_base"), base="TransNeXt-B"),
        Row("MoH-ViT-B 75%", 75, {"top1": 84.9, "params_m": 90}, PAPER, Small(THREE_QUARTERS), preset("moh_vit_base_75"), base="TransNeXt-B"),
        Row("MoH-ViT-B 50%", 50, {"top1": 84.7, "params_m": 90}, PAPER, Small(HALF), preset("moh_vit_base_50"), base="TransNeXt-B"),
        Row("DeiT-S", 100, {"top1": 79.8, "params_m": 22}, DEIT, Small(DENSE_VIT), preset("deit_small"), base="DeiT-S"),
        Row("DeiT-B", 100, {"top1": 81.8, "params_m": 86}, DEIT, Small(DENSE_VIT), preset("deit_base"), base="DeiT-B"),
    ), missing=("rows of other models, which the paper takes from their publications",)),
    "ablation_components": ablations("Shared heads and two-stage routing, image classifiers", "table 5", (
        Row("full", 75, {"top1": 78.6}, ABLATIONS, SMALL["full"], FULL),
        Row("no shared heads", 75, {"top1": 75.6}, ABLATIONS, SMALL["no_shared"], NO_SHARED),
        Row("shared heads, no two-stage routing", 75, {"top1": 78.3}, ABLATIONS, SMALL["one_stage"], (*FULL, *ONE_STAGE)),
    )),
    "ablation_shared_ratio": ablations("Share of shared heads among the active ones", "table 6", (
        shared_ratio("40.5", (3, 6, 3, 4), (0, 0, 6, 12), split((4, 2, 3), (0, 4, 8)), 78.6),
        shared_ratio("13.9", (3, 6, 0, 0), (0, 0, 9, 16), SMALL["shared_19"], 78.6),
        shared_ratio("27.6", (3, 6, 2, 0), (0, 0, 7, 16), split((4, 2, 0), (0, 4, 11)), 78.5),
        # This ratio needs routed heads in the first or second stage; of several splits that give it, this one is proposed.
        shared_ratio("31.3", (3, 4, 3, 0), (0, 2, 6, 16), split((4, 2, 1), (0, 4, 10)), 78.4),
        shared_ratio("35.9", (3, 6, 3, 1), (0, 0, 6, 15), split((4, 2, 2), (0, 4, 9)), 78.4),
        shared_ratio("37.5", (3, 6, 3, 2), (0, 0, 6, 14), split((4, 2, 2), (0, 4, 9)), 78.5),
        shared_ratio("46.8", (3, 6, 3, 8), (0, 0, 6, 8), SMALL["full"], 78.4),
        shared_ratio("60.4", (3, 6, 5, 8), (0, 0, 4, 8), SMALL["shared_57"], 78.6),
        shared_ratio("74.0", (3, 6, 7, 8), (0, 0, 2, 8), SMALL["shared_76"], 78.4),
    )),
    "ablation_activated_ratio": ablations("Share of active heads", "appendix, table H", (
        active_ratio(75, (0, 0, 6, 12), SMALL["active_75"], 78.58),
        active_ratio(50, (0, 0, 2, 8), split((4, 2, 4), (0, 1, 3)), 78.32),
        active_ratio(55, (0, 0, 3, 8), SMALL["active_57"], 78.38),
        active_ratio(60, (0, 0, 4, 8), split((4, 2, 4), (0, 2, 5)), 78.44),
        active_ratio(65, (0, 0, 5, 8), split((4, 2, 4), (0, 3, 5)), 78.50),
        active_ratio(70, (0, 0, 5, 12), split((4, 2, 4), (0, 3, 7)), 78.42),
        active_ratio(80, (0, 0, 6, 16), split((4, 2, 4), (0, 4, 8)), 78.78),
    )),
    "review_moa": ablations("MoH beside MoA", "review", (
        Row("MoH", 75, {"top1": 78.6}, ABLATIONS, SMALL["full"], FULL),
        Row("MoA", 75, {"top1": 75.4}, ABLATIONS, SMALL["moa"], (*ALL_ROUTED, *MOA)),
    )),
    "review_sparse": ablations("MoH beside sparse attention and an attention of experts", "review", (
        Row("MoH", 75, {"top1": 78.6}, ABLATIONS, SMALL["full"], FULL),
        Row("sparse attention", None, {"top1": 78.4}, ABLATIONS, SMALL["sparse"], SPARSE, note="kind and density are not published"),
        Row("attention of experts: no shared heads", 75, {"top1": 75.6}, ABLATIONS, SMALL["no_shared"], NO_SHARED),
    )),
    "review_learnable_masks": classifiers("Which heads are shared, learned", "review", RECIPE_300, 300, (
        Row("dense", 100, {"top1": 84.8}, PAPER, Small(DENSE), preset("transnext_base")),
        Row("chosen by hand 75%", 75, {"top1": 84.9}, PAPER, Small(THREE_QUARTERS), preset("moh_vit_base_75")),
        Row("chosen by hand 50%", 50, {"top1": 84.7}, PAPER, Small(HALF), preset("moh_vit_base_50")),
        Row("learned 50%", 50, {"top1": 85.0}, PAPER, SMALL["learned_25"], LEARNED[0.25], note="masks are not published"),
    )),
    "review_k_ratio": classifiers("K as a share of the routed heads, shared heads learned", "review", RECIPE_300, 300, (
        Row("K 1/4", None, {"top1": 85.0}, PAPER, SMALL["learned_25"], LEARNED[0.25]),
        Row("K 1/8", None, {"top1": 84.8}, PAPER, SMALL["learned_125"], LEARNED[0.125]),
        Row("K 1/2", None, {"top1": 84.9}, PAPER, SMALL["learned_5"], LEARNED[0.5]),
    )),
    "review_moe_ffn": classifiers("MoH beside feed-forward experts", "review", f"model of 28M parameters, {RECIPE_100}", 100, (
        Row("dense", 100, {"top1": 77.0, "params_m": 28}, ABLATIONS, SMALL["dense"], preset("transnext_tiny")),
        Row("MoH", 75, {"top1": 77.2, "params_m": 28}, ABLATIONS, SMALL["full"], preset("moh_vit_tiny_75")),
        Row("two feed-forward experts", 100, {"top1": 78.1, "params_m": 45}, ABLATIONS, SMALL["moe"], preset("transnext_tiny_moe2")),
        Row("MoH and two feed-forward experts", 75, {"top1": 78.1, "params_m": 45}, ABLATIONS, SMALL["moh_moe"], preset("moh_vit_tiny_75_moe2")),
    )),
    "reference_dense_vit": Table(
        "Sizes of the dense models", "release of TransNeXt", "size", "gmacs", "224 pixels", (
            Row("TransNeXt-Tiny", 100, {"params_m": 28.2, "gmacs": 5.7, "top1": 84.0}, ABLATIONS, settings=preset("transnext_tiny")),
            Row("TransNeXt-S", 100, {"params_m": 49.7, "gmacs": 10.3, "top1": 84.7}, PAPER, settings=preset("transnext_small")),
            Row("TransNeXt-B", 100, {"params_m": 89.7, "gmacs": 18.4, "top1": 84.8}, PAPER, settings=preset("transnext_base")),
        ), needs=IMAGENET + "; and the released weights, for top-1: init.from=FILE.pth of a run, then moh eval",
        missing=("top-1: the released weights and ImageNet-1K",)),
}
