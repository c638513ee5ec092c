"""Trainings that a script repeats with other configurations, settings and seeds, and whose results it compares. Each has a
folder of its own; what is finished is not repeated, what was interrupted continues from its last checkpoint.
"""

import argparse
import concurrent.futures
import contextlib
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import places

# The 97.5% quantile of Student's t for 1 to 30 degrees of freedom; beyond, that of the normal distribution is near.
T_975 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
         2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]


# For a step of a training to end after Ctrl-C.
GRACE_SECONDS = 30


class Stopped(KeyboardInterrupt):
    """A signal that the script alone got, and not its trainings."""


class Refused(Exception):
    """What the user has to change."""


@dataclass(frozen=True)
class Run:
    """One training: `moh train CONFIG SETTINGS... output.dir=FOLDER`."""

    name: str  # as the user knows it
    config: pathlib.Path
    folder: pathlib.Path
    settings: tuple


def stop(number, frame):
    raise Stopped


@contextlib.contextmanager
def reported(script):
    """Around a script's work: says what the user has to change, or, after Ctrl-C or SIGTERM, that the same command continues."""
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except Refused as refusal:
        sys.exit(f"{script}: {refusal}")
    except KeyboardInterrupt:
        print(f"{script}: stopped; the same command continues", file=sys.stderr)
        sys.exit(130)


def add_arguments(parser, out, jobs=1, threads=2):
    parser.add_argument("--moh", default=places.program(), help="the moh program (%(default)s)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(out), help="folder of the runs and of what is made of them")
    parser.add_argument("--jobs", type=int, default=jobs, help="concurrent runs")
    parser.add_argument("--threads", type=int, default=threads, help="threads of each")
    parser.add_argument("settings", nargs="*", help="key=value, for all runs (after --)")


def seeds(text):
    """The seeds of an option --seeds, for argparse's `type`."""
    numbers = [int(seed) for seed in text.split(",")]
    if len(set(numbers)) != len(numbers):
        raise argparse.ArgumentTypeError(f"{text}: one comes twice")
    return numbers


def settings_of(arguments):
    """What all runs have beside their configurations: the data, and the settings after --. --data is a text, or a folder of
    pictures with train/ and test/; without it the configurations name theirs."""
    if arguments.data is None or any(setting.startswith("data.drawn=") for setting in arguments.settings):
        return arguments.settings
    data = pathlib.Path(arguments.data)
    if data.is_dir() and (data / "train").is_dir():
        return [f"data.train={data}/train", f"data.validation={data}/test", *arguments.settings]
    return [f"data.train={data}", *arguments.settings]


def check_settings(folder, settings):
    """Writes the settings down at the first start, and refuses others: their results would be compared."""
    note = folder / "settings.json"
    if not note.exists():
        write_atomically(note, json.dumps(settings) + "\n")
    elif (before := json.loads(note.read_text(encoding="utf-8"))) != settings:
        raise Refused(f"{folder} has runs with other settings: {' '.join(before)}; take another --out")


def write_atomically(path, text):
    """A file that is there whole, or as it was before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def no_program(error):
    return Refused(f"--moh: {error}; build it (README.md), or name it: --moh FILE")


class Trainings:
    """The processes that train, so that they can be stopped together."""

    def __init__(self):
        self.lock, self.running, self.stopped = threading.Lock(), set(), False

    def run(self, command, log):
        """The exit code of a command; None where all was stopped before."""
        with self.lock:
            if self.stopped:
                return None
            try:
                process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            except OSError as error:
                raise no_program(error) from error
            self.running.add(process)
        code = process.wait()
        with self.lock:
            self.running.discard(process)
        return code

    def stop(self, grace):
        """Each saves a checkpoint and ends. Ctrl-C reaches the processes, too, and a second signal would end them before they have
        saved: one that ends by itself within `grace` seconds is told nothing."""
        with self.lock:
            self.stopped, running = True, list(self.running)
        deadline = time.monotonic() + grace
        for process in running:
            try:
                process.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.terminate()


def train(moh, run, threads, trainings):
    """Trains a run to its end, from its last checkpoint if there is one."""
    if (run.folder / "finished").exists():  # written after everything else
        return
    run.folder.mkdir(parents=True, exist_ok=True)
    command = [moh, "train", places.shipped(run.config), *run.settings, f"output.dir={run.folder}", f"threads={threads}", "--resume"]
    with open(run.folder / "log.txt", "a", encoding="utf-8") as log:
        code = trainings.run(command, log)
    if code is None:
        return
    if code != 0:
        raise Refused(f"{run.name}: moh train ended with code {code}; see {run.folder / 'log.txt'}")
    (run.folder / "finished").touch()


def train_all(arguments, runs, describe):
    """Trains all runs, --jobs at once, and prints describe(run) to stderr as each ends. Where one fails, or Ctrl-C or a
    signal ends the script, the others save a checkpoint and end."""
    trainings = Trainings()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        under_way = {pool.submit(train, arguments.moh, run, arguments.threads, trainings): run for run in runs}
        try:
            for done in concurrent.futures.as_completed(under_way):
                done.result()
                run = under_way[done]
                print(f"{run.name}: {describe(run)}", file=sys.stderr, flush=True)
        except BaseException as error:
            trainings.stop(GRACE_SECONDS if type(error) is KeyboardInterrupt else 0)
            pool.shutdown(cancel_futures=True)
            raise


def records(folder, kind):
    """The records of metrics.jsonl that are of a kind."""
    with open(folder / "metrics.jsonl", encoding="utf-8") as lines:
        return [record for record in map(json.loads, lines) if record["kind"] == kind]


def last_evaluation(folder):
    evaluations = records(folder, "eval")
    if not evaluations:
        raise Refused(f"{folder}: no evaluation in metrics.jsonl; evaluate at the end of the runs")
    return evaluations[-1]


def mean_and_interval(values):
    """The mean, and half the width of its 95% confidence interval; None where one value says nothing of it."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return mean, None
    t = T_975[len(values) - 2] if len(values) - 2 < len(T_975) else 1.96
    return mean, t * statistics.stdev(values) / math.sqrt(len(values))


def with_interval(values, form):
    """`mean ± half`, each in this format; a sign is for the mean alone."""
    mean, half = mean_and_interval(values)
    return f"{mean:{form}}" + (f" ± {half:{form.lstrip('+')}}" if half is not None else "")
