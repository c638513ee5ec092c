"""The small form of continue-tuning: a dense model is trained, and continued in the ways of a table's rows; what is compared is the
share of the dense model's learning that is kept (recovery.py)."""

import time

import recovery
import seeded_runs

from . import moh, scaled
from .table import Small

DENSE = Small(recovery.CONFIGS[False][0])
SHARE = 0.1  # of the dense run's steps, for each continuation
POINTS = 20  # evaluations of a continuation


def steps_of(lengths):
    """Of a continuation."""
    return int(SHARE * (lengths.steps or lengths.own_steps))


def dense_run(arguments, data, seed, lengths):
    length = scaled.length_settings(lengths.steps, "text", "") if lengths.steps else ()
    return seeded_runs.Run(f"dense, seed {seed}", DENSE.config, arguments.out / f"dense_{seed}",
                           (*data, *arguments.settings, *length, "eval.at_start=true", f"seed={seed}"))


def continued_run(arguments, data, row, seed, dense, lengths):
    length = scaled.length_settings(steps_of(lengths), "text", "") if lengths.steps else ()
    return seeded_runs.Run(f"{row.name}, seed {seed}", row.small.config,
                           arguments.out / scaled.folder_name(row.small, seed),
                           (*data, *arguments.settings, f"init.from={dense.folder}", *row.small.settings, *length,
                            f"eval.every={max(1, steps_of(lengths) // POINTS)}", "eval.at_start=true", f"seed={seed}"))


def choose_lengths(arguments, data, variants):
    """As scaled.choose_lengths: the dense training, and a tenth of it for each continuation."""
    began, settings = time.monotonic(), (*data, *arguments.settings)
    plan = moh.plan(arguments.moh, DENSE.config, settings)
    seconds = moh.step_seconds(arguments.moh, DENSE.config, settings, arguments.threads)
    evaluations = seconds * scaled.evaluation_steps(plan, settings) * (2 + variants * (POINTS + 1))
    steps = scaled.fitting_steps(arguments, began, seconds * (1 + SHARE * variants), evaluations, round(scaled.LEAST_STEPS / SHARE))
    return scaled.Lengths(steps if steps < plan["steps"] else None, plan["steps"])


def train(arguments, table, rows):
    """Trains the dense models, then their continuations. Returns (lengths, {row name: (its run, its dense run) for each seed})."""
    data = scaled.data_settings(arguments, "text", "")
    continuations = len({row.small for row in rows if row.small != DENSE})
    lengths = scaled.kept_lengths(arguments, table, lambda: choose_lengths(arguments, data, continuations))
    denses = {seed: dense_run(arguments, data, seed, lengths) for seed in arguments.seeds}

    def run_of(row, seed):
        return denses[seed] if row.small == DENSE else continued_run(arguments, data, row, seed, denses[seed], lengths)

    runs = {row.name: [(run_of(row, seed), denses[seed]) for seed in arguments.seeds] for row in rows}
    loss = lambda run: f"{seeded_runs.last_evaluation(run.folder)['loss']:.4f}"  # noqa: E731
    seeded_runs.train_all(arguments, list(denses.values()), loss)
    seeded_runs.train_all(arguments, list({run.folder: run for of_row in runs.values() for run, _ in of_row}.values()), loss)
    return lengths, runs


def scores(row, of_row):
    """In percent of the dense model's learning: at the end, or at the row's share of the continuation."""
    found = []
    for run, dense in of_row:
        curve, learned = recovery.read_curve(run), recovery.read_curve(dense)
        at = len(curve.losses) - 1
        if "tokens_b" in row.paper:  # of 100 billion
            wanted = row.paper["tokens_b"] / 100 * curve.tokens[-1]
            at = min(range(len(curve.tokens)), key=lambda i: abs(curve.tokens[i] - wanted))
        found.append(100 * recovery.recovered(curve.losses[at], learned))
    return found
