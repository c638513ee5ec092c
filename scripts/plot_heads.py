#!/usr/bin/env python3
"""Draws the results of `moh analyze --out FILE.json`, in the folder of the file or in --out DIR:

  heads.png       load of the heads, overall and by source, and their mean gates (Mixture-of-Head models only)
  classes.png     load of the routed heads by class in the last such layer of each stage (models of images only)
  similarity.png  similarity of the heads of a layer: attention patterns, outputs, contributions to the layer's output
                  (of models whose heads were compared)
  rank.png        rank of the heads' features, by layer

  scripts/plot_heads.py heads.json
  scripts/plot_heads.py heads.json --out pictures --layers 0 7 15
"""

import argparse
import json
import math
import pathlib
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle
except ImportError:
    plt = None  # main refuses, so that --help works without it

VERSION = 1
INK = "#333333"
NO_VALUE = "#dddddd"
# From light to dark, so that darker is more in black and white, too.
COLORS = "YlGnBu"
SHARED = {"facecolor": "white", "edgecolor": "#999999", "hatch": "////", "linewidth": 0.0}
# Groups of heads, distinguished by brightness and hatch.
BARS = {"all": ("#cccccc", ""), "shared": ("#56B4E9", "///"), "routed": ("#0072B2", "")}
SIMILARITIES = {"attention": "shared attention", "outputs": "cosine of outputs",
                "contributions": "cosine of contributions"}
MOST_MATRICES = 6
PANELS_PER_ROW = 3
MOST_SOURCES = 12  # with a panel of their own


class PlotError(Exception):
    """An error that the user can fix."""


def read_report(path):
    """Reads a file of moh analyze --out."""
    try:
        report = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise PlotError(f"{path}: {error.strerror}; give the file of moh analyze --out") from error
    except ValueError as error:
        raise PlotError(f"{path}: expected JSON, found something else ({error})") from error
    if not isinstance(report, dict) or report.get("format") != "moh heads":
        raise PlotError(f"{path}: expected a file of moh analyze --out, found other JSON")
    if report.get("version") != VERSION:
        raise PlotError(f"{path}: expected version {VERSION}, found {report.get('version')}; use the script that came "
                        "with the moh that wrote it")
    if not report.get("layers"):
        raise PlotError(f"{path}: expected at least one layer, found none")
    return report


def values(row):
    """A row of numbers, NaN where there is no value."""
    return [math.nan if value is None else float(value) for value in row]


def is_routed(report):
    return any(layer["routed"] for layer in report["layers"])


def layer_names(report):
    """The numbers of the layers, with their names where they are of several kinds, as in a model that translates."""
    return [" ".join([str(layer["layer"]), *([layer["name"]] if "name" in layer else [])]) for layer in report["layers"]]


def heads_of(layer):
    """The number of a layer's heads, which may be another in each stage."""
    return len(layer["rank"]["heads"])


def rows_of(report, field, source=None):
    """[layer][head] of a field, overall or of one source; NaN in a dense layer, and where a layer has fewer heads."""
    heads = report["model"]["heads"]
    rows = []
    for layer in report["layers"]:
        of = layer if source is None else (layer.get("by_source") or [{}] * (source + 1))[source]
        row = values(of[field]) if field in of else []
        rows.append(row + [math.nan] * (heads - len(row)))
    return rows


def is_of_images(report):
    return report.get("unit") == "images"


def stages_of(report):
    """The layers of each stage."""
    stages, first = [], 0
    for count in report["model"].get("stages", [len(report["layers"])]):
        stages.append(report["layers"][first:first + count])
        first += count
    return stages


def without_shared(report, rows):
    """The rows with NaN for shared heads."""
    return [[math.nan if head in layer["shared_heads"] else value for head, value in enumerate(row)]
            for layer, row in zip(report["layers"], rows)]


def largest(rows):
    """The largest number; 0 without any."""
    return max((value for row in rows for value in row if not math.isnan(value)), default=0.0)


def smallest(rows):
    return min((value for row in rows for value in row if not math.isnan(value)), default=0.0)


