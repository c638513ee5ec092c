"""The examples learn what they are to learn: bounds that an untrained model does not reach."""

import math
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

EXAMPLES = pathlib.Path(os.environ["MOH_EXAMPLES"])
SOURCE_DIR = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
TEXT = SOURCE_DIR / "LICENSE"


def run(example, *arguments):
    return subprocess.run([EXAMPLES / example, *arguments], check=True, capture_output=True, text=True).stdout


def losses(output):
    return [float(loss) for loss in re.findall(r"^step +\d+  loss (\S+)$", output, re.MULTILINE)]


class Examples(unittest.TestCase):
    def test_mlp(self):
        output = run("mlp")
        self.assertIn("gradients agree", output)
        self.assertGreater(losses(output)[0], math.log(3) / 2)
        self.assertLess(losses(output)[-1], 0.2)
        self.assertGreater(float(re.search(r"^accuracy (\S+)$", output, re.MULTILINE).group(1)), 0.95)

    def test_moh_attention(self):
        output = run("moh_attention")
        self.assertAlmostEqual(losses(output)[0], math.log(8), delta=0.4)
        self.assertLess(losses(output)[-1], 0.2)
        tables = re.findall(r"^(?:told: |asked:)(.*)$", output, re.MULTILINE)
        shares = [[int(share) for share in re.findall(r"(\d+)%", table)] for table in tables]
        self.assertEqual(len(shares), 4)
        for heads in shares:  # 3 of the 7 routed heads for each token, beside the shared one
            self.assertEqual(heads[0], 100)
            self.assertAlmostEqual(sum(heads[1:]), 300, delta=4)

    def test_train_tiny_llama(self):
        for kind in ("moh", "dense"):
            with self.subTest(kind=kind), tempfile.TemporaryDirectory() as folder:
                weights = pathlib.Path(folder, "tiny.safetensors")
                output = run("train_tiny_llama", TEXT, kind, weights)
                self.assertAlmostEqual(losses(output)[0], math.log(256), delta=0.3)
                self.assertLess(losses(output)[-1], 2.0)  # with the byte before alone: 2.2
                self.assertTrue(output.splitlines()[-1].strip())
                header = weights.read_bytes()[8:10_000].decode("utf-8", "replace")
                self.assertIn('"model.layers.1.self_attn.q_proj.weight"', header)
                self.assertEqual('self_attn.wg.weight"' in header, kind == "moh")

    def test_a_text_that_is_missing_is_named(self):
        result = subprocess.run([EXAMPLES / "train_tiny_llama", "/nothing"], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (1, "error: /nothing: not a text of more than 64 bytes\n"))


if __name__ == "__main__":
    unittest.main()
