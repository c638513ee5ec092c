"""Parts of attention layers in plain float64 loops of Python, for the scripts that make golden layers (tests/golden/*/make.py)."""

import json
import math
import pathlib

STEP = 1e-5  # of central differences


def softmax(z):
    top = max(z)
    e = [math.exp(v - top) for v in z]
    return [v / sum(e) for v in e]


def product(w, x):
    return [sum(a * b for a, b in zip(row, x)) for row in w]


def heads_of(y, dim):
    return [y[i : i + dim] for i in range(0, len(y), dim)]


def rotated(head, position, theta):
    half = len(head) // 2
    turned = list(head)
    for i in range(half):
        angle = position * theta ** (-2 * i / len(head))
        a, b = head[i], head[i + half]
        turned[i], turned[i + half] = a * math.cos(angle) - b * math.sin(angle), b * math.cos(angle) + a * math.sin(angle)
    return turned


def attended(q, keys, values):
    weights = softmax([sum(a * b for a, b in zip(q, k)) / math.sqrt(len(q)) for k in keys])
    return [sum(w * v[i] for w, v in zip(weights, values)) for i in range(len(q))]


def gates(case, w, x, z, kept, shared, routed):
    """Gates of all heads of a learned router: routed logits z of input x, of whose heads those with the indices `kept` are kept."""
    code = case["scaling"] == "code"
    p, s = softmax(z), softmax(product(w["wg_1.weight"], x))
    kinds = [1.0, 1.0] if code else [0.5, 0.5]
    if case["two_stage"]:
        kinds = [(2 if code else 1) * v for v in softmax(product(w["wg_0.weight"], x))]
    found = [0.0] * (len(shared) + len(routed))
    for i, h in enumerate(shared):
        found[h] = kinds[0] * (len(shared) if code else 1) * s[i]
    for e in kept:
        found[routed[e]] = kinds[1] * (len(kept) * p[e] / sum(p[k] for k in kept) if code else p[e])
    return found


def group_balance(all_logits, all_kept, groups, paper=False):
    """The load-balance loss inside groups of routed heads, the mean over groups of a group's own; of each token its logits, and the indices of
    the heads that it keeps."""
    tokens, each, loss = len(all_logits), len(all_logits[0]) // groups, 0.0
    for g in range(groups):
        group = list(range(g * each, (g + 1) * each))
        shares = [softmax([z[e] for e in group]) for z in all_logits]
        mean = [sum(p[i] for p in shares) / tokens for i in range(each)]
        load = [sum(e in kept for kept in all_kept) / tokens for e in group]
        loss += (1 if paper else each) * sum(a * b for a, b in zip(mean, load)) / groups
    return loss


def matrix(rng, rows, columns, scale):
    return [[round(rng.gauss(0, scale), 4) for _ in range(columns)] for _ in range(rows)]


def derivatives(run, w, name, direction, cotangent):
    """Derivatives along `direction` of one tensor, by central differences: of sum(cotangent * outputs), and of the further numbers.
    run(w) returns the outputs and a list of these."""

    def at(step):
        outputs, further = run({**w, name: [[a + step * b for a, b in zip(*rows)] for rows in zip(w[name], direction)]})
        return [sum(c * y for rows in zip(cotangent, outputs) for c, y in zip(*rows)), *further]

    return [(after - before) / (2 * STEP) for before, after in zip(at(-STEP), at(STEP))]


def golden_case(case, w, rng, run):
    """A case with its tensors w: outputs of run(case, w), and their derivatives along a random direction of each tensor."""
    outputs = run(case, w)
    cotangent = matrix(rng, len(outputs), len(outputs[0]), 1)
    directions = {name: matrix(rng, len(v), len(v[0]), 1) for name, v in w.items()}
    slopes = {name: derivatives(lambda moved: (run(case, moved), []), w, name, directions[name], cotangent) for name in w}
    return {**case, "tensors": w, "outputs": outputs, "cotangent": cotangent, "directions": directions, "derivatives": slopes}


def write(script, sizes, cases):
    """layers.json beside the script."""
    pathlib.Path(script).with_name("layers.json").write_text(json.dumps({**sizes, "cases": cases}) + "\n")
