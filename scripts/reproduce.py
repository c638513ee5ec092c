#!/usr/bin/env python3
"""The tables of the MoH paper (arXiv 2410.11842) and of its public review: what each takes at the paper's size, and a form of it that
fits a time on this machine, with the paper's numbers beside ours.

    scripts/reproduce.py                                                  # which tables there are
    scripts/reproduce.py vit_imagenet                                     # each row's command, and its cost at the paper's size; runs nothing
    scripts/reproduce.py vit_imagenet --budget 600 --data cifar10         # small models on CIFAR-10, in about ten minutes
    scripts/reproduce.py ablation_components --budget 300                 # on synthetic pictures of shapes
    scripts/reproduce.py llm_from_scratch --budget 900 --data input.txt --seeds 1,2,3
    scripts/reproduce.py llm_from_scratch --full -- data.train=corpus data.tokenizer=tokenizer.json device=cuda

With --budget each row is trained in a small form (configs/vit/cifar10_*.yaml and so on, with settings), all for as many steps as the time allows,
measured first; the output says what differs from the paper. A budget that is large enough trains the small configurations to their own end, which
is how the numbers of docs/benchmarks were made. What is finished is not repeated, and what was interrupted continues from its last
checkpoint: start the same command again. The runs are in OUT/TABLE, the result in TABLE.md and
TABLE.json there.

With --full the configurations are trained at the paper's size. docs/reproduce.md has a line for each table.

heads_at_equal_compute is no table of the paper: every way to use fewer heads over one dense model, at equal tokens, operations and time
(docs/benchmarks/heads.md). --config names the model, a language model or a ViT of any size:

    scripts/reproduce.py heads_at_equal_compute --config configs/heads/language.yaml --data input.txt --seeds 1,2,3 --jobs 2 --threads 1
    scripts/reproduce.py heads_at_equal_compute --config configs/heads/vision.yaml --data cifar10 --seeds 1,2,3 --jobs 2 --threads 1
"""

import argparse
import shlex
import sys
import time

import seeded_runs
from reproduction import diffusion_tables, equal_compute, full_size, image_tables, language_tables, report, results, translation_tables

TABLES = {**image_tables.TABLES, **diffusion_tables.TABLES, **language_tables.TABLES, **translation_tables.TABLES}


def parse_arguments(given):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", help="which one; without it they are listed")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="train small forms for about so long")
    parser.add_argument("--full", action="store_true", help="train at the paper's size; the data come after --")
    parser.add_argument("--data", action="append", default=[], metavar="PATH",
                        help="of small forms: a text, a folder of pictures with train/ and test/, or sentence pairs; may be repeated (drawn pictures)")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="rows by name, with those that they are compared with (all)")
    parser.add_argument("--seeds", type=seeded_runs.seeds, default=[1], help="1,2,3")
    parser.add_argument("--classifier", metavar="RUN", help="of diffusion: draw pictures, and judge them by the features of this run")
    parser.add_argument("--checkpoint", help="of token_heads: the released MoH-LLaMA3-8B")
    parser.add_argument("--config", metavar="FILE", help=f"of {equal_compute.NAME}: the dense model")
    seeded_runs.add_arguments(parser, "runs/reproduce")
    arguments = parser.parse_intermixed_args(given)
    if arguments.budget is not None and (arguments.full or arguments.budget <= 0):
        parser.error("--budget: expected a number of seconds above 0, and no --full")
    if (arguments.config is not None) != (arguments.table == equal_compute.NAME):
        parser.error(f"--config FILE, a dense model such as configs/heads/language.yaml, goes with {equal_compute.NAME}, and with no other table")
    if arguments.config is not None and (arguments.full or arguments.classifier or arguments.checkpoint):
        parser.error(f"{equal_compute.NAME} takes no --full, --classifier or --checkpoint")
    arguments.out /= arguments.table or ""
    return arguments


def list_tables():
    for name, table in TABLES.items():
        print(f"{name:<26} {table.title} ({table.source})")
    print(f"{equal_compute.NAME:<26} Ways to use fewer heads, at equal tokens, operations and time (not of the paper)")


def rows_of(arguments, table):
    known = [row.name for row in table.rows]
    unknown = [name for name in arguments.rows or [] if name not in known]
    if unknown:
        raise seeded_runs.Refused(f"--rows: expected of {known}, found {unknown}")
    chosen = [row for row in table.rows if not arguments.rows or row.name in arguments.rows]
    bases = [table.base_of(row) for row in chosen] if table.kind in ("training", "recovery") else []
    return [row for row in table.rows if row in chosen or row in bases]


def describe(arguments, table):
    print(f"{table.title}: the paper's {table.source}, {table.setting}\n\nAt the paper's size (nothing was run):")
    print(*full_size.describe(arguments.moh, table, arguments.out), sep="\n")
    for missing in table.missing:
        print(f"  not reproduced: {missing}")
    further = "; at this size, on your data: --full" if table.kind == "training" else ""
    if table.kind != "checkpoint":
        print(f"\nA small form of it: scripts/reproduce.py {arguments.table} --budget SECONDS{further}")
    for small in dict.fromkeys(row.small for row in table.rows if row.small):
        rows = "; ".join(row.name for row in table.rows if row.small == small)
        print(f"  {rows}\n    {full_size.command_of(small)}")


def run_full(arguments, table):
    runs = full_size.train(arguments, table)
    print(f"{table.title}: all trainings are finished. Their last evaluations:")
    for run, rows in runs:
        ours = {key: value for key, value in seeded_runs.last_evaluation(run.folder).items() if isinstance(value, float)}
        print(f"  {run.folder}: {ours}", *(f"    {full_size.paper_of(table, row)}" for row in rows), sep="\n")
        commands = dict.fromkeys(command for row in rows for command in table.evaluation_of(row))
        print(*(f"    next: {command.replace('RUN', str(run.folder))}" for command in commands), sep="\n")
    if arguments.settings:
        print(f"with {' '.join(arguments.settings)}: what else than the data these change differs from the paper")


def run_small(arguments, table, given):
    began = time.monotonic()
    result = results.KINDS[table.kind](arguments, table, rows_of(arguments, table))
    command = shlex.join(["scripts/reproduce.py", *given])
    result["made"] = report.provenance(arguments, time.monotonic() - began, command)
    report.write(arguments.out, arguments.table, result)


def main(given=None):
    given = sys.argv[1:] if given is None else given
    arguments = parse_arguments(given)
    with seeded_runs.reported("reproduce"):
        if arguments.table is None:
            return list_tables()
        if arguments.table == equal_compute.NAME:
            return equal_compute.run(arguments, shlex.join(["scripts/reproduce.py", *given]))
        if arguments.table not in TABLES:
            raise seeded_runs.Refused(f"{arguments.table}: expected one of {', '.join(TABLES)}")
        table = TABLES[arguments.table]
        if arguments.full:
            return run_full(arguments, table)
        asked = arguments.budget or arguments.checkpoint or table.kind == "size"
        return run_small(arguments, table, given) if asked else describe(arguments, table)


if __name__ == "__main__":
    main()
