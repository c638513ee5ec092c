"""Classifiers that moh exports with their code for PyTorch: the same classes as in moh, timm's interface, and the way back."""

import importlib
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import python_packages  # noqa: E402

python_packages.require("torch", "timm", "PIL", "safetensors", "transformers")
FOLDER = tempfile.TemporaryDirectory()
# Nothing is looked for on the network, and the models' code is kept nowhere else.
os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=FOLDER.name)

import numpy  # noqa: E402
import timm  # noqa: E402
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from transformers import AutoModelForImageClassification  # noqa: E402

import support  # noqa: E402

torch.set_num_threads(1)
SIDE, CLASSES = 32, 8
# Error of a probability, and of a logit or feature as a share of the largest. Found by this test: at most 4e-7.
TOLERANCE = 1e-5
VIT = {"patch_size": 8, "layers": 2, "hidden": 48, "heads": 4, "mlp_ratio": 2}
TRANSNEXT = {"patch_size": 2, "dims": [24, 48], "heads": [3, 4], "depths": [1, 2], "mlp_ratios": [2, 2], "pool_ratios": [2, 1]}
LEARNED = {"router": "learned", "num_shared": 2, "top_k": 1}
# name: the section `model` besides its sizes.
MODELS = {
    "vit_moh": {"vit": VIT, "moh": LEARNED},
    "vit_moh_forms": {"vit": VIT, "attention_gate": "element", "moh": {
        "router": "learned", "num_shared": 1, "shared_heads": [[3], [1]], "top_k_ratio": 0.6, "gate_scaling": "paper", "two_stage": False,
        "balance_loss": "cv", "balance_bias": 0.001}},
    "vit_dense": {"vit": {**VIT, "pooling": "mean", "single_kv_head": True, "head_dim": 8}, "attention_gate": "head"},
    "vit_static": {"vit": VIT, "moh": {"router": "static", "num_shared": 2, "shared_heads": [0, 2]}},
    "vit_learned": {"vit": VIT, "moh": {"router": "learned", "num_shared": 2, "top_k": 1, "learn_shared_until": 0.5}},
    "transnext_moh": {"transnext": TRANSNEXT, "moh": {"router": "learned", "num_shared": [0, 2], "top_k": [2, 1]}},
    "transnext_dense": {"transnext": TRANSNEXT},
    "transnext_forms": {"transnext": {**TRANSNEXT, "kept_keys": [60, 50], "fixed_pool_size": 3, "experts": 2, "single_kv_head": True,
                                      "head_dim": 12, "window": 5}},
}


