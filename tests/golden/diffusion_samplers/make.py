"""Makes tests/golden/diffusion_samplers/samplers.json: ways from noise to pictures in float64, element by element, for data that is
normal, of which what a perfect model predicts is known. Needs Python alone:

    python3 tests/golden/diffusion_samplers/make.py
"""

import json
import math
import pathlib
import random

MEAN, DEVIATION = 0.7, 0.6  # of the data
STEPS = 1000
LAST, SBDM_START = 0.04, 1e-3
PATHS = {
    "linear": lambda t: (t, 1 - t, 1.0, -1.0),
    "cosine": lambda t: (math.sin(math.pi * t / 2), math.cos(math.pi * t / 2), math.pi / 2 * math.cos(math.pi * t / 2),
                         -math.pi / 2 * math.sin(math.pi * t / 2)),
}


def expected(x, signal, noise):
    """E[data | x] and E[eps | x] of x = signal data + noise eps."""
    off = (x - signal * MEAN) / (signal**2 * DEVIATION**2 + noise**2)
    return MEAN + signal * DEVIATION**2 * off, noise * off


def velocity(path, x, t):
    signal, noise, up, down = PATHS[path](t)
    data, eps = expected(x, signal, noise)
    return up * data + down * eps


def score(path, x, t):
    """By the velocity, as SiT writes it, not by the distribution: the two agree where the velocity is exact."""
    signal, noise, up, down = PATHS[path](t)
    ratio = signal / up
    return (ratio * velocity(path, x, t) - x) / (noise**2 - ratio * down * noise)


def euler(path, x, steps):
    for i in range(steps):
        x += velocity(path, x, i / steps) / steps
    return x


def heun(path, x, steps):
    for i in range(steps):
        first = velocity(path, x, i / steps)
        x += (first + velocity(path, x + first / steps, (i + 1) / steps)) / (2 * steps)
    return x


def coefficient(form, path, t):
    signal, noise, up, down = PATHS[path](t)
    return {"sigma": lambda: noise, "sbdm": lambda: up / signal * noise**2 - noise * down, "constant": lambda: 1.0}[form]()


def euler_maruyama(path, form, x, steps, noise):
    begin = SBDM_START if form == "sbdm" else 0.0
    length = (1 - LAST - begin) / (steps - 1)

    def drift(x, t):
        return velocity(path, x, t) + coefficient(form, path, t) * score(path, x, t)

    for i in range(steps - 1):
        t = begin + i * length
        x += drift(x, t) * length + math.sqrt(2 * coefficient(form, path, t) * length) * noise[i]
    return x + drift(x, 1 - LAST) * LAST


def dpm_solver(kept, x):
    """DPM-Solver++ (2M), arXiv 2211.01095, algorithm 2, with exponentials of differences of lambda, and first order at both ends."""
    products, product = [], 1.0
    for t in range(STEPS):
        product *= 1 - (1e-4 + (0.02 - 1e-4) * t / (STEPS - 1))
        products.append(product)
    alpha, sigma = [math.sqrt(p) for p in products], [math.sqrt(1 - p) for p in products]
    lam = [math.log(a) - math.log(s) for a, s in zip(alpha, sigma)]
    before = None
    for i in range(len(kept) - 1, 0, -1):
        s, t = kept[i], kept[i - 1]
        data = (x - sigma[s] * expected(x, alpha[s], sigma[s])[1]) / alpha[s]
        h, used = lam[t] - lam[s], data
        if before is not None:
            ratio = (lam[s] - lam[kept[i + 1]]) / h
            used = (1 + 1 / (2 * ratio)) * data - before / (2 * ratio)
        x = sigma[t] / sigma[s] * x - alpha[t] * math.expm1(-h) * used
        before = data
    first = kept[0]
    return (x - sigma[first] * expected(x, alpha[first], sigma[first])[1]) / alpha[first]


def ways(start, noise, steps):
    """Each way that moh has along a flow, and what it makes of each number of `start`."""
    rows = [list(row) for row in zip(*noise)]
    for path in PATHS:
        yield {"path": path, "sampler": "euler", "end": [euler(path, x, steps) for x in start]}
        yield {"path": path, "sampler": "heun", "end": [heun(path, x, steps) for x in start]}
        for form in ("sigma", "sbdm", "constant"):
            yield {"path": path, "sampler": "euler_maruyama", "diffusion": form,
                   "end": [euler_maruyama(path, form, x, steps, own) for x, own in zip(start, rows)]}


if __name__ == "__main__":
    draw = random.Random(3)
    steps = 7
    start = [draw.gauss(0, 1) for _ in range(6)]
    noise = [[draw.gauss(0, 1) for _ in start] for _ in range(steps - 1)]
    kept = [[0, 333, 666, 999], [5, 40, 120, 300, 444, 600, 820, 990]]
    golden = {"mean": MEAN, "deviation": DEVIATION, "steps": steps, "start": start, "noise": noise,
              "flows": list(ways(start, noise, steps)),
              "dpm": [{"kept": each, "end": [dpm_solver(each, x) for x in start]} for each in kept]}
    pathlib.Path(__file__).with_name("samplers.json").write_text(json.dumps(golden) + "\n")
