# SPDX-License-Identifier: Apache-2.0
"""Mixture-of-Head attention (MoH, arXiv 2410.11842) of vision and diffusion transformers, for PyTorch.

Written by moh beside the weights of a model that it exports. It computes what moh computes, in the plain way: attention of
every head, then each head's output times its gate, which is 0 for the heads that a token does not choose. moh itself skips
these. Configurations are the section `model` of a run of moh.

Shapes: B samples, N tokens, D width, H query heads, d head width, S shared heads, E = H - S routed heads of which each token
keeps K.
"""

import json
import math
import pathlib
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn
from torch.nn import functional as F

ROUTERS = ("none", "learned", "condition", "static")


@dataclass
class Routing:
    """What routing did in a forward pass; lists have one entry per layer.

    gates                [B, N, H] float32: the factor of each head's output, 0 where a token does not choose the head.
    head_loads           [H]: the share of the tokens that choose each head.
    balance_loss         the layers' load-balance loss, without its weight: their mean, or their sum where `balance_layers` says
                         so; None where no head is routed.
    expert_balance_loss  that of mixtures of feed-forward networks, likewise their mean; None without them.
    """

    gates: tuple
    head_loads: tuple
    balance_loss: Optional[torch.Tensor]
    expert_balance_loss: Optional[torch.Tensor] = None


def routing_of(layers, section):
    """The Routing of what layers return after their output: (gates, balance, and of experts another balance)."""
    gates = tuple(layer[0] for layer in layers)
    balances = [layer[1] for layer in layers if layer[1] is not None]
    of_experts = [layer[2] for layer in layers if len(layer) > 2 and layer[2] is not None]
    balance = None
    if balances:
        balance = torch.stack(balances)
        balance = balance.sum() if section["balance_layers"] == "sum" else balance.mean()
    return Routing(gates, tuple((g != 0).float().mean((0, 1)) for g in gates), balance,
                   torch.stack(of_experts).mean() if of_experts else None)


def read_config(folder, model_type):
    """The config.json of an exported model of the type."""
    path = pathlib.Path(folder, "config.json")
    config = json.loads(path.read_text(encoding="utf-8"))
    if config.get("model_type") != model_type:
        raise ValueError(f"{path}: model_type: expected {model_type}, found {config.get('model_type')!r}")
    return config


def load_weights(model, folder):
    """Gives the model the tensors of the folder, in their own types: model.safetensors, or the shards that its index lists."""
    from safetensors.torch import load_file

    folder = pathlib.Path(folder)
    index = folder / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if index.exists():
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    state = {}
    for name in names:
        state.update(load_file(folder / name))
    model.load_state_dict(state, assign=True)
    return model


def drop_path(x, rate, training):
    """Stochastic depth: a branch's output, in training without that of a share `rate` of the samples."""
    if rate == 0 or not training:
        return x
    keep = x.new_empty((x.shape[0], *[1] * (x.dim() - 1))).bernoulli_(1 - rate)
    return x * keep / (1 - rate)


def logits_of(weight, x):
    return F.linear(x.float(), weight.float())


def balance_loss(probabilities, selected, form):
    """sum_i P_i f_i over the tokens ("paper"), times E ("code"), over K ("shares"), or the squared coefficient of variation of
    the mean softmax over a token's selected heads ("cv"). probabilities and selected [..., E]."""
    experts = probabilities.shape[-1]
    if form == "cv":
        gates = selected * probabilities
        gates = gates / gates.sum(-1, keepdim=True).clamp_min(torch.finfo(gates.dtype).tiny)
        importance = gates.reshape(-1, experts).mean(0)
        return importance.var(correction=0) / importance.mean().square()
    mean = probabilities.reshape(-1, experts).mean(0)
    load = selected.reshape(-1, experts).mean(0)
    if form == "shares":
        load = load / load.sum()
    return (mean * load).sum() * (1 if form == "paper" else experts)


