"""The hour of docs/gpu_hour.md, rehearsed: its calls of scripts/gpu_check.sh, one after the other, with the simulated GPU in place of one, at
the smallest sizes. The first call is killed in the middle of a part, as when a machine is taken away, and made again."""

import os
import pathlib
import re
import signal
import subprocess
import tarfile
import time
import unittest

from bundle_case import PARTS, SANITIZER, SOURCE, BundleCase, program

PAGE = SOURCE / "docs" / "gpu_hour.md"


def calls():
    """The arguments of the page's calls, without comments."""
    found = re.findall(r"^    scripts/gpu_check\.sh( [^#\n]*)?", PAGE.read_text(), re.MULTILINE)
    return [arguments.split() for arguments in found]


def kill_session(leader):
    """Kills each process of a session: `timeout` puts its own into groups of their own."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            session = int(stat.read_text().rpartition(")")[2].split()[3])
            if session == leader:
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except (OSError, IndexError):
            continue  # has ended meanwhile


class Hour(BundleCase):
    def setUp(self):
        super().setUp()
        program(self.tools / "compute-sanitizer", SANITIZER)
        program(self.tools / "nvidia-smi", "#!/bin/sh\ncase $1 in -L) echo 'GPU 0: simulated'; echo 'GPU 1: simulated' ;; *event*) exit 2 ;; *) echo '1980 MHz, 0x0' ;; esac\n")
        # All calls have one program, as results of others do not count. It stops once, at the third measurement of a step.
        self.stopped = self.bundle / "stopped"
        self.moh = self.moh_with_cases(f'''bench*step*/moh_llm_s_50.yaml*--profile*)
            [ -e {self.stopped} ] || {{ touch {self.stopped}; exec sleep 600; }} ;;''')

    def killed(self, arguments):
        """Makes a call, and kills it where it has stopped."""
        environment = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(self.libraries),
                       "MOH_BINARY": self.moh, "MOH_SIM_GPUS": "2"}
        call = subprocess.Popen([self.bundle / "scripts" / "gpu_check.sh", "--sizes", self.bundle / "sizes", *arguments],
                                env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            while not self.stopped.exists():
                self.assertIsNone(call.poll(), "the call has ended before it stopped")
                time.sleep(0.05)
        finally:
            kill_session(call.pid)
            call.wait()

    def call(self, *arguments):
        return self.check(*arguments, MOH_BINARY=self.moh, MOH_SIM_GPUS="2")

    def statuses(self, parts):
        return {part: self.status(part)["status"] for part in parts}

    def packed(self, part):
        with tarfile.open(self.results / "packed" / f"{part}.tar.gz") as archive:
            return set(archive.getnames())

    def test_the_calls_of_the_page(self):
        first, second, third = calls()
        parts = first[first.index("--only") + 1].split(",")
        self.killed(first)
        before = parts[:parts.index("step")]
        self.assertEqual(self.statuses([*before, "step"]), {**dict.fromkeys(before, "passed"), "step": "cut off"})
        pieces = {path.name: path.read_bytes() for path in self.results.glob("step.*.piece")}
        self.assertEqual(set(pieces), {"step.llm_s.piece", "step.llm_s_graph.piece"})
        self.assertIn("first.json", self.packed("first"))  # what has ended can be fetched
        self.assertFalse((self.results / "packed" / "step.tar.gz").exists())

        output = self.call(*first)
        for part in before:
            self.assertIn(f"{part}: is in {self.results} already (passed)", output)
        self.assertEqual({name: (self.results / name).read_bytes() for name in pieces}, pieces)  # the very same numbers
        self.assertEqual(self.statuses(parts), dict.fromkeys(parts, "passed"))
        self.assertEqual(len(self.records("step")), 4)

        self.call(*second)
        self.assertIn("all is well", self.call(*third))
        self.assertEqual(self.statuses(PARTS), {**dict.fromkeys(PARTS, "passed"), "pytorch": "skipped"})
        for part in PARTS:
            self.assertLessEqual({"PROGRAM", f"{part}.json", f"{part}.jsonl", f"{part}.log"}, self.packed(part))
        state = self.status("step")
        self.assertEqual((state["gpu_before"], state["gpu_after"]), ("1980 MHz, 0x0", "1980 MHz, 0x0"))
        self.check_records()
        self.check_tables()
        began = {part: self.status(part) for part in PARTS[:-1]}
        self.assertIn("ops_f32: is in ", self.call())  # nothing runs twice
        self.assertEqual({part: self.status(part) for part in PARTS[:-1]}, began)
        self.assertIn("tests: passed", self.call("--again", "--only", "device,tests"))

    def check_records(self):
        self.assertEqual(self.records("device")[0]["commit"], "0123456789ab")
        self.assertIn("All tests passed", self.records("tests")[0]["summary"])
        sanitized = (self.tools / "compute-sanitizer.log").read_text().splitlines()
        common = "--target-processes all --error-exitcode 99"  # cuda_tests is a script that becomes the program
        memcheck = f"--tool memcheck {common} --report-api-errors no"
        self.assertEqual([line.split(" " + str(self.bundle))[0] for line in sanitized],
                         [memcheck, memcheck, f"--tool racecheck {common}", f"--tool synccheck {common}"])
        self.assertTrue(sanitized[0].endswith(" -c width 16"))
        self.assertEqual([(r["check"], r["result"]) for r in self.records("first") if "check" in r],
                         [(name, "passed") for name in ("device primitives", "attention, head width 16", "attention, head width 24",
                                                        "a step that waits for each kernel", "captured steps")])
        self.assertIn("no cuDNN", self.records("device")[0]["dense_attention"])
        self.check_modes()
        losses = self.records("losses")
        self.assertEqual([(r["model"][17:], r["precision"], r["steps"], r["good"]) for r in losses],
                         [(m, p, 3, True) for m in ("dense", "moh_50") for p in ("float32", "bfloat16")])
        self.assertTrue(all(r["cpu_loss"] > 1 and r["early_difference"] < 0.02 for r in losses))
        self.assertLess(max(r["difference"] for r in losses if r["precision"] == "float32"), 1e-3)
        self.assertEqual([(r["config"].split("/")[-1], r["cuda_graph"], "profile" in r) for r in self.records("step")],
                         [(f"{model}.yaml", graph, not graph) for model in ("llm_s", "moh_llm_s_50") for graph in (False, True)])
        self.assertTrue(all(r["dtype"] == "bfloat16" for r in self.records("step")))
        for row in ("| llm_s |  | moh / moh | 1 x 8 |", "| moh_llm_s_50 | replayed | moh / moh | 1 x 8 |"):
            self.assertIn(row, (self.bundle / "gpu.md").read_text())
        self.check_kernels()
        self.assertEqual([(r["config"].split("/")[-1], r["cuda_graph"], r["image_size"]) for r in self.records("step_images")],
                         [(f"{model}.yaml", graph, 32) for model in ("tiny", "tiny_moh") for graph in (False, True)])
        self.assertEqual([(r["tokens"], r["batch"], r["heads"], r["pooled"], r["active"]) for r in self.records("attention_window")],
                         [(*size, 4, active) for size in ((16, 2, 2), (36, 1, 4)) for active in (1.0, 0.5)])
        self.assertEqual([(r["tokens"], r["batch"], r["op"], r["active"]) for r in self.records("attention_causal")],
                         [(t, b, *form) for t, b in ((8, 2), (12, 1)) for form in
                          (("attention", 1.0), ("attention_in_any_order", 1.0), ("head_sparse_attention", 1.0),
                           ("head_sparse_attention", 0.5))])

    def check_kernels(self):
        self.assertEqual([r["config"].split("/")[-1] for r in self.records("kernels")], ["llm_b.yaml", "moh_llm_b_50.yaml"])
        text = (self.bundle / "gpu.md").read_text()
        for words in ("moh_llm_b_50 beside llm_b, by kernel", "| head_lists | 0 | 0.000 | ",
                      "llm_b, matrix multiplications, first proposal and best"):
            self.assertIn(words, text)
        self.assertRegex(text, r"\| attention\w* \| attention_packed \| (forward|backward) \| 1 \|")
        self.assertFalse((self.results / "kernels.none").exists())
        captured = [r for r in self.records("step") if r["cuda_graph"]]
        self.assertIn(f"| {captured[0]['graph_nodes']} nodes, ", text)

    def check_modes(self):
        modes = self.records("modes")
        self.assertEqual([(r["mode"], r["reference"], r["expected"], r["steps"], r["good"]) for r in modes],
                         [(*names.split(), 6, True) for names in (
                             "moh_again moh same", "moh_graph moh same", "dense_again dense same", "dense_graph dense same",
                             "searched moh near", "read_back searched same", "read_back_graph searched same",
                             "tf32 float32 rounded")])
        self.assertEqual([(r["mode"], r["reference"], r["expected"], r["good"]) for r in self.records("processes")],
                         [(*names.split(), True) for names in (
                             "host_2 one_of_2 near", "nccl_2 one_of_2 near", "nccl_2_graph nccl_2 same")])
        differences = {r["mode"]: r["loss_difference"] for r in modes}
        self.assertGreater(differences["tf32"], 0)
        self.assertEqual({differences[r["mode"]] for r in modes if r["expected"] == "same"}, {0})

    def check_tables(self):
        text = (self.bundle / "gpu.md").read_text()
        for words in ("GPU: simulated GPU, compute capability 9.0", "commit 0123456789ab", "| tests | passed |",
                      "| tiny_shakespeare_moh_50 | bfloat16 | 3 |", "| yes | this machine |",
                      "## Modes of computing", "## Several processes", "| nccl_2 | one_of_2 | 6 |", "| moh_graph | moh | 6 | same bits | 0.00e+00 | 0.00e+00 | yes |",
                      "| tf32 | float32 | 6 | losses within 0.01, other bits |", "- dense attention in bfloat16: moh's kernels",
                      "| moh_llm_s_50 | replayed | moh / moh | 1 x 8 |", "## Steps of the language models", "| moh_llm_s_50 |  | moh / moh | 1 x 8 |",
                      "llm_s, share of the time by op", "| adamw |", "## Training", "| llm_s | 12 |", "## Attention, causal",
                      "| 12 | 1 | lists | 50.0% |", "## Attention, full", "## Steps of the image classifiers", "| tiny_moh | replayed | moh / moh | 1 x 32 |",
                      "tiny_moh, share of the time by op", "## Aggregated attention", "| 36 | 1 | lists | 50.0% |", "## Attention layers", "## Ops in bfloat16",
                      "| matmul peak |", "## Ops in float32", "| pytorch | skipped |"):
            self.assertIn(words, text)
        for line in text.splitlines():
            if line.startswith("|"):
                self.assertEqual(line[-1], "|")
        self.assertNotIn("Not run", text)


if __name__ == "__main__":
    unittest.main()
