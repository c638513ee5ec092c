"""Makes tests/golden/gated_attention/layers.json: attention layers with sigmoid gates before the output projection (arXiv
2505.06708), in plain float64 loops of Python: a causal layer of a language model with rotary embedding and two KV heads, and
a layer of a vision transformer. Derivatives are central differences.

    python3 tests/golden/gated_attention/make.py
"""

import json
import math
import pathlib
import random

TOKENS, WIDTH, HEADS, KV_HEADS, DIM, THETA = 5, 6, 4, 2, 4, 100.0
STEP = 1e-5


def softmax(z):
    top = max(z)
    e = [math.exp(v - top) for v in z]
    return [v / sum(e) for v in e]


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def product(w, x):
    return [sum(a * b for a, b in zip(row, x)) for row in w]


def heads_of(y):
    return [y[i : i + DIM] for i in range(0, len(y), DIM)]


def rotated(head, position):
    half = DIM // 2
    turned = list(head)
    for i in range(half):
        angle = position * THETA ** (-2 * i / DIM)
        a, b = head[i], head[i + half]
        turned[i], turned[i + half] = a * math.cos(angle) - b * math.sin(angle), b * math.cos(angle) + a * math.sin(angle)
    return turned


def attended(q, keys, values):
    weights = softmax([sum(a * b for a, b in zip(q, k)) / math.sqrt(DIM) for k in keys])
    return [sum(w * v[i] for w, v in zip(weights, values)) for i in range(DIM)]


def projected(case, w):
    """Queries, keys and values of all tokens, [T][head][d]."""
    if case["layer"] == "vision":
        packed = [heads_of([y + b[0] for y, b in zip(product(w["qkv.weight"], x), w["qkv.bias"])]) for x in w["x"]]
        return [[token[i * HEADS : (i + 1) * HEADS] for token in packed] for i in range(3)]
    q, k, v = ([heads_of(product(w[name + "_proj.weight"], x)) for x in w["x"]] for name in "qkv")
    q, k = ([[rotated(head, t) for head in token] for t, token in enumerate(y)] for y in (q, k))
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


def matrix(rng, rows, columns, scale):
    return [[round(rng.gauss(0, scale), 4) for _ in range(columns)] for _ in range(rows)]


def derivative(case, w, name, direction, cotangent):
    """The derivative of sum(cotangent * outputs) along `direction` of one tensor."""

    def at(step):
        moved = [[a + step * b for a, b in zip(*rows)] for rows in zip(w[name], direction)]
        outputs = run(case, {**w, name: moved})
        return sum(c * y for rows in zip(cotangent, outputs) for c, y in zip(*rows))

    return (at(STEP) - at(-STEP)) / (2 * STEP)


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
    derivatives = {name: derivative(case, w, name, directions[name], cotangent) for name in w}
    return {**case, "tensors": w, "outputs": run(case, w), "cotangent": cotangent, "directions": directions,
            "derivatives": derivatives}


CASES = [{"layer": layer, "gate": gate} for layer in ("language", "vision") for gate in ("head", "element")]

if __name__ == "__main__":
    sizes = {"tokens": TOKENS, "width": WIDTH, "heads": HEADS, "kv_heads": KV_HEADS, "head_dim": DIM, "theta": THETA}
    text = json.dumps({**sizes, "cases": [made(case, seed) for seed, case in enumerate(CASES)]})
    pathlib.Path(__file__).with_name("layers.json").write_text(text + "\n")
