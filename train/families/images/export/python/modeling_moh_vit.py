# SPDX-License-Identifier: Apache-2.0
"""Classifiers of images with Mixture-of-Head attention (MoH, arXiv 2410.11842): vision transformers and TransNeXt, for PyTorch.

Written by moh beside the weights of a model that it exports. With torch and safetensors alone:

    from modeling_moh_vit import load      # the folder is on Python's path
    model = load(folder)                   # an nn.Module with the interface of timm's models

and AutoModelForImageClassification of transformers opens the folder with `trust_remote_code=True`. A state_dict() has the names of
the weights' file, so that moh opens what torch.save() writes of it.

Shapes: B images of C channels, classes; N tokens of width D.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

try:
    from .moh_attention import Attention, Mlp, RoutedHeads, balance_loss, drop_path, load_weights, logits_of, read_config, routing_of
    from .moh_attention import selection
except ImportError:
    from moh_attention import Attention, Mlp, RoutedHeads, balance_loss, drop_path, load_weights, logits_of, read_config, routing_of
    from moh_attention import selection


class Classifier:
    """What both architectures have: timm's interface. `model` is the section `model` of a run of moh, `pretrained_cfg` how
    evaluations see images, as in timm. Whoever inherits it makes the layers with build()."""

    def build(self, model, pretrained_cfg):
        self.sizes, self.pretrained_cfg = model, pretrained_cfg
        self.add_layers(model)
        self.num_features = self.head_hidden_size = self.width_of_features(model)
        self.head = nn.Linear(self.num_features, model["classes"])

    @property
    def num_classes(self):
        return self.sizes["classes"]

    def get_classifier(self):
        return self.head

    def reset_classifier(self, num_classes, global_pool=None):
        """A new head, with timm's initial values. 0 classes: none, the model returns its features."""
        if global_pool not in (None, self.global_pool):
            raise ValueError(f"global_pool: expected {self.global_pool}, which the model was made with, found {global_pool!r}")
        self.sizes["classes"] = num_classes
        old = next(self.parameters())
        self.head = nn.Linear(self.num_features, num_classes).to(old) if num_classes > 0 else nn.Identity()
        if num_classes > 0:
            nn.init.trunc_normal_(self.head.weight, std=0.02)
            nn.init.zeros_(self.head.bias)

    def forward_features(self, x):
        """Images [B, C, height, width] to features before the pooling; their shape is the architecture's."""
        return self.features_and_routing(x)[0]

    def forward_head(self, x, pre_logits=False):
        """What forward_features() returns to logits [B, classes], or with pre_logits to the features [B, D] of which the head
        makes them."""
        x = self.pool(x)
        return x if pre_logits else self.head(x)

    def logits_and_routing(self, x):
        """Images to logits and a Routing."""
        features, layers = self.features_and_routing(x)
        return self.forward_head(features), routing_of(layers, self.sizes["moh"])


