#!/usr/bin/env python3
"""Continue-tunes a dense model into Mixture-of-Head models and shows how much of its loss reduction each of them recovers,
as a Markdown table and as curves in a PNG (as figure 2 of the paper).

    scripts/recovery.py --moh build/release/moh --data input.txt --out runs/recovery

First `moh train DENSE`, from random weights; then, for each variant, `moh train MOH init.from=OUT/dense` and the
variant's settings. With L0 the validation loss of the untrained model and L1 that of the trained dense one, a model of
loss L has recovered (L0 - L) / (L0 - L1). Finished runs are not repeated, and interrupted ones continue from their last
checkpoint. --jobs: number of runs at once, each with --threads threads.

The variants are routers (configs/llm/continue_tuning_*.yaml), or with --methods ways of tuning (recovery_*.yaml). With
several --seeds everything is done once for each; shares are then means with 95% confidence intervals.

    scripts/recovery.py --moh build/release/moh --data input.txt --out runs/methods --methods --seeds 1,2,3
"""

import argparse
import sys
from dataclasses import dataclass

import seeded_runs

# Okabe & Ito's palette, which is safe for colour-blind readers.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
MARKERS = "osD^vPX"
INK = "#333333"

# Variants: name, and settings in addition to --moh-config.
DENSE_FURTHER = ("dense, all heads", ["model.moh.router=none", "model.moh.num_shared=0", "model.moh.top_k=0",
                                      "model.moh.shared_heads=first"])
ROUTERS = [
    DENSE_FURTHER,
    ("query norm, gradients of selected heads", ["model.moh.router=query_norm", "model.moh.straight_through=selected"]),
    ("query norm, gradients of all heads", ["model.moh.router=query_norm", "model.moh.straight_through=all"]),
    ("query norm, balance loss alone", ["model.moh.router=query_norm", "model.moh.straight_through=none"]),
    ("learned, from calibration", ["model.moh.router=learned", "init.moh.router_start=calibrated"]),
    ("learned, from zero", ["model.moh.router=learned", "init.moh.router_start=zero"]),
    ("learned, from random", ["model.moh.router=learned", "init.moh.router_start=random"]),
]
METHODS = [
    DENSE_FURTHER,
    ("plain", []),
    ("distilled from the dense checkpoint", ["init.distill.weight=1", "init.distill.temperature=2"]),
    ("distilled from the dense twin", ["init.distill.weight=1", "init.distill.temperature=2",
                                       "init.distill.teacher=twin"]),
    ("K annealed over half of the steps", ["model.moh.top_k_anneal_until=0.5"]),
    ("routers alone", ["optim.groups=[{match: \"*\", freeze: true}, {match: \"*.wg*.weight\"}]"]),
    ("whole groups", ["model.moh.routing=groups"]),
]
CONFIGS = {False: ("configs/llm/continue_tuning_dense.yaml", "configs/llm/continue_tuning_moh_75.yaml"),
           True: ("configs/llm/recovery_dense.yaml", "configs/llm/recovery_moh_38.yaml")}


@dataclass
class Curve:
    """Validation losses by number of training tokens, of one seed."""

    tokens: list
    losses: list


@dataclass
class Trainings:
    """Of one seed: the dense model, and each variant by name."""

    dense: seeded_runs.Run
    variants: dict


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    seeded_runs.add_arguments(parser, "runs/recovery", jobs=2, threads=1)
    parser.add_argument("--data", required=True, help="training text; its last part is held out for validation")
    parser.add_argument("--methods", action="store_true", help="compare ways of tuning, not routers")
    parser.add_argument("--seeds", type=seeded_runs.seeds, default=[0], help="numbers, separated by commas")
    parser.add_argument("--only", action="append", help="a variant by name; may be repeated (all)")
    parser.add_argument("--dense-config")
    parser.add_argument("--moh-config")
    arguments = parser.parse_args()
    dense, moh = CONFIGS[arguments.methods]
    arguments.dense_config = arguments.dense_config or dense
    arguments.moh_config = arguments.moh_config or moh
    return arguments


def variants_of(arguments):
    variants = METHODS if arguments.methods else ROUTERS
    unknown = set(arguments.only or []) - {name for name, _ in variants}
    if unknown:
        raise seeded_runs.Refused(f"--only: expected one of {[name for name, _ in variants]}, found {sorted(unknown)}")
    return [v for v in variants if not arguments.only or v[0] in arguments.only]


def folder_name(label):
    return "".join(c if c.isalnum() else "_" for c in label)


def run_of(arguments, config, label, seed, settings):
    common = (f"data.train={arguments.data}", f"seed={seed}", "eval.at_start=true", "sample.tokens=1")
    folder = arguments.out if len(arguments.seeds) == 1 else arguments.out / f"seed_{seed}"
    name = label if len(arguments.seeds) == 1 else f"{label}, seed {seed}"
    return seeded_runs.Run(name, config, folder / folder_name(label), (*common, *settings, *arguments.settings))


def trainings_of(arguments, seed):
    dense = run_of(arguments, arguments.dense_config, "dense", seed, ())
    return Trainings(dense, {label: run_of(arguments, arguments.moh_config, label, seed,
                                           (f"init.from={dense.folder}", *settings))
                             for label, settings in variants_of(arguments)})


