"""moh's models in PyTorch, in their fastest form there: fused projections, the fused attention kernel, no unnecessary
gradient or mask. MoH attention is the reference formulation: every head is computed and multiplied by its gate, which is 0
unless the head is selected.

Shapes: B sequences, T tokens, D width, H heads, d head width, S shared heads, E = H - S routed heads, K of them kept.
"""

import torch
from torch import nn
from torch.nn import functional as F

from routing import check_supported, layer_routings

BALANCE_WEIGHT = 0.01  # weight of the load-balance loss, as in the paper and moh


class HeadRouter(nn.Module):
    """Two-stage routing with the gate scaling of the released MoH code. Weights as there: wg [E, D] if K > 0, wg_0 [2, D]
    with both kinds of heads and two_stage, and wg_1 [S, D] if S > 1."""

    def __init__(self, width, heads, routing):
        super().__init__()
        self.shared, self.kept = routing.shared, routing.routed
        two_stage = routing.two_stage and self.shared > 0 and self.kept > 0
        self.wg = nn.Linear(width, heads - self.shared, bias=False) if self.kept > 0 else None
        self.wg_0 = nn.Linear(width, 2, bias=False) if two_stage else None
        self.wg_1 = nn.Linear(width, self.shared, bias=False) if self.shared > 1 else None

    def forward(self, x):
        """From x [B, T, D]: gates [B, T, H], always float32, and the layer's load-balance loss or None (no routed heads)."""
        gates, balance = [], None
        if self.shared > 0:
            gates.append(self.shared_gates(x))
        if self.kept > 0:
            routed, balance = self.routed_gates(x)
            gates.append(routed)
        if self.wg_0 is not None:
            kinds = 2.0 * self.wg_0(x).softmax(-1, dtype=torch.float32)
            gates = [gates[0] * kinds[..., :1], gates[1] * kinds[..., 1:]]
        return torch.cat(gates, dim=-1), balance

    def shared_gates(self, x):
        if self.wg_1 is None:
            return x.new_ones((*x.shape[:-1], 1), dtype=torch.float32)
        return self.shared * self.wg_1(x).softmax(-1, dtype=torch.float32)

    def routed_gates(self, x):
        probabilities = self.wg(x).softmax(-1, dtype=torch.float32)
        top, indices = probabilities.topk(self.kept, dim=-1)
        selected = torch.zeros_like(probabilities).scatter(-1, indices, 1.0)
        floor = torch.finfo(probabilities.dtype).eps
        gates = self.kept * selected * probabilities / top.sum(-1, keepdim=True).clamp_min(floor)
        return gates, balance_loss(probabilities, selected)


def balance_loss(probabilities, selected):
    """E * sum_i P_i f_i over the tokens of the batch; no gradient through the selection f."""
    experts = probabilities.shape[-1]
    mean_probability = probabilities.reshape(-1, experts).mean(0)
    load = selected.reshape(-1, experts).mean(0)
    return experts * (mean_probability * load).sum()


class RotaryEmbedding(nn.Module):
    """Rotary embedding that pairs the two halves of a head (LLaMA in Hugging Face's layout)."""

    def __init__(self, head_dim, positions, theta):
        super().__init__()
        frequencies = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        angles = torch.outer(torch.arange(positions, dtype=torch.float64), frequencies)
        self.register_buffer("cos", angles.cos().float()[:, None, :], persistent=False)  # [T, 1, d / 2]
        self.register_buffer("sin", angles.sin().float()[:, None, :], persistent=False)

    def forward(self, x):
        """x [B, T, heads, d] with positions 0 to T - 1. The tables stay float32."""
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        low, high = x.chunk(2, dim=-1)
        return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1).to(x.dtype)


class Attention(nn.Module):
    """Self-attention with one projection for queries, keys and values [q | k | v][H][d]; MoH with a `routing`."""

    def __init__(self, width, heads, head_dim, *, causal, bias, rotary=None, routing=None):
        super().__init__()
        self.heads, self.head_dim, self.causal = heads, head_dim, causal
        self.qkv = nn.Linear(width, 3 * heads * head_dim, bias=bias)
        self.proj = nn.Linear(heads * head_dim, width, bias=bias)
        self.router = HeadRouter(width, heads, routing) if routing else None
        self.rotary = rotary

    def forward(self, x):
        """x [B, T, D] to [B, T, D] and the load-balance loss, None without routing."""
        batch, length, _ = x.shape
        qkv = self.qkv(x).view(batch, length, 3 * self.heads, self.head_dim)
        if self.rotary is None:
            q, k, v = qkv.split(self.heads, dim=2)
        else:  # one rotary embedding for queries and keys together
            qk, v = qkv.split([2 * self.heads, self.heads], dim=2)
            q, k = self.rotary(qk).split(self.heads, dim=2)
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2)
        balance = None
        if self.router is not None:
            gates, balance = self.router(x)
            out = out * gates.unsqueeze(-1).to(out.dtype)
        return self.proj(out.reshape(batch, length, -1)), balance


