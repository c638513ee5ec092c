"""The table heads_at_equal_compute: every way to use fewer heads (head_forms.py) beside the dense model, a language model or a ViT, at equal
tokens (of classifiers, pictures), at equal operations and at equal time.

One training a row and seed gives all three losses. Its learning rate is constant after the warmup, and a moving average of the weights is
evaluated along the way: it comes near to what a decay that ended there would give (arXiv 2405.18392), so that a point of the curve stands for
a training of that length. The dense model with all heads trains for S steps. A row that needs a share r of its operations a token (or of its
time a step) trains for S / r steps, and its losses at equal operations and time are read off its curve. A row that goes on from the dense
model's weights has spent what the dense model had until then.

What is in OUT/heads_at_equal_compute: costs.json, measured before the first training, as the lengths follow from it; a folder a training; and
the table as Markdown, as JSON with everything that it was made of, and as a picture of the curves.
"""

import json
import math
import statistics
import time
from dataclasses import dataclass

import quality
import seeded_runs

from . import head_forms, moh, report, scaled

NAME = "heads_at_equal_compute"
ROUNDS, DECODE_CONTEXT = 5, 512
DECODE_PASSES = 9  # of several tokens each: those of small models take less than a millisecond
EVALUATIONS = 10  # of the dense model's training
BUDGETS = ("items", "operations", "time")  # items are tokens or pictures


@dataclass(frozen=True)
class Row:
    """A form with its settings, and what it costs: parameters, operations an item, times in ms."""

    form: head_forms.Form
    settings: tuple
    cost: dict

    def begun(self, steps):
        """The step of the dense training from which it goes on, where that was evaluated; 0: from none."""
        return spacing(steps) * round(self.form.begins * steps / spacing(steps))

    def lengths(self, steps, dense):
        """The steps, with those of the dense model before it, that take as many items, operations and time as `steps` of that model."""
        begun = self.begun(steps)
        own = {"items": 1, "operations": self.cost["flops_per_item"] / dense["flops_per_item"], "time": self.cost["step_ms"] / dense["step_ms"]}
        return {budget: begun + (steps - begun) / own[budget] for budget in BUDGETS}


def in_turns(measure, keys, time_field):
    """{key: what measure(key) found, with the median of its times}. Each round asks for all, so that a machine that slows down slows all."""
    found = {key: [] for key in keys}
    for _ in range(ROUNDS):
        for key in keys:
            found[key].append(measure(key))
    times = {key: [each[time_field] for each in of_key] for key, of_key in found.items()}
    return {key: {**of_key[0], time_field: statistics.median(times[key]), "times": times[key]} for key, of_key in found.items()}


def costs_of(arguments, rows, data, decodes):
    """{form's name: what it costs}, measured once for a folder. Rows that come later are measured beside the dense one, and their times
    are those that they would have had beside its first ones."""
    note, dense = arguments.out / "costs.json", head_forms.DENSE.name
    known = json.loads(note.read_text(encoding="utf-8")) if note.exists() else {}
    if all(name in known for name in rows):
        return known
    asked = {name: settings for name, settings in rows.items() if name == dense or name not in known}
    steps = in_turns(lambda name: {"step_ms": 1000 * moh.step_seconds(arguments.moh, arguments.config, (*asked[name], *data), arguments.threads)},
                     asked, "step_ms")
    decoded = in_turns(lambda name: decode_of(arguments, (*asked[name], *data)), asked, "token_ms") if decodes else {}
    of_step = known[dense]["step_ms"] / steps[dense]["step_ms"] if known else 1
    of_token = known[dense]["decode_ms"] / decoded[dense]["token_ms"] if known and decodes else 1
    for name in [name for name in asked if name not in known]:
        plan = moh.plan(arguments.moh, arguments.config, (*asked[name], *data))
        known[name] = {"parameters": plan["parameters"], "flops_per_item": plan["flops_per_item"], "items_per_step": plan["items_per_step"],
                       "active_heads": plan["activated_heads"], "step_ms": of_step * steps[name]["step_ms"], "step": steps[name]["times"]}
        if decodes:
            known[name] |= {"decode_ms": of_token * decoded[name]["token_ms"], "decode": decoded[name]["times"],
                            "kv_bytes": decoded[name]["kv_bytes_per_token"], "read_bytes": decoded[name]["read_bytes_per_token"]}
    seeded_runs.write_atomically(note, json.dumps(known, indent=1) + "\n")
    return known


def decode_of(arguments, settings):
    """What `moh bench decode` says of the model as it is configured, its last line."""
    dtype = "bf16" if moh.plan(arguments.moh, arguments.config, settings)["dtype"] == "bfloat16" else "f32"
    return moh.ask(arguments.moh, "bench", "decode", arguments.config, *settings, "--configured", "--context", DECODE_CONTEXT, "--dtype", dtype,
                   "--threads", arguments.threads, "--repeats", DECODE_PASSES)[-1]


