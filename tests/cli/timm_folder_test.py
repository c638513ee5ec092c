"""Folders as timm writes them: pictures are seen as their configuration says, in every command, and after training."""

import array
import json
import math
import random
import re

import support

SIDE, PATCH, WIDTH, CLASSES = 32, 16, 24, 3
SHAPES = {"cls_token": [1, 1, WIDTH], "pos_embed": [1, 5, WIDTH],
          "patch_embed.proj.weight": [WIDTH, 3, PATCH, PATCH], "patch_embed.proj.bias": [WIDTH],
          "blocks.0.norm1.weight": [WIDTH], "blocks.0.norm1.bias": [WIDTH],
          "blocks.0.attn.qkv.weight": [3 * WIDTH, WIDTH], "blocks.0.attn.qkv.bias": [3 * WIDTH],
          "blocks.0.attn.proj.weight": [WIDTH, WIDTH], "blocks.0.attn.proj.bias": [WIDTH],
          "blocks.0.norm2.weight": [WIDTH], "blocks.0.norm2.bias": [WIDTH],
          "blocks.0.mlp.fc1.weight": [4 * WIDTH, WIDTH], "blocks.0.mlp.fc1.bias": [4 * WIDTH],
          "blocks.0.mlp.fc2.weight": [WIDTH, 4 * WIDTH], "blocks.0.mlp.fc2.bias": [WIDTH],
          "norm.weight": [WIDTH], "norm.bias": [WIDTH], "head.weight": [CLASSES, WIDTH], "head.bias": [CLASSES]}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
# What timm's save_for_hf writes for a model that was made with a size of its own.
CONFIG = {"architecture": "vit_tiny_patch16_224", "num_classes": CLASSES, "num_features": WIDTH, "global_pool": "token",
          "model_args": {"img_size": [SIDE, SIDE], "patch_size": PATCH, "in_chans": 3, "num_classes": CLASSES,
                         "global_pool": "token", "embed_dim": WIDTH, "depth": 1, "num_heads": 2, "mlp_ratio": 4.0,
                         "qkv_bias": True, "init_values": None, "class_token": True},
          "pretrained_cfg": {"tag": "none", "custom_load": False, "input_size": [3, 224, 224],
                             "fixed_input_size": True, "interpolation": "bicubic", "crop_pct": 1.0,
                             "crop_mode": "center", "mean": MEAN, "std": STD, "num_classes": CLASSES,
                             "pool_size": None, "first_conv": "patch_embed.proj", "classifier": "head"}}


def gray(value, width=SIDE, height=SIDE):
    return support.png(width, height, (b"\0" + bytes([value] * 3 * width)) * height)


def stripes(width, height):
    """Something of which each part looks different."""
    return support.png(width, height, b"".join(
        b"\0" + bytes((x * x + 7 * y * y + 40 * c) % 251 for x in range(width) for c in range(3)) for y in range(height)))


