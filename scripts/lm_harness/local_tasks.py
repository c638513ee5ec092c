"""The harness's tasks over files that are here: its own configurations, with other data."""

import glob
import json
import pathlib

from .benchmarks import BENCHMARKS, Refused, columns

LOADERS = {"jsonl": "json", "json": "json", "csv": "csv", "parquet": "parquet"}
MOST_NAMED = 8  # files that an error names


def subjects_of(name, harness):
    """{subject: configuration} of a benchmark with subjects."""
    pattern = str(harness / BENCHMARKS[name].config)
    before, after = map(len, pattern.split("*"))
    return {path[before:len(path) - after]: pathlib.Path(path) for path in sorted(glob.glob(pattern))}


def find_part(folder, part, subject, is_asked):
    """The files of a part of a data set, as Hugging Face or the authors name them: PART.jsonl, PART-00000-of-00001.parquet; of a
    subject SUBJECT/PART.csv, PART/SUBJECT.csv, SUBJECT_PART.csv, and SUBJECT.csv for the questions."""
    stems = [part] if not subject else [f"{subject}/{part}", f"{part}/{subject}", f"{part}/{subject}_{part}", f"{subject}_{part}",
                                        *([subject] if is_asked else [])]
    for stem in stems:
        for ending in LOADERS:
            files = sorted(glob.glob(f"{glob.escape(str(folder / stem))}.{ending}")) or \
                sorted(glob.glob(f"{glob.escape(str(folder / stem))}-*-of-*.{ending}"))
            if files:
                return LOADERS[ending], files
    return None, [str(folder / f"{stems[0]}.jsonl")]


def local_task(name, subject, config, folder, shots, missing):
    """The YAML of a task, as a map; appends to `missing` the files that are not there."""
    benchmark = BENCHMARKS[name]
    parts = [benchmark.asked, *([benchmark.shown] if benchmark.shown and shots > 0 else [])]
    loaders, data = set(), {}
    for part in parts:
        loader, files = find_part(folder, part, subject, part == benchmark.asked)
        if loader is None:
            missing.append((name, files[0]))
            continue
        loaders.add(loader)
        data[part] = files
    if len(loaders) > 1:
        raise Refused(f"--data: {folder}: expected the parts of a data set in one format, found {' and '.join(sorted(loaders))}")
    task = {"include": str(config), "task": f"moh_{name}{'_' + subject if subject else ''}", "dataset_path": next(iter(loaders), None),
            "dataset_name": None, "dataset_kwargs": {"data_files": data}, "num_fewshot": shots, "tag": None,
            # The harness looks at every part that a configuration names, whether it reads it or not.
            "test_split": benchmark.asked, "validation_split": None, "training_split": parts[1] if len(parts) > 1 else None}
    return task if len(parts) > 1 else {**task, "fewshot_split": None}


def local_tasks(asked, folder, shots, harness):
    """{(benchmark, subject): YAML} for pairs of a benchmark and a subject, None for all."""
    tasks, missing = {}, []
    for name, wanted in asked:
        benchmark = BENCHMARKS[name]
        of_subjects = subjects_of(name, harness) if benchmark.has_subjects() else {"": harness / benchmark.config}
        if wanted is not None and wanted not in of_subjects:
            raise Refused(f"--tasks: {name}: expected one of the subjects {', '.join(of_subjects)}, found '{wanted}'")
        for subject, config in of_subjects.items():
            if wanted in (None, subject):
                count = benchmark.shots if shots is None else shots
                tasks[name, subject] = local_task(name, subject, config, folder / (benchmark.folder or name), count, missing)
    if missing:
        raise Refused(missing_text(missing))
    return tasks


def missing_text(missing):
    lines = ["--data: files are missing (or the same with the ending json, csv or parquet):"]
    lines += [f"  {path}" for _, path in missing[:MOST_NAMED]]
    if len(missing) > MOST_NAMED:
        lines.append(f"  and {len(missing) - MOST_NAMED} more")
    lines.append("Hugging Face's library writes them, where there is a network:")
    for name in dict.fromkeys(name for name, _ in missing):
        dataset, part = columns(name)
        arguments = ", ".join(json.dumps(text) for text in (dataset, part) if text)
        place = f"DIR/{BENCHMARKS[name].folder or name}/" + ("SUBJECT/" if BENCHMARKS[name].has_subjects() else "")
        lines.append(f"  {name}: for part, rows in datasets.load_dataset({arguments}).items(): rows.to_json(f\"{place}{{part}}.jsonl\")")
    return "\n".join(lines)
