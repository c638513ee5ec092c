"""Head weights of the released MoH-DiT and MoH-TransNeXt, formula 4.1 and 4.2 of their description."""

import torch

from case import matrix


def router_parameters(generator, prefix, width, heads, shared, kept):
    """Weights of a layer's routers: wg for routed heads, wg_0 for both kinds, wg_1 for several shared heads."""
    sizes = {"wg": heads - shared if kept else 0, "wg_0": 2 if kept and shared else 0, "wg_1": shared if shared > 1 else 0}
    return {f"param.{prefix}{name}.weight": 1.5 * matrix(generator, rows, width) for name, rows in sizes.items() if rows}


def top_heads(run, gates, kept, router, imposed=None):
    """Indices [T, K] of the largest gates, best first; records them and how clear the choice is."""
    order = gates.sort(dim=-1, descending=True)
    indices = order.indices[:, :kept] if imposed is None else imposed
    if kept < gates.shape[1] and imposed is None:
        run.min_gap = min(run.min_gap, (order.values[:, kept - 1] - order.values[:, kept]).min().item())
    run.record(f"inter.{router}.gates", gates)
    run.record(f"inter.{router}.topk_indices", indices)
    return indices


class Counter:
    """Numbers attention layers and routers in the order of their use."""

    def __init__(self, sub=""):
        self.sub, self.attention, self.router = sub, -1, -1

    def next_attention(self):
        self.attention += 1
        return f"{self.sub}attn{self.attention}"

    def next_router(self):
        self.router += 1
        return f"{self.sub}router{self.router}"


def head_weights(run, prefix, x, heads, shared, kept, counter, imposed=None):
    """Factors [B, N, H] of the heads of x [B, N, C], and the balance loss, None without routed heads."""
    tokens = x.reshape(-1, x.shape[-1])

    def softmax(name):
        return (tokens @ run.param(f"{prefix}{name}.weight").T).softmax(-1)

    parts, balance = [], None
    if shared:
        parts.append(shared * softmax("wg_1") if shared > 1 else tokens.new_ones(len(tokens), 1))
    if kept:
        gates = softmax("wg")
        indices = top_heads(run, gates, kept, counter.next_router(), imposed)
        mask = torch.zeros_like(gates).scatter(1, indices, 1.0)
        parts.append(kept * gates * mask / (gates * mask).sum(-1, keepdim=True))
        balance = (heads - shared) * (gates.mean(0) * mask.mean(0)).sum()
    if shared and kept:
        kinds = 2 * softmax("wg_0")
        parts = [kinds[:, :1] * parts[0], kinds[:, 1:] * parts[1]]
    return torch.cat(parts, -1).reshape(*x.shape[:2], heads), balance


def record_balances(run, balances):
    """Records the balance losses of the routed layers; returns their mean, None without one."""
    balances = [each for each in balances if each is not None]
    run.record("out.lb_per_layer", torch.stack(balances) if balances else torch.zeros(0, dtype=run.dtype))
    mean = torch.stack(balances).mean() if balances else None
    run.record("out.lb_loss", torch.zeros((), dtype=run.dtype) if mean is None else mean)
    return mean
