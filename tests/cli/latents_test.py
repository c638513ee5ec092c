"""Latents as a user meets them: from a folder of pictures to shards, from shards to a model, from the model to pictures."""

import argparse
import array
import json
import math
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import time
import unittest

import support
from processes_test import MPI_ENVIRONMENT, can_run_several, several
from torch_save import Tensor, torch_save

AUTOENCODER = pathlib.Path(os.environ["MOH_SOURCE_DIR"]) / "tests/golden/autoencoder"
NO_FAILPOINTS = "needs a build with MOH_FAILPOINTS"
SIDE = 32  # of the pictures, four times that of the latents

RUN = """\
task: diffusion
seed: 3
threads: 2
output: {dir: run}
model:
  image_size: 8
  patch_size: 2
  channels: 4
  classes: 2
  layers: 2
  hidden: 32
  heads: 4
  moh: {router: learned, num_shared: 1, top_k: 2}
data: {train: latents, validation: held_out}
train: {steps: 6, batch_size: 2, accumulate: 2}
optim: {learning_rate: 0.003}
ema: {decay: 0.9}
log: {every: 1}
eval: {every: 3}
checkpoint: {every: 3, keep_last: 99, keep_best: false}
"""


def picture(seed, width=40, height=36):
    """A PNG file of a gradient with a square on it."""
    draw = random.Random(seed)
    color, square, left, top = ([draw.randrange(256) for _ in range(3)] for _ in range(4))
    rows = b""
    for y in range(height):
        rows += b"\0"
        for x in range(width):
            inside = left[0] % 20 <= x < left[0] % 20 + 16 and top[0] % 20 <= y < top[0] % 20 + 16
            rows += bytes(square) if inside else bytes((c + 2 * x + y) % 256 for c in color)
    return support.png(width, height, rows)


