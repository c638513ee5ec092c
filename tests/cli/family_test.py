"""A family that train/ does not know (tests/mlp_family) trains, evaluates, resumes, plans and is measured by the commands
as they are: MOH_BINARY is the program with that family in its table."""

import json
import time

import support

JOB = {
    "task": "mlp_classifier", "seed": 3, "threads": 1, "output": {"dir": "run"},
    "model": {"inputs": 16, "hidden": 64, "classes": 4}, "data": {"held_out": 128},
    "train": {"steps": 60, "batch_size": 32}, "optim": {"learning_rate": 0.01}, "schedule": {"warmup_steps": 2},
    "log": {"every": 1}, "eval": {"every": 10}, "checkpoint": {"every": 10, "keep_last": 1, "keep_best": True},
}


class Family(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("mlp.yaml", support.to_yaml(JOB) + "\n")

    def test_it_learns_and_is_judged_by_a_score_of_which_more_is_better(self):
        output = self.moh("train", "mlp.yaml")
        records = support.metrics(self.folder / "run")
        scores = [record["accuracy"] for record in records if record["kind"] == "eval"]
        self.assertEqual(len(scores), 6)
        self.assertGreater(scores[-1], 0.8)
        self.assertLess(scores[0], max(scores))
        self.assert_says(output, "points/s", "best validation accuracy", "points ")
        trained = [record for record in records if record["kind"] == "train"]
        self.assertEqual(trained[-1]["points"], 60 * 32)
        self.assertIn("points_per_s", trained[-1])
        evaluated = self.moh("eval", "--checkpoint", "run")
        self.assertEqual(float(evaluated.split("accuracy")[1].split()[0]), scores[-1])
        self.assert_says(self.moh("checkpoint", "info", "run"), "mlp_classifier")

    def test_the_best_checkpoint_is_that_of_the_highest_score(self):
        # From step 20 on a rate that destroys what was learnt: the best one is an old one.
        self.moh("train", "mlp.yaml", "train.steps=20", "schedule.kind=constant", "output.dir=whole")
        self.moh("train", "mlp.yaml", "schedule.kind=constant", "schedule.warmup_steps=40", "optim.learning_rate=30",
                 "output.dir=bad", "train.steps=40", "optim.clip_grad_norm=0")
        scores = {record["step"]: record["accuracy"] for record in support.metrics(self.folder / "bad")
                  if record["kind"] == "eval"}
        best = max(scores, key=lambda step: (scores[step], -step))
        kept = [int(folder.name.removeprefix("step_")) for folder in self.checkpoints("bad")]
        self.assertEqual(kept[-1], 40)
        self.assertIn(best, kept)

    def test_a_killed_run_resumes_bit_for_bit(self):
        self.moh("train", "mlp.yaml", "output.dir=whole")
        process = support.start(self.folder, "train", "mlp.yaml", "checkpoint.every=1", "train.steps=60",
                                stdout=(self.folder / "log").open("wb"))
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        while not (self.folder / "run/checkpoints").is_dir() or not self.checkpoints():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)
        process.kill()
        process.wait()
        self.moh("train", "mlp.yaml", "--resume")
        self.assert_same_state("whole", "run")

    def test_the_plan_is_what_a_step_takes(self):
        plan = json.loads(self.moh("plan", "mlp.yaml", "train.batch_size=500", "--json"))
        step = json.loads(self.moh("bench", "step", "mlp.yaml", "train.batch_size=500", "--random-data", "--steps", 2,
                                   "--warmup", 1, "--no-peaks", "--json"))
        (choice,) = plan["recompute"].values()
        measured = step["peak_bytes"]["total"]
        self.assertAlmostEqual(choice["peak_bytes"]["total"], measured, delta=0.05 * measured)
        self.assertEqual(plan["parameters"], step["parameters"])
        self.assertAlmostEqual(plan["flops_per_point"], step["flops_per_step"] / 500, places=3)
        self.assertGreater(step["points_per_s"], 0)
        self.assert_says(self.moh("plan", "mlp.yaml"), "FLOP per point", "points")

    def test_a_run_begins_with_the_weights_of_another(self):
        self.moh("train", "mlp.yaml")
        self.moh("train", "mlp.yaml", "init.from=run", "train.steps=10", "output.dir=next")
        scores = [record["accuracy"] for record in support.metrics(self.folder / "next") if record["kind"] == "eval"]
        self.assertGreater(scores[0], 0.8)

    def test_what_it_has_no_form_for_is_refused(self):
        self.moh("train", "mlp.yaml", "train.steps=2")
        self.moh("convert", "--from", "run", "--to", "weights.safetensors")
        self.assert_says(self.moh("convert", "--from", "run", "--to", "hf", "--format", "hf", code=support.CONFIG_ERROR),
                         "a model that Hugging Face's libraries know")
        self.assert_says(self.moh("generate", "--checkpoint", "run", "--prompt", "x", code=support.CONFIG_ERROR),
                         "expected a language model, found task: mlp_classifier")
        self.assert_says(self.moh("analyze", "--checkpoint", "run", code=support.CONFIG_ERROR),
                         "one whose models can be analysed, found mlp_classifier")
        self.moh("train", "mlp.yaml", "train.steps=2", "data.held_out=0", "output.dir=unheld")
        self.assert_says(self.moh("eval", "--checkpoint", "unheld", code=support.INPUT_ERROR),
                         "eval: there are no held-out data to evaluate on")
        self.assert_says(self.moh("config", "mlp.yaml", "model.heads=2", code=support.CONFIG_ERROR),
                         "model.heads: unknown key", "inputs, hidden, classes")


if __name__ == "__main__":
    support.main()
