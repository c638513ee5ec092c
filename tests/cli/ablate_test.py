"""scripts/ablate.py: trains rows of the ablations with seeds, goes on where it was stopped, and prints what it found."""

import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import time

import support

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/ablate.py"
TINY = ("model.classes=8", "model.image_size=16", "model.transnext.dims=[16,32,64]", "model.transnext.mlp_ratios=[2,2,2]",
        "model.transnext.depths=[1,1,1]", "data.train=[]", "data.validation=[]", "data.drawn=32",
        "data.drawn_validation=16", "data.eval_resize=18",
        "train.batch_size=8", "train.epochs=2", "schedule.warmup_epochs=0", "log.every=1")


def load_script():
    spec = importlib.util.spec_from_file_location("ablate", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Ablate(support.MohTest):
    def ablate(self, *arguments, code=0, settings=TINY):
        command = [sys.executable, "-B", str(SCRIPT), "--moh", support.MOH, "--out", str(self.folder / "out"), "--threads", "1",
                   *arguments, "--", *settings]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=support.TIMEOUT_SECONDS)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def test_a_table_of_rows_and_seeds(self):
        output = self.ablate("--rows", "no_shared", "moa", "--seeds", "1,2").stdout.splitlines()
        self.assertEqual([line.split(" | ")[0] for line in output[2:]], ["| full", "| no_shared", "| moa"])
        self.assertRegex(output[3], r"\| 75\.60 \| table 5 \| -3\.00 \| \d+\.\d\d ± \d+\.\d\d \| [+-]\d+\.\d\d ± ")
        # What is finished is not repeated, and the table is the same.
        before = {path: path.stat().st_mtime_ns for path in (self.folder / "out").glob("*/metrics.jsonl")}
        self.assertEqual(len(before), 6)
        self.assertEqual(self.ablate("--rows", "no_shared", "moa", "--seeds", "1,2").stdout.splitlines(), output)
        self.assertEqual({path: path.stat().st_mtime_ns for path in before}, before)

    def test_a_stopped_script_goes_on(self):
        expected = self.ablate("--rows", "full", "--seeds", "1,2").stdout
        (self.folder / "out").rename(self.folder / "whole")
        command = [sys.executable, "-B", str(SCRIPT), "--moh", support.MOH, "--out", str(self.folder / "out"), "--threads", "1",
                   "--rows", "full", "--seeds", "1,2", "--", *TINY]
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        metrics = self.folder / "out/full_1/metrics.jsonl"
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        while not metrics.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.assertEqual(self.ablate("--rows", "full", "--seeds", "1,2").stdout, expected)
        self.assertEqual(support.history(self.folder / "out/full_2"), support.history(self.folder / "whole/full_2"))

    def test_refusals(self):
        self.assertIn("no row fool", self.ablate("--rows", "fool", code=2).stderr)
        self.assertIn("one comes twice", self.ablate("--seeds", "1,1", code=2).stderr)
        self.ablate("--rows", "full", "--seeds", "1")
        other = self.ablate("--rows", "full", "--seeds", "1", settings=(*TINY, "train.epochs=3"), code=1).stderr
        self.assertIn("has runs with other settings", other)
        (self.folder / "out").rename(self.folder / "good")
        failed = self.ablate("--rows", "full", "--seeds", "1", settings=(*TINY, "model.transnext.window=4"), code=1).stderr
        self.assertRegex(failed, r"full, seed 1: moh train ended with code 2; see .*log\.txt")
        self.assertIn("window", (self.folder / "out/full_1/log.txt").read_text())


class Numbers(support.MohTest):
    def test_intervals(self):
        ablate = load_script()
        self.assertEqual(ablate.mean_and_interval([3.0]), (3.0, None))
        mean, half = ablate.mean_and_interval([1.0, 2.0, 3.0])
        self.assertEqual(mean, 2)
        self.assertAlmostEqual(half, 4.303 / 3 ** 0.5)
        self.assertAlmostEqual(ablate.mean_and_interval(list(range(100)))[1], 1.96 * 29.011492 / 10, places=4)

    def test_every_row_has_its_configuration(self):
        ablate = load_script()
        self.assertEqual({path.stem for path in ablate.CONFIGS.glob("*.yaml")}, set(ablate.ROWS))
        for text, published, source in ablate.ROWS.values():
            self.assertTrue(text)
            self.assertEqual(published is None, source == "")

    def test_differences_are_paired(self):
        ablate = load_script()
        scores = {("full", 1): 50.0, ("full", 2): 60.0, ("moa", 1): 49.0, ("moa", 2): 59.0}
        line = ablate.table(scores, ["full", "moa"], "full", [1, 2])[-1]
        self.assertTrue(line.endswith("| -3.20 | 54.00 ± 63.53 | -1.00 ± 0.00 |"), line)


if __name__ == "__main__":
    support.main()