class VitBlock(nn.Module):
    def __init__(self, model, layer):
        super().__init__()
        sizes, width = model["vit"], model["vit"]["hidden"]
        self.drop_path = model["drop_path"] * layer / max(sizes["layers"] - 1, 1)
        self.norm1 = nn.LayerNorm(width, eps=sizes["norm_eps"])
        self.attn = Attention(width, sizes["heads"], sizes["head_dim"] or width // sizes["heads"], model, layer, sizes["single_kv_head"])
        self.norm2 = nn.LayerNorm(width, eps=sizes["norm_eps"])
        self.mlp = Mlp(width, sizes["mlp_ratio"] * width)

    def forward(self, x):
        y, *routing = self.attn(self.norm1(x))
        x = x + drop_path(y, self.drop_path, self.training)
        return x + drop_path(self.mlp(self.norm2(x)), self.drop_path, self.training), *routing


class PatchEmbed(nn.Module):
    def __init__(self, channels, width, patch):
        super().__init__()
        self.proj = nn.Conv2d(channels, width, patch, stride=patch)


class Vit(Classifier):
    """A vision transformer, with the names of timm. forward_features() returns the tokens [B, N, D], the class token first where
    there is one; they are normed, unless the classifier takes their mean, which is normed itself."""

    @property
    def global_pool(self):
        return "avg" if self.sizes["vit"]["pooling"] == "mean" else "token"

    @staticmethod
    def width_of_features(model):
        return model["vit"]["hidden"]

    def add_layers(self, model):
        sizes, width = model["vit"], model["vit"]["hidden"]
        self.has_token = sizes["pooling"] == "class_token"
        self.side = model["image_size"] // sizes["patch_size"]
        if self.has_token:
            self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, self.side**2 + self.has_token, width))
        self.patch_embed = PatchEmbed(3, width, sizes["patch_size"])
        self.blocks = nn.ModuleList(VitBlock(model, layer) for layer in range(sizes["layers"]))
        norm = nn.LayerNorm(width, eps=sizes["norm_eps"])
        if self.has_token:
            self.norm = norm
        else:
            self.fc_norm = norm

    def no_weight_decay(self):
        return {"pos_embed", "cls_token"} if self.has_token else {"pos_embed"}

    def positions(self, height, width):
        """The position embeddings of a grid of tokens; those of another size than the model's are interpolated, as timm does."""
        if (height, width) == (self.side, self.side):
            return self.pos_embed
        token, grid = self.pos_embed[:, : -(self.side**2)], self.pos_embed[:, -(self.side**2) :]
        grid = grid.float().unflatten(1, (self.side, self.side)).permute(0, 3, 1, 2)
        grid = F.interpolate(grid, (height, width), mode="bicubic", antialias=True)
        return torch.cat([token, grid.flatten(2).transpose(1, 2).to(token.dtype)], dim=1)

    def features_and_routing(self, x):
        x = self.patch_embed.proj(x)
        positions = self.positions(*x.shape[2:])
        x = x.flatten(2).transpose(1, 2)
        if self.has_token:
            x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1)
        x, layers = x + positions, []
        for block in self.blocks:
            x, *routing = block(x)
            layers.append(routing)
        return self.norm(x) if self.has_token else x, layers

    def pool(self, x):
        return x[:, 0] if self.has_token else self.fc_norm(x.mean(1))


