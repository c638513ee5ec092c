"""moh eval fid as a user meets it: scores of files of features, and of pictures by a classifier's features."""

import json
import os
import pathlib
import shutil

import support

CLASSIFIER = """\
task: image_classification
seed: 3
threads: 2
output: {dir: classifier}
model:
  architecture: vit
  classes: 8
  image_size: 16
  vit: {patch_size: 4, hidden: 24, layers: 1, heads: 2}
data: {drawn: 32, drawn_validation: 16}
train: {steps: 2, batch_size: 8}
"""

GENERATOR = """\
task: diffusion
seed: 3
threads: 2
output: {dir: generator}
model: {image_size: 16, patch_size: 4, channels: 3, classes: 8, layers: 1, hidden: 16, heads: 2}
data: {drawn: 32}
train: {steps: 2, batch_size: 8}
"""

GOLDEN = pathlib.Path(os.environ["MOH_SOURCE_DIR"]) / "tests/golden/fid"


class Fid(support.MohTest):
    def fid(self, *arguments, **more):
        return self.moh("eval", "fid", *arguments, **more)

    def scores(self, *arguments):
        return json.loads(next(line for line in self.fid(*arguments, "--json").splitlines() if line.startswith("{")))

    def test_files_of_features_and_statistics(self):
        expected = json.loads((GOLDEN / "scores.json").read_text())
        for name in ("reference", "statistics"):
            found = self.scores(GOLDEN / f"{name}.npz", GOLDEN / "samples.npz")
            for key in set(found) - {"reference", "samples"}:
                self.assertAlmostEqual(found[key], expected[key], places=9)
            self.assertEqual("precision" in found, name == "reference")
        self.assert_says(self.fid(GOLDEN / "statistics.npz", GOLDEN / "few.npy"), "fid              21.823331")

    def test_pictures_by_the_features_of_a_classifier(self):
        self.write("classifier.yaml", CLASSIFIER)
        self.write("generator.yaml", GENERATOR)
        self.moh("train", "classifier.yaml")
        self.moh("train", "generator.yaml")
        self.moh("sample", "--checkpoint", "generator", "--out", "s", "-n", "6", "--steps", "2", "--npz")
        # The folder without the archive is the same pictures.
        shutil.copytree(self.folder / "s", self.folder / "t")
        archive = self.scores("--features-from", "classifier", "s/samples.npz", "t")
        self.assertAlmostEqual(archive["fid"], 0, places=6)
        self.assertEqual((archive["precision"], archive["recall"]), (1, 1))
        self.assertGreaterEqual(archive["inception_score"], 1)
        said = self.fid("--features-from", "classifier", "s/samples.npz", "s/samples.npz")
        self.assert_says(said, "not of Inception")
        self.moh("sample", "--checkpoint", "generator", "--out", "u", "-n", "5", "--steps", "1", "--seed", "9")
        by_images = self.scores("--features-from", "classifier", "--write-reference", "s.npz", "s/samples.npz", "u")
        by_features = self.scores("--features-from", "classifier", "s.npz", "u")
        self.assertEqual({**by_images, "reference": "s.npz"}, by_features)
        written = (self.folder / "s.npz").read_bytes()
        self.assertEqual(by_features, self.scores("--features-from", "classifier", "--write-reference", "t.npz", "s.npz", "u"))
        self.assertEqual((self.folder / "t.npz").read_bytes(), written)
        # Images are not replaced by their features, and no name is refused after minutes.
        for name, said in (("s/samples.npz", "--overwrite"), ("s", "the name of a file"), ("features", "ends in .npz")):
            refused = self.fid("--features-from", "classifier", "--write-reference", name, "s/samples.npz", "u", code=support.CONFIG_ERROR)
            self.assert_says(refused, said)
        self.fid("--features-from", "classifier", "--write-reference", "t.npz", "--overwrite", "u", "u")
        self.assertNotEqual((self.folder / "t.npz").read_bytes(), written)

    def test_what_cannot_be_scored_is_named(self):
        broken = {"code": support.INPUT_ERROR}
        self.assert_says(self.fid("none.npz", GOLDEN / "few.npy", **broken), "none.npz")
        (self.folder / "cut.npz").write_bytes((GOLDEN / "samples.npz").read_bytes()[:-40])
        self.assert_says(self.fid(GOLDEN / "few.npy", "cut.npz", **broken), "cut.npz", "zip archive")
        self.write("generator.yaml", GENERATOR)
        self.moh("train", "generator.yaml")
        self.moh("sample", "--checkpoint", "generator", "--out", "s", "-n", "2", "--steps", "1", "--npz")
        self.assert_says(self.fid("s/samples.npz", GOLDEN / "few.npy", **broken), "--features-from")
        refused = self.fid("--features-from", "generator", "s", "s", code=support.CONFIG_ERROR)
        self.assert_says(refused, "a classifier of pictures", "diffusion")
        alone = self.fid("--resize", "adm", GOLDEN / "few.npy", GOLDEN / "few.npy", code=support.CONFIG_ERROR)
        self.assert_says(alone, "--resize", "--features")
        self.assert_says(self.fid("--features", GOLDEN / "few.npy", "s", "s", **broken), "few.npy")


if __name__ == "__main__":
    support.main()
