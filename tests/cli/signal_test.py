"""A signal or the time limit ends a run with everything saved, and it goes on as if it had not been stopped."""

import json
import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

import support

STEPS = 600  # which take long enough on any machine for a signal to arrive

# What a thread does to itself; sanitizers report it from a handler, and the process ends there.
FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT)


def signal_masks(status):
    """The bit masks of a /proc/.../status file, by name: SigBlk, SigCgt, ShdPnd ..."""
    fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
    return {name: int(value, 16) for name, value in fields.items() if name.startswith("Sig") or name == "ShdPnd"
            if name != "SigQ"}


def pending_signals(pid):
    """Signals that were sent to the process and not delivered yet, as a bit mask."""
    masks = signal_masks(pathlib.Path(f"/proc/{pid}/status"))
    return masks["ShdPnd"] | masks["SigPnd"]


class StopSignals(support.MohTest):
    def stop(self, number, name):
        """Stops a run in its middle; it must end with the step that it was in, saved."""
        config = self.config({"train.steps": STEPS, "checkpoint.every": 50, "eval.every": 0, "model.dropout": 0.1})
        run = support.Running(self, "train", config)
        run.read_until("step 5/")
        run.send(number)
        self.assertEqual(run.wait(), support.PREEMPTED, run.output)
        last = support.metrics(self.folder / "run")[-1]["step"]
        self.assertTrue(5 <= last < STEPS, run.output)
        self.assert_says(run.output, f"stopped by {name} at step {last}")
        self.assertEqual(self.newest().name, f"step_{last:08}")
        self.assert_no_litter()
        return config

    def check(self, number, name):
        config = self.stop(number, name)
        self.moh("train", config, "--resume")
        self.moh("train", config, "output.dir=whole")
        self.assert_same_state("whole", "run")
        self.assert_same_history("whole", "run")

    def test_no_signal_has_a_handler(self):
        # A handler would run on whatever thread the system picks, in the middle of a system call or an allocation.
        config = self.config({"train.steps": STEPS})
        run = support.Running(self, "train", config)
        run.read_until("step 5/")
        caught = signal_masks(pathlib.Path(f"/proc/{run.pid}/status"))["SigCgt"]
        asynchronous = sum(1 << number - 1 for number in range(1, 32) if number not in FAULTS)
        self.assertEqual(caught & asynchronous, 0)
        run.send(signal.SIGTERM)
        self.assertEqual(run.wait(), support.PREEMPTED, run.output)

    def test_sigint(self):
        self.check(signal.SIGINT, "SIGINT")

    def test_sigterm(self):
        self.check(signal.SIGTERM, "SIGTERM")

    def test_sigusr1(self):
        self.check(signal.SIGUSR1, "SIGUSR1")

    def test_sighup(self):
        self.check(signal.SIGHUP, "SIGHUP")

    def test_what_was_ignored_at_the_start_stays_ignored(self):
        def ignore():
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1):
                signal.signal(number, signal.SIG_IGN)

        config = self.config({"train.steps": STEPS})
        run = support.Running(self, "train", config, preexec_fn=ignore)
        run.read_until("step 5/")
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1):
            run.send(number)
        run.read_until("step 40/")
        run.send(signal.SIGTERM)
        self.assertEqual(run.wait(), support.PREEMPTED, run.output)
        self.assert_says(run.output, "stopped by SIGTERM")

    def test_a_step_of_many_micro_batches_is_given_up(self):
        settings = {"train.accumulate": 20_000, "train.batch_size": 1, "train.steps": 2, "eval.every": 0,
                    "checkpoint.every": 1, "model.dropout": 0.1}
        run = support.Running(self, "train", self.config(settings), pipe_bytes=1 << 16)
        run.read_until("model:")
        time.sleep(0.5)
        began = time.monotonic()
        run.send(signal.SIGTERM)
        self.assertEqual(run.wait(), support.PREEMPTED, run.output)
        self.assertLess(time.monotonic() - began, 5)
        self.assert_says(run.output, "stopped by SIGTERM at step 0")
        self.assertEqual(self.newest().name, "step_00000000")
        settings["train.accumulate"] = 3
        self.train(settings, "--resume", "--allow-changes")
        self.train(settings, "output.dir=whole")
        self.assert_same_state("whole", "run")

    def test_a_sample_is_stopped_and_written_by_the_next_process(self):
        settings = {"train.steps": 4, "sample.tokens": 1_000_000, "sample.temperature": 0}
        run = support.Running(self, "train", self.config(settings), pipe_bytes=1 << 16)
        run.read_until("step 4: validation")
        time.sleep(0.5)
        run.send(signal.SIGTERM)
        began = time.monotonic()
        self.assertEqual(run.wait(), support.PREEMPTED, run.output)
        self.assertLess(time.monotonic() - began, 5)
        self.assert_says(run.output, "stopped by SIGTERM in the sample", "finished at step 4")
        self.assertFalse((self.folder / "run/sample.txt").exists())
        self.assert_says(self.train({**settings, "sample.tokens": 4}, "--resume"), "--- sample ---")
        self.assertTrue((self.folder / "run/sample.txt").exists())

    def test_before_the_training_there_is_nothing_to_save(self):
        self.moh("train", self.config({**support.DENSE, "output.dir": "dense"}, "dense.yaml"))
        job = {key: value for key, value in support.TINY.items() if key != "model"}
        self.write("moh.yaml", support.to_yaml(
            {**job, "init": {"from": "dense", "moh": {"calibration": {"batches": 100_000}}},
             "model": {"moh": {"router": "learned", "num_shared": 1, "top_k": 1, "shared_heads": "loss_increase"}}}) + "\n")
        for existed in (False, True):
            if existed:
                self.write("run/notes.txt", "mine")
            run = support.Running(self, "train", "moh.yaml", pipe_bytes=1 << 16)
            deadline = time.monotonic() + support.TIMEOUT_SECONDS
            while not (self.folder / "run/checkpoints").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.3)
            run.send(signal.SIGTERM)
            began = time.monotonic()
            self.assertEqual(run.wait(), support.PREEMPTED, run.output)
            self.assertLess(time.monotonic() - began, 5)
            self.assert_says(run.output, "stopped by SIGTERM before the training began; nothing was written")
            if existed:
                self.assertEqual([path.name for path in (self.folder / "run").iterdir()], ["notes.txt"])
            else:
                self.assertFalse((self.folder / "run").exists())

    def test_a_second_sigterm_ends_at_once(self):
        config = self.config({"train.steps": STEPS, "checkpoint.every": 4, "eval.every": 0, "model.dropout": 0.1})
        run = support.Running(self, "train", config)
        run.read_until("step 5/")
        run.wait_until_blocked()  # it cannot come to its clean end now: the summary has no room
        run.send(signal.SIGTERM)
        # Two equal signals are one as long as the first has not been delivered.
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        while pending_signals(run.pid) and time.monotonic() < deadline:
            time.sleep(0.001)
        self.assertIsNone(run.process.poll(), "it did not wait for its pipe")
        run.send(signal.SIGTERM)
        self.assertEqual(run.process.wait(support.TIMEOUT_SECONDS), 128 + signal.SIGTERM)
        self.moh("train", config, "--resume")
        self.moh("train", config, "output.dir=whole")
        self.assert_same_state("whole", "run")

    def test_signals_during_saves_and_evaluations(self):
        # Nearly all of the time goes into these two here.
        config = self.config({"train.steps": 30, "checkpoint.every": 1, "eval.every": 1, "model.dropout": 0.1})
        self.moh("train", config, "output.dir=whole")
        draw = random.Random(7)
        stops = 0
        for _ in range(100):
            run = support.Running(self, "train", config, "--resume", "--log-level", "debug", pipe_bytes=1 << 16)
            run.read_until("model:")
            time.sleep(draw.uniform(0.0, 0.05))
            run.send(signal.SIGTERM)
            code = run.wait()
            saved = [line.split("step ")[1].split(":")[0] for line in run.output.splitlines() if ": saved" in line]
            self.assertEqual(len(saved), len(set(saved)), f"a step was saved twice:\n{run.output}")
            if code == support.DONE:
                break
            self.assertEqual(code, support.PREEMPTED, run.output)
            stops += "before the training began" not in run.output
        else:
            self.fail("the run never came to its end")
        self.assertGreater(stops, 0)
        self.assert_same_state("whole", "run")
        self.assert_same_history("whole", "run")


