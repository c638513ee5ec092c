"""Makes tests/golden/within_groups/layers.json: attention of a LLaMA layer with `routing: within_groups`, head by head in plain
float64 loops of Python, from docs/continue_tuning.md and docs/load_balance.md, and derivatives by central differences.

    python3 tests/golden/within_groups/make.py
"""

import math
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from plain_layers import attended, derivatives, gates, group_balance, heads_of, matrix, product, rotated, write  # noqa: E402

TOKENS, WIDTH, HEADS, GROUPS, DIM, THETA = 6, 5, 8, 2, 4, 100.0
KV_HEADS = GROUPS
SIZE = HEADS // GROUPS
SHARED = [1, 6]  # one of each group
ROUTED = [h for h in range(HEADS) if h not in SHARED]
EACH = len(ROUTED) // GROUPS  # routed heads of a group
KEPT = 1  # of them


def deviation(numbers):
    mean = sum(numbers) / len(numbers)
    return math.sqrt(sum((n - mean) ** 2 for n in numbers) / (len(numbers) - 1))


def logits(case, w, x, queries):
    """Logits of the routed heads of a token."""
    if case["router"] == "learned":
        return product(w["wg.weight"], x)
    norms = [math.sqrt(sum(v * v for v in queries[h])) for h in ROUTED]
    return [n / deviation(norms) for n in norms]


def gates_of(case, w, x, z):
    """Gates of all heads, and the routed ones that are kept, by index."""
    kept = []
    for g in range(GROUPS):
        group = range(g * EACH, (g + 1) * EACH)
        kept += sorted(group, key=lambda e: -z[e])[:KEPT]
    if case["router"] == "query_norm":
        return [float(h in SHARED + [ROUTED[e] for e in kept]) for h in range(HEADS)], kept
    return gates(case, w, x, z, kept, SHARED, ROUTED), kept


def run(case, w):
    """Outputs [T, D], gates [T, H] and the load-balance loss."""
    queries = [heads_of(product(w["q_proj.weight"], x), DIM) for x in w["x"]]
    keys = [heads_of(product(w["k_proj.weight"], x), DIM) for x in w["x"]]
    values = [heads_of(product(w["v_proj.weight"], x), DIM) for x in w["x"]]
    outputs, all_gates, all_logits, all_kept = [], [], [], []
    for t, x in enumerate(w["x"]):
        z = logits(case, w, x, queries[t])
        weights, kept = gates_of(case, w, x, z)
        joined = []
        for h in range(HEADS):
            g = h // SIZE
            seen = [rotated(keys[s][g], s, THETA) for s in range(t + 1)]
            head = attended(rotated(queries[t][h], t, THETA), seen, [values[s][g] for s in range(t + 1)])
            joined += [weights[h] * v for v in head]
        outputs.append(product(w["o_proj.weight"], joined))
        all_gates.append(weights)
        all_logits.append(z)
        all_kept.append(kept)
    return outputs, all_gates, group_balance(all_logits, all_kept, GROUPS, case["form"] == "paper")


def numbers_of(case):
    """A function of the tensors: the outputs, and the load-balance loss."""

    def numbers(w):
        outputs, _, balance = run(case, w)
        return outputs, [balance]

    return numbers


def made(case, seed):
    rng = random.Random(seed)
    w = {"x": matrix(rng, TOKENS, WIDTH, 1), "q_proj.weight": matrix(rng, HEADS * DIM, WIDTH, 0.5),
         "k_proj.weight": matrix(rng, KV_HEADS * DIM, WIDTH, 0.5), "v_proj.weight": matrix(rng, KV_HEADS * DIM, WIDTH, 0.5),
         "o_proj.weight": matrix(rng, WIDTH, HEADS * DIM, 0.5)}
    if case["router"] == "learned":
        w["wg.weight"] = matrix(rng, len(ROUTED), WIDTH, 1)
        w["wg_1.weight"] = matrix(rng, len(SHARED), WIDTH, 1)
        if case["two_stage"]:
            w["wg_0.weight"] = matrix(rng, 2, WIDTH, 1)
    outputs, weights, balance = run(case, w)
    result = {**case, "tensors": w, "outputs": outputs, "gates": weights, "balance": balance}
    if case["router"] == "learned":  # gates of query_norm have straight-through gradients, which are no derivatives
        result["cotangent"] = matrix(rng, TOKENS, WIDTH, 1)
        result["directions"] = {name: matrix(rng, len(v), len(v[0]), 1) for name, v in w.items()}
        result["derivatives"] = {
            name: derivatives(numbers_of(case), w, name, result["directions"][name], result["cotangent"]) for name in w}
    return result


CASES = [
    {"router": "learned", "scaling": "code", "two_stage": True, "form": "code"},
    {"router": "learned", "scaling": "paper", "two_stage": False, "form": "paper"},
    {"router": "query_norm", "scaling": "code", "two_stage": False, "form": "code"},
]

if __name__ == "__main__":
    sizes = {"tokens": TOKENS, "width": WIDTH, "heads": HEADS, "kv_heads": GROUPS, "head_dim": DIM, "theta": THETA,
             "shared": SHARED, "top_k": KEPT * GROUPS}
    write(__file__, sizes, [made(case, seed) for seed, case in enumerate(CASES)])
