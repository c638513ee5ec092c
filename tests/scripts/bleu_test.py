"""scripts/bleu.py: scores that can be computed by hand, signatures, and files that do not fit."""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import python_packages  # noqa: E402

python_packages.require("sacrebleu")

# The references have 8 of the 9 words, 5 of 7 pairs, 3 of 5 triples and 2 of 3 quadruples; the lengths are equal.
TRANSLATIONS = "the house is very small\nan old man sleeps\n"
REFERENCES = "the house is very small\nan old dog sleeps\n"


class Bleu(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.write("out", TRANSLATIONS)
        self.write("ref", REFERENCES)

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")

    def bleu(self, *arguments, code=0):
        done = subprocess.run([sys.executable, "-B", python_packages.SOURCE / "scripts/bleu.py", *arguments], cwd=self.folder,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def scores(self, *arguments):
        return json.loads(self.bleu(*arguments, "--json"))

    def test_a_score_by_hand(self):
        found = self.scores("out", "ref")
        precisions = 8 / 9, 5 / 7, 3 / 5, 2 / 3
        self.assertAlmostEqual(found["BLEU"]["score"], 100 * math.prod(precisions) ** 0.25, places=6)
        self.assertRegex(found["BLEU"]["signature"], r"^nrefs:1\|case:mixed\|eff:no\|tok:13a\|smooth:exp\|version:2\.\d")
        self.assertRegex(found["chrF2"]["signature"], r"^nrefs:1\|case:mixed\|eff:yes\|nc:6\|nw:0\|space:no\|version:2\.\d")
        self.assertGreater(found["chrF2"]["score"], 60)

    def test_equal_texts_and_several_references(self):
        for references in (("out",), ("ref", "out")):
            found = self.scores("out", *references)
            self.assertAlmostEqual(found["BLEU"]["score"], 100)
            self.assertAlmostEqual(found["chrF2"]["score"], 100)
            self.assertIn(f"nrefs:{len(references)}|", found["BLEU"]["signature"])

    def test_case_and_tokens(self):
        self.write("upper", TRANSLATIONS.upper())
        self.assertLess(self.scores("upper", "out")["BLEU"]["score"], 10)
        found = self.scores("upper", "out", "--lowercase", "--tokenize", "none")
        self.assertAlmostEqual(found["BLEU"]["score"], 100)
        self.assertIn("case:lc|eff:no|tok:none", found["BLEU"]["signature"])

    def test_the_table_and_the_paper(self):
        lines = self.bleu("out", "ref", "--paper").splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["BLEU", "chrF2", "paper"])
        self.assertIn("MoA 28.3, MoH 29.0", lines[2])
        self.assertEqual(self.scores("out", "ref", "--paper")["paper"], {"BLEU": {"MoA": 28.3, "MoH": 29.0}})
        self.assertNotIn("paper", self.bleu("out", "ref"))

    def test_what_does_not_fit(self):
        self.write("short", "one line\n")
        self.assertIn("short: expected as many lines as in out, 2, found 1", self.bleu("out", "short", code=1))
        self.assertIn("none: ", self.bleu("out", "none", code=1))
        (self.folder / "binary").write_bytes(b"\xff\n\xff\n")
        self.assertIn("binary: 'utf-8' codec can't decode", self.bleu("out", "binary", code=1))


if __name__ == "__main__":
    python_packages.main()
