"""Runs one measurement in PyTorch, in a process of its own, and prints JSON lines. Started by bench_pytorch.py with the
Python of the virtual environment:

    worker.py '{"work": "step", "compile": true, "threads": 2, "warmups": 3, "repeats": 10, ...}'

`work` is `versions`, `step`, `sample`, `attention`, `module` or `convolutions`. Ends with {"error": ...} and exit code 1 if PyTorch
fails, such as in compiling without a C++ compiler.
"""

import contextlib
import ctypes
import json
import math
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
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
        pass  # then the peak includes that of the import, which is not much higher than what remains of it


# After the import of torch and before its first tensor.
IMPORT_RSS = memory_field("VmRSS")
reset_memory_peak()

from diffusion import STEPS as DIFFUSION_STEPS  # noqa: E402  (after the measurement)
from diffusion import Dit, Training, reverse_step, schedule  # noqa: E402
from models import BALANCE_WEIGHT, Attention, Llama, Optimizer, place  # noqa: E402  (after the measurement)
from routing import Routing  # noqa: E402
from vision import Classifier  # noqa: E402


def spread(sample):
    """(90th percentile - 10th percentile) / median, as in `moh bench`."""
    if len(sample) < 2:
        return 0.0
    tenths = statistics.quantiles(sample, n=10, method="inclusive")
    return (tenths[-1] - tenths[0]) / statistics.median(sample)


DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "float32": torch.float32, "bfloat16": torch.bfloat16}


class CpuStopwatch:
    """Milliseconds of laps, by name. PyTorch's CPU ops are synchronous."""

    def __init__(self):
        self.times = {}
        self.last = time.perf_counter()

    def start(self):
        self.last = time.perf_counter()

    def lap(self, name):
        now = time.perf_counter()
        self.times.setdefault(name, []).append((now - self.last) * 1e3)
        self.last = now

    def laps(self):
        return self.times


class CudaStopwatch:
    """The same on a GPU: events in the stream, read after the last pass, so that the host can run ahead."""

    def __init__(self):
        self.pairs = {}
        self.last = None

    @staticmethod
    def now():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def start(self):
        self.last = self.now()

    def lap(self, name):
        now = self.now()
        self.pairs.setdefault(name, []).append((self.last, now))
        self.last = now

    def laps(self):
        torch.cuda.synchronize()
        return {name: [begin.elapsed_time(end) for begin, end in pairs] for name, pairs in self.pairs.items()}


class HeadStart:
    """Flushes L2 before each pass on a GPU as moh does (train/base/measure/pass_timer.h), by overwriting four times its size."""

    def __init__(self, device):
        self.block = None
        if device == "cuda":
            size = 4 * torch.cuda.get_device_properties(0).L2_cache_size
            self.block = torch.empty(size, dtype=torch.uint8, device=device)

    def __call__(self):
        if self.block is not None:
            self.block.zero_()


def repeat(job, run):
    """Calls run(stopwatch) `warmups` times without measuring, then `repeats` times. Returns {lap name: times} and the page
    faults per measured repeat."""
    make_stopwatch = CudaStopwatch if job["device"] == "cuda" else CpuStopwatch
    for _ in range(job["warmups"]):
        run(make_stopwatch())
    stopwatch = make_stopwatch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(job["repeats"]):
        run(stopwatch)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return stopwatch.laps(), faults / job["repeats"]


def compiled(job, function):
    return torch.compile(function, dynamic=False) if job["compile"] else function


def language_step(config, device):
    """A LLaMA model, dense or MoH, and random tokens; the items of a step are tokens."""
    shape = (config["train"]["batch_size"], config["data"]["sequence_length"])
    tokens = torch.randint(config["model"]["vocab_size"], (shape[0], shape[1] + 1), device=device)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    return Llama(config["model"]), inputs, targets, inputs.numel()


def image_step(config, device):
    """An image classifier, dense or MoH, and images of noise with smoothed labels; the items of a step are images."""
    model, batch = config["model"], config["train"]["batch_size"]
    side = config["data"]["image_size"] or model["image_size"]
    images = torch.randn(batch, 3, side, side, device=device, dtype=DTYPES[config["precision"]])
    labels = F.one_hot(torch.randint(model["classes"], (batch,), device=device), model["classes"])
    return Classifier(model), images, labels * 0.9 + 0.1 / model["classes"], batch


