"""Collectives between simulated GPUs, one for each process: results, and how a run ends when a process does not play along."""

import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from ports import free_port  # noqa: E402  (needs the path)

COMM_ERROR, DATA_ERROR = 6, 3
TIMEOUT_SECONDS = 120
LIMIT = 1.5  # of a collective, in nccl_ranks.cpp


class Ranks(unittest.TestCase):
    def start(self, count, scenario, backend="nccl", gpus=None, local_rank=True):
        """Starts the ranks as torchrun would; returns their processes."""
        port = free_port()
        ranks = []
        for rank in range(count):
            variables = {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1",
                         "MASTER_PORT": str(port), "MOH_SIM_GPUS": str(gpus or count), "OMP_NUM_THREADS": "1"}
            if local_rank:
                variables["LOCAL_RANK"] = str(rank)
            ranks.append(subprocess.Popen([os.environ["NCCL_RANKS_BINARY"], scenario, backend],
                                          env={**os.environ, **variables}, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True))
        self.addCleanup(self.end, ranks)
        return ranks

    @staticmethod
    def end(ranks):
        for process in ranks:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()

    def run_ranks(self, codes, scenario, **options):
        """Runs as many ranks as there are exit codes; returns what each printed."""
        ranks = self.start(len(codes), scenario, **options)
        outputs = [process.communicate(timeout=TIMEOUT_SECONDS)[0] for process in ranks]
        self.assertEqual([process.returncode for process in ranks], codes, outputs)
        return outputs

    def test_collectives_are_those_of_the_host_bit_for_bit(self):
        for backend, counts in {"nccl": (1, 2, 3, 4), "host": (2, 3)}.items():
            for count in counts:
                with self.subTest(backend=backend, ranks=count):
                    self.run_ranks([0] * count, "collectives", backend=backend)

    def test_processes_share_a_gpu_through_host_memory_only(self):
        self.run_ranks([0, 0], "collectives", backend="host", gpus=1)
        for output in self.run_ranks([DATA_ERROR] * 2, "collectives", gpus=1):
            self.assertIn("expected a GPU for each, found that ranks 0 and 1 have the same", output)
            self.assertIn("comm.backend: host", output)
        for output in self.run_ranks([DATA_ERROR] * 3, "collectives", gpus=2):
            self.assertIn("a GPU for each", output)

    def test_which_gpu_a_process_has_is_never_guessed(self):
        for output in self.run_ranks([DATA_ERROR] * 2, "collectives", local_rank=False):
            self.assertIn("expected LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK or SLURM_LOCALID", output)

    def test_captured_collectives_are_replayed(self):
        for count in (1, 2, 3):
            with self.subTest(ranks=count):
                self.run_ranks([0] * count, "graph")

    def test_memory_of_captured_collectives_lasts_until_their_communicator_lets_go(self):
        for count in (2, 3):
            with self.subTest(ranks=count):
                self.run_ranks([0] * count, "memory_of_captured")

    def test_what_would_hang_is_refused_by_the_simulator(self):
        for other, text in {"other_count": "all-reduce number 1 of 8 elements", "other_type": "of type 4",
                            "other_collective": "broadcast number 1", "other_operation": "operation 2"}.items():
            with self.subTest(other):
                for output in self.run_ranks([0, 0], other):
                    self.assertIn("NCCL would hang", output)
                    self.assertIn(text, output)

    def test_other_calls_are_named_before_anybody_waits_for_them(self):
        for output in self.run_ranks([COMM_ERROR] * 2, "other_calls"):
            self.assertIn("expected 1 calls, the last of them all-reduce of 16 elements of float32, as rank 0", output)
            self.assertIn("found 1 calls, the last of them all-reduce of 8 elements of float32, from rank 1", output)

    def test_a_stuck_process_ends_the_others(self):
        began = time.monotonic()
        ranks = self.start(3, "stuck")
        outputs = [process.communicate(timeout=TIMEOUT_SECONDS)[0] for process in ranks[:2]]
        self.assertLess(time.monotonic() - began, LIMIT + 25)
        for process, output in zip(ranks, outputs):
            self.assertEqual(process.returncode, COMM_ERROR, output)
            self.assertIn("collective 2 on the GPU: expected its end within comm.timeout", output)
            self.assertIn("rank 2", output)
            self.assertIn("did not come", output)

    def test_a_process_that_comes_late_says_how_far_it_is(self):
        for output in self.run_ranks([COMM_ERROR] * 2, "slow"):
            for rank in (0, 1):
                self.assertIn(f"rank {rank}: 2 begun and 1 ended on the GPU, 2 called, the last an all-reduce of 16", output)

    def test_a_killed_process_is_named_at_once(self):
        began = time.monotonic()
        outputs = self.run_ranks([COMM_ERROR, COMM_ERROR, 9], "killed")
        self.assertLess(time.monotonic() - began, 30)
        for output in outputs[:2]:
            self.assertIn("rank 2 (host", output)
            self.assertIn("ended without a word", output)

    def test_a_killed_process_is_named_whatever_the_others_have_captured(self):
        for scenario in ("gone_in_a_replay", "gone_in_a_call"):
            for others in (1, 2):
                with self.subTest(scenario, others=others):
                    for output in self.run_ranks([COMM_ERROR] * others + [9], scenario)[:others]:
                        self.assertIn(f"rank {others} (host", output)
                        self.assertIn("ended without a word", output)
                        self.assertNotIn("does not come back", output)

    def test_a_collective_is_refused_while_an_abort_waits_for_graphs(self):
        self.run_ranks([0, 0], "call_in_an_abort")

    def test_an_error_of_one_process_ends_all_with_its_exit_code(self):
        for output in self.run_ranks([DATA_ERROR] * 2, "fails"):
            self.assertIn("no more data", output)

    def test_an_error_that_nccl_meets_in_the_background_is_told(self):
        for output in self.run_ranks([COMM_ERROR] * 2, "background_error"):
            self.assertIn("remote process exited or there was a network error", output)

    def test_a_communicator_is_not_used_after_its_end(self):
        for output in self.run_ranks([COMM_ERROR] * 2, "use_after_abort"):
            self.assertIn("the communicator of this process was aborted", output)

    def test_a_process_that_never_joins_is_waited_for_within_a_limit(self):
        ranks = self.start(2, "never_joins")
        output = ranks[0].communicate(timeout=TIMEOUT_SECONDS)[0]
        self.assertEqual(ranks[0].returncode, COMM_ERROR, output)
        self.assertIn("expected all 2 processes to join within comm.timeout", output)


if __name__ == "__main__":
    unittest.main()
