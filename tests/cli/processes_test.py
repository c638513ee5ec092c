"""A run in several processes, as mpirun starts them: the same steps as in one process up to rounding, the same bits in a
rerun, one writer, and an end together, whatever ends it."""

import json
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import time
import unittest

import support

COMM_ERROR = 6

# Each process waits for others, here often for a processor, so that busy machines take their time.
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"]
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}  # containers often forbid it
TIMEOUT_SECONDS = 240

# Sums in another order differ by rounding. AdamW divides by a gradient's own size, so that the rounding of one near zero
# counts as much as any; eps, here above the default, bounds that.
TEXT = {"train.batch_size": 2, "train.accumulate": 4, "optim.eps": 1e-4, "model.dropout": 0.1, "checkpoint.every": 0}
PICTURES = """
seed: 3
threads: 1
task: image_classification
output: {dir: run}
model:
  architecture: vit
  classes: 8
  image_size: 32
  vit: {patch_size: 8, layers: 2, hidden: 32, heads: 4, mlp_ratio: 2}
  moh: {router: learned, num_shared: 1, top_k: 1}
data: {drawn: 256, drawn_validation: 50}
train: {steps: 50, batch_size: 4, accumulate: 4}
optim: {learning_rate: 0.003, eps: 1.0e-4}
schedule: {warmup_steps: 2}
log: {every: 1}
eval: {every: 25}
checkpoint: {every: 0}
"""
DIFFUSION = """
seed: 3
threads: 1
task: diffusion
output: {dir: run}
""" + support.TINY_DIT + """\
data: {drawn: 256, drawn_validation: 50}
train: {steps: 50, batch_size: 4, accumulate: 4}
optim: {learning_rate: 0.003, eps: 1.0e-4}
schedule: {warmup_steps: 2}
ema: {decay: 0.9}
log: {every: 1}
eval: {every: 25}
sample: {pictures: 5, steps: "3"}
checkpoint: {every: 0}
"""
MAX_LOSS_DIFFERENCE = 1e-5


def several(count, *arguments, options=()):
    return [*MPIRUN, *options, "-np", str(count), support.MOH, *map(str, arguments)]