def set_centred_ticks(axis, count, most=16, names=None):
    shown = range(0, count, math.ceil(count / most))
    axis.set_ticks([i + 0.5 for i in shown], [str(i if names is None else names[i]) for i in shown])
    axis.set_tick_params(length=0)


def heat_map(axes, rows, low, high):
    axes.set_facecolor(NO_VALUE)
    image = axes.pcolormesh(range(len(rows[0]) + 1), range(len(rows) + 1), rows, cmap=COLORS, vmin=low,
                            vmax=high if high > low else low + 1.0, edgecolors="white", linewidth=0.4)
    axes.invert_yaxis()
    axes.grid(False)
    for side in axes.spines.values():
        side.set_visible(False)
    return image


def draw_layers(axes, rows, low, high, title, names):
    image = heat_map(axes, rows, low, high)
    axes.set(title=title, xlabel="head", ylabel="layer")
    set_centred_ticks(axes.xaxis, len(rows[0]), most=8)
    set_centred_ticks(axes.yaxis, len(rows), names=names)
    return image


def neighbours(heads):
    """Ascending numbers as ranges [first, end) of neighbours."""
    ranges = []
    for head in heads:
        if ranges and ranges[-1][1] == head:
            ranges[-1][1] += 1
        else:
            ranges.append([head, head + 1])
    return ranges


def shared_blocks(report):
    """Rectangles (first head, end, first layer, end) of shared heads: neighbours in a layer are one, and so are equal
    ranges of neighbouring layers."""
    blocks, open_blocks = [], {}
    for i, layer in enumerate(report["layers"]):
        ranges = {tuple(heads) for heads in neighbours(layer["shared_heads"])}
        open_blocks = {heads: open_blocks.get(heads, i) for heads in ranges}
        following = report["layers"][i + 1]["shared_heads"] if i + 1 < len(report["layers"]) else []
        ended = ranges - {tuple(heads) for heads in neighbours(following)}
        blocks += [(*heads, open_blocks[heads], i + 1) for heads in sorted(ended)]
    return blocks


def mark_shared(axes, report, **style):
    for first, end, top, bottom in shared_blocks(report):
        axes.add_patch(Rectangle((first, top), end - first, bottom - top, **style))


def draw_panel_of_gates(figure, axes, report, field, title):
    rows = rows_of(report, field)
    image = draw_layers(axes, rows, min(smallest(rows), 0.0), largest(rows), title, layer_names(report))
    # Where heads are many, cells are small: thick lines around scattered ones would hide what they outline.
    mark_shared(axes, report, fill=False, edgecolor="black", linewidth=min(1.0, 16 / report["model"]["heads"]))
    figure.colorbar(image, ax=axes, pad=0.02)


def draw_loads(report):
    """Load overall and by source under one scale, then mean and spread of the gates."""
    panels = [("Load, all images" if is_of_images(report) else "Load, all text", None)]
    if 1 < len(report["sources"]) <= MOST_SOURCES and not is_of_images(report):
        panels += [(f"Load, {source['name']}", i) for i, source in enumerate(report["sources"])]
    count = math.ceil((len(panels) + 2) / PANELS_PER_ROW)
    height = 1.3 + 0.22 * min(len(report["layers"]), 32)
    figure, grid = plt.subplots(count, PANELS_PER_ROW, squeeze=False, layout="constrained",
                                figsize=(3.7 * PANELS_PER_ROW, height * count + 0.4))
    places = [axes for row in grid for axes in row]
    loads = [without_shared(report, rows_of(report, "load", source)) for _, source in panels]
    high = max(largest(rows) for rows in loads)
    for axes, rows, (title, _) in zip(places, loads, panels):
        image = draw_layers(axes, rows, 0.0, high, title, layer_names(report))
        mark_shared(axes, report, **SHARED)
        figure.colorbar(image, ax=axes, pad=0.02)
    draw_panel_of_gates(figure, places[len(panels)], report, "gate_mean", "Mean gate of the tokens that use it")
    draw_panel_of_gates(figure, places[len(panels) + 1], report, "gate_std", "Spread of these gates (std)")
    for axes in places[len(panels) + 2:]:
        axes.set_axis_off()
    figure.supxlabel("Load: share of tokens that use the head. Hatched or outlined in black: shared heads, which every "
                     "token uses.", fontsize=9, x=0.01, ha="left")
    return figure


