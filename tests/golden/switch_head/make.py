"""Makes tests/golden/switch_head/layers.json: causal attention of a language model whose values and outputs are mixtures of
experts (SwitchHead, arXiv 2312.07987), head by head and expert by expert in plain float64 loops of Python. Derivatives are
central differences; logits of selected and other experts are further apart than their steps move them.

    python3 tests/golden/switch_head/make.py
"""

import math
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from plain_layers import attended, golden_case, heads_of, matrix, product, rotated, write  # noqa: E402

TOKENS, WIDTH, DIM, THETA = 6, 5, 4, 100.0
LEAST_MARGIN = 1e-3


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def gates_of(case, router, x, head):
    """Pairs (expert, gate) of the selected experts of a head."""
    experts = case["experts"]
    z = product(router[head * experts : (head + 1) * experts], x)
    order = sorted(range(experts), key=lambda e: -z[e])
    kept, others = order[: case["top_k"]], order[case["top_k"] :]
    if others and z[kept[-1]] - z[others[0]] < LEAST_MARGIN:
        raise SystemExit("two logits are too near for differences: take another seed")
    return [(e, sigmoid(z[e])) for e in kept]


def value_of(case, w, x, head):
    value = [0.0] * DIM
    for e, gate in gates_of(case, w["v_router.weight"], x, head):
        first = (head * case["experts"] + e) * DIM
        value = [a + gate * b for a, b in zip(value, product(w["v_proj.weight"][first : first + DIM], x))]
    return value


def add_output(case, w, x, head, of_head, y):
    """Adds a head's part of the layer's output."""
    for e, gate in gates_of(case, w["o_router.weight"], x, head):
        first = (head * case["experts"] + e) * DIM
        for i, row in enumerate(w["o_proj.weight"]):
            y[i] += gate * sum(a * b for a, b in zip(row[first : first + DIM], of_head))


def run(case, w):
    """Outputs [T, D]."""
    share = case["heads"] // case["kv_heads"]
    queries, keys = ([[rotated(head, t, THETA) for head in heads_of(product(w[name], x), DIM)] for t, x in enumerate(w["x"])]
                     for name in ("q_proj.weight", "k_proj.weight"))
    values = [[value_of(case, w, x, g) for g in range(case["kv_heads"])] for x in w["x"]]
    outputs = []
    for t, x in enumerate(w["x"]):
        y = [0.0] * WIDTH
        for h in range(case["heads"]):
            seen = range(t + 1)
            head = attended(queries[t][h], [keys[s][h // share] for s in seen], [values[s][h // share] for s in seen])
            if case["gate"] == "head":
                gate = sigmoid(product([w["output_gate.weight"][h]], x)[0])
                head = [gate * v for v in head]
            add_output(case, w, x, h, head, y)
        outputs.append(y)
    return outputs


def tensors(case, rng):
    heads, kv_heads, experts = case["heads"], case["kv_heads"], case["experts"]
    w = {"x": matrix(rng, TOKENS, WIDTH, 1),
         "q_proj.weight": matrix(rng, heads * DIM, WIDTH, 0.5), "k_proj.weight": matrix(rng, kv_heads * DIM, WIDTH, 0.5),
         "v_proj.weight": matrix(rng, kv_heads * experts * DIM, WIDTH, 0.5),
         "o_proj.weight": matrix(rng, WIDTH, heads * experts * DIM, 0.5),
         "v_router.weight": matrix(rng, kv_heads * experts, WIDTH, 1), "o_router.weight": matrix(rng, heads * experts, WIDTH, 1)}
    if case["gate"] == "head":
        w["output_gate.weight"] = matrix(rng, heads, WIDTH, 1)
    return w


def made(case, seed):
    rng = random.Random(seed)
    return golden_case(case, tensors(case, rng), rng, run)


CASES = [{"heads": 2, "kv_heads": 2, "experts": 4, "top_k": 2, "gate": "none"},
         {"heads": 4, "kv_heads": 2, "experts": 3, "top_k": 1, "gate": "none"},
         {"heads": 2, "kv_heads": 1, "experts": 2, "top_k": 2, "gate": "head"}]

if __name__ == "__main__":
    sizes = {"tokens": TOKENS, "width": WIDTH, "head_dim": DIM, "theta": THETA}
    write(__file__, sizes, [made(case, seed) for seed, case in enumerate(CASES)])
