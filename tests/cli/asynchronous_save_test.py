"""Checkpoints that are written while the training goes on: one at a time, of the step that they name, and none is lost."""

import time

import support

SLOW = {"train.steps": 6, "checkpoint.every": 1, "checkpoint.keep_last": 100, "eval.every": 0}


class AsynchronousSave(support.MohTest):
    def setUp(self):
        super().setUp()
        if not support.build_has_failpoints():
            self.skipTest("a build without failure points")

    def contents(self, run):
        return {path.relative_to(self.folder / run).as_posix(): path.read_bytes()
                for path in (self.folder / run / "checkpoints").rglob("*.safetensors")}

    def test_slow_writes_have_the_bytes_of_their_step(self):
        slow = ",".join(f"ckpt:after_write_{n}=slow" for n in (1, 3, 6))
        settings = {**SLOW, "ema.decay": 0.9, "eval.every": 2, "train.batch_size": 16}
        self.train(settings, env={"MOH_FAIL": slow})
        self.train({**settings, "checkpoint.asynchronous": False}, "output.dir=waiting")
        written = self.contents("run")
        self.assertEqual(len(self.checkpoints()), 6)
        self.assertEqual(written, self.contents("waiting"))
        self.assert_same_history("run", "waiting")
        self.assert_no_litter()

    def test_the_end_of_a_run_waits(self):
        began = time.monotonic()
        self.train({**SLOW, "checkpoint.every": 0}, env={"MOH_FAIL": "ckpt:before_publish_1=slow"})
        self.assertGreater(time.monotonic() - began, 0.5)
        self.assertEqual([path.name for path in self.checkpoints()], ["step_00000006"])

    def test_a_failed_write_ends_the_run_at_the_next_update(self):
        output = self.train(SLOW, code=support.STORAGE_ERROR, env={"MOH_FAIL": "ckpt:after_write_9=slow,io:fsync_14=EIO"})
        self.assert_says(output, "error: ")
        steps = [path.name for path in self.checkpoints()]
        last = [record["step"] for record in support.metrics(self.folder / "run") if record["kind"] == "train"][-1]
        self.assertLessEqual(last, int(steps[-1][5:]) + 1, "the training went on after a failed save")
        self.assert_no_litter()
        self.train(SLOW, "--resume")
        self.train(SLOW, "output.dir=whole")
        self.assertEqual(self.contents("run"), self.contents("whole"))

    def test_an_error_of_the_training_does_not_lose_the_save_under_way(self):
        output = self.train({**SLOW, "checkpoint.keep_best": False}, code=support.NUMERIC_ABORT,
                            env={"MOH_FAIL": "train:loss_4=nan,ckpt:before_publish_3=slow"})
        self.assert_says(output, "step 4: loss nan")
        self.assertEqual([path.name for path in self.checkpoints()], [f"step_{step:08}" for step in (1, 2, 3)])


if __name__ == "__main__":
    support.main()
