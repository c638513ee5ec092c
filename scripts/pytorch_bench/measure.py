"""Runs the sides of a comparison alternately, each measurement in a process of its own, and computes their ratios."""

import json
import os
import pathlib
import statistics
import subprocess
from dataclasses import dataclass, field

import resolved_config
from pytorch_bench.cases import MohSide

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKER = pathlib.Path(__file__).resolve().parent / "worker.py"

# By default glibc returns large blocks to the system at once, so that every step has page faults. These settings make it
# cache them and use huge pages, as the allocators that are recommended for PyTorch do, and pin threads to cores.
TUNED = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "OMP_PROC_BIND": "close",
}

# PyTorch's modes: (torch.compile, environment). The tuning concerns host memory, so there are no such modes for a GPU.
MODES = {"eager": (False, {}), "eager tuned": (False, TUNED), "compile": (True, {}), "compile tuned": (True, TUNED)}
MODES_OF = {"cpu": list(MODES), "cuda": ["eager", "compile"]}

# Modes whose trial took at most this factor of the fastest one's time take part in the rounds.
CLOSE = 1.2


class BenchError(Exception):
    """The reason why a measurement failed."""


@dataclass
class Runner:
    """Starts the processes."""

    moh: str
    python: str
    timeout: float
    say: callable = lambda text: None
    environment: dict = field(default_factory=dict)  # of both sides, beside this process's
    configs: dict = field(default_factory=dict)

    def finished(self, command, environment=None):
        """Runs a command to its end."""
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=self.timeout, check=False, cwd=ROOT,
                                  env={**os.environ, **self.environment, **(environment or {})})
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"{describe(command)}: no end after {self.timeout:g} s; --timeout allows more") from error
        except OSError as error:
            raise BenchError(f"{command[0]}: {error.strerror}") from error

    def run(self, command, environment=None):
        """Runs a command that prints JSON lines, and returns them."""
        done = self.finished(command, environment)
        records = json_objects(done.stdout)
        for record in records:
            if "error" in record:
                raise BenchError(record["error"])
        require_success(command, done)
        return records

    def text(self, command):
        """What a command prints."""
        done = self.finished(command)
        require_success(command, done)
        return done.stdout

    def resolved(self, config):
        """The resolved configuration, printed by `moh config`, from which both sides take their sizes."""
        if config not in self.configs:
            self.configs[config] = resolved_config.read(self.text([self.moh, "config", *config]))
        return self.configs[config]

    def measure(self, side, mode=None):
        if isinstance(side, MohSide):
            return self.run([self.moh, *side.arguments])
        with_compile, environment = MODES[mode]
        job = {"compile": with_compile, **side.job}
        if side.config:
            job["config"] = self.resolved(side.config)
        threads = {"OMP_NUM_THREADS": str(job["threads"]), "MKL_NUM_THREADS": str(job["threads"])}
        return self.run([self.python, "-B", str(WORKER), json.dumps(job)], {**threads, **environment})


def require_success(command, done):
    if done.returncode != 0:
        reason = " ".join(done.stderr.split())[-300:] or "no message"
        raise BenchError(f"{describe(command)}: ended with code {done.returncode}: {reason}")


def describe(command):
    """A short form of a command for messages; a job of worker.py is long."""
    return " ".join([pathlib.Path(command[0]).name, *(part[:60] for part in command[1:4])])


def json_objects(text):
    objects = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            objects.append(value)
    return objects


def score(side, records):
    return total(side.score, [record for record in records if record.get("pass") != ""])  # a ceiling's is empty


def total(name, records):
    return sum(value_of(record, name) for record in records)


def value_of(record, name):
    value = record.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
        raise BenchError(f"expected a number above 0 in field {name}, found {value!r} in {json.dumps(record)[:200]}")
    return value


@dataclass
class SideResult:
    """The records of one side, by round. For PyTorch, those of the fastest mode."""

    label: str
    rounds: list
    mode: str = None
    trials: list = field(default_factory=list)  # records of all modes and runs


def modes_of(side, modes):
    """The modes of a side: for moh None; for PyTorch without the compiled ones if its job has nothing to compile."""
    if isinstance(side, MohSide):
        return [None]
    return [mode for mode in modes if not (MODES[mode][0] and side.job.get("compile") is False)]


def contenders(runner, side, modes):
    """Tries all modes once; returns those that are close to the fastest, and the trials' records."""
    scores, records, reasons = {}, [], []
    for mode in modes:
        try:
            trial = runner.measure(side, mode)
            scores[mode] = score(side, trial)
            records += trial
            runner.say(f"  trial of PyTorch, {mode}: {scores[mode]:.1f} ms")
        except BenchError as error:
            reasons.append(f"PyTorch, {mode}: {error}")
            runner.say(f"  {reasons[-1]}")
    if not scores:
        raise BenchError("; ".join(reasons))
    best = min(scores.values())
    return [mode for mode in scores if scores[mode] <= CLOSE * best], records, reasons


