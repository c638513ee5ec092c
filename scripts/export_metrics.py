#!/usr/bin/env python3
"""Brings the metrics of runs (metrics.jsonl) to Weights & Biases or MLflow, on this machine, also while they train.

    scripts/export_metrics.py --to wandb runs/llm/quickstart
    scripts/export_metrics.py --to mlflow runs/dense runs/moh_50 --project heads --out exported

Each run becomes a run of that project, with its configuration as parameters. Numbers have the names that they have in TensorBoard:
train/loss, eval/top1, train/router_margin/layer_3. A second start adds what has come since; OUT/.exported-wandb.json and
.exported-mlflow.json say what was exported.

W&B is in its offline mode: OUT/wandb gets a folder for each start, and `wandb sync OUT/wandb/offline-run-*` uploads them. MLflow has its
local file store, OUT/mlruns, or what --uri names. Needs the package, wandb or mlflow.
"""

import argparse
import hashlib
import importlib
import json
import pathlib
import sys
from dataclasses import dataclass

import resolved_config
from metric_targets import TARGETS
from seeded_runs import Refused, reported, write_atomically


@dataclass(frozen=True)
class Source:
    """A run that has records."""

    folder: pathlib.Path
    config: dict
    identity: str  # of this training: another one in the same folder has another


def parse_arguments(given):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN", help="output.dir of a run")
    parser.add_argument("--to", required=True, choices=TARGETS, help="where to")
    parser.add_argument("--project", default="moh", help="W&B's project, MLflow's experiment (%(default)s)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(), metavar="FOLDER", help="for the files (the current folder)")
    parser.add_argument("--uri", help="MLflow's tracking server or database, such as sqlite:///mlflow.db (the file store OUT/mlruns)")
    options = parser.parse_args(given)
    if options.uri and options.to != "mlflow":
        parser.error("--uri: expected --to mlflow, whose stores have one")
    return options


def records_of(folder):
    """The records, without a last line that is incomplete."""
    file = folder / "metrics.jsonl"
    try:
        with open(file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith("\n"):
                    return
                try:
                    record = json.loads(line)
                    found = record["kind"], int(record["step"]), record
                except (ValueError, KeyError, TypeError) as error:
                    raise Refused(f"{file}: line {number}: expected a record with kind and step (docs/metrics.md), "
                                  f"found {line[:60]!r}") from error
                yield found
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{file}: cannot be read: {error}; give the output.dir of a run") from error


def source_of(folder):
    """None where the run has no record yet."""
    first = next(records_of(folder), None)
    if first is None:
        return None
    begun = f"{folder.resolve()}\n{first[2].get('unix_time')}"
    config = resolved_config.read((folder / "config.yaml").read_text(encoding="utf-8"))
    return Source(folder, config, hashlib.sha256(begun.encode()).hexdigest()[:16])


def add_new(target, source, note):
    """Adds the records after the last steps of `note`, by kind and event, and keeps the new ones there. Returns how many there were: a run
    that was resumed writes the steps after its checkpoint again, with the same values."""
    last, count = dict(note.get("last", {})), 0
    for kind, step, record in records_of(source.folder):
        key = f"{kind}/{record['event']}" if "event" in record else kind
        if step <= note.get("last", {}).get(key, -1):
            continue
        if count == 0:
            target.open(source, note)
        target.add(kind, step, record)
        last[key], count = step, count + 1
    if count:
        target.close()
        note["last"] = last
    return count


def export(options, package):
    options.out.mkdir(parents=True, exist_ok=True)
    target, file = TARGETS[options.to](options, package), options.out / f".exported-{options.to}.json"
    exported = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for folder in options.runs:
        source = source_of(folder)
        if source is None:
            print(f"{folder}: no records yet")
            continue
        note = exported.setdefault(f"{target.place} {source.identity}", {})
        try:
            count = add_new(target, source, note)
        finally:  # what a run was begun as is known then, too
            write_atomically(file, json.dumps(exported) + "\n")
        print(f"{folder}: {count} records added")


def main(given=None):
    options = parse_arguments(given)
    try:
        package = importlib.import_module(options.to)
    except ImportError:
        sys.exit(f"export_metrics.py: this Python ({sys.executable}) has no {options.to}; install it with pip, into a virtual "
                 "environment")
    with reported("export_metrics"):
        try:
            export(options, package)
        except OSError as error:
            raise Refused(str(error)) from error


if __name__ == "__main__":
    main()
