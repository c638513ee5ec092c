"""Folders of classifiers and diffusion transformers for PyTorch, as far as no PyTorch is needed: their files, the way back, refusals;
and the numbers that `moh predict --out` writes."""

import json
import struct

import support

VIT = """\
task: image_classification
seed: 3
threads: 1
output: {dir: vit}
model:
  architecture: vit
  classes: 8
  image_size: 16
  vit: {patch_size: 8, layers: 2, hidden: 24, heads: 4, mlp_ratio: 2}
  moh: {router: learned, num_shared: 2, top_k_ratio: 0.5}
data: {drawn: 16, mean: [0.4, 0.5, 0.6]}
augment: {rand_augment: none, mixing: 0, erasing: 0}
train: {steps: 2, batch_size: 8}
optim: {learning_rate: 0.01}
schedule: {warmup_steps: 0}
"""
DIT = """\
task: diffusion
seed: 3
threads: 1
output: {dir: dit}
model: {image_size: 8, patch_size: 4, channels: 3, classes: 8, layers: 2, hidden: 24, heads: 4, mlp_ratio: 2,
        moh: {router: learned, num_shared: [1, 4], top_k: [2, 0]}}
data: {drawn: 16}
diffusion: {label_dropout: 0.25}
sample: {pictures: 0}
train: {steps: 2, batch_size: 8}
optim: {learning_rate: 0.05}
schedule: {warmup_steps: 0}
"""


class ExportFolders(support.MohTest):
    def picture(self, name):
        self.write(name, support.png(20, 18, b"".join(b"\0" + bytes((7 * x + 5 * y) % 251 for x in range(60)) for y in range(18))))
        return name

    def trained(self, config):
        self.write("run.yaml", config)
        self.moh("train", "run.yaml")

    def files_of(self, folder):
        return sorted(path.name for path in (self.folder / folder).iterdir())

    def hash_of(self, model):
        return json.loads(self.moh("checkpoint", "info", model, "--hash", "--json"))["hash"]

    def test_a_classifier(self):
        self.trained(VIT)
        self.moh("convert", "--from", "vit", "--to", "hf", "--format", "hf")
        self.assertEqual(self.files_of("hf"), ["config.json", "model.safetensors", "modeling_moh_vit.py", "moh_attention.py",
                                               "transformers_moh_vit.py"])
        config = json.loads((self.folder / "hf/config.json").read_text())
        self.assertEqual((config["model"]["moh"]["num_shared"], config["model"]["moh"]["top_k_ratio"]), (2, 0.5))
        self.assertEqual(config["pretrained_cfg"]["mean"], [0.4, 0.5, 0.6])
        self.assertEqual(config["id2label"]["0"], config["label_names"][0])
        found = [self.moh("predict", "--checkpoint", model, self.picture("a.png"), "--json") for model in ("vit", "hf")]
        self.assertEqual(*found)
        # There and back, in the same bytes.
        self.moh("convert", "--from", "hf", "--to", "back", "--format", "moh")
        self.assertEqual(self.hash_of("back"), self.hash_of("vit"))
        # A key that no model has.
        config["model"]["vit"]["hedas"] = 4
        (self.folder / "hf/config.json").write_text(json.dumps(config))
        output = self.moh("predict", "--checkpoint", "hf", "a.png", code=support.CONFIG_ERROR)
        self.assert_says(output, "hf/config.json", "model.vit.hedas", "heads")

    def test_a_diffusion_transformer(self):
        self.trained(DIT)
        self.moh("convert", "--from", "dit", "--to", "hf", "--format", "hf")
        self.assertEqual(self.files_of("hf"), ["config.json", "model.safetensors", "modeling_moh_dit.py", "moh_attention.py"])
        config = json.loads((self.folder / "hf/config.json").read_text())
        self.assertEqual(config["class_dropout_prob"], 0.25)
        for model in ("dit", "hf"):
            self.moh("sample", "--checkpoint", model, "--out", f"{model}_out", "-n", 2, "--steps", 2)
        self.assertEqual(*((self.folder / f"{model}_out/grid.png").read_bytes() for model in ("dit", "hf")))

    def test_numbers_of_predictions(self):
        self.trained(VIT)
        files = [self.picture(name) for name in ("a.png", "picture with ä.png")]
        self.write("broken.png", "none")
        output = self.moh("predict", "--checkpoint", "vit", "--out", "out.npz", "--features", "pooled,tokens,blocks.1", files[0],
                          "broken.png", files[1], code=support.INPUT_ERROR)
        self.assert_says(output, "broken.png")
        arrays = support.npz(self.folder / "out.npz")
        self.assertEqual({name: array[1] for name, array in arrays.items()},
                         {"files": (3,), "logits": (3, 8), "pooled": (3, 24), "tokens": (3, 5, 24), "blocks.1": (3, 5, 24)})
        kind, _, names = arrays["files"]
        length = 4 * int(kind.removeprefix("<U"))
        self.assertEqual([names[i * length : (i + 1) * length].decode("utf-32-le").rstrip("\0") for i in range(3)],
                         [files[0], "broken.png", files[1]])
        logits = struct.unpack("<24f", arrays["logits"][2])
        self.assertTrue(all(value != value for value in logits[8:16]))
        self.assertEqual(logits[:8], logits[16:])  # the same picture
        tokens, pooled = arrays["tokens"][2], arrays["pooled"][2]
        self.assertEqual(tokens[: 24 * 4], pooled[: 24 * 4])  # of the class token

        refused = (("out.npz", "pooled", "--out"), ("new.npz", "blocks.2", "blocks.0 to blocks.1"),
                   ("new.npz", "pooled,pooled", "each once"))
        for file, features, message in refused:
            output = self.moh("predict", "--checkpoint", "vit", "--out", file, "--features", features, files[0], code=support.CONFIG_ERROR)
            self.assert_says(output, message)
        output = self.moh("predict", "--checkpoint", "vit", "--features", "pooled", files[0], code=support.CONFIG_ERROR)
        self.assert_says(output, "--features: expected --out")


if __name__ == "__main__":
    support.main()
