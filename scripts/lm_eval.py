#!/usr/bin/env python3
"""Asks a language model the benchmarks of the MoH paper's tables, and prints its scores beside the paper's.

    scripts/lm_eval.py --checkpoint runs/llm/moh_llm_b_75 --tasks paper --data benchmarks
    scripts/lm_eval.py --checkpoint MoH-LLaMA3-8B --tasks mmlu,gsm8k,truthfulqa --data benchmarks --json > scores.json
    scripts/lm_eval.py --checkpoint runs/llm/quickstart --tasks cmmlu:jurisprudence --data benchmarks --limit 20
    scripts/lm_eval.py --list

The judge is lm-evaluation-harness, as in the paper, with its own configurations of the benchmarks; the model answers it through
`moh serve`, which this program starts and ends. Nothing is fetched: the data sets are files in the folder --data. Needs the
harness (scripts/pytorch_venv.sh, or pip install 'lm_eval[api]').

--tasks: names, groups (paper: all of tables 3, 4 and G; paper_table_3, paper_table_4, paper_table_g), parts (mmlu:anatomy), and
YAML files of the harness. What follows `--` is given to `moh serve`, such as `-- device=cuda dtype=bf16`.
"""

import argparse
import json
import pathlib
import sys

import places
from lm_harness import local_tasks, report, served
from lm_harness.benchmarks import BENCHMARKS, Refused, columns, leaves
from lm_harness.paper import GROUPS


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=pathlib.Path, help="a run, one of its checkpoints, or a Hugging Face folder")
    parser.add_argument("--tasks", default="paper", help="what to ask, with commas between")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("benchmarks"), help="folder of the data sets' files")
    parser.add_argument("--list", action="store_true", help="print the benchmarks and their files, and end")
    parser.add_argument("--limit", type=int, help="questions of each benchmark and subject, the first ones; the scores are no result then")
    parser.add_argument("--shots", type=int, help="examples before each question, instead of each benchmark's own number")
    parser.add_argument("--new-tokens", type=int, help="most tokens of a generated answer, instead of each benchmark's own number")
    parser.add_argument("--clients", type=int, default=4, help="requests at once")
    parser.add_argument("--batch", type=int, default=8, help="prompts of a request")
    parser.add_argument("--timeout", type=int, default=3600, help="seconds that an answer may take")
    parser.add_argument("--samples", type=pathlib.Path, help="file for a JSON object of each question: prompts, answers, scores")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--moh", type=pathlib.Path, default=places.program(), help="the program (%(default)s)")
    parser.add_argument("--python", default=served.default_python(), help="the Python that has the harness")
    parser.add_argument("settings", nargs="*", help="for moh serve, after --")
    return parser.parse_args(arguments)


def asked_of(text):
    """([(benchmark, subject or None)], [YAML files]) of --tasks."""
    asked, files = [], []
    for name in filter(None, (part.strip() for part in text.split(","))):
        base, _, subject = name.partition(":")
        if name.endswith((".yaml", ".yml")):
            files.append(str(pathlib.Path(name).resolve(strict=True)))
        elif name in GROUPS:
            asked += [(leaf, None) for member in GROUPS[name] for leaf in leaves(member)]
        elif base in BENCHMARKS and not (subject and not BENCHMARKS[base].has_subjects()):
            asked += [(leaf, subject or None) for leaf in leaves(base)]
        else:
            raise Refused(f"--tasks: expected names among {', '.join([*GROUPS, *BENCHMARKS])}, or YAML files, found '{name}'")
    if not asked and not files:
        raise Refused("--tasks: expected at least one name, found none")
    return list(dict.fromkeys(asked)), files


def list_benchmarks():
    for name, benchmark in BENCHMARKS.items():
        if benchmark.members:
            print(f"{name:16} the mean of {' and '.join(benchmark.members)}")
            continue
        folder = f"{benchmark.folder or name}/{'SUBJECT/' if benchmark.has_subjects() else ''}"
        parts = [f"{folder}{part}.jsonl" for part in (benchmark.asked, benchmark.shown) if part]
        print(f"{name:16} {benchmark.shots:>2} shots, {benchmark.score:26} {', '.join(parts)}  ({', '.join(filter(None, columns(name)))})")
    for name, members in GROUPS.items():
        print(f"{name:16} {', '.join(members)}")


def evaluate(options):
    asked, files = asked_of(options.tasks)
    if options.checkpoint is None:
        raise Refused("--checkpoint: expected a run, a checkpoint or a folder, found none")
    served.require_harness(options.python)
    tasks = local_tasks.local_tasks(asked, options.data.resolve(), options.shots, served.harness_folder(options.python) / "tasks")
    job = {"tasks": list(tasks.values()), "files": files, "clients": options.clients, "batch": options.batch, "limit": options.limit,
           "timeout": options.timeout, "new_tokens": options.new_tokens, "samples": options.samples is not None}
    with served.Server(options.moh, options.checkpoint, options.settings) as server:
        found = served.ask(options.python, server, job)
    results = report.scores_of(found, tasks)
    if options.samples:
        lines = [json.dumps({"task": task, **sample}, ensure_ascii=False) for task, samples in found["samples"].items() for sample in samples]
        options.samples.write_text("\n".join([*lines, ""]), encoding="utf-8")
    ours = {task["task"] for task in tasks.values()}
    others = {name: values for name, values in found["results"].items() if name not in ours}
    print_results(options, found["version"], results, others)


def print_results(options, version, results, others):
    if options.json:
        tables = [{"table": table.title, "benchmarks": [*table.benchmarks, "average"], "models": models}
                  for table, models in report.beside_paper(results, options.checkpoint)]
        print(json.dumps({"checkpoint": str(options.checkpoint), "harness": version, "limit": options.limit, "benchmarks": results,
                          "others": others, "paper": tables}, ensure_ascii=False))
        return
    if results:
        print("\n".join(report.score_lines(results)))
    for name, values in others.items():
        for key, value in values.items():
            if "," in key and "_stderr," not in key:
                print(f"{name:32} {key.removesuffix(',none'):24} {value}")
    print("\n".join(report.paper_lines(report.asked_names(results), options.checkpoint)))
    if options.limit is not None:
        print(f"\nof the first {options.limit} questions alone: these scores are no result")


def main(arguments):
    options = parsed(arguments)
    try:
        if options.list:
            list_benchmarks()
        else:
            evaluate(options)
    except (Refused, OSError) as error:
        print(f"lm_eval.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
