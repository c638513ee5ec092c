"""Scores of what trained models put out: BLEU of their translations, and the Fréchet distance of the images that they draw. Each is
computed once, and its numbers stay in a file beside the run."""

import json
import pathlib
import shlex
import shutil
import subprocess

import seeded_runs

BLEU = pathlib.Path(__file__).resolve().with_name("bleu.sh")


def add_arguments(parser):
    parser.add_argument("--bleu", type=int, metavar="N",
                        help="score held-out sentences, translated by the mean of a run's last N checkpoints, with scripts/bleu.sh")
    parser.add_argument("--fid", metavar="REFERENCE",
                        help="score images that the models draw, by FID to the reference of moh eval fid: images, or their features, which "
                             "its --write-reference computes once for all models")
    parser.add_argument("--sampling", default="-n 1024 --steps 50 --cfg 1", metavar="OPTIONS",
                        help="how moh sample draws them, one argument (%(default)s)")
    features = parser.add_mutually_exclusive_group()
    features.add_argument("--features", help="a weight file of Inception, as for moh eval fid")
    features.add_argument("--features-from", metavar="RUN", help="a classifier whose features take Inception's place: no published FID")


def check(parser, arguments):
    """Ends the script where the scores that are asked for cannot be had."""
    if arguments.bleu and arguments.fid:
        parser.error("--bleu and --fid: expected one of them")
    if arguments.bleu and not BLEU.exists():
        parser.error(f"--bleu: expected {BLEU}, which is in the source tree alone")
    if bool(arguments.fid) != bool(arguments.features or arguments.features_from):
        parser.error("--fid: expected --features FILE or --features-from RUN with it, and neither of them without it")


def measure(arguments, run):
    """The name and the value of the score that the options ask for; None if they ask for none."""
    if arguments.bleu:
        return "BLEU", once(run.folder / "bleu.json", {"checkpoints": arguments.bleu}, lambda: bleu(arguments, run))["BLEU"]["score"]
    if arguments.fid:
        asked = {key: getattr(arguments, key) for key in ("fid", "sampling", "features", "features_from")}
        name = "FID" if arguments.features else "Fréchet distance"
        return name, once(run.folder / "fid.json", {"asked": asked}, lambda: fid(arguments, run))["fid"]
    return None


def once(note, asked, compute):
    """The numbers of a note beside a run, which are computed where it is missing, or was made for something else."""
    if note.exists():
        found = json.loads(note.read_text(encoding="utf-8"))
        if asked.items() <= found.items():
            return found
    found = {**asked, **compute()}
    seeded_runs.write_atomically(note, json.dumps(found) + "\n")
    return found


def bleu(arguments, run):
    """sacreBLEU's scores of the run's held-out pairs, with its signature."""
    averaged, translated, references = (run.folder / name for name in ("averaged", "translated.txt", "references.txt"))
    moh(arguments, "convert", "--from", run.folder, "--average", arguments.bleu, "--to", averaged, "--format", "moh", "--overwrite")
    moh(arguments, "translate", "--checkpoint", averaged, "--held-out", "--references", references, "--output", translated, "--beam", 4,
        "--overwrite")
    return json.loads(output_of([BLEU, translated, references, "--json"]))


def fid(arguments, run):
    features = ["--features", arguments.features] if arguments.features else ["--features-from", arguments.features_from]
    folder, note = run.folder / "drawn", run.folder / "drawn.json"  # samples/ has the previews of the training
    if not note.exists() or json.loads(note.read_text(encoding="utf-8")) != arguments.sampling:
        shutil.rmtree(folder, ignore_errors=True)  # images of other options would be scored, too
        seeded_runs.write_atomically(note, json.dumps(arguments.sampling) + "\n")
    return judged_images(arguments, run, folder, shlex.split(arguments.sampling), features, arguments.fid)


def judged_images(arguments, run, folder, sampling, features, reference):
    """The scores that `moh eval fid` gives to images of a run. The folder keeps the images; those that it lacks are drawn."""
    moh(arguments, "sample", "--checkpoint", run.folder, "--out", folder, *sampling, "--set", f"threads={arguments.threads}")
    return json.loads(moh(arguments, "eval", "fid", *features, reference, folder, "--threads", arguments.threads, "--json"))


def moh(arguments, *command):
    return output_of([arguments.moh, *command])


def output_of(command):
    try:
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise seeded_runs.no_program(error) from error
    if done.returncode != 0:
        raise seeded_runs.Refused(f"{' '.join(map(str, command))} ended with code {done.returncode}; its error is above")
    return done.stdout
