"""MoH-TransNeXt (formula 4.5): position tables, both attention layers, whole models, weight decay groups."""

import math

import torch
from torch.nn import functional as F

from case import Case, linear, matrix, norm, normal, with_clear_choices
from routing import Counter, head_weights, record_balances, router_parameters

WINDOW = 3
BIAS_WIDTH = 512


def relative_positions(queries, pooled, trained):
    """Table [P, 2] of the transformed differences, and the flat index [Nq * Nk]."""
    def coordinates(size):
        return torch.stack(torch.meshgrid(*[torch.arange(side, dtype=torch.float64) for side in size], indexing="ij"))

    cells = F.adaptive_avg_pool2d(coordinates(queries)[None], pooled)[0]
    offsets = coordinates(queries).flatten(1).T[:, None] - cells.flatten(1).T[None]
    offsets = offsets / torch.tensor([side - 1 for side in trained], dtype=torch.float64) * 8
    table, index = torch.unique(offsets.reshape(-1, 2).float(), dim=0, return_inverse=True)
    table = table.double()
    return table.sign() * (table.abs() + 1).log2() / 3, index.flatten()


def inside_window(size, window=WINDOW):
    """[N, window**2], true where the neighbour is in the image."""
    return F.unfold(torch.ones(1, 1, *size), window, padding=window // 2)[0].T > 0


def relpos_case():
    config = {"cases": {"same": [[5, 3], [5, 3], None], "pooled": [[9, 6], [3, 3], None], "other": [[4, 4], [2, 2], [12, 12]]},
              "windows": {"wide": [[5, 7], 3, 10], "small": [[3, 3], 3, 1]}}

    def body(run):
        for name, (queries, pooled, trained) in config["cases"].items():
            table, index = relative_positions(queries, pooled, trained or queries)
            run.record(f"out.{name}.relative_coords_table", table.to(run.dtype))
            run.record(f"out.{name}.relative_pos_index", index)
        for name, (size, window, keys) in config["windows"].items():
            inside = inside_window(size, window)
            count = inside.sum(1, keepdim=True).to(run.dtype)
            run.record(f"out.{name}.padding_mask", ~inside)
            run.record(f"out.{name}.local_length", count)
            run.record(f"out.{name}.seq_length_scale", (count + keys).log())
    return Case("transnext_relpos", config, {}, body)


class Attention:
    def __init__(self, prefix, dim, heads, shared, kept, size, trained, pooled=None):
        self.prefix, self.dim, self.heads, self.routing = prefix, dim, heads, (shared, kept)
        self.size, self.pooled, self.width = size, pooled, dim // heads
        self.table, self.index = relative_positions(size, pooled or size, trained)

    def parameters(self, g):
        p, dim, heads, places = self.prefix, self.dim, self.heads, WINDOW**2
        tensors = {**linear(g, f"{p}proj", dim, dim), **linear(g, f"{p}cpb_fc1", BIAS_WIDTH, 2), **linear(g, f"{p}cpb_fc2", heads, BIAS_WIDTH),
                   f"param.{p}temperature": normal(g, heads, 1, 1), f"param.{p}query_embedding": normal(g, heads, 1, self.width, scale=0.3),
                   **router_parameters(g, p, dim, heads, *self.routing)}
        if self.pooled is None:
            return {**tensors, **linear(g, f"{p}qkv", 3 * dim, dim)}
        return {**tensors, **linear(g, f"{p}q", dim, dim), **linear(g, f"{p}kv", 2 * dim, dim), **norm(g, f"{p}norm", dim),
                f"param.{p}sr.weight": matrix(g, dim, dim, 1, 1), f"param.{p}sr.bias": normal(g, dim, scale=0.2),
                f"param.{p}relative_pos_bias_local": normal(g, heads, places), f"param.{p}learnable_bias": normal(g, heads, 1, places, scale=0.2),
                f"param.{p}learnable_tokens": normal(g, heads, self.width, places, scale=0.3)}

    def heads_of(self, x, count=1):
        """[B, N, count * H * d] to `count` times [B, H, N, d]."""
        return x.view(*x.shape[:2], count, self.heads, self.width).permute(2, 0, 3, 1, 4).unbind(0)

    def full(self, run, x, bias):
        q, k, v = self.heads_of(self.affine(run, "qkv", x), 3)
        scale = math.log(self.size[0] * self.size[1])
        q = (unit(q) + run.param(self.prefix + "query_embedding")) * F.softplus(run.param(self.prefix + "temperature")) * scale
        return (q @ unit(k).transpose(-2, -1) + bias).softmax(-1) @ v

    def aggregated(self, run, x, bias):
        q, = self.heads_of(self.affine(run, "q", x))
        k, v = self.heads_of(self.affine(run, "kv", x), 2)
        image = x.transpose(1, 2).reshape(len(x), -1, *self.size)
        convolved = F.conv2d(image, run.param(f"{self.prefix}sr.weight"), run.param(f"{self.prefix}sr.bias"))
        cells = F.adaptive_avg_pool2d(F.gelu(convolved), self.pooled).flatten(2).transpose(1, 2)
        cells = F.layer_norm(cells, (self.dim,), run.param(f"{self.prefix}norm.weight"), run.param(f"{self.prefix}norm.bias"), 1e-5)
        far_k, far_v = self.heads_of(self.affine(run, "kv", cells), 2)
        q, k, far_k = unit(q), self.neighbours(unit(k)), unit(far_k)
        inside = inside_window(self.size)
        keys = (inside.sum(1, keepdim=True) + self.pooled[0] * self.pooled[1]).to(run.dtype)
        scaled = (q + run.param(self.prefix + "query_embedding")) * F.softplus(run.param(self.prefix + "temperature")) * keys.log()
        local = (scaled[..., None, :] @ k)[..., 0, :] + run.param(self.prefix + "relative_pos_bias_local")[:, None]
        logits = torch.cat([local.masked_fill(~inside, float("-inf")), scaled @ far_k.transpose(-2, -1) + bias], -1)
        near, far = logits.softmax(-1).split([WINDOW**2, bias.shape[-1]], -1)
        near = near + q @ run.param(self.prefix + "learnable_tokens") + run.param(self.prefix + "learnable_bias")
        return (near[..., None, :] @ self.neighbours(v).transpose(-2, -1))[..., 0, :] + far @ far_v

    def neighbours(self, x):
        """[B, H, N, d] to [B, H, N, d, 9], zeros outside of the image."""
        batch, heads, tokens, width = x.shape
        image = x.transpose(2, 3).reshape(batch, heads * width, *self.size)
        patches = F.unfold(image, WINDOW, padding=WINDOW // 2).view(batch, heads, width, WINDOW**2, tokens)
        return patches.permute(0, 1, 4, 2, 3)

    def affine(self, run, name, x):
        return x @ run.param(f"{self.prefix}{name}.weight").T + run.param(f"{self.prefix}{name}.bias")

    def forward(self, run, x, counter, inside=False):
        bias = self.affine(run, "cpb_fc2", F.relu(self.affine(run, "cpb_fc1", self.table.float().to(run.dtype))))[self.index]
        bias = bias.view(x.shape[1], -1, self.heads).permute(2, 0, 1)
        out = (self.full if self.pooled is None else self.aggregated)(run, x, bias).transpose(1, 2)
        name = counter.next_attention()
        if inside:
            run.record(f"inter.{name}.head_out", out)
        weights, balance = head_weights(run, self.prefix, x, self.heads, *self.routing, counter)
        run.record(f"inter.{name}.head_weights", weights)
        return self.affine(run, "proj", (out * weights[..., None]).flatten(2)), balance


def unit(v):
    return F.normalize(v, dim=-1)


def attention_case(config):
    c = config
    size, pooled = c["res"], None
    if c["aggregated"]:
        pooled = [c["fixed_pool_size"]] * 2 if c["fixed_pool_size"] else [side // c["sr_ratio"] for side in size]
    layer = Attention("", c["dim"], c["num_heads"], c["shared_head"], c["routed_head"], size, c.get("pretrain_res", size), pooled)
    shape = (c["B"], size[0] * size[1], c["dim"])

    def make(g):
        tensors = {"in.x": normal(g, *shape), "w.y": normal(g, *shape), "in.relative_coords_table": layer.table.float().double(),
                   "in.relative_pos_index": layer.index, **layer.parameters(g)}

        def body(run):
            x = run.differentiable("in.x")
            y, balance = layer.forward(run, x, Counter(), inside=True)
            run.record("out.y", y)
            run.record("out.lb_loss", torch.zeros((), dtype=run.dtype) if balance is None else balance)
            inside = inside_window(size)
            count = inside.sum(1, keepdim=True).to(run.dtype)
            if pooled is None:
                run.record("const.seq_length_scale", torch.tensor(math.log(shape[1]), dtype=run.dtype))
            else:
                run.record("const.padding_mask", ~inside)
                run.record("const.seq_length_scale", (count + pooled[0] * pooled[1]).log())
            run.test_loss("out.loss", y, "w.y", balance)
            if balance is not None:
                run.gradients("grad_lb", balance, ["param.wg.weight", "in.x"])
        return Case("transnext_attention", c, tensors, body)
    return with_clear_choices(make)


class Model:
    def __init__(self, config):
        c, self.blocks, side, trained = config, [], config["img_size"], config["pretrain_size"]
        self.c, self.sizes = c, []
        for stage, (dim, heads, depth) in enumerate(zip(c["embed_dims"], c["num_heads"], c["depths"])):
            cell = 4 << stage
            size, ratio = [side // cell] * 2, c["sr_ratios"][stage]
            self.sizes.append(size)
            routing = c["shared_head"][stage], c["routed_head"][stage]
            self.blocks.append([Attention(f"block{stage + 1}.{i}.attn.", dim, heads, *routing, size, [trained // cell] * 2,
                                          None if ratio == 1 else [each // ratio for each in size]) for i in range(depth)])

    def parameters(self, g):
        c, tensors, channels = self.c, {}, 3
        for stage, (dim, blocks) in enumerate(zip(c["embed_dims"], self.blocks), start=1):
            side = 7 if stage == 1 else 3
            tensors |= {f"param.patch_embed{stage}.proj.weight": matrix(g, dim, channels, side, side),
                        f"param.patch_embed{stage}.proj.bias": normal(g, dim, scale=0.2), **norm(g, f"patch_embed{stage}.norm", dim)}
            hidden = int(2 * int(dim * c["mlp_ratios"][stage - 1]) / 3)
            for i, attention in enumerate(blocks):
                p = f"block{stage}.{i}."
                tensors |= {**attention.parameters(g), **norm(g, p + "norm1", dim), **norm(g, p + "norm2", dim),
                            **linear(g, p + "mlp.fc1", 2 * hidden, dim), **linear(g, p + "mlp.fc2", dim, hidden),
                            f"param.{p}mlp.dwconv.dwconv.weight": matrix(g, hidden, 1, 3, 3),
                            f"param.{p}mlp.dwconv.dwconv.bias": normal(g, hidden, scale=0.2)}
            tensors |= norm(g, f"norm{stage}", dim)
            channels = dim
        return {**tensors, **linear(g, "head", c["num_classes"], channels)}

    def forward(self, run, x):
        def normed(name, value, eps):
            return F.layer_norm(value, value.shape[-1:], run.param(f"{name}.weight"), run.param(f"{name}.bias"), eps)

        counter, balances, number = Counter(), [], 0
        for stage, (size, blocks) in enumerate(zip(self.sizes, self.blocks), start=1):
            side = 7 if stage == 1 else 3
            name = f"patch_embed{stage}"
            x = F.conv2d(x, run.param(f"{name}.proj.weight"), run.param(f"{name}.proj.bias"), stride=4 if stage == 1 else 2, padding=side // 2)
            x = normed(f"{name}.norm", x.flatten(2).transpose(1, 2), 1e-5)
            run.record(f"const.relative_coords_table{stage}", blocks[0].table.to(run.dtype))
            run.record(f"const.relative_pos_index{stage}", blocks[0].index)
            for i, attention in enumerate(blocks):
                p = f"block{stage}.{i}."
                y, balance = attention.forward(run, normed(p + "norm1", x, 1e-6), counter)
                x = x + y
                x = x + glu(run, p + "mlp.", normed(p + "norm2", x, 1e-6), size)
                balances.append(balance)
                run.record(f"inter.block{number}.out", x)
                number += 1
            x = normed(f"norm{stage}", x, 1e-6)
            run.record(f"inter.norm{stage}.out", x)
            last, x = x, x.transpose(1, 2).reshape(len(x), -1, *size)
        return last.mean(1) @ run.param("head.weight").T + run.param("head.bias"), balances


def glu(run, prefix, x, size):
    inner, gate = (x @ run.param(f"{prefix}fc1.weight").T + run.param(f"{prefix}fc1.bias")).chunk(2, -1)
    image = inner.transpose(1, 2).reshape(len(x), -1, *size)
    image = F.conv2d(image, run.param(f"{prefix}dwconv.dwconv.weight"), run.param(f"{prefix}dwconv.dwconv.bias"), padding=1, groups=image.shape[1])
    return (F.gelu(image).flatten(2).transpose(1, 2) * gate) @ run.param(f"{prefix}fc2.weight").T + run.param(f"{prefix}fc2.bias")


def model_case(config):
    c, model = config, Model(config)

    def make(g):
        tensors = {"in.x": normal(g, c["B"], 3, c["img_size"], c["img_size"]), "w.out": normal(g, c["B"], c["num_classes"]),
                   **model.parameters(g)}

        def body(run):
            x = run.differentiable("in.x")
            logits, balances = model.forward(run, x)
            run.record("out.eval", logits)
            run.record("out.train", logits)
            balance = record_balances(run, balances)
            run.test_loss("out.loss", logits, "w.out", balance)
            if balance is not None:
                run.gradients("grad_lb", balance, [name for name in run.parameters() if name.endswith(".wg.weight")])
        return Case("transnext_model", c, tensors, body)
    return with_clear_choices(make)


def weight_decay(case):
    """The names that are decayed, and the others."""
    groups, without = {"decay": [], "no_decay": []}, ("query_embedding", "relative_pos_bias_local", "cpb", "temperature")
    for name, value in case.tensors.items():
        if name.startswith("param."):
            name = name.removeprefix("param.")
            plain = value.dim() == 1 or name.endswith(".bias") or any(part in name for part in without)
            groups["no_decay" if plain else "decay"].append(name)
    return groups
