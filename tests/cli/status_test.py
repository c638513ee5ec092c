"""moh status: how far runs are, by their folders alone."""

import json
import os
import signal
import socket
import time
import unittest

import support


class Status(support.MohTest):
    def status(self, *arguments, **options):
        return json.loads(self.moh("status", *arguments, "--json", **options))

    def test_a_finished_run(self):
        self.train({"eval.every": 4})
        (run,) = self.status("run")
        records = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        trained, evaluated = ([record for record in records if record["kind"] == kind][-1] for kind in ("train", "eval"))
        self.assertEqual((run["state"], run["step"], run["steps"], run["seconds_left"]), ("finished", 8, 8, None))
        self.assertEqual(run["training"], {key: trained[key] for key in ("loss", "tokens_per_s")})
        self.assertEqual(run["validation"], {"loss": evaluated["loss"], "step": 8})
        self.assertLess(run["seconds_since"], 60)
        self.assertRegex(self.moh("status", "run"), rf"^run  finished  step 8 of 8, 100%  0:\d\d ago  loss {trained['loss']:.4f}, .* tokens_per_s; "
                         rf"held out at step 8: loss {evaluated['loss']:.4f}\n$")

    def test_epochs_are_counted_in_steps(self):
        self.write("shapes.yaml", "task: image_classification\ndata: {drawn: 16}\nmodel: {classes: 8, image_size: 32, architecture: vit, "
                   "vit: {patch_size: 16, layers: 1, hidden: 16, heads: 2}}\ntrain: {epochs: 3, batch_size: 4}\nlog: {every: 1}\noutput: {dir: shapes}\n")
        self.moh("train", "shapes.yaml")
        (run,) = self.status("shapes")
        self.assertEqual((run["step"], run["steps"], run["state"]), (12, 12, "finished"))

    def test_runs_below_a_folder_in_the_order_of_their_names(self):
        for name in ("runs/b", "runs/a/2", "runs/a/1"):
            self.train({"output.dir": name, "train.steps": 1})
        self.assertEqual([run["folder"] for run in self.status()], ["runs/a/1", "runs/a/2", "runs/b"])
        self.assertEqual(len(self.moh("status", "runs/a", "runs/b").splitlines()), 3)

    def test_a_running_one_a_killed_one_and_a_stopped_one(self):
        process = support.start(self.folder, "train", self.config({"train.steps": 1000000, "log.every": 1, "checkpoint.every": 1}))
        metrics = self.folder / "run/metrics.jsonl"
        try:
            while not metrics.exists() or len(metrics.read_bytes().splitlines()) < 3:
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            (run,) = self.status("run")
            self.assertEqual((run["state"], run["steps"]), ("running", 1000000))
            self.assertGreater(run["seconds_left"], 0)
            self.assertRegex(self.moh("status", "run"), r"^run  running  step \d+ of 1000000, 0%  \S+( \S+)? left  loss ")
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.assertEqual(self.status("run")[0]["state"], "killed")
        lock = self.folder / "run/.lock"
        lock.write_text(f"host other-{socket.gethostname()}, process 1, since 2026-01-01T00:00:00Z\n")
        self.assertEqual(self.status("run")[0]["state"], f"running on other-{socket.gethostname()}")
        lock.write_text("")
        self.assertEqual(self.status("run")[0]["state"], "stopped")

    def test_looking_leaves_the_folder_as_it_is(self):
        self.train()
        before = {path: path.stat().st_mtime_ns for path in (self.folder / "run").rglob("*")}
        os.chmod(self.folder / "run/metrics.jsonl", 0o444)
        self.moh("status", "run")
        self.assertEqual({path: path.stat().st_mtime_ns for path in (self.folder / "run").rglob("*")}, before)

    def test_what_is_no_run_or_damaged(self):
        self.assert_says(self.moh("status", code=support.INPUT_ERROR), "runs: expected the folder of a run, or one with runs in it")
        (self.folder / "empty").mkdir()
        self.assert_says(self.moh("status", "empty", code=support.INPUT_ERROR), "empty: expected the folder of a run")
        (self.folder / "begun/.lock").parent.mkdir()
        (self.folder / "begun/.lock").touch()
        self.assertEqual(self.status("begun")[0]["state"], "not started")
        self.write("torn/metrics.jsonl", '{"kind":"train","step":3,"loss":2.5}\n{"kind":"train","st')
        self.assertEqual(self.status("torn")[0]["training"], {"loss": 2.5})
        (self.folder / "piped").mkdir()
        os.mkfifo(self.folder / "piped/metrics.jsonl")
        self.assert_says(self.moh("status", "piped", code=support.INPUT_ERROR), "piped/metrics.jsonl: expected a file that can be read")
        self.write("bad/metrics.jsonl", '{"kind":"train","step":3,\n')
        self.assert_says(self.moh("status", "bad", code=support.INPUT_ERROR), "bad/metrics.jsonl: expected records of moh", "column")


if __name__ == "__main__":
    unittest.main()
