"""scripts/export_metrics.py: what it tells W&B and MLflow. Packages that record their calls stand in for both."""

import json
import math
import os
import pathlib
import subprocess
import sys

import support

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import metric_targets

RECORDER = """
import json, pathlib
def call(*words, **values):
    with open(pathlib.Path(__file__).with_name("calls"), "a") as calls:
        calls.write(json.dumps([*words, values]) + "\\n")
"""
WANDB = """
import recorder
def Settings(**values):
    return values
def Histogram(np_histogram):
    return {"histogram": np_histogram}
class Run:
    def log(self, values, step):
        recorder.call("log", step, values)
    def finish(self):
        recorder.call("finish")
def init(**values):
    recorder.call("init", **values)
    return Run()
"""
MLFLOW = """
import types, recorder
entities = types.SimpleNamespace(Metric=lambda *values: values, Param=lambda *values: values)
class MlflowClient:
    def __init__(self, tracking_uri):
        self.uri = tracking_uri
    def get_experiment_by_name(self, name):
        return None
    def create_experiment(self, name):
        recorder.call("experiment", name, self.uri)
        return "7"
    def create_run(self, experiment, run_name):
        recorder.call("run", experiment, run_name)
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id="id of " + run_name))
    def log_batch(self, run, metrics=(), params=()):
        assert len(metrics) <= 1000 and len(params) <= 100
        recorder.call("batch", run, metrics=metrics, params=params)
    def log_artifact(self, run, path):
        recorder.call("artifact", run, path)
    def set_terminated(self, run):
        recorder.call("terminated", run)
"""


