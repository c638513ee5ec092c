#!/usr/bin/env python3
"""Compares how fast training pictures are made, per core: moh beside Pillow, torchvision and timm.

  scripts/bench_pictures.py --python VENV/bin/python imagenet/train

Both sides make ImageNet's training views of the same pictures, a folder per class, on one core: decode, random crop,
bicubic to 224 pixels, mirror, RandAugment rand-m9-mstd0.5-inc1, normalise, erase. The sides alternate, and the ratio is
the median of the rounds' ratios. Stages are those of `moh bench data`, reading in `decode`. Of a large folder both sides
take 512 pictures, one every so many and others at random; of a small one all, twice.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

MOST_PICTURES = 512
ROOT = pathlib.Path(__file__).resolve().parent.parent


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("pictures", type=pathlib.Path, help="folder with a folder of pictures for each class")
    add("--python", default=sys.executable, help="interpreter that has torchvision and timm; default: this one")
    add("--moh", default=str(ROOT / "build/release/moh"), help="the program; default: build/release/moh")
    add("--isa", choices=["baseline", "avx2", "avx512"], help="kernels of moh; default: the best of the processor")
    add("--rounds", type=int, default=5, help="measurements of each side; default: 5")
    add("--core", type=int, default=0, help="the core of both sides; default: 0")
    add("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def python_stages(folder):
    """Milliseconds per picture of each stage, in the process that has torchvision and timm."""
    import torch
    from PIL import Image
    from timm.data import create_transform
    from torchvision.datasets import ImageFolder

    torch.set_num_threads(1)
    transform = create_transform(224, is_training=True, auto_augment="rand-m9-mstd0.5-inc1", interpolation="bicubic",
                                 re_prob=0.25, re_mode="pixel", re_count=1)
    crop, *changes = transform.transforms
    to_tensor = next(i for i, change in enumerate(changes) if "Tensor" in type(change).__name__)
    stages = {"decode": 0.0, "resize": 0.0, "augment": 0.0, "normalize": 0.0}
    paths = [path for path, _ in ImageFolder(folder).samples]
    paths = paths[:: -(-len(paths) // MOST_PICTURES)]
    for counted in (False, True):
        for path in paths:
            marks = [time.perf_counter()]
            with open(path, "rb") as file:
                picture = Image.open(file).convert("RGB")
            marks.append(time.perf_counter())
            picture = crop(picture)
            marks.append(time.perf_counter())
            for change in changes[:to_tensor]:
                picture = change(picture)
            marks.append(time.perf_counter())
            for change in changes[to_tensor:]:
                picture = change(picture)
            marks.append(time.perf_counter())
            if counted:
                for i, stage in enumerate(stages):
                    stages[stage] += 1e3 * (marks[i + 1] - marks[i]) / len(paths)
    return stages


def run(options, command):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    if options.isa:
        environment["MOH_CPU_ISA"] = options.isa
    done = subprocess.run(["taskset", "-c", str(options.core)] + command, env=environment, capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure_moh(options):
    folders = [entry for entry in options.pictures.iterdir() if entry.is_dir()]
    batch = min(MOST_PICTURES, sum(len(list(folder.iterdir())) for folder in folders))
    rows = run(options, [options.moh, "bench", "data", str(ROOT / "configs/vit/moh_vit_s_75.yaml"),
                         f"data.train={options.pictures}", "data.validation=[]", f"model.classes={len(folders)}",
                         "data.repeats=1", "data.groups=1", "augment.mixing=0", "--batch", str(batch), "--batches",
                         "2", "--threads", "1", "--json"])
    took = {row["stage"]: row["ms_per_image"] for row in rows}
    return {"decode": took["load"] + took["decode"], "resize": took["resize"], "augment": took["augment"],
            "normalize": took["normalize"] + took["mix"]}


def report(options, ours, theirs):
    print("| stage | moh, ms | Pillow, torchvision, timm, ms | moh is faster by | lowest and highest |")
    print("| --- | --- | --- | --- | --- |")
    for stage in [*ours[0], "all"]:
        pick = (lambda row: sum(row.values())) if stage == "all" else (lambda row, s=stage: row[s])
        a, b = [pick(row) for row in ours], [pick(row) for row in theirs]
        ratios = [y / x for x, y in zip(a, b)]
        print(f"| {stage} | {statistics.median(a):.3f} | {statistics.median(b):.3f} "
              f"| {statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |")


def main():
    options = parse_arguments()
    if options.worker:
        print(json.dumps(python_stages(options.pictures)))
        return
    worker = [options.python, str(pathlib.Path(__file__).resolve()), "--worker", str(options.pictures)]
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(measure_moh(options))
        theirs.append(run(options, worker)[0])
    report(options, ours, theirs)


if __name__ == "__main__":
    main()