def measure(runner, comparison, rounds, modes):
    """{side name: SideResult} and remarks, such as why torch.compile did not work."""
    running, trials, remarks = {}, {}, []
    for name, side in comparison.sides.items():
        running[name], trials[name] = modes_of(side, modes), []
        if not isinstance(side, MohSide):
            if not running[name]:
                raise BenchError("nothing to compile here; add an eager mode to --modes")
            running[name], trials[name], reasons = contenders(runner, side, running[name])
            remarks += reasons
    results = {(name, mode): [] for name in running for mode in running[name]}
    for i in range(rounds):
        for (name, mode), done in results.items():
            done.append(runner.measure(comparison.sides[name], mode))
            label = name if mode is None else f"{name}, {mode}"
            runner.say(f"  round {i + 1} of {rounds}, {label}: {score(comparison.sides[name], done[-1]):.1f} ms")
    return {name: best_mode(name, comparison.sides[name], running[name], results, trials[name])
            for name in running}, remarks


def best_mode(name, side, modes, results, trials):
    best = min(modes, key=lambda mode: statistics.median(score(side, records) for records in results[name, mode]))
    every_run = [record for mode in modes for records in results[name, mode] for record in records]
    label = name if best is None else f"{name}, {best}"
    return SideResult(label, results[name, best], best, trials + every_run)


def series(results, reading):
    """A reading's value in each round."""
    values = []
    for records in results[reading.side].rounds:
        matching = [r for r in records if all(r.get(key) == value for key, value in reading.where.items())]
        if not matching:
            raise BenchError(f"{reading.side}: no line with {reading.where}")
        values.append(total(reading.field, matching))
    return values


def ratio_summary(ours, other):
    """The ratio of speeds: the median of the rounds' ratios, the lowest and the highest."""
    ratios = [b / a for a, b in zip(ours, other, strict=True)]
    return {"ratio": statistics.median(ratios), "ratio_low": min(ratios), "ratio_high": max(ratios)}


def speed_records(comparison, results):
    for figure in comparison.figures:
        ours, other = series(results, figure.ours), series(results, figure.other)
        yield {"kind": "speed", "case": comparison.case, "name": comparison.name, "threads": comparison.threads,
               "what": figure.what, "ours": results[figure.ours.side].label, "ours_ms": statistics.median(ours),
               "other": results[figure.other.side].label, "other_ms": statistics.median(other),
               **ratio_summary(ours, other), "rounds": len(ours)}


def check_same_models(comparison, results):
    """Checks that both sides have the same number of parameters before memory is compared."""
    for _, moh, torch in comparison.memory:
        ours, other = (value_of(results[side].rounds[0][0], "parameters") for side in (moh, torch))
        if ours != other:
            raise BenchError(f"expected one model on both sides, found {ours} parameters in {moh}, {other} in {torch}")


def largest_tensors(result):
    """The largest peak of memory allocated by moh, in bytes."""
    return max(value_of(record.get("peak_bytes", {}), "total") for records in result.rounds for record in records)


def device_memory_records(comparison, results):
    """Peak memory of tensors on the GPU: moh's largest, and PyTorch's smallest in any mode, which favours PyTorch."""
    for what, moh, torch in comparison.memory:
        ours = largest_tensors(results[moh])
        other = min(value_of(record, "peak_device_bytes") for record in results[torch].trials)
        yield {"kind": "device_memory", "case": comparison.case, "name": comparison.name, "what": what, "ours": moh,
               "ours_peak_bytes": ours, "other": torch, "other_peak_bytes": other, "ratio": ours / other}


def memory_records(comparison, results):
    """Peak memory: moh's largest, and PyTorch's smallest in any mode; both choices favour PyTorch."""
    for what, moh, torch in comparison.memory:
        process = max(value_of(record, "peak_rss_bytes") for records in results[moh].rounds for record in records)
        tensors = largest_tensors(results[moh])
        smallest = min(results[torch].trials, key=lambda record: value_of(record, "peak_rss_bytes"))
        peak, imported = smallest["peak_rss_bytes"], value_of(smallest, "import_rss_bytes")
        yield {"kind": "memory", "case": comparison.case, "name": comparison.name, "threads": comparison.threads,
               "what": what, "ours": moh, "ours_peak_rss_bytes": process, "ours_peak_tensor_bytes": tensors,
               "other": torch, "other_peak_rss_bytes": peak, "other_import_rss_bytes": imported,
               "ratio": process / peak, "ratio_without_import": process / (peak - imported)}
