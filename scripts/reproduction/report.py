"""A table's numbers as Markdown and JSON, the paper's beside ours, and what differs between them."""

import datetime
import json
import os
import platform

import seeded_runs

from . import moh


def count(value):
    """1234567 as 1.23M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:g}"


def number(value):
    if value is None:
        return "-"
    return str(value) if isinstance(value, (int, str)) else f"{value:g}"


def provenance(arguments, seconds, command):
    return {"date": datetime.date.today().isoformat(), "command": command, "moh": moh.version(arguments.moh), "machine": machine(),
            "threads": arguments.threads, "jobs": arguments.jobs, "budget_s": arguments.budget,
            **({"seconds": round(seconds, 1)} if seconds is not None else {})}


def machine():
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{len(os.sched_getaffinity(0))} processors, {name}"


def markdown(result):
    """The document of a result: heading, what differs, the table, where it comes from."""
    lines = [f"# {result['title']}: the paper's {result['source']}", ""]
    if result["differences"]:
        lines += ["**These are not the paper's trainings, and the two columns of scores cannot be compared with each other**; differences "
                  "between rows can, with care.", "", "| | paper | here |", "| --- | --- | --- |"]
        lines += [f"| {what} | {theirs} | {ours} |" for what, theirs, ours in result["differences"]]
        lines.append("")
    lines += ["| " + " | ".join(result["columns"]) + " |", "| " + " | ".join("---" for _ in result["columns"]) + " |"]
    lines += ["| " + " | ".join(cells) + " |" for cells in result["cells"]]
    lines += [""] + [f"Not reproduced: {missing}." for missing in result["missing"]]
    made = result["made"]
    lines += ["", f"Made on {made['date']}, {made['machine']}, {made['moh']}, in {made['seconds']:g} s, by", "", f"    {made['command']}"]
    return "\n".join(lines) + "\n"


def write(out, name, result):
    """Writes NAME.md and NAME.json into the folder, each whole or not at all, and prints the first."""
    text = markdown(result)
    seeded_runs.write_atomically(out / f"{name}.json", json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    seeded_runs.write_atomically(out / f"{name}.md", text)
    print(text, end="")
