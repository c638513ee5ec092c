"""Weights without a configuration are known by their tensors, and what these leave open is asked for by name."""

import array
import json
import math
import random
import struct

import support
from torch_save import Tensor, torch_save

VIT = """\
task: image_classification
model: {architecture: vit, classes: 3, image_size: 32, vit: {patch_size: 8, layers: 2, hidden: 24, heads: 2, mlp_ratio: 2}}
"""
TRANSNEXT = """\
task: image_classification
model:
  architecture: transnext
  classes: 3
  image_size: 32
  transnext: {dims: [24, 48], heads: [1, 2], depths: [1, 1], mlp_ratios: [2, 4], pool_ratios: [4, 1]}
"""
OF_IMAGES = """\
data: {train: pictures, validation: pictures}
train: {steps: 1, batch_size: 3}
schedule: {warmup_steps: 0}
augment: {rand_augment: none, mixing: 0, erasing: 0}
optim: {learning_rate: 1e-9}
"""
DIT = "task: diffusion\n" + support.TINY_DIT.partition("  moh:")[0]
LLAMA = """\
data: {train: text.txt, sequence_length: 16, validation_fraction: 0.1}
model: {layers: 1, hidden: 16, intermediate: 24, heads: 2, max_positions: 32, tied_embeddings: true}
train: {steps: 2, batch_size: 2}
schedule: {warmup_steps: 0}
"""


def picture(seed, side=32):
    draw = random.Random(seed)
    return support.png(side, side, b"".join(b"\0" + bytes(draw.randrange(256) for _ in range(3 * side))
                                            for _ in range(side)))


