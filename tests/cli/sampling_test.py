"""What moh sample and the pictures of a training make of a model's training: guidance, latents, averages, and what is left behind."""

import json
import pathlib
import struct

import support
from latents_test import AUTOENCODER, RUN as LATENT_RUN, picture

NOT_SHOWN = ("sample.pictures=0", "eval.every=0")


class Guidance(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("run.yaml", support.DIT_RUN)

    def train(self, *settings, **more):
        return self.moh("train", "run.yaml", "train.steps=2", *settings, **more)

    def sample(self, *options, **more):
        return self.moh("sample", "--checkpoint", "run", "--steps", "2", "-n", "2", *options, **more)

    def pictures(self, folder):
        return [path.read_bytes() for path in sorted((self.folder / folder).glob("0*.png"))]

    def settings(self, folder):
        return json.loads((self.folder / folder / "sample.json").read_text())

    def test_a_model_that_never_lacked_a_label_is_not_guided(self):
        said = self.train("diffusion.label_dropout=0", "sample.pictures=2", "sample.steps=2")
        self.assert_says(said, "sample.guidance: 1.5 is not used", "diffusion.label_dropout 0")
        self.assert_says(self.sample("--out", "usual"), "without guidance", "diffusion.label_dropout 0")
        self.sample("--out", "one", "--cfg", "1")
        self.assertEqual(self.settings("usual")["guidance"], 1)
        self.assertEqual(self.pictures("usual"), self.pictures("one"))
        said = self.sample("--out", "asked", "--cfg", "1.5", code=support.CONFIG_ERROR)
        self.assert_says(said, "--cfg: expected 1, as", "found 1.5", "diffusion.label_dropout=0.1")
        self.sample("--out", "known", "--cfg", "1.5", "diffusion.label_dropout=0.1")
        # The pictures of the training are those without guidance, too.
        self.train("diffusion.label_dropout=0", "sample.pictures=2", "sample.steps=2", "sample.guidance=1", "output.dir=unguided")
        name = "samples/step_00000002.png"
        self.assertEqual((self.folder / "run" / name).read_bytes(), (self.folder / "unguided" / name).read_bytes())

    def test_a_model_that_never_saw_a_label_draws_without(self):
        self.train("diffusion.label_dropout=1", *NOT_SHOWN)
        self.assert_says(self.sample("--out", "usual"), "diffusion.label_dropout 1")
        self.assertFalse(self.settings("usual")["labels"])
        self.sample("--out", "cat", "--classes", "1", code=support.CONFIG_ERROR)
        self.sample("--out", "asked", "--cfg", "2", code=support.CONFIG_ERROR)
        # Labels change nothing, as there are none: other pictures of a class come from other noise alone.
        self.sample("--out", "again", "--batch-size", "1")
        self.assertEqual(self.pictures("usual"), self.pictures("again"))

    def test_a_model_of_both_is_guided_as_ever(self):
        self.train(*NOT_SHOWN)
        said = self.sample("--out", "usual")
        self.assertNotIn("without guidance", said)
        self.assertEqual(self.settings("usual")["guidance"], 1.5)

    def test_settings_are_given_as_to_other_commands(self):
        self.train(*NOT_SHOWN, "ema.warmup=false")
        self.sample("--out", "average")
        self.sample("--out", "weights", "ema.evaluate=false")
        self.sample("--out", "set", "--set", "ema.evaluate=false")
        self.assertNotEqual(self.pictures("average"), self.pictures("weights"))
        self.sample("--out", "after", "--classes", "3,1", "ema.evaluate=false")
        self.assertEqual(self.settings("after")["classes"], [3, 1])
        self.assertEqual(self.pictures("set"), self.pictures("weights"))
        self.assert_says(self.sample("--out", "x", "ema.evaluat=false", code=support.CONFIG_ERROR), "did you mean ema.evaluate?")

    def test_the_grid_says_of_what_its_pictures_are(self):
        self.train(*NOT_SHOWN)
        self.sample("--out", "s", "--classes", "3,1", "--columns", "1")
        grid = json.loads((self.folder / "s/grid.json").read_text())
        self.assertEqual(grid["columns"], 1)
        self.assertEqual([(cell["picture"], cell["class"]) for cell in grid["cells"]], [("000000.png", 3), ("000001.png", 1)])
        self.assertTrue(all(isinstance(cell["name"], str) for cell in grid["cells"]))

    def test_what_a_killed_command_left_goes_at_the_next_start(self):
        self.train(*NOT_SHOWN)
        self.sample("--out", "s")
        old, ours = "s/.000013.png.tmp-611314f60a0b0c0d", "s/.samples.npz.tmp-0011223344556677"
        foreign = "s/.000013.png.tmp-note"
        for name in old, ours, foreign:
            self.write(name, "half")
        self.sample("--out", "s", "--npz")
        left = {path.name for path in (self.folder / "s").iterdir() if path.name.startswith(".")}
        self.assertEqual(left, {pathlib.Path(foreign).name})
        # Other commands that write a file do so in its folder.
        self.write(".x.json.tmp-0123456789abcdef", "half")
        self.moh("convert", "--from", "run", "--to", "model.safetensors")
        self.assertFalse((self.folder / ".x.json.tmp-0123456789abcdef").exists())

    def test_an_average_that_is_mostly_its_beginning_is_named(self):
        said = self.train(*NOT_SHOWN, "ema.decay=0.998", "ema.warmup=false", "output.dir=cold")
        self.assert_says(said, "moving average        100% of it are still the initial weights")
        self.assertNotIn("initial weights", self.train(*NOT_SHOWN, "ema.decay=0.998", "train.steps=3", "output.dir=warm"))

    def test_an_average_that_began_without_a_warm_up_goes_on_so(self):
        schedule = "schedule={warmup_steps: 1, decay_steps: 4}"
        self.train(*NOT_SHOWN, "ema.warmup=false", "output.dir=whole", "train.steps=4", schedule)
        self.train(*NOT_SHOWN, "ema.warmup=false", schedule)
        said = self.train(*NOT_SHOWN, "--resume", "--allow-changes", "ema.warmup=true", "train.steps=4", schedule)
        self.assert_says(said, "goes on without ema.warmup")
        self.assertEqual((self.newest() / "ema.safetensors").read_bytes(), (self.newest("whole") / "ema.safetensors").read_bytes())


class NotFinite(support.MohTest):
    def test_no_option_takes_nan_or_infinity(self):
        for command in (("sample", "--checkpoint", "r", "--out", "o", "--cfg"), ("sample", "--checkpoint", "r", "--out", "o", "--eta"),
                        ("generate", "--checkpoint", "r", "--prompt", "x", "--temperature"),
                        ("generate", "--checkpoint", "r", "--prompt", "x", "--top-p"), ("plan", "c.yaml", "--mfu")):
            for value in "nan", "-nan", "NaN", "inf", "-Infinity":
                with self.subTest(option=command[-1], value=value):
                    said = self.moh(*command[:-1], f"{command[-1]}={value}", code=support.CONFIG_ERROR)
                    self.assert_says(said, command[-1])
        said = self.moh("sample", "--checkpoint", "r", "--out", "o", "--cfg", "nan", code=support.CONFIG_ERROR)
        self.assert_says(said, "--cfg: expected a finite number, found nan")

    def test_no_key_takes_nan_or_infinity(self):
        self.write("run.yaml", support.DIT_RUN)
        for key in "optim.learning_rate", "ema.decay", "diffusion.flip", "sample.guidance", "eval.max_pictures", "guard.spike.loss", \
                "train.stop_after_seconds", "train.steps":
            for value in ".nan", "nan", ".inf", "-.inf", "inf", "1e999":
                with self.subTest(key=key, value=value):
                    self.assert_says(self.moh("train", "run.yaml", f"{key}={value}", code=support.CONFIG_ERROR), key + ": expected")


class LatentsWithoutAutoencoder(support.MohTest):
    def setUp(self):
        super().setUp()
        for label in "cat", "dog":
            for seed in range(2):
                self.write(f"pictures/{label}/{seed}.png", picture(seed + len(label)))
        self.moh("data", "latents", "--input", "pictures", "--autoencoder", AUTOENCODER, "--output", "latents", "--image-size", 32)
        self.write("run.yaml", LATENT_RUN)
        self.moh("train", "run.yaml", "data.validation=[]", "train.steps=2")

    def sample(self, *options, **more):
        return self.moh("sample", "--checkpoint", "run", "--steps", "2", "-n", "3", *options, **more)

    def latents(self, name):
        arrays = support.npz(self.folder / name)
        self.assertEqual({name: array[:2] for name, array in arrays.items()},
                         {"arr_0": ("<f4", (3, 4, 8, 8)), "labels": ("<i8", (3,)), "seed": ("<i8", ())})
        return {name: array[2] for name, array in arrays.items()}

    def test_they_are_written_as_the_model_makes_them(self):
        self.assert_says(self.sample("--latents", "out/a.npz", code=support.STORAGE_ERROR), "the folder out does not exist")
        (self.folder / "out").mkdir()
        self.sample("--latents", "out/a.npz", "--classes", "dog,cat")
        self.assertEqual(json.loads((self.folder / "out/a.json").read_text())["labels"], [1, 0, 1])
        arrays = self.latents("out/a.npz")
        self.assertEqual((struct.unpack("<3q", arrays["labels"]), struct.unpack("<q", arrays["seed"])), ((1, 0, 1), (0,)))
        self.sample("--latents", "b.npz", "--classes", "dog,cat", "--batch-size", "1", "--out", "parts")
        self.assertEqual(self.latents("out/a.npz"), self.latents("b.npz"))
        # What is in the folder is not made again.
        (self.folder / "parts/000001.npz").unlink()
        self.sample("--latents", "c.npz", "--classes", "dog,cat", "--out", "parts")
        self.assertEqual(self.latents("c.npz"), self.latents("b.npz"))

    def test_what_does_not_go_together_is_refused(self):
        self.assert_says(self.sample("--out", "o", code=support.CONFIG_ERROR), "--autoencoder: expected a folder", "--latents FILE.npz")
        self.assert_says(self.sample("--latents", "a.npz", "--autoencoder", AUTOENCODER, code=support.CONFIG_ERROR), "--latents: expected")
        self.assert_says(self.sample("--latents", "a.npz", "--npz", code=support.CONFIG_ERROR), "--npz: expected")
        self.write("a.npz", "mine")
        self.assert_says(self.sample("--latents", "a.npz", code=support.CONFIG_ERROR), "--overwrite")
        self.assertEqual((self.folder / "a.npz").read_text(), "mine")
        self.sample("--latents", "a.npz", "--overwrite")
        self.latents("a.npz")
        self.assert_says(self.sample("--autoencoder", AUTOENCODER, code=support.CONFIG_ERROR), "--out: expected")

    def test_another_autoencoder_than_that_of_the_latents_is_named(self):
        self.assertNotIn("is not the one", self.sample("--autoencoder", AUTOENCODER, "--out", "right"))
        other = self.folder / "other"
        other.mkdir()
        for file in pathlib.Path(AUTOENCODER).iterdir():
            data = bytearray(file.read_bytes())
            if file.suffix == ".safetensors":
                data[-3] ^= 1
            (other / file.name).write_bytes(bytes(data))
        said = self.sample("--autoencoder", "other", "--out", "wrong")
        self.assert_says(said, "warning", "is not the one that made the latents of the training")


if __name__ == "__main__":
    support.main()
