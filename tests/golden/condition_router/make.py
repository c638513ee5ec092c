"""Makes tests/golden/condition_router/layers.json: attention of a DiT block with `router: condition`, head by head in plain
float64 loops of Python, from docs/paper.md and docs/load_balance.md, and derivatives by central differences.

    python3 tests/golden/condition_router/make.py
"""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from plain_layers import attended, derivatives, gates, matrix, product, softmax, write  # noqa: E402

BATCH, TOKENS, WIDTH, HEADS, DIM = 3, 4, 5, 6, 2
SHARED = [1, 4]
ROUTED = [h for h in range(HEADS) if h not in SHARED]
KEPT = 2


def gates_of(case, w, c):
    """Gates of all heads for a sample, the probabilities of its routed heads, and those that it keeps, by index."""
    z = product(w["wg.weight"], c)
    kept = sorted(range(len(ROUTED)), key=lambda e: -z[e])[:KEPT]
    return gates(case, w, c, z, kept, SHARED, ROUTED), softmax(z), kept


def head_of(joined, part, head):
    """Head `head` of queries (part 0), keys (1) or values (2)."""
    begin = (part * HEADS + head) * DIM
    return joined[begin : begin + DIM]


def run(case, w):
    """Outputs [B T, D], gates [B, H] and the load-balance loss over the samples."""
    outputs, all_gates, mean, load = [], [], [0.0] * len(ROUTED), [0.0] * len(ROUTED)
    for b in range(BATCH):
        weights, p, kept = gates_of(case, w, w["condition"][b])
        for e in range(len(ROUTED)):
            mean[e] += p[e] / BATCH
            load[e] += (e in kept) / BATCH
        qkv = [[v + bias for v, bias in zip(product(w["qkv.weight"], x), w["qkv.bias"][0])]
               for x in w["x"][b * TOKENS : (b + 1) * TOKENS]]
        for token in qkv:
            joined = []
            for h in range(HEADS):
                head = attended(head_of(token, 0, h), [head_of(t, 1, h) for t in qkv], [head_of(t, 2, h) for t in qkv])
                joined += [weights[h] * v for v in head]
            outputs.append([v + bias for v, bias in zip(product(w["proj.weight"], joined), w["proj.bias"][0])])
        all_gates.append(weights)
    factor = 1 if case["form"] == "paper" else len(ROUTED)
    return outputs, all_gates, factor * sum(a * b for a, b in zip(mean, load))


def numbers_of(case):
    """A function of the tensors: the outputs, and the load-balance loss."""

    def numbers(w):
        outputs, _, balance = run(case, w)
        return outputs, [balance]

    return numbers


def made(case, seed):
    rng = random.Random(seed)
    w = {"x": matrix(rng, BATCH * TOKENS, WIDTH, 1), "condition": matrix(rng, BATCH, WIDTH, 1),
         "qkv.weight": matrix(rng, 3 * HEADS * DIM, WIDTH, 0.5), "qkv.bias": matrix(rng, 1, 3 * HEADS * DIM, 0.5),
         "proj.weight": matrix(rng, WIDTH, HEADS * DIM, 0.5), "proj.bias": matrix(rng, 1, WIDTH, 0.5),
         "wg.weight": matrix(rng, len(ROUTED), WIDTH, 1), "wg_1.weight": matrix(rng, len(SHARED), WIDTH, 1)}
    if case["two_stage"]:
        w["wg_0.weight"] = matrix(rng, 2, WIDTH, 1)
    outputs, weights, balance = run(case, w)
    cotangent = matrix(rng, BATCH * TOKENS, WIDTH, 1)
    directions = {name: matrix(rng, len(v), len(v[0]), 1) for name, v in w.items()}
    return {**case, "tensors": w, "outputs": outputs, "gates": weights, "balance": balance, "cotangent": cotangent,
            "directions": directions,
            "derivatives": {name: derivatives(numbers_of(case), w, name, directions[name], cotangent) for name in w}}


CASES = [
    {"scaling": "code", "two_stage": True, "form": "code"},
    {"scaling": "paper", "two_stage": False, "form": "paper"},
]

if __name__ == "__main__":
    sizes = {"batch": BATCH, "tokens": TOKENS, "width": WIDTH, "heads": HEADS, "head_dim": DIM, "shared": SHARED, "top_k": KEPT}
    write(__file__, sizes, [made(case, seed) for seed, case in enumerate(CASES)])
