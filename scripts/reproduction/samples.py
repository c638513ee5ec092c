"""Scores of the pictures that small diffusion models draw, by the features of a classifier that moh trained: FID and the others of the
paper's table. They rank models by one yardstick, and are not those of Inception's features."""

import json
import pathlib

import output_scores
import seeded_runs

PICTURES, STEPS, BATCH = 2048, 50, 64
SCORES = ("fid", "sfid", "inception_score", "precision", "recall")  # as `moh eval fid` calls them


def training_steps(plan):
    """What drawing them takes, in steps of the training: a third of its operations for each picture and step."""
    return PICTURES * STEPS / 3 / plan["items_per_step"]


def check(arguments, table):
    """Refuses --classifier where it says nothing."""
    if arguments.classifier and table.score != "fid":
        raise seeded_runs.Refused("--classifier: expected a table of diffusion models, whose pictures it is to judge")
    if arguments.classifier and not any((pathlib.Path(path) / "test").is_dir() for path in arguments.data):
        raise seeded_runs.Refused("--classifier needs pictures to compare with: --data FOLDER with train/ and test/, as the classifier had")


def reference(arguments):
    return next(pathlib.Path(path) / "test" for path in arguments.data if (pathlib.Path(path) / "test").is_dir())


def scores(arguments, run, guidance=1.0):
    """Draws the pictures of a run, or goes on with it, and compares them with the held-out ones; kept in the run's folder. Those of
    SCORES that the classifier has the features for."""
    tail = "" if guidance == 1 else f"_cfg_{guidance:g}"
    note, folder = run.folder / f"fid{tail}.json", run.folder / f"samples{tail}"
    if not note.exists():
        sampling = ["-n", PICTURES, "--cfg", f"{guidance:g}", "--steps", STEPS, "--batch-size", BATCH]
        found = output_scores.judged_images(arguments, run, folder, sampling, ["--features-from", arguments.classifier], reference(arguments))
        seeded_runs.write_atomically(note, json.dumps(found) + "\n")
    return json.loads(note.read_text(encoding="utf-8"))
