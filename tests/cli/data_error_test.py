"""Data that cannot be used is refused before the first step, with its path and what is wrong."""

import json
import os
import resource

import support

NOBODY = 65534

# What stands before the ids in a token file that moh writes (train/families/language/data/token_file_writer.cpp).
HEADER_BYTES = 1024


class TextErrors(support.MohTest):
    def refused(self, source, *parts, **options):
        output = self.train({"data.train": source}, code=support.INPUT_ERROR, **options)
        self.assert_says(output, *parts)
        self.assertEqual(self.checkpoints(), [])
        return output

    def test_missing_file(self):
        self.refused("missing.txt", "missing.txt: cannot read: No such file or directory")

    def test_missing_validation_file(self):
        output = self.train({}, "data.validation=missing.txt", code=support.INPUT_ERROR)
        self.assert_says(output, "missing.txt: cannot read: No such file or directory")

    def test_empty_file(self):
        self.write("empty.txt", "")
        self.refused("empty.txt", "empty.txt: expected text, found an empty file")

    def test_binary_file(self):
        self.write("program", b"\x7fELF\0\0text")
        self.refused("program", "program: expected text, found a binary file")

    def test_files_of_records_and_archives(self):
        """Their keys, quotes and escapes are no text. What is in a folder is passed over, and said."""
        for name, found in (("a.xz", "compressed"), ("b.JSON", "JSON"), ("c.csv", "CSV"), ("d.csv.gz", "CSV")):
            self.write(f"all/{name}", '{"text": "a story"}\n' * 9)
            self.refused(f"all/{name}", f"all/{name}: expected text, found {found} by its name; take the text out of it")
        self.refused("all", "all: expected at least one file with text", "1 compressed (first: all/a.xz), 1 JSON")
        (self.folder / "all" / "a.xz").rename(self.folder / "all" / "a.txt")
        self.train({"data.train": "all"})

    def test_a_huge_binary_file_is_not_read(self):
        self.write("all/text.txt", support.text_of_words(400))
        with open(self.folder / "all" / "disk.img", "wb") as file:
            file.truncate(1 << 40)
        limit = (1 << 31, 1 << 31)
        options = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, limit)}
        self.refused("all/disk.img", "all/disk.img: expected text, found a binary file (NUL bytes)", **options)
        output = self.moh("data", "tokenize", "--input", "all", "--output", "out.tokens", **options)
        self.assert_says(output, "skipped 1 binary (first: all/disk.img)", "documents   1")

    def test_names_cannot_steer_the_terminal(self):
        name = "a\x1b]0;x\x07\nb"
        escaped = "a\\x1b]0;x\\x07\\x0ab"
        self.write(f"all/{name}", "")
        self.write("all/text.txt", support.text_of_words(400))
        self.assert_says(self.train({"data.train": "all"}), f"skipped 1 empty (first: all/{escaped})")
        self.assert_says(self.moh("data", "tokenize", "--input", f"all/{name}", "--output", "o", code=support.INPUT_ERROR),
                         f"error: all/{escaped}: expected text, found an empty file")
        output = self.moh("data", "tokenize", "--input", "text.txt", "--output", name)
        self.assert_says(output, f"wrote {escaped}\n")
        self.assertNotIn("\x1b", output)

    def test_folder_without_text(self):
        (self.folder / "nothing").mkdir()
        self.refused("nothing", "nothing: expected at least one file with text, found no file")
        self.write("nothing/empty.txt", "")
        self.write("nothing/image.png", b"\x89PNG\0")
        self.refused("nothing", "only files without any", "1 empty (first: nothing/empty.txt)",
                     "1 binary (first: nothing/image.png)")

    def test_a_pipe_is_no_text(self):
        os.mkfifo(self.folder / "pipe")
        self.refused("pipe", "pipe: expected a regular file or a folder")

    def test_less_than_one_window(self):
        self.write("short.txt", "a text of less than 33 characters")
        self.refused("short.txt", "expected at least 33 tokens (sequence length + 1)")

    def test_the_smallest_text_that_will_do(self):
        self.write("short.txt", "x" * 33)
        self.train({"data.train": "short.txt", "data.validation_fraction": 0.0})
        self.write("shorter.txt", "x" * 32)
        self.train({"data.train": "shorter.txt", "data.validation_fraction": 0.0}, "--overwrite",
                   code=support.INPUT_ERROR)

    def test_files_that_cannot_be_read(self):
        self.write("locked/text.txt", support.text_of_words(400))
        self.write("locked.txt", support.text_of_words(400))
        options = self.as_nobody()
        (self.folder / "locked.txt").chmod(0)
        self.refused("locked.txt", "locked.txt: ", "Permission denied", **options)
        (self.folder / "locked").chmod(0)
        self.addCleanup((self.folder / "locked").chmod, 0o755)
        self.refused("locked", "locked: cannot read: Permission denied", **options)

    def test_a_folder_that_cannot_be_written(self):
        options = self.as_nobody()
        (self.folder / "run").mkdir()
        (self.folder / "run").chmod(0o555)
        output = self.train(code=support.STORAGE_ERROR, **options)
        self.assert_says(output, "run/.lock: open: expected success, found Permission denied")
        output = self.train({"output.dir": "run/inner"}, code=support.STORAGE_ERROR, **options)
        self.assert_says(output, "run/inner", "Permission denied")

    def as_nobody(self):
        """Options that run moh as somebody whom permissions bind; root may read everything."""
        if os.geteuid() != 0:
            return {}
        options = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self.folder.chmod(0o777)
        try:
            self.moh("--version", **options)
        except PermissionError as error:
            self.skipTest(f"another user cannot start the program: {error}")
        return options