class Mlp(nn.Module):
    """SwiGLU: down(silu(gate) * up), gate and up from one projection [gate | up]."""

    def __init__(self, width, intermediate):
        super().__init__()
        self.gate_up = nn.Linear(width, 2 * intermediate, bias=False)
        self.down = nn.Linear(intermediate, width, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Layer(nn.Module):
    def __init__(self, model, rotary, routing):
        super().__init__()
        self.attention_norm = nn.RMSNorm(model["hidden"], eps=model["norm_eps"])
        self.attention = Attention(model["hidden"], model["heads"], head_dim_of(model), causal=True, bias=False,
                                   rotary=rotary, routing=routing)
        self.mlp_norm = nn.RMSNorm(model["hidden"], eps=model["norm_eps"])
        self.mlp = Mlp(model["hidden"], model["intermediate"])

    def forward(self, x):
        y, balance = self.attention(self.attention_norm(x))
        x = x + y
        return x + self.mlp(self.mlp_norm(x)), balance


def head_dim_of(model):
    """head_dim: 0 means hidden / heads."""
    return model["head_dim"] or model["hidden"] // model["heads"]


class Llama(nn.Module):
    """The decoder that moh trains. `model` is the model section of its resolved configuration, which must pass
    check_supported."""

    def __init__(self, model):
        super().__init__()
        check_supported(model)
        self.balance_weight = model["moh"]["balance_weight"]
        self.embedding = nn.Embedding(model["vocab_size"], model["hidden"])
        rotary = RotaryEmbedding(head_dim_of(model), model["max_positions"], model["rope_theta"])
        self.layers = nn.ModuleList(Layer(model, rotary, routing) for routing in layer_routings(model))
        self.norm = nn.RMSNorm(model["hidden"], eps=model["norm_eps"])
        self.head = nn.Linear(model["hidden"], model["vocab_size"], bias=False)
        if model["tied_embeddings"]:
            self.head.weight = self.embedding.weight
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=model["init_std"])

    def forward(self, tokens, targets):
        """The training loss for tokens and targets, int64 [B, T], load-balance loss included."""
        x = self.embedding(tokens)
        balances = []
        for layer in self.layers:
            x, balance = layer(x)
            if balance is not None:
                balances.append(balance)
        logits = self.head(self.norm(x))
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))
        if balances:
            loss = loss + self.balance_weight * torch.stack(balances).mean()
        return loss


def place(module, device, dtype):
    """Moves a module to a device and converts its parameters to `dtype`; buffers such as rotary tables keep their dtype."""
    module.to(device)
    for weight in module.parameters():
        weight.data = weight.data.to(dtype)
    return module


class Optimizer:
    """Clipping (a limit of 0: none) and AdamW as in moh: weight decay for matrices only; bfloat16 weights have float32 master
    copies, which are updated from float32 gradients. Weights that are not trained, as DiT's positions, are left alone. `optim`
    is that section of the configuration."""

    def __init__(self, model, optim):
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.mixed = any(weight.dtype != torch.float32 for weight in self.weights)
        self.masters = [weight.detach().float() for weight in self.weights] if self.mixed else self.weights
        if self.mixed:
            for master in self.masters:
                master.grad = torch.empty_like(master)
        groups = [{"params": [p for p in self.masters if p.dim() > 1], "weight_decay": optim["weight_decay"]},
                  {"params": [p for p in self.masters if p.dim() <= 1], "weight_decay": 0.0}]
        self.limit = optim["clip_grad_norm"]
        self.adamw = torch.optim.AdamW(groups, lr=optim["learning_rate"], betas=tuple(optim["betas"]), eps=optim["eps"],
                                       fused=True)

    def zero_grad(self):
        for weight in self.weights:
            weight.grad = None

    def step(self):
        if self.mixed:
            torch._foreach_copy_([master.grad for master in self.masters], [weight.grad for weight in self.weights])
        if self.limit > 0:
            torch.nn.utils.clip_grad_norm_(self.masters, self.limit)
        self.adamw.step()
        if self.mixed:
            with torch.no_grad():
                torch._foreach_copy_(self.weights, self.masters)