def read_curve(run):
    last = seeded_runs.records(run.folder, "train")[-1]
    per_step = last["tokens"] / last["step"]
    evals = seeded_runs.records(run.folder, "eval")
    return Curve([record["step"] * per_step for record in evals], [record["loss"] for record in evals])


def recovered(loss, dense):
    return (dense.losses[0] - loss) / (dense.losses[0] - dense.losses[-1])


def tokens_to(share, curve, dense):
    """Training tokens, as a share of the dense run's, at the first evaluation that has recovered this share; None if none
    has."""
    tokens = next((t for t, loss in zip(curve.tokens, curve.losses) if recovered(loss, dense) >= share), None)
    return None if tokens is None else tokens / dense.tokens[-1]


def tokens_cell(shares):
    """The mean over seeds, and how many seeds did not get there."""
    reached = [share for share in shares if share is not None]
    if not reached:
        return "not reached"
    missing = f" ({len(reached)} of {len(shares)} seeds)" if len(reached) < len(shares) else ""
    return f"{sum(reached) / len(reached):.0%}{missing}"


def percent(values):
    return seeded_runs.with_interval([100 * value for value in values], ".2f") + "%"


def table(denses, curves):
    """`curves`: by label, a list with one for each seed, as `denses`."""
    lines = ["| variant | loss at the start | recovered there | loss at the end | recovered | 99% after, of the dense run's tokens |",
             "| --- | --- | --- | --- | --- | --- |"]
    first = seeded_runs.with_interval([dense.losses[0] for dense in denses], ".4f")
    last = seeded_runs.with_interval([dense.losses[-1] for dense in denses], ".4f")
    lines.append(f"| dense model | {first} | 0% | {last} | 100% | |")
    for label, of_seeds in curves.items():
        pairs = list(zip(of_seeds, denses))
        cells = [label]
        for at in (0, -1):
            cells.append(seeded_runs.with_interval([curve.losses[at] for curve in of_seeds], ".4f"))
            cells.append(percent([recovered(curve.losses[at], dense) for curve, dense in pairs]))
        cells.append(tokens_cell([tokens_to(0.99, curve, dense) for curve, dense in pairs]))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def pyplot():
    """Only the picture needs it; main asks before anything is trained."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        sys.exit(
            f"recovery.py: this Python ({sys.executable}) has no matplotlib; install the package python3-matplotlib "
            "and run the script with /usr/bin/python3"
        )
    return plt


def draw(denses, curves, path):
    """Means over the seeds, and their range as a band."""
    plt = pyplot()
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": INK,
                         "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
                         "axes.grid": True, "grid.color": "#e6e6e6", "axes.axisbelow": True})
    figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
    lowest = 100
    for i, (label, of_seeds) in enumerate(curves.items()):
        x = [100 * t / denses[0].tokens[-1] for t in of_seeds[0].tokens]
        shares = [[100 * recovered(loss, dense) for loss in curve.losses] for curve, dense in zip(of_seeds, denses)]
        points = list(zip(*shares))
        lowest = min(lowest, *(min(point) for point in points[1:]))
        color = COLORS[i % len(COLORS)]
        if len(of_seeds) > 1:
            axes.fill_between(x, [min(p) for p in points], [max(p) for p in points], color=color, alpha=0.15, linewidth=0)
        axes.plot(x, [sum(p) / len(p) for p in points], color=color, linewidth=1.4, marker=MARKERS[i % len(MARKERS)],
                  markersize=4, markerfacecolor="white", label=label)
    for share, style in ((99, (0, (4, 2))), (100, "-")):
        axes.axhline(share, color=INK, linewidth=0.8, linestyle=style)
    axes.set(xlabel="tokens of continue-tuning, % of the dense model's training",
             ylabel="recovered, % of the dense model's gain")
    if len(denses) > 1:  # the first points are far below
        axes.set_ylim(bottom=lowest - 0.5)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    figure.savefig(path, dpi=130)


def train_seeds(arguments):
    trainings = [trainings_of(arguments, seed) for seed in arguments.seeds]
    seeded_runs.check_settings(arguments.out, [arguments.data, *arguments.settings])
    loss = lambda run: f"{seeded_runs.last_evaluation(run.folder)['loss']:.4f}"  # noqa: E731
    seeded_runs.train_all(arguments, [of_seed.dense for of_seed in trainings], loss)
    seeded_runs.train_all(arguments, [run for of_seed in trainings for run in of_seed.variants.values()], loss)
    return trainings


def main():
    arguments = parse_arguments()
    pyplot()
    out = arguments.out
    with seeded_runs.reported("recovery"):
        trainings = train_seeds(arguments)
    denses = [read_curve(of_seed.dense) for of_seed in trainings]
    curves = {label: [read_curve(of_seed.variants[label]) for of_seed in trainings]
              for label, _ in variants_of(arguments)}
    text = table(denses, curves)
    (out / "recovery.md").write_text(text + "\n", encoding="utf-8")
    draw(denses, curves, out / "recovery.png")
    print(text)


if __name__ == "__main__":
    main()
