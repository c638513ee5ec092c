"""Files of other programs, and what lies in their place: named, or read as the program that wrote them reads them."""

import gzip
import json
import struct

import support

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef\nsize 12345\n"
PAGE = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n"
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 256, "hidden_size": 16,
         "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
         "max_position_embeddings": 64, "rms_norm_eps": 1e-5}


class ForeignFiles(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("text.txt", support.text_of_words(600))

    def folder_of(self, name, **files):
        (self.folder / name).mkdir(exist_ok=True)
        for file, contents in files.items():
            path = self.folder / name / file.replace("__", ".")
            path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        return name

    def refused(self, *arguments):
        """The message of a refusal, which is no crash."""
        result = self.command(*arguments)
        self.assertIn(result.returncode, (support.CONFIG_ERROR, support.INPUT_ERROR), result.output)
        return result.output

    def test_what_lies_in_place_of_a_file(self):
        config = json.dumps(LLAMA)
        for found, contents in (("a pointer of Git LFS", LFS.encode()), ("a web page", PAGE.encode()),
                                ("compressed by gzip", gzip.compress(b"weights"))):
            with self.subTest(found):
                model = self.folder_of("model", config__json=config, model__safetensors=contents)
                self.assert_says(self.refused("eval", "--checkpoint", model, "data=text.txt"), found)
                self.write("model/config.json", "")
                (self.folder / "model/config.json").write_bytes(contents)
                self.assert_says(self.refused("eval", "--checkpoint", model, "data=text.txt"), found)
                tokenizer = self.folder_of("tokenizer", tokenizer__json=contents)
                self.assert_says(self.refused("data", "tokenize", "--input", "text.txt", "--output", "o.safetensors",
                                              "--tokenizer", tokenizer), found)
                (self.folder / "tokenizer.model").write_bytes(contents)
                self.assert_says(self.refused("data", "tokenize", "--input", "text.txt", "--output", "o.safetensors",
                                              "--tokenizer", "tokenizer.model"), found)
                for name in ("a.pth", "b.pth"):
                    (self.folder / name).write_bytes(contents)
                    self.assert_says(self.refused("checkpoint", "info", name), found)
        self.write("pointer.txt", LFS)
        self.assert_says(self.refused("data", "tokenize", "--input", "pointer.txt", "--output", "o.safetensors"),
                         "a pointer of Git LFS", "git lfs pull")
        # A page may be text.
        self.write("page.txt", PAGE)
        self.moh("data", "tokenize", "--input", "page.txt", "--output", "o.safetensors")

    def test_names_on_the_hub(self):
        for name in ("meta-llama/Meta-Llama-3-8B", "timm/vit_base_patch16_224.augreg_in21k", "hf-hub:timm/deit",
                     "https://huggingface.co/Qwen/Qwen3-0.6B/tree/main"):
            with self.subTest(name):
                self.assert_says(self.refused("checkpoint", "info", name), "moh does not download", "hf download")
        self.assert_says(self.refused("data", "tokenize", "--input", "text.txt", "--output", "o.safetensors",
                                      "--tokenizer", "gpt2/tok"), "hf download gpt2/tok")
        (self.folder / "models").mkdir()
        self.assertNotIn("download", self.refused("checkpoint", "info", "models/none"))

    def test_folders_of_the_hub_cache(self):
        snapshot = self.folder / "models--a--b/snapshots/0123"
        snapshot.mkdir(parents=True)
        for arguments in (("checkpoint", "info", "models--a--b"),
                          ("data", "tokenize", "--input", "text.txt", "--output", "o.safetensors", "--tokenizer", "models--a--b")):
            self.assert_says(self.refused(*arguments), "models--a--b/snapshots/0123")

    def test_token_files_have_any_name(self):
        self.write("small.yaml", "data: {train: l.bin, sequence_length: 16, validation_fraction: 0.1}\n"
                   "model: {layers: 1, hidden: 16, intermediate: 16, heads: 2, max_positions: 16}\n"
                   "train: {steps: 1, batch_size: 2}\nschedule: {warmup_steps: 0}\n")
        self.moh("data", "tokenize", "--input", "text.txt", "--output", "l.bin")
        self.moh("train", "small.yaml", "output.dir=own")
        # Ids without a header may begin as a safetensors file: the ninth byte is `{`, the ones before are a small number.
        (self.folder / "l.bin").write_bytes(struct.pack("<303I", 200, 9, 123, *range(300)))
        self.assert_says(self.refused("train", "small.yaml", "output.dir=of_ids"), "l.bin: expected text", "scripts/import_tokens.py")

    def test_keys_of_a_run_that_follow_from_others_are_not_named(self):
        self.write("a.yaml", "data: {train: text.txt, sequence_length: 16}\n"
                   "model: {layers: 1, hidden: 16, intermediate: 16, heads: 4, max_positions: 16}\n"
                   "train: {steps: 1, batch_size: 2}\nschedule: {warmup_steps: 0}\n")
        self.moh("train", "a.yaml", "output.dir=run")
        self.write("b.yaml", "data: {train: text.txt, sequence_length: 16}\nmodel: {heads: 2}\ninit: {from: run}\n")
        output = self.refused("train", "b.yaml", "output.dir=b")
        self.assert_says(output, "b.yaml:2:16: model.heads: expected 4 as in the checkpoint of init.from, found 2")
        for key in ("model.kv_heads", "model.head_dim"):
            self.assertNotIn(key, output)


if __name__ == "__main__":
    support.main()
