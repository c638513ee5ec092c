"""Makes tests/golden/translation/layers.json: the loss of a training step of encoder-decoder transformers and the gradient of every
parameter, sentence by sentence and head by head in plain float64 numbers of Python (number_tape.py), from arXiv 1706.03762, 2410.11842 and
2210.05144. No sentence is packed, and none padded: each has the length that it has.

    python3 tests/golden/translation/make.py
"""

import math
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import number_tape as tape  # noqa: E402
from number_tape import Number, dot, log_sum_exp, number, root, softmax, straight_through, total  # noqa: E402
from plain_layers import matrix, write  # noqa: E402

WIDTH, INNER, HEADS, DIM, VOCAB, SOURCE_VOCAB, POSITIONS, EPS = 6, 8, 4, 2, 9, 7, 8, 1e-5
BALANCE_WEIGHT, Z_WEIGHT = 0.05, 0.01
# Source, what the decoder reads, and what it is to write.
PAIRS = [([3, 5, 2], [2, 4], [4, 2]), ([2], [2, 7, 8, 3], [7, 8, 3, 2]), ([4, 6, 1, 2], [2], [5])]


def affine(w, name, x):
    y = [dot(row, x) for row in w[name + ".weight"]]
    return [a + b for a, b in zip(y, w[name + ".bias"][0])] if name + ".bias" in w else y


def added(a, b):
    return [x + y for x, y in zip(a, b)]


def norm(w, name, x):
    mean = total(x) / len(x)
    centred = [v - mean for v in x]
    scale = root(total([v * v for v in centred]) / len(x) + EPS)
    return [v / scale * g + b for v, g, b in zip(centred, w[name + ".weight"][0], w[name + ".bias"][0])]


def sinusoid(case, position):
    half = WIDTH // 2
    steps = half - 1 if case["sinusoids"] == "fairseq" else half
    angles = [(position + case["position_offset"]) * 10000 ** (-i / steps) for i in range(half)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]


def embedded(case, w, stack, table, sentence):
    rows = []
    for position, token in enumerate(sentence):
        x = [v * math.sqrt(WIDTH) for v in w[table][token]]
        name = stack + ".embed_positions.weight"
        place = w[name][position + case["position_offset"]] if name in w else sinusoid(case, position)
        x = added(x, place)
        rows.append(norm(w, stack + ".layernorm_embedding", x) if case["embedding_norm"] else x)
    return rows


