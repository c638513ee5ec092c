"""The Python module with tensors of PyTorch: in and out without copies, and logits beside those of transformers."""

import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import python_packages  # noqa: E402

python_packages.require("numpy", "torch", "transformers")

import numpy  # noqa: E402
import support  # noqa: E402
import torch  # noqa: E402

sys.path.insert(0, os.environ.get("MOH_PYTHON_PACKAGE", ""))
try:
    import moh  # noqa: E402
except ImportError as missing:
    print(f"moh test skipped: {missing}", file=sys.stderr)
    sys.exit(support.SKIPPED)

CLASSIFIER = """\
task: image_classification
threads: 1
output: {dir: classifier}
model: {architecture: vit, classes: 8, image_size: 16, vit: {patch_size: 4, hidden: 24, layers: 1, heads: 2}}
data: {drawn: 16}
train: {steps: 1, batch_size: 8}
"""


class Torch(support.MohTest):
    def test_a_language_model_beside_that_of_transformers(self):
        from transformers import AutoModelForCausalLM
        self.train(support.DENSE)
        self.moh("convert", "--from", "run", "--to", "hf", "--format", "hf")
        ids = torch.arange(40, 64).reshape(2, 12)
        with torch.no_grad():
            expected = AutoModelForCausalLM.from_pretrained(self.folder / "hf")(ids).logits
        model = moh.load(self.folder / "hf")
        logits = model.logits(ids)
        for view in (torch.from_numpy(logits), torch.from_dlpack(logits)):
            self.assertEqual(view.data_ptr(), logits.ctypes.data)
            torch.testing.assert_close(view, expected, rtol=1e-4, atol=1e-4)
        self.assertTrue((model.logits(ids.int()) == logits).all())
        with self.assertRaisesRegex(moh.ConfigError, r"found bfloat16 \[2\]"):
            model.logits(torch.zeros(2, dtype=torch.bfloat16))

    def test_images_in_both_memory_formats(self):
        self.write("classifier.yaml", CLASSIFIER)
        self.moh("train", "classifier.yaml")
        model = moh.load(self.folder / "classifier")
        images = torch.randn(2, 3, 16, 16)
        logits = model.logits(images)
        self.assertTrue((model.logits(images.contiguous(memory_format=torch.channels_last)) == logits).all())
        self.assertTrue((model.logits(images.numpy()) == logits).all())
        self.assertEqual(logits.dtype, numpy.float32)
        with self.assertRaisesRegex(moh.ConfigError, "float32"):
            model.logits(images.double())


if __name__ == "__main__":
    python_packages.main()
