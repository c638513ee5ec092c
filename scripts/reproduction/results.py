"""From a table of the paper to numbers beside it, for each kind of table (table.py). Each function returns what report.markdown prints."""

import time

import quality
import seeded_runs

from . import analysis, continued, full_size, moh, report, samples, scaled


def result_of(table, columns, cells, differences, rows):
    return {"title": table.title, "source": table.source, "setting": table.setting, "columns": columns, "cells": cells,
            "differences": differences, "missing": list(table.missing), "rows": rows}


def range_of(parameters):
    found = sorted(parameters)
    return "not stated" if not found else " to ".join(dict.fromkeys(report.count(size) for size in (found[0], found[-1]))) + " parameters"


def paper_models(arguments, rows):
    return range_of({moh.plan(arguments.moh, row.config, row.settings)["parameters"] for row in rows if row.config})


def small_models(arguments, table, rows):
    """A continuation is as large as the model that it begins from, but for its routers."""
    sizes = set()
    for row in {row.small: row for row in rows}.values():
        small = continued.DENSE if table.kind == "recovery" else row.small
        data = scaled.data_settings(arguments, scaled.kind_of(table, row), small.config)
        sizes.add(moh.plan(arguments.moh, small.config, (*small.settings, *data, *arguments.settings))["parameters"])
    return range_of(sizes)


def differences_of(arguments, table, rows, lengths):
    """What differs between the paper's trainings and the small ones, as (what, paper, here)."""
    kinds = dict.fromkeys(scaled.kind_of(table, row) for row in rows)
    length = f"{lengths.steps} steps of each" if lengths.steps else "the small configurations' own lengths"
    if lengths.steps and table.kind == "recovery":
        length = f"{lengths.steps} steps of the dense model, {continued.steps_of(lengths)} more of each"
    return [("models", paper_models(arguments, rows), small_models(arguments, table, rows)),
            ("setting", table.setting, length + "".join(f", {setting}" for setting in arguments.settings)),
            ("data", table.needs.partition(":")[0].partition(" (")[0].partition(",")[0], "; ".join(scaled.describe_data(arguments, kind) for kind in kinds)),
            ("score", table.score, table.small_score)]


def small_form(row):
    return row.small.name or " ".join((row.small.config.rpartition("/")[2].removesuffix(".yaml"), *row.small.settings))


def compared(arguments, table, rows, runs, scores, form):
    """The columns of rows with a score by seed, and of differences to the row that each is compared with."""
    columns = ["row", f"paper, {table.score}", "to its baseline", "small form", "its heads", "ours", "to its baseline"]
    cells, records = [], []
    for row in rows:
        base = table.base_of(row)
        theirs, of_base, ours = row.paper.get(table.score), base.paper.get(table.score), scores[row.name]
        heads = 100 * seeded_runs.records(runs[row.name][0].folder, "train")[-1].get("activated_heads", 1)
        differences = ("0", "0") if row is base else (
            report.number(None) if theirs is None or of_base is None else f"{theirs - of_base:+.2f}",
            seeded_runs.with_interval([mine - other for mine, other in zip(ours, scores[base.name])], "+" + form))
        cells.append([row.name, report.number(theirs), differences[0], small_form(row), f"{heads:.0f}%", seeded_runs.with_interval(ours, form),
                      differences[1]])
        records.append({"row": row.name, "paper": row.paper, "config": row.small.config, "settings": row.small.settings, "heads": heads,
                        "baseline": base.name, "ours": ours, "seeds": arguments.seeds})
    return columns, cells, records


def add_classifier_scores(arguments, rows, runs, columns, cells, records):
    """Columns of the scores by a classifier's features that there are; FID first."""
    of_rows = [[samples.scores(arguments, run, row.guidance) for run in runs[row.name]] for row in rows]
    found = [score for of_row in of_rows for score in of_row]
    for name in (name for name in samples.SCORES if all(name in scores for scores in found)):
        columns.append(f"{name} of {samples.PICTURES} pictures by features of {arguments.classifier}")
        for cell, record, of_row in zip(cells, records, of_rows):
            record[f"classifier_{name}"] = [scores[name] for scores in of_row]
            cell.append(seeded_runs.with_interval(record[f"classifier_{name}"], ".2f"))


def of_trainings(arguments, table, rows):
    samples.check(arguments, table)
    lengths, runs = scaled.train(arguments, table, rows)
    scores = {name: [quality.score(run.folder) for run in of_row] for name, of_row in runs.items()}
    columns, cells, records = compared(arguments, table, rows, runs, scores, ".2f" if table.score == "top1" else ".4f")
    if arguments.classifier:
        add_classifier_scores(arguments, rows, runs, columns, cells, records)
    for name in table.further:
        columns.append(f"paper, {name}")
        for row, cell in zip(rows, cells):
            cell.append(report.number(row.paper.get(name)))
    return result_of(table, columns, cells, differences_of(arguments, table, rows, lengths), records)


def of_continuations(arguments, table, rows):
    lengths, runs = continued.train(arguments, table, rows)
    scores = {row.name: continued.scores(row, runs[row.name]) for row in rows}
    own = {name: [run for run, _ in of_row] for name, of_row in runs.items()}
    columns, cells, records = compared(arguments, table, rows, own, scores, ".2f")
    return result_of(table, columns, cells, differences_of(arguments, table, rows, lengths), records)


