"""Where scripts/export_metrics.py brings records to: W&B's offline mode, and MLflow's stores."""

import math
import os
import re
import time

BESIDE = ("kind", "step", "unix_time", "non_finite", "event", "picture")  # fields that are no numbers
METRICS_AT_ONCE = 1000  # MLflow takes no more
LONGEST_PARAMETER = 500  # of older versions of MLflow


def number_of(value, not_finite):
    """A number, also one that JSON lacks; None for what is none."""
    if value is None:
        return float(not_finite) if not_finite in ("inf", "-inf") else math.nan
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def numbers_of(kind, record):
    """({name: number}, {name: a number for each head}), named as in TensorBoard."""
    numbers, of_heads = {}, {}
    if "event" in record:
        numbers[f"{kind}/{record['event']}"] = 1.0
    for field, value in record.items():
        name = f"{kind}/{field}"
        if field in BESIDE:
            continue
        if not isinstance(value, list):
            numbers[name] = number_of(value, record.get("non_finite", {}).get(field))
            continue
        for layer, of_layer in enumerate(value):
            if isinstance(of_layer, list) and of_layer and None not in of_layer:
                of_heads[f"{name}/layer_{layer}"] = of_layer
            elif isinstance(of_layer, (int, float)):
                numbers[f"{name}/layer_{layer}"] = float(of_layer)
    return {name: number for name, number in numbers.items() if number is not None}, of_heads


def flat(config, prefix=""):
    """(key.of.sections, value) of a configuration."""
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


class Wandb:
    """Runs of Weights & Biases; a further start has the identity of the first, so that `wandb sync` appends it."""

    def __init__(self, options, wandb):
        self.options, self.wandb = options, wandb
        self.place = f"wandb {options.project}"

    def open(self, source, note):
        """Begins to add to a run. `note` is what was kept of it, {} in the beginning."""
        self.least = max(note.get("last", {}).values(), default=0)
        settings = self.wandb.Settings(silent=True, console="off", disable_code=True, disable_git=True)
        self.run = self.wandb.init(project=self.options.project, name=source.folder.resolve().name, id=source.identity, resume="allow",
                                   dir=str(self.options.out), mode="offline", config=source.config, settings=settings)

    def add(self, kind, step, record):
        numbers, of_heads = numbers_of(kind, record)
        loads = {name: self.wandb.Histogram(np_histogram=(heads, list(range(len(heads) + 1)))) for name, heads in of_heads.items()}
        self.run.log({**numbers, **loads}, step=max(step, self.least))  # an event of resuming may be of an earlier one, which W&B drops

    def close(self):
        self.run.finish()


class MLflow:
    """Runs of an experiment of MLflow. It knows no histograms: the loads of heads are in metrics.jsonl, which becomes an artifact."""

    def __init__(self, options, mlflow):
        uri = options.uri
        if uri is None:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # which newer versions ask for
            uri = (options.out / "mlruns").resolve().as_uri()
        self.entities, self.client = mlflow.entities, mlflow.MlflowClient(tracking_uri=uri)
        self.place, self.project = f"{uri} {options.project}", options.project

    def open(self, source, note):
        """Begins to add to a run. `note` is what was kept of it, {} in the beginning; the id is kept in it."""
        self.source, self.metrics = source, []
        if "id" not in note:
            found = self.client.get_experiment_by_name(self.project)
            experiment = found.experiment_id if found else self.client.create_experiment(self.project)
            note["id"] = self.client.create_run(experiment, run_name=source.folder.resolve().name).info.run_id
            parameters = [self.entities.Param(key, str(value)[:LONGEST_PARAMETER]) for key, value in flat(source.config)]
            for begin in range(0, len(parameters), 100):
                self.client.log_batch(note["id"], params=parameters[begin:begin + 100])
        self.id = note["id"]

    def add(self, kind, step, record):
        milliseconds = int(1000 * record.get("unix_time", time.time()))
        numbers, _ = numbers_of(kind, record)
        self.metrics += [self.entities.Metric(re.sub(r"[^\w\-. /]", "_", name), number, milliseconds, step)
                         for name, number in numbers.items()]
        while len(self.metrics) >= METRICS_AT_ONCE:
            self.flush()

    def flush(self):
        self.client.log_batch(self.id, metrics=self.metrics[:METRICS_AT_ONCE])
        del self.metrics[:METRICS_AT_ONCE]

    def close(self):
        if self.metrics:
            self.flush()
        for name in ("metrics.jsonl", "config.yaml"):
            self.client.log_artifact(self.id, str(self.source.folder / name))
        self.client.set_terminated(self.id)


TARGETS = {"wandb": Wandb, "mlflow": MLflow}