class TimmFolder(support.MohTest):
    def setUp(self):
        super().setUp()
        draw = random.Random(1)
        header, data = {}, b""
        for name, shape in SHAPES.items():
            values = array.array("f", (draw.gauss(0, 0.3) for _ in range(math.prod(shape)))).tobytes()
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
        self.tensors = support.safetensors(header, data)
        self.model("timm")

    def model(self, name, top=None, **view):
        """A folder with other values in its pretrained_cfg, and at its top."""
        config = {**CONFIG, **(top or {}), "pretrained_cfg": {**CONFIG["pretrained_cfg"], **view}}
        (self.folder / name).mkdir(exist_ok=True)
        self.write(f"{name}/config.json", json.dumps(config))
        (self.folder / name / "model.safetensors").write_bytes(self.tensors)

    def picture(self, name, contents):
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_bytes(contents)
        return name

    def answer(self, model, picture, *more):
        output = json.loads(self.moh("predict", "--checkpoint", model, picture, "--json", *more))
        return {each["label"]: each["probability"] for each in output["classes"]}

    def assert_alike(self, expected, found):
        for label, probability in expected.items():
            self.assertAlmostEqual(probability, found[label], places=5)

    def assert_apart(self, expected, found):
        self.assertGreater(max(abs(expected[label] - found[label]) for label in expected), 1e-3)

    def test_statistics_of_the_channels(self):
        # (200 / 255 - 2 m) / 2 s is (100 / 255 - m) / s.
        self.model("twice", mean=[2 * x for x in MEAN], std=[2 * x for x in STD])
        dark, light = self.picture("dark.png", gray(100)), self.picture("light.png", gray(200))
        expected = self.answer("timm", dark)
        self.assert_alike(expected, self.answer("twice", light))
        self.assert_apart(expected, self.answer("timm", light))
        set_ = [f"--set=data.mean={[2 * x for x in MEAN]}", f"--set=data.std={[2 * x for x in STD]}"]
        self.assert_alike(expected, self.answer("timm", light, *set_))
        # A checkpoint of moh keeps them, and so does an export of it.
        self.moh("convert", "--from", "twice", "--to", "kept", "--format", "moh")
        self.assert_alike(expected, self.answer("kept", light))
        self.moh("convert", "--from", "kept", "--to", "again", "--format", "hf")
        cfg = json.loads((self.folder / "again/config.json").read_text())["pretrained_cfg"]
        self.assertEqual((cfg["mean"], cfg["std"]), ([2 * x for x in MEAN], [2 * x for x in STD]))
        self.assert_alike(expected, self.answer("again", light))

    def test_crop_and_interpolation(self):
        wide = self.picture("wide.png", stripes(64, 48))
        expected = self.answer("timm", wide)
        for key, value, setting in (("crop_pct", 0.5, "data.eval_share=0.5"), ("crop_mode", "squash", "data.eval_crop=squash"),
                                    ("interpolation", "bilinear", "data.interpolation=bilinear")):
            with self.subTest(key):
                self.model("other", **{key: value})
                found = self.answer("other", wide)
                self.assert_apart(expected, found)
                self.assert_alike(found, self.answer("timm", wide, f"--set={setting}"))
        # The shares are of timm: 32 / 0.9 is cut, not rounded.
        self.model("other", crop_pct=0.9)
        self.assert_alike(self.answer("other", wide), self.answer("timm", wide, "--set=data.eval_resize=35"))

    def test_training_goes_on_with_them(self):
        self.model("half", mean=[0.5] * 3, std=[0.5] * 3, interpolation="bilinear", crop_pct=0.9)
        for name in ("a", "b", "c"):
            self.picture(f"data/{name}/0.png", stripes(40, 36))
        self.write("tune.yaml", "task: image_classification\ndata: {train: data, validation: data}\n"
                   "init: {from: half}\ntrain: {steps: 1, batch_size: 3}\nschedule: {warmup_steps: 0}\n"
                   "augment: {rand_augment: none, mixing: 0, erasing: 0}\noptim: {learning_rate: 1e-9}\n")
        self.moh("train", "tune.yaml", "output.dir=run")
        resolved = (self.newest("run") / "config.yaml").read_text()
        self.assert_says(resolved, "mean: [0.5, 0.5, 0.5]", "std: [0.5, 0.5, 0.5]", "interpolation: bilinear",
                         "eval_share: 0.9")
        picture = self.picture("some.png", stripes(64, 48))
        self.assert_alike(self.answer("half", picture), self.answer("run", picture))
        # The run's own numbers count before those of the checkpoint.
        self.moh("train", "tune.yaml", "output.dir=own", "data.mean=[0.4,0.5,0.6]")
        self.assert_says((self.newest("own") / "config.yaml").read_text(), "mean: [0.4, 0.5, 0.6]",
                         "std: [0.5, 0.5, 0.5]")
        # A run that describes all of its model has to say it, as moh cannot know which is meant.
        whole = "".join(line + "\n" for line in resolved.splitlines() if not re.match(r"  (mean|std):", line))
        self.write("whole.yaml", whole)
        output = self.moh("train", "whole.yaml", "output.dir=whole", code=support.CONFIG_ERROR)
        self.assert_says(output, "data.mean: expected [0.5, 0.5, 0.5]", "found [0.485, 0.456, 0.406]", "data.std")
        self.moh("train", "whole.yaml", "output.dir=whole", "data.mean=[0.5,0.5,0.5]", "data.std=[0.4,0.4,0.4]")

    def test_keys_that_moh_does_not_have(self):
        picture = self.picture("dark.png", gray(100))
        for view, message in (({"label_offset": 1}, "pretrained_cfg.label_offset: expected 0"),
                              ({"crop_mode": "border"}, "pretrained_cfg.crop_mode: expected one of center, squash"),
                              ({"crop_mode": "original"}, "pretrained_cfg.crop_mode: expected one of center, squash"),
                              ({"interpolation": "lanczos"}, "pretrained_cfg.interpolation: expected one of box"),
                              ({"mean": [0.5]}, "pretrained_cfg.mean: expected 3 numbers from 0 to 1"),
                              ({"std": [0.5, 0.5, 0]}, "pretrained_cfg.std: expected 3 numbers above 0"),
                              ({"input_size": [1, 32, 32]}, "pretrained_cfg.input_size: expected 3 channels"),
                              ({"first_conv": "stem.conv"}, "pretrained_cfg.first_conv: expected patch_embed.proj"),
                              ({"gamma": 2.2}, "pretrained_cfg.gamma: expected a key of timm's PretrainedCfg")):
            with self.subTest(str(view)):
                self.model("other", **view)
                output = self.moh("predict", "--checkpoint", "other", picture, code=support.CONFIG_ERROR)
                self.assert_says(output, message)
        for key, value in (("in_chans", 1), ("init_values", 1e-5), ("qk_norm", True), ("reg_tokens", 4),
                           ("img_size", [32, 48]), ("fc_norm", True), ("unheard_of", 1)):
            with self.subTest(key):
                self.model("other", top={"model_args": {**CONFIG["model_args"], key: value}})
                output = self.moh("predict", "--checkpoint", "other", picture, code=support.CONFIG_ERROR)
                self.assert_says(output, f"model_args.{key}: expected")

        output = self.moh("predict", "--checkpoint", "timm", picture, "--set=data.mean=[0.5]", code=support.CONFIG_ERROR)
        self.assert_says(output, "data.mean: expected a list of 3 numbers of at least 0 and at most 1, found a list of length 1")

    def test_names_of_classes(self):
        picture = self.picture("dark.png", gray(100))
        self.model("named", top={"label_names": ["ant", "bee", "cat"]})
        self.assert_says(self.moh("predict", "--checkpoint", "named", picture), "bee")
        self.model("named", label_names=["ant", "bee", "cat"])
        self.assert_says(self.moh("predict", "--checkpoint", "named", picture), "bee")

    def test_files_of_earlier_versions(self):
        # Everything at the top, and no pretrained_cfg.
        config = {**CONFIG, **CONFIG["pretrained_cfg"], "input_size": [3, SIDE, SIDE], "mean": [2 * x for x in MEAN],
                  "std": [2 * x for x in STD]}
        del config["pretrained_cfg"]
        self.write("timm/config.json", json.dumps(config))
        light = self.picture("light.png", gray(200))
        self.model("new", mean=[2 * x for x in MEAN], std=[2 * x for x in STD])
        self.assert_alike(self.answer("new", light), self.answer("timm", light))

    def test_an_export_has_the_view_of_the_run(self):
        for resize, share in ((32, 1), (36, None), (100, None), (0, 0.875)):
            with self.subTest(resize):
                self.write("view.yaml", "task: image_classification\n"
                           f"data: {{eval_resize: {resize}, eval_crop: squash, interpolation: box}}\n"
                           "model: {architecture: vit, classes: 3, image_size: 32, vit: {patch_size: 16, layers: 1, "
                           "hidden: 24, heads: 2}}\n")
                (self.folder / "bare.safetensors").write_bytes(self.tensors)
                self.moh("convert", "--from", "bare.safetensors", "--config", "view.yaml", "--to", "out", "--format", "hf",
                         "--overwrite")
                cfg = json.loads((self.folder / "out/config.json").read_text())["pretrained_cfg"]
                self.assertEqual(math.floor(32 / cfg["crop_pct"]), resize or 36)
                if share is not None:
                    self.assertEqual(cfg["crop_pct"], share)
                self.assertEqual((cfg["input_size"], cfg["crop_mode"], cfg["interpolation"]), ([3, 32, 32], "squash", "box"))
                self.assertEqual((cfg["mean"], cfg["std"]), (MEAN, STD))

        # Pictures that are taken as they are: timm resizes them to the size that they have.
        self.write("view.yaml", (self.folder / "view.yaml").read_text().replace("squash", "original"))
        self.moh("convert", "--from", "bare.safetensors", "--config", "view.yaml", "--to", "out", "--format", "hf", "--overwrite")
        cfg = json.loads((self.folder / "out/config.json").read_text())["pretrained_cfg"]
        self.assertEqual((cfg["crop_mode"], cfg["crop_pct"]), ("center", 1.0))


if __name__ == "__main__":
    support.main()
