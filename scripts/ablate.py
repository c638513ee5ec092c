#!/usr/bin/env python3
"""Trains the small forms of the paper's ablations of its image classifiers with several seeds, and prints a Markdown table
of their top-1 beside the paper's.

    scripts/ablate.py --moh build/release/moh --data cifar10 --out runs/ablations
    scripts/ablate.py --rows full no_shared one_stage --seeds 1,2,3,4,5 -- train.epochs=6

DATA is a folder with train/ and test/, of a folder of pictures for each class (docs/pictures.md). Each run is `moh train
configs/vit/ablations/small/ROW.yaml data.train=DATA/train data.validation=DATA/test seed=SEED output.dir=OUT/ROW_SEED`, with
the settings given after `--` added. Runs that are finished are not repeated, and interrupted ones continue from their last
checkpoint, so the script can be stopped and started again at any time; other settings in the same folder are refused.

Ours is the mean over the seeds, with the interval that holds the mean of many seeds with 95% confidence (Student's t), and
the difference to --base of the same seeds (paired), with its interval. The paper's numbers are of ImageNet-1K, of models
of 28M to 90M parameters, one seed each; compare differences, not levels.
"""

import argparse
import concurrent.futures
import json
import math
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIGS = ROOT / "configs/vit/ablations/small"

# Row: (what it is, the paper's top-1 in percent, where that stands). arXiv 2410.11842 is the paper; "review" are the answers
# of its authors in the public review. The small forms have lists of heads of their own (configs/vit/ablations), so of a table
# of ratios the nearest row is given.
TABLE_5, TABLE_6, TABLE_H, REVIEW = "table 5", "table 6", "appendix, table H", "review"
ROWS = {
    "full": ("MoH, 75% of the heads", 78.6, TABLE_5),
    "dense": ("multi-head attention", None, ""),
    "no_shared": ("no shared heads", 75.6, TABLE_5),
    "one_stage": ("shared heads, no two-stage routing", 78.3, TABLE_5),
    "shared_19": ("19% of the active heads shared", 78.6, TABLE_6 + ", 13.9%"),
    "shared_57": ("57% of the active heads shared", 78.6, TABLE_6 + ", 60.4%"),
    "shared_76": ("76% of the active heads shared", 78.4, TABLE_6 + ", 74.0%"),
    "active_57": ("57% of the heads active", 78.38, TABLE_H + ", 55%"),
    "active_75": ("75% of the heads active", 78.58, TABLE_H),
    "active_86": ("86% of the heads active", 78.78, TABLE_H + ", 80%"),
    "moa": ("MoA: one key and value, z-loss", 75.4, REVIEW),
    "sparse": ("sparse attention, 75% of the keys", 78.4, REVIEW),
    "learned_125": ("learned shared heads, K 1/8 of the routed", 84.8, REVIEW + ", base, 300 epochs"),
    "learned_25": ("learned shared heads, K 1/4 of the routed", 85.0, REVIEW + ", base, 300 epochs"),
    "learned_5": ("learned shared heads, K 1/2 of the routed", 84.9, REVIEW + ", base, 300 epochs"),
    "moe": ("two feed-forward experts", 78.1, REVIEW + ", tiny"),
    "moh_moe": ("MoH and two feed-forward experts", 78.1, REVIEW + ", tiny"),
}

# The 97.5% quantile of Student's t for 1 to 30 degrees of freedom; beyond, that of the normal distribution is near.
T_975 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
         2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]


