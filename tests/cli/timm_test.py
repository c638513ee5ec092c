"""Vision transformers that timm opens, and that it made: moh and timm tell the same classes of a picture with the same probabilities."""

import json
import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import python_packages  # noqa: E402

python_packages.require("torch", "timm", "PIL", "safetensors")

import numpy  # noqa: E402
import timm  # noqa: E402
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

import support  # noqa: E402

SIDE, CLASSES = 32, 5
SIZES = {"img_size": SIDE, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 3}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Of a probability. Found by this test: at most 2e-7.
TOLERANCE = 1e-5

RUN = f"""\
task: image_classification
seed: 3
threads: 1
model:
  architecture: vit
  classes: 8
  image_size: {SIDE}
  vit: {{patch_size: 8, layers: 2, hidden: 48, heads: 3, mlp_ratio: 4}}
data: {{drawn: 32, drawn_validation: 8, image_size: {SIDE}, eval_resize: {SIDE}}}
augment: {{rand_augment: none, mixing: 0, erasing: 0}}
train: {{steps: 4, batch_size: 8}}
optim: {{learning_rate: 0.01}}
schedule: {{warmup_steps: 0}}
"""


class Timm(support.MohTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        pixels = torch.randint(0, 256, (SIDE, SIDE, 3), dtype=torch.uint8).numpy()
        Image.fromarray(pixels).save(self.folder / "picture.png")
        self.pixels = torch.from_numpy((pixels / 255.0 - numpy.array(MEAN)) / numpy.array(STD)).float()

    def probabilities_in_moh(self, model, *options):
        output = self.moh("predict", "--checkpoint", model, "--top", 1000, "--json", *options, "picture.png")
        (found,) = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
        return {each["label"]: each["probability"] for each in found["classes"]}, [each["name"] for each in found["classes"]]

    def check(self, model, found):
        """The classes that moh found are those of timm's model."""
        with torch.no_grad():
            shares = model.eval()(self.pixels.permute(2, 0, 1)[None]).softmax(-1)[0].tolist()
        self.assertEqual(len(found), len(shares))
        for label, share in enumerate(shares):
            self.assertAlmostEqual(found[label], share, delta=TOLERANCE)
        self.assertGreater(max(shares) - min(shares), 100 * TOLERANCE)  # a model of one answer would agree with all

    def test_timm_opens_what_moh_exports(self):
        self.write("run.yaml", RUN)
        self.moh("train", "run.yaml", "output.dir=run")
        self.moh("convert", "--from", "run", "--to", "exported", "--format", "hf")
        found, names = self.probabilities_in_moh("run")
        # Not pretrained=True: from a local folder timm 1.0.22 unpickles model.safetensors.
        model = timm.create_model(f"local-dir:{self.folder / 'exported'}", pretrained=False)
        timm.models.load_checkpoint(model, str(self.folder / "exported/model.safetensors"))
        self.check(model, found)
        self.assertEqual(sorted(model.pretrained_cfg["label_names"]), sorted(names))

    def test_moh_opens_what_timm_made(self):
        model = timm.create_model("vit_tiny_patch16_224", num_classes=CLASSES, **SIZES)
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.15)
        (self.folder / "made").mkdir()
        save_file(model.state_dict(), self.folder / "made/model.safetensors", {"format": "pt"})
        self.write("made/config.json", json.dumps({
            "architecture": "vit_tiny_patch16_224", "num_classes": CLASSES, "global_pool": "token", "model_args": SIZES,
            "label_names": ["rock", "tree", "bird", "fish", "moss"],
            "pretrained_cfg": {"input_size": [3, SIDE, SIDE], "mean": MEAN, "std": STD, "crop_pct": 1.0, "interpolation": "bicubic"}}))
        found, names = self.probabilities_in_moh("made", "--set", f"data.eval_resize={SIDE}")
        self.check(model, found)
        self.assertEqual(set(names), {"rock", "tree", "bird", "fish", "moss"})


if __name__ == "__main__":
    python_packages.main()
