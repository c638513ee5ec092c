"""Makes tests/golden/gated_attention/layers.json: attention layers with sigmoid gates before the output projection (arXiv
2505.06708), in plain float64 loops of Python: a causal layer of a language model with rotary embedding and two KV heads, and
a layer of a vision transformer. Derivatives are central differences.

    python3 tests/golden/gated_attention/make.py
"""

import math
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from plain_layers import attended, derivatives, heads_of, matrix, product, rotated, write  # noqa: E402

TOKENS, WIDTH, HEADS, KV_HEADS, DIM, THETA = 5, 6, 4, 2, 4, 100.0


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def projected(case, w):
    """Queries, keys and values of all tokens, [T][head][d]."""
    if case["layer"] == "vision":
        packed = [heads_of([y + b[0] for y, b in zip(product(w["qkv.weight"], x), w["qkv.bias"])], DIM) for x in w["x"]]
        return [[token[i * HEADS : (i + 1) * HEADS] for token in packed] for i in range(3)]
    q, k, v = ([heads_of(product(w[name + "_proj.weight"], x), DIM) for x in w["x"]] for name in "qkv")
    q, k = ([[rotated(head, t, THETA) for head in token] for t, token in enumerate(y)] for y in (q, k))
    return q, k, v


def run(case, w):
    """Outputs [T, D]."""
    vision = case["layer"] == "vision"
    queries, keys, values = projected(case, w)
    outputs = []
    for t, x in enumerate(w["x"]):
        seen = range(TOKENS if vision else t + 1)
        logits, joined = product(w["output_gate.weight"], x), []
        for h in range(HEADS):
            g = h if vision else h // (HEADS // KV_HEADS)
            head = attended(queries[t][h], [keys[s][g] for s in seen], [values[s][g] for s in seen])
            gates = [logits[h]] * DIM if case["gate"] == "head" else logits[h * DIM : (h + 1) * DIM]
            joined += [sigmoid(z) * v for z, v in zip(gates, head)]
        y = product(w["proj.weight" if vision else "o_proj.weight"], joined)
        outputs.append([v + b[0] for v, b in zip(y, w["proj.bias"])] if vision else y)
    return outputs


def tensors(case, rng):
    """Matrices, and biases as matrices of one column."""
    gates = HEADS * (DIM if case["gate"] == "element" else 1)
    w = {"x": matrix(rng, TOKENS, WIDTH, 1), "output_gate.weight": matrix(rng, gates, WIDTH, 1)}
    if case["layer"] == "vision":
        return {**w, "qkv.weight": matrix(rng, 3 * HEADS * DIM, WIDTH, 0.5), "qkv.bias": matrix(rng, 3 * HEADS * DIM, 1, 0.5),
                "proj.weight": matrix(rng, WIDTH, HEADS * DIM, 0.5), "proj.bias": matrix(rng, WIDTH, 1, 0.5)}
    return {**w, "q_proj.weight": matrix(rng, HEADS * DIM, WIDTH, 0.5), "k_proj.weight": matrix(rng, KV_HEADS * DIM, WIDTH, 0.5),
            "v_proj.weight": matrix(rng, KV_HEADS * DIM, WIDTH, 0.5), "o_proj.weight": matrix(rng, WIDTH, HEADS * DIM, 0.5)}


def made(case, seed):
    rng = random.Random(seed)
    w = tensors(case, rng)
    cotangent = matrix(rng, TOKENS, WIDTH, 1)
    directions = {name: matrix(rng, len(v), len(v[0]), 1) for name, v in w.items()}
    slopes = {name: derivatives(lambda moved: (run(case, moved), []), w, name, directions[name], cotangent)[0] for name in w}
    return {**case, "tensors": w, "outputs": run(case, w), "cotangent": cotangent, "directions": directions,
            "derivatives": slopes}


CASES = [{"layer": layer, "gate": gate} for layer in ("language", "vision") for gate in ("head", "element")]

if __name__ == "__main__":
    sizes = {"tokens": TOKENS, "width": WIDTH, "heads": HEADS, "kv_heads": KV_HEADS, "head_dim": DIM, "theta": THETA}
    write(__file__, sizes, [made(case, seed) for seed, case in enumerate(CASES)])
