#!/usr/bin/env python3
"""Draws the curves of training runs from their metrics.jsonl: loss, learning rate, gradient norm, speed and, for
Mixture-of-Head models, load-balance loss and how evenly the routed heads of each layer are used.

  scripts/plot_run.py runs/llm/quickstart
  scripts/plot_run.py runs/dense runs/moh_50 --labels dense "MoH, half the heads" -o comparison.png
"""

import argparse
import json
import math
import pathlib
import sys
from dataclasses import dataclass, field

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    plt = None  # main refuses, so that --help works without it

# Okabe & Ito's palette, which is safe for colour-blind readers.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
INK = "#333333"
# What the loss of a diffusion model is.
NOISE_ERROR = "squared error of the noise + bits"
VELOCITY_ERROR = "squared error of the velocity"
# With at most this many routed heads, each has a row of its own in the plot of loads over time.
MOST_ROWS = 64
# Fields of the records that have a panel of their own: field, title, label of the y axis.
PANELS = (("grad_norm", "Gradient norm", "before clipping"),
          ("balance_loss", "Load-balance loss", "before its weight"),
          ("top1", "Validation top-1", "share of images"),
          ("tokens_per_s", "Speed", "tokens per second"),
          ("images_per_s", "Speed", "images per second"))


class PlotError(Exception):
    """An error that the user can fix."""


@dataclass
class Run:
    """Curves of one run, as {step: value}; non-finite numbers are NaN."""

    label: str
    loss_unit: str = "nats per token"
    train_loss: dict = field(default_factory=dict)
    validation_loss: dict = field(default_factory=dict)
    learning_rate: dict = field(default_factory=dict)
    curves: dict = field(default_factory=dict)  # {field of PANELS: {step: value}}
    head_load: dict = field(default_factory=dict)  # {step: [[share per head] per layer]}
    evaluated: set = field(default_factory=set)  # of each kind of evaluation: (items, held-out items, names of sources)

    def is_empty(self):
        return not (self.train_loss or self.validation_loss)


def as_number(value):
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan


def is_head_load(value):
    return isinstance(value, list) and all(isinstance(layer, list) for layer in value) and any(value)


def evaluated_data(record):
    """Over which data an evaluation was, as far as its record tells."""
    sources = tuple(sorted(name.removeprefix("loss/") for name in record if name.startswith("loss/")))
    return record.get("evaluated"), record.get("held_out"), sources


def describe_data(data):
    evaluated, held_out, sources = data
    count = "an unknown part" if evaluated is None else f"{evaluated} of {held_out}"
    return count + (f" of {', '.join(sources)}" if sources else "")


def evaluation_warnings(runs):
    """Lines about curves whose points, drawn together, are of evaluations over different data."""
    runs = [run for run in runs if run.evaluated]
    if len(set().union(*(run.evaluated for run in runs))) < 2:
        return []
    lines = [f"{run.label}: {'; '.join(sorted(map(describe_data, run.evaluated)))}" for run in runs]
    return ["these evaluations are over different data, and their losses do not compare:"] + lines


def add_record(run, record, first_step):
    step = record.get("step")
    if not isinstance(step, int) or step < first_step:
        return
    if record.get("kind") == "eval" and "loss" in record:
        run.validation_loss[step] = as_number(record["loss"])
        run.evaluated.add(evaluated_data(record))
    for name, *_ in PANELS:
        if name in record:
            run.curves.setdefault(name, {})[step] = as_number(record[name])
    if record.get("kind") != "train":
        return
    if "noise_mse" in record:
        run.loss_unit = NOISE_ERROR
    elif "velocity_mse" in record:
        run.loss_unit = VELOCITY_ERROR
    elif "images" in record:
        run.loss_unit = "nats per image"
    if "loss" in record:
        run.train_loss[step] = as_number(record["loss"])
    if "learning_rate" in record:
        run.learning_rate[step] = as_number(record["learning_rate"])
    if is_head_load(record.get("head_load")):
        run.head_load[step] = [[as_number(share) for share in layer] for layer in record["head_load"]]


def read_run(path, label=None, first_step=0):
    """Reads a run folder or a metrics.jsonl, from a step on. Lines that are no JSON object, such as an incomplete last one,
    are skipped."""
    path = pathlib.Path(path)
    file = path / "metrics.jsonl" if path.is_dir() else path
    run = Run(label if label is not None else (file.parent.resolve().name or str(path)))
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                if isinstance(record, dict):
                    add_record(run, record, first_step)
    except OSError as error:
        raise PlotError(f"{file}: {error.strerror}; give the output.dir of a run") from error
    return run


