"""Makes tests/golden/routed_keys/layers.json: attention of a LLaMA layer with `routed: queries_keys_values` (NAMOH, arXiv
2609.38832), head by head over the tokens that selected it, in plain float64 loops of Python, and derivatives by central
differences. Gates, load-balance loss and the form of the file are those of tests/golden/within_groups/make.py, with one group.

    python3 tests/golden/routed_keys/make.py
"""

import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / "within_groups"), str(pathlib.Path(__file__).parents[1])]
import make as layer  # noqa: E402
from plain_layers import attended, heads_of, product, rotated, write  # noqa: E402

HEADS, KEPT = 5, 2
SHARED = [1]


def run(case, w):
    """Outputs [T, D], gates [T, H] and the load-balance loss."""
    queries, keys, values = ([heads_of(product(w[name], x), layer.DIM) for x in w["x"]]
                             for name in ("q_proj.weight", "k_proj.weight", "v_proj.weight"))
    all_logits = [layer.logits(case, w, x, queries[t]) for t, x in enumerate(w["x"])]
    chosen = [layer.gates_of(case, w, x, z) for x, z in zip(w["x"], all_logits)]
    outputs = [[0.0] * layer.WIDTH for _ in w["x"]]
    for h in range(HEADS):
        tokens = [t for t in range(layer.TOKENS) if h in SHARED or layer.ROUTED.index(h) in chosen[t][1]]
        window = case["shared_window"] if h in SHARED and case["shared_window"] else len(tokens)
        at = [i if case["positions"] == "head" else t for i, t in enumerate(tokens)]
        for i, t in enumerate(tokens):
            seen = range(max(0, i + 1 - window), i + 1)
            head = attended(rotated(queries[t][h], at[i], layer.THETA),
                                  [rotated(keys[tokens[j]][h], at[j], layer.THETA) for j in seen],
                                  [values[tokens[j]][h] for j in seen])
            columns = [row[h * layer.DIM : (h + 1) * layer.DIM] for row in w["o_proj.weight"]]
            for j, y in enumerate(product(columns, head)):
                outputs[t][j] += chosen[t][0][h] * y
    return outputs, [gates for gates, _ in chosen], layer.balance_of(case, all_logits, [kept for _, kept in chosen])


CASES = [
    {"router": "learned", "scaling": "code", "two_stage": True, "form": "code", "positions": "head", "shared_window": 0},
    {"router": "learned", "scaling": "paper", "two_stage": False, "form": "paper", "positions": "sequence",
     "shared_window": 3},
    {"router": "query_norm", "scaling": "code", "two_stage": False, "form": "code", "positions": "head",
     "shared_window": 2},
]

if __name__ == "__main__":
    layer.TOKENS, layer.HEADS, layer.GROUPS, layer.KV_HEADS = 9, HEADS, 1, HEADS
    layer.SHARED, layer.KEPT, layer.run = SHARED, KEPT, run
    layer.ROUTED = [h for h in range(HEADS) if h not in SHARED]
    layer.EACH = len(layer.ROUTED)
    sizes = {"tokens": layer.TOKENS, "width": layer.WIDTH, "heads": HEADS, "kv_heads": HEADS, "head_dim": layer.DIM,
             "theta": layer.THETA, "shared": SHARED, "top_k": KEPT}
    write(__file__, sizes, [layer.made(case, seed) for seed, case in enumerate(CASES)])