def of_analyses(arguments, table, rows):
    lengths, runs = scaled.train(arguments, table, rows)
    cells, records = [], []
    for row in rows:
        ours = [analysis.measure(analysis.analyse(arguments.moh, run.folder, run.folder / "heads.json", arguments.threads), row.measure)
                for run in runs[row.name]]
        cells.append([row.name, report.number(row.paper[table.score]), small_form(row), seeded_runs.with_interval(ours, ".4g")])
        records.append({"row": row.name, "paper": row.paper, "config": row.small.config, "measure": row.measure, "ours": ours,
                        "seeds": arguments.seeds})
    return result_of(table, ["row", "paper", "small form", "ours"], cells, differences_of(arguments, table, rows, lengths), records)


def of_sizes(arguments, table, rows):
    """Nothing differs but what moh counts: parameters, and multiply-adds of the forward pass."""
    cells, records = [], []
    for row in rows:
        cost = full_size.cost_of(arguments.moh, table, row)
        cells.append([row.name, report.number(row.paper["params_m"]), f"{cost['parameters'] / 1e6:.1f}", report.number(row.paper["gmacs"]),
                      f"{cost['gmacs']:.1f}", report.number(row.paper["top1"])])
        records.append({"row": row.name, "paper": row.paper, "config": row.config, "ours": cost})
    return result_of(table, ["row", "parameters, M, published", "ours", "GMACs, published", "ours", "top-1, published"], cells, [], records)


def of_layer(arguments, table, rows):
    """The layer's attention at the paper's size, on this machine; ratios are what can be compared."""
    tokens = sorted({row.paper["tokens"] for row in rows})
    shares = sorted({row.heads for row in rows} | {100}, reverse=True)
    command = ("bench", "attention", "--heads", 32, "--head-dim", 64, "--tokens", ",".join(map(str, tokens)), "--active",
               ",".join(f"{share / 100:g}" for share in shares), "--threads", arguments.threads, "--repeats")
    began = time.monotonic()
    found = moh.ask(arguments.moh, *command, 3)
    repeats = min(1000, int(3 * scaled.RESERVE * arguments.budget / (time.monotonic() - began)))
    if repeats > 3:
        found = moh.ask(arguments.moh, *command, repeats)
    ours = {(line["tokens"], round(100 * line["active"])): line for line in found}
    dense = {row.paper["tokens"]: row.paper for row in table.rows if row.heads == 100}
    cells, records = [], []
    for row in rows:
        line, of_all, of_paper = ours[row.paper["tokens"], row.heads], ours[row.paper["tokens"], 100], dense[row.paper["tokens"]]
        cells.append([row.name, f"{row.paper['ms']:.3f}", *(f"{row.paper[key] / of_paper[key]:.2f}" for key in ("ms", "flops_m", "memory_m")),
                      f"{line['forward_ms']:.2f}", f"{line['forward_ratio']:.2f}", f"{line['forward_backward_ratio']:.2f}",
                      f"{line['spread']:.0%}", f"{line['forward_megaflops']:.0f}", f"{line['pairs_share']:.2f}",
                      f"{line['peak_bytes'] / 2**20:.2f}", f"{line['peak_bytes'] / of_all['peak_bytes']:.2f}"])
        records.append({"row": row.name, "paper": row.paper, "ours": line})
    differences = [("hardware", "a GPU, not stated", f"{arguments.threads} threads of a CPU, float32, one sequence"),
                   ("method", "sparse matrices of queries, keys and values, in the baseline, too",
                    "dense attention; the selected (token, head) pairs alone")]
    columns = ["row", "paper, ms", "to multi-head", "its operations, to multi-head", "its memory, to multi-head", "ours, forward, ms",
               "to multi-head", "forward and backward, to multi-head", "spread", "operations of the forward pass, M", "to multi-head",
               "memory of both passes, MiB", "to multi-head"]
    return result_of(table, columns, cells, differences, records)


def of_checkpoint(arguments, table, rows):
    if not arguments.checkpoint:
        raise seeded_runs.Refused(f"this table needs {table.needs}")
    data = scaled.data_settings(arguments, "text", "")[0].partition("=")[2]
    arguments.out.mkdir(parents=True, exist_ok=True)
    found = analysis.analyse(arguments.moh, arguments.checkpoint, arguments.out / "heads.json", arguments.threads, f"data={data}", "--text",
                             " ".join(row.name for row in table.rows).replace(" .", "."))
    layer, heads, agreeing, of = analysis.nearest_layer(found, table)
    cells = [[row.name, " ".join(map(str, row.paper["heads"])), " ".join(map(str, ours))] for row, ours in zip(table.rows, heads)]
    records = [{"row": row.name, "paper": row.paper, "ours": ours} for row, ours in zip(table.rows, heads)]
    return result_of(table, ["token", "paper", f"ours, layer {layer}: {agreeing} of {of} heads agree, the most of all layers"], cells, [],
                     records)


KINDS = {"training": of_trainings, "recovery": of_continuations, "analysis": of_analyses, "size": of_sizes, "layer": of_layer,
         "checkpoint": of_checkpoint}