def ranks_of(launcher):
    """Process ids by rank, of the processes that a launcher has started."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) != launcher:
                continue
            variables = dict(entry.partition("=")[::2] for entry in (folder / "environ").read_text().split("\0"))
            found[int(variables["OMPI_COMM_WORLD_RANK"])] = int(folder.name)
        except (OSError, KeyError, ValueError):
            continue
    return found


class Processes(support.MohTest):
    def setUp(self):
        super().setUp()
        self.environment = support.environment(MPI_ENVIRONMENT)

    def run_in(self, count, *arguments, code=support.DONE, options=(), env=None):
        result = subprocess.run(several(count, *arguments, options=options), cwd=self.folder,
                                env={**self.environment, **(env or {})}, timeout=TIMEOUT_SECONDS, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, code, result.stdout)
        return result.stdout

    def run_two(self, *arguments, env, code=support.DONE):
        """In two processes, of which the second has the environment `env` besides. `code` None: any."""
        with_variables = [word for name, value in env.items() for word in ("-x", f"{name}={value}")]
        command = [*MPIRUN, "-np", "1", support.MOH, *map(str, arguments), ":", "-np", "1", *with_variables, support.MOH,
                   *map(str, arguments)]
        result = subprocess.run(command, cwd=self.folder, env=self.environment, timeout=TIMEOUT_SECONDS, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        if code is not None:
            self.assertEqual(result.returncode, code, result.stdout)
        return result.stdout

    def start_in(self, count, *arguments, options=()):
        """A run whose output goes to a file, and the ids of its processes."""
        output = open(self.folder / "output.txt", "wb")
        self.addCleanup(output.close)
        process = subprocess.Popen(several(count, *arguments, options=options), cwd=self.folder,
                                   env=self.environment, stdout=output, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is not None:
            return
        ranks = ranks_of(process.pid)
        process.kill()
        for pid in ranks.values():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()

    def output(self):
        return (self.folder / "output.txt").read_text(errors="replace")

    def wait_for_step(self, process, step):
        deadline = time.monotonic() + TIMEOUT_SECONDS
        path = self.folder / "run" / "metrics.jsonl"
        while not path.exists() or len(path.read_text().splitlines()) < step:
            self.assertIsNone(process.poll(), self.output())
            self.assertLess(time.monotonic(), deadline, self.output())
            time.sleep(0.02)

    def assert_close(self, run, other):
        first, second = (support.losses(self.folder / name) for name in (run, other))
        self.assertEqual(len(first), len(second))
        for step, (a, b) in enumerate(zip(first, second), 1):
            self.assertLess(abs(a - b), MAX_LOSS_DIFFERENCE * abs(a), f"step {step} of {run} and {other}: {a} and {b}")
        for a, b in zip(*([r for r in support.metrics(self.folder / name) if r["kind"] == "eval"]
                          for name in (run, other))):
            self.assertLess(abs(a["loss"] - b["loss"]), MAX_LOSS_DIFFERENCE * a["loss"])


class Text(Processes):
    def test_two_and_four_processes_make_the_steps_of_one(self):
        config = self.config({**TEXT, "train.steps": 50, "eval.every": 25, "log.tensorboard": True})
        self.moh("train", config, "output.dir=one")
        for count in (2, 4):
            output = self.run_in(count, "train", config, f"output.dir={count}")
            self.assertEqual(output.count("step 1/50"), 1, output)  # one process speaks
            self.assert_says(output, f"{count} processes on 1 host")
            self.assert_close("one", str(count))
            self.assertEqual([r["tokens"] for r in support.metrics(self.folder / "one") if r["kind"] == "train"],
                             [r["tokens"] for r in support.metrics(self.folder / str(count)) if r["kind"] == "train"])
        for rank in (1, 2, 3):
            self.assert_says((self.folder / "4" / f"moh.rank{rank}.log").read_text(), "step 50/50")
        self.assert_each_step_once("4", 50, 25)
        self.assertEqual(len(list((self.folder / "4").glob("*tfevents*"))), 1)

    def test_two_processes_make_the_steps_of_one_with_experts(self):
        experts = {**support.DENSE, "model.switch_head.experts": 4, "model.switch_head.top_k": 2}
        config = self.config({**TEXT, **experts, "train.steps": 20, "eval.every": 10})
        self.moh("train", config, "output.dir=one")
        for zero in (0, 1):
            self.run_in(2, "train", config, f"output.dir=two_{zero}", f"comm.zero={zero}")
            self.assert_close("one", f"two_{zero}")

    def test_a_balance_loss_over_the_step_does_not_depend_on_how_it_is_divided(self):
        config = self.config({**TEXT, "model.dropout": 0, "model.moh.balance_weight": 0.5, "train.steps": 20,
                              "model.moh.balance_scope": "global"})
        cuts = {(1, 8, 1): "model.moh.balance_scope=micro_batch", (1, 2, 4): "", (1, 1, 8): "", (2, 2, 4): "",
                (4, 8, 1): "", (4, 1, 8): "model.recompute=layer"}
        numbers = {}
        for (count, batch_size, accumulate), setting in cuts.items():
            run = f"{count}x{batch_size}x{accumulate}"
            self.run_in(count, "train", config, f"output.dir={run}", f"train.batch_size={batch_size}",
                        f"train.accumulate={accumulate}", *filter(None, [setting]))
            records = [record for record in support.metrics(self.folder / run) if record["kind"] == "train"]
            numbers[run] = [record["balance_loss"] for record in records]
            self.assertEqual(len(numbers[run]), 20)
            self.assert_close("1x8x1", run)
            for found, expected in zip(numbers[run], numbers["1x8x1"]):
                self.assertAlmostEqual(found, expected, delta=1e-4 * expected, msg=run)
        # Of micro-batches the loss is another one.
        self.run_in(2, "train", config, "output.dir=apart", "model.moh.balance_scope=micro_batch")
        apart = next(record for record in support.metrics(self.folder / "apart") if record["kind"] == "train")
        self.assertGreater(apart["balance_loss"], 1.001 * numbers["1x8x1"][0])

    def test_a_micro_batch_that_is_divided(self):
        # Dense, as the load-balance loss is that of a micro-batch, and of no dropout, which is drawn for one.
        config = self.config({**support.DENSE, "train.batch_size": 8, "optim.eps": 1e-4, "checkpoint.every": 0})
        self.moh("train", config, "output.dir=one")
        self.run_in(4, "train", config, "output.dir=four")
        self.assert_close("one", "four")

    def test_a_rerun_has_the_same_bits_whatever_the_buckets(self):
        config = self.config({**TEXT, "ema.decay": 0.9, "model.recompute": "layer"})
        self.run_in(2, "train", config, "output.dir=first")
        self.run_in(2, "train", config, "output.dir=second", "comm.bucket_mib=100")
        self.assert_same_state("first", "second")

    def test_a_spoiled_loss_in_one_process(self):
        if not support.build_has_failpoints():
            self.skipTest("a build without failure points")
        config = self.config({**TEXT, "train.steps": 10, "guard.non_finite": "skip", "guard.spike.grad_norm": 6,
                              "guard.spike.window": 4, "ema.decay": 0.9})

        def spoil(action, run, code=support.DONE, *settings):
            # Each process has two micro-batches of a step: number 13 is of step 7.
            return self.run_two("train", config, f"output.dir={run}", *settings, code=code,
                                env={"MOH_FAIL": f"train:loss_13={action}"})

        for action, event in (("nan", "non_finite"), ("flip", "spike")):
            output = spoil(action, action)
            self.assert_says(output, "warning: step 7: loss ", "this step's update is skipped")
            records = support.metrics(self.folder / action)
            events = [record for record in records if record["kind"] == "event"]
            self.assertEqual([(record["step"], record["event"]) for record in events], [(7, event)])
            self.assertEqual([record["step"] for record in records if record["kind"] == "train"], list(range(1, 11)))
        # Both skipped the same step, on both processes, and nothing else.
        self.assert_same_state("nan", "flip")
        spoil("nan", "stopped", support.NUMERIC_ABORT, "guard.non_finite=stop")
        # Each process has one micro-batch of a step, so number 13 is of step 13.
        output = spoil("nan", "fused", support.NUMERIC_ABORT, "guard.non_finite=stop", "guard.spike.grad_norm=0", "comm.zero=3",
                       "optim.fused_update=true", "optim.clip_grad_norm=0", "train.accumulate=2", "train.steps=14")
        self.assert_says(output, "error: train: step 13: loss nan", "the weights are as they were before this step")

    def test_traces_and_numbers_of_the_communication(self):
        config = self.config({**TEXT, "profile.steps": [3, 4]})
        self.run_in(2, "train", config)
        for rank, name in enumerate(("trace.json", "trace.rank1.json")):
            events = json.loads((self.folder / "run" / name).read_text())["traceEvents"]
            self.assertEqual({event["pid"] for event in events}, {rank})
            reduced = [event for event in events if event["name"] == "all-reduce"]
            self.assertTrue(all(event["args"]["bytes"] > 0 for event in reduced))
            self.assertGreaterEqual(len(reduced), 4)  # of each step its targets and its gradients
            self.assertTrue(any(event["name"] == "wait for processes" for event in events))
        for record in support.metrics(self.folder / "run"):
            if record["kind"] == "train":
                self.assertTrue(0 <= record["comm_exposed"] <= 1)
                self.assertTrue(0 < record["rank_step_s_min"] <= record["rank_step_s_max"])
                self.assertIn(record["slowest_rank"], (0, 1))

    def test_gradients_may_be_sent_in_bfloat16(self):
        config = self.config({**TEXT, "comm.gradients": "bfloat16"})
        self.run_in(2, "train", config)
        losses = support.losses(self.folder / "run")
        self.assertLess(losses[-1], losses[0])

    def test_a_run_goes_on_in_another_number_of_processes(self):
        config = self.config({**TEXT, "schedule.decay_steps": 12, "train.steps": 12, "eval.every": 4})
        self.moh("train", config, "output.dir=whole")
        self.run_in(2, "train", config, "train.steps=4")
        self.moh("train", config, "--resume", "train.steps=8")
        self.run_in(4, "train", config, "--resume")
        self.assert_close("whole", "run")
        self.assert_each_step_once("run", 12, 4)

    def test_a_signal_to_any_process_saves_once(self):
        config = self.config({**TEXT, "train.steps": 4000, "eval.every": 0})
        for number, rank in ((signal.SIGTERM, 1), (signal.SIGUSR1, 0)):
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            process = self.start_in(2, "train", config)
            self.wait_for_step(process, 3)
            os.kill(ranks_of(process.pid)[rank], number)
            self.assertEqual(process.wait(TIMEOUT_SECONDS), support.PREEMPTED, self.output())
            last = support.metrics(self.folder / "run")[-1]["step"]
            self.assert_says(self.output(), f"stopped by {signal.Signals(number).name} at step {last}")
            self.assertEqual([path.name for path in self.checkpoints()], [f"step_{last:08}"])
            self.assert_no_litter()

    def test_a_process_that_does_not_come_is_named(self):
        config = self.config({**TEXT, "train.steps": 4000, "eval.every": 0, "comm.timeout": 3})
        process = self.start_in(3, "train", config, "train.batch_size=3")
        self.wait_for_step(process, 3)
        os.kill(ranks_of(process.pid)[1], signal.SIGSTOP)
        self.assertEqual(process.wait(TIMEOUT_SECONDS), COMM_ERROR, self.output())
        self.assertRegex(self.output(), r"comm: [a-z-]+ number \d+.*: expected all 3 processes within comm.timeout, "
                                        r"found after .* s that rank 1 \(host .*\) did not come")

    def test_a_process_that_is_killed_is_named(self):
        config = self.config({**TEXT, "train.steps": 4000, "eval.every": 0, "checkpoint.every": 1})
        process = self.start_in(2, "train", config, options=("--enable-recovery",))
        self.wait_for_step(process, 3)
        os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
        process.wait(TIMEOUT_SECONDS)  # with that option mpirun returns 0, whatever happened
        self.assertRegex(self.output(), r"expected all 2 processes, found that rank 1 \(host .*\) ended without a word")
        # What it leaves behind can be gone on with.
        last = support.metrics(self.folder / "run")[-1]["step"]
        self.run_in(2, "train", config, "--resume", f"train.steps={last + 2}", "schedule.decay_steps=4000")
        self.assert_each_step_once("run", last + 2, last + 2)

    def test_an_error_in_one_process_ends_all_with_its_exit_code(self):
        config = self.config({**TEXT, "train.steps": 4000, "checkpoint.every": 3})
        if not support.build_has_failpoints():
            self.skipTest("a build without failure points")
        output = self.run_in(2, "train", config, code=support.STORAGE_ERROR,
                             env={"MOH_FAIL": "io:fsync_9=EIO"})
        self.assertIn("error", output)


class Pictures(Processes):
    def test_two_and_four_processes_make_the_steps_of_one(self):
        self.write("pictures.yaml", PICTURES)
        self.moh("train", "pictures.yaml", "output.dir=one")
        for count in (2, 4):
            self.run_in(count, "train", "pictures.yaml", f"output.dir={count}")
            self.assert_close("one", str(count))
        evaluations = [r for r in support.metrics(self.folder / "4") if r["kind"] == "eval"]
        self.assertEqual(len(evaluations), 2)


class Diffusion(Processes):
    def setUp(self):
        super().setUp()
        self.write("diffusion.yaml", DIFFUSION)

    def test_two_and_four_processes_make_the_steps_of_one(self):
        self.moh("train", "diffusion.yaml", "output.dir=one")
        for count in (2, 4):
            self.run_in(count, "train", "diffusion.yaml", f"output.dir={count}")
            self.assert_close("one", str(count))
            self.assertTrue((self.folder / str(count) / "samples/step_00000050.png").exists())

    def test_a_run_goes_on_in_another_number_of_processes_and_with_a_divided_state(self):
        settings = ("train", "diffusion.yaml", "schedule.decay_steps=12", "eval.every=4")
        self.moh(*settings, "train.steps=12", "output.dir=whole")
        self.run_in(2, *settings, "train.steps=4")
        self.moh(*settings, "--resume", "train.steps=8")
        self.run_in(4, *settings, "--resume", "train.steps=12", "comm.zero=1")
        self.assert_close("whole", "run")
        self.assert_each_step_once("run", 12, 4)

    def pictures(self, folder):
        return {path.name: path.read_bytes() for path in sorted((self.folder / folder).glob("*.png"))}

    def test_pictures_do_not_depend_on_the_number_of_processes(self):
        self.moh("train", "diffusion.yaml", "train.steps=2")
        sample = ("sample", "--checkpoint", "run", "--steps", 4, "--npz", "--out")
        self.moh(*sample, "one", "-n", 7)
        self.run_in(3, *sample, "three", "-n", 4, "--batch-size", 1)
        output = self.run_in(2, *sample, "three", "-n", 7, "--batch-size", 3)  # goes on
        self.assertEqual(output.count("7 pictures in"), 1, output)
        self.assertEqual(self.pictures("one"), self.pictures("three"))
        for name in ("samples.npz", "sample.json"):
            self.assertEqual((self.folder / "one" / name).read_bytes(), (self.folder / "three" / name).read_bytes())
        # With noise in the steps of a flow, too, as which any weights can be read.
        flow = ("sample", "--checkpoint", "run", "--steps", 4, "-n", 5, "diffusion.objective=flow", "--out")
        self.moh(*flow, "flow_one", "--batch-size", 5)
        self.run_in(2, *flow, "flow_two", "--batch-size", 2)
        self.assertEqual(self.pictures("flow_one"), self.pictures("flow_two"))

    def test_a_signal_to_any_process_stops_the_sampling(self):
        self.moh("train", "diffusion.yaml", "train.steps=2")
        process = self.start_in(2, "sample", "--checkpoint", "run", "--out", "out", "-n", 100000, "--steps", 2)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not (self.folder / "out" / "000031.png").exists():
            self.assertIsNone(process.poll(), self.output())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        os.kill(ranks_of(process.pid)[1], signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_SECONDS), support.PREEMPTED, self.output())
        self.assert_says(self.output(), "sample: stopped by SIGTERM; the same command goes on from here")


class Console(Processes):
    """mpirun gives its processes a terminal, whatever its own output is."""

    def trained(self, env=None):
        config = self.config({**TEXT, "train.steps": 20, "log.every": 10, "eval.every": 0})
        return self.run_in(2, "train", config, "--overwrite", env={"TERM": "xterm", **(env or {})})

    def test_a_log_file_gets_lines_and_no_bar(self):
        output = self.trained()
        self.assert_says(output, "step 10/20", "step 20/20")
        self.assertNotIn("\x1b", output)
        self.assertIn("\x1b[K", self.trained({"MOH_PROGRESS": "bar"}))
        output = self.run_in(2, "train", "tiny.yaml", "--overwrite", env={"MOH_PROGRESS": "rich"}, code=support.CONFIG_ERROR)
        self.assert_says(output, "MOH_PROGRESS: expected auto, bar or lines, found 'rich'")

    def test_a_terminal_of_mpirun_gets_a_bar(self):
        config = self.config({**TEXT, "train.steps": 20, "log.every": 10, "eval.every": 0})
        terminal, inside = pty.openpty()
        process = subprocess.Popen(several(2, "train", config), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=inside,
                                   stderr=inside, env={**self.environment, "TERM": "xterm"})
        self.addCleanup(self.end, process)
        os.close(inside)
        output = b""
        try:
            while piece := os.read(terminal, 65536):
                output += piece
        except OSError:
            pass  # EIO: nobody writes to this terminal any more
        os.close(terminal)
        self.assertEqual(process.wait(TIMEOUT_SECONDS), support.DONE)
        self.assertIn(b"\x1b[K", output)


class Eval(Processes):
    def test_the_result_does_not_depend_on_the_number_of_processes(self):
        self.write("pictures.yaml", PICTURES)
        self.moh("train", "pictures.yaml", "train.steps=2", "output.dir=pictures")
        self.moh("train", self.config({**TEXT, "train.steps": 2}), "output.dir=text")
        for run in ("pictures", "text"):
            alone = self.command("eval", "--checkpoint", run, "--json").stdout.decode()
            result = subprocess.run(several(3, "eval", "--checkpoint", run, "--json"), cwd=self.folder,
                                    env=self.environment, timeout=TIMEOUT_SECONDS, text=True, stdout=subprocess.PIPE)
            self.assertEqual(result.stdout, alone)
            self.assertEqual(result.returncode, support.DONE)

    def test_analyze_differs_by_rounding(self):
        config = self.config({**TEXT, "train.steps": 2})
        self.moh("train", config)
        inputs = ("--checkpoint", "run", "--source", "words=text.txt", "--similarity-tokens", 900)
        self.moh("analyze", *inputs, "--out", "one.json")
        self.run_in(3, "analyze", *inputs, "--out", "three.json")
        self.assert_alike(*(json.loads((self.folder / name).read_text()) for name in ("one.json", "three.json")))
        output = self.run_in(3, "analyze", *inputs, "--max-tokens", 30, code=support.CONFIG_ERROR)
        self.assert_says(output, "analyze: processes: expected at most one for each batch")

    def assert_alike(self, a, b, where="report"):
        self.assertIs(type(a), type(b), where)
        if isinstance(a, dict):
            self.assertEqual(list(a), list(b), where)
            for key in a:
                self.assert_alike(a[key], b[key], f"{where}.{key}")
        elif isinstance(a, list):
            self.assertEqual(len(a), len(b), where)
            for i, (x, y) in enumerate(zip(a, b)):
                self.assert_alike(x, y, f"{where}[{i}]")
        elif isinstance(a, float):
            self.assertAlmostEqual(a, b, delta=1e-6 * max(1, abs(a)), msg=where)
        else:
            self.assertEqual(a, b, where)

    def test_a_checkpoint_that_is_not_there_is_named_once(self):
        output = self.run_in(2, "eval", "--checkpoint", "nowhere", code=support.INPUT_ERROR)
        self.assertEqual(output.count("nowhere: expected a model"), 1, output)


class Refusals(Processes):
    def test_samples_that_cannot_be_divided(self):
        config = self.config({"train.batch_size": 5})
        output = self.run_in(2, "train", config, code=support.CONFIG_ERROR)
        self.assertEqual(output.count("samples of a step that 2 processes can share evenly"), 1, output)
        self.assertFalse((self.folder / "run").exists())

    def test_a_refused_configuration_is_one_error(self):
        # When the first process has exited with the error, mpirun sends SIGTERM to the others: of eight, some have called
        # MPI_Finalize, but have not exited yet.
        config = self.config({"model.layerz": 3})
        for _ in range(3):
            output = self.run_in(8, "train", config, code=support.CONFIG_ERROR)
            self.assertEqual(output.count("model.layerz: unknown key"), 1, output)
            self.assertEqual(output.count("error: "), 1, output)
            for words in ("MPI_", "stopped by"):
                self.assertNotIn(words, output)
        self.assertFalse((self.folder / "run").exists())

    def test_another_configuration_in_one_process(self):
        config = self.config(TEXT)
        command = [*MPIRUN, "-np", "1", support.MOH, "train", config, ":",
                   "-np", "1", support.MOH, "train", config, "optim.learning_rate=1"]
        result = subprocess.run(command, cwd=self.folder, env=self.environment, timeout=TIMEOUT_SECONDS, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(result.returncode, support.CONFIG_ERROR, result.stdout)
        self.assert_says(result.stdout, "comm: optim.learning_rate: expected 0.003, as rank 0 has, found 1 in rank 1 (host ")

    def test_variables_of_torchrun_that_say_nothing(self):
        result = self.command("train", self.config(), env={"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"})
        self.assertEqual(result.returncode, support.CONFIG_ERROR, result.output)
        self.assert_says(result.output, "environment: MASTER_PORT: expected the number of a port, found ''")


def can_run_several():
    """Whether there is an mpirun, and a program that was built with its library."""
    if shutil.which("mpirun") is None:
        return False
    with support.tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(several(2, "train", "none.yaml"), cwd=folder, stdout=subprocess.PIPE,
                                env=support.environment(MPI_ENVIRONMENT), stderr=subprocess.STDOUT, text=True,
                                timeout=TIMEOUT_SECONDS)
    return "comm: MPI: expected" not in result.stdout


if __name__ == "__main__":
    if not can_run_several():
        print("skipped: no mpirun, or a program without MPI")
        sys.exit(support.SKIPPED)
    unittest.main()