def draw_classes(report):
    """A heat map for each stage with routed heads: load of each of them, of its last such layer, by class."""
    layers = [[layer for layer in stage if layer["routed"]] for stage in stages_of(report)]
    shown = [(number, stage[-1]) for number, stage in enumerate(layers) if stage]
    widths = [max(2.0, 0.16 * layer["routed"]) for _, layer in shown]
    height = 1.5 + min(12.0, 0.16 * len(report["sources"]))
    figure, grid = plt.subplots(1, len(shown), squeeze=False, layout="constrained", figsize=(1.5 + sum(widths), height),
                                width_ratios=widths)
    maps = []
    for number, layer in shown:
        routed = [head for head in range(heads_of(layer)) if head not in layer["shared_heads"]]
        maps.append((number, layer, routed, [[values(source["load"])[head] for head in routed]
                                             for source in layer["by_source"]]))
    high = max(largest(rows) for *_, rows in maps)
    names = [source["name"] for source in report["sources"]]
    for axes, (number, layer, routed, rows) in zip(grid[0], maps):
        image = heat_map(axes, rows, 0.0, high)
        axes.set(title=f"Stage {number}, layer {layer['layer']}", xlabel="routed head")
        set_centred_ticks(axes.xaxis, len(routed), names=routed)
        set_centred_ticks(axes.yaxis, len(names), most=40, names=names if axes is grid[0][0] else [""] * len(names))
    figure.colorbar(image, ax=list(grid[0]), pad=0.01, label="share of tokens that use the head")
    return figure


def chosen_layers(report, asked):
    """The layers whose matrices are shown: those of --layers, or a few at even distances, including first and last."""
    count = len(report["layers"])
    if asked:
        for layer in asked:
            if not 0 <= layer < count:
                raise PlotError(f"--layers: expected layers from 0 to {count - 1}, found {layer}")
        return asked
    shown = min(count, MOST_MATRICES)
    return sorted({round(i * (count - 1) / max(shown - 1, 1)) for i in range(shown)})


def shared_first(layer):
    """The numbers of a layer's heads, shared ones first, so that each pair of groups is a block of the matrix."""
    return layer["shared_heads"] + [head for head in range(heads_of(layer)) if head not in layer["shared_heads"]]


def off_diagonal(matrix, order):
    """The matrix with its rows and columns in that order, and NaN on the diagonal."""
    rows = [values(row) for row in matrix]
    return [[math.nan if i == j else rows[i][j] for j in order] for i in order]


def draw_matrix(axes, matrix, low, high, order, shared):
    image = heat_map(axes, matrix, low, high)
    axes.set_aspect("equal")
    set_centred_ticks(axes.xaxis, len(matrix), most=8, names=order)
    set_centred_ticks(axes.yaxis, len(matrix), most=8, names=order)
    if 0 < shared < len(matrix):
        for draw in (axes.axhline, axes.axvline):
            draw(shared, color="black", linewidth=1.2)
    return image


def has_similarities(report):
    """Whether two heads of a layer were compared; those of a TransNeXt are not."""
    return any(layer["similarity"][kind]["mean"]["all"] is not None
               for layer in report["layers"] for kind in SIMILARITIES)


def draw_similarities(report, layers):
    """A row of matrices, one per layer, for each kind of similarity. Shared heads come first; lines stand between them
    and the routed ones."""
    orders = [shared_first(report["layers"][layer]) for layer in layers]
    figure, grid = plt.subplots(len(SIMILARITIES), len(layers), squeeze=False, layout="constrained",
                                figsize=(1.2 + 2.5 * len(layers), 2.8 * len(SIMILARITIES)))
    figure.get_layout_engine().set(h_pad=0.12)  # titles stay clear of the ticks above them
    for row, (kind, name) in zip(grid, SIMILARITIES.items()):
        matrices = [off_diagonal(report["layers"][layer]["similarity"][kind]["matrix"], order)
                    for layer, order in zip(layers, orders)]
        low = min(0.0, *(smallest(matrix) for matrix in matrices))
        high = max(largest(matrix) for matrix in matrices)
        for axes, matrix, layer, order in zip(row, matrices, layers, orders):
            image = draw_matrix(axes, matrix, low, high, order, report["layers"][layer]["shared"])
            mean = report["layers"][layer]["similarity"][kind]["mean"]["all"]
            axes.set_title(f"layer {layer_names(report)[layer]}" + ("" if mean is None else f", mean {mean:.3f}"))
        row[0].set_ylabel("head")
        figure.colorbar(image, ax=list(row), label=name, pad=0.01)
    return figure