class TokenFileErrors(support.MohTest):
    def setUp(self):
        super().setUp()
        self.moh("data", "tokenize", "--input", "text.txt", "--output", "good.tokens")
        self.good = (self.folder / "good.tokens").read_bytes()

    def refused(self, contents, *parts):
        self.write("bad.tokens", contents)
        for arguments in (("data", "info", "bad.tokens"), ("train", self.config({"data.train": "bad.tokens"}))):
            self.assert_says(self.moh(*arguments, code=support.INPUT_ERROR), "bad.tokens: ", *parts)

    def with_metadata(self, **changes):
        """The good file with other metadata, and without the checksum that covers it."""
        header = json.loads(self.good[8:HEADER_BYTES])
        header["__metadata__"].update(changes)
        del header["__metadata__"]["checksum"]
        return support.safetensors(header, self.good[HEADER_BYTES:])

    def test_truncated(self):
        for size in (len(self.good) - 1, HEADER_BYTES + 1, HEADER_BYTES, HEADER_BYTES - 1, 9):
            with self.subTest(size=size):
                self.refused(self.good[:size], "truncated")

    def test_too_long(self):
        self.refused(self.good + b"\0\0", "something was appended to the file")

    def test_wrong_beginning(self):
        # Not a token file, then: for training it is text or it is not.
        self.write("bad.tokens", self.good[:8] + b"[" + self.good[9:])
        output = self.moh("data", "info", "bad.tokens", code=support.INPUT_ERROR)
        self.assert_says(output, "bad.tokens: expected a moh token file, found other contents")
        output = self.train({"data.train": "bad.tokens"}, code=support.INPUT_ERROR)
        self.assert_says(output, "bad.tokens: expected text, found a binary file")

    def test_flipped_bits(self):
        for at in (self.good.index(b'"documents":"1"') + 13, HEADER_BYTES + 40, len(self.good) - 1):
            with self.subTest(at=at):
                damaged = bytearray(self.good)
                damaged[at] ^= 2
                self.refused(bytes(damaged), "the file is damaged", "moh data tokenize")

    def test_a_file_that_shrinks_during_the_run(self):
        config = self.config({"data.train": "good.tokens", "train.steps": 1000, "eval.every": 0})
        run = support.Running(self, "train", config)
        run.read_until("step 5/")
        os.truncate(self.folder / "good.tokens", HEADER_BYTES + 32)
        self.assertEqual(run.wait(), support.INPUT_ERROR, run.output)
        self.assert_says(run.output, "good.tokens: ")
        self.assert_says(self.moh("eval", "--checkpoint", "run", "data=text.txt"), self.newest().name)

    def test_another_version(self):
        self.refused(self.with_metadata(version="3"), "metadata, version: expected 1 or 2, found 3")

    def test_tensors_of_something_else(self):
        self.refused(self.with_metadata(format="pt"), "metadata, format: expected moh-tokens, found pt")

    def test_another_tokenizer(self):
        self.write("bad.tokens", self.with_metadata(tokenizer="words"))
        output = self.train({"data.train": "bad.tokens"}, code=support.INPUT_ERROR)
        self.assert_says(output, "bad.tokens: tokenizer: expected 'byte' (", "found 'words' (")
        # The same name does not make the same tokenizer.
        self.write("bad.tokens", self.with_metadata(tokenizer_hash="0807060504030201"))
        output = self.train({"data.train": "bad.tokens"}, code=support.INPUT_ERROR)
        self.assert_says(output, "bad.tokens: tokenizer: expected 'byte' (", "found 'byte' (0807060504030201, 256 ids)")

    def test_an_id_outside_the_vocabulary(self):
        largest = max(self.good[HEADER_BYTES:])
        self.refused(self.with_metadata(vocab_size=str(largest)),
                     f"id {self.good.index(largest, HEADER_BYTES) - HEADER_BYTES}: expected 0 ... {largest - 1}, "
                     f"found {largest}")


if __name__ == "__main__":
    support.main()
