"""Makes tests/golden/gqe/layers.json: attention of a LLaMA layer with `routing: gqe`, head by head in plain float64 loops of Python, from
docs/paper.md (GQE), and derivatives by central differences.

    python3 tests/golden/gqe/make.py
"""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from plain_layers import attended, derivatives, group_balance, heads_of, matrix, product, rotated, softmax, write  # noqa: E402

TOKENS, WIDTH, HEADS, GROUPS, DIM, THETA = 6, 5, 8, 2, 4, 100.0
SIZE = HEADS // GROUPS


def kept_of(z, each, top_k):
    """Indices of the routed heads that a token keeps, group by group, and their weights in the sum."""
    kept, weights = [], []
    for g in range(GROUPS):
        p = softmax(z[g * each : (g + 1) * each])
        best = sorted(range(each), key=lambda e: -p[e])[:top_k]
        kept += [g * each + e for e in best]
        weights += [p[e] for e in best]
    return kept, [p / sum(weights) for p in weights]


def run(case, w):
    """Outputs [T, D], weights [T, H] and the load-balance loss."""
    shared = case["shared"]
    routed = [h for h in range(HEADS) if h not in shared]
    each = len(routed) // GROUPS
    queries, keys, values = ([heads_of(product(w[name + ".weight"], x), DIM) for x in w["x"]] for name in ("q_proj", "k_proj", "v_proj"))
    outputs, all_weights, all_logits, all_kept = [], [], [], []
    for t, x in enumerate(w["x"]):
        z = product(w["wg.weight"], x)
        kept, shares = kept_of(z, each, case["top_k"] // GROUPS)
        weight_of = {routed[e]: share for e, share in zip(kept, shares)}
        slots, total = [], [0.0] * DIM
        for h in sorted([*shared, *weight_of]):
            g = h // SIZE
            seen = [rotated(keys[s][g], s, THETA) for s in range(t + 1)]
            head = attended(rotated(queries[t][h], t, THETA), seen, [values[s][g] for s in range(t + 1)])
            slots += head
            total = [a + weight_of.get(h, 0.0) * b for a, b in zip(total, head)]
        outputs.append(product(w["o_proj.weight"], slots + total))
        all_weights.append([weight_of.get(h, 0.0) for h in range(HEADS)])
        all_logits.append(z)
        all_kept.append(kept)
    return outputs, all_weights, group_balance(all_logits, all_kept, GROUPS)


def numbers_of(case):
    """A function of the tensors: the outputs, and the load-balance loss."""

    def numbers(w):
        outputs, _, balance = run(case, w)
        return outputs, [balance]

    return numbers


def made(case, seed):
    rng = random.Random(seed)
    slots = len(case["shared"]) + case["top_k"] + 1
    w = {"x": matrix(rng, TOKENS, WIDTH, 1), "q_proj.weight": matrix(rng, HEADS * DIM, WIDTH, 0.5),
         "k_proj.weight": matrix(rng, GROUPS * DIM, WIDTH, 0.5), "v_proj.weight": matrix(rng, GROUPS * DIM, WIDTH, 0.5),
         "o_proj.weight": matrix(rng, WIDTH, slots * DIM, 0.5), "wg.weight": matrix(rng, HEADS - len(case["shared"]), WIDTH, 1)}
    outputs, weights, balance = run(case, w)
    result = {**case, "tensors": w, "outputs": outputs, "gates": weights, "balance": balance, "cotangent": matrix(rng, TOKENS, WIDTH, 1)}
    result["directions"] = {name: matrix(rng, len(v), len(v[0]), 1) for name, v in w.items()}
    result["derivatives"] = {
        name: derivatives(numbers_of(case), w, name, result["directions"][name], result["cotangent"]) for name in w}
    return result


CASES = [
    {"router": "learned", "routing": "gqe", "shared": [], "top_k": 2, "two_stage": True, "scaling": "code", "form": "code"},
    {"router": "learned", "routing": "gqe", "shared": [1, 6], "top_k": 4, "two_stage": True, "scaling": "code", "form": "code"},
]

if __name__ == "__main__":
    sizes = {"tokens": TOKENS, "width": WIDTH, "heads": HEADS, "kv_heads": GROUPS, "head_dim": DIM, "theta": THETA}
    write(__file__, sizes, [made(case, seed) for seed, case in enumerate(CASES)])
