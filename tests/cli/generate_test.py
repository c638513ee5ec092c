"""moh generate: a function of the checkpoint, the prompt and the options."""

import json
import subprocess

import support


class Generate(support.MohTest):
    def setUp(self):
        super().setUp()
        # Some structure, so that the model is not equally unsure of all characters.
        self.train({"train.steps": 30, "optim.learning_rate": 0.01, "eval.every": 0, "checkpoint.every": 0})

    def generate(self, *options, checkpoint="run", prompt="the head", threads=1, code=support.DONE):
        output = self.moh("generate", "--checkpoint", checkpoint, "--prompt", prompt, "--threads", threads, *options,
                          code=code)
        return output.rsplit("\n", 2)[0] if code == support.DONE else output  # without the line about the speed

    def test_the_seed_decides(self):
        first = self.generate("--tokens", 20, "--seed", 7)
        self.assertTrue(first.startswith("the head"), first)
        self.assertEqual(self.generate("--tokens", 20, "--seed", 7), first)
        others = {self.generate("--tokens", 20, "--seed", seed) for seed in range(8, 12)}
        self.assertEqual(len(others | {first}), 5)

    def test_threads_do_not_decide(self):
        texts = {self.generate("--tokens", 20, "--seed", 7, threads=threads) for threads in (1, 2, 3)}
        self.assertEqual(len(texts), 1)

    def test_a_longer_text_begins_like_the_shorter(self):
        longer = self.generate("--tokens", 20, "--temperature", 0)
        self.assertTrue(longer.startswith(self.generate("--tokens", 5, "--temperature", 0).rstrip("\ufffd")))

    def test_temperature_0_takes_the_likeliest(self):
        likeliest = self.generate("--tokens", 20, "--temperature", 0)
        self.assertEqual(self.generate("--tokens", 20, "--temperature", 0, "--seed", 9), likeliest)
        self.assertEqual(self.generate("--tokens", 20, "--top-k", 1, "--seed", 9), likeliest)
        self.assertEqual(self.generate("--tokens", 20, "--top-p", 1e-9, "--seed", 9), likeliest)
        # As the temperature falls, so does what chance can do.
        self.assertEqual(self.generate("--tokens", 20, "--temperature", 1e-6, "--seed", 9), likeliest)

    def test_all_tokens_and_no_limit_are_the_same(self):
        text = self.generate("--tokens", 20, "--seed", 3)
        self.assertEqual(self.generate("--tokens", 20, "--seed", 3, "--top-k", 256), text)
        self.assertEqual(self.generate("--tokens", 20, "--seed", 3, "--top-p", 1), text)

    def test_texts_longer_than_the_model_s_positions(self):
        text = self.generate("--tokens", 100, "--temperature", 0)  # of 32 positions
        self.assertTrue(text.startswith("the head"))
        self.assertEqual(self.generate("--tokens", 100, "--temperature", 0), text)

    def test_the_sample_of_a_run_is_what_generate_writes(self):
        self.train({"sample.tokens": 20, "sample.prompt": "the", "sample.temperature": 0.9, "sample.top_k": 50,
                    "sample.top_p": 0.95, "output.dir": "sampled"})
        text = self.moh("generate", "--checkpoint", "sampled", "--prompt", "the", "--tokens", 20, "--temperature", 0.9,
                        "--top-k", 50, "--top-p", 0.95, "--seed", support.TINY["seed"], "--threads", 1)
        sample = (self.folder / "sampled" / "sample.txt").read_bytes().decode(errors="replace")
        self.assertEqual(text.rsplit("\n", 2)[0] + "\n", sample)

    def test_one_step_s_folder_will_do(self):
        text = self.generate("--tokens", 5, "--seed", 1)
        for place in (self.newest(), self.newest().parent, f"{self.newest()}/"):
            self.assertEqual(self.generate("--tokens", 5, "--seed", 1, checkpoint=place), text)

    def test_no_new_tokens(self):
        self.assertEqual(self.generate("--tokens", 0), "the head")

    def test_the_prompt_of_a_run_s_sample_is_looked_at_before_the_training(self):
        for prompt, found in (("", 0), ("x" * 33, 33)):
            output = self.train({"sample.tokens": 4, "sample.prompt": json.dumps(prompt), "output.dir": "bad"},
                                code=support.CONFIG_ERROR)
            self.assert_says(output, f"sample.prompt: expected 1 to 32 tokens, found {found}")
            self.assertFalse((self.folder / "bad").exists())
        output = self.train({"sample.tokens": 4, "sample.prompt": '"a\\0b"', "output.dir": "bad"}, code=support.CONFIG_ERROR)
        self.assert_says(output, "sample.prompt: byte tokenizer: text: expected no NUL byte")
        self.train({"sample.tokens": 0, "sample.prompt": '""', "output.dir": "none"})

    def test_prompts_that_do_not_fit(self):
        for prompt, found in (("", 0), ("x" * 33, 33)):
            output = self.generate(prompt=prompt, code=support.CONFIG_ERROR)
            self.assert_says(output, f"generate: prompt: expected 1 to 32 tokens, found {found}")
            self.assertFalse(output.startswith("x"), "the prompt was printed before it was refused")
        self.generate("--tokens", 2, prompt="x" * 32)

    def test_a_prompt_from_a_file_or_standard_input(self):
        text = self.generate("--tokens", 5)
        arguments = [support.MOH, "generate", "--checkpoint", "run", "--tokens", "5", "--threads", "1", "--prompt-file"]
        self.write("prompt.txt", "the head")
        for source, piped in (("prompt.txt", None), ("-", b"the head")):
            result = subprocess.run([*arguments, source], cwd=self.folder, input=piped, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, env=support.environment(), timeout=support.TIMEOUT_SECONDS, check=True)
            self.assertEqual(result.stdout.decode(), text + "\n")
        command = ("generate", "--checkpoint", "run")
        self.assert_says(self.moh(*command, code=support.CONFIG_ERROR), "expected --prompt or --prompt-file, found neither")
        self.assert_says(self.moh(*command, "--prompt", "a", "--prompt-file", "b", code=support.CONFIG_ERROR),
                         "--prompt-file", "--prompt")
        self.assert_says(self.moh(*command, "--prompt-file", "none", code=support.INPUT_ERROR), "none: expected a readable")
        self.write("escape.txt", "a\x1b[31m")  # what comes from a file does not steer the terminal
        self.assertNotIn("\x1b", self.moh(*command, "--prompt-file", "escape.txt", "--tokens", 1))

    def test_stop_ends_before_the_first_of_the_texts(self):
        new = self.generate("--tokens", 20, "--temperature", 0).removeprefix("the head")
        for stop in (new[0], new[4:7], new[-3:]):
            with self.subTest(stop=stop):
                output = self.moh("generate", "--checkpoint", "run", "--prompt", "the head", "--temperature", 0, "--tokens",
                                  20, "--stop", stop, "--stop", "not there", "--threads", 1)
                self.assertTrue(output.startswith("the head" + new[:new.index(stop)] + "\n"), output)
                self.assert_says(output, "; ended at a text of --stop")
        # What only begins like a stop text is handed out, at the latest at the end.
        self.assertEqual(self.generate("--tokens", 20, "--temperature", 0, "--stop", new[-2:] + "?"), "the head" + new)
        self.assert_says(self.generate("--stop", "", code=support.CONFIG_ERROR), "stop: expected a text")

    def test_several_samples_are_those_of_the_seeds(self):
        output = self.moh("generate", "--checkpoint", "run", "--prompt", "the head", "--tokens", 8, "--seed", 5,
                          "--num-samples", 3, "--threads", 1)
        for number, seed in enumerate((5, 6, 7), start=1):
            text = self.generate("--tokens", 8, "--seed", seed)
            self.assert_says(output, f"--- sample {number}, --seed {seed} ---\n{text}\n")
        self.assert_says(self.generate("--num-samples", 0, code=support.CONFIG_ERROR), "--num-samples: expected 1 or more")

    def test_the_end_of_a_document_is_said(self):
        for number in range(100):
            self.write(f"lines/{number}.txt", "abcdefgh")
        output = self.train({"data.train": "lines", "data.validation_fraction": 0, "train.steps": 60, "train.batch_size": 8,
                             "optim.learning_rate": 0.02, "eval.every": 0, "checkpoint.every": 0, "sample.tokens": 20,
                             "sample.prompt": "abcde", "sample.temperature": 0, "output.dir": "lines_run"})
        self.assert_says(output, "--- sample ---\nabcdefgh\n--- ended by the model ---")
        output = self.moh("generate", "--checkpoint", "lines_run", "--prompt", "abcdef", "--temperature", 0)
        self.assert_says(output, "abcdefgh\n", "3 tokens", "; the model ended the document")

    def test_each_token_that_ends_a_text_does(self):
        self.moh("convert", "--from", "run", "--to", "hf", "--format", "hf")
        new = self.generate("--tokens", 20, "--temperature", 0).removeprefix("the head")
        before, first, later = list(dict.fromkeys(new))[:3]  # tokens are bytes
        config = json.loads((self.folder / "hf/config.json").read_text())
        for ends in ([ord(first), ord(later)], [ord(later), ord(first)], ord(first)):
            for file in ("config.json", "generation_config.json"):
                with self.subTest(ends=ends, file=file):
                    (self.folder / "hf/generation_config.json").unlink(missing_ok=True)
                    self.write("hf/config.json", json.dumps({**config, "eos_token_id": ends}))
                    if file == "generation_config.json":  # it goes before the other
                        self.write("hf/config.json", json.dumps({**config, "eos_token_id": ord(before)}))
                        self.write("hf/generation_config.json", json.dumps({"eos_token_id": ends}))
                    output = self.moh("generate", "--checkpoint", "hf", "--prompt", "the head", "--temperature", 0, "--tokens",
                                      20, "--threads", 1)
                    self.assertTrue(output.startswith("the head" + new[:new.index(first)] + "\n"), output)
                    self.assert_says(output, "; the model ended the document")

    def test_options_out_of_range(self):
        for option, value, expected in (("temperature", -1, "temperature: expected 0 or more"),
                                        ("top-k", -1, "top_k: expected 0 (all) or more"),
                                        ("top-p", 0, "top_p: expected above 0, up to 1"),
                                        ("top-p", 1.5, "top_p: expected above 0, up to 1"),
                                        ("tokens", -1, "tokens: expected 0 or more, found -1")):
            self.assert_says(self.generate(f"--{option}={value}", code=support.CONFIG_ERROR), expected)
        self.assert_says(self.generate("--tokens", "many", code=support.CONFIG_ERROR), "--tokens", "many")
        self.assert_says(self.generate("--beams", 4, code=support.CONFIG_ERROR), "--beams")


if __name__ == "__main__":
    support.main()
