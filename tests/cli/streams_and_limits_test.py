"""What the caller's shell may do to the program: closed standard streams, an output that cannot be written, limits on
address space, absurd numbers of threads."""

import os
import resource
import subprocess
import unittest

import support

GIGABYTE = 1 << 30


class ClosedStreams(support.MohTest):
    def run_in_shell(self, arguments, redirections):
        return subprocess.run(["bash", "-c", f'exec "$0" {arguments} {redirections}', support.MOH], cwd=self.folder,
                              env=support.environment(), capture_output=True, text=True,
                              timeout=support.TIMEOUT_SECONDS)

    def test_no_console_line_gets_into_a_file(self):
        self.config()
        self.train()
        for i, redirections in enumerate(("<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-")):
            with self.subTest(redirections):
                run = f"run_{i}"
                result = self.run_in_shell(f"train tiny.yaml output.dir={run}", redirections)
                self.assertEqual(result.returncode, support.DONE, result.stderr)
                self.assert_same_state("run", run)
                self.assert_same_history("run", run)
                lock = (self.folder / run / ".lock").read_bytes()
                self.assertEqual(lock, b"", "the log went into the lock")

    def test_results_that_cannot_be_written_are_an_error(self):
        self.config()
        for redirections in (">/dev/full", ">&-"):
            result = self.run_in_shell("config tiny.yaml", redirections)
            self.assertEqual(result.returncode, support.STORAGE_ERROR, redirections)
            self.assertIn("standard output", result.stderr)


class Limits(support.MohTest):
    @unittest.skipIf(os.environ.get("MOH_SANITIZED"), "moh test skipped: sanitizers reserve address space")
    def test_a_limit_on_address_space_leaves_room(self):
        # Just below the machine's memory divided by a power of two, the reservation used to take all of it.
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self.config()
        self.train()
        for limit in (memory // 4 + (64 << 20), memory // 8 + (64 << 20), 2 * GIGABYTE):
            run = f"run_{limit}"
            self.moh("train", "tiny.yaml", f"output.dir={run}", "threads=2",
                     preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
            self.assert_same_state("run", run)

    @unittest.skipIf(os.environ.get("MOH_SANITIZED"), "moh test skipped: sanitizers reserve address space")
    def test_small_limits_leave_room_for_both_tensors_and_others(self):
        # What is reserved for tensors must not be missed elsewhere: a run that fits a limit fits a larger one.
        self.config({"checkpoint.every": 0})
        fits = []
        for megabytes in (120, 150, 200, 250, 300):
            limit = megabytes << 20
            result = self.command("train", "tiny.yaml", "--overwrite",
                                  preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
            fits.append(result.returncode == support.DONE)
            if not fits[-1]:
                self.assertGreaterEqual(result.returncode, 0, result.output)  # no signal
        self.assertEqual(fits, sorted(fits), "a larger limit was too small")
        self.assertTrue(fits[-1])

    @unittest.skipIf(os.environ.get("MOH_SANITIZED"), "moh test skipped: sanitizers reserve address space")
    def test_threads_that_the_system_refuses_are_an_error(self):
        self.write("pictures.yaml", "seed: 3\nthreads: 1\ntask: image_classification\noutput: {dir: run}\n"
                   "model: {architecture: vit, classes: 8, image_size: 8, "
                   "vit: {patch_size: 4, layers: 1, hidden: 16, heads: 2, mlp_ratio: 2}}\n"
                   "data: {drawn: 16, drawn_validation: 0, workers: 200}\ntrain: {steps: 2, batch_size: 2}\n")
        self.config({"threads": 300})
        for config, key in (("pictures.yaml", "data.workers"), ("tiny.yaml", "threads")):
            for megabytes in (400, 800):
                limit = megabytes << 20
                output = self.moh("train", config, "--overwrite", code=1,
                                  preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
                self.assertRegex(output, rf"error: {key}: expected \d+ threads, found \d+, then the system refused another one")

    def test_more_threads_than_any_machine_has(self):
        self.config({"threads": 0})
        output = self.moh("train", "tiny.yaml", env={"OMP_NUM_THREADS": "65536"}, code=support.CONFIG_ERROR)
        self.assert_says(output, "OMP_NUM_THREADS: expected 0 (all processors) to 4096, found 65536")
        output = self.moh("bench", "attention", "--threads", str((1 << 32) + 1), code=support.CONFIG_ERROR)
        self.assert_says(output, "threads", "to 4096, found 4294967297")


if __name__ == "__main__":
    support.main()
