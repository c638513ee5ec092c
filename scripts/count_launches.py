#!/usr/bin/env python3
"""Counts what one layer launches in a training step, and the bytes of it, on the simulated GPU: the tables of docs/cuda.md.

A step of a model with one layer more, less that of the model without it, in bfloat16, at the widths of the real models. Nothing is
computed (MOH_SIM_COMPUTES=0), so this takes a minute."""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

LANGUAGE = ["train.batch_size=1", "data.sequence_length=1024", "data.tokenizer=byte", "data.train=x", "model.vocab_size=512"]
IMAGES = ["configs/vit/deit.yaml", "train.batch_size=8", "data.groups=1"]
DIFFUSION = ["configs/dit/paper.yaml", "model.preset=dit_xl_2", "train.batch_size=8"]


def routed(shared, top_k):
    return ["model.moh.router=learned", f"model.moh.num_shared={shared}", f"model.moh.top_k={top_k}"]


# A model's configuration and settings, the key of its number of layers, and the tokens of a step.
MODELS = {
    "LLM-B": (["configs/llm/llm_b.yaml", *LANGUAGE], "model.layers", 1024),
    "MoH-LLM-B 50%": (["configs/llm/moh_llm_b_50.yaml", *LANGUAGE], "model.layers", 1024),
    "ViT-S": (IMAGES, "model.vit.layers", 8 * 197),
    "MoH-ViT-S 67%": ([*IMAGES, *routed(2, 2)], "model.vit.layers", 8 * 197),
    "DiT-XL/2": (DIFFUSION, "model.layers", 8 * 256),
    "MoH-DiT-XL/2 75%": ([*DIFFUSION, *routed(4, 8)], "model.layers", 8 * 256),
}

Launch = collections.namedtuple("Launch", "phase kernel")


def launches_of(program, settings, layers_key, layers):
    """Launches and bytes of each kernel and phase of a step, without the optimiser's."""
    command = [program, "bench", "step", *settings, f"{layers_key}={layers}", "device=cuda", "precision=bfloat16", "train.accumulate=1",
               "model.recompute=none", "--random-data", "--steps", "1", "--warmup", "1", "--kernels", "--json"]
    run = subprocess.run(command, cwd=ROOT, env=os.environ | {"MOH_SIM_COMPUTES": "0"}, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {run.returncode}\n{run.stderr}")
    found = collections.defaultdict(lambda: [0, 0])
    for row in json.loads(run.stdout)["kernels"]["rows"]:
        if row["phase"] == "optimizer":
            continue
        launch = found[Launch(row["phase"], row["kernel"])]
        launch[0] += row["calls"]
        launch[1] += row.get("gbytes_per_s", 0) * row["ms"] * 1e6
    return found


def layer_of(program, model):
    """Launches of each kernel and phase of a layer, and its KB a token. A model is a value of MODELS, or another such tuple."""
    settings, key, tokens = model
    few, many = (launches_of(program, settings, key, layers) for layers in (2, 3))
    layer = {}
    for launch in sorted(set(few) | set(many)):
        calls, size = (many[launch][i] - few[launch][i] for i in (0, 1))
        if round(calls) != 0:
            layer[launch] = round(calls), size / tokens / 1000
    return layer


def is_product(launch):
    return launch.kernel == "cublasLtMatmul"


def is_attention(launch):
    return launch.kernel.startswith("attention_") and launch.kernel != "attention_tiles"


def write_summary(layers):
    print("| model | launches, forward + backward | of these products | KB a token outside products and attention | all |")
    print("| --- | --- | --- | --- | --- |")
    for model, layer in layers.items():
        count = {phase: sum(calls for launch, (calls, _) in layer.items() if launch.phase == phase) for phase in ("forward", "backward")}
        products = sum(calls for launch, (calls, _) in layer.items() if is_product(launch))
        outside = sum(size for launch, (_, size) in layer.items() if not is_product(launch) and not is_attention(launch))
        everything = sum(size for _, size in layer.values())
        print(f"| {model} | {count['forward']} + {count['backward']} | {products} | {outside:.1f} | {everything:.1f} |")


def write_kernels(layers):
    for model, layer in layers.items():
        print(f"\n{model}: launches, KB a token")
        for launch, (calls, size) in sorted(layer.items(), key=lambda item: -item[1][1]):
            print(f"  {launch.phase:9} {launch.kernel:36} {calls:3} {size:8.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", default="build/release/tests/cuda_sim/moh_sim", type=pathlib.Path, metavar="FILE",
                        help="the simulator's moh (default: build/release/tests/cuda_sim/moh_sim)")
    parser.add_argument("--kernels", action="store_true", help="then list each model's kernels, those with most bytes first")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="MODEL", help=f"some of {', '.join(MODELS)}".replace("%", "%%"))
    options = parser.parse_args()
    if not options.program.is_file():
        sys.exit(f"{options.program}: expected the simulator's moh; build the target moh_sim, or name its program by --program")
    layers = {model: layer_of(options.program.resolve(), MODELS[model]) for model in options.models}
    write_summary(layers)
    if options.kernels:
        write_kernels(layers)


if __name__ == "__main__":
    main()