def draw_bars(axes, report, field, title):
    """Bars by layer and group; the legend shows the largest possible value of a group."""
    groups = ["all"] + [group for group in ("shared", "routed") if any(layer[group] for layer in report["layers"])]
    width = 0.8 / len(groups)
    for i, group in enumerate(groups):
        layers = [n for n, layer in enumerate(report["layers"]) if group == "all" or layer[group]]
        at = [n - 0.4 + (i + 0.5) * width for n in layers]
        found = [report["layers"][n]["rank"][group] for n in layers]
        color, hatch = BARS[group]
        most = max(rank["largest"] for rank in found)
        axes.bar(at, [rank[field] for rank in found], width, color=color, hatch=hatch, edgecolor="white", linewidth=0.0,
                 label=f"{group} heads (of {most})")
    axes.set(title=title, xlabel="layer")
    axes.grid(False, axis="x")
    shown = range(0, len(report["layers"]), math.ceil(len(report["layers"]) / 16))
    names = [layer_names(report)[i] for i in shown]
    axes.set_xticks(list(shown), names, **({} if all(name.isdigit() for name in names) else {"rotation": 90}))


def draw_ranks(report):
    figure, (left, right) = plt.subplots(1, 2, layout="constrained", figsize=(11, 3.6), sharey=True)
    draw_bars(left, report, "rank", f"Rank: singular values above {report['rank_tolerance']:g} of the largest")
    draw_bars(right, report, "effective", "Effective rank: exp(entropy of the singular values)")
    left.set_ylabel("directions (of the most that sizes allow)")
    left.set_ylim(top=1.15 * left.get_ylim()[1])  # room for the legend
    left.legend(frameon=False, fontsize=9, ncols=3, columnspacing=1.2, loc="upper left")
    return figure


def set_style():
    plt.rcParams.update({"font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left",
                         "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": INK,
                         "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
                         "axes.grid": True, "grid.color": "#e6e6e6", "grid.linewidth": 0.8, "axes.axisbelow": True,
                         "hatch.linewidth": 0.7})


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", metavar="FILE.json", help="file of moh analyze --out")
    parser.add_argument("--out", metavar="DIR", help="folder of the pictures (default: that of the file)")
    parser.add_argument("--layers", nargs="+", type=int, metavar="N",
                        help=f"layers in similarity.png (default: {MOST_MATRICES} at even distances)")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_arguments(arguments)
    if plt is None:
        sys.exit(
            f"plot_heads.py: this Python ({sys.executable}) has no matplotlib; install the package python3-matplotlib "
            "and run the script with /usr/bin/python3"
        )
    try:
        report = read_report(options.report)
        set_style()
        figures = {"rank.png": draw_ranks(report)}
        if has_similarities(report):
            figures = {"similarity.png": draw_similarities(report, chosen_layers(report, options.layers)), **figures}
        if is_routed(report):
            classes = {"classes.png": draw_classes(report)} if is_of_images(report) else {}
            figures = {"heads.png": draw_loads(report), **classes, **figures}
        folder = pathlib.Path(options.out) if options.out else pathlib.Path(options.report).parent
        folder.mkdir(parents=True, exist_ok=True)
        for name, figure in figures.items():
            figure.savefig(folder / name, dpi=110, bbox_inches="tight")
            print(folder / name)
    except (KeyError, TypeError, IndexError) as error:
        sys.exit(f"plot_heads.py: {options.report}: the report is not complete ({type(error).__name__}: {error})")
    except (PlotError, OSError) as error:
        sys.exit(f"plot_heads.py: {error}")


if __name__ == "__main__":
    main()
