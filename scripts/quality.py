#!/usr/bin/env python3
"""Trains several configurations with several seeds and prints a Markdown table of their scores on held-out data: the loss
of language models, top-1 of image classifiers.

    scripts/quality.py --data input.txt --out runs/quality
    scripts/quality.py --data cifar10 --out runs/cifar10 --configs configs/vit/cifar10_{transnext_dense,moh_75,moh_50}.yaml

DATA is a text, whose last part is held out, or a folder with train/ and test/, of a folder of pictures for each class. Each
run is `moh train CONFIG data.train=DATA seed=SEED output.dir=OUT/NAME_SEED`, with the settings given after `--` added.
Runs that are finished are not repeated, and interrupted ones continue from their last checkpoint, so the script can be
stopped and started again at any time; other settings in the same folder are refused.

Means have the interval that holds the mean of many seeds with 95% confidence (Student's t). Differences are to the first
configuration, seed by seed.
"""

import argparse
import pathlib
import sys

import seeded_runs


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    seeded_runs.add_arguments(parser, "runs/quality", jobs=2, threads=1)
    parser.add_argument("--data", required=True, help="a text, or a folder of pictures with train/ and test/")
    parser.add_argument("--configs", nargs="+", type=pathlib.Path, default=[
        pathlib.Path(f"configs/llm/tiny_shakespeare_{name}.yaml") for name in ("dense", "moh_75", "moh_50")])
    parser.add_argument("--seeds", type=seeded_runs.seeds, default=[1, 2, 3], help="1,2,3")
    return parser.parse_args(arguments)


def run_of(arguments, config, seed):
    return seeded_runs.Run(f"{config.stem}, seed {seed}", config, arguments.out / f"{config.stem}_{seed}",
                           (f"seed={seed}", *seeded_runs.settings_of(arguments)))


def score(folder):
    """What ranks models, of the evaluation after the last step: top-1 in percent, or else the loss."""
    evaluation = seeded_runs.last_evaluation(folder)
    return 100 * evaluation["top1"] if "top1" in evaluation else evaluation["loss"]


def difference(scores, base, is_share):
    """In points where a score is a share, else of the base in percent."""
    pairs = [ours - of_base if is_share else 100 * (ours / of_base - 1) for ours, of_base in zip(scores, base)]
    return seeded_runs.with_interval(pairs, "+.2f") + ("" if is_share else "%")


def table(arguments):
    folders = {config: [run_of(arguments, config, seed).folder for seed in arguments.seeds] for config in arguments.configs}
    first = folders[arguments.configs[0]]
    is_share = "top1" in seeded_runs.last_evaluation(first[0])
    form, base = ".2f" if is_share else ".4f", [score(folder) for folder in first]
    lines = ["| configuration | heads | " + " | ".join(f"seed {seed}" for seed in arguments.seeds) +
             f" | {'top-1, %' if is_share else 'loss'}, mean | to the first |", "| --- | --- |" + " --- |" * (len(first) + 2)]
    for config, of_config in folders.items():
        scores = [score(folder) for folder in of_config]
        heads = seeded_runs.records(of_config[0], "train")[-1].get("activated_heads", 1.0)
        lines.append("| " + " | ".join([
            config.stem, f"{heads:.0%}", *(f"{each:{form}}" for each in scores), seeded_runs.with_interval(scores, form),
            "0" if config == arguments.configs[0] else difference(scores, base, is_share)]) + " |")
    return lines


def main(given=None):
    arguments = parse_arguments(given)
    runs = [run_of(arguments, config, seed) for seed in arguments.seeds for config in arguments.configs]
    try:
        seeded_runs.check_settings(arguments.out, seeded_runs.settings_of(arguments))
        seeded_runs.train_all(arguments, runs, lambda run: f"{score(run.folder):.4f}")
        print(*table(arguments), sep="\n")
    except seeded_runs.Refused as refusal:
        sys.exit(f"quality: {refusal}")


if __name__ == "__main__":
    main()
