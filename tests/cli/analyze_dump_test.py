"""The program in docs/analyze.md that reads a dump with numpy, and what the tensors of a dump are to each other."""

import contextlib
import io
import os
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import python_packages  # noqa: E402

python_packages.require("numpy", "safetensors")

import numpy  # noqa: E402
import support  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)


class Dump(support.MohTest):
    def dump(self, *arguments):
        self.moh("analyze", "--checkpoint", "run", "--dump", "heads.safetensors", "--dump-layers", "1", *arguments)
        return load_file(self.folder / "heads.safetensors")

    def test_the_program_of_the_page_reads_it(self):
        self.train()
        tensors = self.dump()
        (program,) = PROGRAM.findall((python_packages.SOURCE / "docs/analyze.md").read_text())
        output = io.StringIO()
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(output):
                exec(compile(program, "docs/analyze.md", "exec"), {})
        finally:
            os.chdir(before)
        lines = output.getvalue().splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["0", "1"])
        loads = tensors["layers.1.selected"].mean((0, 1))
        self.assertIn(str(loads.round(3)), lines[1])
        self.assertAlmostEqual(loads.sum(), 2, places=6)

    def test_outputs_are_attention_of_what_goes_in(self):
        self.train()
        tensors = {name: value.astype(numpy.float64) for name, value in self.dump("--dump-sequences", "2").items()}
        q, k, v = (tensors[f"layers.1.{name}"] for name in "qkv")
        group, length, width = q.shape[2] // k.shape[2], q.shape[1], q.shape[3]
        k, v = (numpy.repeat(x, group, axis=2) for x in (k, v))
        scores = numpy.einsum("nthd,nshd->nhts", q, k) / width**0.5
        scores = numpy.where(numpy.tril(numpy.ones((length, length), bool)), scores, -numpy.inf)
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        outputs = numpy.einsum("nhts,nshd->nthd", weights / weights.sum(-1, keepdims=True), v)
        expected = outputs * tensors["layers.1.gates"][..., None]
        self.assertLess(numpy.abs(expected - tensors["layers.1.heads"]).max(), 1e-5 * numpy.abs(expected).max() + 1e-6)

    def test_the_metadata_tells_what_each_tensor_is(self):
        self.train()
        names = {name.rsplit(".", 1)[-1] for name in self.dump()}
        with safe_open(self.folder / "heads.safetensors", "numpy") as file:
            metadata = file.metadata()
        self.assertEqual((metadata["format"], metadata["version"]), ("moh head dump", "1"))
        self.assertTrue(names <= set(metadata), names - set(metadata))
        self.assertEqual(metadata["source_names"], "validation")


if __name__ == "__main__":
    python_packages.main()
