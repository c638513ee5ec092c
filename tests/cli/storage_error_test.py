"""When the disk is full or fails, the run ends with code 5, says what is missing where, and every checkpoint that was
there is as good as before."""

import os
import re
import resource
import subprocess
import unittest

import support

MEGABYTE = 1 << 20


class StorageErrors(support.MohTest):
    # Large enough for two checkpoints not to fit on the small disk.
    LARGE = {"model.hidden": 48, "model.intermediate": 72, "checkpoint.every": 2, "train.steps": 8, "eval.every": 0}

    def checkpoint_bytes(self, run):
        return sum(path.stat().st_size for path in self.newest(run).iterdir())

    def check_survivor(self, run, step):
        """The checkpoint of this step is the newest and sound, and nothing of a later one is left."""
        self.assertEqual(self.newest(run).name, f"step_{step:08}")
        self.assert_no_litter(run)
        self.assert_says(self.moh("eval", "--checkpoint", run, "data=text.txt"), f"step_{step:08}")

    def check_end(self, run, settings):
        """With room again, the run goes on to the same end."""
        self.train(settings, "--resume", f"output.dir={run}")
        self.train(settings, "output.dir=whole")
        self.assert_same_state("whole", run)
        self.assert_same_history("whole", run)

    def mount(self, options):
        """A file system of its own in `disk`, or a skip."""
        disk = self.folder / "disk"
        disk.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=support.TIMEOUT_SECONDS)
        except OSError as error:
            self.skipTest(f"cannot mount: {error}")
        if result.returncode != 0:
            self.skipTest(f"cannot mount: {result.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", disk], check=True, timeout=support.TIMEOUT_SECONDS)
        return disk

    def test_a_disk_that_is_full_during_a_checkpoint(self):
        self.train(self.LARGE, "output.dir=probe")
        size = self.checkpoint_bytes("probe")
        self.assertTrue(MEGABYTE / 2 < size < MEGABYTE * 0.9, f"a checkpoint has {size} bytes; the test needs another")
        disk = self.mount("size=1m")
        output = self.train({**self.LARGE, "output.dir": "disk/run"}, code=support.STORAGE_ERROR)
        self.assertRegex(output, r"disk/run/checkpoints/\S+: \w+: expected room for \d+ more bytes, "
                                 r"found \d+ bytes free \(No space left on device\); make room")
        self.check_survivor("disk/run", 2)
        subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True, timeout=support.TIMEOUT_SECONDS)
        self.check_end("disk/run", {**self.LARGE, "output.dir": "disk/run"})

    def test_a_disk_that_is_full_from_the_start(self):
        disk = self.mount("size=16k")
        (disk / "ballast").write_bytes(bytes(8192))
        output = self.train({**self.LARGE, "output.dir": "disk/run"}, code=support.STORAGE_ERROR)
        self.assert_says(output, "disk/run", "No space left on device")

    def test_a_file_size_limit(self):
        self.train(self.LARGE, "output.dir=small", "train.steps=2")
        limit = self.checkpoint_bytes("small") // 2
        output = self.train(self.LARGE, "--resume", "output.dir=small", "--allow-changes", code=support.STORAGE_ERROR,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assert_says(output, "small/checkpoints/", "File too large", "ulimit -f")
        self.check_survivor("small", 2)

    def test_a_read_only_disk(self):
        disk = self.mount("size=1m")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True, timeout=support.TIMEOUT_SECONDS)
        output = self.train({"output.dir": "disk/run"}, code=support.STORAGE_ERROR)
        self.assert_says(output, "disk/run", "Read-only file system")

    def test_an_output_folder_that_is_none(self):
        self.assert_says(self.train({"output.dir": "text.txt"}, code=support.STORAGE_ERROR), "text.txt")

    def test_tokenizing_onto_a_full_disk(self):
        disk = self.mount("size=16k")
        self.write("long.txt", support.text_of_words(20000))
        output = self.moh("data", "tokenize", "--input", "long.txt", "--output", "disk/long.tokens",
                          code=support.STORAGE_ERROR)
        self.assert_says(output, "disk/", "No space left on device")
        self.assertEqual(os.listdir(disk), [])


@unittest.skipUnless(support.build_has_failpoints(), "this build has no failure points")
class FailingOperations(support.MohTest):
    """The operating system refuses the n-th operation of a kind, for every n there is."""

    def setUp(self):
        super().setUp()
        self.config_file = self.config({**support.SMALLEST, "train.steps": 4, "checkpoint.every": 2,
                                        "checkpoint.keep_last": 1, "eval.every": 0, "log.every": 2})
        self.moh("train", self.config_file, "output.dir=whole")

    def fail_at(self, failure):
        """Trains with the failure, and again without it. Returns the exit code of the first run, its output, and the
        step that the second one went on from."""
        run = re.sub(r"\W", "_", failure)
        result = self.command("train", self.config_file, f"output.dir={run}", "--log-level", "debug",
                              env={"MOH_FAIL": failure})
        if result.returncode == support.DONE:
            return result.returncode, result.output, None
        self.assertEqual(result.returncode, support.STORAGE_ERROR, result.output)
        output = self.moh("train", self.config_file, "--resume", f"output.dir={run}")
        self.assert_same_state("whole", run)
        self.assert_same_history("whole", run)
        self.assert_no_litter(run)
        found = re.search(r"resume: from step (\d+)", output)
        return result.returncode, result.output, int(found.group(1)) if found else 0

    def check_all(self, point, error, message):
        """Fails each pass in turn until a run has no more of them; returns how many ended the run."""
        stopped = 0
        for number in range(1, 1000):
            failure = f"{point}_{number}={error}"
            with self.subTest(failure=failure):
                code, output, resumed_from = self.fail_at(failure)
                if message not in output:
                    self.assertEqual(code, support.DONE, output)
                    break  # there is no such pass
                if code == support.DONE:
                    self.assertIn("warning: ", output)  # an old checkpoint could not be removed: no reason to stop
                    continue
                stopped += 1
                announced = re.findall(r"step (\d+): saved", output)
                # A save that failed is never resumed from; one that was announced always is.
                self.assertEqual(resumed_from, int(announced[-1]) if announced else 0)
        self.assertGreater(stopped, 0)

    def test_writes_on_a_full_disk(self):
        self.check_all("io:write", "ENOSPC", "No space left on device")

    def test_syncs_that_fail_publish_nothing(self):
        self.check_all("io:fsync", "EIO", "Input/output error")

    def test_writes_that_are_cut_short_or_interrupted_go_on(self):
        for actions in (("short", "EINTR"), ("EINTR", "short")):
            failures = ",".join(f"io:write_{number}={actions[number % 2]}" for number in range(1, 200))
            self.moh("train", self.config_file, "--overwrite", env={"MOH_FAIL": failures})
            self.assert_same_state("whole", "run")
            self.assert_same_history("whole", "run")

    def test_an_old_checkpoint_that_cannot_be_removed_is_a_warning(self):
        output = self.moh("train", self.config_file, "--log-level", "debug", env={"MOH_FAIL": "io:unlink_1=EPERM"})
        self.assert_says(output, "warning: old checkpoint not removed", "Operation not permitted", "step 4: saved")
        self.assertEqual([path.name for path in self.checkpoints()], ["step_00000004"])
        self.moh("train", self.config_file, "--resume")  # the next start tries again
        self.assert_no_litter()
        self.assert_same_state("whole", "run")


if __name__ == "__main__":
    support.main()