def spacing(steps):
    """Steps between two evaluations."""
    return max(1, steps // EVALUATIONS)


def length_of(row, steps, dense):
    """The longest of a row's three lengths, to the next evaluation."""
    every = spacing(steps)
    return every * math.ceil(max(row.lengths(steps, dense).values()) / every - 1e-9)


def choose_steps(arguments, rows, own, data):
    """Steps of the dense model: those of the configuration, or as many as the budget allows."""
    if arguments.budget is None:
        return own
    dense = rows[0].cost
    seconds = sum(length_of(row, 1000, dense) / 1000 * row.cost["step_ms"] / 1000 for row in rows)
    besides = 1.5 * EVALUATIONS * scaled.evaluation_steps(dense, data) * sum(row.cost["step_ms"] / 1000 for row in rows)
    return min(own, scaled.fitting_steps(arguments, time.monotonic(), seconds, besides, EVALUATIONS))


def schedule_of(task, steps):
    """A constant rate, and an average over about the last tenth of the dense model's steps."""
    every = spacing(steps)
    in_steps = (*scaled.EPOCHS_OFF, "schedule.warmup_epochs=0") if task.data == "images" else ()
    return (*in_steps, "schedule.kind=constant", f"schedule.warmup_steps={max(1, steps // 10)}", f"ema.decay={max(0.0, 1 - 20 / steps):.6g}",
            f"eval.every={every}", f"log.every={max(1, every // 2)}")


def folder_of(arguments, form, seed):
    words = "".join(letter if letter.isalnum() else " " for letter in form.name).split()
    return arguments.out / f"{'_'.join(words)}_{seed}"


def run_of(arguments, task, row, seed, steps, dense, data):
    """The training of a row. What goes on from the dense model's weights has the steps that are left."""
    begun = row.begun(steps)
    length, every = length_of(row, steps, dense) - begun, spacing(steps)
    source = folder_of(arguments, head_forms.DENSE, seed) / f"checkpoints/step_{begun:08d}"
    further = (f"init.from={source}", *row.form.start) if begun else ()
    # The dense model keeps the checkpoints that others begin from.
    kept = ("checkpoint.keep_last=1000",) if row.form is head_forms.DENSE else ()
    settings = (*row.settings, *data, *schedule_of(task, steps), *further, *kept, f"train.steps={length}", f"checkpoint.every={every}", f"seed={seed}")
    return seeded_runs.Run(f"{row.form.name}, seed {seed}", arguments.config, folder_of(arguments, row.form, seed), settings)


def curve_of(arguments, row, seed, steps, number="loss"):
    """{step: loss, or another number of evaluations} of a run, with the dense model's part of it where it went on from there."""
    def of(form, offset):
        evaluations = seeded_runs.records(folder_of(arguments, form, seed), "eval")
        return {offset + record["step"]: record[number] for record in evaluations}

    begun = row.begun(steps)
    before = {step: score for step, score in of(head_forms.DENSE, 0).items() if step <= begun} if begun else {}
    return dict(sorted((before | of(row.form, begun)).items()))


def at(curve, step):
    """The score after so many steps, on a line between the two evaluations around it."""
    steps = list(curve)
    after = next((found for found in steps if found >= step - 1e-9), None)
    if after is None:
        raise seeded_runs.Refused(f"a training ended after {steps[-1]} steps; expected {step:.0f}")
    before = next((found for found in reversed(steps) if found <= step + 1e-9), None)
    if before is None or before == after:
        return curve[after]
    share = (step - before) / (after - before)
    return (1 - share) * curve[before] + share * curve[after]


def results_of(arguments, task, rows, steps):
    """One record a row: its costs, its curves by seed, its losses by budget and seed; of classifiers top-1 at equal operations."""
    dense, results = rows[0].cost, []
    for row in rows:
        curves = {seed: curve_of(arguments, row, seed, steps) for seed in arguments.seeds}
        lengths = row.lengths(steps, dense)
        scores = {budget: [at(curve, lengths[budget]) for curve in curves.values()] for budget in BUDGETS}
        result = {"row": row.form.name, "settings": row.settings, "cost": row.cost, "lengths": lengths, "begun": row.begun(steps),
                  "seeds": arguments.seeds, "curves": curves, "scores": scores}
        if task.data == "images":
            of_top1 = [curve_of(arguments, row, seed, steps, "top1") for seed in arguments.seeds]
            result["top1"] = [100 * at(curve, lengths["operations"]) for curve in of_top1]
        results.append(result)
    return results


def columns_of(task):
    """(heading, cell) of the table: a cell is a function of a row's result and the dense one's."""
    def cost(key, form, to_dense=False):
        return lambda result, dense: form(result["cost"][key] / (dense["cost"][key] if to_dense else 1))

    def ratio(key):
        return "to dense", cost(key, "{:.2f}".format, to_dense=True)

    def loss(budget):
        return lambda result, dense: seeded_runs.with_interval(result["scores"][budget], ".4f")

    def difference(result, dense):
        pairs = zip(result["scores"]["operations"], dense["scores"]["operations"])
        return seeded_runs.with_interval([ours - theirs for ours, theirs in pairs], "+.4f") if result is not dense else "0"

    columns = [("heads", lambda result, dense: result["row"]), ("parameters", cost("parameters", report.count)),
               (f"operations a {task.item}", cost("flops_per_item", report.count))]
    if task.decodes:
        columns += [("KV bytes a token", cost("kv_bytes", report.number)), ("bytes read a decoded token", cost("read_bytes", report.count))]
    columns += [("step, ms", cost("step_ms", "{:.4g}".format)), ratio("step_ms")]
    if task.decodes:
        columns += [("decoding a token, ms", cost("decode_ms", "{:.3g}".format)), ratio("decode_ms")]
    columns += [(f"loss at equal {task.items if budget == 'items' else budget}", loss(budget)) for budget in BUDGETS]
    columns += [("to dense, equal operations", difference)]
    if task.data == "images":
        columns += [("top-1 at equal operations, %", lambda result, dense: seeded_runs.with_interval(result["top1"], ".2f"))]
    return columns


def markdown(task, result):
    made, columns = result["made"], [heading for heading, _ in columns_of(task)]
    lines = ["# Ways to use fewer heads, at equal compute", "",
             f"{made['base']}: {result['steps']} steps of the dense model, {result['items_per_step']} {task.items} a step, {result['data']}. "
             f"Loss on held-out data in nats a {task.item}. "
             "Means over seeds with their 95% interval (Student's t); differences are paired by seed.", "",
             "| " + " | ".join(columns) + " |", "| " + " | ".join("---" for _ in columns) + " |"]
    lines += ["| " + " | ".join(cells) + " |" for cells in result["cells"]]
    lines += ["", f"![Curves]({NAME}.png)", "", f"Made on {made['date']}, {made['machine']}, {made['moh']}, by", "", f"    {made['command']}"]
    return "\n".join(lines) + "\n"


def kept(path, choose):
    """What choose() says at the first start, and the same from then on: other lengths would be other runs."""
    value = json.loads(path.read_text(encoding="utf-8")) if path.exists() else choose()
    seeded_runs.write_atomically(path, json.dumps(value) + "\n")
    return value


def train(arguments, task, rows, steps, data):
    """Trains all rows; what goes on from the dense model's checkpoints comes after it. Seed by seed, so that an early end leaves whole ones."""
    for seed in arguments.seeds:
        for stage in ([row for row in rows if not row.form.begins], [row for row in rows if row.form.begins]):
            runs = [run_of(arguments, task, row, seed, steps, rows[0].cost, data) for row in stage]
            seeded_runs.train_all(arguments, runs, lambda run: f"{quality.score(run.folder):.4f}")


def run(arguments, command):
    from . import curves  # which needs matplotlib: before anything is trained

    base = head_forms.base_of(arguments.moh, arguments.config, arguments.settings)
    task = base.task
    data = (*scaled.data_settings(arguments, task.data, arguments.config), *arguments.settings)
    settings = {form: head_forms.settings_of(form, base) for form in head_forms.forms_for(base, arguments.rows)}
    seeded_runs.check_settings(arguments.out, [str(arguments.config), f"budget {arguments.budget}", *data])
    costs = costs_of(arguments, {form.name: of_form for form, of_form in settings.items()}, data, task.decodes)
    rows = [Row(form, of_form, costs[form.name]) for form, of_form in settings.items()]
    own = scaled.own_steps(moh.plan(arguments.moh, arguments.config, data), data)
    steps = kept(arguments.out / "steps.json", lambda: choose_steps(arguments, rows, own, data))
    train(arguments, task, rows, steps, data)
    results = results_of(arguments, task, rows, steps)
    items = rows[0].cost["items_per_step"]
    result = {"steps": steps, "items_per_step": items, "data": scaled.describe_data(arguments, task.data),
              "cells": [[cell(each, results[0]) for _, cell in columns_of(task)] for each in results], "rows": results,
              "made": report.provenance(arguments, None, command) | {"base": str(arguments.config)}}
    curves.draw(arguments.out / f"{NAME}.png", results, items, task)
    seeded_runs.write_atomically(arguments.out / f"{NAME}.json", json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    seeded_runs.write_atomically(arguments.out / f"{NAME}.md", markdown(task, result))
    print(markdown(task, result), end="")