def selection(scores, kept):
    """1 for the `kept` largest of the last axis, else 0; of equal ones the first is kept."""
    top = scores.argsort(dim=-1, descending=True, stable=True)[..., :kept]
    return torch.zeros_like(scores).scatter(-1, top, 1.0)


def of_layer(values, layer):
    """The number of a layer, of one for all of them or a list."""
    return values if isinstance(values, int) else values[layer]


def heads_of_layer(moh, heads, layer):
    """The shared heads of a layer, ascending, and how many of its other heads a token keeps."""
    shared = list(range(of_layer(moh["num_shared"], layer)))
    if moh["shared_heads"] != "first":
        by_layer = all(isinstance(each, list) for each in moh["shared_heads"])
        shared = sorted(moh["shared_heads"][layer] if by_layer else moh["shared_heads"])
    routed, ratio = heads - len(shared), moh["top_k_ratio"]
    if ratio == 0:
        return shared, of_layer(moh["top_k"], layer)
    return shared, max(math.floor(ratio * routed + 0.5), 1) if routed > 0 else 0


class SharedMask(nn.Module):
    """Which heads are shared, where training learned it (learn_shared_until): those marked in `shared`, and until some are, those
    of the largest scores. Both [H]. Python does not go on learning them."""

    def __init__(self, heads, count):
        super().__init__()
        self.count = count
        self.register_buffer("score", torch.zeros(heads))
        self.register_buffer("shared", torch.zeros(heads))

    def heads(self):
        if bool((self.shared != 0).any()):
            return self.shared.nonzero().flatten().tolist()
        return sorted(self.score.argsort(descending=True, stable=True)[: self.count].tolist())


