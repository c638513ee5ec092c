"""Curves of losses against what they took: three panels, one line a row, the mean over the seeds."""

import os
import statistics

import seeded_runs

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError as error:
    raise seeded_runs.Refused("this Python has no matplotlib; install the package python3-matplotlib, and run the script with /usr/bin/python3") from error


def mean_curve(result):
    """{step: mean over the seeds}, where all of them were evaluated."""
    curves = list(result["curves"].values())
    steps = set(curves[0]).intersection(*curves[1:])
    return {step: statistics.mean(curve[step] for curve in curves) for step in sorted(steps)}


def of_a_step(result, items_per_step):
    """Items (tokens or pictures), operations and seconds of a step."""
    return items_per_step, items_per_step * result["cost"]["flops_per_item"], result["cost"]["step_ms"] / 1000


def draw(path, results, items_per_step, task):
    """One picture: the loss against items, operations and seconds, without the beginning, whose losses hide the others. What a row had of
    the dense model, which is the first result, has that model's costs."""
    figure, panels = plt.subplots(1, 3, figsize=(15, 7), sharey=True)
    figure.subplots_adjust(left=0.05, right=0.99, top=0.98, bottom=0.32, wspace=0.05)
    colors = plt.get_cmap("tab20").colors
    for number, result in enumerate(results):
        curve = mean_curve(result)
        last = max(curve)
        shown = {step: loss for step, loss in curve.items() if step >= 0.15 * last}
        for panel, dense, own in zip(panels, of_a_step(results[0], items_per_step), of_a_step(result, items_per_step)):
            spent = [min(step, result["begun"]) * dense + max(0, step - result["begun"]) * own for step in shown]
            panel.plot(spent, list(shown.values()), marker=".", linewidth=1.2, color=colors[number % len(colors)], label=result["row"])
    for panel, label in zip(panels, (task.items, "operations", "seconds of steps, measured alone")):
        panel.set_xlabel(label)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel(f"loss on held-out {'text' if task.data == 'text' else 'pictures'}")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="lower center", ncol=3, fontsize=8)
    new = path.with_name(path.name + ".new")
    figure.savefig(new, format="png", dpi=130)
    plt.close(figure)
    os.replace(new, path)
