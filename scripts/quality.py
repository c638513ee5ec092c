#!/usr/bin/env python3
"""Trains several configurations with several seeds and prints a Markdown table of their scores on held-out data: the loss
of language models, top-1 of image classifiers, loss or BLEU of models that translate.

    scripts/quality.py --data input.txt --out runs/quality
    scripts/quality.py --data cifar10 --out runs/cifar10 --configs configs/vit/cifar10_{transnext_dense,moh_75,moh_50}.yaml
    scripts/quality.py --data /usr/share/locale/de/LC_MESSAGES --out runs/translation --bleu 4 --configs configs/translation/small_{dense,moa,moh_75}.yaml

DATA is a text or pairs of sentences, of which a part is held out, or a folder with train/ and test/, of a folder of pictures for each
class. Each run is `moh train CONFIG data.train=DATA seed=SEED output.dir=OUT/NAME_SEED`, with the settings given after `--` added.
Runs that are finished are not repeated, and interrupted ones continue from their last checkpoint, so the script can be
stopped and started again at any time; other settings in the same folder are refused.

Means have the interval that holds the mean of many seeds with 95% confidence (Student's t). Differences are to the first
configuration, seed by seed.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import seeded_runs

BLEU = pathlib.Path(__file__).resolve().with_name("bleu.sh")


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    seeded_runs.add_arguments(parser, "runs/quality", jobs=2, threads=1)
    parser.add_argument("--data", required=True, help="a text, or a folder of pictures with train/ and test/")
    parser.add_argument("--configs", nargs="+", type=pathlib.Path, default=[
        pathlib.Path(f"configs/llm/tiny_shakespeare_{name}.yaml") for name in ("dense", "moh_75", "moh_50")])
    parser.add_argument("--seeds", type=seeded_runs.seeds, default=[1, 2, 3], help="1,2,3")
    parser.add_argument("--bleu", type=int, metavar="N",
                        help="score held-out sentences, translated by the mean of a run's last N checkpoints, with scripts/bleu.sh")
    options = parser.parse_args(arguments)
    if options.bleu and not BLEU.exists():
        parser.error(f"--bleu: expected {BLEU}, which is in the source tree alone")
    return options


def run_of(arguments, config, seed):
    return seeded_runs.Run(f"{config.stem}, seed {seed}", config, arguments.out / f"{config.stem}_{seed}",
                           (f"seed={seed}", *seeded_runs.settings_of(arguments)))


def bleu(arguments, run):
    """BLEU of the run's held-out pairs, computed once; its signature stays beside it, in bleu.json of the run."""
    note, averaged = run.folder / "bleu.json", run.folder / "averaged"
    if not note.exists() or (found := json.loads(note.read_text(encoding="utf-8")))["checkpoints"] != arguments.bleu:
        translated, references = run.folder / "translated.txt", run.folder / "references.txt"
        moh(arguments, "convert", "--from", run.folder, "--average", arguments.bleu, "--to", averaged, "--format", "moh", "--overwrite")
        moh(arguments, "translate", "--checkpoint", averaged, "--held-out", "--references", references, "--output", translated, "--beam", 4,
            "--overwrite")
        scores = json.loads(output_of([BLEU, translated, references, "--json"]))
        found = {"checkpoints": arguments.bleu, **scores}
        seeded_runs.write_atomically(note, json.dumps(found) + "\n")
    return found["BLEU"]["score"]


def moh(arguments, *command):
    output_of([arguments.moh, *command])


def output_of(command):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise seeded_runs.Refused(f"{' '.join(map(str, command))} ended with code {done.returncode}; its error is above")
    return done.stdout


def score(folder):
    """What ranks models, of the evaluation after the last step: top-1 in percent, or else the loss."""
    evaluation = seeded_runs.last_evaluation(folder)
    return 100 * evaluation["top1"] if "top1" in evaluation else evaluation["loss"]


def measure(arguments, run):
    """The name of what ranks models, BLEU where that is asked for, and its value after the last step."""
    if arguments.bleu:
        return "BLEU", bleu(arguments, run)
    return "top-1, %" if "top1" in seeded_runs.last_evaluation(run.folder) else "loss", score(run.folder)


def difference(scores, base, in_points):
    """Absolute where scores are points of a hundred, else of the base in percent."""
    pairs = [ours - of_base if in_points else 100 * (ours / of_base - 1) for ours, of_base in zip(scores, base)]
    return seeded_runs.with_interval(pairs, "+.2f") + ("" if in_points else "%")


def table(arguments):
    runs = {config: [run_of(arguments, config, seed) for seed in arguments.seeds] for config in arguments.configs}
    measured = {config: [measure(arguments, run) for run in of_config] for config, of_config in runs.items()}
    scores = {config: [score for _, score in of_config] for config, of_config in measured.items()}
    name = measured[arguments.configs[0]][0][0]
    in_points, base = name != "loss", scores[arguments.configs[0]]
    form = ".2f" if in_points else ".4f"
    lines = ["| configuration | heads | " + " | ".join(f"seed {seed}" for seed in arguments.seeds) + f" | {name}, mean | to the first |",
             "| --- | --- |" + " --- |" * (len(base) + 2)]
    for config, of_config in runs.items():
        heads = seeded_runs.records(of_config[0].folder, "train")[-1].get("activated_heads", 1.0)
        lines.append("| " + " | ".join([
            config.stem, f"{heads:.0%}", *(f"{each:{form}}" for each in scores[config]), seeded_runs.with_interval(scores[config], form),
            "0" if config == arguments.configs[0] else difference(scores[config], base, in_points)]) + " |")
    return lines


def main(given=None):
    arguments = parse_arguments(given)
    runs = [run_of(arguments, config, seed) for seed in arguments.seeds for config in arguments.configs]
    try:
        seeded_runs.check_settings(arguments.out, seeded_runs.settings_of(arguments))
        seeded_runs.train_all(arguments, runs, lambda run: "{} {:.4f}".format(*measure(arguments, run)))
        print(*table(arguments), sep="\n")
    except seeded_runs.Refused as refusal:
        sys.exit(f"quality: {refusal}")


if __name__ == "__main__":
    main()