def shard_of(path):
    """Metadata, tensors by name as (dtype, shape, bytes) of a shard, as a few lines of Python read it."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__")
    return metadata, {name: (entry["dtype"], entry["shape"], data[8 + length:][slice(*entry["data_offsets"])])
                      for name, entry in header.items()}


def released_dit(classes=2, side=8):
    """A file as DiT's and MoH-DiT's code writes it, of DiT-S/2: names and shapes, and numbers of no meaning."""
    width, shapes = 384, {"pos_embed": (1, side * side // 4, 384), "x_embedder.proj.weight": (384, 4, 2, 2),
                          "y_embedder.embedding_table.weight": (classes + 1, 384)}
    linear = {"t_embedder.mlp.0": (width, 256), "t_embedder.mlp.2": (width, width), "final_layer.linear": (32, width),
              "final_layer.adaLN_modulation.1": (2 * width, width)}
    for layer in range(12):
        for name, shape in {"attn.qkv": (3 * width, width), "attn.proj": (width, width), "mlp.fc1": (4 * width, width),
                            "mlp.fc2": (width, 4 * width), "adaLN_modulation.1": (6 * width, width)}.items():
            linear[f"blocks.{layer}.{name}"] = shape
    shapes["x_embedder.proj.bias"] = (width,)
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    draw = random.Random(1)
    pattern = [draw.uniform(-0.05, 0.05) for _ in range(1009)]
    weights = {name: (pattern * (math.prod(shape) // 1009 + 1))[:math.prod(shape)] for name, shape in shapes.items()}
    average = {name: Tensor(shapes[name], values) for name, values in weights.items()}
    last = {name: Tensor(shape, [0.0] * math.prod(shape)) for name, shape in shapes.items()}
    return weights, torch_save({"model": last, "ema": average, "opt": {"state": {}}, "args": argparse.Namespace(model="DiT-S/2")})


class Latents(support.MohTest):
    def setUp(self):
        super().setUp()
        for name, label, seeds in ("pictures", "cat", range(7)), ("pictures", "dog", range(10, 16)), ("val", "cat", [20, 21]), \
                ("val", "dog", [30]):
            for seed in seeds:
                self.write(f"{name}/{label}/{seed:03}.png", picture(seed))
        self.write("run.yaml", RUN)

    def latents(self, *options, source="pictures", to="latents", **more):
        return self.moh("data", "latents", "--input", source, "--autoencoder", AUTOENCODER, "--output", to, "--image-size", SIDE,
                        "--shard-pictures", "4", *options, **more)

    def both(self):
        self.latents()
        self.latents(source="val", to="held_out")

    def shards(self, folder="latents"):
        return {path.name: path.read_bytes() for path in sorted((self.folder / folder).glob("*.safetensors"))}

    def test_a_folder_of_pictures_becomes_shards(self):
        self.assert_says(self.latents(), "13 in 2 classes", "shards      4", "4 x 8 x 8 of 32 pixels, float32")
        metadata, tensors = shard_of(self.folder / "latents/000001.safetensors")
        self.assertEqual((metadata["format"], metadata["classes"], metadata["first"], metadata["scaling_factor"]),
                         ("moh-latents", "cat\ndog", "4", "0.18215"))
        for name in "mean", "deviation":
            self.assertEqual(tensors[name][:2], ("F32", [4, 2, 4, 8, 8]))
        self.assertEqual(struct.unpack("<4q", tensors["labels"][2]), (0, 0, 0, 1))
        self.assert_says(self.moh("data", "info", "latents", "--verify"), "pictures    13", "verified")
        self.assert_says(self.moh("data", "info", "latents/000002.safetensors"), "pictures    4", "part        of the latents of 13")
        self.latents("--dtype", "bfloat16", to="small")
        self.assertEqual(shard_of(self.folder / "small/000003.safetensors")[1]["mean"][:2], ("BF16", [1, 2, 4, 8, 8]))

    def test_training_goes_on_with_the_same_bits_and_draws_through_the_autoencoder(self):
        self.both()
        samples = ("sample={pictures: 3, steps: \"2\"}", f"sample.autoencoder={AUTOENCODER}")
        self.moh("train", "run.yaml", *samples)
        # Step 3 is in the midst of an epoch, of 12 samples.
        self.moh("train", "run.yaml", *samples, "output.dir=cut", "train.steps=2")
        self.moh("train", "run.yaml", *samples, "output.dir=cut", "--resume", "--allow-changes", "threads=1", "data.workers=3")
        self.assert_same_state("run", "cut")
        for step in 3, 6:
            name = f"samples/step_{step:08d}.png"
            self.assertEqual((self.folder / "run" / name).read_bytes(), (self.folder / "cut" / name).read_bytes())
        grid = (self.folder / "run/samples/step_00000006.png").read_bytes()
        self.assertEqual(struct.unpack(">II", grid[16:24]), (3 * (SIDE + 1) - 1, SIDE))
        self.assert_says(self.moh("eval", "--checkpoint", "run"), "noise_mse", "3 of 3 images")
        self.assert_says(self.moh("eval", "--checkpoint", "run", "data=latents"), "13 of 13 images")
        self.moh("analyze", "--checkpoint", "run", "--out", "heads.json")
        self.assert_says((self.folder / "heads.json").read_text(), "cat", "dog", "steps 750 to 999")
        self.moh("sample", "--checkpoint", "run", "--autoencoder", AUTOENCODER, "--steps", "2", "-n", "4", "--classes", "dog,cat",
                 "--cfg", "1.5", "--out", "drawn")
        self.assertEqual(len(list((self.folder / "drawn").glob("0*.png"))), 4)

    def test_two_processes_make_the_steps_of_one(self):
        if not can_run_several():
            self.skipTest("no mpirun, or a program without MPI")
        self.both()
        self.moh("train", "run.yaml", "threads=1", "optim.eps=1e-4", "output.dir=one")
        result = subprocess.run(several(2, "train", "run.yaml", "threads=1", "optim.eps=1e-4", "output.dir=two", "comm.zero=1"),
                                cwd=self.folder, env=support.environment(MPI_ENVIRONMENT), timeout=support.TIMEOUT_SECONDS, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, support.DONE, result.stdout)
        for one, two in zip(*(support.losses(self.folder / run) for run in ("one", "two")), strict=True):
            self.assertLess(abs(one - two), 1e-5 * one)

    def test_a_released_file_becomes_mixture_of_head_and_goes_on_from_latents(self):
        self.both()
        weights, file = released_dit()
        self.write("DiT-S-2.pt", file)
        self.assert_says(self.moh("checkpoint", "info", "DiT-S-2.pt"), "DiT, 12 layers of width 384", "2 classes")
        model = "model={preset: moh_dit_s_2_75, image_size: 8, classes: 2}"
        self.write("moh.yaml", RUN.split("model:")[0] + "data:" + RUN.split("data:")[1])
        self.moh("train", "moh.yaml", model, "init.from=DiT-S-2.pt", "init.moh.router_start=zero", "train.steps=1", "optim.learning_rate=1e-12", "eval.every=0")
        found = support.read_tensors(self.newest() / "model.safetensors")
        routers = {name for name in found if name not in weights}
        self.assertTrue(routers and all(".attn.w" in name for name in routers), routers)
        for name, values in weights.items():
            if found[name].tobytes() != array.array("f", values).tobytes():  # of 33 million numbers few, if any, have other bits
                self.assertLess(max(abs(a - b) for a, b in zip(found[name], values, strict=True)), 1e-6, name)
        for checkpoint in "DiT-S-2.pt", "run":
            self.moh("sample", "--checkpoint", checkpoint, "--autoencoder", AUTOENCODER, "--steps", "2", "-n", "1", "--out", checkpoint + "_drawn")

    def test_what_is_known_of_a_run_before_it_trains(self):
        self.both()
        self.assert_says(self.moh("plan", "run.yaml"), "parameters")
        self.moh("bench", "step", "run.yaml", "--steps", "1", "--warmup", "0", "--no-peaks")
        self.assert_says(self.moh("train", "run.yaml", "train.steps=1"), "no pictures are drawn", "sample.autoencoder")
        self.assertFalse((self.folder / "run/samples").exists())

    @unittest.skipUnless(support.build_has_failpoints(), NO_FAILPOINTS)
    def test_a_command_that_a_signal_stops_goes_on(self):
        self.latents(to="whole")
        process = support.start(self.folder, "data", "latents", "--input", "pictures", "--autoencoder", AUTOENCODER, "--output",
                                "latents", "--image-size", SIDE, "--shard-pictures", "4", env={"MOH_FAIL": "io:rename_2=slow"})
        self.addCleanup(process.kill)
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        while not self.shards() and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)  # before the second shard has its name, which takes half a second
        self.assertEqual(process.wait(support.TIMEOUT_SECONDS), support.PREEMPTED)
        self.assertIn(len(self.shards()), (1, 2))
        self.assert_says(self.moh("train", "run.yaml", "data.validation=[]", code=support.INPUT_ERROR),
                         "those of all 13 pictures, found of", "goes on where it was stopped")
        self.latents()
        self.assertEqual(self.shards(), self.shards("whole"))

    @unittest.skipUnless(support.build_has_failpoints(), NO_FAILPOINTS)
    def test_a_killed_command_loses_one_shard(self):
        self.latents(to="whole")
        for failure in "io:write_6=kill", "io:rename_3=kill":
            shutil.rmtree(self.folder / "latents", ignore_errors=True)
            self.latents(env={"MOH_FAIL": failure}, code=-signal.SIGKILL)
            made = self.shards()
            self.assertTrue(made and len(made) < 4)
            self.latents()
            self.assertEqual(self.shards(), self.shards("whole"))
            self.assert_no_litter("latents")

    @unittest.skipUnless(support.build_has_failpoints(), NO_FAILPOINTS)
    def test_a_full_disk_loses_nothing(self):
        self.latents(to="whole")
        said = self.latents(env={"MOH_FAIL": "io:write_7=ENOSPC"}, code=support.STORAGE_ERROR)
        self.assert_says(said, "No space left on device")
        self.assertTrue(self.shards())
        self.latents()
        self.assertEqual(self.shards(), self.shards("whole"))

    def test_a_damaged_shard_ends_the_training_by_name(self):
        self.both()
        path = self.folder / "latents/000001.safetensors"
        sound = path.read_bytes()
        flipped = bytearray(sound)
        flipped[len(sound) - 1000] ^= 16  # in `mean`, the last tensor but checksums of 128 bytes
        path.write_bytes(flipped)
        said = self.moh("train", "run.yaml", code=support.INPUT_ERROR)
        self.assert_says(said, "latents/000001.safetensors: mean and deviation of picture 3, mirrored: expected checksum", ", found ")
        self.assert_says(self.moh("data", "info", "latents", "--verify", code=support.INPUT_ERROR), "picture 3, mirrored")
        self.assert_says(self.moh("train", "run.yaml", "data.on_error=skip", "output.dir=skipped"), "1 broken picture")
        path.write_bytes(sound[:-7])
        self.assert_says(self.moh("train", "run.yaml", code=support.INPUT_ERROR), "000001.safetensors", "the file is truncated")
        path.unlink()
        self.assert_says(self.moh("train", "run.yaml", code=support.INPUT_ERROR), "000002.safetensors: first picture: expected 4, found 8")
        self.latents()
        self.moh("train", "run.yaml", "output.dir=mended")

    def test_latents_that_are_not_the_models(self):
        self.both()
        refused = {"code": support.CONFIG_ERROR}
        self.assert_says(self.moh("train", "run.yaml", "model.channels=8", **refused), "model.channels: expected 4, as the latents have, found 8")
        self.assert_says(self.moh("train", "run.yaml", "model.image_size=16", **refused), "model.image_size: expected 8")
        self.assert_says(self.moh("train", "run.yaml", "model.classes=3", **refused), "model.classes: expected 2")
        self.assert_says(self.moh("train", "run.yaml", "data.train=pictures", "data.validation=[]", **refused),
                         "model.channels: expected 3 for pictures, found 4", "moh data latents")
        self.assert_says(self.moh("train", "run.yaml", "data.train=missing", "data.validation=[]", code=support.INPUT_ERROR),
                         "missing: expected latents, found nothing of this name")
        self.assert_says(self.moh("train", "run.yaml", "data.validation=val", code=support.INPUT_ERROR), "val", "shards of latents")
        (self.folder / "val/dog").rename(self.folder / "val/wolf")
        self.latents(source="val", to="wolves")
        self.assert_says(self.moh("train", "run.yaml", "data.validation=wolves", code=support.INPUT_ERROR), "class", "wolf")

    def test_other_autoencoders(self):
        self.both()
        refused = {"code": support.CONFIG_ERROR}
        shutil.copytree(AUTOENCODER, self.folder / "other")
        weights, config = self.folder / "other/diffusion_pytorch_model.safetensors", self.folder / "other/config.json"
        whole = weights.read_bytes()
        weights.write_bytes(whole[:-4] + b"\0\0\0\0")
        other = ("data", "latents", "--input", "pictures", "--autoencoder", "other", "--image-size", SIDE, "--shard-pictures", "4", "--output")
        self.assert_says(self.moh(*other, "latents", **refused), "latents/000000.safetensors: autoencoder: expected")
        self.moh(*other, "others")
        self.assert_says(self.moh("train", "run.yaml", "data.train=others", code=support.INPUT_ERROR), "data.validation: autoencoder")
        self.assert_says(self.moh("train", "run.yaml", "sample={pictures: 1, steps: \"2\"}", "sample.autoencoder=other"),
                         "made by another autoencoder than the one that decodes them")
        config.write_text(config.read_text().replace("AutoencoderKL", "VQModel"))
        self.assert_says(self.moh(*other, "more", **refused), "expected AutoencoderKL, found VQModel")
        self.assert_says(self.moh("train", "run.yaml", "sample.autoencoder=other", "output.dir=more", **refused), "found VQModel")
        odd = ("data", "latents", "--input", "pictures", "--autoencoder", AUTOENCODER, "--image-size", "30", "--output", "odd")
        self.assert_says(self.moh(*odd, **refused), "--image-size: expected a multiple of 4")


if __name__ == "__main__":
    support.main()
