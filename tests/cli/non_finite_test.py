"""A loss or gradient that is not finite never reaches the weights."""

import json

import support

# The first step makes weights so large that the next ones compute with infinities.
EXPLODING = {"optim.learning_rate": 1e30, "schedule.warmup_steps": 0, "schedule.warmup_start": 0,
             "schedule.kind": "constant", "checkpoint.every": 1, "checkpoint.keep_last": 100, "eval.every": 0}


class NonFinite(support.MohTest):
    def events(self):
        return [record for record in support.metrics(self.folder / "run") if record["kind"] == "event"]

    def weights(self):
        return {path.name: (path / "model.safetensors").read_bytes() for path in self.checkpoints()}

    def test_stop(self):
        output = self.train(EXPLODING, code=support.NUMERIC_ABORT)
        self.assert_says(output, "error: train: step 2: loss ", "expected finite numbers",
                         "the last checkpoint is intact", "optim.learning_rate", "guard.non_finite: skip")
        self.assertEqual([path.name for path in self.checkpoints()], ["step_00000001"])
        (event,) = self.events()
        self.assertEqual((event["step"], event["event"]), (2, "non_finite"))
        # JSON has no such numbers: the value is null, and another field names it.
        self.assertIsNone(event["grad_norm"])
        self.assertIn(event["non_finite"]["grad_norm"], ("nan", "inf"))
        # Nothing was lost, so that a gentler rate can go on from there.
        self.moh("eval", "--checkpoint", "run")

    def test_skip_gives_up_in_the_end(self):
        settings = {**EXPLODING, "guard.non_finite": "skip", "guard.max_skipped": 3}
        output = self.train(settings, code=support.NUMERIC_ABORT)
        self.assert_says(output, *(f"warning: step {step}: loss " for step in (2, 3, 4)),
                         "this step's update is skipped", "error: train: step 5: loss ",
                         "after 3 skipped steps in a row")
        self.assertNotIn("set guard.non_finite: skip", output)
        weights = self.weights()
        self.assertEqual(list(weights), [f"step_{step:08}" for step in (1, 2, 3, 4)])
        self.assertEqual(len(set(weights.values())), 1, "a skipped step changed the weights")
        trainer = json.loads((self.newest() / "trainer.json").read_text())
        self.assertEqual((trainer["step"], trainer["optimizer_steps"], trainer["skipped_in_row"]), (4, 1, 3))
        self.assertEqual([event["step"] for event in self.events()], [2, 3, 4, 5])

    def test_the_count_of_skipped_steps_survives_a_stop(self):
        settings = {**EXPLODING, "guard.non_finite": "skip", "guard.max_skipped": 3}
        self.train(settings, "train.steps=3")
        output = self.train(settings, "--resume", "train.steps=8", code=support.NUMERIC_ABORT)
        self.assert_says(output, "error: train: step 5: ", "after 3 skipped steps in a row")

    def test_the_guard_costs_a_sound_run_nothing(self):
        self.train({}, "output.dir=stop")
        self.train({}, "output.dir=skip", "guard.non_finite=skip")
        self.assert_same_state("stop", "skip")
        self.assert_same_history("stop", "skip")


if __name__ == "__main__":
    support.main()
