#!/usr/bin/env python3
"""Continue-tunes a dense model into Mixture-of-Head models and shows how much of its loss reduction each of them recovers,
as a Markdown table and as curves in a PNG (as figure 2 of the paper).

    scripts/recovery.py --moh build/release/moh --data input.txt --out runs/recovery

First `moh train DENSE`, from random weights; then, for each variant, `moh train MOH init.from=OUT/dense` and the
variant's settings. With L0 the validation loss of the untrained model and L1 that of the trained dense one, a model of
loss L has recovered (L0 - L) / (L0 - L1). Finished runs are not repeated, and interrupted ones continue from their last
checkpoint. --jobs: number of variants that run concurrently, each with --threads threads.
"""

import argparse
import sys
from dataclasses import dataclass

import seeded_runs

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    sys.exit(
        f"recovery.py: this Python ({sys.executable}) has no matplotlib; install the package python3-matplotlib "
        "and run the script with /usr/bin/python3"
    )

# Okabe & Ito's palette, which is safe for colour-blind readers.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
MARKERS = "osD^vPX"
INK = "#333333"

# Variants: name, and settings in addition to --moh-config.
VARIANTS = [
    ("dense, all heads", ["model.moh.router=none", "model.moh.num_shared=0", "model.moh.top_k=0",
                          "model.moh.shared_heads=first"]),
    ("query norm, gradients of selected heads", ["model.moh.router=query_norm", "model.moh.straight_through=selected"]),
    ("query norm, gradients of all heads", ["model.moh.router=query_norm", "model.moh.straight_through=all"]),
    ("query norm, balance loss alone", ["model.moh.router=query_norm", "model.moh.straight_through=none"]),
    ("learned, from calibration", ["model.moh.router=learned", "init.moh.router_start=calibrated"]),
    ("learned, from zero", ["model.moh.router=learned", "init.moh.router_start=zero"]),
    ("learned, from random", ["model.moh.router=learned", "init.moh.router_start=random"]),
]


@dataclass
class Curve:
    """Validation losses by number of training tokens."""

    label: str
    tokens: list
    losses: list


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    seeded_runs.add_arguments(parser, "runs/recovery", jobs=2, threads=1)
    parser.add_argument("--data", required=True, help="training text; its last part is held out for validation")
    parser.add_argument("--dense-config", default="configs/llm/continue_tuning_dense.yaml")
    parser.add_argument("--moh-config", default="configs/llm/continue_tuning_moh_75.yaml")
    return parser.parse_args()


def folder_name(label):
    return "".join(c if c.isalnum() else "_" for c in label)


def run_of(arguments, config, label, settings):
    common = (f"data.train={arguments.data}", "eval.at_start=true", "sample.tokens=1")
    return seeded_runs.Run(label, config, arguments.out / folder_name(label), (*common, *settings, *arguments.settings))


def read_curve(folder, label):
    last = seeded_runs.records(folder, "train")[-1]
    per_step = last["tokens"] / last["step"]
    evals = seeded_runs.records(folder, "eval")
    return Curve(label, [record["step"] * per_step for record in evals], [record["loss"] for record in evals])


def recovered(loss, dense):
    return (dense.losses[0] - loss) / (dense.losses[0] - dense.losses[-1])


def tokens_to(share, curve, dense):
    """Training tokens at the first evaluation that has recovered this share; None if none has."""
    return next((t for t, loss in zip(curve.tokens, curve.losses) if recovered(loss, dense) >= share), None)


def table(dense, curves):
    lines = ["| router | loss at the start | recovered there | loss at the end | recovered | 99% after, of the dense run's tokens |",
             "| --- | --- | --- | --- | --- | --- |",
             f"| dense model | {dense.losses[0]:.4f} | 0% | {dense.losses[-1]:.4f} | 100% | |"]
    for curve in curves:
        when = tokens_to(0.99, curve, dense)
        cells = [curve.label, f"{curve.losses[0]:.4f}", f"{recovered(curve.losses[0], dense):.2%}",
                 f"{curve.losses[-1]:.4f}", f"{recovered(curve.losses[-1], dense):.2%}",
                 "not reached" if when is None else f"{when / dense.tokens[-1]:.0%}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(dense, curves, path):
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": INK,
                         "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
                         "axes.grid": True, "grid.color": "#e6e6e6", "axes.axisbelow": True})
    figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
    for i, curve in enumerate(curves):
        axes.plot([100 * t / dense.tokens[-1] for t in curve.tokens],
                  [100 * recovered(loss, dense) for loss in curve.losses], color=COLORS[i % len(COLORS)], linewidth=1.4,
                  marker=MARKERS[i % len(MARKERS)], markersize=4, markerfacecolor="white", label=curve.label)
    for share, style in ((99, (0, (4, 2))), (100, "-")):
        axes.axhline(share, color=INK, linewidth=0.8, linestyle=style)
    axes.set(xlabel="tokens of continue-tuning, % of the dense model's training",
             ylabel="recovered, % of the dense model's gain")
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    figure.savefig(path, dpi=130)


def main():
    arguments = parse_arguments()
    out = arguments.out
    dense_run = run_of(arguments, arguments.dense_config, "dense", ())
    runs = [run_of(arguments, arguments.moh_config, label, (f"init.from={dense_run.folder}", *settings))
            for label, settings in VARIANTS]
    try:
        seeded_runs.check_settings(out, [arguments.data, *arguments.settings])
        seeded_runs.train(arguments.moh, dense_run, arguments.jobs * arguments.threads)
        print("recovery: the dense model is trained", file=sys.stderr)
        seeded_runs.train_all(arguments, runs, lambda run: f"{seeded_runs.last_evaluation(run.folder)['loss']:.4f}")
    except seeded_runs.Refused as refusal:
        sys.exit(f"recovery: {refusal}")
    dense = read_curve(dense_run.folder, "dense")
    curves = [read_curve(run.folder, run.name) for run in runs]
    text = table(dense, curves)
    (out / "recovery.md").write_text(text + "\n", encoding="utf-8")
    draw(dense, curves, out / "recovery.png")
    print(text)


if __name__ == "__main__":
    main()
