"""Training on two simulated GPUs, a process for each: the bits of one GPU, whatever the queues do early or late; faults are found."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from ports import free_port  # noqa: E402  (needs the path)

COMM_ERROR = 6
TIMEOUT_SECONDS = 240
FEW_STEPS, MORE_STEPS = 5, 12  # the third is captured
FAULTY_STEPS = 7  # train_ranks.cpp: a fault is of the sixth at the latest


class TrainRanks(unittest.TestCase):
    def start(self, count, arguments):
        port = free_port()
        ranks = []
        for rank in range(count):
            variables = {"MOH_SIM_GPUS": str(count), "OMP_NUM_THREADS": "1"}
            if count > 1:
                variables |= {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank),
                              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            ranks.append(subprocess.Popen([os.environ["TRAIN_RANKS_BINARY"], *arguments], env={**os.environ, **variables},
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        self.addCleanup(self.end, ranks)
        return ranks

    @staticmethod
    def end(ranks):
        for process in ranks:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()

    def run_ranks(self, count, timing="at_once", how="graph", steps=FEW_STEPS, micro_batches=2, backend="nccl", fault="none",
                  settings=()):
        """Exit codes and outputs of the ranks."""
        ranks = self.start(count, [timing, how, str(steps), str(micro_batches), backend, fault, *settings])
        outputs = [process.communicate(timeout=TIMEOUT_SECONDS)[0] for process in ranks]
        return [process.returncode for process in ranks], outputs

    def digest(self, count, **options):
        """Of losses, weights and moments after the steps, which all ranks have."""
        codes, outputs = self.run_ranks(count, **options)
        self.assertEqual(codes, [0] * count, outputs)
        digests = {re.search("digest: (.*)", output)[1] for output in outputs}
        self.assertEqual(len(digests), 1, outputs)
        return digests.pop()

    def test_two_gpus_train_with_the_bits_of_one(self):
        one = self.digest(1, how="eager", steps=MORE_STEPS)
        self.assertEqual(self.digest(1, steps=MORE_STEPS), one)
        self.assertNotEqual(self.digest(1, steps=MORE_STEPS, micro_batches=4), one)  # a digest of what is computed
        for timing in ("at_once", "late", "ahead"):
            with self.subTest(timing):
                self.assertEqual(self.digest(2, timing=timing, steps=MORE_STEPS), one)

    def test_micro_batches_of_each_are_summed_first(self):
        # Through the host, in the order of the ranks, each sum waited for.
        for timing, micro_batches in (("late", 4), ("ahead", 6)):
            with self.subTest(f"{timing}, {micro_batches}"):
                expected = self.digest(2, how="eager", micro_batches=micro_batches, backend="host")
                self.assertEqual(self.digest(2, timing=timing, micro_batches=micro_batches), expected)

    def test_a_divided_state_makes_the_same_steps(self):
        # The norm, of which clipping is a function, is summed in another order.
        for more in ((), ("bfloat16",)):
            with self.subTest(more):
                expected = self.digest(2, how="eager", settings=("unclipped", *more))
                for timing in ("late", "ahead"):
                    for stage in ("zero1", "zero2", "zero3"):
                        divided = self.digest(2, timing=timing, settings=(stage, "unclipped", *more))
                        self.assertEqual(divided, expected, (timing, stage))
        for stage in ("zero1", "zero2", "zero3"):
            expected = self.digest(2, how="eager", micro_batches=4, settings=(stage,))
            for timing in ("late", "ahead"):
                self.assertEqual(self.digest(2, timing=timing, micro_batches=4, settings=(stage,)), expected, (timing, stage))

    def test_updates_within_the_backward_pass_have_the_bits_of_those_after_it(self):
        for how, stages, more in (("graph", ("zero0", "zero1", "zero2", "zero3"), ()), ("eager", ("zero0", "zero3"), ("bfloat16",))):
            expected = self.digest(2, how="eager", settings=("unclipped", *more))
            for stage in stages:
                for timing in ("late", "ahead") if how == "graph" else ("late",):
                    fused = self.digest(2, timing=timing, how=how, settings=(stage, "unclipped", "fused", *more))
                    self.assertEqual(fused, expected, (how, timing, stage))

    def test_loads_of_the_whole_step_are_those_of_both(self):
        expected = self.digest(1, how="eager", settings=("global",))
        self.assertNotEqual(self.digest(1, how="eager"), expected)
        for timing in ("at_once", "late", "ahead"):
            self.assertEqual(self.digest(2, timing=timing, settings=("global",)), expected, timing)
        expected = self.digest(2, how="eager", settings=("global", "unclipped"))
        self.assertEqual(self.digest(2, timing="ahead", settings=("global", "unclipped", "zero1")), expected)

    def test_another_order_on_one_rank_is_found(self):
        codes, outputs = self.run_ranks(2, timing="ahead", fault="order")
        self.assertNotIn(0, codes, outputs)
        self.assertIn("NCCL would hang", "".join(outputs))
        # Of buckets of equal sizes nobody can tell: the bits do.
        codes, outputs = self.run_ranks(2, timing="ahead", fault="swap", settings=("qk_norm",))
        self.assertEqual(codes, [0, 0], outputs)
        expected = self.digest(2, settings=("qk_norm",))
        for output in outputs:
            self.assertNotEqual(re.search("digest: (.*)", output)[1], expected)

    def test_another_count_on_one_rank_is_found(self):
        codes, outputs = self.run_ranks(2, timing="late", fault="count")
        self.assertNotIn(0, codes, outputs)
        self.assertIn("NCCL would hang", "".join(outputs))

    def test_a_step_after_the_end_of_its_communicator_is_found(self):
        codes, outputs = self.run_ranks(2, fault="abort", steps=FAULTY_STEPS)
        self.assertEqual(codes, [COMM_ERROR] * 2, outputs)
        self.assertIn("the communicator of this process was aborted", outputs[1])


if __name__ == "__main__":
    unittest.main()
