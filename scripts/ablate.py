#!/usr/bin/env python3
"""Trains the small forms of the paper's ablations of its image classifiers with several seeds, and prints a Markdown table
of their top-1 beside the paper's.

    scripts/ablate.py --moh build/release/moh --data cifar10 --out runs/ablations
    scripts/ablate.py --rows full no_shared one_stage --seeds 1,2,3,4,5 -- train.epochs=6

DATA is a folder with train/ and test/, of a folder of pictures for each class (docs/pictures.md). Each run is `moh train CONFIG
SETTINGS data.train=DATA/train data.validation=DATA/test seed=SEED output.dir=OUT/ROW_SEED`, with configuration and settings of the
row (SMALL in reproduction/image_tables.py) and the settings given after `--` added. Runs that are finished are not repeated, and interrupted ones continue from their last
checkpoint, so the script can be stopped and started again at any time; other settings in the same folder are refused.

Ours is the mean over the seeds, with the interval that holds the mean of many seeds with 95% confidence (Student's t), and
the difference to --base of the same seeds (paired), with its interval. The paper's numbers are of ImageNet-1K, of models
of 28M to 90M parameters, one seed each; compare differences, not levels.
"""

import argparse
import pathlib

import seeded_runs
from reproduction.image_tables import SMALL, TABLES

# Row: (what it is, the paper's top-1 in percent, where that stands). "review" are the answers of the paper's authors in the public
# review. The small forms have lists of heads of their own, so of a table of ratios the nearest row is given.
TABLE_5, TABLE_6, TABLE_H, REVIEW = "table 5", "table 6", "appendix, table H", "review"


def published(table, row):
    return next(found.paper["top1"] for found in TABLES[table].rows if found.name == row)


ROWS = {
    "full": ("MoH, 75% of the heads", published("ablation_components", "full"), TABLE_5),
    "dense": ("multi-head attention", None, ""),
    "no_shared": ("no shared heads", published("ablation_components", "no shared heads"), TABLE_5),
    "one_stage": ("shared heads, no two-stage routing", published("ablation_components", "shared heads, no two-stage routing"), TABLE_5),
    "shared_19": ("19% of the active heads shared", published("ablation_shared_ratio", "13.9% shared"), TABLE_6 + ", 13.9%"),
    "shared_57": ("57% of the active heads shared", published("ablation_shared_ratio", "60.4% shared"), TABLE_6 + ", 60.4%"),
    "shared_76": ("76% of the active heads shared", published("ablation_shared_ratio", "74.0% shared"), TABLE_6 + ", 74.0%"),
    "active_57": ("57% of the heads active", published("ablation_activated_ratio", "55% active"), TABLE_H + ", 55%"),
    "active_75": ("75% of the heads active", published("ablation_activated_ratio", "75% active"), TABLE_H),
    "active_86": ("86% of the heads active", published("ablation_activated_ratio", "80% active"), TABLE_H + ", 80%"),
    "moa": ("MoA: one key and value, z-loss", published("review_moa", "MoA"), REVIEW),
    "sparse": ("sparse attention, 75% of the keys", published("review_sparse", "sparse attention"), REVIEW),
    "learned_125": ("learned shared heads, K 1/8 of the routed", published("review_k_ratio", "K 1/8"), REVIEW + ", base, 300 epochs"),
    "learned_25": ("learned shared heads, K 1/4 of the routed", published("review_k_ratio", "K 1/4"), REVIEW + ", base, 300 epochs"),
    "learned_5": ("learned shared heads, K 1/2 of the routed", published("review_k_ratio", "K 1/2"), REVIEW + ", base, 300 epochs"),
    "moe": ("two feed-forward experts", published("review_moe_ffn", "two feed-forward experts"), REVIEW + ", tiny"),
    "moh_moe": ("MoH and two feed-forward experts", published("review_moe_ffn", "MoH and two feed-forward experts"), REVIEW + ", tiny"),
}


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    seeded_runs.add_arguments(parser, "runs/ablations")
    parser.add_argument("--data", default="cifar10", help="folder with train/ and test/")
    parser.add_argument("--rows", nargs="+", default=list(ROWS), metavar="ROW", choices=ROWS, help=", ".join(ROWS))
    parser.add_argument("--base", default="full", metavar="ROW", choices=ROWS, help="the row to which differences are")
    parser.add_argument("--seeds", type=seeded_runs.seeds, default=[1, 2, 3], help="1,2,3")
    return parser.parse_args(arguments)


def run_of(arguments, row, seed):
    return seeded_runs.Run(f"{row}, seed {seed}", pathlib.Path(SMALL[row].config), arguments.out / f"{row}_{seed}",
                           (*SMALL[row].settings, f"seed={seed}", *seeded_runs.settings_of(arguments)))


def top1(run):
    """In percent, after the last step."""
    return 100 * seeded_runs.last_evaluation(run.folder)["top1"]


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
            seeded_runs.with_interval([scores[row, seed] for seed in seeds], ".2f"),
            "0" if row == base else seeded_runs.with_interval(same, "+.2f")]) + " |")
    return lines


def main(given=None):
    arguments = parse_arguments(given)
    rows = list(dict.fromkeys([arguments.base, *arguments.rows]))
    runs = {(row, seed): run_of(arguments, row, seed) for seed in arguments.seeds for row in rows}
    with seeded_runs.reported("ablate"):
        seeded_runs.check_settings(arguments.out, seeded_runs.settings_of(arguments))
        seeded_runs.train_all(arguments, runs.values(), lambda run: f"{top1(run):.2f}%")
        scores = {key: top1(run) for key, run in runs.items()}
    print(*table(scores, rows, arguments.base, arguments.seeds), sep="\n")


if __name__ == "__main__":
    main()
