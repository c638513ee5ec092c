"""SIGKILL at any moment loses no checkpoint, and the run that is resumed ends as if nothing had happened."""

import os
import pathlib
import random
import re
import shutil
import time
import unittest

import support
from support import SMALLEST

NUM_KILLS = int(os.environ.get("MOH_TEST_KILLS", 50))
SEED = 20241011

class RandomKills(support.MohTest):
    STEPS = 60

    def test_no_checkpoint_is_lost(self):
        config = self.config({"train.steps": self.STEPS, "checkpoint.every": 1, "eval.every": 20,
                              "checkpoint.keep_best": True, "model.dropout": 0.1})
        began = time.monotonic()
        self.moh("train", config, "output.dir=whole")
        duration = time.monotonic() - began
        draw = random.Random(SEED)
        kills = finished = 0
        run = "run_0"
        while kills < NUM_KILLS:
            # From the start of the process to beyond a few saves; short enough for many kills in one run.
            if self.run_and_kill(config, run, draw.uniform(0.0, 0.3 * duration)):
                kills += 1
                self.check_survivors(run)
            else:
                finished += 1
                self.check_finished(run)
                run = f"run_{finished}"
        self.moh("train", config, "--resume", f"output.dir={run}")
        self.check_finished(run)
        print(f"{kills} kills; {finished + 1} runs ended as the uninterrupted one", flush=True)

    def run_and_kill(self, config, run, delay):
        """False when the run reached its end before."""
        log = self.folder / f"{run}.log"
        with log.open("ab") as output:
            process = support.start(self.folder, "train", config, "--resume", f"output.dir={run}",
                                    "--log-level", "debug", stdout=output)
            time.sleep(delay)
            process.kill()
            code = process.wait()
        self.assertIn(code, (-9, support.DONE), log.read_text())
        return code == -9

    def check_survivors(self, run):
        announced = re.findall(r"step (\d+): saved", (self.folder / f"{run}.log").read_text())
        if not announced:
            return
        newest = self.newest(run)
        self.assertGreaterEqual(int(newest.name.removeprefix("step_")), int(announced[-1]))
        self.assert_says(self.moh("eval", "--checkpoint", run), newest.name)

    def check_finished(self, run):
        self.assert_same_state("whole", run)
        self.assert_same_history("whole", run)
        self.assert_each_step_once(run, self.STEPS, eval_every=1)
        self.assert_no_litter(run)


def failpoints_in_sources():
    """The names of all failure points that the program passes."""
    names = set()
    for path in pathlib.Path(os.environ["MOH_SOURCE_DIR"], "train").rglob("*.cpp"):
        names.update(re.findall(r'MOH_FAILPOINT\("([\w:]+)"\)', path.read_text()))
    return sorted(names)


@unittest.skipUnless(support.build_has_failpoints(), "this build has no failure points")
class KillInsideSave(support.MohTest):
    """Dies at each pass of each failure point: before every system call that changes a file, and between the steps of
    a save. Two saves and the removal of an old checkpoint lie on the way."""

    def setUp(self):
        super().setUp()
        self.config_file = self.config({**SMALLEST, "train.steps": 4, "checkpoint.every": 2, "eval.every": 0,
                                        "checkpoint.keep_last": 1, "log.every": 2})
        self.moh("train", self.config_file, "output.dir=whole")

    def die_at(self, point, number):
        """False when the run has fewer passes of this point."""
        run = f"{point.replace(':', '_')}_{number}"
        result = self.command("train", self.config_file, f"output.dir={run}", "--log-level", "debug",
                              env={"MOH_FAIL": f"{point}_{number}"})
        if result.returncode == support.DONE:
            return False
        self.assertEqual(result.returncode, -9, result.output)
        announced = re.findall(r"step (\d+): saved", result.output)
        output = self.moh("train", self.config_file, "--resume", f"output.dir={run}")
        if announced:
            resumed_from = int(re.search(r"resume: from step (\d+)", output).group(1))
            self.assertGreaterEqual(resumed_from, int(announced[-1]))
        self.assert_same_state("whole", run)
        self.assert_same_history("whole", run)
        self.assert_no_litter(run)
        shutil.rmtree(self.folder / run)
        return True

    def test_every_failure_point(self):
        points = failpoints_in_sources()
        points.remove("io:exchange")  # of folders that are replaced as a whole, which is no business of training
        self.assertIn("ckpt:before_publish", points)
        deaths = 0
        for point in points:
            number = 1
            with self.subTest(point=point):
                while self.die_at(point, number):
                    number += 1
                self.assertGreater(number, 1, "no run passes this point")
            deaths += number - 1
        print(f"{deaths} deaths at {len(points)} points", flush=True)


if __name__ == "__main__":
    support.main()
