"""moh quickstart: a first run on what the program has in itself, and what it says comes next."""

import re
import shlex
import unittest

import support

SHORT = {"language": ("train.steps=2", "train.batch_size=2", "eval.max_tokens=512", "sample.tokens=5"),
         "images": ("train.epochs=0", "train.steps=1", "train.batch_size=8", "schedule.warmup_epochs=0", "eval.every_epochs=0", "checkpoint.every_epochs=0",
                    "data.drawn_validation=16", "data.drawn=64"),
         "diffusion": ("train.steps=1", "train.batch_size=8", "schedule.warmup_steps=0", "data.drawn=64", "data.drawn_validation=16")}


class Quickstart(support.MohTest):
    def test_each_trains_with_nothing_beside_the_program(self):
        for name, settings in SHORT.items():
            with self.subTest(name):
                output = self.moh("quickstart", name, *settings)
                self.assert_says(output, "finished at step", "\nNext:\n")
                self.assertTrue(self.newest(f"moh_quickstart/{name}").exists())

    def test_the_commands_that_it_names_work(self):
        output = self.moh("quickstart", *SHORT["language"], "--folder", "first run")
        self.assert_says(output, "--- sample ---")
        commands = re.findall(r"^  moh (.*)$", output.split("\nNext:\n")[1], re.MULTILINE)
        self.assertEqual({command.split()[0] for command in commands}, {"generate", "analyze", "train", "plan"})
        self.write("MY_TEXT.txt", "The quick brown fox jumps over the lazy dog. " * 400)
        for command in commands:
            more = {"train": SHORT["language"], "generate": ("--tokens", "3"), "analyze": ("--max-tokens", "512")}.get(command.split()[0], ())
            self.moh(*shlex.split(command), *more)

    def test_it_goes_on_and_keeps_what_was_changed(self):
        self.moh("quickstart", *SHORT["language"], "--folder", "f")
        text = (self.folder / "f/text.txt").read_text()
        self.assertGreater(len(text), 100_000)
        for mark in ("`", "](", "\n| ", "\n#"):
            self.assertNotIn(mark, text)
        config = self.folder / "f/language.yaml"
        config.write_text(config.read_text().replace("tokens: 300", "tokens: 7"))
        output = self.moh("quickstart", "train.steps=4", "train.batch_size=2", "eval.max_tokens=512", "--folder", "f")
        self.assert_says(output, "resume: from step 2", "finished at step 4")
        self.assert_says(config.read_text(), "tokens: 7")

    def test_others_are_refused(self):
        self.assert_says(self.moh("quickstart", "sounds", code=support.CONFIG_ERROR),
                         "moh quickstart: expected one of language, images, diffusion, found sounds")
        self.write("file", "")
        self.assert_says(self.moh("quickstart", "--folder", "file", code=support.STORAGE_ERROR), "file: ")


if __name__ == "__main__":
    unittest.main()
