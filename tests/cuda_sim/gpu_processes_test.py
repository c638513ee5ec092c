"""A run in several processes with a simulated GPU each: the steps of one process, through NCCL and through host memory, and an
end together."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["MOH_SOURCE_DIR"], "tests", "cli")))
import support  # noqa: E402  (needs the path)
from processes_test import COMM_ERROR, DIFFUSION, TIMEOUT_SECONDS, Processes, can_run_several, ranks_of, several  # noqa: E402

TINY = {**support.SMALLEST, "device": "cuda", "data.sequence_length": 16, "train.batch_size": 2, "train.accumulate": 2,
        "train.steps": 5, "optim.eps": 1e-4, "eval.every": 5, "checkpoint.every": 0}
MOH = {"model.heads": 4, "model.moh.router": "learned", "model.moh.num_shared": 1, "model.moh.top_k": 1}


class OnGpus(Processes):
    def setUp(self):
        super().setUp()
        self.environment["MOH_SIM_GPUS"] = "2"

    def test_two_processes_make_the_steps_of_one_whatever_carries_their_sums(self):
        config = self.config({**TINY, **MOH})
        self.moh("train", config, "output.dir=one")
        output = self.run_in(2, "train", config, "output.dir=nccl")
        self.assert_says(output, "comm: between the GPUs: NCCL 2.", "algorithms Ring,Tree")
        self.assert_close("one", "nccl")
        output = self.run_in(2, "train", config, "output.dir=host", "comm.backend=host")
        self.assert_says(output, "comm: between the GPUs: through host memory, by Open MPI")
        self.assert_same_state("nccl", "host")  # the simulator's NCCL adds in the order of the ranks, too

    def test_a_divided_state_makes_the_same_steps_and_goes_on_in_another_number_of_processes(self):
        config = self.config({**TINY, **MOH, "ema.decay": 0.9, "checkpoint.every": 2, "eval.every": 2,
                              "train.steps": 6, "schedule.decay_steps": 6})
        self.moh("train", config, "output.dir=one")
        self.run_in(2, "train", config, "output.dir=divided", "comm.zero=1")
        self.assert_close("one", "divided")
        newest = sorted((self.folder / "divided" / "checkpoints").glob("step_*"))[-1]
        self.assertEqual(len(list(newest.glob("optimizer-*"))), 2)
        for zero in (1, 2, 3):
            output = self.run_in(2, "train", config, f"output.dir=captured_{zero}", f"comm.zero={zero}", "cuda_graph=true")
            self.assert_says(output, "the step is captured")
            self.assert_close("one", f"captured_{zero}")
        self.run_in(2, "train", config, "train.steps=2", "comm.zero=2")
        self.moh("train", config, "--resume", "train.steps=4")
        self.run_in(2, "train", config, "--resume", "comm.zero=3", "comm.backend=host")
        self.assert_close("one", "run")

    def test_each_matrix_is_updated_whole_by_one_process(self):
        for name in ("muon", "adafactor"):
            config = self.config({**TINY, **MOH, "optim.name": name, "optim.clip_grad_norm": 0, "train.accumulate": 2})
            self.run_in(2, "train", config, f"output.dir={name}")
            self.run_in(2, "train", config, f"output.dir={name}_3", "comm.zero=3", "cuda_graph=true")
            models = [(self.newest(run) / "model.safetensors").read_bytes() for run in (name, f"{name}_3")]
            self.assertEqual(*models)

    def test_the_loads_of_the_whole_step_are_those_of_all(self):
        config = self.config({**TINY, **MOH, "model.moh.balance_scope": "global", "model.moh.balance_weight": 0.5})
        self.moh("train", config, "output.dir=one")
        self.run_in(2, "train", config, "output.dir=two", "comm.zero=1")
        self.assert_close("one", "two")

    def test_traces_show_the_collectives_of_the_gpu(self):
        config = self.config({**TINY, "comm.zero": 1, "profile.steps": [3, 3], "train.steps": 4, "eval.every": 0})
        self.run_in(2, "train", config)
        for name in ("trace.json", "trace.rank1.json"):
            events = json.loads((self.folder / "run" / name).read_text())["traceEvents"]
            track = next(e["tid"] for e in events if e["ph"] == "M" and e["args"]["name"] == "device communication")
            (step,) = (e for e in events if e.get("cat") == "step")
            collectives = [e for e in events if e["ph"] == "X" and e["tid"] == track]
            self.assertLessEqual({"all-gather", "reduce-scatter"}, {e["name"] for e in collectives})
            for event, after in zip(collectives, collectives[1:]):  # one after the other, in the simulator's time
                self.assertGreater(event["args"]["bytes"], 0)
                self.assertLess(step["ts"], event["ts"])
                self.assertLessEqual(event["ts"] + event["dur"], after["ts"] + 1)

    def test_the_processes_agree_once_a_step_whether_to_stop(self):
        counts = []
        for accumulate in (2, 12):
            config = self.config({**TINY, "train.accumulate": accumulate, "profile.steps": [3, 3], "train.steps": 4,
                                  "eval.every": 0})
            self.run_in(2, "train", config, "--overwrite")
            events = json.loads((self.folder / "run" / "trace.json").read_text())["traceEvents"]
            on_device = next(e["tid"] for e in events if e["ph"] == "M" and e["args"]["name"] == "device communication")
            counts.append(sum(e["ph"] == "X" and e["tid"] != on_device and e["name"] in ("all-reduce", "all-gather")
                              for e in events))
        self.assertGreater(counts[0], 0)
        self.assertEqual(counts[0], counts[1])  # however many micro-batches a step has

    def test_pictures_do_not_depend_on_the_number_of_gpus(self):
        self.write("diffusion.yaml", DIFFUSION.replace("accumulate: 4", "accumulate: 2"))
        self.run_in(2, "train", "diffusion.yaml", "device=cuda", "train.steps=2", "eval.every=0")
        sample = ("sample", "--checkpoint", "run", "--steps", 2, "-n", 5, "--npz", "--out")
        self.moh(*sample, "one")
        self.run_in(2, *sample, "two", "--batch-size", 2)
        for name in ("samples.npz", "sample.json"):
            self.assertEqual((self.folder / "one" / name).read_bytes(), (self.folder / "two" / name).read_bytes())

    def test_captured_steps_have_the_same_bits(self):
        config = self.config({**TINY, "train.accumulate": 4})
        self.run_in(2, "train", config, "output.dir=plain")
        output = self.run_in(2, "train", config, "output.dir=graph", "cuda_graph=true")
        self.assert_says(output, "the step is captured")
        self.assert_same_state("plain", "graph")

    def test_gradients_in_bfloat16_are_summed_in_the_order_of_the_ranks(self):
        kept = {"precision.weights": "bfloat16", "precision.gradients": "bfloat16"}
        for settings in ({"comm.gradients": "bfloat16"}, kept):
            with self.subTest(settings):
                config = self.config({**TINY, **settings})
                for backend in ("nccl", "host"):
                    self.run_in(2, "train", config, f"output.dir={backend}", f"comm.backend={backend}", "--overwrite")
                self.assert_same_state("nccl", "host")

    def test_processes_share_a_gpu_only_when_they_are_told_to(self):
        config = self.config({**TINY, "train.steps": 1, "eval.every": 0})
        one_gpu = {"MOH_SIM_GPUS": "1"}
        output = self.run_in(2, "train", config, code=support.CONFIG_ERROR, env=one_gpu)
        self.assert_says(output, "device: cuda: 2 processes: expected a GPU for each", "comm.backend: host")
        self.run_in(2, "train", config, "comm.backend=host", env=one_gpu)
        output = self.run_in(2, "train", config, "output.dir=graph", "comm.backend=host", "cuda_graph=true",
                             code=support.CONFIG_ERROR)
        self.assert_says(output, "cuda_graph: comm.backend: host: expected false, found true")
        output = self.run_in(2, "train", config, "device=cuda:1", code=support.CONFIG_ERROR)
        self.assert_says(output, "device: several processes: expected cuda, of which each takes its own")

    def test_a_process_that_is_killed_is_named(self):
        config = self.config({**TINY, "train.steps": 4000, "eval.every": 0})
        process = self.start_in(2, "train", config, options=("--enable-recovery",))
        self.wait_for_step(process, 3)
        os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
        process.wait(TIMEOUT_SECONDS)  # with that option mpirun returns 0, whatever happened
        self.assertRegex(self.output(), r"rank 1 \(host .*\) ended without a word")

    def test_a_process_that_does_not_come_is_named(self):
        config = self.config({**TINY, "train.steps": 4000, "eval.every": 0, "comm.timeout": 3})
        process = self.start_in(2, "train", config)
        self.wait_for_step(process, 3)
        os.kill(ranks_of(process.pid)[1], signal.SIGSTOP)
        self.assertEqual(process.wait(TIMEOUT_SECONDS), COMM_ERROR, self.output())
        self.assertRegex(self.output(), r"rank 1 \(host .*\) did not come")

    def test_a_signal_to_any_process_saves_once(self):
        config = self.config({**TINY, "train.steps": 4000, "eval.every": 0})
        process = self.start_in(2, "train", config)
        self.wait_for_step(process, 3)
        os.kill(ranks_of(process.pid)[1], signal.SIGUSR1)
        self.assertEqual(process.wait(TIMEOUT_SECONDS), support.PREEMPTED, self.output())
        last = support.metrics(self.folder / "run")[-1]["step"]
        self.assertEqual([path.name for path in self.checkpoints()], [f"step_{last:08}"])
        self.run_in(2, "train", config, "--resume", f"train.steps={last + 2}", "schedule.decay_steps=4000")

    def test_evaluation_and_analysis_are_divided(self):
        self.moh("train", self.config({**TINY, **MOH, "train.steps": 1, "eval.every": 0}))
        alone = self.command("eval", "--checkpoint", "run", "--json").stdout.decode()
        result = subprocess.run(several(2, "eval", "--checkpoint", "run", "--json"), cwd=self.folder,
                                env=self.environment, timeout=TIMEOUT_SECONDS, text=True, stdout=subprocess.PIPE)
        self.assertEqual((result.returncode, result.stdout), (support.DONE, alone))
        inputs = ("analyze", "--checkpoint", "run", "--source", "words=text.txt", "--max-tokens", 200, "--out")
        self.moh(*inputs, "one.json")
        self.run_in(2, *inputs, "two.json")
        self.assertTrue((self.folder / "two.json").exists())


if __name__ == "__main__":
    if not can_run_several():
        print("skipped: no mpirun, or a program without MPI")
        sys.exit(support.SKIPPED)
    unittest.main()
