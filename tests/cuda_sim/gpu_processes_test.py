"""A run in several processes with a simulated GPU each: the steps of one process, through NCCL and through host memory, and an
end together."""

import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["MOH_SOURCE_DIR"], "tests", "cli")))
import support  # noqa: E402  (needs the path)
from processes_test import COMM_ERROR, TIMEOUT_SECONDS, Processes, can_run_several, ranks_of, several  # noqa: E402

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

    def test_captured_steps_have_the_same_bits(self):
        config = self.config({**TINY, "train.accumulate": 4})
        self.run_in(2, "train", config, "output.dir=plain")
        output = self.run_in(2, "train", config, "output.dir=graph", "cuda_graph=true")
        self.assert_says(output, "the step is captured")
        self.assert_same_state("plain", "graph")

    def test_gradients_in_bfloat16_are_summed_in_the_order_of_the_ranks(self):
        config = self.config({**TINY, "comm.gradients": "bfloat16"})
        self.run_in(2, "train", config, "output.dir=nccl")
        self.run_in(2, "train", config, "output.dir=host", "comm.backend=host")
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