class StopInEvaluation(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("held_out.txt", support.text_of_words(50_000, seed=2))  # takes a second or so
        self.config_file = self.config({"data.validation": "held_out.txt", "eval.at_start": True,
                                        "checkpoint.keep_best": True, "model.dropout": 0.1})

    def records(self, kind):
        path = self.folder / "run/metrics.jsonl"
        return [r for r in support.metrics(self.folder / "run") if r["kind"] == kind] if path.exists() else []

    def stop(self, step, line=None):
        """Stops the run in the evaluation of a step: behind a line that it writes, or as soon as it begins."""
        before = len(self.records("event"))
        run = support.Running(self, "train", self.config_file, "--resume", pipe_bytes=1 << 16)
        if line:
            run.read_until(line)
        else:
            self.wait_for_trainer(run, before)
        run.send(signal.SIGTERM)
        self.assertEqual(run.wait(), support.PREEMPTED, run.output)
        self.assert_says(run.output, f"step {step}: the evaluation was interrupted", f"stopped by SIGTERM at step {step}")
        self.assertNotIn(step, [record["step"] for record in self.records("eval")])
        self.assertEqual(self.newest().name, f"step_{step:08}")
        self.assertIsNone(self.metric("run"))
        self.assert_no_litter()

    def wait_for_trainer(self, run, events):
        """Until it looks for signals, which it does before it opens its metrics; a resumed run leaves a record."""
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        begun = self.folder / "run/metrics.jsonl"
        while not begun.exists() or (self.checkpoints() and len(self.records("event")) == events):
            self.assertTrue(run.process.poll() is None and time.monotonic() < deadline, "the run did not begin")
            time.sleep(0.001)

    def metric(self, run):
        return json.loads((self.newest(run) / "manifest.json").read_text()).get("metric")

    def test_an_evaluation_is_stopped_and_done_again(self):
        self.stop(0)
        self.stop(4, "step 4/8")
        self.stop(4)
        self.stop(8, "step 8/8")
        self.moh("train", self.config_file, "--resume")
        self.moh("train", self.config_file, "output.dir=whole")
        self.assert_same_state("whole", "run")
        self.assert_same_history("whole", "run")
        self.assertEqual([record["step"] for record in self.records("eval")], [0, 4, 8])
        self.assertIsNotNone(self.metric("run"))
        self.assertEqual(self.metric("run"), self.metric("whole"))

    @unittest.skipUnless(support.build_has_failpoints(), "this build has no failure points")
    def test_a_kill_after_the_evaluation_leaves_its_record_once(self):
        self.stop(0)
        self.moh("train", self.config_file, "--resume", code=-signal.SIGKILL, env={"MOH_FAIL": "ckpt:before_publish_1"})
        self.assertEqual([record["step"] for record in self.records("eval")], [0])
        self.moh("train", self.config_file, "--resume")
        self.assertEqual([record["step"] for record in self.records("eval")], [0, 4, 8])

    def test_moh_eval_ends_at_once(self):
        self.write("text.txt", support.text_of_words(400))
        self.moh("train", self.config_file, "train.steps=4", "eval.max_tokens=1", "schedule.decay_steps=8")
        self.write("endless.txt", support.text_of_words(400_000, seed=2))
        process = support.start(self.folder, "eval", "--checkpoint", "run", "data=endless.txt", "eval.max_tokens=0",
                                stdout=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        cpu_time = pathlib.Path(f"/proc/{process.pid}/stat")
        while int(cpu_time.read_text().split()[13]) < 30:  # hundredths of a second: it is in its batches by then
            self.assertIsNone(process.poll())
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(support.TIMEOUT_SECONDS), -signal.SIGINT)


class ClosedPipe(support.MohTest):
    def test_a_run_outlives_whoever_reads_its_lines(self):
        config = self.config({"train.steps": STEPS, "eval.every": 20})
        run = support.Running(self, "train", config)
        run.read_until("step 5/")
        os.close(run.pipe)
        run.pipe = None
        self.assertEqual(run.process.wait(support.TIMEOUT_SECONDS), support.DONE)
        self.moh("train", config, "output.dir=whole")
        self.assert_same_state("whole", "run")
        self.assert_each_step_once("run", STEPS, eval_every=20)


class TimeLimit(support.MohTest):
    def test_a_run_stops_after_its_time_and_goes_on(self):
        # A constant rate: how many steps there are to be changes no step.
        settings = {"train.steps": 1_000_000, "schedule.kind": "constant", "log.every": 1000, "checkpoint.every": 0,
                    "eval.every": 0, "model.dropout": 0.1}
        began = time.monotonic()
        output = self.train(settings, "train.stop_after_seconds=0.4", code=support.PREEMPTED)
        self.assertLess(time.monotonic() - began, support.TIMEOUT_SECONDS / 2)
        self.assert_says(output, "stopped after 0.4 s at step ")
        stopped_at = int(self.newest().name.removeprefix("step_"))
        self.assertGreater(stopped_at, 0)
        end = f"train.steps={stopped_at + 5}"
        self.train(settings, "--resume", end)
        self.train(settings, end, "output.dir=whole")
        self.assert_same_state("whole", "run")


if __name__ == "__main__":
    support.main()
