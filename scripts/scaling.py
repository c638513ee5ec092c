#!/usr/bin/env python3
"""Says what training on many GPUs would take, from a model of compute and communication, and prints Markdown tables.

    scripts/scaling.py --moh build/release/moh configs/llm/llm_b.yaml configs/llm/moh_llm_b_50.yaml
    scripts/scaling.py --moh build/release/moh --tokens-per-s 21500 configs/llm/llm_b.yaml

Operations and parameters are those of `moh plan`. The compute rate is a share of the GPU's published one (--mfu), or what
you have measured on one of yours (--tokens-per-s). The rest are figures of data sheets and of NCCL's own model of its
collectives (docs/scaling.md has the sources and the formulas). The batch of a step is that of the configuration, however
many GPUs share it: strong scaling, as in reproducing a paper.
"""

import argparse
import json
import math
import subprocess
import sys
from dataclasses import dataclass

import places

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Machine:
    """Nodes of GPUs. Bandwidths in bytes per second and direction, latencies in seconds."""

    gpus: int = 8  # of a node
    flops: float = 989e12  # dense bfloat16, H100 SXM
    memory: float = 3.35e12
    link: float = 450e9  # NVLink, of a GPU
    network: float = 50e9  # InfiniBand NDR, of a GPU; all of a node's are used by every ring
    reached: float = 0.8  # share of these bandwidths that programs get
    ring_base: float = 8.4e-6
    ring_link: float = 3.4e-6  # a step from GPU to GPU
    ring_network: float = 9.6e-6  # a step from node to node
    tree_link: float = 28e-6
    tree_network: float = 50e-6


@dataclass(frozen=True)
class Training:
    """What one configuration asks of all GPUs together in a step."""

    flops: float
    parameters: int
    micro_batches: int
    samples: int  # of a micro-batch
    value_bytes: int  # of a parameter


@dataclass(frozen=True)
class Step:
    """Seconds of a step."""

    compute: float
    update: float
    communication: float
    exposed: float  # thereof, not hidden behind computing

    @property
    def total(self):
        return self.compute + self.update + self.exposed


def nodes(machine, count):
    return math.ceil(count / machine.gpus)


def bandwidth(machine, count):
    """Of a ring: NVLink within a node; between nodes all network ports of a node, each of which some channels of a ring use."""
    within = machine.link * machine.reached
    return within if nodes(machine, count) == 1 else min(within, machine.network * machine.gpus * machine.reached)


def ring_half(machine, count, size):
    """A reduce-scatter or an all-gather of `size` bytes: N - 1 steps of size / N."""
    if count == 1:
        return 0.0
    between = nodes(machine, count) - 1
    latency = machine.ring_base + (count - 1 - between) * machine.ring_link + between * machine.ring_network
    return latency + (count - 1) / count * size / bandwidth(machine, count)


def ring(machine, count, size):
    """All-reduce as a reduce-scatter and an all-gather."""
    return 0.0 if count == 1 else 2 * ring_half(machine, count, size) - machine.ring_base


def tree(machine, count, size):
    """All-reduce up and down a binary tree of nodes, and a chain within each."""
    if count == 1:
        return 0.0
    of_node = min(count, machine.gpus)
    latency = 2 * ((of_node - 1) * machine.tree_link + math.log2(nodes(machine, count)) * machine.tree_network)
    return latency + 2 * size / (0.9 * bandwidth(machine, count))


def step(machine, training, count, mfu, zero, bucket):
    """A step on `count` GPUs; None where its samples cannot be divided among them."""
    samples = training.micro_batches * training.samples
    if samples % count != 0:
        return None
    compute = training.flops / count / (mfu * machine.flops)
    rounds = max(1, training.micro_batches // count)  # micro-batches of a GPU
    backward, forward = compute / rounds * 2 / 3, compute / rounds / 3  # of one of them
    gradients = 4 * training.parameters
    buckets = max(1, math.ceil(gradients / bucket))
    update_bytes = {2: 30, 4: 28}[training.value_bytes] * training.parameters / (count if zero else 1)
    if zero:
        reduced = buckets * ring_half(machine, count, gradients / buckets)
        gathered = buckets * ring_half(machine, count, training.value_bytes * training.parameters / buckets)
    else:
        reduced = buckets * min(collective(machine, count, gradients / buckets) for collective in (ring, tree))
        gathered = 0.0

    def beside(communication, computing):
        """What `computing` does not hide: of gradients the last bucket is complete when it ends, of values the first one has
        to be there when it begins."""
        return max(communication - computing * (1 - 1 / buckets), communication / buckets)

    update = update_bytes / (machine.memory * machine.reached)
    if zero == 3:  # each micro-batch gathers weights in both passes
        exposed = beside(gathered, forward) + beside(gathered + reduced, backward)
        return Step(compute, update, rounds * (2 * gathered + reduced), rounds * exposed)
    reductions = rounds if zero == 2 else 1
    exposed = reductions * beside(reduced, backward) + beside(gathered, forward)
    return Step(compute, update, reductions * reduced + gathered, exposed)


def planned(moh, config, settings):
    command = [moh, "plan", places.shipped(config), "device=cuda", *settings, "--json"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stderr.strip() or result.stdout.strip())
    return json.loads(result.stdout)


def training_of(plan):
    unit = next(key[len("flops_per_"):] for key in plan if key.startswith("flops_per_"))
    items = next(plan[key] for key in plan if key.endswith("_per_step"))
    return Training(flops=plan[f"flops_per_{unit}"] * items, parameters=plan["parameters"],
                    micro_batches=plan["accumulate"], samples=plan["batch_size"],
                    value_bytes={"bfloat16": 2, "float32": 4}[plan["dtype"]]), items


def mfu_of(arguments, machine, plan):
    if arguments.tokens_per_s is None:
        return arguments.mfu
    flops = next(plan[key] for key in plan if key.startswith("flops_per_"))
    return arguments.tokens_per_s * flops / machine.flops


def table(machine, training, items, mfu, zero, bucket):
    print("| GPUs | step, s | thereof compute | update | exposed communication | items/s | efficiency |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    first = step(machine, training, 1, mfu, zero, bucket)
    for count in COUNTS:
        now = step(machine, training, count, mfu, zero, bucket)
        if now is None:
            continue
        shares = [part / now.total for part in (now.compute, now.update, now.exposed)]
        print(f"| {count} | {now.total:.4g} | " + " | ".join(f"{share:.1%}" for share in shares) +
              f" | {items / now.total:.3g} | {first.total / count / now.total:.1%} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+", metavar="CONFIG", help="a configuration, as of moh train")
    parser.add_argument("--moh", default=places.program(), help="the program (%(default)s)")
    parser.add_argument("--mfu", type=float, default=0.4, help="share of the GPU's published rate (0.4)")
    parser.add_argument("--tokens-per-s", type=float, help="measured on one GPU, in place of --mfu")
    parser.add_argument("--bucket-mib", type=int, default=64, help="comm.bucket_mib (64)")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the configurations")
    arguments = parser.parse_args()
    machine = Machine()
    for config in arguments.configs:
        plan = planned(arguments.moh, config, arguments.set)
        training, items = training_of(plan)
        mfu = mfu_of(arguments, machine, plan)
        for zero in (0, 1, 2, 3):
            print(f"\n`{config}`, comm.zero: {zero}, {mfu:.0%} of {machine.flops / 1e12:.0f} TFLOP/s, "
                  f"{items} items a step, buckets of {arguments.bucket_mib} MiB\n")
            table(machine, training, items, mfu, zero, arguments.bucket_mib << 20)


if __name__ == "__main__":
    main()
