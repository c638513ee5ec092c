"""moh's image classifiers in PyTorch: ViT (DeiT) and TransNeXt, dense and MoH. MoH is the reference formulation, as in
models.py: every head is computed and multiplied by its gate. Parameters have moh's names and shapes, so a checkpoint of moh
loads as it is; images are [B, channels, side, side].

Shapes: B images, N tokens of a grid h x w, D width, H heads, d head width, W window positions, M pooled tokens.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from models import Attention, HeadRouter
from routing import block_routings, check_supported_images

NORM_EPS = 1e-6
PATCH_NORM_EPS = 1e-5  # after patch embeddings and of pooled tokens
BIAS_WIDTH = 512  # inside the MLP of the position bias


class DropPath(nn.Module):
    """Drops the residual branch of a sample with probability `rate` in training (stochastic depth)."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if self.rate == 0.0 or not self.training:
            return x
        kept = torch.rand((x.shape[0],) + (1,) * (x.dim() - 1), device=x.device) >= self.rate
        return x * (kept / (1.0 - self.rate)).to(x.dtype)


def drop_rates(model, blocks):
    return [model["drop_path"] * i / max(blocks - 1, 1) for i in range(blocks)]


class VitMlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class VitBlock(nn.Module):
    def __init__(self, vit, routing, drop_rate):
        super().__init__()
        width, heads = vit["hidden"], vit["heads"]
        self.norm1, self.norm2 = (nn.LayerNorm(width, eps=vit["norm_eps"]) for _ in range(2))
        self.attn = Attention(width, heads, width // heads, causal=False, bias=True, routing=routing)
        self.mlp = VitMlp(width, vit["mlp_ratio"] * width)
        self.drop_path = DropPath(drop_rate)

    def forward(self, x):
        y, balance = self.attn(self.norm1(x))
        x = x + self.drop_path(y)
        return x + self.drop_path(self.mlp(self.norm2(x))), balance


class PatchEmbed(nn.Module):
    def __init__(self, width, patch):
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, patch)

    def forward(self, images):
        return self.proj(images).flatten(2).transpose(1, 2)


class Vit(nn.Module):
    """`model` is the model section of the resolved configuration."""

    def __init__(self, model):
        super().__init__()
        check_supported_images(model)
        vit = model["vit"]
        self.class_token = vit["pooling"] == "class_token"
        tokens = (model["image_size"] // vit["patch_size"]) ** 2 + int(self.class_token)
        if self.class_token:
            self.cls_token = nn.Parameter(torch.zeros(1, 1, vit["hidden"]))
        self.pos_embed = nn.Parameter(torch.randn(1, tokens, vit["hidden"]) * 0.02)
        self.patch_embed = PatchEmbed(vit["hidden"], vit["patch_size"])
        routings = block_routings(model)
        self.blocks = nn.ModuleList(VitBlock(vit, *each) for each in zip(routings, drop_rates(model, vit["layers"])))
        norm = nn.LayerNorm(vit["hidden"], eps=vit["norm_eps"])
        self.add_module("norm" if self.class_token else "fc_norm", norm)
        self.head = nn.Linear(vit["hidden"], model["classes"])

    def forward(self, images):
        """Logits [B, classes] and the load-balance losses of the MoH layers."""
        x = self.patch_embed(images)
        if self.class_token:
            x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1)
        x = x + self.pos_embed
        balances = []
        for block in self.blocks:
            x, balance = block(x)
            balances.append(balance)
        pooled = self.norm(x[:, 0]) if self.class_token else self.fc_norm(x.mean(1))
        return self.head(pooled), [each for each in balances if each is not None]


def relative_positions(size, pooled, trained):
    """(coordinates [P, 2] of the different offsets from a cell to a token, index [N, M] of each pair's)."""
    tokens = torch.stack(torch.meshgrid(*(torch.arange(n, dtype=torch.float32) for n in size), indexing="ij"))
    cells = F.adaptive_avg_pool2d(tokens[None], pooled)[0]
    offsets = tokens.flatten(1).T[:, None] - cells.flatten(1).T[None]
    coordinates, index = torch.unique(offsets.reshape(-1, 2), dim=0, return_inverse=True)
    scaled = coordinates / max(trained - 1, 1) * 8
    return scaled.sign() * (scaled.abs() + 1).log2() / 3, index.view(offsets.shape[:2])


