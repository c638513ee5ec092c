"""Every mistake in a configuration is reported, all in one go, with its place, before anything is read or made."""

import os

import support

MISTAKES = """\
seed: 3
sed: 4
threads: 1
output: {dir: run}
model:
  layers: 2
  layers: 3
  hidden: "32"
  heads: 010
  dropout: NaN
  init_std: high
  vocabulary: 256
data:
  train: missing.txt
  sequence_length: 4k
train:
  steps: 0
  batch_size: -1
optim:
  betas: [0.9]
  name: sgd
  lerning_rate: 1e-3
eval:
  every: yes
"""


class ConfigErrors(support.MohTest):
    def refused(self, contents, *overrides, name="bad.yaml"):
        """The lines that moh writes about a configuration; nothing else may come of it."""
        self.write(name, contents)
        before = {path for path in self.folder.rglob("*")}
        output = self.moh("train", name, *overrides, code=support.CONFIG_ERROR)
        self.assertEqual({path for path in self.folder.rglob("*")}, before, "the refused run left something")
        self.assertEqual(self.moh("config", name, *overrides, code=support.CONFIG_ERROR).split("error: ")[1],
                         output.split("error: ")[1])
        return output.split("error: ")[1].splitlines()

    def test_names_of_other_frameworks_for_values(self):
        lines = self.refused("seed: 1\n", "device=gpu", "precision=fp16", "model.layers=2")
        self.assertTrue(any("device: expected a device (cpu, cuda or cuda:N), found gpu; did you mean cuda?" in line for line in lines), lines)
        self.assertTrue(any("found fp16; float16 is not supported; use bfloat16" in line for line in lines), lines)

    def test_all_mistakes_at_once(self):
        lines = self.refused(MISTAKES, "optim.lr=3", "train.steps", "seed=1e99")
        expected = [
            "bad.yaml:2:1: sed: unknown key; did you mean seed?",
            "bad.yaml:7:3: model.layers: expected each key once, found it a second time (first at bad.yaml:6:3)",
            "bad.yaml:8:11: model.hidden: expected an integer",
            "bad.yaml:9:10: model.heads: expected an integer of at least 1, found 010; write 10",
            "bad.yaml:10:12: model.dropout: expected a number of at least 0 and below 1, found NaN",
            "bad.yaml:11:13: model.init_std: expected a number above 0, found high",
            "bad.yaml:12:3: model.vocabulary: unknown key",
            "bad.yaml:15:20: data.sequence_length: expected an integer of at least 1 (tokens), found 4k; write 4000",
            "bad.yaml:17:10: train.steps: expected an integer of at least 1 (steps), found 0",
            "bad.yaml:18:15: train.batch_size: expected an integer of at least 1 (samples), found -1",
            "bad.yaml:20:10: optim.betas: expected a list of 2 numbers",
            "bad.yaml:21:9: optim.name: expected one of adamw, lion, muon, adafactor, found sgd",
            "bad.yaml:22:3: optim.lerning_rate: unknown key; did you mean optim.learning_rate?",
            "bad.yaml:24:10: eval.every: expected an integer of at least 0 (steps), found yes",
            "command line: optim.lr=3: optim.lr: unknown key",
            "command line: train.steps: expected key.path=value, found no =",
            "command line: seed=1e99: seed: expected an integer",
        ]
        self.assertEqual(len(lines), len(expected), "\n".join(lines))
        for line, start in zip(lines, expected):
            self.assertTrue(line.startswith(start), f"expected {start}\nfound    {line}")

    def test_a_fifo_is_not_waited_for(self):
        os.mkfifo(self.folder / "pipe.yaml")
        output = self.moh("config", "pipe.yaml", code=support.CONFIG_ERROR)
        self.assert_says(output, "pipe.yaml", "found a FIFO")
        self.write("includes.yaml", "include: pipe.yaml\n")
        self.assert_says(self.moh("config", "includes.yaml", code=support.CONFIG_ERROR), "pipe.yaml", "found a FIFO")

    def test_yaml_that_is_not_accepted(self):
        cases = {
            "seed: 1\n---\nseed: 2\n": ["bad.yaml:2:1: ", "a second one"],
            "model:\n\tlayers: 2\n": ["bad.yaml:2:1: ", "found a tab", "two spaces"],
            "model: &m {layers: 2}\n": ["bad.yaml:1:8: model: ", "anchor &m"],
            "model:\n  <<: {layers: 2}\n": ["bad.yaml:2:3: model: ", "the merge key <<"],
            "model: [1\n": ["bad.yaml:1:8: ", "syntax error"],
            "- seed\n": ["bad.yaml:1:1: expected keys with values, found a list"],
            "": ["bad.yaml: expected keys with values, found an empty file"],
            "seed: !!int 3\n": ["bad.yaml:1:7: seed: "],
            b"seed: 3 # \xff\n": ["bad.yaml:1:11: "],
        }
        for contents, parts in cases.items():
            with self.subTest(contents=contents):
                self.assert_says("\n".join(self.refused(contents)), *parts)

    def test_keys_that_do_not_fit_together(self):
        cases = {
            "model.heads=5": ["model.heads: expected a divisor of model.hidden (32), found 5"],
            "model.moh.top_k=4": ["model.moh.top_k: expected at most 3, the heads that are not shared, found 4"],
            "model.moh.num_shared=[1,2,1]": ["model.moh.num_shared: ", "one per layer (model.layers is 2), found a list of 3"],
            "model.moh.router=none": ["model.moh.router: expected a router"],
            "data.sequence_length=64": ["data.sequence_length: expected at most model.max_positions (32), found 64"],
            "model.vocab_size=100": ["model.vocab_size: expected at least 256, the tokens of data.tokenizer: byte"],
            "schedule.min_learning_rate=1": ["schedule.min_learning_rate: expected at most optim.learning_rate"],
            "schedule.decay_steps=1": ["schedule.decay_steps: expected more than schedule.warmup_steps (2)"],
            "data.train=[]": ["data.train: expected text to train on, found no path"],
        }
        config = (self.folder / self.config()).read_text()
        for override, parts in cases.items():
            with self.subTest(override=override):
                lines = self.refused(config, override)
                self.assertEqual(len(lines), 1, lines)
                self.assert_says(lines[0], *parts)

    def test_a_gpu_is_one_clear_error(self):
        self.write("gpu.yaml", (self.folder / self.config()).read_text())
        before = {path for path in self.folder.rglob("*")}
        output = self.moh("train", "gpu.yaml", "device=cuda:7", code=support.CONFIG_ERROR)  # no machine of ours has it
        self.assertEqual(len(output.splitlines()), 1)
        self.assert_says(output, "device: cuda:7", "set device: cpu")
        self.assertEqual({path for path in self.folder.rglob("*")}, before, "the refused run left something")
        # The configuration is right, and can be looked at on a machine without the GPU.
        self.assert_says(self.moh("config", "gpu.yaml", "device=cuda:7"), "device: cuda:7")

    def test_includes(self):
        self.write("there.yaml", "sed: 3\n")
        lines = self.refused("include: [there.yaml, missing.yaml]\nsede: 4\n")
        self.assert_says(lines[0], "bad.yaml:1:23: include: missing.yaml: expected a readable file")
        self.assert_says(lines[1], "bad.yaml:2:1: sede: unknown key; did you mean seed?")
        self.assert_says(lines[2], "there.yaml:1:1: sed: unknown key; did you mean seed?")

    def test_no_file(self):
        for path, message in (("missing.yaml", "expected a readable file, found: No such file or directory"),
                              (".", "expected a file, found a folder")):
            self.assert_says(self.moh("train", path, code=support.CONFIG_ERROR), f"error: {path}: {message}")


