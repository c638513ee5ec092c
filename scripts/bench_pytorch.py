#!/usr/bin/env python3
"""Compares the speed of moh and PyTorch, measured alternately in one run, and prints how many times as fast moh is.

  scripts/bench_pytorch.py --setup build/pytorch-venv     # once: the newest PyTorch, in a virtual environment
  scripts/bench_pytorch.py                                # all cases, Markdown tables
  scripts/bench_pytorch.py --cases llama_step attention --threads 2 --json
  scripts/bench_pytorch.py --isa avx2                     # as on a processor without AVX-512
  scripts/bench_pytorch.py --precision bfloat16           # weights and activations of 16 bits
  scripts/bench_pytorch.py --device cuda                  # on a GPU

Cases:
  llama_step        training step of a LLaMA-like model: 6 layers of width 384, T = 256, batch 8
  small_heads_step  the same with 24 heads of 16 in place of 6 of 64
  gpt2_step         the same for GPT-2 124M's shape in LLaMA's form, T = 64 and 512
  moh_step          dense and MoH models at T = 2048; PyTorch's MoH is the reference formulation, all heads times a mask
  vision_step       training step of DeiT-S and TransNeXt-Tiny, dense and MoH, 224 pixels, batch 8
  dit_step          training step of DiT-S/2, dense, MoH-90 and MoH-75, latents of 32 x 32, batch 8
  dit_sample        step of sampling of four pictures with guidance, the same models
  attention         dense attention against PyTorch's fused kernel, T = 256 to 4096
  moh_module        a MoH attention layer, router to output projection, against the reference formulation
  conv              convolutions of TransNeXt-Tiny and of Stable Diffusion's autoencoder, dense, strided, depthwise
  llm_step          LLM-S of the paper, dense, MoH-75 and MoH-50, T = 2048, batch 8; on a CPU only if named in --cases

Every measurement is a process of its own, warm-up included; the sides alternate, and a ratio is the median of the
rounds' ratios. PyTorch runs in four modes, eager and torch.compile (which needs a C++ compiler), each with the default
settings of the system's allocator and with settings that make it cache freed memory ("tuned"). Each mode is tried once,
those within a fifth of the fastest take part in the rounds, and the one with the lowest median there counts.

A comparison is printed as soon as its rounds are done, so that an interrupted run keeps its results. A failed measurement
is reported at once and again at the end, does not stop the others, and makes the exit code 1.

--isa holds both sides to an instruction set: moh's kernels (MOH_CPU_ISA), PyTorch's (ATEN_CPU_CAPABILITY), its libraries
(MKL_ENABLE_INSTRUCTIONS, ONEDNN_MAX_CPU_ISA), and torch.compile's compiler (TORCHINDUCTOR_CPP_MARCH, since 2.15). Every part
is asked what it uses; one that uses another is an error, but a library may use less. Without --isa both sides have to use
the same, the best of the processor; of AVX-512, AVX512-BF16 and AMX, which differ in products of bfloat16 alone, each then uses
what it is fastest with. --isa avx512_bf16 forbids AMX, --isa avx512 both.

Both sides have the same sizes, which come from configs/ through `moh config`, and compute in the --precision: float32, the
default on the CPU, without TF32; or bfloat16, the default on a GPU. Then weights and activations are bfloat16; AdamW's master
weights, moments and gradients, rotary tables, the router's softmax, and the loss are float32; there is no autocast.

On the CPU peak memory is the peak resident set of the process; for PyTorch the smallest of all modes, also without what
`import torch` takes. With --device cuda it is that of the tensors on the GPU; times are device times, by CUDA events; no loss
is read before the end; the modes are eager and torch.compile; and before each pass of attention, moh_module and conv both
sides flush L2 by overwriting four times its size.
--setup installs PyPI's package for this system, which on Linux x86-64 is PyTorch with CUDA.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

from pytorch_bench import cases, isa, measure, report
from pytorch_bench.measure import BenchError

DEFAULT_VENV = "build/pytorch-venv"


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--setup", metavar="DIR", help="create a virtual environment with the newest torch and numpy in DIR, and exit")
    add("--venv", metavar="DIR", default=DEFAULT_VENV, help="the virtual environment to use (default: %(default)s)")
    add("--moh", default="build/release/moh", help="the moh program (default: %(default)s)")
    add("--device", choices=cases.DEVICES, default="cpu", help="cpu or cuda (default: %(default)s)")
    add("--precision", choices=list(cases.DTYPES), help="of both sides (default: float32; with --device cuda bfloat16)")
    add("--isa", choices=isa.ISAS, help="instruction set for both sides, on the CPU (default: the processor's best)")
    add("--cases", nargs="+", choices=cases.CASES, metavar="CASE", help="default: all that are practical on the device")
    add("--threads", type=thread_counts, metavar="N,N", help="default: 1,2; with --device cuda 4")
    add("--masks", nargs="+", choices=cases.MASKS, default=list(cases.MASKS), metavar="MASK",
        help="masks of attention and moh_module: causal, full (default: both)")
    add("--modes", nargs="+", choices=measure.MODES, metavar="MODE",
        help=f"modes of PyTorch: {', '.join(map(repr, measure.MODES))} (default: all; with --device cuda those untuned)")
    add("--only", default="", metavar="TEXT", help="run only comparisons whose name contains TEXT")
    add("--rounds", type=positive, default=3, help="number of measurements of each side (default: %(default)s)")
    add("--warmups", type=positive, default=3, help="warm-up steps of each measurement (default: %(default)s)")
    add("--repeats", type=positive, default=10, help="measured steps of each measurement (default: %(default)s)")
    add("--timeout", type=float, default=1200, help="time limit of a measurement in seconds (default: %(default)s)")
    add("--json", action="store_true", help="print JSON lines instead of tables")
    add("--list", action="store_true", help="print the comparisons, and exit")
    options = parser.parse_args(arguments)
    if options.isa and options.device != "cpu":
        parser.error("--isa is for --device cpu")
    options.precision = options.precision or cases.PRECISION_OF[options.device]
    options.cases = options.cases or cases.USUAL[options.device]
    options.threads = options.threads or ([1, 2] if options.device == "cpu" else [4])
    options.modes = options.modes or measure.MODES_OF[options.device]
    return options


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, found {text}")
    return number


def thread_counts(text):
    return [positive(part) for part in text.split(",")]


def set_up(folder):
    """Creates a virtual environment with PyTorch, or upgrades an existing one."""
    steps = [[sys.executable, "-m", "venv", folder],
             [venv_python(folder), "-m", "pip", "install", "--upgrade", "torch", "numpy"]]
    hints = ["a Python with venv and pip (Debian: the package python3-venv)", "a package index that pip can reach"]
    for command, hint in zip(steps, hints):
        if subprocess.run(command, check=False).returncode != 0:
            raise BenchError(f"--setup {folder}: `{' '.join(command[1:4])}` failed; the reason is above. It needs "
                             + hint)


def venv_python(folder):
    return str(pathlib.Path(folder) / "bin" / "python")


def find_python(folder):
    """The interpreter of the virtual environment; raises BenchError if it cannot import torch."""
    python = venv_python(folder)
    how_to = f"make it with: scripts/bench_pytorch.py --setup {folder}"
    if not os.access(python, os.X_OK):
        raise BenchError(f"--venv: expected a virtual environment with PyTorch in {folder}, found none; {how_to}")
    done = subprocess.run([python, "-c", "import torch"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchError(f"--venv: expected PyTorch in {folder}, found: {reason}; {how_to}")
    return os.path.abspath(python)


def find_moh(path):
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        raise BenchError(f"--moh: expected the moh program, found nothing to run at {path}; build it (README.md), or "
                         "say where it is")
    return os.path.abspath(path)


def require_gpu(runner):
    """Checks that both sides find a GPU before anything is measured."""
    probe = ["bench", "attention", "--device", "cuda", "--tokens", "1", "--heads", "1", "--kv-heads", "1", "--repeats", "1"]
    for command in ([runner.moh, *probe], [runner.python, "-B", str(measure.WORKER),
                                           '{"work": "versions", "threads": 1, "device": "cuda"}']):
        try:
            runner.run(command)
        except BenchError as error:
            raise BenchError(f"--device cuda: {error}") from error


def comparisons(options):
    """Yields (case, [comparison])."""
    terms = cases.Terms(options.warmups, options.repeats, options.device, options.precision)
    for case in options.cases:
        every = [comparison for threads in options.threads
                 for comparison in cases.CASES[case](threads, terms, options.masks)]
        chosen = [comparison for comparison in every if options.only in comparison.name]
        if chosen:
            yield case, chosen


def label_of(comparison):
    return f"{comparison.case}: {comparison.name}, threads {comparison.threads}"


def run_comparison(runner, comparison, options):
    """The records of one comparison, and its remarks. An error becomes a record, too, so that other comparisons run."""
    label = label_of(comparison)
    runner.say(label)
    try:
        results, reasons = measure.measure(runner, comparison, options.rounds, options.modes)
        measure.check_same_models(comparison, results)
        memory_of = measure.memory_records if options.device == "cpu" else measure.device_memory_records
        records = [*measure.speed_records(comparison, results), *memory_of(comparison, results)]
        return records, [f"{label}: {reason}" for reason in reasons]
    except Exception as error:
        reason = str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
        runner.say(f"  {reason}")
        record = {"kind": "failure", "case": comparison.case, "name": comparison.name, "threads": comparison.threads,
                  "reason": reason}
        return [record], [f"{label}: not measured: {reason}"]


def print_comparison(comparison, records, remarks, as_json):
    if as_json:
        for record in [*records, *({"kind": "remark", "case": comparison.case, "text": text} for text in remarks)]:
            print(json.dumps(record))
    else:
        print("\n\n".join(filter(None, [report.markdown(records), *remarks])) + "\n")
    sys.stdout.flush()


def run_all(runner, options, failures):
    """Prints each comparison as soon as it is measured, as later ones may fail or be interrupted."""
    for case, chosen in comparisons(options):
        if not options.json:
            print(f"### {case}\n", flush=True)
        for comparison in chosen:
            records, remarks = run_comparison(runner, comparison, options)
            print_comparison(comparison, records, remarks, options.json)
            failures += [f"{label_of(comparison)}: {record['reason']}" for record in records
                         if record["kind"] == "failure"]


def run(options):
    """Returns the exit code: 1 if a measurement failed."""
    moh, python = find_moh(options.moh), find_python(options.venv)
    runner = measure.Runner(moh, python, options.timeout, lambda text: print(text, file=sys.stderr, flush=True),
                            isa.variables(options.isa, pathlib.Path(options.venv) / f"inductor_{options.isa}"))
    if options.device == "cuda":
        require_gpu(runner)
    with_compile = any(measure.MODES[mode][0] for mode in options.modes)
    environment = report.environment(runner, os.cpu_count(), options.device, options.precision, with_compile)
    print(json.dumps(environment) if options.json else report.environment_text(environment, options) + "\n", flush=True)
    if "isa" in environment:
        isa.check(options.isa, environment["isa"])
    failures = []
    try:
        run_all(runner, options, failures)
    finally:
        if failures:
            runner.say("\n".join([f"bench_pytorch.py: {len(failures)} not measured:", *failures]))
    return 1 if failures else 0


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        if options.setup:
            set_up(options.setup)
        elif options.list:
            for _, chosen in comparisons(options):
                for comparison in chosen:
                    print(label_of(comparison))
        else:
            sys.exit(run(options))
    except BenchError as error:
        sys.exit(f"bench_pytorch.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
