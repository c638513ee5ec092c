"""guard.spike: a step far above those before is not made, on all processes, and leaves no trace in what follows."""

import json
import random

import support

SPIKE = {"guard.spike.loss": 4, "guard.spike.window": 5, "train.steps": 12, "checkpoint.every": 1,
         "checkpoint.keep_last": 100, "eval.every": 0}


class Spike(support.MohTest):
    def setUp(self):
        super().setUp()
        if not support.build_has_failpoints():
            self.skipTest("a build without failure points")

    def events(self, run="run"):
        return [record for record in support.metrics(self.folder / run)
                if record["kind"] == "event" and record["event"] != "resume"]

    def weights(self, step, run="run"):
        folder = self.folder / run / "checkpoints" / f"step_{step:08}"
        files = sorted(folder.glob("*.safetensors"))
        self.assertGreaterEqual(len(files), 2)
        return [file.read_bytes() for file in files]

    def state(self, step, run="run"):
        return json.loads((self.folder / run / "checkpoints" / f"step_{step:08}" / "trainer.json").read_text())

    def test_a_flipped_bit_is_caught_by_the_norm_of_the_gradients(self):
        settings = {**SPIKE, "guard.spike.loss": 0, "guard.spike.grad_norm": 6, "ema.decay": 0.9}
        output = self.train(settings, env={"MOH_FAIL": "train:loss_8=flip"})
        self.assert_says(output, "warning: step 8: loss ", "far above the steps before (guard.spike)")
        (event,) = self.events()
        self.assertEqual((event["step"], event["event"]), (8, "spike"))
        self.assertGreater(event["grad_norm"], 1e15)
        self.assertEqual(self.weights(7), self.weights(8))
        self.assertEqual(len(self.weights(8)), 3)  # of the model, its average, and the optimiser
        # The window has the steps that were made alone: 3 to 7.
        self.assertEqual(len(self.state(8)["recent_grad_norms"]), 5)
        self.assertEqual(self.state(7)["recent_grad_norms"], self.state(8)["recent_grad_norms"])
        self.assertEqual(self.state(8)["optimizer_steps"], 7)

    def test_a_poisoned_batch_is_skipped_each_time_it_comes(self):
        words = support.text_of_words(400)
        noise = bytes(random.Random(1).randrange(128, 256) for _ in range(40))
        self.write("text.txt", words.encode() + noise + words.encode())
        self.train({"guard.spike.loss": 6, "guard.spike.window": 10, "train.steps": 120, "train.batch_size": 2,
                    "optim.learning_rate": 0.01, "eval.every": 0, "checkpoint.every": 0})
        spikes = self.events()
        self.assertGreaterEqual(len(spikes), 1)
        losses = support.losses(self.folder / "run")
        for spike in spikes:
            before = losses[max(0, spike["step"] - 6):spike["step"] - 1]
            self.assertGreater(spike["loss"], max(before))

    def test_a_guard_that_sees_nothing_changes_nothing(self):
        self.train({**SPIKE, "guard.spike.loss": 1000, "guard.spike.grad_norm": 1000})
        self.train({**SPIKE, "guard.spike.loss": 0}, "output.dir=plain")
        for step in (6, 12):
            self.assertEqual(self.weights(step), self.weights(step, "plain"))
        self.assertEqual(support.losses(self.folder / "run"), support.losses(self.folder / "plain"))

    def test_a_resumed_run_has_the_limits_of_one_that_was_not_stopped(self):
        settings = {**SPIKE, "guard.spike.grad_norm": 0.5, "guard.spike.loss": 0, "schedule.decay_steps": 12}
        self.train(settings, "output.dir=whole")
        self.train(settings, "train.steps=7")
        self.train(settings, "--resume")
        self.assertTrue(self.events(), "no step was skipped: the test shows nothing")
        fields = ("step", "event", "loss", "grad_norm")
        self.assertEqual(*([[event[field] for field in fields] for event in self.events(run)]
                           for run in ("run", "whole")))
        self.assertEqual(self.weights(12), self.weights(12, "whole"))

    def test_too_many_in_a_row_end_the_run(self):
        flips = ",".join(f"train:loss_{step}=flip" for step in (8, 9, 10))
        output = self.train({**SPIKE, "guard.spike.grad_norm": 6, "guard.max_skipped": 2},
                            code=support.NUMERIC_ABORT, env={"MOH_FAIL": flips})
        self.assert_says(output, "error: train: step 10: loss ", "after 2 skipped steps in a row", "guard.spike.grad_norm")

    def test_nan_in_one_loss(self):
        output = self.train({**SPIKE, "guard.non_finite": "skip", "guard.spike.loss": 0},
                            env={"MOH_FAIL": "train:loss_8=nan"})
        self.assert_says(output, "warning: step 8: loss nan")
        self.assertEqual(self.weights(7), self.weights(8))
        self.train({**SPIKE, "guard.spike.loss": 0}, "--overwrite", code=support.NUMERIC_ABORT,
                   env={"MOH_FAIL": "train:loss_8=nan"})


if __name__ == "__main__":
    support.main()
