"""Runs that look like those of moh train, made without training, for the tests of moh watch."""

import json
import math
import random


def records(steps, seed=1, layers=4, heads=8, first=1):
    """Lines of metrics.jsonl."""
    draw = random.Random(seed)
    for step in range(first, steps + 1):
        yield json.dumps({
            "kind": "train", "step": step, "loss": 2 + 3 * math.exp(-8 * step / steps) + draw.gauss(0, 0.05), "learning_rate": 1e-3 * (1 - step / steps),
            "grad_norm": abs(draw.gauss(1, 0.2)), "balance_loss": 1 + draw.random() / 10, "activated_heads": 0.5,
            "head_load": [[round(draw.random(), 4) for _ in range(heads)] for _ in range(layers)],
            "router_margin": [round(draw.random(), 4) for _ in range(layers)], "tokens": 2048 * step, "tokens_per_s": draw.gauss(4000, 100),
            "unix_time": 1795388828.25 + step}, separators=(",", ":")) + "\n"


def make_run(folder, steps, seed=1, settings="", **more):
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(records(steps, seed, **more)))
    (folder / "config.yaml").write_text(f"seed: {seed}\ntrain: {{steps: {steps}}}\noutput: {{dir: {folder.name}}}\n{settings}")
