# SPDX-License-Identifier: Apache-2.0
"""Diffusion transformers (DiT, arXiv 2212.09748), dense or with Mixture-of-Head attention (MoH, arXiv 2410.11842), for PyTorch.

Written by moh beside the weights of a model that it exports. With torch and safetensors alone:

    from modeling_moh_dit import load      # the folder is on Python's path
    model = load(folder)
    prediction = model(x, t, y)

The interface is that of the released code of DiT, so that its sampling and training programs take the model. A state_dict() has the
names of the weights' file, so that moh opens what torch.save() writes of it.

Shapes: B samples of C channels and side S, pixels or latents; N tokens of width D.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

try:
    from .moh_attention import Attention, Mlp, load_weights, of_layer, read_config, routing_of
except ImportError:
    from moh_attention import Attention, Mlp, load_weights, of_layer, read_config, routing_of

TIME_WIDTH, GUIDED_CHANNELS = 256, 3


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


def normed(x):
    return F.layer_norm(x, x.shape[-1:], eps=1e-6)


class PatchEmbed(nn.Module):
    def __init__(self, channels, width, patch):
        super().__init__()
        self.proj = nn.Conv2d(channels, width, patch, stride=patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class TimestepEmbedder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(TIME_WIDTH, width), nn.SiLU(), nn.Linear(width, width))

    @staticmethod
    def timestep_embedding(t, dim=TIME_WIDTH, max_period=10000):
        """t [B] to cosines, then sines, of dim / 2 frequencies each, [B, dim]."""
        half = dim // 2
        exponents = torch.arange(half, dtype=torch.float64, device="cpu") / half
        frequencies = (-math.log(max_period) * exponents).exp().float().to(t.device)
        angles = t[:, None].float() * frequencies
        return torch.cat([angles.cos(), angles.sin()], dim=-1)

    def forward(self, t):
        return self.mlp(self.timestep_embedding(t).to(self.mlp[0].weight.dtype))


class LabelEmbedder(nn.Module):
    """A row for each class, and one for none. In training a share `dropout` of the labels becomes that one."""

    def __init__(self, classes, width, dropout):
        super().__init__()
        self.num_classes, self.dropout_prob = classes, dropout
        self.embedding_table = nn.Embedding(classes + 1, width)

    def forward(self, labels):
        if self.training and self.dropout_prob > 0:
            dropped = torch.rand(labels.shape, device=labels.device) < self.dropout_prob
            labels = torch.where(dropped, self.num_classes, labels)
        return self.embedding_table(labels)


class Block(nn.Module):
    """adaLN-zero: the condition of a sample gives shift, scale and gate of attention, then of the MLP."""

    def __init__(self, model, layer):
        super().__init__()
        width, heads = model["hidden"], of_layer(model["heads"], layer)
        self.attn = Attention(width, heads, model["head_dim"] or width // heads, model, layer)
        self.mlp = Mlp(width, model["mlp_ratio"] * width, approximate="tanh")
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x, c):
        """x [B, N, D] and the condition c [B, D], before its SiLU."""
        rows = self.adaLN_modulation(c).chunk(6, dim=1)
        y, *routing = self.attn(modulate(normed(x), *rows[:2]), F.silu(c))
        x = x + rows[2].unsqueeze(1) * y
        return x + rows[5].unsqueeze(1) * self.mlp(modulate(normed(x), *rows[3:5])), *routing


class FinalLayer(nn.Module):
    def __init__(self, width, outputs):
        super().__init__()
        self.linear = nn.Linear(width, outputs)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))

    def forward(self, x, c):
        return self.linear(modulate(normed(x), *self.adaLN_modulation(c).chunk(2, dim=1)))


class MohDit(nn.Module):
    """A diffusion transformer of a config.json, whose `model` is the section `model` of a run of moh."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        model = self.sizes = config["model"]
        self.input_size, self.patch_size = model["image_size"], model["patch_size"]
        self.in_channels, self.learn_sigma = model["channels"], model["learn_variance"]
        self.out_channels = self.in_channels * (2 if self.learn_sigma else 1)
        width, side = model["hidden"], self.input_size // self.patch_size
        self.x_embedder = PatchEmbed(self.in_channels, width, self.patch_size)
        self.t_embedder = TimestepEmbedder(width)
        self.y_embedder = LabelEmbedder(model["classes"], width, config["class_dropout_prob"])
        self.pos_embed = nn.Parameter(torch.zeros(1, side**2, width), requires_grad=False)
        self.blocks = nn.ModuleList(Block(model, layer) for layer in range(model["layers"]))
        self.final_layer = FinalLayer(width, self.patch_size**2 * self.out_channels)

    @property
    def dtype(self):
        return self.pos_embed.dtype

    def unpatchify(self, x):
        """Tokens [B, N, p p channels] to [B, channels, S, S]."""
        side, p = self.input_size // self.patch_size, self.patch_size
        x = x.unflatten(1, (side, side)).unflatten(-1, (p, p, self.out_channels))
        return x.permute(0, 5, 1, 3, 2, 4).flatten(4).flatten(2, 3)

    def forward(self, x, t, y, output_gates=False):
        """x [B, C, S, S] with noise, its steps t [B] of 1000 and classes y [B], `classes` for none, to the noise [B, C, S, S]; with
        learn_variance as many channels again, the interpolation of the variance. Where the config's `objective` is velocity or flow,
        to the velocity; a flow's t is a time, from 0, noise, to 1, and channels beyond C mean nothing. With output_gates also a
        Routing. The load-balance loss is for the training loop to add (model.moh.balance_weight times it)."""
        c = self.t_embedder(t) + self.y_embedder(y)
        x, layers = self.x_embedder(x) + self.pos_embed, []
        for block in self.blocks:
            x, *routing = block(x, c)
            layers.append(routing)
        prediction = self.unpatchify(self.final_layer(x, c))
        return (prediction, routing_of(layers, self.sizes["moh"])) if output_gates else prediction

    def forward_with_cfg(self, x, t, y, cfg_scale):
        """Classifier-free guidance of the first three channels: the first half of the batch has classes, and the second, whose images
        are not read, none; both halves of the result have the guided noise."""
        half = x[: len(x) // 2]
        prediction = self(torch.cat([half, half]), t, y)
        guided = min(GUIDED_CHANNELS, self.in_channels)
        noise, rest = prediction[:, :guided], prediction[:, guided:]
        with_class, without = noise.chunk(2)
        noise = without + cfg_scale * (with_class - without)
        return torch.cat([torch.cat([noise, noise]), rest], dim=1)


def load(folder):
    """The model of a folder that moh exported, with its weights, for sampling: call train() to train it."""
    config = read_config(folder, "moh_dit")
    return load_weights(MohDit(config), folder).eval()
