"""MoH-LLaMA3 (formula 4.6): the attention layer and a whole language model, and its dense form."""

import torch
from torch.nn import functional as F

from case import Case, matrix, normal, with_clear_choices
from routing import top_heads


def rope_table(positions, width, theta):
    """cos and sin [T, d] for positions [T]."""
    angles = positions.double()[:, None] * theta ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    return [function(torch.cat([angles, angles], 1)) for function in (torch.cos, torch.sin)]


class Attention:
    def __init__(self, config, prefix, number):
        self.c, self.prefix, self.number = config, prefix, number
        self.heads, self.groups = config["num_attention_heads"], config["num_key_value_heads"]
        self.width = config.get("head_dim", config["hidden_size"] // self.heads)
        self.shared, self.kept = int(self.heads * 0.5), int(self.heads * 0.25)

    def parameters(self, g):
        hidden, inner, keys = self.c["hidden_size"], self.heads * self.width, self.groups * self.width
        shapes = {"q_proj": (inner, hidden), "k_proj": (keys, hidden), "v_proj": (keys, hidden), "o_proj": (hidden, inner)}
        return {f"param.{self.prefix}{name}.weight": matrix(g, *shape) for name, shape in shapes.items()}

    def keep(self, run, q):
        """Factors 0 and 1 [B, T, H] by the norms of queries [B, T, H, d]."""
        norms = q[:, :, self.shared:].norm(dim=-1).reshape(-1, self.heads - self.shared)
        gates = (norms / norms.std(-1, keepdim=True)).softmax(-1)
        indices = top_heads(run, gates.detach(), self.kept, f"router{self.number}")
        factors = torch.cat([gates.new_ones(len(gates), self.shared), torch.zeros_like(gates).scatter(1, indices, 1.0)], 1)
        factors = factors.detach().view(*q.shape[:3])
        run.record(f"inter.attn{self.number}.head_weights", factors)
        return factors

    def forward(self, run, x, table, routed=True, mask=None, inside=False):
        def project(name, heads):
            return (x @ run.param(f"{self.prefix}{name}.weight").T).view(*x.shape[:2], heads, self.width)

        def turned(value):
            cos, sin = (each.to(run.dtype)[:, None] for each in table)
            low, high = value.chunk(2, -1)
            return value * cos + torch.cat([-high, low], -1) * sin

        q, repeat = project("q_proj", self.heads), self.heads // self.groups
        k, v = (each.repeat_interleave(repeat, 2).transpose(1, 2)
                for each in (turned(project("k_proj", self.groups)), project("v_proj", self.groups)))
        scores = turned(q).transpose(1, 2) @ k.transpose(-2, -1) / self.width**0.5
        allowed = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        if mask is not None:
            allowed = allowed & (mask == 1)[:, None, None]
        out = scores.masked_fill(~allowed, float("-inf")).softmax(-1).nan_to_num() @ v
        out = out.transpose(1, 2)
        if inside:
            run.record(f"inter.attn{self.number}.head_out", out)
        if routed:
            out = out * self.keep(run, q)[..., None]
        return out.flatten(2) @ run.param(f"{self.prefix}o_proj.weight").T


def attention_case(config):
    c = config
    layer = Attention(c, "", 0)

    def make(g):
        shape = (c["B"], c["N"], c["hidden_size"])
        mask = torch.ones(c["B"], c["N"], dtype=torch.int64)
        mask[-1, c["N"] - c["pad"]:] = 0
        tensors = {"in.x": normal(g, *shape), "w.y": normal(g, *shape), "in.attention_mask": mask, **layer.parameters(g),
                   "in.position_ids": torch.arange(c["first_position"], c["first_position"] + c["N"]).repeat(c["B"], 1)}

        def body(run):
            x, table = run.differentiable("in.x"), rope_table(run["in.position_ids"][0], layer.width, c["rope_theta"])
            constants = rope_table(torch.arange(c["first_position"] + c["N"]), layer.width, c["rope_theta"])
            for name, value in zip(("cos", "sin"), constants):
                run.record(f"const.rope_{name}", value.to(run.dtype))
            run.record("out.y_padded", layer.forward(run, x, table, mask=run["in.attention_mask"]))
            run.record("out.y_dense", layer.forward(run, x, table, routed=False))
            y = layer.forward(run, x, table, inside=True)
            run.record("out.y", y)
            run.test_loss("out.loss", y, "w.y", None)
        return Case("llama_moh_attention", c, tensors, body)
    return with_clear_choices(make)


class Model:
    def __init__(self, config):
        self.c = config
        self.layers = [Attention(config, f"model.layers.{i}.self_attn.", i) for i in range(config["num_hidden_layers"])]

    def parameters(self, g):
        c, tensors = self.c, {}
        hidden, inner = c["hidden_size"], c["intermediate_size"]

        def scale():
            return (1 + normal(g, hidden, scale=0.2)).float().double()

        for i, layer in enumerate(self.layers):
            prefix = f"param.model.layers.{i}."
            tensors |= {**layer.parameters(g), f"{prefix}mlp.gate_proj.weight": matrix(g, inner, hidden),
                        f"{prefix}mlp.up_proj.weight": matrix(g, inner, hidden), f"{prefix}mlp.down_proj.weight": matrix(g, hidden, inner),
                        f"{prefix}input_layernorm.weight": scale(), f"{prefix}post_attention_layernorm.weight": scale()}
        return {**tensors, "param.model.embed_tokens.weight": normal(g, c["vocab_size"], hidden),
                "param.model.norm.weight": scale(), "param.lm_head.weight": matrix(g, c["vocab_size"], hidden)}

    def logits(self, run, ids, routed=True):
        def norm(name, x):
            return x * (x.square().mean(-1, keepdim=True) + self.c["rms_norm_eps"]).rsqrt() * run.param(f"{name}.weight")

        def linear(name, x):
            return x @ run.param(f"{name}.weight").T

        x = run.param("model.embed_tokens.weight")[ids]
        table = rope_table(torch.arange(ids.shape[1]), self.layers[0].width, self.c["rope_theta"])
        for i, layer in enumerate(self.layers):
            prefix = f"model.layers.{i}."
            x = x + layer.forward(run, norm(prefix + "input_layernorm", x), table, routed)
            y = norm(prefix + "post_attention_layernorm", x)
            x = x + linear(prefix + "mlp.down_proj", F.silu(linear(prefix + "mlp.gate_proj", y)) * linear(prefix + "mlp.up_proj", y))
            if routed:
                run.record(f"inter.layer{i}.out", x)
        return linear("lm_head", norm("model.norm", x))


def next_token_loss(logits, labels):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def model_case(config):
    c, model = config, Model(config)

    def make(g):
        ids = torch.randint(c["vocab_size"], (c["B"], c["N"]), generator=g)
        labels = ids.clone()
        labels[0, 2:4] = -100
        tensors = {"in.input_ids": ids, "in.labels": labels, "w.logits": normal(g, c["B"], c["N"], c["vocab_size"]), **model.parameters(g)}

        def body(run):
            logits, dense = model.logits(run, run["in.input_ids"]), model.logits(run, run["in.input_ids"], routed=False)
            ce, dense_ce = (next_token_loss(each, run["in.labels"]) for each in (logits, dense))
            for name, value in {"logits": logits, "dense.logits": dense, "ce_loss": ce, "dense.ce_loss": dense_ce}.items():
                run.record(f"out.{name}", value)
            run.gradients("grad_ce", ce, run.parameters())
            run.gradients("grad_ce_dense", dense_ce, run.parameters())
            run.test_loss("out.loss", logits, "w.logits", None, inputs=())
        return Case("llama_model", c, tensors, body)
    return with_clear_choices(make)