class Refused(Exception):
    """What the user has to change."""


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moh", default="build/release/moh", help="the moh program")
    parser.add_argument("--data", default="cifar10", help="folder with train/ and test/")
    parser.add_argument("--out", default="runs/ablations", help="folder of the runs")
    parser.add_argument("--rows", nargs="+", default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--base", default="full", metavar="ROW", help="the row to which differences are")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=1, help="concurrent runs")
    parser.add_argument("--threads", type=int, default=2, help="threads of each")
    parser.add_argument("settings", nargs="*", help="key=value, for all runs (after --)")
    parsed = parser.parse_args(arguments)
    for row in [*parsed.rows, parsed.base]:
        if row not in ROWS:
            parser.error(f"no row {row}; there are {', '.join(ROWS)}")
    try:
        parsed.seeds = [int(seed) for seed in parsed.seeds.split(",")]
    except ValueError:
        parser.error(f"--seeds {parsed.seeds}: expected numbers with commas between them")
    if len(set(parsed.seeds)) != len(parsed.seeds):
        parser.error(f"--seeds {','.join(map(str, parsed.seeds))}: one comes twice")
    return parsed


def settings_of(arguments):
    """What all runs have beside the row's configuration."""
    data = [] if any(setting.startswith("data.drawn=") for setting in arguments.settings) else [
        f"data.train={arguments.data}/train", f"data.validation={arguments.data}/test"]
    return [*data, *arguments.settings]


def check_settings(arguments):
    """Writes the settings down at the first start, and refuses others: their results would be compared."""
    folder = pathlib.Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    note, settings = folder / "settings.json", settings_of(arguments)
    if note.exists():
        before = json.loads(note.read_text(encoding="utf-8"))
        if before != settings:
            raise Refused(f"{folder} has runs with other settings: {' '.join(before)}; take another --out")
    else:
        note.write_text(json.dumps(settings) + "\n", encoding="utf-8")


def run_folder(arguments, row, seed):
    return pathlib.Path(arguments.out) / f"{row}_{seed}"


def score_of(folder):
    """Top-1 in percent of a finished run, else None. A run writes its mark after everything else."""
    if not (folder / "finished").exists():
        return None
    with open(folder / "metrics.jsonl", encoding="utf-8") as lines:
        evaluations = [record for record in map(json.loads, lines) if record["kind"] == "eval"]
    if not evaluations:
        raise Refused(f"{folder}: no evaluation in metrics.jsonl; evaluate at the end of the runs")
    return 100 * evaluations[-1]["top1"]


def train(arguments, row, seed):
    """Trains one run to its end, from its last checkpoint if there is one. Returns the exit code."""
    folder = run_folder(arguments, row, seed)
    if (folder / "finished").exists():
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    command = [arguments.moh, "train", str(CONFIGS / f"{row}.yaml"), f"seed={seed}", f"output.dir={folder}",
               f"threads={arguments.threads}", "--resume", *settings_of(arguments)]
    with open(folder / "log.txt", "a", encoding="utf-8") as log:
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    if code == 0:
        (folder / "finished").touch()
    return code


def mean_and_interval(values):
    """The mean, and half the width of its 95% confidence interval; None where one value says nothing of it."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return mean, None
    t = T_975[len(values) - 2] if len(values) - 2 < len(T_975) else 1.96
    return mean, t * statistics.stdev(values) / math.sqrt(len(values))


def cell(values, sign=""):
    mean, half = mean_and_interval(values)
    return f"{mean:{sign}.2f}" + (f" ± {half:.2f}" if half is not None else "")


def table(scores, rows, base, seeds):
    """The lines of the table; scores[row, seed] is top-1 in percent."""
    lines = [f"| row | | paper, top-1 | source | paper - {base} | ours, top-1 | ours - {base} |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        text, published, source = ROWS[row]
        same = [scores[row, seed] - scores[base, seed] for seed in seeds]
        comparable = published is not None and "base" not in source and "tiny" not in source
        lines.append("| " + " | ".join([
            row, text, "-" if published is None else f"{published:.2f}", source or "-",
            f"{published - ROWS[base][1]:+.2f}" if comparable and ROWS[base][1] else "-",
            cell([scores[row, seed] for seed in seeds]), "0" if row == base else cell(same, "+")]) + " |")
    return lines


def run_all(arguments, rows):
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = {pool.submit(train, arguments, row, seed): (row, seed) for seed in arguments.seeds for row in rows}
        try:
            for done in concurrent.futures.as_completed(runs):
                row, seed = runs[done]
                if done.result() != 0:
                    log = run_folder(arguments, row, seed) / "log.txt"
                    raise Refused(f"{row}, seed {seed}: moh train ended with code {done.result()}; see {log}")
                print(f"ablate: {row}, seed {seed}: {score_of(run_folder(arguments, row, seed)):.2f}%",
                      file=sys.stderr, flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def main(given=None):
    arguments = parse_arguments(given)
    rows = list(dict.fromkeys([arguments.base, *arguments.rows]))
    try:
        check_settings(arguments)
        run_all(arguments, rows)
        scores = {(row, seed): score_of(run_folder(arguments, row, seed)) for row in rows for seed in arguments.seeds}
    except Refused as refusal:
        sys.exit(f"ablate: {refusal}")
    print(*table(scores, rows, arguments.base, arguments.seeds), sep="\n")


if __name__ == "__main__":
    main()
