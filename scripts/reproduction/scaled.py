"""The small trainings of a table: their data, how many steps a budget allows, and their scores."""

import hashlib
import json
import math
import pathlib
import time
from dataclasses import dataclass

import quality
import seeded_runs

from . import moh, samples

LEAST_STEPS = 10
HELD_OUT = {"images": 512, "text": 32768, "pairs": 32768}  # drawn pictures, tokens
EPOCHS_OFF = ("train.epochs=0", "eval.every_epochs=0", "checkpoint.every_epochs=0")  # lengths are steps
RESERVE = 0.75  # of the budget for steps: evaluations, checkpoints and a busy machine have the rest


@dataclass(frozen=True)
class Lengths:
    """How long the small trainings are: steps of each, or None for their configurations' own length."""

    steps: int | None
    own_steps: int  # the longest that a configuration says


def kind_of(table, row):
    return row.data or table.data


def data_settings(arguments, kind, config):
    """The settings of --data for trainings of this kind; drawn pictures where there are none."""
    no_samples = ("sample.pictures=0",) if "/dit/" in str(config) else ()
    for path in map(pathlib.Path, arguments.data):
        if not path.exists():
            raise seeded_runs.Refused(f"--data {path}: no such file or folder")
        is_pictures = (path / "train").is_dir() and (path / "test").is_dir()
        if kind == "images" and is_pictures:
            return (f"data.train={path}/train", f"data.validation={path}/test", *no_samples)
        if kind == "text" and not is_pictures:
            return (f"data.train={path}", f"eval.max_tokens={HELD_OUT['text']}", "sample.tokens=0")
        if kind == "pairs" and not is_pictures:
            return (f"data.train={path}", f"eval.max_tokens={HELD_OUT['pairs']}")
    if kind == "text":
        raise seeded_runs.Refused("this table needs a text: --data FILE, such as Tiny Shakespeare "
                                  "(docs/benchmarks/quality.md); its last tenth is held out")
    if kind == "pairs":
        raise seeded_runs.Refused("this table needs sentence pairs: --data PATH, such as the message catalogs of "
                                  "/usr/share/locale/de/LC_MESSAGES, and -- data.tokenizer=PATH (docs/translation.md)")
    return ("data.train=[]", "data.validation=[]", "data.drawn=8192", f"data.drawn_validation={HELD_OUT['images']}", "model.classes=8",
            *no_samples)


def describe_data(arguments, kind):
    settings = data_settings(arguments, kind, "")
    return "synthetic shapes of eight classes, 8192 to train on" if "data.drawn=8192" in settings else settings[0].partition("=")[2]


def folder_name(small, seed):
    tail = "_" + hashlib.sha256("\n".join(small.settings).encode()).hexdigest()[:8] if small.settings else ""
    return f"{small.name or pathlib.Path(small.config).stem + tail}_{seed}"


def run_of(arguments, table, row, seed, lengths):
    small, kind = row.small, kind_of(table, row)
    settings = (*small.settings, *data_settings(arguments, kind, small.config), *arguments.settings)
    length = length_settings(lengths.steps, kind, small.config) if lengths.steps else ()
    return seeded_runs.Run(f"{row.name}, seed {seed}", small.config,
                           arguments.out / folder_name(small, seed), (*settings, *length, f"seed={seed}"))


def length_settings(steps, kind, config):
    """A training of so many steps that is evaluated once, at its end, with a tenth of them as warmup."""
    common = (f"train.steps={steps}", f"eval.every={steps}", f"checkpoint.every={max(1, steps // 4)}",
              f"log.every={max(1, steps // 20)}", f"schedule.warmup_steps={max(1, steps // 10)}")
    if kind != "images":
        return common
    if "/dit/" not in str(config):
        return (*common, *EPOCHS_OFF, "schedule.warmup_epochs=0")
    # The average that is evaluated has forgotten the first weights but for e^-3, as after the recipe's own 1,500 steps.
    return (*common, *EPOCHS_OFF, f"ema.decay={max(0.0, min(0.998, 1 - 3 / steps)):.6g}")


