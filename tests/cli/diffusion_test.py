"""task: diffusion as a user meets it: from drawn pictures to a model, and from the model to pictures."""

import json
import os
import pathlib
import random
import shutil
import signal
import unittest

import support

MEMORISE = """\
task: diffusion
seed: 1
threads: 1
output: {dir: run}
model:
  image_size: 8
  patch_size: 2
  channels: 3
  classes: 8
  layers: 1
  hidden: 64
  heads: 4
  moh: {router: learned, num_shared: 1, top_k: 2}
data: {train: pictures}
diffusion: {flip: 0, label_dropout: 0}
train: {steps: 3000, batch_size: 16}
optim: {learning_rate: 8.0e-3, betas: [0.9, 0.99], weight_decay: 0, clip_grad_norm: 1}
schedule: {warmup_steps: 100}
ema: {decay: 0.99}
eval: {every: 0}
checkpoint: {every: 0}
"""


def squares(seed, side=8):
    """RGB bytes of a picture of four by four squares with colours at random."""
    draw = random.Random(seed)
    colors = [[bytes(draw.randrange(30, 226) for _ in range(3)) for _ in range(4)] for _ in range(4)]
    return b"".join(colors[4 * y // side][4 * x // side] for y in range(side) for x in range(side))


def distance(a, b):
    """Root of the mean squared difference of two pictures, in levels of 0 to 255."""
    return (sum((x - y) ** 2 for x, y in zip(a, b)) / len(a)) ** 0.5


LATENTS = """\
task: diffusion
output: {dir: latents}
model: {image_size: 8, patch_size: 2, channels: 4, classes: 10, layers: 2, hidden: 16, heads: [2, 4], head_dim: 8, mlp_ratio: 2}
"""

GOLDEN = pathlib.Path(os.environ["MOH_SOURCE_DIR"]) / "tests/golden/data"


def npy_of(path):
    """Shape and bytes of an .npz file's only array, arr_0."""
    ((name, (kind, shape, data)),) = support.npz(path).items()
    assert (name, kind) == ("arr_0", "|u1")
    return shape, data


class Diffusion(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("run.yaml", support.DIT_RUN)

    def pictures(self, folder):
        return {path.name: path.read_bytes() for path in sorted((self.folder / folder).glob("0*.png"))}

    def sample(self, *options, **more):
        return self.moh("sample", "--checkpoint", "run", "--steps", "4", *options, **more)

    def test_a_run_goes_on_with_the_same_bits_and_is_evaluated(self):
        self.moh("train", "run.yaml")
        self.moh("train", "run.yaml", "output.dir=cut", "train.steps=3")
        self.moh("train", "run.yaml", "output.dir=cut", "--resume", "--allow-changes", "threads=1", "data.workers=3")
        self.assert_same_state("run", "cut")
        self.assertTrue(any("noise_mse" in record for record in support.metrics(self.folder / "run")))
        self.assert_says(self.moh("eval", "--checkpoint", "run"), "noise_mse", "16 of 16 images")

    def test_heads_by_the_condition_of_a_sample_in_every_command(self):
        by_condition = "model.moh.router=condition"
        self.moh("train", "run.yaml", by_condition)
        self.moh("train", "run.yaml", by_condition, "output.dir=cut", "train.steps=3")
        self.moh("train", "run.yaml", by_condition, "output.dir=cut", "--resume", "--allow-changes", "threads=1")
        self.assert_same_state("run", "cut")
        self.moh("train", "run.yaml", "output.dir=by_token")
        self.assertNotEqual(support.metrics(self.folder / "run")[-1], support.metrics(self.folder / "by_token")[-1])
        self.assert_says(self.moh("eval", "--checkpoint", "run"), "noise_mse", "16 of 16 images")
        self.sample("--out", "a", "-n", "4", "--batch-size", "4", "--cfg", "1.5")
        self.sample("--out", "b", "-n", "4", "--batch-size", "1", "--cfg", "1.5")
        self.assertEqual(self.pictures("a"), self.pictures("b"))
        self.moh("analyze", "--checkpoint", "run", "--out", "heads.json")
        plans = [json.loads(self.moh("plan", "run.yaml", "--json", *more)) for more in ((), (by_condition,))]
        self.assertEqual(plans[0]["parameters"], plans[1]["parameters"])
        self.assertLess(plans[1]["flops_per_image"], plans[0]["flops_per_image"])  # logits of samples, not of tokens

    def test_what_the_model_draws_meanwhile_does_not_depend_on_interruptions(self):
        """Grids at steps 3 and 6; one that a signal stops is drawn after the resume, and in the metrics once."""
        samples = 'sample={pictures: 3, steps: "1000"}'
        self.moh("train", "run.yaml", samples)
        run = support.Running(self, "train", "run.yaml", samples, "output.dir=cut")
        run.read_until("step 3/6")  # what follows is the evaluation, short, and the drawing, long
        run.send(signal.SIGTERM)
        self.assertEqual(run.wait(), support.PREEMPTED)
        self.moh("train", "run.yaml", samples, "output.dir=cut", "--resume")
        for step in 3, 6:
            name = f"samples/step_{step:08d}.png"
            self.assertEqual((self.folder / "run" / name).read_bytes(), (self.folder / "cut" / name).read_bytes())
        for folder in "run", "cut":
            pictures = [record["picture"] for record in support.metrics(self.folder / folder) if record["kind"] == "eval"]
            self.assertEqual(pictures, ["samples/step_00000003.png", "samples/step_00000006.png"])

    def test_pictures_do_not_depend_on_the_batch_and_are_kept(self):
        self.moh("train", "run.yaml")
        self.sample("--out", "a", "-n", "5", "--batch-size", "5", "--npz")
        self.sample("--out", "b", "-n", "3", "--batch-size", "2")
        self.assertEqual(list(self.pictures("a")), [f"{i:06d}.png" for i in range(5)])
        self.assertEqual(self.pictures("b"), dict(list(self.pictures("a").items())[:3]))
        shape, pixels = npy_of(self.folder / "a" / "samples.npz")
        self.assertEqual(shape, (5, 8, 8, 3))
        self.assertEqual(len(pixels), 5 * 8 * 8 * 3)
        self.assertTrue((self.folder / "a" / "grid.png").exists())
        self.assertEqual(json.loads((self.folder / "a" / "sample.json").read_text())["classes"], "random")
        # Estimates of pixels are cut to their bounds, unless one says otherwise.
        self.sample("--out", "uncut", "-n", "3", "--clip", "no")
        self.assertNotEqual(self.pictures("uncut"), self.pictures("b"))
        self.assertEqual([json.loads((self.folder / out / "sample.json").read_text())["clip_start"] for out in ("a", "uncut")],
                         [True, False])
        # More of the same; what was there is not made again.
        first = self.folder / "b" / "000000.png"
        before = first.stat().st_mtime_ns
        self.sample("--out", "b", "-n", "5")
        self.assertEqual(self.pictures("b"), self.pictures("a"))
        self.assertEqual(first.stat().st_mtime_ns, before)

    @unittest.skipUnless(support.build_has_failpoints(), "needs a build with MOH_FAILPOINTS")
    def test_a_full_disk_while_64_pictures_are_drawn_loses_none_of_them(self):
        self.moh("train", "run.yaml")
        options = ("-n", "64", "--batch-size", "16", "--npz")
        self.sample("--out", "whole", *options)
        # While picture 38 is written, and while the file of all of them is.
        for failure, drawn in ("io:write_40=ENOSPC", 38), ("io:write_70=ENOSPC", 64):
            shutil.rmtree(self.folder / "cut", ignore_errors=True)
            said = self.sample("--out", "cut", *options, env={"MOH_FAIL": failure}, code=support.STORAGE_ERROR)
            self.assert_says(said, "No space left on device", "cut/")
            self.assertEqual(self.pictures("cut"), dict(list(self.pictures("whole").items())[:drawn]))
            self.assertFalse((self.folder / "cut/samples.npz").exists())
            first = self.folder / "cut/000000.png"
            before = first.stat().st_mtime_ns
            self.sample("--out", "cut", *options)
            self.assertEqual(first.stat().st_mtime_ns, before)
            self.assertEqual(self.pictures("cut"), self.pictures("whole"))
            for name in "samples.npz", "grid.png", "sample.json":
                self.assertEqual((self.folder / "cut" / name).read_bytes(), (self.folder / "whole" / name).read_bytes())
            self.assert_no_litter("cut")

    def test_eight_pictures_that_a_model_has_learned_come_back_from_noise(self):
        """The whole chain: pictures from files, noise, loss, moving average, checkpoint, guidance-free sampling, truncation."""
        shown = [squares(seed) for seed in range(8)]
        for label, pixels in enumerate(shown):
            self.write(f"pictures/{label}/one.png", support.png(8, 8, b"".join(b"\0" + pixels[24 * y:24 * (y + 1)] for y in range(8))))
        self.write("memorise.yaml", MEMORISE)
        self.moh("train", "memorise.yaml")
        classes = [0, 1, 2, 3, 4, 5, 6, 7]
        for sampler, steps in ("ancestral", 100), ("ddim", 50), ("dpm++", 20):
            self.moh("sample", "--checkpoint", "run", "--out", sampler, "-n", "8", "--classes", ",".join(map(str, classes)), "--cfg", "1",
                     "--steps", str(steps), "--sampler", sampler, "--npz")
            _, pixels = npy_of(self.folder / sampler / "samples.npz")
            for label in classes:
                made = pixels[192 * label:192 * (label + 1)]
                # 3 to 5 levels; to any other of the pictures there are 70.
                self.assertLess(distance(made, shown[label]), 8, f"{sampler}: class {label}")

    def test_what_cannot_be_sampled_is_refused(self):
        self.moh("train", "run.yaml")
        refused = {"code": support.CONFIG_ERROR}
        self.assert_says(self.sample("--out", "a", "--classes", "0,99", **refused), "--classes", "99")
        self.assertFalse((self.folder / "a").exists())
        self.sample("--out", "a", "-n", "1", "--classes", "0")
        self.assert_says(self.sample("--out", "a", "-n", "1", "--seed", "1", **refused),
                         "pictures of other settings lie there")
        self.assert_says(self.sample("--out", "c", "-n", "0", **refused), "-n", "1 to")
        self.assert_says(self.sample("--out", "c", "--autoencoder", "vae", **refused), "--autoencoder", "makes pixels")

    def test_latents_are_decoded_by_an_autoencoder_of_their_kind(self):
        self.write("latents.yaml", LATENTS)
        self.moh("convert", "--from", GOLDEN / "torch_checkpoints/dit_tiny.pt", "--to", "model", "--format", "moh", "--config",
                 "latents.yaml", "--allow-differences")
        sample = ("sample", "--checkpoint", "model", "--steps", "2", "--out")
        autoencoder = ("--autoencoder", GOLDEN.parent / "autoencoder")
        self.moh(*sample, "a", "-n", "3", "--npz", *autoencoder)
        shape, _ = npy_of(self.folder / "a" / "samples.npz")
        self.assertEqual(shape, (3, 32, 32, 3))
        self.assertFalse(json.loads((self.folder / "a" / "sample.json").read_text())["clip_start"])
        self.moh(*sample, "b", "-n", "2", "--batch-size", "1", *autoencoder)
        self.assertEqual(self.pictures("b"), dict(list(self.pictures("a").items())[:2]))
        # One of other weights, of another kind, a damaged one, and none.
        shutil.copytree(GOLDEN.parent / "autoencoder", self.folder / "other")
        weights, config = self.folder / "other/diffusion_pytorch_model.safetensors", self.folder / "other/config.json"
        whole = weights.read_bytes()
        weights.write_bytes(whole[:-4] + b"\0\0\0\0")
        refused = {"code": support.CONFIG_ERROR}
        self.assert_says(self.moh(*sample, "a", "-n", "4", "--autoencoder", "other", **refused), "pictures of other settings")
        weights.write_bytes(whole[:-4])
        said = self.moh(*sample, "c", "--autoencoder", "other", code=support.INPUT_ERROR)
        self.assert_says(said, "diffusion_pytorch_model.safetensors")
        config.write_text(config.read_text().replace("AutoencoderKL", "VQModel"))
        self.assert_says(self.moh(*sample, "c", "--autoencoder", "other", **refused), "expected AutoencoderKL, found VQModel")
        self.assert_says(self.moh(*sample, "c", **refused), "--autoencoder", "latents of 4 channels")
        self.assertFalse((self.folder / "c").exists())

    def test_plan_bench_and_analyze_reach_the_family(self):
        self.moh("train", "run.yaml")
        self.assert_says(self.moh("plan", "run.yaml"), "parameters")
        self.moh("bench", "step", "run.yaml", "--steps", "1", "--warmup", "0", "--no-peaks")
        self.moh("analyze", "--checkpoint", "run", "--out", "heads.json", "--dump", "heads.safetensors",
                 "--dump-sequences", "2", "--dump-layers", "0")
        dumped = support.stored_shapes(self.folder / "heads.safetensors")
        batch, tokens, heads = dumped["layers.0.gates"][1]
        self.assertEqual(batch, 2)
        self.assertEqual(dumped["layers.0.selected"], ("U8", [2, tokens, heads]))
        self.assertEqual(dumped["layers.0.q"][1][:3], [2, tokens, heads])
        self.assertEqual(dumped["layers.0.heads"], dumped["layers.0.q"])
        self.assert_says((self.folder / "heads.json").read_text(), "steps 0 to 249", "steps 750 to 999")

    def test_bench_draws_presets_and_files_beside_a_configuration(self):
        self.write("preset.yaml", "task: diffusion\nmodel: {preset: dit_s_4, image_size: 8, channels: 4, classes: 2}\ndata: {train: pictures}\n")
        self.write("small.yaml", LATENTS + "data: {train: pictures}\n")
        measured = self.moh("bench", "sample", "preset.yaml", "--beside", "moh_dit_s_2_75", "--beside", "small.yaml", "--steps", "1", "--repeats",
                            "1", "--warmup", "0", "--batch-size", "1", "--json", "threads=1")
        lines = [json.loads(line) for line in measured.splitlines() if line.startswith("{")]
        self.assertEqual([line["model"] for line in lines], ["preset.yaml", "moh_dit_s_2_75", "small.yaml"])
        self.assert_says(self.moh("bench", "sample", "preset.yaml", "--beside", "moh_dit_s_3", code=support.CONFIG_ERROR), "moh_dit_s_3")


if __name__ == "__main__":
    support.main()