def run_of(model):
    architecture = "vit" if "vit" in model else "transnext"
    model = {"architecture": architecture, "classes": CLASSES, "image_size": SIDE, **model}
    return "\n".join(f"{key}: {json.dumps(value)}" for key, value in {
        "task": "image_classification", "seed": 3, "threads": 1, "model": model,
        "data": {"drawn": 32, "drawn_validation": 8, "eval_share": 0.9, "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.25, 0.3]},
        "augment": {"rand_augment": "none", "mixing": 0, "erasing": 0}, "train": {"steps": 2, "batch_size": 8},
        "optim": {"learning_rate": 0.03}, "schedule": {"warmup_steps": 0}, "log": {"every": 2}, "eval": {"every": 0}}.items())


class VitExport(support.MohTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        pixels = torch.randint(0, 256, (50, 41, 3), dtype=torch.uint8).numpy()
        Image.fromarray(pixels).save(self.folder / "picture.png")

    def exported(self, name):
        """A model of MODELS, after two steps of training, as a folder of moh and as one for Python."""
        self.write(f"{name}.yaml", run_of(MODELS[name]))
        self.moh("train", f"{name}.yaml", f"output.dir={name}")
        self.moh("convert", "--from", name, "--to", f"{name}_hf", "--format", "hf")
        return self.folder / f"{name}_hf"

    def code(self, folder):
        """modeling_moh_vit of the folder, as a program beside it imports it."""
        for module in ("modeling_moh_vit", "moh_attention"):
            sys.modules.pop(module, None)
        sys.path.insert(0, str(folder))
        self.addCleanup(sys.path.remove, str(folder))
        return importlib.import_module("modeling_moh_vit")

    def input_of(self, model):
        transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))
        return transform(Image.open(self.folder / "picture.png").convert("RGB"))[None]

    def probabilities_in_moh(self, model, *options):
        output = self.moh("predict", "--checkpoint", model, "--top", CLASSES, "--json", *options, "picture.png")
        (classes,) = (json.loads(line)["classes"] for line in output.splitlines() if line.startswith("{"))
        return torch.tensor([each["probability"] for each in sorted(classes, key=lambda each: each["label"])])

    def assert_close(self, found, expected):
        self.assertLess((found - expected).abs().max() / expected.abs().max(), TOLERANCE)

    def test_the_same_classes_by_every_way(self):
        for name in MODELS:
            with self.subTest(name), torch.no_grad():
                folder = self.exported(name)
                expected = self.probabilities_in_moh(name)
                self.assertGreater(expected.max() - expected.min(), 100 * TOLERANCE)
                self.assert_close(self.probabilities_in_moh(folder), expected)  # moh reads its export
                model = self.code(folder).load(folder)
                x = self.input_of(model)
                self.assert_close(model(x).softmax(-1)[0], expected)
                opened = AutoModelForImageClassification.from_pretrained(folder, trust_remote_code=True).eval()
                self.assert_close(opened(x, output_gates=True).logits.softmax(-1)[0], expected)
                self.assertEqual(set(opened.state_dict()), set(model.state_dict()))
                # moh reads the weights that Python saves: as transformers does, and a state_dict beside the run's own configuration.
                opened.save_pretrained(self.folder / f"{name}_saved")
                self.assert_close(self.probabilities_in_moh(f"{name}_saved"), expected)
                torch.save(model.state_dict(), self.folder / "state.pth")
                self.moh("convert", "--from", "state.pth", "--config", f"{name}.yaml", "--to", f"{name}_back", "--format", "moh")
                settings = ["--set=data.eval_share=0.9", "--set=data.mean=[0.4,0.5,0.6]", "--set=data.std=[0.2,0.25,0.3]"]
                self.assert_close(self.probabilities_in_moh(f"{name}_back", *settings), expected)

    def test_the_interface_of_timm(self):
        for name, shape in (("vit_moh", (1, 17, 48)), ("vit_dense", (1, 16, 48)), ("transnext_moh", (1, 48, 8, 8))):
            with self.subTest(name):
                folder = self.exported(name)
                model = self.code(folder).load(folder)
                config = timm.data.resolve_model_data_config(model)
                self.assertEqual([list(config[key]) for key in ("input_size", "mean", "std")],
                                 [[3, SIDE, SIDE], [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]])
                self.assertEqual((config["crop_pct"], config["interpolation"]), (0.9, "bicubic"))
                x = self.input_of(model)
                features = model.forward_features(x)
                self.assertEqual(tuple(features.shape), shape)
                pooled = model.forward_head(features, pre_logits=True)
                self.assertEqual(tuple(pooled.shape), (1, model.num_features))
                torch.testing.assert_close(model.get_classifier()(pooled), model(x))
                # Pictures of another size: position embeddings are interpolated, as in moh.
                larger = torch.nn.functional.interpolate(x, (48, 64))
                self.assertEqual(tuple(model(larger).shape), (1, CLASSES))
                model.reset_classifier(3)
                self.assertEqual((model.num_classes, tuple(model(x).shape)), (3, (1, 3)))
                model.reset_classifier(0)
                self.assertEqual(tuple(model(x).shape), (1, model.num_features))
                self.assertLessEqual(model.no_weight_decay(), {n for n, _ in model.named_parameters()})

    def test_other_sizes_of_pictures(self):
        for name in ("vit_moh", "transnext_moh"):
            with self.subTest(name), torch.no_grad():
                folder = self.exported(name)
                self.moh("convert", "--from", name, "--to", "again", "--format", "hf", "--overwrite")
                config = json.loads((folder / "config.json").read_text())
                config["pretrained_cfg"]["input_size"] = [3, 48, 48]
                (folder / "config.json").write_text(json.dumps(config))
                model = self.code(folder).load(folder)
                self.assert_close(model(self.input_of(model)).softmax(-1)[0], self.probabilities_in_moh(folder))

    def test_logits_and_features_of_moh(self):
        for name, block in (("vit_moh", "blocks.0"), ("vit_dense", "blocks.1"), ("transnext_moh", "block2.0")):
            with self.subTest(name), torch.no_grad():
                folder = self.exported(name)
                self.moh("predict", "--checkpoint", name, "--out", "out.npz", "--features", f"pooled,tokens,{block}", "--overwrite",
                         "picture.png")
                arrays = numpy.load(self.folder / "out.npz")
                self.assertEqual(arrays["files"].tolist(), ["picture.png"])
                model = self.code(folder).load(folder)
                after = {}
                model.get_submodule(block).register_forward_hook(lambda _, __, result: after.update(block=result[0]))
                x = self.input_of(model)
                tokens = model.forward_features(x)
                for array, expected in (("logits", model(x)), ("tokens", tokens), ("pooled", model.forward_head(tokens, pre_logits=True)),
                                        (block, after["block"])):
                    self.assertEqual(arrays[array].shape, tuple(expected.shape))
                    self.assert_close(torch.from_numpy(arrays[array]), expected)

    def test_gates_and_gradients(self):
        folder = self.exported("vit_moh")
        model = self.code(folder).load(folder).train()
        x = self.input_of(model).repeat(2, 1, 1, 1)
        logits, routing = model(x, output_gates=True)
        self.assertEqual([tuple(gates.shape) for gates in routing.gates], [(2, 17, 4)] * 2)
        for gates, loads in zip(routing.gates, routing.head_loads):
            self.assertTrue(bool(((gates != 0).sum(-1) == 3).all()))  # 2 shared heads and 1 routed one
            self.assertAlmostEqual(loads.sum().item(), 3, places=5)
        (torch.nn.functional.cross_entropy(logits, torch.tensor([1, 2])) + 0.01 * routing.balance_loss).backward()
        for name, parameter in model.named_parameters():
            self.assertGreater(parameter.grad.abs().max(), 0, name)
        # In transformers a loss comes with the labels, and the load-balance loss in training.
        opened = AutoModelForImageClassification.from_pretrained(folder, trust_remote_code=True)
        plain = opened.eval()(x, labels=torch.tensor([1, 2]), output_gates=True)
        trained = opened.train()(x, labels=torch.tensor([1, 2]))
        torch.testing.assert_close(trained.loss, plain.loss + 0.01 * plain.balance_loss)

    def test_bfloat16(self):
        self.write("run.yaml", run_of(MODELS["vit_moh"]).replace('"moh": {', '"moh": {"router_precision": "float32", '))
        self.moh("train", "run.yaml", "output.dir=half", "precision=bfloat16")
        self.moh("convert", "--from", "half", "--to", "half_hf", "--format", "hf")
        model = self.code(self.folder / "half_hf").load(self.folder / "half_hf")
        self.assertEqual({p.dtype for n, p in model.named_parameters() if ".wg" in n}, {torch.float32})
        self.assertEqual(model.head.weight.dtype, torch.bfloat16)
        opened = AutoModelForImageClassification.from_pretrained(self.folder / "half_hf", trust_remote_code=True, torch_dtype="auto")
        self.assertEqual({n: p.dtype for n, p in opened.named_parameters()}, {n: p.dtype for n, p in model.named_parameters()})
        with torch.no_grad():
            found = model(self.input_of(model).bfloat16()).float().softmax(-1)[0]
        self.assertLess((found - self.probabilities_in_moh("half")).abs().max(), 0.02)


if __name__ == "__main__":
    python_packages.main()