class CosineAttention(nn.Module):
    """What full and aggregated attention have in common. Routers are children of the layer itself, as in moh."""

    def __init__(self, width, heads, routing, grid):
        super().__init__()
        self.heads, self.head_dim = heads, width // heads
        self.temperature = nn.Parameter(torch.full((heads, 1, 1), math.log(math.expm1(1 / 0.24))))
        self.query_embedding = nn.Parameter(torch.randn(heads, 1, self.head_dim) * 0.02)
        self.proj = nn.Linear(width, width)
        self.cpb_fc1, self.cpb_fc2 = nn.Linear(2, BIAS_WIDTH), nn.Linear(BIAS_WIDTH, heads)
        self.router = HeadRouter(width, heads, routing) if routing else None
        self.register_buffer("coordinates", grid.coordinates, persistent=False)
        self.register_buffer("index", grid.index, persistent=False)

    def split(self, x):
        """[B, N, n D] to [B, n H, N, d]."""
        return x.view(*x.shape[:2], -1, self.head_dim).transpose(1, 2)

    def scaled(self, q, log_keys):
        """(q + e_h) softplus(tau_h) log(keys of a query), for unit queries; log_keys in the dtype of q, or a number."""
        return (q + self.query_embedding) * (F.softplus(self.temperature) * log_keys)

    def position_bias(self):
        """[H, N, M]"""
        coordinates = self.coordinates.to(self.cpb_fc1.weight.dtype)
        return self.cpb_fc2(F.relu(self.cpb_fc1(coordinates)))[self.index].permute(2, 0, 1)

    def out(self, x, y):
        """From heads y [B, H, N, d]: the layer's output and its load-balance loss."""
        y, balance = y.transpose(1, 2), None
        if self.router is not None:
            gates, balance = self.router(x)
            y = y * gates.unsqueeze(-1).to(y.dtype)
        return self.proj(y.reshape(x.shape)), balance


class FullAttention(CosineAttention):
    def __init__(self, width, heads, routing, grid):
        super().__init__(width, heads, routing, grid)
        self.qkv = nn.Linear(width, 3 * width)
        self.log_keys = math.log(grid.size[0] * grid.size[1])

    def forward(self, x):
        q, k, v = self.split(self.qkv(x)).chunk(3, dim=1)
        q = self.scaled(F.normalize(q, dim=-1), self.log_keys)
        y = F.scaled_dot_product_attention(q, F.normalize(k, dim=-1), v, attn_mask=self.position_bias(), scale=1.0)
        return self.out(x, y)


