"""moh eval: the numbers of the trainer, and of any other text."""

import json
import math
import struct

import support


def numbers(output):
    """The lines "name   value" of the command."""
    return {name: float(value) for name, value in (line.split(maxsplit=1) for line in output.splitlines())
            if name not in ("checkpoint", "evaluated") and not name[0].isdigit()}  # nor a line of the log


class Eval(support.MohTest):
    def setUp(self):
        super().setUp()
        self.train()

    def eval(self, *overrides, run="run", code=support.DONE):
        output = self.moh("eval", "--checkpoint", run, *overrides, code=code)
        return numbers(output) if code == support.DONE else output

    def trained(self, step, run="run"):
        (record,) = (r for r in support.metrics(self.folder / run) if r["kind"] == "eval" and r["step"] == step)
        return {name: record[name] for name in ("loss", "perplexity", "bits_per_byte")}

    def check(self, found, expected):
        self.assertEqual(found.keys(), expected.keys())
        for name in expected:
            self.assertAlmostEqual(found[name], expected[name], delta=1e-6 * expected[name])  # six digits are printed

    def test_gives_what_the_trainer_gave(self):
        self.check(self.eval(), self.trained(8))
        self.check(self.eval(run="run/checkpoints/step_00000004"), self.trained(4))

    def test_gives_what_the_trainer_gave_in_bfloat16_and_with_a_file_of_its_own(self):
        self.write("other.txt", support.text_of_words(100, seed=2))
        self.train({"precision": "bfloat16", "data.validation": "other.txt", "output.dir": "other"})
        self.check(self.eval(run="other"), self.trained(8, "other"))
        # bfloat16 weights in float32 are the same weights; the other way they are rounded, and eval says so.
        self.moh("convert", "--from", "other", "--to", "upcast", "--format", "moh", "--dtype", "float32")
        self.check(self.eval("precision=float32", run="other"), self.eval(run="upcast"))
        for run, precision, conversion in (("other", "float32", "BF16, upcast to float32"),
                                           ("upcast", "bfloat16", "F32, rounded to bfloat16")):
            said = self.moh("eval", "--checkpoint", run, f"precision={precision}")
            self.assert_says(said, f"its weights are {conversion}")

    def test_a_hugging_face_folder_is_read_as_it_is(self):
        self.moh("convert", "--from", "run", "--to", "exported", "--format", "hf")
        before = sorted(self.folder.rglob("*"))
        self.check(self.eval("data=text.txt", run="exported"), self.eval("data=text.txt"))
        self.check(self.eval("data=text.txt", run="exported/model.safetensors"), self.eval("data=text.txt"))
        self.assert_says(self.moh("eval", "--checkpoint", "exported", "data=text.txt"), "checkpoint     exported\n")
        self.assert_says(self.moh("generate", "--checkpoint", "exported", "--prompt", "the ", "--tokens", 4), "the ")
        self.assert_says(self.moh("analyze", "--checkpoint", "exported", "data=text.txt"), "checkpoint       exported\n")
        self.assertEqual(sorted(self.folder.rglob("*")), before)
        # A vocabulary that is not that of bytes meets bytes only where somebody says so.
        self.train({"model.vocab_size": 300, "output.dir": "others"})
        self.moh("convert", "--from", "others", "--to", "others_exported", "--format", "hf")
        self.check(self.eval("data=text.txt", run="others_exported"), self.eval("data=text.txt", run="others"))
        (self.folder / "others_exported/tokenizer.json").unlink()
        for command in (("eval", "data=text.txt"), ("generate", "--prompt", "the "), ("analyze", "data=text.txt")):
            output = self.moh(command[0], "--checkpoint", "others_exported", *command[1:], code=support.CONFIG_ERROR)
            self.assert_says(output, "data.tokenizer: expected ", "the model's 300 tokens are not bytes")
        self.check(self.eval("data=text.txt", "data.tokenizer=byte", run="others_exported"),
                   self.eval("data=text.txt", run="others"))
        # bfloat16 stays what it is.
        self.moh("convert", "--from", "run", "--to", "half", "--format", "hf", "--dtype", "bfloat16")
        self.check(self.eval("data=text.txt", run="half"), self.eval("data=text.txt", "precision=bfloat16"))
        (self.folder / "half/config.json").unlink()
        self.assert_says(self.eval(run="half", code=support.CONFIG_ERROR), "half/model.safetensors: expected a configuration")

    def test_the_numbers_belong_together(self):
        found = self.eval()
        self.assertAlmostEqual(found["perplexity"], math.exp(found["loss"]), delta=1e-3)
        # A token of the byte tokenizer is a byte.
        self.assertAlmostEqual(found["bits_per_byte"], found["loss"] / math.log(2), delta=1e-5)

    def test_another_text(self):
        held_out = (self.folder / "text.txt").read_bytes()
        held_out = held_out[math.floor(len(held_out) * 0.9):]
        self.write("same.txt", held_out)
        self.check(self.eval("data=same.txt"), self.trained(8))
        self.check(self.eval("data.validation=same.txt"), self.trained(8))
        self.write("noise.txt", bytes(range(1, 256)) * 4)
        self.assertGreater(self.eval("data=noise.txt")["loss"], self.trained(8)["loss"] + 0.5)

    def test_a_token_file(self):
        self.moh("data", "tokenize", "--input", "text.txt", "--output", "text.tokens")
        self.assertEqual(self.eval("data=text.tokens"), self.eval("data=text.txt"))

    def test_a_text_is_evaluated_whole_and_the_output_says_how_much_it_was(self):
        self.train({"eval.max_tokens": 64, "output.dir": "short"})
        self.write("long.txt", support.text_of_words(300, seed=5))
        size = (self.folder / "long.txt").stat().st_size
        said = self.moh("eval", "--checkpoint", "short")
        self.assertRegex(said, r"evaluated +64 of \d+ tokens, sequences of 32\n")
        said = self.moh("eval", "--checkpoint", "short", "data=long.txt")
        self.assert_says(said, f"evaluated      {size - 1} of {size - 1} tokens, sequences of 32\n")
        said = self.moh("eval", "--checkpoint", "short", "data=long.txt", "eval.max_tokens=64")
        self.assertRegex(said, rf"evaluated +64 of {size - 1} tokens")

    def test_the_part_that_is_evaluated_is_the_same_for_every_batch_size_and_spread_over_the_text(self):
        expected = self.eval("data=text.txt", "eval.max_tokens=320")
        for size in (1, 3, 64):
            self.check(self.eval("data=text.txt", "eval.max_tokens=320", f"train.batch_size={size}"), expected)
        # Another beginning alone changes a few of the ten windows.
        text = (self.folder / "text.txt").read_bytes()
        self.write("end.txt", text[:len(text) // 2] + bytes(range(1, 256)) * (len(text) // 510))
        self.assertGreater(self.eval("data=end.txt", "eval.max_tokens=320")["loss"], expected["loss"] + 0.1)

    def test_a_training_has_a_bound_and_an_evaluation_on_demand_has_none(self):
        self.write("long.txt", support.text_of_words(40_000, seed=5))
        size = (self.folder / "long.txt").stat().st_size
        self.assertGreater(size, 150_000)
        self.train({**support.SMALLEST, "data.validation": "long.txt", "train.steps": 1, "eval.every": 0, "checkpoint.every": 0,
                    "output.dir": "bounded"})
        record, = (r for r in support.metrics(self.folder / "bounded") if r["kind"] == "eval")
        self.assertEqual((record["evaluated"], record["held_out"]), (131072, size - 1))
        said = self.moh("eval", "--checkpoint", "bounded")
        self.assert_says(said, f"evaluated      {size - 1} of {size - 1} tokens")
        self.assert_says(self.moh("eval", "--checkpoint", "bounded", "eval.max_tokens=4096"), f"evaluated      4096 of {size - 1}")
        self.train({"eval.max_tokens": 1.5}, code=support.CONFIG_ERROR)

    def test_a_loss_that_is_not_finite_is_an_error(self):
        name = "model.layers.0.mlp.down_proj.weight"
        self.moh("convert", "--from", "run", "--to", "weights.safetensors")
        data = bytearray((self.folder / "weights.safetensors").read_bytes())
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        at = 8 + int.from_bytes(data[:8], "little") + header[name]["data_offsets"][0]
        data[at:at + 4] = struct.pack("<f", math.nan)
        self.write("weights.safetensors", bytes(data))
        self.moh("convert", "--from", "weights.safetensors", "--to", "broken", "--format", "moh", "--config",
                 "tiny.yaml")
        output = self.moh("eval", "--checkpoint", "broken", "data=text.txt", code=support.NUMERIC_ABORT)
        self.assert_says(output, "eval: loss: expected a finite number, found ")

    def test_the_training_files_need_not_be_there_for_another_text(self):
        self.write("other.txt", "some text to look at")
        (self.folder / "text.txt").unlink()
        self.assertIn("loss", self.eval("data=other.txt"))
        self.assert_says(self.eval(code=support.INPUT_ERROR), "text.txt: cannot read")

    def test_part_of_the_text(self):
        # Sequences of 32: 100 tokens take four, 129 five, and all of them are few more.
        one, two = self.eval("data=text.txt", "eval.max_tokens=100"), self.eval("data=text.txt", "eval.max_tokens=129")
        self.assertEqual(one, self.eval("data=text.txt", "eval.max_tokens=128"))
        self.assertNotEqual(one, two)
        self.assertNotEqual(two, self.eval("data=text.txt"))

    def test_batches_of_any_size(self):
        expected = self.eval("data=text.txt")
        for size in (1, 5, 64):
            self.check(self.eval("data=text.txt", f"train.batch_size={size}"), expected)

    def test_text_that_will_not_do(self):
        self.write("one.txt", "x")
        self.write("empty.txt", "")
        self.assert_says(self.eval("data=one.txt", code=support.INPUT_ERROR), "at least 2 tokens, found 1")
        self.assert_says(self.eval("data=empty.txt", code=support.INPUT_ERROR), "empty.txt: expected text")
        self.assert_says(self.eval("data=missing.txt", code=support.INPUT_ERROR), "missing.txt: cannot read")

    def test_a_run_that_held_nothing_out(self):
        self.train({"data.validation_fraction": 0.0, "output.dir": "all"})
        self.assertEqual([r for r in support.metrics(self.folder / "all") if r["kind"] == "eval"], [])
        self.assert_says(self.eval(run="all", code=support.INPUT_ERROR), "held nothing out", "data=PATH")
        self.assertIn("loss", self.eval("data=text.txt", run="all"))

    def test_mistakes_in_overrides(self):
        self.assert_says(self.eval("evl.max_tokens=3", code=support.CONFIG_ERROR), "evl", "eval")
        self.assert_says(self.eval("device=gpu", code=support.CONFIG_ERROR), "device: expected a device (cpu, cuda or")
        self.assert_says(self.eval("device=cuda:7", code=support.CONFIG_ERROR), "device: cuda:7", "set device: cpu")


if __name__ == "__main__":
    support.main()
