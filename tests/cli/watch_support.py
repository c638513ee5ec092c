"""Runs that look like those of moh train, made without training, for the tests of moh watch."""

import json
import math
import random


def records(steps, seed=1, layers=4, heads=8, first=1):
    """Lines of metrics.jsonl."""
    draw = random.Random(seed)
    routing = []
    for _ in range(16):
        shares = [[round(draw.random(), 4) for _ in range(heads)] for _ in range(layers)]
        margins = [round(draw.random(), 4) for _ in range(layers)]
        routing.append(f'"head_load":{json.dumps(shares)},"router_margin":{json.dumps(margins)}')
    for step in range(first, steps + 1):
        noise = draw.random()
        loss, norm, rate = 2 + 3 * math.exp(-8 * step / steps) + noise / 10, 1 + noise * noise, 4000 + 400 * noise
        yield (f'{{"kind":"train","step":{step},"loss":{loss},"learning_rate":{1e-3 * (1 - step / steps)},"grad_norm":{norm},"balance_loss":{1 + noise / 10},'
               f'"activated_heads":0.5,{routing[step % 16]},"tokens":{2048 * step},"tokens_per_s":{rate},"unix_time":{1795388828.25 + step}}}\n')


def make_run(folder, steps, seed=1, settings="", **more):
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(records(steps, seed, **more)))
    (folder / "config.yaml").write_text(f"seed: {seed}\ntrain: {{steps: {steps}}}\noutput: {{dir: {folder.name}}}\n{settings}")
