"""What is asked of the program: plans, the time of a step, attention's time. Each is a command of moh with --json."""

import functools
import json
import subprocess

import places
import seeded_runs


def ask(moh, *arguments):
    """The JSON objects that a command of moh prints, one a line."""
    command = [str(moh), *map(places.shipped, arguments), "--json"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise seeded_runs.no_program(error) from error
    if result.returncode != 0:
        raise seeded_runs.Refused(f"{' '.join(command)} ended with code {result.returncode}:\n{result.stderr.strip()}")
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def version(moh):
    try:
        return subprocess.run([str(moh), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise seeded_runs.no_program(error) from error


def plan(moh, config, settings=(), memory=False):
    """`moh plan`, with the name of an input in place: `flops_per_item`, `items_per_step`; the memory, if wanted, takes ten times as long."""
    return planned(moh, config, (*settings, *(() if memory else ("--no-memory",))))


@functools.cache  # rows of a table share trainings
def planned(moh, config, settings):
    (found,) = ask(moh, "plan", config, *settings)
    for key, name in (("flops_per_", "flops_per_item"), ("_per_step", "items_per_step")):
        found[name] = next(value for field, value in found.items() if key in field and not field.endswith("_dense"))
    return found


def step_seconds(moh, config, settings, threads):
    (found,) = ask(moh, "bench", "step", config, *settings, f"threads={threads}", "--steps", 3, "--warmup", 1, "--no-peaks")
    return found["step_ms"] / 1000