class RoutedHeads(nn.Module):
    """The routing of an attention layer. Its weights belong to the layer by name, as in the paper's released code, each only where it
    is needed: wg [E, D] routed heads, wg_0 [2, D] shared against routed, wg_1 [S, D] shared heads (wg and wg_1 [H, D] where
    shared heads are learned), and with balance_bias the untrained e_score_correction_bias [E]; output_gate, sigmoid gates of the
    heads' outputs from the layer's input (attention_gate)."""

    def __init__(self, width, heads, head_dim, model, layer):
        super().__init__()
        moh = self.section = model["moh"]
        self.heads, self.head_dim, self.kind = heads, head_dim, moh["router"]
        if self.kind not in ROUTERS:
            raise ValueError(f"model.moh.router: expected one of {', '.join(ROUTERS)}, found {self.kind!r}")
        if model["attention_gate"] != "none":
            gates = heads * (head_dim if model["attention_gate"] == "element" else 1)
            self.output_gate = nn.Linear(width, gates, bias=False)
        if self.kind == "none":
            return
        self.listed, self.kept = heads_of_layer(moh, heads, layer)
        self.num_shared, routed = len(self.listed), heads - len(self.listed)
        learned = moh["learn_shared_until"] > 0
        if learned:
            self.shared_mask = SharedMask(heads, self.num_shared)
        if moh["balance_bias"] > 0 and self.kept > 0:
            self.e_score_correction_bias = nn.Parameter(torch.zeros(routed), requires_grad=False)
        if self.kind == "static":
            return
        if self.kept > 0:
            self.wg = nn.Linear(width, heads if learned else routed, bias=False)
        if self.kept > 0 and self.num_shared > 0 and moh["two_stage"]:
            self.wg_0 = nn.Linear(width, 2, bias=False)
        if learned or self.num_shared > 1:
            self.wg_1 = nn.Linear(width, heads if learned else self.num_shared, bias=False)

    def route(self, x, condition=None):
        """x [B, N, D], the layer's input, and the vector of each sample [B, D], which the router `condition` reads, to the gates
        [B, N, H] and the load-balance loss, None without routed heads."""
        if self.kind == "none":
            return x.new_ones((*x.shape[:-1], self.heads), dtype=torch.float32), None
        source = condition[:, None] if self.kind == "condition" else x
        shared = self.shared_mask.heads() if hasattr(self, "shared_mask") else self.listed
        routed = [head for head in range(self.heads) if head not in shared]
        of_shared, balance = self.shared_gates(source, shared), None
        if self.kept > 0:
            weight = self.wg.weight[routed] if hasattr(self, "shared_mask") else self.wg.weight
            probabilities = logits_of(weight, source).softmax(-1)
            scores = probabilities
            if hasattr(self, "e_score_correction_bias"):
                scores = probabilities + self.e_score_correction_bias.float()
            selected = selection(scores, self.kept)
            of_routed = self.routed_gates(probabilities, selected)
            balance = balance_loss(probabilities, selected, self.section["balance_loss"])
            if shared:
                of_shared, of_routed = self.weigh_kinds(source, of_shared, of_routed)
        else:
            of_routed = of_shared.new_zeros((*source.shape[:-1], len(routed)))
        place = torch.tensor(shared + routed, device=x.device).argsort()
        return torch.cat([of_shared, of_routed], dim=-1)[..., place].expand(-1, x.shape[1], -1), balance

    def shared_gates(self, source, shared):
        if self.kind != "static" and len(shared) > 1:
            weight = self.wg_1.weight[shared] if hasattr(self, "shared_mask") else self.wg_1.weight
            gates = logits_of(weight, source).softmax(-1)
            return gates if self.section["gate_scaling"] == "paper" else len(shared) * gates
        return source.new_ones((*source.shape[:-1], len(shared)), dtype=torch.float32)

    def routed_gates(self, probabilities, selected):
        chosen = selected * probabilities
        if self.section["gate_scaling"] == "paper":
            return chosen
        return self.kept * chosen / chosen.sum(-1, keepdim=True).clamp_min(torch.finfo(chosen.dtype).eps)

    def weigh_kinds(self, source, shared, routed):
        scale = 1.0 if self.section["gate_scaling"] == "paper" else 2.0
        if hasattr(self, "wg_0"):
            kinds = scale * logits_of(self.wg_0.weight, source).softmax(-1)
            return kinds[..., :1] * shared, kinds[..., 1:] * routed
        return scale / 2 * shared, scale / 2 * routed

    def joined(self, x, heads, gates):
        """The heads' outputs [B, N, H, d] times their gates, side by side: [B, N, H d]."""
        y = heads * gates.unsqueeze(-1).to(heads.dtype)
        if hasattr(self, "output_gate"):
            y = y * self.output_gate(x).sigmoid().unflatten(-1, (self.heads, -1))
        return y.flatten(2)


class Attention(RoutedHeads):
    """Self-attention without a mask. `qkv` [(H + 2 G) d, D] has the queries of all heads, then keys, then values, of G = H heads or
    of one that all share."""

    def __init__(self, width, heads, head_dim, model, layer, single_kv_head=False):
        super().__init__(width, heads, head_dim, model, layer)
        self.kv_heads = 1 if single_kv_head else heads
        self.qkv = nn.Linear(width, (heads + 2 * self.kv_heads) * head_dim)
        self.proj = nn.Linear(heads * head_dim, width)

    def forward(self, x, condition=None):
        """x [B, N, D] to [B, N, D], the gates and the load-balance loss."""
        gates, balance = self.route(x, condition)
        qkv = self.qkv(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        q, k, v = qkv.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        y = F.scaled_dot_product_attention(q, k.expand_as(q), v.expand_as(q))
        return self.proj(self.joined(x, y.transpose(1, 2), gates)), gates, balance


class Mlp(nn.Module):
    """fc2(gelu(fc1(x))); `approximate` as of torch's gelu."""

    def __init__(self, width, hidden, approximate="none"):
        super().__init__()
        self.fc1, self.fc2, self.approximate = nn.Linear(width, hidden), nn.Linear(hidden, width), approximate

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate=self.approximate))
