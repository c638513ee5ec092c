"""Makes tests/golden/balance/routers.json: the squared coefficient of variation of the heads' importance with its gradient by
central differences, and biases of the selection over several steps, in plain float64 loops of Python from
docs/load_balance.md.

    python3 tests/golden/balance/make.py
"""

import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from plain_layers import softmax  # noqa: E402

TOKENS, HEADS, STEPS, RATE = 12, 8, 20, 0.01
DIFFERENCE = 1e-5


def members(group, groups):
    size = HEADS // groups
    return range(group * size, (group + 1) * size)


def kept_heads(z, bias, kept, groups):
    """The routed heads that a token selects, by group, largest p + b first."""
    p = softmax(z)
    found = []
    for g in range(groups):
        found += sorted(members(g, groups), key=lambda e: -(p[e] + bias[e]))[: kept // groups]
    return found


def variation(logits, kept, groups):
    """The mean over groups of the variance of a group's importance over its squared mean."""
    loss = 0.0
    for g in range(groups):
        importance = dict.fromkeys(members(g, groups), 0.0)
        for z in logits:
            chosen = [e for e in kept_heads(z, [0.0] * HEADS, kept, groups) if e in importance]
            for e, gate in zip(chosen, softmax([z[e] for e in chosen])):
                importance[e] += gate
        values = list(importance.values())
        mean = sum(values) / len(values)
        loss += sum((v - mean) ** 2 for v in values) / len(values) / mean**2 / groups
    return loss


def gradient(logits, kept, groups):
    def at(t, e, step):
        moved = [list(z) for z in logits]
        moved[t][e] += step
        return variation(moved, kept, groups)

    return [[(at(t, e, DIFFERENCE) - at(t, e, -DIFFERENCE)) / (2 * DIFFERENCE) for e in range(HEADS)]
            for t in range(len(logits))]


def balanced(steps, kept, groups):
    """The selections of each step, and the biases after it."""
    bias, result = [0.0] * HEADS, []
    for logits in steps:
        top = [kept_heads(z, bias, kept, groups) for z in logits]
        load = [sum(e in chosen for chosen in top) for e in range(HEADS)]
        for g in range(groups):
            heads = members(g, groups)
            mean = sum(load[e] for e in heads) / len(heads)
            for e in heads:
                bias[e] += RATE * ((load[e] < mean) - (load[e] > mean))
        result.append({"logits": logits, "top": top, "bias": list(bias)})
    return result


def logits_of(rng, skew):
    return [[round(rng.gauss(skew * e / HEADS, 1), 3) for e in range(HEADS)] for _ in range(TOKENS)]


if __name__ == "__main__":
    rng = random.Random(1)
    cases = []
    for kept, groups in ((3, 1), (4, 2), (1, 1)):
        logits = logits_of(rng, 1)
        cases.append({"top_k": kept, "groups": groups, "logits": logits, "variation": variation(logits, kept, groups),
                      "gradient": gradient(logits, kept, groups),
                      "steps": balanced([logits_of(rng, 2) for _ in range(STEPS)], kept, groups)})
    text = json.dumps({"tokens": TOKENS, "heads": HEADS, "rate": RATE, "cases": cases})
    pathlib.Path(__file__).with_name("routers.json").write_text(text + "\n")
