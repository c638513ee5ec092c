"""Measures one thing in PyTorch, in a process of its own, and prints JSON lines. Started by bench_pytorch.py with the
Python that has PyTorch:

    worker.py '{"work": "step", "compile": true, "threads": 2, "warmups": 3, "repeats": 10, ...}'

`work` is `versions`, `step`, `attention` or `module`. Ends with {"error": ...} and exit code 1 where PyTorch cannot do
what is asked, such as compile without a C++ compiler.
"""

import json
import math
import pathlib
import resource
import statistics
import sys
import time

import torch
from torch.nn import functional as F


def memory_field(name):
    """A size from /proc/self/status in bytes: VmRSS, or VmHWM, its peak. None where there is no such file."""
    try:
        for line in pathlib.Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def reset_memory_peak():
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    except OSError:
        pass  # then the peak includes that of the import, which is not above what stays of it by much


# After the import of torch and before its first tensor.
IMPORT_RSS = memory_field("VmRSS")
reset_memory_peak()

from models import BALANCE_WEIGHT, Attention, Llama, Routing, make_optimizer  # noqa: E402  (after the measurement)


def spread(sample):
    """Distance of the 10th and the 90th percentile, as a share of the median, as `moh bench` has it."""
    if len(sample) < 2:
        return 0.0
    tenths = statistics.quantiles(sample, n=10, method="inclusive")
    return (tenths[-1] - tenths[0]) / statistics.median(sample)


class Stopwatch:
    """Milliseconds between laps, by name. PyTorch's CPU ops are done when they return."""

    def __init__(self):
        self.laps = {}
        self.last = time.perf_counter()

    def start(self):
        self.last = time.perf_counter()

    def lap(self, name):
        now = time.perf_counter()
        self.laps.setdefault(name, []).append((now - self.last) * 1e3)
        self.last = now


def repeat(job, run):
    """Calls run(stopwatch) `warmups` times for nothing, then `repeats` times. Returns {lap name: times}, and the page
    faults per counted repeat."""
    for _ in range(job["warmups"]):
        run(Stopwatch())
    stopwatch = Stopwatch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(job["repeats"]):
        run(stopwatch)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return stopwatch.laps, faults / job["repeats"]


def compiled(job, function):
    return torch.compile(function, dynamic=False) if job["compile"] else function


def measure_step(job):
    """Training steps of a LLaMA model, dense or MoH, on random tokens."""
    config = job["config"]
    shape = (config["train"]["batch_size"], config["data"]["sequence_length"])
    model = Llama(config["model"])
    optimizer = make_optimizer(model, config["optim"])
    parameters = list(model.parameters())
    loss_of = compiled(job, model)
    tokens = torch.randint(config["model"]["vocab_size"], (shape[0], shape[1] + 1))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    losses = []

    def step(stopwatch):
        stopwatch.start()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(inputs, targets)
        stopwatch.lap("forward")
        loss.backward()
        stopwatch.lap("backward")
        torch.nn.utils.clip_grad_norm_(parameters, config["optim"]["clip_grad_norm"])
        optimizer.step()
        losses.append(loss.item())
        stopwatch.lap("optimizer")

    laps, faults = repeat(job, step)
    if not all(map(math.isfinite, losses)):
        raise ArithmeticError(f"loss of the PyTorch model is not finite: {losses}")
    steps = [sum(parts) for parts in zip(*laps.values())]
    step_ms = statistics.median(steps)
    yield {"step_ms": step_ms, "step_ms_spread": spread(steps),
           **{f"{name}_ms": statistics.median(times) for name, times in laps.items()},
           "tokens_per_s": inputs.numel() / step_ms * 1e3, "parameters": sum(p.numel() for p in parameters),
           "first_loss": losses[0], "last_loss": losses[-1], "page_faults": faults,
           "peak_rss_bytes": memory_field("VmHWM"), "import_rss_bytes": IMPORT_RSS}


def forward_backward_record(laps):
    both = [sum(parts) for parts in zip(laps["forward"], laps["backward"])]
    return {"forward_ms": statistics.median(laps["forward"]), "forward_backward_ms": statistics.median(both),
            "spread": spread(both)}


def measure_attention(job):
    """The fused attention kernel alone, on queries, keys and values that are contiguous by head."""
    shape = (job["batch"], job["heads"], job["tokens"], job["head_dim"])
    q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
    cotangent = torch.randn(shape)

    def run(stopwatch):
        q.grad = k.grad = v.grad = None
        stopwatch.start()
        out = F.scaled_dot_product_attention(q, k, v, is_causal=job["causal"])
        stopwatch.lap("forward")
        out.backward(cotangent)
        stopwatch.lap("backward")

    laps, _ = repeat(job, run)
    kernel = torch.nn.attention.SDPBackend(torch._fused_sdp_choice(q, k, v, is_causal=job["causal"]))
    yield {"tokens": job["tokens"], "causal": job["causal"], "kernel": kernel.name, **forward_backward_record(laps)}


def measure_module(job):
    """MoH attention from router to output projection in the reference formulation, and dense attention beside it."""
    for active in job["active"]:
        yield {"tokens": job["tokens"], "active": active, **forward_backward_record(measure_share(job, active))}


def measure_share(job, active):
    heads = job["heads"]
    kept = round(active * heads)
    shared = max(heads // 8, 1)
    routing = Routing(shared, kept - shared) if active < 1.0 else None
    module = Attention(job["width"], heads, job["head_dim"], causal=job["causal"], bias=True, routing=routing)
    forward = compiled(job, module)
    x = torch.randn(job["batch"], job["tokens"], job["width"], requires_grad=True)
    cotangent = torch.randn_like(x)

    def run(stopwatch):
        x.grad = None
        module.zero_grad(set_to_none=True)
        stopwatch.start()
        y, balance = forward(x)
        stopwatch.lap("forward")
        if balance is None:
            y.backward(cotangent)
        else:
            torch.autograd.backward([y, balance], [cotangent, torch.full_like(balance, BALANCE_WEIGHT)])
        stopwatch.lap("backward")

    return repeat(job, run)[0]


# Names in torch.__config__ of what computes products and runs threads on some CPU.
LIBRARIES = ("Math Kernel Library", "MKL-DNN", "oneDNN", "OpenMP")


def versions(_job):
    """What PyTorch is made of."""
    lines = [line.strip(" -") for line in torch.__config__.show().splitlines()]
    libraries = [line for line in lines if any(name in line for name in LIBRARIES) and "settings" not in line]
    yield {"python": sys.version.split()[0], "torch": torch.__version__, "libraries": libraries,
           "capability": torch.backends.cpu.get_cpu_capability()}


WORK = {"versions": versions, "step": measure_step, "attention": measure_attention, "module": measure_module}


def main():
    job = json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    torch.set_num_interop_threads(1)
    torch.set_float32_matmul_precision("highest")
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    try:
        for record in WORK[job["work"]](job):
            print(json.dumps(record), flush=True)
    except Exception as error:  # the parent reports it, and goes on with what can be measured
        reason = str(error).strip().splitlines()
        print(json.dumps({"error": f"{type(error).__name__}: {reason[0] if reason else 'no reason given'}"}))
        sys.exit(1)


if __name__ == "__main__":
    main()
