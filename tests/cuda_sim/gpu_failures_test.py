"""What ends a run with captured steps on two and three simulated GPUs: each of its processes ends, with an exit code that says
why, and says which of them failed. The processes are started as torchrun starts them, so that nobody else ends them."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["MOH_SOURCE_DIR"], "tests", "cli")))
import support  # noqa: E402  (needs the path)
from ports import free_port  # noqa: E402
from processes_test import COMM_ERROR, MAX_LOSS_DIFFERENCE  # noqa: E402

TIMEOUT_SECONDS = 240
FAILURE = 1
CASES = [(2, 1, "run_2"), (3, 2, "run_3")]  # processes, the last of them, folder of the run
CAPTURED = 4  # steps after which there is a replay

SETTINGS = {**support.SMALLEST, "device": "cuda", "data.sequence_length": 16, "train.batch_size": 2, "train.accumulate": 6,
            "optim.eps": 1e-4, "eval.every": 0, "checkpoint.every": 0, "cuda_graph": True}


class Captured(support.MohTest):
    def start(self, count, *arguments, of_rank=None):
        """Starts the processes of a run; `of_rank` has the variables of some of them."""
        port = free_port()
        ranks = []
        for rank in range(count):
            variables = {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                         "MASTER_PORT": str(port), "MOH_SIM_GPUS": str(count), "OMP_NUM_THREADS": "1",
                         **(of_rank or {}).get(rank, {})}
            with open(self.folder / f"rank{rank}.txt", "wb") as output:
                ranks.append(support.start(self.folder, *arguments, env=variables, stdout=output))
        self.addCleanup(self.end, ranks)
        return ranks

    @staticmethod
    def end(ranks):
        for process in ranks:
            if process.poll() is None:
                process.kill()
            process.wait()

    def finish(self, ranks, codes):
        """Waits until all have ended, with these exit codes; returns what each wrote."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        for process in ranks:
            try:
                process.wait(max(1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.fail(f"a process does not end\n{self.outputs(ranks)}")
        outputs = self.outputs(ranks)
        self.assertEqual([process.returncode for process in ranks], codes, outputs)
        for output in outputs:
            self.assertNotIn("does not come back", output)
        return outputs

    def outputs(self, ranks):
        return [(self.folder / f"rank{rank}.txt").read_text(errors="replace") for rank in range(len(ranks))]

    def steps(self, run):
        path = self.folder / run / "metrics.jsonl"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def wait_for_replays(self, ranks, run="run"):
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.steps(run) < CAPTURED:
            self.assertEqual([process.poll() for process in ranks], [None] * len(ranks), self.outputs(ranks))
            self.assertLess(time.monotonic(), deadline, self.outputs(ranks))
            time.sleep(0.02)

    def test_a_finished_run_has_left_nothing_behind(self):
        config = self.config({**SETTINGS, "train.steps": 5, "eval.every": 5})
        for count, _, run in CASES:
            for zero in (0, 1, 2, 3):
                ranks = self.start(count, "train", config, f"output.dir={run}_{zero}", f"comm.zero={zero}")
                output = self.finish(ranks, [support.DONE] * count)[0]
                self.assert_says(output, "the step is captured", "finished")

    def test_a_killed_process_is_named_by_all_others(self):
        config = self.config({**SETTINGS, "train.steps": 4000})
        for count, last, run in CASES:
            ranks = self.start(count, "train", config, f"output.dir={run}")
            self.wait_for_replays(ranks, run)
            ranks[last].send_signal(signal.SIGKILL)
            outputs = self.finish(ranks, [COMM_ERROR] * last + [-signal.SIGKILL])
            self.assert_says(outputs[0], "the step is captured")
            self.assertRegex(outputs[0], rf"rank {last}( \(host .*\))? ended without a word")

    def test_a_signal_to_one_process_saves_once(self):
        config = self.config({**SETTINGS, "train.steps": 4000})
        for count, last, run in CASES:
            ranks = self.start(count, "train", config, f"output.dir={run}")
            self.wait_for_replays(ranks, run)
            ranks[last].send_signal(signal.SIGUSR1)
            self.finish(ranks, [support.PREEMPTED] * count)
            step = support.metrics(self.folder / run)[-1]["step"]
            self.assertEqual([path.name for path in self.checkpoints(run)], [f"step_{step:08}"])
            again = self.start(count, "train", config, f"output.dir={run}", "--resume", f"train.steps={step + 4}",
                               "schedule.decay_steps=4000")
            self.assert_says(self.finish(again, [support.DONE] * count)[0], "the step is captured")

    def test_a_process_without_memory_ends_all_with_its_error(self):
        # A step that is traced is launched kernel by kernel, beside the memory of the captured ones.
        config = self.config({**SETTINGS, "train.steps": 8, "profile.steps": [6, 6]})
        for count, last, run in CASES:
            ranks = self.start(count, "train", config, f"output.dir={run}", of_rank={last: {"MOH_SIM_MEMORY_ENDS": "9"}})
            outputs = self.finish(ranks, [FAILURE] * count)
            self.assert_says(outputs[0], "the step is captured", "cuda memory: expected", "use a smaller batch or model")
            self.assertGreaterEqual(self.steps(run), CAPTURED)

    def test_a_full_disk_of_the_first_process_ends_all_with_its_error(self):
        if not support.build_has_failpoints():
            self.skipTest("a build without failure points")
        config = self.config({**SETTINGS, "train.steps": 8, "checkpoint.every": 5})
        for count, _, run in CASES:
            ranks = self.start(count, "train", config, f"output.dir={run}", of_rank={0: {"MOH_FAIL": "io:fsync_4=ENOSPC"}})
            outputs = self.finish(ranks, [support.STORAGE_ERROR] * count)
            self.assert_says(outputs[0], "the step is captured", "No space left on device")
            self.assertEqual(self.checkpoints(run), [])

    def test_an_evaluation_has_the_memory_of_captured_steps(self):
        # There is no other left, once they are captured.
        config = self.config({**SETTINGS, "train.steps": 10, "eval.every": 5, "eval.max_tokens": 64})
        ranks = self.start(1, "train", config, of_rank={0: {"MOH_SIM_MEMORY_ENDS": "8"}})
        (output,) = self.finish(ranks, [support.DONE])
        self.assertEqual(output.count("the step is captured"), 1)  # and again only if an evaluation kept some
        self.assertEqual([record["step"] for record in support.metrics(self.folder / "run") if record["kind"] == "eval"], [5, 10])

    def test_processes_with_unequal_numbers_of_targets_make_the_steps_of_one(self):
        draw = random.Random(5)
        records = [{"prompt": "p" * draw.randrange(1, 40), "response": support.text_of_words(draw.randrange(1, 9), seed)}
                   for seed in range(60)]
        self.write("pairs.jsonl", "".join(json.dumps(record) + "\n" for record in records))
        config = self.config({**SETTINGS, "train.steps": 7, "data.train": "pairs.jsonl"})
        self.moh("train", config, "output.dir=one", "cuda_graph=false")
        expected = support.losses(self.folder / "one")
        for count, _, run in CASES:
            ranks = self.start(count, "train", config, f"output.dir={run}")
            self.assert_says(self.finish(ranks, [support.DONE] * count)[0], "the step is captured")
            found = support.losses(self.folder / run)
            self.assertEqual(len(found), len(expected))
            for step, (a, b) in enumerate(zip(found, expected), 1):
                self.assertLess(abs(a - b), MAX_LOSS_DIFFERENCE * abs(b), f"step {step}: {a} and {b}")


if __name__ == "__main__":
    unittest.main()