class ExportMetrics(support.MohTest):
    def setUp(self):
        super().setUp()
        for name, text in (("recorder", RECORDER), ("wandb", WANDB), ("mlflow", MLFLOW)):
            self.write(f"packages/{name}.py", text)

    def export(self, *arguments, code=0):
        """What the script prints, and the calls that it made."""
        calls = self.folder / "packages/calls"
        calls.unlink(missing_ok=True)
        command = [sys.executable, "-B", str(SCRIPTS / "export_metrics.py"), *arguments]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=support.TIMEOUT_SECONDS,
                                env={**os.environ, "PYTHONPATH": str(self.folder / "packages")})
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        return result.stdout + result.stderr, [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []

    def test_wandb_gets_what_is_new(self):
        self.train({"train.steps": 4})
        said, calls = self.export("--to", "wandb", "run", "--out", "out")
        self.assertIn("run: 6 records added", said)  # 4 of steps, one each of routers and of the evaluation
        (begun,) = (values for name, *_, values in calls if name == "init")
        self.assertEqual((begun["project"], begun["name"], begun["mode"], begun["dir"]), ("moh", "run", "offline", "out"))
        self.assertEqual(begun["config"]["model"]["moh"]["top_k"], 1)
        logged = [(step, values) for name, *rest in calls if name == "log" for step, values, _ in (rest,)]
        records = support.metrics(self.folder / "run")
        self.assertEqual([step for step, _ in logged], [record["step"] for record in records])
        self.assertEqual([values["train/loss"] for _, values in logged if "train/loss" in values], support.losses(self.folder / "run"))
        self.assertEqual(logged[0][1]["train/head_load/layer_1"], {"histogram": [records[0]["head_load"][1], [0, 1, 2, 3]]})
        self.assertEqual(logged[0][1]["train/router_margin/layer_0"], records[0]["router_margin"][0])
        # A resumed run adds its new steps to the same one, a second start nothing.
        self.assertEqual(self.export("--to", "wandb", "run", "--out", "out"), ("run: 0 records added\n", []))
        self.train({"train.steps": 6}, "--resume", "--allow-changes")
        _, further = self.export("--to", "wandb", "run", "--out", "out")
        self.assertEqual(further[0][-1]["id"], begun["id"])
        steps = [rest[0] for name, *rest in further if name == "log"]
        self.assertEqual((set(steps), sum("train/loss" in rest[1] for name, *rest in further if name == "log")), ({4, 5, 6}, 2))
        self.assertEqual(steps, sorted(steps))
        # Another training in the folder is another run.
        self.train({"train.steps": 4}, "--overwrite")
        _, other = self.export("--to", "wandb", "run", "--out", "out")
        self.assertNotEqual(other[0][-1]["id"], begun["id"])

    def test_mlflow_gets_what_is_new(self):
        self.train({"train.steps": 4})
        self.train({"train.steps": 4, "output.dir": "second"})
        said, calls = self.export("--to", "mlflow", "run", "second", "--project", "heads")
        self.assertIn("second: 6 records added", said)
        self.assertEqual(calls[0][:3], ["experiment", "heads", (self.folder / "mlruns").resolve().as_uri()])
        self.assertEqual([call[2] for call in calls if call[0] == "run"], ["run", "second"])
        batches = [call[2] for call in calls if call[:2] == ["batch", "id of run"]]
        self.assertIn(["model.moh.top_k", "1"], sum((batch["params"] for batch in batches), []))
        metrics = sum((batch["metrics"] for batch in batches), [])
        records = [record for record in support.metrics(self.folder / "run") if record["kind"] == "train"]
        self.assertEqual([metric for metric in metrics if metric[0] == "train/loss"],
                         [["train/loss", record["loss"], int(1000 * record["unix_time"]), record["step"]] for record in records])
        self.assertFalse([metric for metric in metrics if "head_load" in metric[0]])
        kept = [pathlib.Path(call[2]).name for call in calls if call[:2] == ["artifact", "id of run"]]
        self.assertEqual(kept, ["metrics.jsonl", "config.yaml"])
        with open(self.folder / "run/metrics.jsonl", "a", encoding="utf-8") as file:
            file.write('{"kind":"event","step":4,"event":"spike","loss":null,"non_finite":{"loss":"inf"},"unix_time":2}\n{"kind":"tr')
        _, further = self.export("--to", "mlflow", "run", "second", "--project", "heads")
        metrics = [["event/spike", 1, 2000, 4], ["event/loss", math.inf, 2000, 4]]
        self.assertEqual([call for call in further if call[0] == "batch"], [["batch", "id of run", {"metrics": metrics, "params": []}]])

    def test_names_are_those_of_tensorboard(self):
        record = {"kind": "train", "step": 3, "loss": 1, "grad_norm": None, "spread": None, "margin": [0.5, None],
                  "head_load": [[0.5, 1], []], "unix_time": 1, "non_finite": {"grad_norm": "-inf"}, "picture": "a.png"}
        numbers, of_heads = metric_targets.numbers_of("train", record)
        self.assertTrue(math.isnan(numbers.pop("train/spread")))
        self.assertEqual(numbers, {"train/loss": 1, "train/grad_norm": -math.inf, "train/margin/layer_0": 0.5})
        self.assertEqual(of_heads, {"train/head_load/layer_0": [0.5, 1]})

    def test_what_is_refused(self):
        self.write("damaged/metrics.jsonl", '{"kind":"train","step":1}\nhello\n')
        self.write("damaged/config.yaml", "seed: 1\n")
        self.write("fresh/metrics.jsonl", "")
        for arguments, code, said in ((("--to", "wandb", "none"), 1, "none/metrics.jsonl: cannot be read"),
                                      (("--to", "wandb", "damaged"), 1, "damaged/metrics.jsonl: line 2: expected a record with kind"),
                                      (("--to", "wandb", "fresh"), 0, "fresh: no records yet"),
                                      (("--to", "wandb", "fresh", "--uri", "sqlite:///x"), 2, "--uri: expected --to mlflow"),
                                      (("--to", "comet", "fresh"), 2, "invalid choice: 'comet'")):
            with self.subTest(arguments=arguments):
                self.assertIn(said, self.export(*arguments, code=code)[0])
        (self.folder / "packages/wandb.py").write_text("import nothing_of_this_name\n")
        self.assertIn("has no wandb; install it with pip", self.export("--to", "wandb", "fresh", code=1)[0])


if __name__ == "__main__":
    support.main()