def offsets(queries, keys):
    """The different offsets, in half tokens, between tokens of an axis and the cells that adaptive pooling divides it into, and the
    number [queries, keys] of each pair's."""
    middles = torch.tensor([k * queries // keys - (-(k + 1) * queries // keys) - 1 for k in range(keys)])
    return torch.unique(2 * torch.arange(queries)[:, None] - middles, return_inverse=True)


def relative_positions(queries, keys, trained):
    """Coordinates [R, 2] of the different offsets from a grid's pooled cells to its tokens, and the row [N, M] of each pair. `queries` and
    `keys` (height, width); `trained` is the side of the grid that the model was trained on, the unit."""
    (ys, y_at), (xs, x_at) = (offsets(*sides) for sides in zip(queries, keys))
    halves = torch.stack(torch.meshgrid(ys, xs, indexing="ij"), dim=-1).flatten(0, 1).float()
    scaled = halves / 2 / max(trained - 1, 1) * 8
    coordinates = scaled.sign() * (scaled.abs() + 1).log2() / 3
    index = y_at[:, None, :, None] * len(xs) + x_at[None, :, None, :]
    return coordinates, index.flatten(2).flatten(0, 1)


class AggregatedAttention(RoutedHeads):
    """Attention of TransNeXt (arXiv 2311.17132): over the neighbours of a token and a grid of pooled tokens, or over all tokens (no
    window), by cosine similarity with a learned temperature and biases of positions. kept_keys percent of the keys that a query
    sees, those of the largest logits, take part."""

    def __init__(self, model, stage, layer):
        sizes, width = model["transnext"], model["transnext"]["dims"][stage]
        heads = sizes["heads"][stage]
        super().__init__(width, heads, sizes["head_dim"] or width // heads, model, layer)
        d = self.head_dim
        self.ratio, self.fixed_pool = sizes["pool_ratios"][stage], sizes["fixed_pool_size"]
        self.window = sizes["window"] if self.ratio > 1 else 0
        self.kept_keys = (sizes["kept_keys"] or [100] * len(sizes["dims"]))[stage]
        self.trained = max(model["image_size"] // (sizes["patch_size"] << stage), 1)
        self.kv_heads = 1 if sizes["single_kv_head"] else heads
        self.temperature = nn.Parameter(torch.zeros(heads, 1, 1))
        self.query_embedding = nn.Parameter(torch.zeros(heads, 1, d))
        if self.window:
            self.relative_pos_bias_local = nn.Parameter(torch.zeros(heads, self.window**2))
            self.learnable_tokens = nn.Parameter(torch.zeros(heads, d, self.window**2))
            self.learnable_bias = nn.Parameter(torch.zeros(heads, 1, self.window**2))
            self.q = nn.Linear(width, heads * d)
            self.kv = nn.Linear(width, 2 * self.kv_heads * d)
            self.sr = nn.Conv2d(width, width, 1)
            self.norm = nn.LayerNorm(width, eps=1e-5)
        else:
            self.qkv = nn.Linear(width, (heads + 2 * self.kv_heads) * d)
        self.proj = nn.Linear(heads * d, width)
        self.cpb_fc1, self.cpb_fc2 = nn.Linear(2, 512), nn.Linear(512, heads)

    def pooled_grid(self, grid):
        if self.window and self.fixed_pool > 0:
            return tuple(min(self.fixed_pool, side) for side in grid)
        return tuple(max(side // self.ratio, 1) for side in grid)

    def position_bias(self, grid, pooled):
        """[H, N, M]."""
        coordinates, index = relative_positions(grid, pooled, self.trained)
        weight = self.cpb_fc1.weight
        rows = self.cpb_fc2(F.relu(self.cpb_fc1(coordinates.to(weight))))
        return rows.T[:, index.to(weight.device)]

    def keys_and_values(self, kv):
        """[B, M, 2 G d] to keys and values [B, H, M, d]."""
        kv = kv.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        return (y.expand(-1, self.heads, -1, -1) for y in kv.chunk(2, dim=1))

    def neighbours(self, x, grid):
        """x [B, H, N, d] to those of the tokens around each, [B, H, N, w^2, d]; zeros outside of the image."""
        image = x.transpose(2, 3).flatten(1, 2).unflatten(-1, grid)
        around = F.unfold(image, self.window, padding=self.window // 2)
        return around.unflatten(1, (self.heads, self.head_dim, -1)).permute(0, 1, 4, 3, 2)

    def inside(self, grid, device):
        """Which neighbours of each token are inside of the image, [N, w^2]."""
        ones = torch.ones(1, 1, *grid, device=device)
        return F.unfold(ones, self.window, padding=self.window // 2)[0].T > 0

    def weights(self, logits, visible):
        """Softmax of logits [B, H, N, keys], -inf where a query does not see the key; visible [N] counts those that it sees."""
        if self.kept_keys < 100:
            last = (visible * self.kept_keys + 99) // 100 - 1
            least = logits.sort(dim=-1, descending=True).values.gather(-1, last[:, None].expand(*logits.shape[:3], 1))
            logits = logits.masked_fill(logits < least, float("-inf"))
        return logits.softmax(-1)

    def scaled_queries(self, unit, visible):
        factor = F.softplus(self.temperature.float()) * visible.float().log()[:, None]
        return ((unit + self.query_embedding.float()) * factor).to(unit.dtype)

    def over_all(self, x, grid):
        qkv = self.qkv(x)
        q, kv = qkv.split([self.heads * self.head_dim, 2 * self.kv_heads * self.head_dim], dim=-1)
        k, v = self.keys_and_values(kv)
        unit = F.normalize(q.unflatten(-1, (self.heads, -1)).transpose(1, 2).float(), dim=-1)
        visible = torch.full((x.shape[1],), x.shape[1], device=x.device)
        logits = self.scaled_queries(unit, visible) @ F.normalize(k.float(), dim=-1).mT + self.position_bias(grid, grid)
        return self.weights(logits, visible).to(v.dtype) @ v

    def over_window(self, x, grid):
        pooled = self.pooled_grid(grid)
        k, v = self.keys_and_values(self.kv(x))
        cells = F.adaptive_avg_pool2d(F.gelu(self.sr(x.transpose(1, 2).unflatten(-1, grid))), pooled)
        pooled_k, pooled_v = self.keys_and_values(self.kv(self.norm(cells.flatten(2).transpose(1, 2))))
        inside = self.inside(grid, x.device)
        visible = inside.sum(-1) + math.prod(pooled)
        unit = F.normalize(self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2).float(), dim=-1)
        q = self.scaled_queries(unit, visible)
        local = (q.unsqueeze(-2) @ self.neighbours(F.normalize(k.float(), dim=-1), grid).mT).squeeze(-2)
        local = (local + self.relative_pos_bias_local[:, None]).masked_fill(~inside, float("-inf"))
        far = q @ F.normalize(pooled_k.float(), dim=-1).mT + self.position_bias(grid, pooled)
        weights = self.weights(torch.cat([local, far], dim=-1), visible)
        near, far = weights.split([self.window**2, far.shape[-1]], dim=-1)
        near = near + unit @ self.learnable_tokens.float() + self.learnable_bias.float()
        mixed = (near.to(v.dtype).unsqueeze(-2) @ self.neighbours(v, grid)).squeeze(-2)
        return mixed + far.to(v.dtype) @ pooled_v

    def forward(self, x, grid):
        """x [B, N, D], the tokens of a grid (height, width), to [B, N, D], the gates and the load-balance loss."""
        gates, balance = self.route(x)
        y = self.over_window(x, grid) if self.window else self.over_all(x, grid)
        return self.proj(self.joined(x, y.transpose(1, 2), gates)), gates, balance


class Depthwise(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, 3, padding=1, groups=width)


class ConvGlu(nn.Module):
    """fc2(gelu(conv(u)) g) with [u | g] = fc1(x); the convolution is depthwise, over the grid of tokens."""

    def __init__(self, width, hidden):
        super().__init__()
        self.fc1, self.dwconv, self.fc2 = nn.Linear(width, 2 * hidden), Depthwise(hidden), nn.Linear(hidden, width)

    def forward(self, x, grid):
        u, g = self.fc1(x).chunk(2, dim=-1)
        u = self.dwconv.dwconv(u.transpose(1, 2).unflatten(-1, grid))
        return self.fc2(F.gelu(u.flatten(2).transpose(1, 2)) * g), None


class ExpertGlu(nn.Module):
    """A mixture of ConvGlu, of which each token takes the one with the largest probability, times that."""

    def __init__(self, width, hidden, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(ConvGlu(width, hidden) for _ in range(experts))

    def forward(self, x, grid):
        probabilities = logits_of(self.gate.weight, x).softmax(-1)
        selected = selection(probabilities, 1)
        shares = (probabilities * selected).to(x.dtype)
        y = sum(expert(x, grid)[0] * shares[..., i, None] for i, expert in enumerate(self.experts))
        return y, balance_loss(probabilities, selected, "code")


class TransNextBlock(nn.Module):
    def __init__(self, model, stage, layer):
        super().__init__()
        sizes, width = model["transnext"], model["transnext"]["dims"][stage]
        self.drop_path = model["drop_path"] * layer / max(sum(sizes["depths"]) - 1, 1)
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = AggregatedAttention(model, stage, layer)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        hidden = 2 * width * sizes["mlp_ratios"][stage] // 3
        self.mlp = ConvGlu(width, hidden) if sizes["experts"] == 1 else ExpertGlu(width, hidden, sizes["experts"])

    def forward(self, x, grid):
        y, *routing = self.attn(self.norm1(x), grid)
        x = x + drop_path(y, self.drop_path, self.training)
        y, of_experts = self.mlp(self.norm2(x), grid)
        return x + drop_path(y, self.drop_path, self.training), *routing, of_experts


class OverlapPatchEmbed(nn.Module):
    def __init__(self, channels, width, kernel, stride):
        super().__init__()
        self.proj = nn.Conv2d(channels, width, kernel, stride=stride, padding=kernel // 2)
        self.norm = nn.LayerNorm(width, eps=1e-5)

    def forward(self, x):
        """An image [B, C, height, width] to tokens [B, N, D] and their grid."""
        x = self.proj(x)
        return self.norm(x.flatten(2).transpose(1, 2)), tuple(x.shape[2:])


def by_block(moh, depths):
    """The section `moh` with a value for each block in place of one for each stage."""

    def spread(values):
        of_stages = isinstance(values, list) and len(values) == len(depths)
        return [value for value, depth in zip(values, depths) for _ in range(depth)] if of_stages else values

    listed = {key: spread(moh[key]) for key in ("num_shared", "top_k")}
    if isinstance(moh["shared_heads"], list) and all(isinstance(each, list) for each in moh["shared_heads"]):
        listed["shared_heads"] = spread(moh["shared_heads"])
    return {**moh, **listed}


class TransNext(Classifier):
    """TransNeXt, with the names of its released code. forward_features() returns the normed tokens of the last stage as an image
    [B, D, height, width], as timm's models of stages do."""

    global_pool = "avg"

    @staticmethod
    def width_of_features(model):
        return model["transnext"]["dims"][-1]

    def add_layers(self, model):
        sizes, layer = model["transnext"], 0
        model = {**model, "moh": by_block(model["moh"], sizes["depths"])}
        for stage, (width, depth) in enumerate(zip(sizes["dims"], sizes["depths"])):
            patch = sizes["patch_size"]
            embed = OverlapPatchEmbed(sizes["dims"][stage - 1], width, 3, 2) if stage else OverlapPatchEmbed(3, width, 2 * patch - 1, patch)
            setattr(self, f"patch_embed{stage + 1}", embed)
            setattr(self, f"block{stage + 1}", nn.ModuleList(TransNextBlock(model, stage, layer + i) for i in range(depth)))
            setattr(self, f"norm{stage + 1}", nn.LayerNorm(width, eps=1e-6))
            layer += depth

    def no_weight_decay(self):
        parts = ("query_embedding", "relative_pos_bias_local", "cpb", "temperature")
        return {name for name, _ in self.named_parameters() if any(part in name for part in parts)}

    def features_and_routing(self, x):
        layers = []
        for stage in range(1, len(self.sizes["transnext"]["dims"]) + 1):
            x, grid = getattr(self, f"patch_embed{stage}")(x)
            for block in getattr(self, f"block{stage}"):
                x, *routing = block(x, grid)
                layers.append(routing)
            x = getattr(self, f"norm{stage}")(x).transpose(1, 2).unflatten(-1, grid)
        return x, layers

    def pool(self, x):
        return x.mean((2, 3))


class Plain(nn.Module):
    """A classifier without transformers, of a config.json. forward() returns logits [B, classes]; with output_gates also a Routing.
    `drop_path` acts in training, the load-balance loss is for the training loop to add (model.moh.balance_weight times it)."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.build(config["model"], config["pretrained_cfg"])

    def forward(self, x, output_gates=False):
        logits, routing = self.logits_and_routing(x)
        return (logits, routing) if output_gates else logits


class MohVit(Vit, Plain):
    pass


class MohTransNext(TransNext, Plain):
    pass


ARCHITECTURES = {"vit": MohVit, "transnext": MohTransNext}


def load(folder):
    """The model of a folder that moh exported, with its weights, for evaluations: call train() to train it."""
    config = read_config(folder, "moh_vit")
    return load_weights(ARCHITECTURES[config["model"]["architecture"]](config), folder).eval()
