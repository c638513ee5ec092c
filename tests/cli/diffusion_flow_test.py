"""Flow matching and v-prediction (diffusion.objective), their samplers, and guidance in an interval, as a user meets them."""

import json
import os
import pathlib

import support

RUN = support.DIT_RUN + """\
diffusion: {objective: flow, path: cosine, time_sampling: logit_normal, time_mean: -0.3}
sample: {pictures: 2, steps: "3"}
"""
NOISE = ("diffusion={objective: noise, path: linear, time_sampling: uniform, time_mean: 0}",)
VELOCITY = ("diffusion={objective: velocity, path: linear, time_sampling: uniform, time_mean: 0}", "model.learn_variance=false")
REFUSED = {"code": support.CONFIG_ERROR}
SIT = """\
task: diffusion
model: {image_size: 8, patch_size: 2, channels: 4, classes: 10, layers: 2, hidden: 16, heads: [2, 4], head_dim: 8, mlp_ratio: 2}
"""
CHECKPOINT = pathlib.Path(os.environ["MOH_SOURCE_DIR"]) / "tests/golden/data/torch_checkpoints/dit_tiny.pt"


class Flow(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("run.yaml", RUN)

    def sample(self, *options, **more):
        return self.moh("sample", "--checkpoint", "run", "--steps", "3", *options, **more)

    def pictures(self, folder):
        return {path.name: path.read_bytes() for path in sorted((self.folder / folder).glob("0*.png"))}

    def settings(self, folder):
        return json.loads((self.folder / folder / "sample.json").read_text())

    def assert_any_batch(self, *options):
        """Images that are drawn together are those that are drawn one by one, guided in some of their steps."""
        name = "_".join(options).replace("-", "").replace("+", "p") or "usual"
        options = (*options, "--cfg", "3", "--guidance-interval", "0.1", "2")
        self.sample("--out", name, "-n", "3", "--batch-size", "3", *options)
        self.sample("--out", f"{name}_single", "-n", "3", "--batch-size", "1", *options)
        self.assertEqual(len(self.pictures(name)), 3)
        self.assertEqual(self.pictures(name), self.pictures(f"{name}_single"))
        return self.settings(name)

    def test_a_flow_resumes_with_the_same_bits_and_is_sampled_by_its_samplers(self):
        self.moh("train", "run.yaml")
        self.moh("train", "run.yaml", "output.dir=cut", "train.steps=3")
        self.moh("train", "run.yaml", "output.dir=cut", "--resume", "--allow-changes", "threads=1", "data.workers=3")
        self.assert_same_state("run", "cut")
        self.assertTrue((self.folder / "run/samples/step_00000006.png").exists())
        self.assertTrue(all("velocity_mse" in record for record in support.metrics(self.folder / "run") if record["kind"] == "train"))
        self.assert_says(self.moh("eval", "--checkpoint", "run"), "velocity_mse", "16 of 16 images")
        self.moh("analyze", "--checkpoint", "run", "--out", "heads.json")
        usual = self.assert_any_batch()
        self.assertEqual([usual[key] for key in ("objective", "path", "sampler", "diffusion", "clip_start", "guided_levels")],
                         ["flow", "cosine", "euler_maruyama", "sigma", False, [0.1, 2.0]])
        for options in ("euler",), ("heun",), ("euler_maruyama", "--diffusion", "sbdm"), ("euler_maruyama", "--diffusion", "constant"):
            self.assert_any_batch("--sampler", *options)
        # A model that was exported has its objective.
        self.moh("convert", "--from", "run", "--to", "exported", "--format", "hf")
        self.assertEqual(json.loads((self.folder / "exported/config.json").read_text())["path"], "cosine")
        self.sample("--out", "a", "-n", "2", "ema.evaluate=false")
        self.moh("sample", "--checkpoint", "exported", "--steps", "3", "--out", "b", "-n", "2")
        self.assertEqual(self.pictures("a"), self.pictures("b"))

    def test_velocities_are_sampled_as_noise_is(self):
        self.moh("train", "run.yaml", *VELOCITY)
        self.assert_says(self.moh("eval", "--checkpoint", "run"), "velocity_mse")
        self.assertEqual(self.assert_any_batch()["sampler"], "ancestral")
        for sampler in "ddim", "dpm++":
            self.assertEqual(self.assert_any_batch("--sampler", sampler)["objective"], "velocity")

    def test_what_does_not_go_together_is_refused(self):
        self.moh("train", "run.yaml")
        for options, parts in ((("--sampler", "dpm++"), ("--sampler", "euler, heun or euler_maruyama", "objective=flow", "dpm++")),
                               (("--clip", "yes"), ("--clip", "objective=flow")),
                               (("--sampler", "heun", "--diffusion", "sbdm"), ("--diffusion", "euler_maruyama")),
                               (("--cfg", "1", "--guidance-interval", "0", "1"), ("--guidance-interval", "without guidance")),
                               (("--guidance-interval", "2", "1"), ("--guidance-interval", "LOW < HIGH"))):
            self.assert_says(self.sample("--out", "a", *options, **REFUSED), *parts)
        self.assert_says(self.moh("sample", "--checkpoint", "run", "--steps", "ddim50", "--out", "a", **REFUSED), "steps", "ddim50")
        self.assert_says(self.moh("train", "run.yaml", "--resume", "diffusion.path=linear", "train.steps=8", **REFUSED), "diffusion.path")
        self.moh("train", "run.yaml", *NOISE, "output.dir=noise")
        self.assert_says(self.moh("sample", "--checkpoint", "noise", "--sampler", "heun", "--out", "a", **REFUSED),
                         "--sampler", "ancestral, ddim or dpm++", "objective=noise", "heun")
        self.assertFalse((self.folder / "a").exists())

    def test_a_checkpoint_of_the_released_code_is_what_the_user_says(self):
        """SiT's files have the tensors of DiT's."""
        self.write("sit.yaml", SIT)
        convert = ("convert", "--from", CHECKPOINT, "--format", "moh", "--config", "sit.yaml", "--allow-differences", "--to")
        sample = ("sample", "--sampler", "heun", "--steps", "2", "-n", "2", "--latents")
        self.moh(*convert, "noise")
        self.moh(*sample, "said.npz", "--checkpoint", "noise", "diffusion.objective=flow")
        self.write("sit.yaml", SIT + "diffusion: {objective: flow}\n")
        self.moh(*convert, "flow")
        self.moh(*sample, "kept.npz", "--checkpoint", "flow")
        self.assertEqual((self.folder / "said.npz").read_bytes(), (self.folder / "kept.npz").read_bytes())
        self.assertEqual(json.loads((self.folder / "kept.json").read_text())["objective"], "flow")


if __name__ == "__main__":
    support.main()
