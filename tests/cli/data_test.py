"""moh data: a token file is as good as the text that it was made of."""

import json
import os
import pathlib
import struct
import subprocess
import unittest

import support


class Data(support.MohTest):
    def tokenize(self, *inputs, output="out.tokens", code=support.DONE):
        return self.moh("data", "tokenize", "--input", *inputs, "--output", output, code=code)

    def test_training_from_tokens_is_training_from_the_text(self):
        self.tokenize("text.txt", output="text.tokens")
        self.train({"output.dir": "from_text"})
        self.train({"output.dir": "from_tokens", "data.train": "text.tokens"})
        self.assert_same_state("from_text", "from_tokens")
        self.assert_same_history("from_text", "from_tokens")

    def test_a_folder(self):
        for name in ("a.txt", "b/c.txt", "b/d.md"):
            self.write(f"corpus/{name}", support.text_of_words(100, seed=len(name)))
        self.write("corpus/picture.png", b"\x89PNG\0\0")
        self.write("corpus/empty.txt", "")
        self.write("corpus/.hidden", "not this one")
        output = self.tokenize("corpus")
        self.assert_says(output, "data: skipped 1 empty (first: corpus/empty.txt), 1 binary", "wrote out.tokens",
                         "documents   3")
        text_bytes = sum(len((self.folder / "corpus" / name).read_bytes()) for name in ("a.txt", "b/c.txt", "b/d.md"))
        self.assert_says(output, f"text bytes  {text_bytes}")
        settings = {"data.validation": "text.txt"}
        self.train({**settings, "output.dir": "from_text", "data.train": "corpus"})
        self.train({**settings, "output.dir": "from_tokens", "data.train": "out.tokens"})
        self.assert_same_history("from_text", "from_tokens")

    def test_info(self):
        made = self.tokenize("text.txt")
        size = len((self.folder / "text.txt").read_bytes())
        info = self.moh("data", "info", "out.tokens")
        self.assert_says(info, f"tokens      {size} (1 byte each)", "documents   1", f"text bytes  {size}",
                         "tokenizer   byte (", "vocabulary  256")
        self.assertTrue(made.endswith(info))
        self.assertEqual(self.moh("data", "info", "out.tokens", "--verify"),
                         info + "verified: the ids match their checksum\n")

    def test_the_file_is_a_function_of_the_text(self):
        self.tokenize("text.txt", output="a.tokens")
        self.tokenize("text.txt", output="b.tokens")
        self.assertEqual((self.folder / "a.tokens").read_bytes(), (self.folder / "b.tokens").read_bytes())

    def test_a_token_file_of_another_program(self):
        text = (self.folder / "text.txt").read_bytes()
        header = {
            "__metadata__": {"format": "moh-tokens", "version": "1", "tokenizer": "byte", "vocab_size": "256"},
            "tokens": {"dtype": "U16", "shape": [len(text)], "data_offsets": [0, 2 * len(text)]},
        }
        self.write("python.safetensors", support.safetensors(header, struct.pack(f"<{len(text)}H", *text)))
        self.assert_says(self.moh("data", "info", "python.safetensors", "--verify"),
                         f"tokens      {len(text)} (2 bytes each)", "documents   not known", "checksum    none",
                         "verified: all ids are in the vocabulary")
        self.train({"output.dir": "from_text"})
        self.train({"output.dir": "from_tokens", "data.train": "python.safetensors"})
        self.assert_same_state("from_text", "from_tokens")

    def test_what_cannot_be_tokenized(self):
        self.assert_says(self.tokenize("missing.txt", code=support.INPUT_ERROR), "missing.txt: cannot read")
        self.assert_says(self.tokenize("text.txt", output="text.txt", code=support.INPUT_ERROR),
                         "text.txt: output: expected a file that is none of the inputs")
        self.tokenize("text.txt")
        self.assert_says(self.tokenize("out.tokens", output="again.tokens", code=support.INPUT_ERROR),
                         "out.tokens: expected text, found a moh token file")
        self.assert_says(self.moh("data", "tokenize", "--input", "text.txt", "--output", "x", "--tokenizer", "bite",
                                  code=support.CONFIG_ERROR), "bite")
        self.assert_says(self.tokenize("text.txt", output="no/such/folder.tokens", code=support.STORAGE_ERROR),
                         "no/such")
        self.write("other.txt", "another text")
        (self.folder / "link").symlink_to("out.tokens")
        before = (self.folder / "out.tokens").read_bytes()
        for output, found in (("out.tokens", "a path that does not exist, found a file; replace it with --overwrite"),
                              (".", "the name of a file, found a folder"), ("link", "the name of a file, found something"),
                              ("/dev/null", "the name of a file, found something else")):
            self.assert_says(self.tokenize("other.txt", output=output, code=support.CONFIG_ERROR),
                             f"--output {output}: expected {found}")
            if output != "out.tokens":
                self.tokenize("other.txt", "--overwrite", output=output, code=support.CONFIG_ERROR)
        self.assertEqual((self.folder / "out.tokens").read_bytes(), before)
        self.assert_says(self.tokenize("other.txt", "--overwrite"), "text bytes  12")
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"text.txt", "out.tokens", "other.txt", "link"})
        self.assertEqual((self.folder / "text.txt").read_text(), support.text_of_words(400))


@unittest.skipIf(os.environ.get("MOH_SANITIZED"), "moh test skipped: sanitizers need memory of their own")
class Memory(support.MohTest):
    """A text takes a byte of memory for each of its bytes, and hardly any while it is tokenized."""

    def test_a_large_text(self):
        size = 48 << 20
        with (self.folder / "large.txt").open("w") as file:
            for _ in range(48):
                file.write("A word that says little. " * (size // 48 // 25))
        size = (self.folder / "large.txt").stat().st_size
        tokenize = support.start(self.folder, "data", "tokenize", "--input", "large.txt", "--output", "large.tokens",
                                 stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(tokenize.pid, 0)
        tokenize.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(tokenize.returncode, support.DONE)
        self.assertLess(1024 * usage.ru_maxrss, 1.2 * size)
        peaks = {}
        for data in ("text.txt", "large.txt", "large.tokens"):
            self.train({"data.train": data, "train.steps": 1, "eval.every": 0, "eval.max_tokens": 32}, "--overwrite")
            peaks[data] = support.metrics(self.folder / "run")[0]["peak_process_memory_bytes"]
        self.assertLess(peaks["large.txt"] - peaks["text.txt"], 1.3 * size)
        self.assertLess(peaks["large.tokens"] - peaks["text.txt"], 0.3 * size)

    def test_a_tokenizer_needs_as_much_for_any_text(self):
        """JSON Lines and plain text, 40 MB of each: some 30 MiB are taken, by parts and ids of a moment."""
        text = support.text_of_words(4000)
        with (self.folder / "large.txt").open("w") as file, (self.folder / "large.jsonl").open("w") as lines:
            for _ in range(40_000_000 // len(text)):
                file.write(text)
                lines.write(json.dumps({"text": text}) + "\n")
        tokenizer = pathlib.Path(os.environ["MOH_SOURCE_DIR"]) / "tests/train/tokenizers/data/gpt2.json"
        for source in ("large.txt", "large.jsonl"):
            tokenize = support.start(self.folder, "data", "tokenize", "--input", source, "--output", f"{source}.tokens",
                                     "--tokenizer", tokenizer, "--threads", 2, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(tokenize.pid, 0)
            tokenize.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(tokenize.returncode, support.DONE)
            self.assertLess(usage.ru_maxrss, 60 << 10, source)


if __name__ == "__main__":
    support.main()
