"""The refusals that docs/faq.md quotes are what moh says.

Each block marked console has a command and what it writes. In that, words stand on any line, three dots stand for any text, and the
time of day is left out.
"""

import fcntl
import os
import pathlib
import re
import shlex
import shutil

import support

FAQ = (pathlib.Path(os.environ["MOH_SOURCE_DIR"]) / "docs/faq.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", FAQ, re.MULTILINE | re.DOTALL)


def squeeze(text):
    return " ".join(text.split())


def pattern_of(quoted):
    """A regular expression for what a block quotes, to be found in squeezed text."""
    return re.escape(squeeze(quoted)).replace(re.escape("..."), ".*")


class Faq(support.MohTest):
    def setUp(self):
        super().setUp()
        (run,) = blocks("yaml")
        self.write("run.yaml", run)
        self.write("wide.yaml", run.replace("hidden: 64", "hidden: 128"))
        self.write("llama.gguf", b"GGUF\x03" + bytes(64))
        self.write("float8.safetensors", support.safetensors(
            {"lm_head.weight": {"dtype": "F8_E4M3", "shape": [2, 2], "data_offsets": [0, 4]}}, bytes(4)))
        self.write("stories.csv", "story\na story\n")
        self.moh("train", "run.yaml", "output.dir=other", "model.vocab_size=300")
        self.moh("convert", "--from", "other", "--to", "llama", "--format", "hf")
        (self.folder / "llama/tokenizer.json").unlink()
        self.moh("train", "run.yaml")
        shutil.copy(self.newest("runs/llm/run") / "model.safetensors", self.folder / "weights.safetensors")
        shutil.copytree(self.folder / "runs/llm/run", self.folder / "runs/damaged")
        weights = self.newest("runs/damaged") / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1] + b"\x55")
        self.write("poem.txt", support.text_of_words(300, seed=9))
        self.write("notes/config.yaml", "mine: 1\n")
        lock = open(self.write("runs/busy/.lock", "host elsewhere, process 1\n"), "r+b")
        self.addCleanup(lock.close)
        fcntl.flock(lock, fcntl.LOCK_EX)

    def test_what_is_quoted_is_said(self):
        quotes = blocks("console")
        self.assertGreaterEqual(len(quotes), 12)
        for quote in quotes:
            command, expected = quote.split("\n", 1)
            with self.subTest(command=command):
                program, *arguments = shlex.split(command.removeprefix("$ "))
                self.assertEqual(program, "moh")
                result = self.command(*arguments)
                self.assertNotEqual(result.returncode, support.DONE)
                said = squeeze(re.sub(r"^\d\d:\d\d:\d\d ", "", result.output, flags=re.MULTILINE))
                self.assertRegex(said, pattern_of(expected))


if __name__ == "__main__":
    support.main()
