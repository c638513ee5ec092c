"""Faults of text, token files and tokenizers: each is said with its file and place, and what to do about it."""

import gzip
import json
import shutil
import struct
import unittest

import serve_support
import support


def added(number, content):
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True}


class TextFaults(support.MohTest):
    def tokenizer(self, folder="tok", name="gpt2", tokens=(), **config):
        (self.folder / folder).mkdir(exist_ok=True)
        contents = json.loads((support.TOKENIZERS / f"{name}.json").read_text())
        contents["added_tokens"] += tokens
        self.write(f"{folder}/tokenizer.json", json.dumps(contents))
        self.write(f"{folder}/tokenizer_config.json", json.dumps(config))
        return folder

    def tokenize(self, name, contents, *options, code=support.DONE, tokenizer="byte"):
        self.write(name, contents)
        return self.moh("data", "tokenize", "--input", name, "--output", "out.safetensors", "--overwrite",
                        "--tokenizer", tokenizer, *options, code=code)

    def refused(self, name, contents, *parts, **options):
        output = self.tokenize(name, contents, code=support.INPUT_ERROR, **options)
        self.assert_says(output, *parts)
        for words in ("json.exception", "parse error", "what():"):
            self.assertNotIn(words, output)

    def ids(self, text, tokenizer):
        self.tokenize("ids.txt", text, tokenizer=tokenizer)
        data = (self.folder / "out.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        kind = json.loads(data[8:8 + size])["tokens"]["dtype"]
        width, letter = {"U8": (1, "B"), "U16": (2, "H"), "U32": (4, "I")}[kind]
        return list(struct.unpack(f"<{(len(data) - 8 - size) // width}{letter}", data[8 + size:]))

    def test_lines_of_json(self):
        good = '{"text": "a"}\n'
        for line, *parts in (
            ('{"text": "a", "score": NaN}', "column 24: NaN at the key score", "write null"),
            ('{"text": "a", "b": [1, -Infinity]}', "column 24: -Infinity at the key b[1]"),
            ('{"text": "a\\ud83db"}', "column 12: a lone surrogate at the key text"),
            ('{"text": "a\tb"}', "column 12: the raw control character U+0009 at the key text", "write \\t"),
            ('{"text": "a" "b": 1}', "column 14: '\"' (expected ',' or '}')"),
            ("{'text': 1}", "column 2: ''' (expected a key in double quotes)"),
        ):
            with self.subTest(line):
                self.refused("a.jsonl", good + line + "\n", "a.jsonl:2: expected a JSON object, found column", *parts)
        self.refused("a.jsonl.gz", gzip.compress((good + '{"text": NaN}\n').encode()), "a.jsonl.gz:2:", "NaN at the key text")

    def test_json_of_configurations(self):
        self.tokenizer()
        for contents, found in (('{"bos_token": NaN}', "column 15: NaN at the key bos_token"),
                                ('{"a": 1,\n "b": tru}', "line 2, column 7: tru at the key b"),
                                ("{", "the end of the text")):
            self.write("tok/tokenizer_config.json", contents)
            self.refused("a.txt", "x", "tok/tokenizer_config.json: expected JSON in UTF-8, found", found, tokenizer="tok")

    def test_text_that_a_tokenizer_cannot_express(self):
        """Names the file and the line, of compressed files, too."""
        nul = '{"text": "a"}\n\n{"text": "a\\u0000b"}\n'
        self.refused("a.jsonl", nul, "a.jsonl:3: byte tokenizer: text: expected no NUL byte")
        self.refused("a.jsonl.gz", gzip.compress(nul.encode()), "a.jsonl.gz:3: byte tokenizer")
        contents = json.loads((support.TOKENIZERS / "splits.json").read_text())
        contents["model"]["unk_token"] = None
        (self.folder / "few").mkdir()
        self.write("few/tokenizer.json", json.dumps(contents))
        bad = "the head\n" * 40000 + "the \u4e2d head\n" + "the head\n" * 9
        self.refused("a.txt", bad, "a.txt:40001: tokenizer: text: expected characters of its vocabulary", tokenizer="few")
        self.refused("b.txt.gz", gzip.compress("one\ntwo \u4e2d".encode()), "b.txt.gz:2: tokenizer", tokenizer="few")

    def test_gzip_with_zeros_and_members(self):
        whole = gzip.compress(b"one ") + gzip.compress(b"two")
        for tail in (b"\0" * 512, b"\0" * 300000, b"\0" * 7 + gzip.compress(b"")):
            self.assertIn("text bytes  7", self.tokenize("a.gz", whole + tail))
        self.refused("a.gz", whole + b"rest", "a.gz: expected nothing but zeros or another member behind a gzip file")

    def test_added_tokens(self):
        n = 700
        x, y = self.ids("x", self.tokenizer())[0], self.ids("y", "tok")[0]
        for tokens, message in (
            ([added(n, "<a>"), added(n + 10, "<b>")], "added_tokens[2].id: expected 701, which the library gives, found 710"),
            ([added(n + 5, "<a>")], "added_tokens[1].id: expected 700, which the library gives, found 705"),
            ([added(n, "the")], ", which the library gives, found 700"),
            ([added(n, "<a>"), added(n, "<b>")], "added_tokens[2].id: expected 701, which the library gives, found 700"),
        ):
            self.tokenizer(tokens=tokens)
            self.refused("a.txt", "x<a>y<b>", "tok/tokenizer.json: ", message, tokenizer="tok")
        for config in ({"added_tokens_decoder": {"700": added(0, "<|im_start|>")}}, {"additional_special_tokens": ["<|im_start|>"]},
                       {"extra_special_tokens": ["<|im_start|>"]}, {"pad_token": "<|im_start|>"}):
            self.assertEqual(self.ids("x<|im_start|>y", self.tokenizer(**config)), [x, n, y])
        self.tokenizer(added_tokens_decoder={"500": {"content": "<|im_start|>", "special": True}})
        self.refused("a.txt", "x", "added_tokens_decoder.500: expected the id 700 for '<|im_start|>'", tokenizer="tok")

    def test_the_first_token_is_that_of_the_configuration(self):
        """lm-evaluation-harness, which asks a server, scores a text after bos_token, else after eos_token."""
        self.write("text.txt", support.text_of_words(300))
        tokens = [added(700, "<|im_start|>"), added(701, "<|im_end|>")]
        self.train({"data.tokenizer": self.tokenizer(tokens=tokens, eos_token="<|im_end|>"), "train.steps": 2, "eval.every": 0})
        self.moh("convert", "--from", "run", "--to", "m", "--format", "hf")

        def first_token(**config):
            self.write("m/tokenizer_config.json", json.dumps(config))
            return serve_support.Server(self, checkpoint="m").get("/tokenizer_info")

        begin, end = "<|im_start|>", "<|im_end|>"
        self.assertEqual(first_token(bos_token=begin, eos_token=end)["bos_token"], begin)
        info = first_token(eos_token=begin)
        self.assertEqual((info["bos_token"], info["eos_token"]), (None, begin))
        # A token that only this file names has no row in the embedding.
        self.assertEqual(first_token(bos_token="<new>", eos_token=end)["bos_token"], None)

    def test_an_output_in_a_folder_that_does_not_exist(self):
        self.write("text.txt", "a b c")
        output = self.moh("data", "tokenize", "--input", "text.txt", "--output", "tok/shake.safetensors", code=support.STORAGE_ERROR)
        self.assert_says(output, "--output: cannot create tok/shake.safetensors: the folder tok does not exist")

    def test_info_of_a_folder(self):
        self.write("corpus/a.txt", "a b c")
        self.write("corpus/b.txt", "d e")
        self.moh("data", "tokenize", "--input", "corpus", "--output", "tok/")
        shutil.copy(self.folder / "corpus/a.txt", self.folder / "tok/more.txt")
        output = self.moh("data", "info", "tok/")
        self.assert_says(output, "corpus_a.txt.tokens: 5 tokens, tokenizer byte", "tok/more.txt: text, which becomes tokens",
                         "token files 2", "tokens      8")

    def test_chats_without_a_template(self):
        chat = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
        self.refused("c.jsonl", chat, "found the keys 'messages'", "set data.message_template (--message-template", "{role}")
        self.write("all/c.jsonl", chat)
        output = self.moh("data", "tokenize", "--input", "all", "--output", "o", code=support.INPUT_ERROR)
        self.assert_says(output, "1 JSON Lines of chats, without a message_template (first: all/c.jsonl)")
        self.tokenize("c.jsonl", chat, "--message-template", "<{role}>{content}\n")

    def test_epochs_of_text(self):
        self.write("text.txt", support.text_of_words(300))
        output = self.train({"train.epochs": 1}, code=support.CONFIG_ERROR)
        self.assert_says(output, "train.epochs: expected 0 with task: language_model, which counts steps, found 1; set train.steps")


if __name__ == "__main__":
    unittest.main()
