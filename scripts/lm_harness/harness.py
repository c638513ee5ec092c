"""Runs lm-evaluation-harness against a server: `harness.py JOB RESULT`, both JSON files. A program of its own, as it runs under the
Python that has the harness, and ends with the server."""

import json
import os
import pathlib
import sys
import tempfile


def offline(home):
    os.environ.update(HF_HOME=home, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")


def evaluate(**settings):
    """lm_eval.simple_evaluate() without its description of the machine, which nobody reads here: for it pip, git and others would run, for a
    second or two."""
    from lm_eval import evaluator

    evaluator.add_env_info = lambda results: None
    return evaluator.simple_evaluate(**settings)


def run(job, home):
    import lm_eval
    from lm_eval.tasks import TaskManager

    folder = pathlib.Path(home, "tasks")
    folder.mkdir()
    for task in job["tasks"]:  # YAML, as JSON is
        (folder / f"{task['task']}.yaml").write_text(json.dumps(task, ensure_ascii=False), encoding="utf-8")
    names = [task["task"] for task in job["tasks"]] + job["files"]
    model = {"model": "moh", "base_url": job["url"] + "/v1/completions", "num_concurrent": job["clients"],
             "max_length": job["max_length"], "timeout": job["timeout"]}
    found = evaluate(
        model="local-completions", model_args=model, tasks=names, batch_size=job["batch"], limit=job["limit"],
        task_manager=TaskManager(include_path=str(folder), include_defaults=False), log_samples=job["samples"],
        fewshot_random_seed=1234, **({} if job["new_tokens"] is None else {"gen_kwargs": {"max_gen_toks": job["new_tokens"]}}))
    return {"version": lm_eval.__version__, "results": found["results"], "shots": found["n-shot"],
            "questions": {name: count["effective"] for name, count in found["n-samples"].items()},
            "samples": found.get("samples", {})}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        offline(temporary)
        done = run(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")), temporary)
    pathlib.Path(sys.argv[2]).write_text(json.dumps(done, ensure_ascii=False, default=str), encoding="utf-8")
