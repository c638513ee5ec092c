#!/usr/bin/env python3
"""Trains several configurations with several seeds and prints a Markdown table of their scores on held-out data: the loss
of language models, top-1 of image classifiers, loss or BLEU of models that translate, loss or FID of diffusion models.

    scripts/quality.py --data input.txt --out runs/quality
    scripts/quality.py --data cifar10 --out runs/cifar10 --configs configs/vit/cifar10_{transnext_dense,moh_75,moh_50}.yaml
    scripts/quality.py --data /usr/share/locale/de/LC_MESSAGES --out runs/translation --bleu 4 --configs configs/translation/small_{dense,moa,moh_75}.yaml
    scripts/quality.py --data cifar10 --out runs/dit --fid cifar10/test --features-from runs/classifier --configs configs/dit/cifar10_{dense,moh_75}.yaml

DATA is a text or pairs of sentences, of which a part is held out, or a folder with train/ and test/, of a folder of pictures for each
class. Each run is `moh train CONFIG data.train=DATA seed=SEED output.dir=OUT/NAME_SEED`, with the settings given after `--` added.
Runs that are finished are not repeated, and interrupted ones continue from their last checkpoint, so the script can be
stopped and started again at any time; other settings in the same folder are refused.

Means have the interval that holds the mean of many seeds with 95% confidence (Student's t). Differences are to the first
configuration, seed by seed.
"""

import argparse
import pathlib
import urllib.parse
from dataclasses import dataclass

import output_scores
import seeded_runs


@dataclass(frozen=True)
class Row:
    """What is trained with each seed: a configuration, with settings of its own."""

    config: pathlib.Path
    settings: tuple = ()  # key=value

    @property
    def name(self):
        return " ".join((self.config.stem, *self.settings))

    def folder(self, seed):
        """A name that no other row of these configurations has, and that says what the row is."""
        return f"{self.config.stem}_{''.join(urllib.parse.quote(setting, safe='=,') + '_' for setting in self.settings)}{seed}"


@dataclass(frozen=True)
class Result:
    """What a row came to: the share of heads, and what ranks models, by seed."""

    row: Row
    heads: float
    measure: str
    scores: list


def add_arguments(parser):
    """Options of a script that compares rows over seeds."""
    parser.add_argument("--seeds", type=seeded_runs.seeds, default=[1, 2, 3], help="1,2,3")
    output_scores.add_arguments(parser)


def parsed(parser, parse):
    """The options that parse() finds, where they can be followed."""
    options = parse()
    output_scores.check(parser, options)
    return options


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    seeded_runs.add_arguments(parser, "runs/quality", jobs=2, threads=1)
    add_arguments(parser)
    parser.add_argument("--data", required=True, help="a text, or a folder of pictures with train/ and test/")
    parser.add_argument("--configs", nargs="+", type=pathlib.Path, default=[
        pathlib.Path(f"configs/llm/tiny_shakespeare_{name}.yaml") for name in ("dense", "moh_75", "moh_50")])
    return parsed(parser, lambda: parser.parse_args(arguments))


def run_of(arguments, row, seed):
    return seeded_runs.Run(f"{row.name}, seed {seed}", row.config, arguments.out / row.folder(seed),
                           (*row.settings, f"seed={seed}", *seeded_runs.settings_of(arguments)))


def score(folder):
    """What ranks models, of the evaluation after the last step: top-1 in percent, or else the loss."""
    evaluation = seeded_runs.last_evaluation(folder)
    return 100 * evaluation["top1"] if "top1" in evaluation else evaluation["loss"]


def measure(arguments, run):
    """The name of what ranks models, of their outputs where that is asked for, and its value after the last step."""
    if found := output_scores.measure(arguments, run):
        return found
    return "top-1, %" if "top1" in seeded_runs.last_evaluation(run.folder) else "loss", score(run.folder)


def difference(scores, base, in_points):
    """Absolute where scores are points of a hundred, else of the base in percent."""
    pairs = [ours - of_base if in_points else 100 * (ours / of_base - 1) for ours, of_base in zip(scores, base)]
    return seeded_runs.with_interval(pairs, "+.2f") + ("" if in_points else "%")


def trained(arguments, rows):
    """Trains each row with each seed, and returns a Result for each row."""
    runs = {row: [run_of(arguments, row, seed) for seed in arguments.seeds] for row in rows}
    folders = [run.folder for of_row in runs.values() for run in of_row]
    if len(set(folders)) < len(rows) * len(arguments.seeds):
        raise seeded_runs.Refused(f"expected configurations of different names, found {', '.join(str(row.config) for row in rows)}")
    seeded_runs.check_settings(arguments.out, seeded_runs.settings_of(arguments))
    seed_by_seed = [runs[row][i] for i in range(len(arguments.seeds)) for row in rows]
    seeded_runs.train_all(arguments, seed_by_seed, lambda run: "{} {:.4f}".format(*measure(arguments, run)))
    results = []
    for row, of_row in runs.items():
        names, scores = zip(*(measure(arguments, run) for run in of_row))
        heads = seeded_runs.records(of_row[0].folder, "train")[-1].get("activated_heads", 1.0)
        results.append(Result(row, heads, names[0], list(scores)))
    return results


def table(results, seeds):
    """The lines of the table: a row for each result, with differences to the first, and a column for each key of their own settings."""
    first = results[0]
    in_points = first.measure != "loss"
    form = ".2f" if in_points else ".4f"
    columns = ["configuration", *(setting.partition("=")[0] for setting in first.row.settings), "heads",
               *(f"seed {seed}" for seed in seeds), f"{first.measure}, mean", "to the first"]
    lines = [columns, ["---"] * len(columns)]
    for result in results:
        lines.append([result.row.config.stem, *(setting.partition("=")[2] for setting in result.row.settings), f"{result.heads:.0%}",
                      *(f"{score:{form}}" for score in result.scores), seeded_runs.with_interval(result.scores, form),
                      "0" if result is first else difference(result.scores, first.scores, in_points)])
    return [f"| {' | '.join(cells)} |" for cells in lines]


def main(given=None):
    arguments = parse_arguments(given)
    with seeded_runs.reported("quality"):
        print(*table(trained(arguments, [Row(config) for config in arguments.configs]), arguments.seeds), sep="\n")


if __name__ == "__main__":
    main()
