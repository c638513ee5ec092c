"""The golden files of pictures, tokenizers, distances and searches, computed again by the libraries that are installed: other versions of
Pillow, torchvision, timm, tokenizers, SentencePiece, SciPy or transformers than those that made them may give other results, and then moh differs from them."""

import importlib.util
import json
import os
import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import python_packages  # noqa: E402

python_packages.require("numpy", "scipy", "torch", "torchvision", "timm", "PIL", "tokenizers", "transformers", "sentencepiece")
TESTS = python_packages.SOURCE / "tests"

import numpy  # noqa: E402
import sentencepiece  # noqa: E402
import tokenizers  # noqa: E402


def program(path):
    """A program that made golden files, as a module."""
    spec = importlib.util.spec_from_file_location("_".join(path.relative_to(TESTS).with_suffix("").parts), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Pictures(unittest.TestCase):
    """Pillow, torchvision and timm."""

    def setUp(self):
        self.maker = program(TESTS / "train/pictures/make_golden.py")
        self.golden = json.loads((TESTS / "train/pictures/golden.json").read_text())

    def test_decoded_pictures(self):
        found = self.maker.decoded(sorted(self.maker.DATA.iterdir()), self.maker.DATA)
        self.assertEqual(found, self.golden["decoded"])

    def test_operations(self):
        for each in self.golden["cases"]:
            for name, expected in each["small"].items():
                with self.subTest(each["case"], picture=name):
                    self.assertEqual(self.maker.applied(each["case"], self.maker.load(self.maker.DATA / name)), expected)

    def test_floats_and_batches(self):
        found = {}
        self.maker.run_floats(found)
        for key, value in found.items():
            self.assertEqual(json.loads(json.dumps(value)), self.golden[key], key)


class Tokenizers(unittest.TestCase):
    """tokenizers and SentencePiece, which read the files that moh reads."""

    PLANES = 2  # of Unicode; the others have few characters

    def setUp(self):
        self.maker = program(TESTS / "train/tokenizers/make_golden.py")
        self.folder = TESTS / "train/tokenizers"

    def test_tokenizers(self):
        golden = json.loads((self.folder / "golden.json").read_text())
        for name, expected in golden["of"].items():
            with self.subTest(name):
                tokenizer = tokenizers.Tokenizer.from_file(str(self.folder / f"data/{name}.json"))
                ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in golden["texts"]]
                self.assertEqual(ids, expected["ids"])
                self.assertEqual([tokenizer.decode(each) for each in ids], expected["decoded"])
                planes = [self.maker.hash_of(tokenizer, self.maker.blocks(plane)) for plane in range(self.PLANES)]
                self.assertEqual(planes, expected["planes"][:self.PLANES])

    def test_models_of_sentencepiece(self):
        golden = json.loads((self.folder / "golden_models.json").read_text())
        models = [name for name in golden["of"] if name.endswith(".model")]
        self.assertTrue(models)
        for name in models:
            with self.subTest(name):
                model = sentencepiece.SentencePieceProcessor(model_file=str(self.folder / "data" / name))
                self.assertEqual([model.encode(text) for text in golden["texts"]], golden["of"][name]["ids"])


class Distances(unittest.TestCase):
    """SciPy's square root of a matrix, in the formula of guided-diffusion's evaluator."""

    def test_frechet_distances(self):
        maker = program(TESTS / "golden/make_fid.py")
        golden = json.loads((maker.FOLDER / "scores.json").read_text())
        reference, samples = (numpy.load(maker.FOLDER / f"{name}.npz") for name in ("reference", "samples"))
        few = numpy.load(maker.FOLDER / "few.npy")
        of_reference = maker.moments(reference["activations"])
        found = {"fid": maker.frechet(of_reference, maker.moments(samples["activations"])),
                 "sfid": maker.frechet(maker.moments(reference["activations_s"]), maker.moments(samples["activations_s"])),
                 "fid_of_few": maker.frechet(of_reference, maker.moments(few)),
                 "inception_score": maker.inception_score(samples["probabilities"])}
        for name, value in found.items():
            self.assertAlmostEqual(value, golden[name], delta=1e-6 * golden[name], msg=name)


class Searches(unittest.TestCase):
    """Beam search of transformers."""

    def test_beam_search(self):
        maker = program(TESTS / "train/families/translation/make_beam_golden.py")
        golden = json.loads(maker.GOLDEN.read_text())
        model = maker.Hashed(maker.Config())
        for case in golden["cases"]:
            if case["beams"] != 4 or case["length_penalty"] not in (0.6, 1.0):
                continue
            settings = [case[name] for name in ("beams", "length_penalty", "early_stopping")]
            for seed, expected in enumerate(case["sentences"]):
                found = maker.translations(model, *settings, seed)
                self.assertEqual([each["tokens"] for each in found], [each["tokens"] for each in expected], (settings, seed))
                for ours, theirs in zip(found, expected):
                    self.assertAlmostEqual(ours["score"], theirs["score"], delta=1e-5)


if __name__ == "__main__":
    python_packages.main(defaultTest=os.environ.get("MOH_TEST_CASE"))  # one case of this file, or all
