"""moh's diffusion transformers in PyTorch: DiT with adaLN-zero, dense and MoH, and its training loss. MoH is the reference
formulation, as in models.py: every head is computed and multiplied by its gate. Parameters have the names of the released
code, but for routers, which are children of `attn.router`.

Shapes: B samples, C channels, N tokens, D width, H heads, d head width.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from models import Attention
from routing import check_supported_diffusion, layer_routings, per_layer_heads

NORM_EPS = 1e-6
STEPS = 1000  # of the process
TIME_WIDTH = 256


def modulated(x, shift, scale):
    """Layer norm without parameters, then x (1 + scale) + shift with one row per sample."""
    return F.layer_norm(x, x.shape[-1:], eps=NORM_EPS) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class Block(nn.Module):
    def __init__(self, model, heads, routing):
        super().__init__()
        width = model["hidden"]
        head_dim = model["head_dim"] or width // heads
        self.attn = Attention(width, heads, head_dim, causal=False, bias=True, routing=routing)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, model["mlp_ratio"] * width),
                                  "fc2": nn.Linear(model["mlp_ratio"] * width, width)})
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x, condition):
        """x [B, N, D], condition [B, D], to [B, N, D] and the load-balance loss or None."""
        attn_shift, attn_scale, attn_gate, mlp_shift, mlp_scale, mlp_gate = self.adaLN_modulation(condition).chunk(6, dim=1)
        y, balance = self.attn(modulated(x, attn_shift, attn_scale))
        x = x + attn_gate.unsqueeze(1) * y
        hidden = F.gelu(self.mlp["fc1"](modulated(x, mlp_shift, mlp_scale)), approximate="tanh")
        return x + mlp_gate.unsqueeze(1) * self.mlp["fc2"](hidden), balance


class FinalLayer(nn.Module):
    def __init__(self, width, outputs):
        super().__init__()
        self.linear = nn.Linear(width, outputs)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))

    def forward(self, x, condition):
        return self.linear(modulated(x, *self.adaLN_modulation(condition).chunk(2, dim=1)))


class Dit(nn.Module):
    """`model` is the model section of the resolved configuration."""

    def __init__(self, model):
        super().__init__()
        check_supported_diffusion(model)
        width, self.patch, self.channels = model["hidden"], model["patch_size"], model["channels"]
        self.side = model["image_size"] // self.patch
        self.outputs = self.channels * (2 if model["learn_variance"] else 1)
        self.pos_embed = nn.Parameter(torch.randn(1, self.side**2, width) * 0.02, requires_grad=False)
        self.x_embedder = nn.ModuleDict({"proj": nn.Conv2d(self.channels, width, self.patch, self.patch)})
        self.t_embedder = nn.ModuleDict({"mlp": nn.Sequential(nn.Linear(TIME_WIDTH, width), nn.SiLU(), nn.Linear(width, width))})
        self.y_embedder = nn.ModuleDict({"embedding_table": nn.Embedding(model["classes"] + 1, width)})
        self.blocks = nn.ModuleList(Block(model, *each) for each in zip(per_layer_heads(model), layer_routings(model)))
        self.final_layer = FinalLayer(width, self.patch**2 * self.outputs)
        self.register_buffer("frequencies", torch.exp(-math.log(10000) * torch.arange(TIME_WIDTH // 2) / (TIME_WIDTH // 2)),
                             persistent=False)

    def forward(self, images, steps, labels):
        """From images [B, C, side, side], steps and labels [B]: prediction [B, C or 2 C, side, side], and the load-balance
        losses of the MoH layers."""
        angles = steps[:, None].float() * self.frequencies
        times = torch.cat([angles.cos(), angles.sin()], dim=1).to(images.dtype)
        condition = self.t_embedder["mlp"](times) + self.y_embedder["embedding_table"](labels)
        x = self.x_embedder["proj"](images).flatten(2).transpose(1, 2) + self.pos_embed
        balances = []
        for block in self.blocks:
            x, balance = block(x, condition)
            balances.append(balance)
        x = self.final_layer(x, condition).view(-1, self.side, self.side, self.patch, self.patch, self.outputs)
        pictures = x.permute(0, 5, 1, 3, 2, 4).reshape(len(images), self.outputs, self.side * self.patch, -1)
        return pictures, [each for each in balances if each is not None]


def schedule():
    """Of every step of the linear schedule: signal and noise [1000] float64, and the numbers that Training reads [1000, 7]."""
    betas = torch.linspace(1e-4, 0.02, STEPS, dtype=torch.float64)
    products = torch.cumprod(1 - betas, 0)
    before = torch.cat([torch.ones(1, dtype=torch.float64), products[:-1]])
    variances = betas * (1 - before) / (1 - products)
    smallest = torch.log(torch.cat([variances[1:2], variances[1:]]))  # that of the first step is 0
    first = (torch.arange(STEPS) == 0).double()
    numbers = torch.stack([products.rsqrt(), (1 / products - 1).sqrt(), betas * before.sqrt() / (1 - products),
                           (1 - before) * (1 - betas).sqrt() / (1 - products), betas.log(), smallest, first], dim=1)
    return products.sqrt(), (1 - products).sqrt(), numbers.float()


def normal_cdf(x):
    """As guided-diffusion approximates it."""
    return 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def likelihood(start, mean, log_scale):
    """Negative log likelihood of pixels in bins of 2 / 255, in nats."""
    inverse = torch.exp(-log_scale)
    above, below = (normal_cdf(inverse * (start - mean + offset / 255)) for offset in (1, -1))
    probability = torch.where(start < -0.999, above, torch.where(start > 0.999, 1 - below, above - below))
    return -probability.clamp_min(1e-12).log()


class Training(nn.Module):
    """The training loss: squared error of the noise plus the variational bound in bits, through which the variance learns."""

    def __init__(self, model):
        super().__init__()
        self.net = Dit(model)
        self.balance_weight = model["moh"]["balance_weight"]
        for weight in self.net.parameters():
            if weight.dim() == 2:
                nn.init.trunc_normal_(weight, std=0.02)

    def forward(self, inputs, targets):
        """inputs: x_t, steps, labels; targets: x_0, noise, numbers of the steps [B, 7]."""
        prediction, balances = self.net(*inputs)
        loss = sample_losses(prediction.float(), inputs[0].float(), *targets).mean()
        if balances:
            loss = loss + self.balance_weight * torch.stack(balances).mean()
        return loss


def sample_losses(prediction, x, start, noise, numbers):
    """[B]"""
    per_signal, per_noise, of_start, of_sample, log_beta, log_smallest, first = numbers[:, :, None, None, None].unbind(1)
    guess, share = prediction.chunk(2, dim=1)
    share = (share + 1) / 2
    log_variance = share * log_beta + (1 - share) * log_smallest
    mean = of_start * (per_signal * x - per_noise * guess.detach()) + of_sample * x
    true_mean = of_start * start + of_sample * x
    divergence = 0.5 * (log_variance - log_smallest - 1 + torch.exp(log_smallest - log_variance)
                        + (true_mean - mean) ** 2 * torch.exp(-log_variance))
    bound = torch.where(first > 0, likelihood(start, mean, 0.5 * log_variance), divergence) / math.log(2)
    return ((noise - guess) ** 2 + bound).mean(dim=(1, 2, 3))


def reverse_step(x, prediction, numbers, guidance):
    """An ancestral step from x [B, C, ...] by a prediction [2 B, 2 C, ...], with labels and without: guided on the first
    three channels, as the released code."""
    with_label, without = prediction.chunk(2)
    noise, share = with_label.chunk(2, dim=1)
    guided = without[:, :3] + guidance * (noise[:, :3] - without[:, :3])
    noise = torch.cat([guided, noise[:, 3:]], dim=1)
    per_signal, per_noise, of_start, of_sample, log_beta, log_smallest, _ = numbers[:, :, None, None, None].unbind(1)
    share = (share + 1) / 2
    log_variance = share * log_beta + (1 - share) * log_smallest
    mean = of_start * (per_signal * x - per_noise * noise) + of_sample * x
    return mean + torch.exp(0.5 * log_variance) * torch.randn_like(x)
