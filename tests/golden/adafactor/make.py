"""Makes tests/golden/adafactor/steps.json: steps of Adafactor as transformers computes them, in float64, with a constant learning rate.
Some gradients are large, so that updates are clipped.

    build/pytorch-venv/bin/python tests/golden/adafactor/make.py
"""

import json
import pathlib

import torch
from transformers.optimization import Adafactor

LEARNING_RATE, WEIGHT_DECAY, STEPS = 0.05, 0.1, 4
SHAPES = {"matrix": (5, 3), "row": (1, 4), "column": (4, 1), "vector": (6,)}


def rows(tensor):
    return tensor.reshape(1, -1).tolist() if tensor.dim() == 1 else tensor.tolist()


def case(shape):
    value = torch.nn.Parameter(torch.randn(shape, dtype=torch.float64))
    optimizer = Adafactor([value], lr=LEARNING_RATE, scale_parameter=False, relative_step=False, warmup_init=False,
                          weight_decay=WEIGHT_DECAY)
    found = {"value": rows(value.detach()), "steps": []}
    for step in range(STEPS):
        value.grad = torch.randn(shape, dtype=torch.float64) * 3.0**step
        optimizer.step()
        found["steps"].append({"grad": rows(value.grad), "value": rows(value.detach())})
    return found


if __name__ == "__main__":
    torch.manual_seed(5)
    golden = {"learning_rate": LEARNING_RATE, "weight_decay": WEIGHT_DECAY, "cases": {name: case(shape) for name, shape in SHAPES.items()}}
    pathlib.Path(__file__).with_name("steps.json").write_text(json.dumps(golden) + "\n")
