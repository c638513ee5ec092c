"""A dense classifier of images, as timm has it, becomes a Mixture-of-Head model; models go to timm's files and back."""

import json
import math
import os
import pathlib

import support
from torch_save import Tensor, torch_save

PICTURES = pathlib.Path(os.environ["MOH_SOURCE_DIR"], "tests/train/pictures/data")

DENSE = """\
task: image_classification
seed: 3
threads: 1
output: {dir: dense}
model:
  architecture: vit
  classes: 8
  image_size: 32
  vit: {patch_size: 8, layers: 2, hidden: 32, heads: 4, mlp_ratio: 2}
data: {drawn: 64, drawn_validation: 32}
train: {steps: 10, batch_size: 8}
optim: {learning_rate: 0.01}
schedule: {warmup_steps: 2}
eval: {every: 5}
checkpoint: {every: 5}
"""
MOH = """\
include: dense.yaml
output: {dir: moh}
model: {moh: {router: learned, num_shared: 2, top_k: 1, shared_heads: output_norm}}
init: {from: timm, moh: {router_start: calibrated, calibration: {batches: 2}}}
"""


def score(output):
    """The numbers of an evaluation's last line."""
    return output.strip().splitlines()[-1].partition("eval")[2]


class ImageInit(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("dense.yaml", DENSE)
        self.write("moh.yaml", MOH)
        self.moh("train", "dense.yaml")
        self.moh("convert", "--from", "dense", "--to", "timm", "--format", "hf")

    def test_to_timm_and_back(self):
        config = json.loads((self.folder / "timm/config.json").read_text())
        self.assertEqual(config["model_args"]["embed_dim"], 32)
        tensors = support.read_tensors(self.folder / "timm/model.safetensors")
        self.assertIn("blocks.1.attn.qkv.weight", tensors)
        self.moh("convert", "--from", "timm", "--to", "back", "--format", "moh")
        hashes = [json.loads(self.moh("checkpoint", "info", path, "--hash", "--json"))["hash"]
                  for path in ("dense", "timm", "back")]
        self.assertEqual(len(set(hashes)), 1)
        drawn = ("data.drawn=64", "data.drawn_validation=32")
        self.assertEqual(score(self.moh("eval", "--checkpoint", "timm", *drawn)),
                         score(self.moh("eval", "--checkpoint", "dense", *drawn)))

    def test_weights_of_pytorch_tell_what_a_jpeg_shows(self):
        shapes = {tensor["name"]: tensor["shape"]
                  for tensor in json.loads(self.moh("checkpoint", "info", "timm", "--json"))["tensors"]}
        tensors = support.read_tensors(self.folder / "timm/model.safetensors")
        self.write("dense.pth", torch_save({"model": {
            name: Tensor(shapes[name], values) for name, values in tensors.items()}}))
        self.moh("convert", "--from", "dense.pth", "--config", "dense.yaml", "--to", "converted", "--format", "moh")
        expected, found = (self.moh("predict", "--checkpoint", model, str(PICTURES / "ycc420.jpg"), "--json")
                           for model in ("timm", "converted"))
        self.assertEqual(*([each["probability"] for each in json.loads(output)["classes"]]
                           for output in (expected, found)))

    def test_a_dense_model_becomes_moh(self):
        output = self.moh("train", "moh.yaml")
        self.assert_says(output, "init: shared heads of layer 1 by output_norm:",
                         "router_start calibrated (selected): KL divergence from the dense model", "nats per image")
        resolved = (self.newest("moh") / "config.yaml").read_text()
        self.assertRegex(resolved, r"shared_heads: \[\[\d, \d\], \[\d, \d\]\]")
        self.moh("train", "moh.yaml", "output.dir=loss_increase", "model.moh.shared_heads=loss_increase")
        # With every head active it is the dense model: the first loss is that of a run that goes on with it.
        self.moh("train", "moh.yaml", "output.dir=all", "model.moh.shared_heads=first", "model.moh.num_shared=3",
                 "model.moh.top_k=1", "init.moh.router_start=zero")
        self.moh("train", "moh.yaml", "output.dir=same", "model.moh.router=none", "model.moh.shared_heads=first",
                 "model.moh.num_shared=0", "model.moh.top_k=0")
        self.assertAlmostEqual(support.metrics(self.folder / "all")[0]["loss"],
                               support.metrics(self.folder / "same")[0]["loss"], places=4)

    def test_images_of_another_size(self):
        output = self.moh("train", "moh.yaml", "model.image_size=48")
        self.assert_says(output, "init: pos_embed: [1, 17, 32] resized to [1, 37, 32]")
        # The model of other images computes what the old one computes for them.
        self.moh("train", "dense.yaml", "output.dir=wide", "init.from=timm", "model.image_size=48",
                 "data.eval_resize=54", "optim.learning_rate=1e-12", "train.steps=1", "schedule.warmup_steps=0")
        self.moh("train", "dense.yaml", "output.dir=old", "init.from=timm", "data.image_size=48",
                 "data.eval_resize=54", "optim.learning_rate=1e-12", "train.steps=1", "schedule.warmup_steps=0")
        losses = [[record["loss"] for record in support.metrics(self.folder / run) if record["kind"] == "eval"]
                  for run in ("wide", "old")]
        self.assertAlmostEqual(losses[0][-1], losses[1][-1], places=4)

    def test_other_classes_are_a_new_head(self):
        config = json.loads((self.folder / "timm/config.json").read_text())
        config["num_classes"] = config["model_args"]["num_classes"] = 5
        tensors = support.read_tensors(self.folder / "timm/model.safetensors")
        shapes = {tensor["name"]: tensor["shape"]
                  for tensor in json.loads(self.moh("checkpoint", "info", "timm", "--json"))["tensors"]}
        header, data = {}, b""
        for name, values in tensors.items():
            if name.startswith("head."):
                shapes[name][0] = 5
                values = values[:math.prod(shapes[name])]
            begin, data = len(data), data + values.tobytes()
            header[name] = {"dtype": "F32", "shape": shapes[name], "data_offsets": [begin, len(data)]}
        (self.folder / "five").mkdir()
        self.write("five/config.json", json.dumps(config))
        (self.folder / "five/model.safetensors").write_bytes(support.safetensors(header, data))
        output = self.moh("train", "moh.yaml", "init.from=five", code=support.CONFIG_ERROR)
        self.assert_says(output, "model.classes: expected 5 as in the checkpoint of init.from, found 8",
                         "init.new_head: true trains a new classifier")
        self.moh("train", "moh.yaml", "init.from=five", "init.new_head=true", "train.steps=5")
        # Without it, the head is that of the source.
        self.moh("train", "dense.yaml", "output.dir=new", "init.from=timm", "init.new_head=true", "train.steps=1",
                 "optim.learning_rate=1e-12", "schedule.warmup_steps=0")
        new = support.read_tensors(self.newest("new") / "model.safetensors")
        for name, values in tensors.items():
            self.assertEqual(max(abs(a - b) for a, b in zip(new[name], values)) < 1e-6, not name.startswith("head."),
                             name)


if __name__ == "__main__":
    support.main()