def diffusion_step(config, device):
    """A diffusion model, dense or MoH, and pictures of noise at steps at random; the items of a step are images."""
    model, batch = config["model"], config["train"]["batch_size"]
    shape = (batch, model["channels"], model["image_size"], model["image_size"])
    start, noise = (torch.randn(shape, device=device) for _ in range(2))
    steps = torch.randint(DIFFUSION_STEPS, (batch,))
    signal, amount, numbers = (table[steps].float().to(device) for table in schedule())
    x = signal[:, None, None, None] * start + amount[:, None, None, None] * noise
    labels = torch.randint(model["classes"], (batch,), device=device)
    return Training(model), (x.to(DTYPES[config["precision"]]), steps.to(device), labels), (start, noise, numbers), batch


STEPS = {"language_model": language_step, "image_classification": image_step, "diffusion": diffusion_step}


def measure_step(job):
    """Training steps of a model, on data that it makes up."""
    config, device = job["config"], job["device"]
    model, inputs, targets, items = STEPS[config["task"]](config, device)
    place(model, device, DTYPES[config["precision"]])
    optimizer = Optimizer(model, config["optim"])
    loss_of = compiled(job, model)
    losses = []

    def step(stopwatch):
        stopwatch.start()
        optimizer.zero_grad()
        loss = loss_of(inputs, targets)
        stopwatch.lap("forward")
        loss.backward()
        stopwatch.lap("backward")
        optimizer.step()
        losses.append(loss.detach())  # read at the end, so as not to synchronise with the GPU
        stopwatch.lap("optimizer")

    laps, faults = repeat(job, step)
    losses = [loss.item() for loss in losses]
    if not all(map(math.isfinite, losses)):
        raise ArithmeticError(f"loss of the PyTorch model is not finite: {losses}")
    steps = [sum(parts) for parts in zip(*laps.values())]
    step_ms = statistics.median(steps)
    yield {"step_ms": step_ms, "step_ms_spread": spread(steps),
           **{f"{name}_ms": statistics.median(times) for name, times in laps.items()},
           "items_per_s": items / step_ms * 1e3, "parameters": sum(p.numel() for p in model.parameters()),
           "first_loss": losses[0], "last_loss": losses[-1], "page_faults": faults,
           "peak_rss_bytes": memory_field("VmHWM"), "import_rss_bytes": IMPORT_RSS,
           **({"peak_device_bytes": torch.cuda.max_memory_allocated()} if device == "cuda" else {})}


