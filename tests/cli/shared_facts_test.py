"""What all processes of a run take to be the same, and one of them has otherwise: all end at the start, with one exit code,
and say what, both values and which process. The processes are on one machine, each in a folder of its own, and reach their
files by one path, as machines do that have copies."""

import shutil

import ranks
import support
from ports import free_port

HERE = "/proc/self/cwd"


class TwoMachines(ranks.RanksTest):
    """Process 0 is in folder `a`, process 1 in `b`."""

    SETTINGS = {"train.accumulate": 2, "train.steps": 2, "schedule.warmup_steps": 1, "checkpoint.every": 0,
                "data.train": f"{HERE}/text.txt"}

    def setUp(self):
        super().setUp()
        self.write("a/text.txt", support.text_of_words(400))
        self.copy()

    def copy(self):
        """Gives process 1 what process 0 has."""
        shutil.rmtree(self.folder / "b", ignore_errors=True)
        shutil.copytree(self.folder / "a", self.folder / "b")

    def settings(self, **more):
        return self.config({**self.SETTINGS, "output.dir": str(self.folder / "run"), **more})

    def both(self, *arguments, code, second=(), env=None):
        """Runs two processes, the second with the arguments `second` and the environment `env` besides; what each wrote."""
        port = free_port()
        config = [self.folder / "tiny.yaml"] if arguments[0] == "train" else []
        command, *options = arguments
        started = [self.start(0, 2, port, command, *config, *options, cwd=self.folder / "a"),
                   self.start(1, 2, port, command, *config, *options, *second, cwd=self.folder / "b", env=env)]
        for process in started:
            self.assertEqual(process.wait(support.TIMEOUT_SECONDS), code, self.output(0) + self.output(1))
        return self.output(0)

    def refused(self, key, *arguments, code=support.INPUT_ERROR, **options):
        """Both end with `code`, and process 0 names the key and process 1."""
        output = self.both(*arguments, code=code, **options)
        self.assertRegex(output, rf"error: comm: {key}: expected .*, as rank 0 has, found .* in rank 1 \(host .*, process \d+\)")
        self.assertNotIn("version of moh", output)
        return output

    def single(self, folder, *arguments):
        return self.moh(*arguments, cwd=self.folder / folder)