class WeightsAlone(support.MohTest):
    def setUp(self):
        super().setUp()
        for number, name in enumerate("abc"):
            (self.folder / "pictures" / name).mkdir(parents=True)
            (self.folder / "pictures" / name / "0.png").write_bytes(picture(number))
        self.write("text.txt", support.text_of_words(600))

    def trained(self, name, text):
        """The weights of a run as .pth, and as safetensors."""
        self.write(f"{name}.yaml", text)
        self.moh("train", f"{name}.yaml", f"output.dir={name}")
        self.moh("convert", "--from", name, "--to", f"{name}.safetensors")
        shapes = {tensor["name"]: tensor["shape"] for tensor in
                  json.loads(self.moh("checkpoint", "info", f"{name}.safetensors", "--json"))["tensors"]}
        tensors = support.read_tensors(self.folder / f"{name}.safetensors")
        (self.folder / f"{name}.pth").write_bytes(torch_save(
            {key: Tensor(shapes[key], values) for key, values in tensors.items()}))

    def answer(self, model, *more):
        output = json.loads(self.moh("predict", "--checkpoint", model, "pictures/a/0.png", "--json", *more))
        return [each["probability"] for each in sorted(output["classes"], key=lambda each: each["label"])]

    def assert_alike(self, expected, found):
        for one, other in zip(expected, found, strict=True):
            self.assertAlmostEqual(one, other, places=5)

    def test_vision_transformers(self):
        self.trained("vit", VIT + OF_IMAGES)
        expected = self.answer("vit")
        self.write("vit_alone.yaml", VIT)
        for file in ("vit.pth", "vit.safetensors"):
            output = self.moh("predict", "--checkpoint", file, "pictures/a/0.png", code=support.CONFIG_ERROR)
            self.assert_says(output, "give model.vit.heads")
            self.assertNotIn("transnext", output)
            self.assert_alike(expected, self.answer(file, "--set=model.vit.heads=2"))
            self.assert_alike(expected, self.answer(file, "--config=vit_alone.yaml"))
        self.moh("eval", "--checkpoint", "vit.pth", "--config", "vit_alone.yaml", "data=pictures", "data.train=pictures")
        output = self.moh("predict", "--checkpoint", "vit", "--config", "vit_alone.yaml", "pictures/a/0.png",
                          code=support.CONFIG_ERROR)
        self.assert_says(output, "expected weights without a configuration")
        # A run gives what is left open, and no more.
        self.write("tune.yaml", "task: image_classification\ninit: {from: vit.pth}\n" + OF_IMAGES)
        output = self.moh("train", "tune.yaml", "output.dir=tuned", code=support.CONFIG_ERROR)
        self.assert_says(output, "give model.vit.heads")
        self.moh("train", "tune.yaml", "output.dir=tuned", "model.vit.heads=2")
        self.assert_alike(expected, self.answer("tuned"))
        output = self.moh("train", "tune.yaml", "output.dir=other", "model.vit.heads=2", "model.vit.hidden=48",
                          code=support.CONFIG_ERROR)
        self.assert_says(output, "model.vit.hidden: expected 24")

    def test_heads_of_the_sizes_of_timm(self):
        """DeiT-Ti for pictures of 16 pixels: of its width and depth there is one number of heads."""
        width, draw = 192, random.Random(1)
        shapes = {"cls_token": [1, 1, width], "pos_embed": [1, 17, width], "patch_embed.proj.weight": [width, 3, 4, 4],
                  "patch_embed.proj.bias": [width], "norm.weight": [width], "norm.bias": [width],
                  "head.weight": [3, width], "head.bias": [3]}
        for block in range(12):
            for name, shape in {"norm1.weight": [width], "norm1.bias": [width], "norm2.weight": [width],
                                "norm2.bias": [width], "attn.qkv.weight": [3 * width, width],
                                "attn.qkv.bias": [3 * width], "attn.proj.weight": [width, width],
                                "attn.proj.bias": [width], "mlp.fc1.weight": [4 * width, width],
                                "mlp.fc1.bias": [4 * width], "mlp.fc2.weight": [width, 4 * width],
                                "mlp.fc2.bias": [width]}.items():
                shapes[f"blocks.{block}.{name}"] = shape
        noise = array.array("f", (draw.gauss(0, 0.05) for _ in range(4 * width * width))).tobytes()
        header, data = {}, []
        at = 0
        for name, shape in shapes.items():
            size = 4 * math.prod(shape)
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
            data.append(noise[:size])
            at += size
        (self.folder / "deit.safetensors").write_bytes(support.safetensors(header, b"".join(data)))
        self.assert_says(self.moh("checkpoint", "info", "deit.safetensors"), "12 layers of width 192, 3 heads, patches of 4")
        self.assertEqual(len(self.answer("deit.safetensors")), 3)

    def test_transnext(self):
        self.trained("transnext", TRANSNEXT + OF_IMAGES)
        output = self.moh("predict", "--checkpoint", "transnext.pth", "pictures/a/0.png", code=support.CONFIG_ERROR)
        self.assert_says(output, "give model.image_size, model.transnext.patch_size, model.transnext.pool_ratios")
        self.assertNotIn("model.vit", output)
        self.assert_alike(self.answer("transnext"), self.answer(
            "transnext.pth", "--set=model.image_size=32", "--set=model.transnext.patch_size=4",
            "--set=model.transnext.pool_ratios=[4,1]"))

    def test_diffusion_transformers(self):
        self.trained("dit", DIT + "data: {drawn: 16}\ntrain: {steps: 1, batch_size: 4}\nschedule: {warmup_steps: 0}\n"
                     "sample: {pictures: 0}\n")
        sample = ("--out", "drawn", "-n", "2", "--steps", "2", "--cfg", "1")
        output = self.moh("sample", "--checkpoint", "dit.pth", *sample, code=support.CONFIG_ERROR)
        self.assert_says(output, "give model.heads")
        self.write("alone.yaml", DIT)
        pictures = []
        for number, (checkpoint, *more) in enumerate((("dit",), ("dit.pth", "--set=model.heads=4"),
                                                      ("dit.pth", "--config=alone.yaml"))):
            self.moh("sample", "--checkpoint", checkpoint, "--out", f"drawn{number}", *sample[2:], *more)
            pictures.append([path.read_bytes() for path in sorted((self.folder / f"drawn{number}").rglob("*.png"))])
        self.assertEqual(pictures[0], pictures[1])
        self.assertEqual(pictures[0], pictures[2])

    def test_a_tied_matrix_under_either_name(self):
        self.write("llama.yaml", LLAMA)
        self.moh("train", "llama.yaml", "output.dir=llama")
        self.moh("convert", "--from", "llama", "--to", "hf", "--format", "hf")
        expected = self.moh("eval", "--checkpoint", "hf", "data=text.txt")
        file = self.folder / "hf/model.safetensors"
        data = file.read_bytes()
        length, = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        header["lm_head.weight"] = header.pop("model.embed_tokens.weight")
        header["__metadata__"] = {"format": "pt", "model.embed_tokens.weight": "lm_head.weight"}
        file.write_bytes(support.safetensors(header, data[8 + length:]))
        self.assertEqual(expected, self.moh("eval", "--checkpoint", "hf", "data=text.txt"))
        self.moh("convert", "--from", "hf", "--to", "back", "--format", "moh")
        self.assertIn("model.embed_tokens.weight", support.read_tensors(self.folder / "back/model.safetensors"))
        self.moh("train", "llama.yaml", "init.from=hf", "output.dir=on")

    def test_a_tokenizer_with_more_tokens_than_rows(self):
        self.write("llama.yaml", LLAMA)
        self.moh("train", "llama.yaml", "output.dir=llama")
        self.moh("convert", "--from", "llama", "--to", "hf", "--format", "hf")
        expected = self.moh("eval", "--checkpoint", "hf", "data=text.txt").splitlines()[-1].split()[-1]
        tokenizer = json.loads((self.folder / "hf/tokenizer.json").read_text())
        tokenizer["added_tokens"].append({"id": 256, "content": "<pad>", "single_word": False, "lstrip": False,
                                          "rstrip": False, "normalized": False, "special": True})
        self.write("hf/tokenizer.json", json.dumps(tokenizer))
        result = self.command("eval", "--checkpoint", "hf", "data=text.txt")
        self.assertEqual(result.returncode, support.DONE, result.output)
        self.assertIn("257 tokens, but the model's embedding has 256 rows", result.output)
        self.assertEqual(result.output.splitlines()[-1].split()[-1], expected)
        self.moh("generate", "--checkpoint", "hf", "--prompt", "a", "--tokens", "2")
        output = self.moh("generate", "--checkpoint", "hf", "--prompt", "a<pad>", "--tokens", "2", code=support.INPUT_ERROR)
        self.assert_says(output, "expected ids below 256, the rows of the model's embedding, found 256 (<pad>)")
        # Tokens that were made with the tokenizer are used, too.
        self.moh("data", "tokenize", "--input", "text.txt", "--output", "o.safetensors", "--tokenizer", "hf")
        self.moh("eval", "--checkpoint", "hf", "data=o.safetensors")
        self.write("padded.txt", "one <pad> two " * 20)
        self.moh("data", "tokenize", "--input", "padded.txt", "--output", "p.safetensors", "--tokenizer", "hf")
        output = self.moh("eval", "--checkpoint", "hf", "data=p.safetensors", code=support.INPUT_ERROR)
        self.assert_says(output, "expected ids below 256, the rows of the model's embedding, found 256")


if __name__ == "__main__":
    support.main()