def smoothed(values):
    """Mean over a centred window (no lag) of about a fiftieth of the curve; skips NaN."""
    reach = max(1, len(values) // 100)
    sums, counts = [0.0], [0]
    for value in values:
        missing = math.isnan(value)
        sums.append(sums[-1] + (0.0 if missing else value))
        counts.append(counts[-1] + (0 if missing else 1))
    means = []
    for i in range(len(values)):
        span = min(reach, i, len(values) - 1 - i)
        count = counts[i + span + 1] - counts[i - span]
        means.append((sums[i + span + 1] - sums[i - span]) / count if count else math.nan)
    return means


def in_order(series):
    steps = sorted(series)
    return steps, [series[step] for step in steps]


def marker_for(values):
    """A marker for a curve with fewer than two points, of which a line shows nothing."""
    return "o" if sum(not math.isnan(value) for value in values) < 2 else None


def legend_label(run, single, what):
    return what if single else f"{run.label}, {what}"


def draw_train_loss(axes, run, color, single):
    steps, values = in_order(run.train_loss)
    label = legend_label(run, single, "training")
    if len(values) > 50:
        axes.plot(steps, values, color=color, alpha=0.22, linewidth=0.7)
        axes.plot(steps, smoothed(values), color=color, linewidth=1.4, label=label)
    else:
        axes.plot(steps, values, color=color, linewidth=1.4, marker=marker_for(values), markersize=4, label=label)


def draw_validation_loss(axes, run, color, single):
    steps, values = in_order(run.validation_loss)
    finite = [value for value in values if not math.isnan(value)]
    best = f" (best {min(finite):.3f})" if finite else ""
    axes.plot(steps, values, color=color, linewidth=1.4, linestyle=(0, (4, 2)), marker="o", markersize=3.5,
              markerfacecolor="white", label=legend_label(run, single, "validation") + best)


def draw_loss(axes, runs):
    single = len(runs) == 1
    for i, run in enumerate(runs):
        color = COLORS[i % len(COLORS)]
        if run.train_loss:
            draw_train_loss(axes, run, color, single)
        if run.validation_loss:
            draw_validation_loss(axes, run, COLORS[1] if single else color, single)
    axes.set(title="Loss", xlabel="step", ylabel=runs[0].loss_unit)
    if runs[0].loss_unit == NOISE_ERROR:  # falls by orders of magnitude
        axes.set_yscale("log")
    if single:
        axes.legend(frameon=False, fontsize=9)


def draw_learning_rate(axes, runs):
    for i, run in enumerate(runs):
        steps, values = in_order(run.learning_rate)
        # Runs often share their schedule: dashes let the line below show.
        style = "-" if i == 0 else (0, (4, 4 * i))
        axes.plot(steps, values, color=COLORS[i % len(COLORS)], linewidth=1.4, linestyle=style,
                  marker=marker_for(values), markersize=4)
    axes.set(title="Learning rate", xlabel="step")
    axes.yaxis.set_major_formatter(lambda rate, _: f"{rate:g}")
    axes.set_ylim(bottom=0)


def draw_curve(axes, runs, name, title, unit):
    for i, run in enumerate(runs):
        steps, values = in_order(run.curves.get(name, {}))
        axes.plot(steps, values, color=COLORS[i % len(COLORS)], linewidth=1.2, marker=marker_for(values), markersize=4)
    axes.set(title=title, xlabel="step", ylabel=unit)
    if name != "balance_loss":  # which varies little, far from 0
        axes.set_ylim(bottom=0)


def relative_load(layer):
    """Each head's load divided by the mean of the layer: 1 is perfect balance."""
    finite = [share for share in layer if not math.isnan(share)]
    mean = sum(finite) / len(finite) if finite else 0.0
    return [share / mean if mean > 0.0 else math.nan for share in layer]


def largest(values):
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def heat_map(axes, x_edges, rows):
    """Rows from top to bottom; white is an even load, red more, blue less, grey no value."""
    y_edges = range(len(rows) + 1)
    axes.set_facecolor("#dddddd")
    image = axes.pcolormesh(list(x_edges), list(y_edges), rows, cmap="RdBu_r", vmin=0.0, vmax=2.0, rasterized=True)
    axes.invert_yaxis()
    for side in axes.spines.values():
        side.set_visible(False)
    axes.grid(False)
    return image


def draw_last_load(axes, run, title):
    step = max(run.head_load)
    layers = run.head_load[step]
    width = max(len(layer) for layer in layers)
    rows = [relative_load(layer) + [math.nan] * (width - len(layer)) for layer in layers]
    image = heat_map(axes, range(width + 1), rows)
    axes.set(title=f"{title}, step {step}", xlabel="n-th routed head of its layer", ylabel="layer")
    set_centred_ticks(axes.xaxis, width)
    set_centred_ticks(axes.yaxis, len(layers))
    return image


def set_centred_ticks(axis, count):
    every = max(1, math.ceil(count / 12))
    axis.set_ticks([i + 0.5 for i in range(0, count, every)], [str(i) for i in range(0, count, every)])
    axis.set_tick_params(length=0)


def step_edges(steps):
    """Cell boundaries half-way between the steps."""
    if len(steps) == 1:
        return [steps[0] - 0.5, steps[0] + 0.5]
    inner = [(a + b) / 2 for a, b in zip(steps, steps[1:])]
    return [steps[0] - (inner[0] - steps[0])] + inner + [steps[-1] + (steps[-1] - inner[-1])]


def draw_load_over_time(axes, run, title):
    """A row for each routed head, the layers under each other, or, where these are too many, a row for each layer: its
    largest load. Records whose shape is not the last one's are left out."""
    shape = [len(layer) for layer in run.head_load[max(run.head_load)]]
    steps = sorted(step for step, load in run.head_load.items() if [len(layer) for layer in load] == shape)
    by_layer = sum(shape) > MOST_ROWS
    columns = []
    for step in steps:
        loads = [relative_load(layer) for layer in run.head_load[step] if layer]
        columns.append(list(map(largest, loads)) if by_layer else [share for layer in loads for share in layer])
    heat_map(axes, step_edges(steps), list(map(list, zip(*columns))))
    ticks, top = [], 0
    for layer, heads in enumerate(shape):
        rows = min(heads, 1) if by_layer else heads
        if rows == 0:
            continue
        if top > 0 and not by_layer:
            axes.axhline(top, color="white", linewidth=1.2)
        ticks.append((top + rows / 2, str(layer)))
        top += rows
    every = max(1, math.ceil(len(ticks) / 12))
    axes.set_yticks([at for at, _ in ticks[::every]], [name for _, name in ticks[::every]])
    axes.tick_params(length=0)
    axes.set(title=f"{title} over time", xlabel="step",
             ylabel="layer (its most used head)" if by_layer else "layer (one row per routed head)")


def draw_head_loads(figure, run, title):
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1.5, 1]})
    draw_load_over_time(left, run, title)
    image = draw_last_load(right, run, title)
    figure.colorbar(image, ax=right, extend="max", label="share of tokens / even share", pad=0.02)


