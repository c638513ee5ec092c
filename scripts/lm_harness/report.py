"""The scores of benchmarks, and beside them those of the paper."""

from .benchmarks import BENCHMARKS, leaves
from .paper import TABLES


def number_of(value):
    return value if isinstance(value, (int, float)) else None


def pooled(parts):
    """Score, standard error and number of questions of several subjects, as the harness pools a group: weighted by questions."""
    count = sum(part["questions"] for part in parts)
    score = sum(part["score"] * part["questions"] for part in parts) / count
    if any(part["stderr"] is None for part in parts) or count <= len(parts):
        return {"score": score, "stderr": None, "questions": count}
    variance = sum((part["questions"] - 1) * part["stderr"] ** 2 * part["questions"] for part in parts) / (count - len(parts))
    return {"score": score, "stderr": (variance / count) ** 0.5, "questions": count}


def part_of(found, task, score):
    """The chosen score of one of the harness's tasks."""
    metric, way = score.split(",")
    values = found["results"][task]
    return {"score": values[score], "stderr": number_of(values.get(f"{metric}_stderr,{way}")), "questions": found["questions"][task],
            "shots": found["shots"].get(task),
            "scores": {key: value for key, value in values.items() if "," in key and number_of(value) is not None}}


def scores_of(found, tasks):
    """{benchmark: score, stderr, questions, shots, and either scores, subjects or members}, of {(benchmark, subject): task}."""
    results = {}
    for name in dict.fromkeys(name for name, _ in tasks):
        parts = {subject: part_of(found, tasks[each, subject]["task"], BENCHMARKS[name].score)
                 for each, subject in tasks if each == name}
        if BENCHMARKS[name].has_subjects():
            results[name] = {**pooled(list(parts.values())), "shots": next(iter(parts.values()))["shots"], "subjects": parts}
        else:
            results[name] = parts[""]
    for name, benchmark in BENCHMARKS.items():
        if benchmark.members and all(member in results for member in benchmark.members):
            mean = sum(results[member]["score"] for member in benchmark.members) / len(benchmark.members)
            results[name] = {"score": mean, "stderr": None, "questions": results[benchmark.members[0]]["questions"],
                             "shots": results[benchmark.members[0]]["shots"], "members": list(benchmark.members)}
    return results


def is_share(name):
    return "perplexity" not in BENCHMARKS[name].score


def shown(name, value):
    return f"{100 * value:.1f}" if is_share(name) else f"{value:.3f}"


def score_lines(results):
    lines = [f"{'benchmark':16} {'shots':>5} {'questions':>9}  {'score':24} {'value':>9}"]
    for name, result in results.items():
        score = "average" if BENCHMARKS[name].members else BENCHMARKS[name].score.removesuffix(",none")
        error = f"  +- {shown(name, result['stderr'])}" if result["stderr"] is not None else ""
        lines.append(f"{name:16} {result['shots']!s:>5} {result['questions']:>9}  {score:24} {shown(name, result['score']):>9}{error}")
    return lines


def beside_paper(results, checkpoint):
    """For each of the paper's tables with an asked benchmark: (table, {model: scores and average, None where there is none}),
    this model's first."""
    tables = []
    for table in TABLES.values():
        asked = [name for name in table.benchmarks if name in results]
        if not asked:
            continue
        ours = [100 * results[name]["score"] if name in results else None for name in table.benchmarks]
        ours.append(sum(ours) / len(ours) if len(asked) == len(table.benchmarks) else None)
        tables.append((table, {str(checkpoint): tuple(ours), **table.models}))
    return tables


def paper_lines(results, checkpoint):
    lines = []
    for table, models in beside_paper(results, checkpoint):
        keep = [i for i, name in enumerate(table.benchmarks) if name in results]
        columns = [table.benchmarks[i] for i in keep]
        if len(keep) == len(table.benchmarks):
            keep.append(len(keep))
            columns.append("average")
        width = max(map(len, models)) + 2
        lines += ["", f"beside the MoH paper's {table.title} (arXiv 2410.11842), percent",
                  " " * width + "".join(f"{name:>{max(len(name), 5) + 2}}" for name in columns)]
        for model, scores in models.items():
            cells = [f"{scores[i]:.1f}".rjust(max(len(name), 5) + 2) for i, name in zip(keep, columns)]
            lines.append(f"{model:{width}}" + "".join(cells))
    return lines


def asked_names(results):
    """The names without members that are shown by their mean alone."""
    hidden = {member for name in results for member in leaves(name) if member != name}
    return {name: result for name, result in results.items() if name not in hidden}
