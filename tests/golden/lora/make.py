"""Makes tests/golden/lora/layers.json: a layer of a LLaMA whose maps have low-rank adapters, as the paper defines them (arXiv
2106.09685, section 4.1): W x + alpha / r B A x, dense and with heads that a learned router selects, in plain float64 loops of
Python. Derivatives are central differences; logits of selected and other heads are further apart than their steps move them.

    python3 tests/golden/lora/make.py
"""

import math
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from plain_layers import attended, gates, golden_case, heads_of, matrix, product, rotated, write  # noqa: E402

TOKENS, WIDTH, INNER, HEADS, KV_HEADS, DIM, THETA, EPS = 5, 5, 6, 4, 2, 2, 100.0, 1e-5
SHARED, ROUTED, KEPT = [0, 1], [2, 3], 1
LEAST_MARGIN = 1e-3
SIZES = {"self_attn.q_proj": (HEADS * DIM, WIDTH), "self_attn.k_proj": (KV_HEADS * DIM, WIDTH),
         "self_attn.v_proj": (KV_HEADS * DIM, WIDTH), "self_attn.o_proj": (WIDTH, HEADS * DIM),
         "mlp.gate_proj": (INNER, WIDTH), "mlp.up_proj": (INNER, WIDTH), "mlp.down_proj": (WIDTH, INNER)}


def mapped(case, w, name, x):
    y = product(w[name + ".weight"], x)
    if name.split(".")[1] not in case["targets"]:
        return y
    low = product(w[name + ".lora_B.weight"], product(w[name + ".lora_A.weight"], x))
    return [a + case["alpha"] / case["rank"] * b for a, b in zip(y, low)]


def normed(w, name, x):
    scale = 1 / math.sqrt(sum(v * v for v in x) / len(x) + EPS)
    return [scale * v * g for v, g in zip(x, w[name + ".weight"][0])]


def gates_of(case, w, x):
    if not case["routed"]:
        return [1.0] * HEADS
    of_router = {name.split(".", 1)[1]: v for name, v in w.items() if ".wg" in name}
    z = product(of_router["wg.weight"], x)
    order = sorted(range(len(ROUTED)), key=lambda e: -z[e])
    if z[order[KEPT - 1]] - z[order[KEPT]] < LEAST_MARGIN:
        raise SystemExit("two logits are too near for differences: take another seed")
    return gates({"scaling": "code", "two_stage": True}, of_router, x, z, order[:KEPT], SHARED, ROUTED)


def attention(case, w, xs):
    q, k, v = ([heads_of(mapped(case, w, f"self_attn.{name}_proj", x), DIM) for x in xs] for name in "qkv")
    q, k = ([[rotated(head, t, THETA) for head in token] for t, token in enumerate(heads)] for heads in (q, k))
    share = HEADS // KV_HEADS
    outputs = []
    for t, x in enumerate(xs):
        joined = []
        for h, gate in enumerate(gates_of(case, w, x)):
            seen = range(t + 1)
            head = attended(q[t][h], [k[s][h // share] for s in seen], [v[s][h // share] for s in seen])
            joined += [gate * value for value in head]
        outputs.append(mapped(case, w, "self_attn.o_proj", joined))
    return outputs


def mlp(case, w, x):
    gate, up = mapped(case, w, "mlp.gate_proj", x), mapped(case, w, "mlp.up_proj", x)
    return mapped(case, w, "mlp.down_proj", [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)])


def run(case, w):
    """Outputs [T, D]."""
    added = attention(case, w, [normed(w, "input_layernorm", x) for x in w["x"]])
    middle = [[a + b for a, b in zip(*rows)] for rows in zip(w["x"], added)]
    return [[a + b for a, b in zip(x, mlp(case, w, normed(w, "post_attention_layernorm", x)))] for x in middle]


def tensors(case, rng):
    w = {"x": matrix(rng, TOKENS, WIDTH, 1)}
    for name, (rows, columns) in SIZES.items():
        w[name + ".weight"] = matrix(rng, rows, columns, 0.5)
        if name.split(".")[1] in case["targets"]:
            w[name + ".lora_A.weight"] = matrix(rng, case["rank"], columns, 0.5)
            w[name + ".lora_B.weight"] = matrix(rng, rows, case["rank"], 0.5)
    for name in ("input_layernorm", "post_attention_layernorm"):
        w[name + ".weight"] = matrix(rng, 1, WIDTH, 1)
    if case["routed"]:
        for name, rows in (("wg", len(ROUTED)), ("wg_0", 2), ("wg_1", len(SHARED))):
            w[f"self_attn.{name}.weight"] = matrix(rng, rows, WIDTH, 1)
    return w


def made(case, seed):
    rng = random.Random(seed)
    return golden_case(case, tensors(case, rng), rng, run)


ALL = [name.split(".")[1] for name in SIZES]
CASES = [{"routed": False, "rank": 2, "alpha": 3, "targets": ALL}, {"routed": True, "rank": 2, "alpha": 3, "targets": ALL},
         {"routed": True, "rank": 1, "alpha": 16, "targets": ["q_proj", "v_proj", "down_proj"]}]

if __name__ == "__main__":
    sizes = {"tokens": TOKENS, "width": WIDTH, "inner": INNER, "heads": HEADS, "kv_heads": KV_HEADS, "head_dim": DIM,
             "theta": THETA, "eps": EPS, "shared": len(SHARED), "top_k": KEPT}
    write(__file__, sizes, [made(case, seed) for seed, case in enumerate(CASES)])