def measure_sample(job):
    """A step of sampling with guidance: both halves of a batch, then the ancestral step. Its number does not matter."""
    config, device = job["config"], job["device"]
    model, dtype = config["model"], DTYPES[config["precision"]]
    predict = compiled(job, place(Dit(model), device, dtype))
    batch = job["batch"]
    x = torch.randn(batch, model["channels"], model["image_size"], model["image_size"], device=device)
    numbers = torch.full((2 * batch,), DIFFUSION_STEPS // 2, device=device)
    labels = torch.arange(2 * batch, device=device) % model["classes"]
    labels[batch:] = model["classes"]
    of_step = schedule()[2][numbers[:batch].cpu()].to(device)

    @torch.inference_mode()
    def step(stopwatch):
        stopwatch.start()
        prediction, _ = predict(torch.cat([x, x]).to(dtype), numbers, labels)
        reverse_step(x, prediction.float(), of_step, job["guidance"])
        stopwatch.lap("step")

    laps, _ = repeat(job, step)
    yield {"step_ms": statistics.median(laps["step"]), "spread": spread(laps["step"])}


def forward_backward_record(laps):
    both = [sum(parts) for parts in zip(laps["forward"], laps["backward"])]
    return {"forward_ms": statistics.median(laps["forward"]), "forward_backward_ms": statistics.median(both),
            "spread": spread(both)}


def measure_attention(job):
    """The fused attention kernel alone, with queries, keys and values [B, H, T, d]."""
    shape = (job["batch"], job["heads"], job["tokens"], job["head_dim"])
    kind = {"device": job["device"], "dtype": DTYPES[job["dtype"]]}
    q, k, v = (torch.randn(shape, requires_grad=True, **kind) for _ in range(3))
    cotangent = torch.randn(shape, **kind)
    head_start = HeadStart(job["device"])

    def run(stopwatch):
        q.grad = k.grad = v.grad = None
        head_start()
        stopwatch.start()
        out = F.scaled_dot_product_attention(q, k, v, is_causal=job["causal"])
        stopwatch.lap("forward")
        out.backward(cotangent)
        stopwatch.lap("backward")

    laps, _ = repeat(job, run)
    kernel = torch.nn.attention.SDPBackend(torch._fused_sdp_choice(q, k, v, is_causal=job["causal"]))
    yield {"tokens": job["tokens"], "causal": job["causal"], "kernel": kernel.name, **forward_backward_record(laps)}


def measure_module(job):
    """A MoH attention layer, router to output projection, in the reference formulation, and a dense one."""
    for active in job["active"]:
        yield {"tokens": job["tokens"], "active": active, **forward_backward_record(measure_share(job, active))}


def measure_share(job, active):
    heads = job["heads"]
    kept = round(active * heads)
    shared = max(heads // 8, 1)
    routing = Routing(shared, kept - shared) if active < 1.0 else None
    module = Attention(job["width"], heads, job["head_dim"], causal=job["causal"], bias=True, routing=routing)
    kind = {"device": job["device"], "dtype": DTYPES[job["dtype"]]}
    forward = compiled(job, place(module, **kind))
    x = torch.randn(job["batch"], job["tokens"], job["width"], requires_grad=True, **kind)
    cotangent = torch.randn_like(x)

    def backward(results):
        y, balance = results
        if balance is None:
            y.backward(cotangent)
        else:
            torch.autograd.backward([y, balance], [cotangent, torch.full_like(balance, BALANCE_WEIGHT)])

    return passes(job, module, x, forward, backward)


def passes(job, module, x, forward, backward):
    """Times of forward(x), which calls the module, and of backward(its result), by name."""
    head_start = HeadStart(job["device"])

    def run(stopwatch):
        x.grad = None
        module.zero_grad(set_to_none=True)
        head_start()
        stopwatch.start()
        results = forward(x)
        stopwatch.lap("forward")
        backward(results)
        stopwatch.lap("backward")

    return repeat(job, run)[0]


def measure_convolutions(job):
    """Convolutions one by one, each in the faster of PyTorch's two layouts, which is often not that of the default."""
    for convolution in job["convolutions"]:
        by_layout = {layout: measure_convolution(job, convolution, layout)
                     for layout in (torch.contiguous_format, torch.channels_last)}
        layout = min(by_layout, key=lambda each: sum(by_layout[each].values()))
        for name, ms in by_layout[layout].items():
            yield {"model": convolution["model"], "shape": convolution["shape"], "pass": name, "ms": ms, "layout": str(layout)}


def measure_convolution(job, sizes, layout):
    kind = {"device": job["device"], "dtype": DTYPES[job["dtype"]]}
    module = torch.nn.Conv2d(sizes["channels"], sizes["outputs"], sizes["kernel"], sizes["stride"], sizes["padding"],
                             groups=sizes["groups"], **kind).to(memory_format=layout)
    x = torch.randn(sizes["batch"], sizes["channels"], sizes["side"], sizes["side"], **kind).to(memory_format=layout)
    x.requires_grad_(sizes["channels"] != 3)  # the model's images need none
    cotangent = torch.randn_like(module(x), memory_format=layout)
    laps = passes(job, module, x, module, lambda y: y.backward(cotangent))
    return {name: statistics.median(times) for name, times in laps.items()}


# Names in torch.__config__ of the libraries for GEMM and threads on the CPU.
LIBRARIES = ("Math Kernel Library", "MKL-DNN", "oneDNN", "OpenMP")


def driver_version():
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                              text=True, check=False)
    except OSError:
        return "unknown"
    return (done.stdout.split() or ["unknown"])[0]


def gpu_versions():
    """Raises RuntimeError if PyTorch cannot compute on a GPU."""
    if torch.version.cuda is None:
        raise RuntimeError(f"PyTorch {torch.__version__} is built for the CPU only")
    torch.cuda.init()
    major, minor = divmod(torch.backends.cudnn.version(), 10000)
    return {"gpu": torch.cuda.get_device_name(0), "driver": driver_version(),
            "libraries": [f"CUDA {torch.version.cuda}", f"cuDNN {major}.{minor // 100}.{minor % 100}"],
            "capability": "sm_%d%d" % torch.cuda.get_device_capability(0)}


def instruction_sets(with_compile):
    """What PyTorch's parts say that they use on this CPU, by part."""
    text = library_messages()
    said = {"PyTorch": torch.backends.cpu.get_cpu_capability()}
    for library, pattern in (("MKL", r"MKL_VERBOSE .* architecture (.+?)(?: enabled)? processors"),
                             ("oneDNN", r"onednn_verbose,.*,cpu,isa:(.+)")):
        found = re.search(pattern, text)
        if found:
            said[library] = found[1]
    if "CNR:COMPATIBLE" in text:  # says the line of the GEMM
        said["MKL"] += ", CNR:COMPATIBLE"
    return {**said, **(compiler_instruction_sets() if with_compile else {})}


def library_messages():
    """What MKL and oneDNN print about themselves, a small GEMM and a small convolution."""
    with tempfile.TemporaryFile() as file:
        output = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            with contextlib.ExitStack() as verbose:
                for library in (torch.backends.mkl, torch.backends.mkldnn):
                    if library.is_available():
                        verbose.enter_context(library.verbose(1))
                torch.ones(64, 64) @ torch.ones(64, 64)
                F.conv2d(torch.ones(16, 16, 16, 16), torch.ones(16, 16, 3, 3))
        finally:
            ctypes.CDLL(None).fflush(None)
            os.dup2(output, 1)
            os.close(output)
        file.seek(0)
        return file.read().decode(errors="replace")


def compiler_instruction_sets():
    """Those of torch.compile: what its code is written for, and what its compiler compiles for. None without a compiler."""
    from torch._inductor.cpp_builder import CppOptions
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    try:
        options = CppOptions()
        targets = [f"-{flag}" for flag in options.get_cflags() if flag.startswith("march=")]
        command = [options.get_compiler(), *targets, "-dM", "-E", "-x", "c++", os.devnull]
        macros = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except Exception:  # the modes that compile will say why
        return {}
    target = next((name for macro, name in (("__AVX512F__", "AVX512"), ("__AVX2__", "AVX2")) if f" {macro} " in macros), "SSE")
    return {"torch.compile": str(pick_vec_isa()), "its compiler": target}


def versions(job):
    """Versions of PyTorch and its libraries."""
    lines = [line.strip(" -") for line in torch.__config__.show().splitlines()]
    libraries = [line for line in lines if any(name in line for name in LIBRARIES) and "settings" not in line]
    of_device = gpu_versions() if job["device"] == "cuda" else {"isa": instruction_sets(job["compile"])}
    yield {"python": sys.version.split()[0], "torch": torch.__version__, "libraries": libraries,
           "capability": torch.backends.cpu.get_cpu_capability(), **of_device}


WORK = {"versions": versions, "step": measure_step, "attention": measure_attention, "module": measure_module,
        "convolutions": measure_convolutions, "sample": measure_sample}


def main():
    job = json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    torch.set_num_interop_threads(1)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False  # of convolutions
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    try:
        for record in WORK[job["work"]](job):
            print(json.dumps(record), flush=True)
    except Exception as error:  # the parent reports it and continues with other measurements
        reason = str(error).strip().splitlines()
        print(json.dumps({"error": f"{type(error).__name__}: {reason[0] if reason else 'no reason given'}"}))
        sys.exit(1)


if __name__ == "__main__":
    main()
