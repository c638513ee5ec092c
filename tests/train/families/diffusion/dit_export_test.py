"""Diffusion transformers that moh exports with their code for PyTorch: the predictions of moh, DiT's interface, and the way back."""

import importlib
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path += [str(pathlib.Path(__file__).resolve().parents[3] / folder) for folder in ("support", "cli")]
import python_packages  # noqa: E402

python_packages.require("torch", "safetensors")

import torch  # noqa: E402

import support  # noqa: E402

torch.set_num_threads(1)
PREDICTION = os.environ["MOH_DIT_PREDICTION"]
# Error as a share of the largest number of a prediction. Found by this test: at most 5e-7.
TOLERANCE = 1e-5
SIZES = {"image_size": 16, "patch_size": 4, "channels": 3, "classes": 8, "layers": 2, "hidden": 48, "heads": 4, "mlp_ratio": 2}
MODELS = {
    "dense": {},
    "moh": {"moh": {"router": "learned", "num_shared": [2, 4], "top_k": [1, 0]}},
    "heads_by_layer": {"heads": [2, 6], "head_dim": 12, "attention_gate": "head", "learn_variance": False,
                       "moh": {"router": "learned", "num_shared": [1, 2], "top_k": [1, 2], "balance_layers": "sum"}},
    "condition": {"moh": {"router": "condition", "num_shared": 1, "top_k": 2}},
    "static": {"moh": {"router": "static", "num_shared": 2}},
}


def run_of(model):
    return "\n".join(f"{key}: {json.dumps(value)}" for key, value in {
        "task": "diffusion", "seed": 3, "threads": 1, "model": {**SIZES, **model}, "data": {"drawn": 16},
        "diffusion": {"label_dropout": 0.2}, "sample": {"pictures": 0}, "train": {"steps": 4, "batch_size": 8},
        "optim": {"learning_rate": 0.05}, "schedule": {"warmup_steps": 0}, "ema": {"decay": 0}, "eval": {"every": 0},
        "log": {"every": 4}}.items())


class DitExport(support.MohTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        self.x = torch.randn(4, 3, 16, 16)
        self.t, self.y = torch.tensor([0, 250, 999, 600]), torch.tensor([0, 3, 7, 8])

    def exported(self, name):
        """A model of MODELS after a short training, as a folder for Python; and as such it is opened."""
        self.write(f"{name}.yaml", run_of(MODELS[name]))
        self.moh("train", f"{name}.yaml", f"output.dir={name}")
        self.moh("convert", "--from", name, "--to", f"{name}_hf", "--format", "hf")
        return self.opened(self.folder / f"{name}_hf")

    def opened(self, folder):
        for module in ("modeling_moh_dit", "moh_attention"):
            sys.modules.pop(module, None)
        sys.path.insert(0, str(folder))
        self.addCleanup(sys.path.remove, str(folder))
        return importlib.import_module("modeling_moh_dit").load(folder)

    def prediction_in_moh(self, model):
        self.write("inputs.json", json.dumps({"images": self.x.flatten().tolist(), "steps": self.t.tolist(), "labels": self.y.tolist()}))
        done = subprocess.run([PREDICTION, model, "inputs.json"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return torch.tensor(json.loads(done.stdout)).unflatten(0, (4, -1, 16, 16))

    def assert_close(self, found, expected):
        self.assertEqual(found.shape, expected.shape)
        self.assertLess((found - expected).abs().max() / expected.abs().max(), TOLERANCE)

    def test_the_same_predictions_by_every_way(self):
        for name in MODELS:
            with self.subTest(name), torch.no_grad():
                model = self.exported(name)
                expected = self.prediction_in_moh(name)
                self.assertGreater(expected.std(), 0.01)
                self.assert_close(self.prediction_in_moh(f"{name}_hf"), expected)  # moh reads its export
                self.assert_close(model(self.x, self.t, self.y), expected)
                # moh reads the weights that Python saves, too.
                torch.save(model.state_dict(), self.folder / "state.pt")
                self.moh("convert", "--from", "state.pt", "--config", f"{name}.yaml", "--to", f"{name}_back", "--format", "moh")
                self.assert_close(self.prediction_in_moh(f"{name}_back"), expected)
                # And samples from it as from the run itself.
                for folder in (name, f"{name}_hf"):
                    self.moh("sample", "--checkpoint", folder, "--out", f"{folder}_out", "-n", 2, "--steps", 2, "--cfg", 2)
                pictures = [(self.folder / f"{folder}_out/grid.png").read_bytes() for folder in (name, f"{name}_hf")]
                self.assertEqual(*pictures)

    def test_guidance_is_that_of_dit(self):
        model = self.exported("moh")
        with torch.no_grad():
            y = torch.tensor([0, 3, 8, 8])
            found = model.forward_with_cfg(self.x, self.t, y, 1.5)
            pictures = torch.cat([self.x[:2], self.x[:2]])
            with_class, without = model(pictures, self.t, y)[:, :3].chunk(2)
            noise = without + 1.5 * (with_class - without)
            torch.testing.assert_close(found[:, :3], torch.cat([noise, noise]))
            torch.testing.assert_close(found[:, 3:], model(pictures, self.t, y)[:, 3:])

    def test_gates_labels_and_gradients(self):
        model = self.exported("moh").train()
        self.assertEqual((model.in_channels, model.out_channels, model.learn_sigma), (3, 6, True))
        prediction, routing = model(self.x, self.t, self.y, output_gates=True)
        self.assertEqual([tuple(gates.shape) for gates in routing.gates], [(4, 16, 4)] * 2)
        self.assertTrue(bool(((routing.gates[0] != 0).sum(-1) == 3).all()))
        (prediction.square().mean() + 0.01 * routing.balance_loss).backward()
        for name, parameter in model.named_parameters():
            if name == "pos_embed":
                self.assertFalse(parameter.requires_grad)
            else:
                self.assertGreater(parameter.grad.abs().max(), 0, name)
        self.assertEqual(model.y_embedder.dropout_prob, 0.2)
        labels = torch.zeros(1000, dtype=torch.long)
        rows = model.y_embedder(labels)
        dropped = (rows == model.y_embedder.embedding_table.weight[8]).all(-1).float().mean().item()
        self.assertTrue(0.1 < dropped < 0.3, dropped)
        # All tokens of a picture have the same heads where the condition chooses them.
        gates = self.exported("condition")(self.x, self.t, self.y, output_gates=True)[1].gates[0]
        torch.testing.assert_close(gates, gates[:, :1].expand_as(gates))


if __name__ == "__main__":
    python_packages.main()
