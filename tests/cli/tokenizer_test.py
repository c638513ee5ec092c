"""Runs whose text becomes the tokens of a tokenizer.json: training, what a checkpoint carries, refusals."""

import gzip
import json
import math
import re
import shutil

import support


class Tokenizers(support.MohTest):
    def setUp(self):
        super().setUp()
        (self.folder / "tok").mkdir()
        shutil.copy(support.TOKENIZERS / "gpt2.json", self.folder / "tok/tokenizer.json")
        self.write("text.txt", support.text_of_words(3000))

    def run_of(self, *arguments, tokenizer="tok", **options):
        return self.train({"data.tokenizer": tokenizer, **options.pop("settings", {})}, *arguments, **options)

    def eval(self, *arguments, checkpoint="run"):
        output = self.moh("eval", "--checkpoint", checkpoint, "--json", *arguments)
        return json.loads(next(line for line in output.splitlines() if line.startswith("{")))

    def test_a_run_and_its_checkpoint(self):
        self.run_of()
        config = (self.newest() / "config.yaml").read_text()
        self.assert_says(config, "vocab_size: 700", f"tokenizer: {self.folder / 'tok'}")
        self.assertEqual((self.newest() / "tokenizer.json").read_bytes(), (support.TOKENIZERS / "gpt2.json").read_bytes())
        listed = json.loads((self.newest() / "manifest.json").read_text())["files"]
        self.assertEqual([entry["name"] for entry in listed].count("tokenizer.json"), 1)
        # A step folder is all that the commands need.
        shutil.move(self.newest(), self.folder / "step_00000008")
        shutil.rmtree(self.folder / "run")
        shutil.rmtree(self.folder / "tok")
        found = self.eval("data=text.txt", checkpoint="step_00000008")
        self.assertAlmostEqual(found["perplexity"], math.exp(found["loss"]), delta=1e-3 * found["perplexity"])
        self.assertLess(found["bits_per_byte"], found["loss"] / math.log(2))  # a token is more than a byte
        text = self.moh("generate", "--checkpoint", "step_00000008", "--prompt", "the head", "--tokens", 5)
        self.assertTrue(text.startswith("the head"), text)
        self.assert_says(self.moh("analyze", "--checkpoint", "step_00000008", "data=text.txt"), "\n' of' ")

    def test_a_damaged_copy(self):
        self.run_of()
        path = self.newest() / "tokenizer.json"
        path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))
        self.assert_says(self.moh("eval", "--checkpoint", "run", code=support.INPUT_ERROR),
                         "tokenizer.json: expected checksum", "the checkpoint is damaged")

    def test_a_resumed_run_finds_its_tokenizer_where_it_is(self):
        self.run_of(settings={"output.dir": "whole"})
        self.run_of("train.steps=4", "schedule.decay_steps=8")
        (self.folder / "tok").rename(self.folder / "elsewhere")
        output = self.run_of("--resume", "schedule.decay_steps=8", tokenizer="elsewhere/tokenizer.json")
        self.assert_says(output, "resume: data.tokenizer: ", "resume: from step 4")
        self.assert_same_state("whole", "run")

    def test_another_tokenizer_is_refused(self):
        self.run_of("train.steps=4")
        other = json.loads((support.TOKENIZERS / "gpt2.json").read_text())
        merges = other["model"]["merges"]
        merges[0], merges[1] = merges[1], merges[0]
        self.write("tok/tokenizer.json", json.dumps(other))
        output = self.run_of("--resume", "train.steps=4", code=support.INPUT_ERROR)
        self.assert_says(output, "resume: the data are not those that the checkpoint was trained on",
                         "data.tokenizer: tokenizer.json, 700 tokens, hash ")
        output = self.moh("generate", "--checkpoint", "run", "--prompt", "a", "data.tokenizer=tok", code=support.CONFIG_ERROR)
        self.assert_says(output, "data.tokenizer: tok: expected the tokenizer that the model was trained with, hash ")
        output = self.moh("generate", "--checkpoint", "run", "--prompt", "a", "data.tokenizer=byte", code=support.CONFIG_ERROR)
        self.assert_says(output, "data.tokenizer: byte: expected the tokenizer that the model was trained with, hash ")

    def test_a_vocabulary_that_is_too_small(self):
        output = self.run_of("model.vocab_size=699", code=support.CONFIG_ERROR)
        self.assert_says(output, "model.vocab_size: expected at least the 700 tokens of data.tokenizer tok, found 699")
        self.run_of("model.vocab_size=704")  # padded

    def test_what_is_no_tokenizer(self):
        output = self.run_of(tokenizer="bpe", code=support.CONFIG_ERROR)
        self.assert_says(output, "data.tokenizer: bpe: expected byte, ", "found no such file or folder")
        self.write("tok/tokenizer.json", '{"model": {"type": "WordPiece"}}')
        output = self.run_of(code=support.INPUT_ERROR)
        self.assert_says(output, "tok/tokenizer.json: ")

    def test_token_files(self):
        for tokenizer in ("tok", "tok/tokenizer.json"):
            self.moh("data", "tokenize", "--input", "text.txt", "--output", "t.safetensors", "--tokenizer", tokenizer,
                     "--overwrite")
        info = self.moh("data", "info", "t.safetensors", "--verify")
        self.assert_says(info, "tokenizer   tokenizer.json (", "vocabulary  700", "documents   1", "(2 bytes each)")
        self.run_of()
        self.run_of(settings={"data.train": "t.safetensors", "output.dir": "from_tokens"})
        self.assertEqual((self.newest("run") / "model.safetensors").read_bytes(), (self.newest("from_tokens") / "model.safetensors").read_bytes())
        output = self.train({"data.train": "t.safetensors", "output.dir": "bytes"}, code=support.INPUT_ERROR)
        self.assert_says(output, "t.safetensors: tokenizer: expected 'byte' (", "found 'tokenizer.json' (")

    def test_a_new_run_takes_the_tokenizer_of_what_it_starts_from(self):
        self.run_of(settings=support.DENSE)
        self.moh("convert", "--from", "run", "--to", "hf", "--format", "hf")
        names = {path.name for path in (self.folder / "hf").iterdir()}
        self.assertLessEqual({"tokenizer.json", "tokenizer_config.json", "generation_config.json"}, names)
        config = json.loads((self.folder / "hf/tokenizer_config.json").read_text())
        self.assertEqual((config["tokenizer_class"], config["eos_token"]), ("PreTrainedTokenizerFast", "<|endoftext|>"))
        end = json.loads((self.folder / "hf/generation_config.json").read_text())["eos_token_id"]
        self.assertEqual(end, json.loads((support.TOKENIZERS / "gpt2.json").read_text())["model"]["vocab"]["<|endoftext|>"])
        self.moh("convert", "--from", "hf", "--to", "copy", "--format", "moh")
        expected = self.eval("data=text.txt")["loss"]
        shutil.rmtree(self.folder / "tok")
        for source in ("hf", "copy"):
            self.assertAlmostEqual(self.eval("data=text.txt", "data.sequence_length=32", checkpoint=source)["loss"], expected, delta=1e-6)
            job = f"init:\n  from: {source}\nmodel:\n  moh: {{router: query_norm, num_shared: 1, top_k: 2}}\n"
            self.write("next.yaml", job + "data: {train: text.txt, sequence_length: 32}\ntrain: {steps: 2, batch_size: 2}\n"
                       f"schedule: {{warmup_steps: 1}}\noutput: {{dir: next_{source}}}\nsample: {{tokens: 0}}\nthreads: 1\n")
            self.moh("train", "next.yaml")
            self.assert_says((self.newest(f"next_{source}") / "config.yaml").read_text(), "vocab_size: 700")
            self.eval(checkpoint=f"next_{source}")
            output = self.moh("train", "next.yaml", "data.tokenizer=byte", "output.dir=no", code=support.CONFIG_ERROR)
            self.assertRegex(" ".join(output.split()), r"data.tokenizer: expected \S+tokenizer.json \(tokenizer.json, 700 tokens, hash "
                             r"[0-9a-f]{16}\) as in the checkpoint of init.from, found byte; init.new_tokenizer: true")
        self.assertEqual(*(re.sub(r"/\S+", "", (self.newest(f"next_{s}") / "config.yaml").read_text().replace(s, ""))
                           for s in ("hf", "copy")))

    def test_models_of_sentencepiece_and_ranks_of_tiktoken(self):
        (self.folder / "spm").mkdir()
        shutil.copy(support.TOKENIZERS / "llama2.model", self.folder / "spm/tokenizer.model")
        (self.folder / "ranks").mkdir()
        shutil.copy(support.TOKENIZERS / "ranks.tiktoken", self.folder / "ranks/any.model")
        self.write("ranks/tiktoken.json", '{"pattern": "llama3", "special_tokens": {"<|endoftext|>": 704}}')
        for tokenizer, carried, size in (("spm", {"tokenizer.model"}, 1200),
                                         ("ranks/any.model", {"tokenizer.tiktoken", "tiktoken.json"}, 705)):
            name = sorted(carried)[-1]
            self.run_of(tokenizer=tokenizer, settings={**support.DENSE, "output.dir": name})
            folder = self.newest(name)
            self.assert_says((folder / "config.yaml").read_text(), f"vocab_size: {size}")
            self.assertLessEqual(carried, {path.name for path in folder.iterdir()})
            # A step folder is all that the commands need.
            shutil.move(folder, self.folder / f"step_{name}")
            shutil.rmtree(self.folder / name)
            expected = self.eval("data=text.txt", checkpoint=f"step_{name}")["loss"]
            text = self.moh("generate", "--checkpoint", f"step_{name}", "--prompt", "the head", "--tokens", 5)
            self.assertTrue(text.startswith("the head"), text)
            self.moh("convert", "--from", f"step_{name}", "--to", f"hf_{name}", "--format", "hf")
            self.assertLessEqual(carried, {path.name for path in (self.folder / f"hf_{name}").iterdir()})
            found = self.eval("data=text.txt", "data.sequence_length=32", checkpoint=f"hf_{name}")["loss"]
            self.assertAlmostEqual(found, expected, delta=1e-6)
        self.write("ranks/tiktoken.json", "{}")
        output = self.run_of(tokenizer="ranks/any.model", code=support.INPUT_ERROR)
        self.assert_says(output, "tiktoken.json: pattern: expected gpt2, cl100k, o200k, llama3, qwen, or a regular expression")

    def test_json_lines_and_a_folder_of_token_files(self):
        texts = [support.text_of_words(300, seed=i) for i in range(6)]
        lines = [json.dumps({"text": text}) + "\n" for text in texts]
        self.write("web/a.jsonl", "".join(lines[:3]))
        self.write("web/b.jsonl.gz", gzip.compress("".join(lines[3:]).encode()))
        command = ("data", "tokenize", "--input", "web", "--tokenizer", "tok", "--output", "tokens/")
        self.assert_says(self.moh(*command), "files       2 (0 already up to date)")
        self.assert_says(self.moh("data", "info", "tokens/web_b.jsonl.gz.tokens", "--verify"), "documents   3")
        self.assert_says(self.moh(*command, code=support.CONFIG_ERROR), "expected an empty folder, found one with files; "
                         "continue with --resume")
        # What a process that was killed has finished is kept.
        (self.folder / "tokens/web_a.jsonl.tokens").unlink()
        kept = (self.folder / "tokens/web_b.jsonl.gz.tokens").stat().st_mtime_ns
        self.assert_says(self.moh(*command, "--resume"), "files       2 (1 already up to date)")
        self.assertEqual((self.folder / "tokens/web_b.jsonl.gz.tokens").stat().st_mtime_ns, kept)
        self.write("web/a.jsonl", "".join(lines[:2]))
        self.assert_says(self.moh(*command, "--resume"), "files       2 (1 already up to date)")
        self.assert_says(self.moh("data", "info", "tokens/web_a.jsonl.tokens"), "documents   2")
        # Training from either is the same.
        self.run_of(settings={"data.train": "web"})
        self.run_of(settings={"data.train": "tokens", "output.dir": "from_tokens"})
        self.assertEqual(*((self.newest(run) / "model.safetensors").read_bytes() for run in ("run", "from_tokens")))
        self.moh("data", "tokenize", "--input", "web", "--tokenizer", "tok", "--output", "one.tokens")
        self.assert_says(self.moh("data", "info", "one.tokens"), "documents   5")

    def test_several_prompts(self):
        self.run_of()
        output = self.moh("generate", "--checkpoint", "run", "--prompt", "the head", "--prompt", "a loss", "--tokens", 3,
                          "--num-samples", 2, "--seed", 5)
        heads = re.findall(r"^--- (.*) ---$", output, re.M)
        self.assertEqual(heads, [f"prompt {p}, sample {s}, --seed {4 + s}" for p in (1, 2) for s in (1, 2)])
        single = self.moh("generate", "--checkpoint", "run", "--prompt", "a loss", "--tokens", 3, "--seed", 6)
        self.assertEqual(output.split("--seed 6 ---\n")[2].splitlines()[0], single.splitlines()[0])


if __name__ == "__main__":
    support.main()