def pictures_in(folder):
    return sum(1 for path in pathlib.Path(folder).rglob("*") if path.is_file())


def own_steps(plan, settings):
    """The length of a configuration in steps; with epochs, by the number of its pictures."""
    if plan.get("steps"):
        return plan["steps"]
    given = dict(setting.partition("=")[::2] for setting in settings)
    pictures = int(given["data.drawn"]) if "data.drawn" in given else pictures_in(given["data.train"])
    return math.ceil(plan["epochs"] * pictures / plan["items_per_step"])


def evaluation_steps(plan, settings):
    """What an evaluation takes, in steps: a third of a training step's operations for each input."""
    given = dict(setting.partition("=")[::2] for setting in settings)
    held_out = int(given.get("data.drawn_validation") or given.get("eval.max_tokens") or 0)
    return (held_out or pictures_in(given["data.validation"])) / 3 / plan["items_per_step"]


def kept_lengths(arguments, table, choose):
    """What choose() says at the first start, and the same from then on: other lengths would be other runs. Refuses a folder
    whose runs are of other settings."""
    note = arguments.out / "lengths.json"
    lengths = Lengths(**json.loads(note.read_text(encoding="utf-8"))) if note.exists() else choose()
    seeded_runs.check_settings(arguments.out, [table.title, f"budget {arguments.budget:g}", *arguments.data,
                                              *([f"classifier {arguments.classifier}"] if arguments.classifier else []), *arguments.settings])
    seeded_runs.write_atomically(note, json.dumps(vars(lengths)) + "\n")
    return lengths


def fitting_steps(arguments, began, seconds_of_step, seconds_besides, least):
    """The steps that fit what is left of the budget, if all trainings of a seed take so long for each step and for the rest."""
    repeats = len(arguments.seeds) / arguments.jobs
    measuring = time.monotonic() - began
    steps = int((RESERVE * (arguments.budget - measuring) / repeats - seconds_besides) / seconds_of_step)
    if steps < least:
        needed = math.ceil((least * seconds_of_step + seconds_besides) * repeats / RESERVE + measuring)
        raise seeded_runs.Refused(f"--budget {arguments.budget:g}: expected at least {needed} s on this machine, for {least} steps of each "
                                  "training and its evaluations; fewer --rows need less")
    return steps


def choose_lengths(arguments, table, rows):
    """How many steps of each small training the budget allows."""
    step, besides, own, began = 0.0, 0.0, 0, time.monotonic()
    for row in {(row.small, kind_of(table, row)): row for row in rows}.values():
        settings = (*row.small.settings, *data_settings(arguments, kind_of(table, row), row.small.config), *arguments.settings)
        plan = moh.plan(arguments.moh, row.small.config, settings)
        seconds = moh.step_seconds(arguments.moh, row.small.config, settings, arguments.threads)
        step += seconds
        besides += seconds * evaluation_steps(plan, settings)
        if arguments.classifier:  # with guidance a picture takes two passes
            drawings = {other.guidance for other in rows if other.small == row.small}
            besides += seconds * samples.training_steps(plan) * sum(1 if guidance == 1 else 2 for guidance in drawings)
        own = max(own, own_steps(plan, settings))
    steps = fitting_steps(arguments, began, step, besides, LEAST_STEPS)
    return Lengths(steps if steps < own else None, own)


def train(arguments, table, rows):
    """Trains what the rows need; returns (lengths, {row name: its runs, one for each seed})."""
    lengths = kept_lengths(arguments, table, lambda: choose_lengths(arguments, table, rows))
    runs = {row.name: [run_of(arguments, table, row, seed, lengths) for seed in arguments.seeds] for row in rows}
    unique = {run.folder: run for of_row in runs.values() for run in of_row}
    seeded_runs.train_all(arguments, list(unique.values()), lambda run: f"{quality.score(run.folder):.4f}")
    return lengths, runs