class ActiveHeads(support.MohTest):
    TWELVE = {"model.hidden": 48, "model.heads": 12, "model.moh.num_shared": 3}

    def moh_section(self, output):
        return output[output.index("  moh:\n"):]

    def test_the_share_of_active_heads(self):
        output = self.moh("config", self.config({**self.TWELVE, "model.moh.top_k": 0, "model.moh.active": "75%"}))
        self.assert_says(self.moh_section(output), "num_shared: 3", "top_k: 6")
        self.assertEqual(output.splitlines()[-1], "# active heads: 3 shared + 6 of 9 = 75%")
        self.write("resolved.yaml", output)
        self.assertEqual(self.moh("config", "resolved.yaml"), output)
        self.assert_says(self.moh("config", self.config(self.TWELVE), "model.moh.active=75%", code=support.CONFIG_ERROR),
                         "model.moh.active: expected 0 with model.moh.top_k, found both")

    def test_a_start_says_what_is_active(self):
        for settings, said in (({"model.moh.top_k": "75%"}, ("for 75% in all, shared heads included, set model.moh.active: 75% in its place",
                                                             "every token keeps all routed heads (3 shared + 9 of 9 = 100% active)",
                                                             "12 heads of 4, 3 shared + 9 of 9 = 100% of them active")),
                               ({"model.moh.top_k": [6, 9]}, ("info: model.moh: every token keeps all routed heads in entries 1 of the lists",)),
                               ({"model.moh.top_k": 6}, ("3 shared + 6 of 9 = 75% of them active",))):
            with self.subTest(settings=settings):
                output = self.train({**self.TWELVE, "train.steps": 1, **settings}, "--overwrite")
                self.assert_says(output, *said)
                self.assertEqual(output.count("warning: model.moh"), 2 if settings["model.moh.top_k"] == "75%" else 0)

    def test_a_configuration_says_it_in_comments(self):
        output = self.moh("config", self.config({**self.TWELVE, "model.moh.top_k": "75%"}))
        self.assertEqual([line[:40] for line in output.splitlines() if line.startswith("#")],
                         ["# active heads: 3 shared + 9 of 9 = 100%", "# warning: model.moh.top_k: 75% of all h", "# warning: model.moh: every token keeps "])
        self.write("resolved.yaml", output)
        self.moh("config", "resolved.yaml")


if __name__ == "__main__":
    support.main()
