#!/usr/bin/env python3
"""Trains several configurations with several seeds and prints a Markdown table of their validation losses.

    scripts/quality.py --moh build/release/moh --data input.txt --out runs/quality

Each run is `moh train CONFIG data.train=DATA seed=SEED output.dir=OUT/NAME_SEED`, with the settings given after `--`
added. Finished runs are not repeated, and interrupted ones continue from their last checkpoint, so the script can be
stopped and restarted at any time. --jobs: number of concurrent runs, each with --threads threads.
"""

import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moh", default="build/release/moh", help="the moh program")
    parser.add_argument("--data", required=True, help="training text; its last part is held out for validation")
    parser.add_argument("--out", default="runs/quality", help="folder of the runs")
    parser.add_argument("--configs", nargs="+", default=[
        f"configs/llm/tiny_shakespeare_{name}.yaml" for name in ("dense", "moh_75", "moh_50")])
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("settings", nargs="*", help="key=value, for all runs (after --)")
    return parser.parse_args()


def run_folder(arguments, config, seed):
    return pathlib.Path(arguments.out) / f"{pathlib.Path(config).stem}_{seed}"


def train(arguments, config, seed):
    """Returns the exit code of the run."""
    folder = run_folder(arguments, config, seed)
    if (folder / "sample.txt").exists():  # the last file that a run writes
        return 0
    command = [arguments.moh, "train", config, f"data.train={arguments.data}", f"seed={seed}", f"output.dir={folder}",
               f"threads={arguments.threads}", "--resume", *arguments.settings]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "log.txt", "a", encoding="utf-8") as log:
        return subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode


def records(folder, kind):
    with open(folder / "metrics.jsonl", encoding="utf-8") as lines:
        return [record for record in map(json.loads, lines) if record["kind"] == kind]


def print_table(arguments, seeds):
    print("| configuration | heads | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean | to the first |")
    print("| --- | --- |" + " --- |" * (len(seeds) + 2))
    base = None
    for config in arguments.configs:
        folders = [run_folder(arguments, config, seed) for seed in seeds]
        losses = [records(folder, "eval")[-1]["loss"] for folder in folders]
        heads = records(folders[0], "train")[-1].get("activated_heads", 1.0)
        mean = statistics.mean(losses)
        base = base or mean
        cells = [pathlib.Path(config).stem, f"{heads:.0%}", *(f"{loss:.4f}" for loss in losses), f"{mean:.4f}",
                 f"{mean / base - 1:+.2%}"]
        print("| " + " | ".join(cells) + " |")


def main():
    arguments = parse_arguments()
    seeds = arguments.seeds.split(",")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = {pool.submit(train, arguments, config, seed): (config, seed)
                for seed in seeds for config in arguments.configs}
        for done in concurrent.futures.as_completed(runs):
            config, seed = runs[done]
            if done.result() != 0:
                log = run_folder(arguments, config, seed) / "log.txt"
                sys.exit(f"quality: {config}, seed {seed}: moh train ended with code {done.result()}; see {log}")
            print(f"quality: {config}, seed {seed}: done", file=sys.stderr)
    print_table(arguments, seeds)


if __name__ == "__main__":
    main()