def draw_figure(runs):
    """Loss and learning rate of all runs, their other curves, then a row of head loads for each MoH run."""
    routed = [run for run in runs if run.head_load]
    panels = [panel for panel in PANELS if any(panel[0] in run.curves for run in runs)]
    plt.rcParams.update({"font.size": 10, "axes.titlesize": 11, "axes.titleweight": "bold", "axes.titlelocation": "left",
                         "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": INK,
                         "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
                         "axes.grid": True, "grid.color": "#e6e6e6", "grid.linewidth": 0.8, "axes.axisbelow": True})
    heights = [3.6] + [0.1 + 0.2 * len(runs)] * (len(runs) > 1) + [2.5] * bool(panels) + [2.9] * len(routed)
    figure = plt.figure(layout="constrained", figsize=(11, sum(heights)))
    rows = list(figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0])
    loss, rate = rows.pop(0).subplots(1, 2, gridspec_kw={"width_ratios": [1.5, 1]})
    draw_loss(loss, runs)
    draw_learning_rate(rate, runs)
    if len(runs) > 1:  # its colours are those of all panels, and it would cover curves
        rows.pop(0).legend(*loss.get_legend_handles_labels(), frameon=False, fontsize=9, ncols=2, loc="center")
    if panels:
        for axes, panel in zip(rows.pop(0).subplots(1, len(panels), squeeze=False)[0], panels):
            draw_curve(axes, runs, *panel)
    for row, run in zip(rows, routed):
        draw_head_loads(row, run, "Head load" if len(runs) == 1 else f"Head load of {run.label}")
    return figure


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN_DIR", help="output.dir of a run, or a metrics.jsonl")
    parser.add_argument("-o", "--output", help="PNG to write (default: RUN_DIR/curves.png of the first run)")
    parser.add_argument("--labels", nargs="+", metavar="LABEL", help="one name per run (default: the folder's name)")
    parser.add_argument("--from-step", type=int, default=0, metavar="STEP", help="leave out what was before this step")
    options = parser.parse_args(arguments)
    if options.labels and len(options.labels) != len(options.runs):
        parser.error(f"expected {len(options.runs)} labels, one per run, found {len(options.labels)}")
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    if plt is None:
        sys.exit(
            f"plot_run.py: this Python ({sys.executable}) has no matplotlib; install the package python3-matplotlib "
            "and run the script with /usr/bin/python3"
        )
    labels = options.labels or [None] * len(options.runs)
    try:
        runs = [read_run(path, label, options.from_step) for path, label in zip(options.runs, labels)]
        for run in runs:
            if run.is_empty():
                print(f"plot_run.py: {run.label}: no records yet", file=sys.stderr)
        runs = [run for run in runs if not run.is_empty()]
        if not runs:
            raise PlotError("nothing to draw")
        for line in evaluation_warnings(runs):
            print(f"plot_run.py: {line}", file=sys.stderr)
        first = pathlib.Path(options.runs[0])
        output = options.output or (first if first.is_dir() else first.parent) / "curves.png"
        draw_figure(runs).savefig(output, dpi=150)
    except (PlotError, OSError) as error:
        sys.exit(f"plot_run.py: {error}")
    print(output)


if __name__ == "__main__":
    main()
