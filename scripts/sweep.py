#!/usr/bin/env python3
"""Trains every combination of configurations and values of keys with several seeds, and prints a Markdown table of their scores on
held-out data, each with its difference to the first row.

    scripts/sweep.py configs/llm/tiny_shakespeare_moh_50.yaml optim.learning_rate=[1e-3,2e-3] 'model.moh.top_k=[2,4]' --data input.txt
    scripts/sweep.py dense.yaml moh.yaml 'optim.betas=[[0.9,0.95],[0.9,0.99]]' --seeds 1,2 --out runs/betas -- train.steps=500

Words before -- are configurations and keys, key=[VALUE,VALUE...] with values as YAML writes them; a value may be a list itself.
Settings behind -- are for all runs. DATA is as for scripts/quality.py; without it the configurations name theirs. Each run is
`moh train CONFIG key=VALUE... seed=SEED output.dir=OUT/CONFIG_key=VALUE_SEED`.

Finished runs are not repeated and interrupted ones continue from their last checkpoint, so the same command goes on after it was stopped,
and one with further values or seeds adds to what is there. OUT gets sweep.md, the table, and sweep.json, which has the numbers of it.

Means have the interval that holds the mean of many seeds with 95% confidence (Student's t). Differences are seed by seed.
"""

import argparse
import datetime
import itertools
import json
import pathlib
import re
import shlex
import sys

import output_scores
import places
import quality
import seeded_runs
from reproduction import moh, report

AXIS = re.compile(r"[A-Za-z_]\w*(\.\w+)*=")
# A quoted scalar, a bracket or comma, or a plain scalar, which may have quotes inside; of a map a key with its colon.
PIECE = re.compile(r"""\s+|'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|[\[\]{},]|[^\s\[\]{},'"](?:[^\[\]{},:]|:(?!\s))*:?""")
CLOSES = {"[": "]", "{": "}"}
OWN = {"seed": "--seeds", "output.dir": "--out", "threads": "--threads"}


def parse_arguments(given):
    end = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grid", nargs="+", metavar="CONFIG | key=[VALUE,...]", help="configurations, and keys with their values")
    seeded_runs.add_arguments(parser, "runs/sweep", jobs=2, threads=1)
    quality.add_arguments(parser)
    parser.add_argument("--data", help="a text, or a folder of pictures with train/ and test/")
    arguments = quality.parsed(parser, lambda: parser.parse_intermixed_args(given[:end]))
    arguments.settings = given[end + 1:]
    return arguments


def values_of(key, text):
    """The texts of the elements of a YAML list in brackets."""
    refused = seeded_runs.Refused(f"{key}: expected a list of values, {key}=[VALUE,VALUE], found {text}; settings of all runs stand "
                                  "behind --")
    text = text.strip()
    if not text.startswith("["):
        raise refused
    open_brackets, values, begin, at = ["]"], [], 1, 1
    while at < len(text):
        piece = PIECE.match(text, at)
        if not piece or not open_brackets:
            raise refused
        if piece[0] in CLOSES:
            open_brackets.append(CLOSES[piece[0]])
        elif piece[0] in ("]", "}") and piece[0] != open_brackets.pop():
            raise refused
        if (piece[0] == "," and len(open_brackets) == 1) or not open_brackets:
            values.append(text[begin:at].strip())
            begin = piece.end()
        at = piece.end()
    if open_brackets or not all(values) or not values:
        raise refused
    if len({identity(value) for value in values}) < len(values):
        raise seeded_runs.Refused(f"{key}: expected different values, found one twice in {text}")
    return values


def identity(value):
    """The same for numbers and lists that are written in two ways: 1e-3 and 0.001."""
    try:
        return repr(json.loads(value))
    except ValueError:
        return value


def rows_of(words, common):
    """A row for each combination; the last key changes first."""
    configs = [pathlib.Path(word) for word in words if not AXIS.match(word)]
    axes = [word.partition("=")[::2] for word in words if AXIS.match(word)]
    keys = [key for key, _ in axes]
    if not configs:
        raise seeded_runs.Refused("expected a configuration, found keys alone")
    for twice in (word for word in (*configs, *keys) if (*configs, *keys).count(word) > 1):
        raise seeded_runs.Refused(f"{twice}: expected once, found twice")
    for key in keys:
        if key in OWN or any(setting.startswith(f"{key}=") for setting in common):
            raise seeded_runs.Refused(f"{key}: expected a key that nothing else sets; {OWN.get(key, 'a setting behind --')} does")
    settings = [[f"{key}={value}" for value in values_of(key, text)] for key, text in axes]
    rows = [quality.Row(config, of_row) for config in configs for of_row in itertools.product(*settings)]
    if len(rows) == 1:
        raise seeded_runs.Refused("expected several rows to compare, found one; name another configuration, or a key with values: "
                                  "key=[VALUE,VALUE]")
    return rows


def check(arguments, rows):
    """Refuses what the last row would be refused for hours later."""
    for row in rows:
        output_scores.moh(arguments, "config", places.shipped(row.config), *row.settings, *seeded_runs.settings_of(arguments))


def record(arguments, result, first):
    """A row of sweep.json."""
    mean, half = seeded_runs.mean_and_interval(result.scores)
    differences = [ours - of_first for ours, of_first in zip(result.scores, first.scores)]
    difference, half_of_difference = seeded_runs.mean_and_interval(differences)
    return {"config": str(result.row.config), "settings": dict(setting.partition("=")[::2] for setting in result.row.settings),
            "folders": [result.row.folder(seed) for seed in arguments.seeds], "heads": result.heads, "scores": result.scores, "mean": mean,
            "half_interval": half, "to_first": {"differences": differences, "mean": difference, "half_interval": half_of_difference}}


def write(arguments, results, command):
    lines = quality.table(results, arguments.seeds)
    made = {"date": datetime.date.today().isoformat(), "command": command, "moh": moh.version(arguments.moh), "machine": report.machine()}
    found = {"measure": results[0].measure, "seeds": arguments.seeds, "settings": seeded_runs.settings_of(arguments),
             "rows": [record(arguments, result, results[0]) for result in results], "made": made}
    seeded_runs.write_atomically(arguments.out / "sweep.json", json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    seeded_runs.write_atomically(arguments.out / "sweep.md", "\n".join(
        [*lines, "", f"Made on {made['date']}, {made['machine']}, {made['moh']}, by", "", f"    {command}", ""]))
    print(*lines, sep="\n")


def main(given=None):
    given = sys.argv[1:] if given is None else given
    arguments = parse_arguments(given)
    with seeded_runs.reported("sweep"):
        rows = rows_of(arguments.grid, arguments.settings)
        check(arguments, rows)
        write(arguments, quality.trained(arguments, rows), shlex.join(["scripts/sweep.py", *given]))


if __name__ == "__main__":
    main()
