"""Training on the simulated GPU gives the losses of the CPU, and its checkpoints work on both."""

import json
import os
import pathlib
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
    "learned": "model.moh={router: learned, shared: 1, routed: 1}",
    "query_norm": "model.moh={router: query_norm, shared: 1, routed: 2}",
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

    def test_losses_in_bfloat16(self):
        options = [MODELS["learned"], "precision=bfloat16"]
        self.assert_same_run(self.train("gpu", *options, "device=cuda"), self.train("cpu", *options), 0.02)

    def test_recomputation_changes_nothing(self):
        plain = self.train("plain", MODELS["learned"], "device=cuda")
        again = self.train("again", MODELS["learned"], "device=cuda", "model.recompute=layer")
        self.assertEqual([r["loss"] for r in plain], [r["loss"] for r in again])

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