class Routing:
    """Of one attention layer: what all of its tokens say of its load."""

    def __init__(self, case, layer):
        self.case, self.top_k, self.shared = case, case["top_k"][layer], case["shared"]
        self.routed = [h for h in range(HEADS) if h not in self.shared]
        self.groups = case["kv_heads"] if case["routing"] == "within_groups" else 1
        self.logits, self.kept = [], []

    def choose(self, z):
        """Routed heads that are kept, by index: as many in each group."""
        each, kept = len(z) // self.groups, []
        for g in range(self.groups):
            kept += sorted(range(g * each, (g + 1) * each), key=lambda e: -z[e].value)[:self.top_k // self.groups]
        self.logits.append(z)
        self.kept.append(kept)
        return kept

    def gates(self, w, name, x, queries):
        if self.case["router"] == "query_norm":
            return self.binary_gates(queries)
        z = affine(w, name + ".wg", x)
        kept, p = self.choose(z), softmax(z)
        code = self.case["scaling"] == "code"
        kinds = [number(1.0), number(1.0)] if code or not self.shared else [number(0.5), number(0.5)]
        if self.case["two_stage"] and self.shared:
            kinds = [k * (2.0 if code else 1.0) for k in softmax(affine(w, name + ".wg_0", x))]
        found = [number(0.0)] * HEADS
        shares = softmax(affine(w, name + ".wg_1", x)) if len(self.shared) > 1 else [number(1.0)]
        for s, h in zip(shares, self.shared):
            found[h] = kinds[0] * s * (len(self.shared) if code else 1)
        mass = total([p[e] for e in kept])
        for e in kept:
            found[self.routed[e]] = kinds[1] * (p[e] * len(kept) / mass if code else p[e])
        return found

    def binary_gates(self, queries):
        norms = [root(total([v * v for v in queries[h]])) for h in self.routed]
        mean = total(norms) / len(norms)
        deviation = root(total([(n - mean) * (n - mean) for n in norms]) / (len(norms) - 1))
        z = [n / deviation for n in norms]
        kept, p = self.choose(z), softmax(z)
        found = [number(float(h in self.shared)) for h in range(HEADS)]
        for e in kept:
            found[self.routed[e]] = straight_through(1.0, p[e])
        return found

    def balance(self):
        tokens, each, losses = len(self.logits), len(self.routed) // self.groups, []
        for g in range(self.groups):
            group = range(g * each, (g + 1) * each)
            shares = [softmax([z[e] for e in group]) for z in self.logits]
            for i, e in enumerate(group):
                load = sum(e in kept for kept in self.kept) / tokens
                losses.append(total([p[i] for p in shares]) * (load / tokens / self.groups))
        factor = {"code": each, "paper": 1, "shares": each / (self.top_k / self.groups)}[self.case["balance"]]
        return total(losses) * factor

    def z_loss(self):
        return total([n * n for n in map(log_sum_exp, self.logits)]) / len(self.logits)


def heads_of(y):
    return [y[i:i + DIM] for i in range(0, len(y), DIM)]


def attention(case, w, name, queries_from, keys_from, causal, routing):
    size = HEADS // case["kv_heads"]
    keys = [heads_of(affine(w, name + ".k_proj", x)) for x in keys_from]
    values = [heads_of(affine(w, name + ".v_proj", x)) for x in keys_from]
    outputs = []
    for t, x in enumerate(queries_from):
        queries = heads_of(affine(w, name + ".q_proj", x))
        gates = routing.gates(w, name, x, queries) if routing else [number(1.0)] * HEADS
        seen, joined = range(t + 1) if causal else range(len(keys_from)), []
        for h in range(HEADS):
            weights = softmax([dot(queries[h], keys[s][h // size]) * (1 / math.sqrt(DIM)) for s in seen])
            joined += [gates[h] * dot(weights, [values[s][h // size][i] for s in seen]) for i in range(DIM)]
        outputs.append(affine(w, name + ".out_proj", joined))
    return outputs


def residual(case, w, name, rows, branch):
    if case["norm"] == "before":
        return [added(x, y) for x, y in zip(rows, branch([norm(w, name, x) for x in rows]))]
    return [norm(w, name, added(x, y)) for x, y in zip(rows, branch(rows))]


def feed_forward(case, w, layer, rows):
    activation = getattr(tape, case["activation"])
    return residual(case, w, layer + ".final_layer_norm", rows,
                    lambda rows: [affine(w, layer + ".fc2", [activation(v) for v in affine(w, layer + ".fc1", x)]) for x in rows])


def last(case, w, stack, rows):
    return [norm(w, stack + ".layer_norm", x) for x in rows] if case["norm"] == "before" else rows


def tables(case):
    """Names of the matrices of source, target and logits."""
    source, target, output = (f"{name}.weight" for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"))
    return {"all": (source,) * 3, "decoder": (source, target, target), "none": (source, target, output)}[case["embeddings"]]


def logits_of(case, w, source, target, routings):
    of_source, of_target, of_logits = tables(case)
    layer = "encoder.layers.0"
    memory = residual(case, w, layer + ".self_attn_layer_norm", embedded(case, w, "encoder", of_source, source),
                      lambda rows: attention(case, w, layer + ".self_attn", rows, rows, False, routings[0]))
    memory = last(case, w, "encoder", feed_forward(case, w, layer, memory))
    layer = "decoder.layers.0"
    rows = residual(case, w, layer + ".self_attn_layer_norm", embedded(case, w, "decoder", of_target, target),
                    lambda rows: attention(case, w, layer + ".self_attn", rows, rows, True, routings[1]))
    rows = residual(case, w, layer + ".encoder_attn_layer_norm", rows,
                    lambda rows: attention(case, w, layer + ".encoder_attn", rows, memory, False, routings[2]))
    rows = last(case, w, "decoder", feed_forward(case, w, layer, rows))
    bias = w["final_logits_bias"][0] if case["output_bias"] else [0.0] * VOCAB
    return [[dot(row, x) + b for row, b in zip(w[of_logits], bias)] for x in rows]


def loss_of(case, w):
    """Logits of all target tokens, and the loss of the step."""
    routings = [Routing(case, layer) if case["router"] != "none" else None for layer in range(3)]
    logits, losses = [], []
    for source, target, wanted in PAIRS:
        found = logits_of(case, w, source, target, routings)
        logits += found
        losses += [log_sum_exp(z) - z[token] for z, token in zip(found, wanted)]
    loss = total(losses) / len(losses)
    if case["router"] == "none":
        return logits, loss
    auxiliary = total([r.balance() * BALANCE_WEIGHT for r in routings] + [r.z_loss() * case["z_weight"] for r in routings])
    return logits, loss + auxiliary / (len(routings) if case["layers"] == "mean" else 1)


def parameters(case, rng):
    w = {}

    def linear(name, outputs, inputs, bias):
        w[name + ".weight"] = matrix(rng, outputs, inputs, 0.5)
        if bias:
            w[name + ".bias"] = matrix(rng, 1, outputs, 0.3)

    def layer_norm(name):
        w[name + ".weight"] = [[round(1 + v, 4) for v in row] for row in matrix(rng, 1, WIDTH, 0.2)]
        w[name + ".bias"] = matrix(rng, 1, WIDTH, 0.2)

    def attention_of(name):
        for part, rows in (("q", HEADS), ("k", case["kv_heads"]), ("v", case["kv_heads"])):
            linear(f"{name}.{part}_proj", rows * DIM, WIDTH, case["attention_bias"])
        linear(name + ".out_proj", WIDTH, HEADS * DIM, case["attention_bias"])
        if case["router"] == "learned":
            shared = len(case["shared"])
            linear(name + ".wg", HEADS - shared, WIDTH, False)
            if shared and case["two_stage"]:
                linear(name + ".wg_0", 2, WIDTH, False)
            if shared > 1:
                linear(name + ".wg_1", shared, WIDTH, False)

    for stack, parts in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn"))):
        for part in parts:
            attention_of(f"{stack}.layers.0.{part}")
            layer_norm(f"{stack}.layers.0.{part}_layer_norm")
        linear(f"{stack}.layers.0.fc1", INNER, WIDTH, True)
        linear(f"{stack}.layers.0.fc2", WIDTH, INNER, True)
        layer_norm(f"{stack}.layers.0.final_layer_norm")
        if case["norm"] == "before":
            layer_norm(stack + ".layer_norm")
        if case["embedding_norm"]:
            layer_norm(stack + ".layernorm_embedding")
        if case["positions"] == "learned":
            w[stack + ".embed_positions.weight"] = matrix(rng, POSITIONS + case["position_offset"], WIDTH, 0.5)
    for name, rows in zip(tables(case), (VOCAB if case["embeddings"] == "all" else SOURCE_VOCAB, VOCAB, VOCAB)):
        w.setdefault(name, matrix(rng, rows, WIDTH, 0.5))
    if case["output_bias"]:
        w["final_logits_bias"] = matrix(rng, 1, VOCAB, 0.5)
    return w


def made(case, seed):
    case = {**DEFAULTS, **case}
    plain = parameters(case, random.Random(seed))
    w = {name: [[Number(v) for v in row] for row in rows] for name, rows in plain.items()}
    logits, loss = loss_of(case, w)
    tape.differentiate(loss)
    gradients = {name: [[float(f"{n.grad:.12g}") for n in row] for row in rows] for name, rows in w.items()}
    return {**case, "tensors": plain, "logits": [[n.value for n in row] for row in logits], "loss": loss.value, "gradients": gradients}


DEFAULTS = {"router": "none", "routing": "heads", "shared": [], "top_k": [0, 0, 0], "kv_heads": HEADS, "scaling": "code", "two_stage": True,
            "balance": "code", "layers": "mean", "z_weight": 0.0, "norm": "after", "positions": "sinusoidal", "sinusoids": "fairseq",
            "position_offset": 0, "activation": "relu", "embeddings": "all", "embedding_norm": False, "attention_bias": True,
            "output_bias": False}
CASES = [
    {"name": "dense"},
    {"name": "dense, norms before", "norm": "before", "positions": "learned", "position_offset": 2, "activation": "gelu",
     "embeddings": "none", "embedding_norm": True},
    {"name": "MoH", "router": "learned", "shared": [1, 2], "top_k": [1, 1, 1], "sinusoids": "marian", "activation": "silu",
     "embeddings": "decoder", "output_bias": True},
    {"name": "MoH, one shared head and other counts by layer", "router": "learned", "shared": [3], "top_k": [2, 1, 2], "norm": "before",
     "position_offset": 2},
    {"name": "MoH inside groups, gates of the paper", "router": "learned", "routing": "within_groups", "kv_heads": 2, "top_k": [2, 2, 2],
     "scaling": "paper", "balance": "paper"},
    {"name": "MoH by the norms of queries", "router": "query_norm", "shared": [0], "top_k": [2, 2, 2], "kv_heads": 2},
    {"name": "MoA", "router": "learned", "top_k": [2, 2, 2], "kv_heads": 1, "scaling": "paper", "balance": "shares", "layers": "sum",
     "z_weight": Z_WEIGHT, "attention_bias": False},
]

if __name__ == "__main__":
    sizes = {"width": WIDTH, "inner": INNER, "heads": HEADS, "head_dim": DIM, "vocab": VOCAB, "source_vocab": SOURCE_VOCAB,
             "positions": POSITIONS, "balance_weight": BALANCE_WEIGHT, "pairs": PAIRS}
    write(__file__, sizes, [made(case, seed) for seed, case in enumerate(CASES)])
