"""The trainings of a table at the paper's size: their commands, what they take, and running them."""

import shlex

import seeded_runs

from . import moh, report

GPU, SHARE = "H100", 0.4  # of the published rate of the configuration's arithmetic


def folder_of(out, row):
    return out / "".join(c if c.isalnum() else "_" for c in row.name)


def command_of(training, folder=None):
    """Of a row, or of its small form. In a folder of the run's own; without one (a continuation reads that of the run before) in that of the configuration."""
    return shlex.join(["moh", "train", training.config, *training.settings, *([f"output.dir={folder}"] if folder else [])])


def cost_of(program, table, row):
    """Parameters, operations, memory and days of a row's training on a GPU, by `moh plan`."""
    plan = moh.plan(program, row.config, (*row.settings, "--peak-tflops", GPU), memory=True)
    steps = plan.get("steps")
    items = steps * plan["items_per_step"] if steps else table.items
    configured = next(choice for choice in plan["recompute"].values() if choice["configured"])
    return {"parameters": plan["parameters"], "heads": 100 * plan["activated_heads"], "items": items, "items_per_step": plan["items_per_step"],
            "gmacs": plan["flops_per_item"] / 6e9, "flops": plan["flops_per_item"] * items,
            "bytes": configured["peak_bytes"]["total"], "batch_size": plan["batch_size"],
            "tflops": plan["peak_tflops"], "precision": plan["arithmetic"],
            "h100_days": plan["flops_per_item"] * items / (SHARE * 1e12 * plan["peak_tflops"]) / 86400}


def trainings(table):
    """{(configuration, settings): the rows that are of this training}."""
    found = {}
    for row in table.rows:
        if row.config:
            found.setdefault((row.config, row.settings), []).append(row)
    return found


def days(value):
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def paper_of(table, row):
    return f"{row.name} (paper: {report.number(row.paper.get(table.score))})"


def cost_line(cost):
    return (f"{report.count(cost['parameters'])} parameters, {cost['flops']:.2g} FLOP ({days(cost['h100_days'])} days of an {GPU} at "
            f"{SHARE:.0%} of {cost['tflops']:g} TFLOP/s, {cost['precision']}), {cost['bytes'] / 2**30:.3g} GiB with micro-batches of {cost['batch_size']}")


def describe(program, table, out):
    """What the trainings of a table take at full size, as lines. Nothing is run."""
    lines = []
    for rows in trainings(table).values():
        lines += [f"  {'; '.join(paper_of(table, row) for row in rows)}", f"    {command_of(rows[0], None if table.kind == 'recovery' else folder_of(out, rows[0]))}",
                  f"    {cost_line(cost_of(program, table, rows[0]))}"]
    lines += [f"  {paper_of(table, row)}: {row.note or 'the paper does not say which model'}" for row in table.rows
              if not row.config and table.kind in ("recovery", "analysis")]
    lines += [f"  {'then, for each' if lines else 'command'}: {command}" for command in table.evaluation]
    lines += [f"  then, for {row.name}: {command}" for row in table.rows for command in row.evaluation]
    if table.needs:
        lines.append(f"  data: {table.needs}")
    return lines


def train(arguments, table):
    """Trains all rows, at the paper's size unless there are settings; returns [(run, its rows)]."""
    settings = tuple(arguments.settings)
    if table.kind != "training":
        raise seeded_runs.Refused(f"--full is for tables of trainings that do not depend on one another; the commands of this one are "
                                  f"printed by: scripts/reproduce.py {arguments.table}")
    if not any(setting.startswith("data.train=") for setting in settings):
        raise seeded_runs.Refused(f"--full needs the data, after --: {table.needs}")
    runs = [(seeded_runs.Run(rows[0].name, config, folder_of(arguments.out, rows[0]), (*of_rows, *settings)), rows)
            for (config, of_rows), rows in trainings(table).items()]
    seeded_runs.check_settings(arguments.out, ["full", *settings])
    seeded_runs.train_all(arguments, [run for run, _ in runs], lambda run: f"finished in {run.folder}")
    return runs
