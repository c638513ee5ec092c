"""The environment of the measurements (versions, hardware), and Markdown tables of their results."""

import datetime
import json
import pathlib
import subprocess

from pytorch_bench import isa
from pytorch_bench.measure import ROOT, WORKER

MIB = 1 << 20


def first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    except OSError:
        return None
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else None


def cpu_model():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("model name", "Model name")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return "unknown"


def git_commit():
    """The commit of the source tree, and whether files differ from it."""
    commit = first_line(["git", "rev-parse", "--short=12", "HEAD"])
    changed = first_line(["git", "status", "--porcelain", "--untracked-files=no"])
    return f"{commit} with changes" if commit and changed else commit or "unknown"


def environment(runner, cores, device, precision, with_compile):
    job = json.dumps({"work": "versions", "threads": 1, "device": device, "compile": with_compile})
    moh = runner.text([runner.moh, "--version"]).strip()
    versions = runner.run([runner.python, "-B", str(WORKER), job])[0]
    if "isa" in versions:
        versions["isa"] = {"moh": isa.of_moh(moh), **versions["isa"]}
    return {"kind": "environment", "date": datetime.date.today().isoformat(), "cpu": cpu_model(), "cores": cores,
            "moh": moh, "moh_commit": git_commit(), "precision": precision, **versions}


def environment_text(record, options):
    libraries = "; ".join(record["libraries"])
    pytorch = f"PyTorch {record['torch']} ({libraries}; {record['capability']}), Python {record['python']}"
    moh = f"{record['moh']}, sources at {record['moh_commit']}"
    gpu = f"{record['gpu']}, driver {record['driver']}; " if "gpu" in record else ""
    text = (f"{record['date']}; {gpu}{record['cpu']}, {record['cores']} cores; {moh}; {pytorch}. Both in "
            f"{options.precision}, {options.rounds} rounds of {options.repeats} repeats after {options.warmups} to warm up.")
    if "isa" in record:
        text += f" {isa.sentence(record['isa'])}"
    return text


def table(header, rows):
    lines = ["| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows]]
    return "\n".join(lines)


def speed_row(record):
    ratio = f"**{record['ratio']:.2f}** ({record['ratio_low']:.2f} to {record['ratio_high']:.2f})"
    return [record["name"], str(record["threads"]), record["what"], record["ours"], f"{record['ours_ms']:.2f}",
            record["other"], f"{record['other_ms']:.2f}", ratio]


SPEED_HEADER = ["model", "threads", "what", "A", "A, ms", "B", "B, ms", "A's speed / B's (lowest to highest)"]


def memory_row(record):
    size = "{:.0f}".format
    grown = record["other_peak_rss_bytes"] - record["other_import_rss_bytes"]
    return [record["name"], str(record["threads"]), record["ours"], size(record["ours_peak_tensor_bytes"] / MIB),
            size(record["ours_peak_rss_bytes"] / MIB), record["other"], size(record["other_peak_rss_bytes"] / MIB),
            size(grown / MIB), f"{record['ratio']:.2f}", f"{record['ratio_without_import']:.2f}"]


MEMORY_HEADER = ["model", "threads", "A", "A: tensors, MiB", "A: process, MiB", "B", "B: process, MiB",
                 "B: process less `import torch`, MiB", "A / B, processes", "A's process / B less import"]


def device_memory_row(record):
    size = "{:.0f}".format
    return [record["name"], record["ours"], size(record["ours_peak_bytes"] / MIB), record["other"],
            size(record["other_peak_bytes"] / MIB), f"{record['ratio']:.2f}"]


DEVICE_MEMORY_HEADER = ["model", "A", "A: tensors, MiB", "B", "B: tensors, MiB", "A / B"]


def markdown(records):
    """The tables of one case in Markdown, for docs/benchmarks."""
    speed = [speed_row(record) for record in records if record["kind"] == "speed"]
    memory = [memory_row(record) for record in records if record["kind"] == "memory"]
    parts = [table(SPEED_HEADER, speed)] if speed else []
    parts += [table(MEMORY_HEADER, memory)] if memory else []
    device_memory = [device_memory_row(record) for record in records if record["kind"] == "device_memory"]
    parts += [table(DEVICE_MEMORY_HEADER, device_memory)] if device_memory else []
    return "\n\n".join(parts)