class AggregatedAttention(CosineAttention):
    """Attention to a window of neighbours and to pooled tokens, under one softmax."""

    def __init__(self, width, heads, routing, grid):
        super().__init__(width, heads, routing, grid)
        self.size, self.pooled_size, self.window = grid.size, grid.pooled, grid.window
        count = grid.window ** 2
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.sr, self.norm = nn.Conv2d(width, width, 1), nn.LayerNorm(width, eps=PATCH_NORM_EPS)
        self.relative_pos_bias_local = nn.Parameter(torch.randn(heads, count) * 0.0004)
        self.learnable_tokens = nn.Parameter(torch.randn(heads, self.head_dim, count) * 0.02)
        self.learnable_bias = nn.Parameter(torch.zeros(heads, 1, count))
        inside = F.unfold(torch.ones(1, 1, *grid.size), grid.window, padding=grid.window // 2)[0].T  # [N, W]
        keys = inside.sum(1, keepdim=True) + grid.pooled[0] * grid.pooled[1]
        self.register_buffer("log_keys", keys.log(), persistent=False)
        self.register_buffer("outside", torch.where(inside > 0, 0.0, -math.inf), persistent=False)

    def neighbours(self, x):
        """[B, n H, N, d] to [B, n H, N, d, W]; zeros outside of the image."""
        batch, heads, tokens, width = x.shape
        image = x.transpose(2, 3).reshape(batch, heads * width, *self.size)
        patches = F.unfold(image, self.window, padding=self.window // 2)
        return patches.view(batch, heads, width, -1, tokens).permute(0, 1, 4, 2, 3)

    def pooled(self, x):
        image = x.transpose(1, 2).reshape(x.shape[0], -1, *self.size)
        cells = F.adaptive_avg_pool2d(F.gelu(self.sr(image)), self.pooled_size)
        return self.norm(cells.flatten(2).transpose(1, 2))

    def forward(self, x):
        q = F.normalize(self.split(self.q(x)), dim=-1)
        scaled = self.scaled(q, self.log_keys.to(q.dtype))
        k, v = self.split(self.kv(x)).chunk(2, dim=1)
        k, v = self.neighbours(torch.cat([F.normalize(k, dim=-1), v], dim=1)).chunk(2, dim=1)
        pooled_k, pooled_v = self.split(self.kv(self.pooled(x))).chunk(2, dim=1)
        local = (scaled.unsqueeze(-2) @ k).squeeze(-2) + self.relative_pos_bias_local.unsqueeze(1) + self.outside.to(q.dtype)
        far = scaled @ F.normalize(pooled_k, dim=-1).transpose(-2, -1) + self.position_bias()
        local, far = torch.cat([local, far], dim=-1).softmax(-1).split([local.shape[-1], far.shape[-1]], dim=-1)
        local = local + q @ self.learnable_tokens + self.learnable_bias
        return self.out(x, (local.unsqueeze(-2) @ v.transpose(-2, -1)).squeeze(-2) + far @ pooled_v)


class Depthwise(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, 3, padding=1, groups=width)


class ConvGlu(nn.Module):
    def __init__(self, width, hidden, size):
        super().__init__()
        self.size = size
        self.fc1, self.fc2 = nn.Linear(width, 2 * hidden), nn.Linear(hidden, width)
        self.dwconv = Depthwise(hidden)

    def forward(self, x):
        gate, value = self.fc1(x).chunk(2, dim=-1)
        image = gate.transpose(1, 2).reshape(x.shape[0], -1, *self.size)
        gate = F.gelu(self.dwconv.dwconv(image)).flatten(2).transpose(1, 2)
        return self.fc2(gate * value)


class Grid:
    """Sizes of a stage, and the relative positions of its tokens and keys."""

    def __init__(self, model, stage):
        transnext = model["transnext"]
        patch = transnext["patch_size"] << stage
        ratio = transnext["pool_ratios"][stage]
        side, self.window = model["image_size"] // patch, transnext["window"]
        self.aggregated = ratio > 1
        self.size, self.pooled = (side, side), (max(side // ratio, 1),) * 2
        self.coordinates, self.index = relative_positions(self.size, self.pooled, side)


class TransNextBlock(nn.Module):
    def __init__(self, width, heads, hidden, grid, routing, drop_rate):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, eps=NORM_EPS) for _ in range(2))
        attention = AggregatedAttention if grid.aggregated else FullAttention
        self.attn = attention(width, heads, routing, grid)
        self.mlp = ConvGlu(width, hidden, grid.size)
        self.drop_path = DropPath(drop_rate)

    def forward(self, x):
        y, balance = self.attn(self.norm1(x))
        x = x + self.drop_path(y)
        return x + self.drop_path(self.mlp(self.norm2(x))), balance


class OverlapPatchEmbed(nn.Module):
    def __init__(self, channels, width, kernel, stride):
        super().__init__()
        self.proj = nn.Conv2d(channels, width, kernel, stride, kernel // 2)
        self.norm = nn.LayerNorm(width, eps=PATCH_NORM_EPS)

    def forward(self, image):
        return self.norm(self.proj(image).flatten(2).transpose(1, 2))


class TransNext(nn.Module):
    """`model` is the model section of the resolved configuration. Images have its image_size."""

    def __init__(self, model):
        super().__init__()
        check_supported_images(model)
        transnext = model["transnext"]
        self.stages = len(transnext["depths"])
        routings = block_routings(model)
        blocks = list(zip(routings, drop_rates(model, len(routings))))
        self.sizes, channels = [], 3
        for stage, width in enumerate(transnext["dims"]):
            grid, heads = Grid(model, stage), transnext["heads"][stage]
            self.sizes.append(grid.size)
            hidden = 2 * transnext["mlp_ratios"][stage] * width // 3
            kernel, stride = (2 * transnext["patch_size"] - 1, transnext["patch_size"]) if stage == 0 else (3, 2)
            self.add_module(f"patch_embed{stage + 1}", OverlapPatchEmbed(channels, width, kernel, stride))
            own, blocks = blocks[:transnext["depths"][stage]], blocks[transnext["depths"][stage]:]
            self.add_module(f"block{stage + 1}",
                            nn.ModuleList(TransNextBlock(width, heads, hidden, grid, *each) for each in own))
            self.add_module(f"norm{stage + 1}", nn.LayerNorm(width, eps=NORM_EPS))
            channels = width
        self.head = nn.Linear(channels, model["classes"])

    def forward(self, images):
        """Logits [B, classes] and the load-balance losses of the MoH layers."""
        x, balances = images, []
        for stage, size in enumerate(self.sizes, start=1):
            x = getattr(self, f"patch_embed{stage}")(x)
            for block in getattr(self, f"block{stage}"):
                x, balance = block(x)
                balances.append(balance)
            x = getattr(self, f"norm{stage}")(x)
            if stage < self.stages:
                x = x.transpose(1, 2).reshape(x.shape[0], -1, *size)
        return self.head(x.mean(1)), [each for each in balances if each is not None]


class Classifier(nn.Module):
    """The training loss of a classifier for soft targets."""

    def __init__(self, model):
        super().__init__()
        self.net = {"vit": Vit, "transnext": TransNext}[model["architecture"]](model)
        self.balance_weight = model["moh"]["balance_weight"]
        for weight in self.net.parameters():
            if weight.dim() == 2:
                nn.init.trunc_normal_(weight, std=0.02)

    def forward(self, images, targets):
        """The training loss for targets [B, classes], load-balance loss included."""
        logits, balances = self.net(images)
        loss = F.cross_entropy(logits.float(), targets)
        if balances:
            loss = loss + self.balance_weight * torch.stack(balances).mean()
        return loss
