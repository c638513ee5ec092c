"""Training on the simulated GPU gives the losses of the CPU, and its checkpoints work on both."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

TEXT = "Whether it is nobler in the mind to suffer the slings and arrows of outrageous fortune, or not. " * 30

CONFIG = """
data: {train: [text.txt], sequence_length: 16, validation_fraction: 0.1}
model: {vocab_size: 257, layers: 2, hidden: 32, intermediate: 64, heads: 4, kv_heads: 2, max_positions: 16}
train: {steps: 3, batch_size: 2, accumulate: 2}
log: {every: 1}
eval: {max_tokens: 64}
optim: {learning_rate: 0.01}
schedule: {warmup_steps: 0}
threads: 1
"""

MODELS = {
    "dense": "model.moh.router=none",
    "learned": "model.moh={router: learned, num_shared: 1, top_k: 1}",
    "query_norm": "model.moh={router: query_norm, num_shared: 1, top_k: 2}",
    "listed": "model.moh={router: learned, num_shared: 2, shared_heads: [1, 3], top_k: 1}",
    "dropout": "model.dropout=0.2",
}


class Train(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "text.txt").write_text(TEXT)
        (self.folder / "config.yaml").write_text(CONFIG)

    def moh(self, *arguments, code=0):
        run = subprocess.run(
            [os.environ["MOH_SIM_BINARY"], *arguments], cwd=self.folder, capture_output=True, text=True, errors="replace"
        )
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run.stdout if code == 0 else run.stdout + run.stderr

    def train(self, name, *overrides):
        self.moh("train", "config.yaml", f"output.dir={name}", *overrides)
        return self.metrics(name)

    def metrics(self, name):
        with open(self.folder / name / "metrics.jsonl") as file:
            return [json.loads(line) for line in file]

    def assert_same_run(self, found, expected, tolerance):
        self.assertEqual([r["kind"] for r in found], [r["kind"] for r in expected])
        for a, b in zip(found, expected):
            for key in ("loss", "grad_norm", "balance_loss"):
                if key in b:
                    self.assertLess(abs(a[key] / b[key] - 1), tolerance, f"{key} of step {b['step']}: {a[key]}, {b[key]}")

    def test_losses_are_those_of_the_cpu(self):
        for name, model in MODELS.items():
            with self.subTest(name):
                expected = self.train("cpu_" + name, model)
                self.assertGreater(expected[0]["loss"] - expected[-1]["loss"], 0.05)  # there is something to compare
                self.assert_same_run(self.train("gpu_" + name, model, "device=cuda"), expected, 1e-5)

    def test_a_run_that_begins_from_a_checkpoint(self):
        self.train("dense", "model.moh.router=none")
        for heads, router in (("output_norm", "learned"), ("loss_increase", "query_norm")):
            with self.subTest(heads):
                moh = f"model.moh={{router: {router}, num_shared: 1, top_k: 2, shared_heads: {heads}}}"
                calibration = "init.moh.calibration={batches: 1}"
                losses, chosen = {}, {}
                for device in ("cpu", "cuda"):
                    run = f"{device}_{heads}"
                    losses[device] = self.train(run, "init.from=dense", moh, calibration, f"device={device}")
                    chosen[device] = re.findall("shared_heads: .*", (self.folder / run / "config.yaml").read_text())
                self.assertEqual(chosen["cuda"], chosen["cpu"])
                self.assert_same_run(losses["cuda"], losses["cpu"], 2e-5)  # the balance loss feels every weight

    def test_losses_in_bfloat16(self):
        options = [MODELS["learned"], "precision=bfloat16"]
        self.assert_same_run(self.train("gpu", *options, "device=cuda"), self.train("cpu", *options), 0.02)

    def test_recomputation_changes_nothing(self):
        plain = self.train("plain", MODELS["learned"], "device=cuda")
        again = self.train("again", MODELS["learned"], "device=cuda", "model.recompute=layer")
        self.assertEqual([r["loss"] for r in plain], [r["loss"] for r in again])

    def test_a_captured_step_changes_nothing(self):
        options = [MODELS["learned"], "device=cuda", "train.steps=7", "eval.every=3", "checkpoint.every=5"]
        plain = self.train("plain", *options)
        self.assertIn("the step is captured: ", self.moh("train", "config.yaml", "output.dir=graph", *options, "cuda_graph=true"))
        graph = self.metrics("graph")
        keep = ("kind", "step", "loss", "grad_norm", "balance_loss", "head_load", "learning_rate", "tokens")
        self.assertEqual([[r.get(key) for key in keep] for r in plain], [[r.get(key) for key in keep] for r in graph])
        checkpoint = "checkpoints/step_00000007/model.safetensors"
        self.assertEqual((self.folder / "plain" / checkpoint).read_bytes(), (self.folder / "graph" / checkpoint).read_bytes())
        # Its checkpoint is of use on a CPU, and the run may go on without.
        self.moh("eval", "--checkpoint", "graph", "device=cpu")
        resumed = self.train("graph", *options, "train.steps=8", "schedule.decay_steps=7", "cuda_graph=false", "--resume")
        self.assertEqual(resumed[-1]["step"], 8)

    def test_reports_that_come_a_step_late_are_complete(self):
        options = ["model.moh.router=none", "device=cuda", "train.steps=7", "eval.every=3", "log.every=2"]
        found = [(r["kind"], r["step"]) for r in self.train("run", *options)]
        steps = [("train", step) for step in (1, 2, 4, 6, 7)]
        self.assertEqual([f for f in found if f[0] == "train"], steps)
        self.assertEqual([f for f in found if f[0] == "eval"], [("eval", 3), ("eval", 6), ("eval", 7)])
        self.assertLess(found.index(("train", 2)), found.index(("eval", 3)))

    def test_a_step_that_is_not_finite_is_skipped_or_ends_the_run(self):
        options = ["model.moh.router=none", "train.steps=6", "optim.learning_rate=1e30", "guard.non_finite=skip",
                   "guard.max_skipped=2", "eval.every=0"]
        messages = []
        for device in ("device=cpu", "device=cuda", "device=cuda,cuda_graph=true"):
            command = ["train", "config.yaml", "--overwrite", "output.dir=run", *options, *device.split(",")]
            run = subprocess.run([os.environ["MOH_SIM_BINARY"], *command], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(run.returncode, 4, run.stdout + run.stderr)
            messages.append([re.sub("loss [^,]*", "", line) for line in run.stdout.split("\n") if "finite" in line])
            messages[-1] = [line.split(": ", 1)[1] for line in messages[-1]]
        self.assertIn("after 2 skipped steps in a row", messages[0][-1])
        self.assertEqual(messages[1], messages[0])
        self.assertEqual(messages[2], messages[0])

    def test_runs_with_the_same_algorithms_compute_the_same_bits(self):
        numbers = {}
        for name, options in {
            "untimed": [],
            "searched": ["gemm_algorithms=products.txt"],
            "again": ["gemm_algorithms=products.txt"],
        }.items():
            numbers[name] = [(r["loss"], r.get("grad_norm")) for r in self.train(name, "device=cuda", *options)]
            if name == "searched":
                kept = (self.folder / "products.txt").read_text()
        self.assertIn("cuBLASLt 130100, simulated GPU\n", kept)
        self.assertIn(" accumulate: fused id 12 ", kept)  # micro-batches add to the weights' gradients in place
        self.assertEqual(kept, (self.folder / "products.txt").read_text())
        self.assertEqual(numbers["again"], numbers["searched"])
        self.assertNotEqual(numbers["untimed"], numbers["searched"])  # another algorithm sums in another order
        # Evaluation uses what the file has, and adds nothing.
        self.moh("eval", "--checkpoint", "searched", "data.sequence_length=7")
        self.assertEqual(kept, (self.folder / "products.txt").read_text())
        (self.folder / "products.txt").write_text(kept.replace("simulated", "some other"))
        said = self.moh("train", "config.yaml", "output.dir=b", "device=cuda", "gemm_algorithms=products.txt", code=3)
        self.assertIn("products.txt:2: expected algorithms for cuBLASLt 130100, simulated GPU", said)

    def test_tf32_rounds_what_is_multiplied(self):
        plain = self.train("plain", MODELS["dense"], "device=cuda")
        rounded = self.train("rounded", MODELS["dense"], "device=cuda", "tf32=true")
        self.assert_same_run(rounded, plain, 0.01)
        self.assertNotEqual([r["loss"] for r in plain], [r["loss"] for r in rounded])
        # The CPU has no TF32: training says so, a checkpoint works without.
        said = self.moh("train", "config.yaml", "output.dir=cpu", "tf32=true", code=2)
        self.assertIn("tf32: expected false with device: cpu", said)
        self.moh("generate", "--checkpoint", "rounded", "--prompt", "the", "--tokens", "2", "--device", "cpu")

    def test_a_run_goes_on_and_its_checkpoint_works_on_both_devices(self):
        options = [MODELS["learned"], "device=cuda", "schedule.decay_steps=4", "checkpoint.every=2"]
        whole = self.train("whole", *options, "train.steps=4")
        self.train("parts", *options, "train.steps=2")
        parts = self.train("parts", *options, "train.steps=4", "--resume")
        for step in (3, 4):
            losses = [[r["loss"] for r in run if r["kind"] == "train" and r["step"] == step] for run in (whole, parts)]
            self.assertEqual(losses[0], losses[1])
        on_gpu = self.moh("eval", "--checkpoint", "whole")
        on_cpu = self.moh("eval", "--checkpoint", "whole", "device=cpu")
        self.assertEqual(on_gpu.split()[:3], on_cpu.split()[:3])
        words = ("generate", "--checkpoint", "whole", "--prompt", "the", "--tokens", "12", "--temperature", "0")
        self.assertEqual(self.moh(*words).split("\n")[0], self.moh(*words, "--device", "cpu").split("\n")[0])


if __name__ == "__main__":
    unittest.main()
