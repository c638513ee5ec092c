"""What moh says about itself: help with examples that work, exit codes, configurations that read back."""

import os
import pathlib
import re
import shlex

import support

COMMANDS = ("quickstart", "train", "eval", "analyze", "generate", "translate", "predict", "sample", "serve", "config", "plan", "data tokenize", "data info", "checkpoint info",
            "convert", "bench attention", "bench module", "bench step", "bench ops", "bench decode", "bench sample", "doctor", "status", "watch")


class Help(support.MohTest):
    def test_every_command_has_help_with_examples(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                output = self.moh(*command.split(), "--help")
                self.assert_says(output, "Usage:", f"moh {command} ")
                self.assertRegex(output, rf"Examples?:\n  moh {command}\b")

    def test_the_list_of_this_test_is_complete(self):
        self.assertEqual(self.subcommands(), {command.split()[0] for command in COMMANDS})
        self.assertEqual(self.subcommands("data"), {"tokenize", "info", "latents"})
        self.assertEqual(self.subcommands("checkpoint"), {"info"})
        self.assertEqual(self.subcommands("bench"), {"attention", "module", "decode", "step", "sample", "ops"})

    def subcommands(self, *command):
        listing = self.moh(*command, "--help").split("Subcommands:\n")[1].split("\n\n")[0]
        return {line.split()[0] for line in listing.splitlines() if line.startswith("  ") and line[2] != " "}

    def test_help_tells_the_exit_codes(self):
        for arguments in (("--help",), ("train", "--help")):
            text = " ".join(self.moh(*arguments).split())
            self.assert_says(text, "0 done", "2 configuration", "3 data or checkpoint", "4 loss not finite",
                             "5 file that cannot be written", "75 stopped early")

    def test_the_options_of_examples_exist(self):
        for command in COMMANDS:
            text = self.moh(*command.split(), "--help")
            options, examples = re.split(r"Examples?:\n", text)
            for example in re.findall(rf"^  moh {command}\b.*", examples, re.MULTILINE):
                for word in shlex.split(example):
                    if word.startswith("--"):
                        self.assertRegex(options, rf"(?m)^  {word}\b", example)

    def test_version(self):
        """A file of results that has this line says which program made them."""
        known = r"^moh \d+\.\d+\.\d+ \(commit (not known|[0-9a-f]{10,}( with changes)?), \w+ [\d.]+, (no CUDA|CUDA [\d.]+ for [\w -]+), "
        self.assertRegex(self.moh("--version"), known + r"(baseline|avx2|avx512|avx512_bf16|amx)\)\n$")
        for isa in self.instruction_sets():
            self.assert_says(self.moh("--version", env={"MOH_CPU_ISA": isa}), f", {isa})")
        self.assert_says(self.moh("--version", env={"MOH_CPU_ISA": "mmx"}, code=support.CONFIG_ERROR), "error: ", "mmx")

    def test_a_checkpoint_needs_no_option(self):
        for command in ("eval", "generate", "translate", "serve", "analyze", "sample", "predict"):
            files = ["a.png"] if command == "predict" else []
            with self.subTest(command):
                self.assert_says(self.moh(command, "no_such_run", *files, *(["--prompt", "a"] if command == "generate" else []),
                                          *(["--out", "o"] if command == "sample" else []), code=support.INPUT_ERROR), "no_such_run: ")

    def test_command_lines_that_are_wrong(self):
        cases = {
            (): "A subcommand is required",
            ("frobnicate",): "expected one of quickstart, train, eval, analyze, generate, translate, predict, sample, serve, config, plan, data, checkpoint, "
                             "convert, bench, doctor, status, watch, found 'frobnicate'",
            ("trian", "x.yaml"): "did you mean train?",
            ("train",): "error: moh train: config is required",
            ("train", "a.yaml", "--frob"): "error: moh train: --frob: unknown option; moh train --help explains it",
            ("train", "a.yaml", "--resum"): "moh train: --resum: unknown option; did you mean --resume?",
            ("generate", "--chekpoint=x"): "moh generate: --chekpoint: unknown option; did you mean --checkpoint?",
            ("data", "tokenise", "x"): "moh data: unexpected argument 'tokenise'; did you mean tokenize?",
            ("data", "info", "a", "b"): "moh data info: unexpected argument 'b'",
            ("convert", "runs/x", "out"): "moh convert: unexpected argument 'runs/x'; use --from and --to",
            ("train", "a.yaml", "--lr", "1e-3"): "moh train: --lr: unknown option; did you mean optim.learning_rate=VALUE, without dashes?",
            ("train", "a.yaml", "--batch-size=4"): "did you mean train.batch_size=VALUE, without dashes?",
            ("generate", "--checkpoint", "run", "--max_new_tokens", "9"): "--max_new_tokens: unknown option; did you mean --tokens?",
            ("generate", "--checkpoint", "run", "--max-tokens", "9"): "did you mean --tokens?",
            ("generate", "run", "Once upon"): "moh generate: 'Once upon': expected a setting, key.path=value, found a word; a prompt "
                                              "follows --prompt",
            ("serve", "--checkpoint", "run", "other"): "moh serve: 'other': expected a setting, key.path=value, found a word; the "
                                                       "checkpoint is run already",
            ("bench", "step", "--json=yes"): "error: moh bench step: ",
            ("eval",): "error: moh eval: --checkpoint is required",
            ("generate", "--checkpoint", "run"): "expected --prompt or --prompt-file, found neither",
            ("config",): "expected a configuration file, or --reference",
            ("data",): "A subcommand is required",
            ("data", "tokenize", "--input", "text.txt"): "--output is required",
        }
        for arguments, message in cases.items():
            with self.subTest(arguments=arguments):
                self.assert_says(self.moh(*arguments, code=support.CONFIG_ERROR), message)
        config = self.config()
        self.assert_says(self.moh("train", config, "--log-level", "loud", code=support.CONFIG_ERROR),
                         "--log-level: log level: expected trace, debug, info, warning, error or off, found 'loud'")
        self.assert_says(self.moh("train", config, code=support.CONFIG_ERROR, env={"MOH_LOG": "loud"}), "MOH_LOG: ")

    def test_log_levels(self):
        config = self.config()
        self.assert_says(self.moh("train", config, "output.dir=a", "--log-level", "debug"), "debug: step 4: saved")
        self.assertNotIn("info: ", self.moh("train", config, "output.dir=b", "--log-level", "warning"))


class Config(support.MohTest):
    def test_the_resolved_configuration_reads_back(self):
        self.write("base.yaml", (self.folder / self.config()).read_text())
        self.write("main.yaml", "include: base.yaml\nmodel:\n  moh:\n    num_shared: [1, 2]\n")
        resolved = self.moh("config", "main.yaml", "train.steps=5", "sample.prompt='a: \"b\" # c'")
        self.assert_says(resolved, "steps: 5", "num_shared: [1, 2]", "hidden: 32", "betas: [0.9, 0.95]")
        self.write("resolved.yaml", resolved)
        self.assertEqual(self.moh("config", "resolved.yaml"), resolved)
        self.moh("train", "main.yaml", "train.steps=5", "output.dir=a")
        self.moh("train", "resolved.yaml", "output.dir=b", "sample.tokens=0")
        self.assert_same_state("a", "b")

    def test_every_shipped_configuration_reads_back(self):
        configs = pathlib.Path(os.environ["MOH_SOURCE_DIR"], "configs")
        shipped = sorted(set(configs.rglob("*.yaml")) - set(configs.glob("eval/*")))  # which are benchmarks
        self.assertTrue(shipped)
        # Some begin from the run of another, and ask its checkpoint what the model is.
        small = ("data.train=text.txt", "train.steps=1", "train.batch_size=1", "schedule.warmup_steps=0",
                 "eval.max_tokens=256", "sample.tokens=0", "threads=1")
        self.assert_says(self.moh("config", configs / "llm/continue_tuning_moh_75.yaml", code=support.INPUT_ERROR),
                         "init.from: runs/llm/continue_tuning_dense: expected a model, found no such file or folder")
        for dense, moh in (("continue_tuning_dense", "continue_tuning_moh_75"), ("recovery_dense", "recovery_moh_38")):
            self.moh("train", configs / f"llm/{dense}.yaml", *small)
            self.moh("train", configs / f"llm/{moh}.yaml", *small, "init.moh.calibration.batches=1")
        for path in shipped:
            with self.subTest(path=path.name):
                resolved = self.moh("config", path, "data.train=text.txt")
                self.write("resolved.yaml", resolved)
                self.assertEqual(self.moh("config", "resolved.yaml"), resolved)

    def test_the_reference_names_every_key(self):
        reference = self.moh("config", "--reference")
        resolved = self.moh("config", self.config())
        for name in re.findall(r"(?m)^ *(\w+):", resolved):
            self.assertIn(name, reference)


if __name__ == "__main__":
    support.main()