class Text(TwoMachines):
    def test_equal_copies_train(self):
        self.settings()
        self.assert_says(self.both("train", code=support.DONE), "finished at step 2")

    def test_another_text(self):
        self.settings()
        text = (self.folder / "a/text.txt").read_text()
        for other in (text.replace("head", "hand"), text[:len(text) // 3], text[:100], text + "more"):
            self.write("b/text.txt", other)
            output = self.refused(r"data\.train", "train")
            self.assertRegex(output, r"\d+ tokens, checksum \w{32}, as rank 0 has, found 1 file, \d+ tokens, checksum \w{32} in")
            self.assertFalse((self.folder / "run").exists())

    def test_another_text_to_validate_on_and_in_one_of_several_sources(self):
        sources = "[{name: one, path: /proc/self/cwd/text.txt, weight: 1}, {name: two, path: /proc/self/cwd/two.txt, weight: 1}]"
        self.write("a/two.txt", support.text_of_words(300, seed=2))
        self.copy()
        self.write("b/two.txt", support.text_of_words(300, seed=3))
        self.settings(**{"data.validation": f"{HERE}/two.txt"})
        self.refused(r"data\.validation", "train")
        self.settings(**{"data.train": sources})
        self.refused(r"data\.train\[two\]", "train")

    def test_other_ids_and_another_tokenizer(self):
        self.settings(**{"data.train": f"{HERE}/ids.tokens"})
        for folder, words in (("a", 400), ("b", 401)):
            text = self.write(f"{folder}/more.txt", support.text_of_words(words))
            self.single(folder, "data", "tokenize", "--input", text, "--output", "ids.tokens")
        self.refused(r"data\.train", "train")
        for folder, name in (("a", "gpt2"), ("b", "llama3")):
            shutil.copy(support.TOKENIZERS / f"{name}.json", self.folder / folder / "tokenizer.json")
        self.settings(**{"data.tokenizer": f"{HERE}/tokenizer.json", "model.vocab_size": 720})
        self.refused(r"data\.(tokenizer|train)", "train")

    def test_another_model_to_begin_from(self):
        for folder, seed in (("a", 1), ("b", 2)):
            self.config({**self.SETTINGS, "seed": seed, "output.dir": "model"}, name=f"{folder}/dense.yaml")
            self.single(folder, "train", "dense.yaml")
        self.settings(**{"init.from": f"{HERE}/model"})
        self.refused(r"init\.from", "train")
        for folder in "ab":
            self.single(folder, "convert", "--from", "model", "--to", "hf", "--format", "hf")
        self.settings(**{"init.from": f"{HERE}/hf"})
        self.assert_says(self.refused(r"init\.from", "train"), "tensors, hash ")

    def test_another_checkpoint_to_resume(self):
        for folder, seed in (("a", 3), ("b", 4)):
            self.settings(seed=seed, **{"output.dir": f"{HERE}/run"})
            self.single(folder, "train", self.folder / "tiny.yaml")
        self.settings(**{"train.steps": 4, "schedule.decay_steps": 2, "output.dir": f"{HERE}/run"})
        output = self.refused(r"output\.dir", "train", "--resume")
        self.assert_says(output, "step_00000002, checksum of its manifest ")

    def test_another_command_line_or_environment(self):
        self.settings()
        others = self.instruction_sets()[:-1]  # the last is the one of the first process
        for key, options in ((r"seed", {"second": ["seed=4"]}),
                             (r"optim\.learning_rate", {"second": ["optim.learning_rate=0.004"]}),
                             (r"--resume", {"second": ["--resume"]}),
                             (r"--allow-changes", {"second": ["--allow-changes"]}),
                             *((r"instruction set", {"env": {"MOH_CPU_ISA": isa}}) for isa in others)):
            self.refused(key, "train", code=support.CONFIG_ERROR, **options)
        # What changes no result may differ.
        self.both("train", code=support.DONE, second=["--log-level=debug"], env={"OMP_NUM_THREADS": "2"})

    def test_another_instruction_set_for_bfloat16_alone(self):
        """avx512_bf16 has kernels of its own for bfloat16, and those of avx512 for float32."""
        pair = ["avx512", "avx512_bf16"]
        if any(self.command("--version", env={"MOH_CPU_ISA": isa}).returncode != support.DONE for isa in pair):
            self.skipTest("this processor or this build has no AVX512-BF16")
        other = pair[self.moh("--version").endswith(", avx512)\n")]
        self.settings(precision="bfloat16")
        self.refused("instruction set", "train", code=support.CONFIG_ERROR, env={"MOH_CPU_ISA": other})
        self.settings()
        self.both("train", code=support.DONE, env={"MOH_CPU_ISA": other})

    def test_evaluations_and_analyses(self):
        self.settings(**{"output.dir": f"{HERE}/run"})
        self.single("a", "train", self.folder / "tiny.yaml")
        self.copy()
        self.write("b/text.txt", support.text_of_words(400, seed=7))
        for command in ("eval", "analyze"):
            self.refused(r"data\.train", command, "--checkpoint", "run")
        self.write("a/other.txt", support.text_of_words(200, seed=8))
        self.write("b/other.txt", support.text_of_words(200, seed=9))
        self.refused(r"data\.validation", "eval", "--checkpoint", "run", f"data={HERE}/other.txt")
        self.refused(r"data", "analyze", "--checkpoint", "run", f"data={HERE}/other.txt")
        self.refused(r"books", "analyze", "--checkpoint", "run", "--source", f"books={HERE}/other.txt")
        self.refused(r"--max-tokens", "analyze", "--checkpoint", "run", code=support.CONFIG_ERROR, second=["--max-tokens", "64"])
        shutil.rmtree(self.folder / "b/run")
        self.single("b", "train", self.folder / "tiny.yaml", "optim.learning_rate=0.004")
        self.refused(r"optim\.learning_rate", "eval", "--checkpoint", "run", code=support.CONFIG_ERROR)
        for command in ("eval", "analyze"):
            self.refused(r"--checkpoint", command, "--checkpoint", "run", "optim.learning_rate=0.003")


class Pictures(TwoMachines):
    SETTINGS = {"task": "image_classification", "seed": 3, "threads": 1,
                "model": {"architecture": "vit", "classes": 2, "image_size": 8,
                          "vit": {"patch_size": 4, "layers": 1, "hidden": 16, "heads": 2, "mlp_ratio": 2}},
                "data": {"train": f"{HERE}/pictures"}, "train": {"steps": 2, "batch_size": 2, "accumulate": 2},
                "schedule": {"warmup_steps": 1}, "checkpoint": {"every": 0}}

    def settings(self, **data):
        settings = {**self.SETTINGS, "output": {"dir": str(self.folder / "run")}, "data": {**self.SETTINGS["data"], **data}}
        self.write("tiny.yaml", support.to_yaml(settings) + "\n")

    def setUp(self):
        super().setUp()
        for kind in ("cat", "dog"):
            for number in range(4):
                rows = b"".join(b"\0" + bytes([len(kind) * 20 + number] * 24) for _ in range(8))
                self.write(f"a/pictures/{kind}/{number}.png", support.png(8, 8, rows))
        self.write("a/names.txt", "cat\ndog\n")
        self.copy()

    def test_another_picture_class_or_order_of_classes(self):
        self.settings()
        self.both("train", code=support.DONE)
        shutil.rmtree(self.folder / "run")
        pictures = self.folder / "b/pictures"
        for change in (lambda: (pictures / "cat/3.png").unlink(),
                       lambda: (pictures / "cat/3.png").rename(pictures / "cat/4.png"),
                       lambda: (pictures / "cat").rename(pictures / "bat")):
            self.copy()
            change()
            self.refused(r"(data\.train|classes)", "train")
        self.copy()
        self.settings(class_names=f"[{HERE}/names.txt]")
        self.write("b/names.txt", "dog\ncat\n")
        self.assert_says(self.refused("classes", "train"), "expected cat, dog, as rank 0 has, found dog, cat in")


class Drawings(TwoMachines):
    def test_another_model_number_or_seed(self):
        self.write("a/dit.yaml", f"seed: 3\nthreads: 1\ntask: diffusion\noutput: {{dir: {HERE}/run}}\n{support.TINY_DIT}"
                   "data: {drawn: 16, drawn_validation: 0}\ntrain: {steps: 1, batch_size: 4}\n"
                   "optim: {learning_rate: 0.003}\nsample: {pictures: 0}\n")
        self.single("a", "train", "dit.yaml")
        self.copy()
        sample = ("sample", "--checkpoint", "run", "--out", self.folder / "drawn", "--steps", "2")
        self.both(*sample, code=support.DONE)
        for key, second in ((r"-n", ["-n", "5"]), (r"sample: seed", ["--seed", "5"]), (r"--batch-size", ["--batch-size", "2"]),
                            (r"sample: guidance", ["--cfg", "2"])):
            self.refused(key, *sample, second=second, code=support.CONFIG_ERROR)
        shutil.rmtree(self.folder / "b/run")
        self.single("b", "train", "dit.yaml", "optim.learning_rate=0.004")
        self.refused(r"--checkpoint", *sample, "--set", "optim.learning_rate=0.003")


if __name__ == "__main__":
    support.main()
