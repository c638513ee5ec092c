"""The prompts of chats that moh serve makes from a folder of transformers have the ids that transformers gives them."""

import json
import sys
import unittest

from with_transformers import FOLDER, SOURCE, main  # first: it may begin again under another Python

import torch
import transformers
from tokenizers import Tokenizer

sys.path.append(str(SOURCE / "tests/cli"))
import serve_support  # noqa: E402
import support  # noqa: E402

TESTS = SOURCE / "tests/train"
# Tokenizer: what ends and what begins a text, what it may have besides, the templates.
KINDS = {
    "llama3": ("<|end_of_text|>", "<|begin_of_text|>", ["<|start_header_id|>", "<|end_header_id|>"], ("llama3", "llama3.2", "mistral_v0.3")),
    "qwen2": ("<|im_end|>", None, ["<|im_start|>", "<|im_end|>"], ("qwen2", "qwen3", "qwen2.5")),
    "llama2": ("</s>", "<s>", [], ("llama2", "zephyr")),
}


def make(folder, kind):
    """A small model of transformers with a tokenizer, as save_pretrained writes them."""
    end, begin, further, _ = KINDS[kind]
    tokens = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_file(str(TESTS / f"tokenizers/data/{kind}.json")), additional_special_tokens=further, bos_token=begin)
    tokens.eos_token = end
    torch.manual_seed(1)
    config = transformers.LlamaConfig(vocab_size=len(tokens), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                                      max_position_embeddings=2048, eos_token_id=tokens.eos_token_id, bos_token_id=tokens.bos_token_id)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return tokens


class ChatTest(support.MohTest):
    def check(self, kind):
        """The tokens of all conversations in all templates."""
        folder = self.folder / kind
        tokens = make(folder, kind)
        conversations = json.loads((TESTS / "base/jinja/conversations.json").read_text())
        compared = 0
        for template in KINDS[kind][3]:
            tokens.chat_template = (TESTS / f"base/jinja/templates/{template}.jinja").read_text()
            tokens.save_pretrained(folder)
            server = serve_support.Server(self, checkpoint=kind)
            read_back = transformers.AutoTokenizer.from_pretrained(folder)
            for name, messages in conversations.items():
                if name in ("a text with marks", "a part of a list"):  # moh departs from it there
                    continue
                try:
                    text = read_back.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
                except Exception:  # the template refuses the chat
                    server.post("/tokenize", {"messages": messages}, status=400)
                    continue
                expected = read_back(text, add_special_tokens=False)["input_ids"]
                self.assertEqual(server.post("/tokenize", {"messages": messages})["tokens"], expected, (template, name))
                compared += 1
            marks = [{"role": "user", "content": f"{KINDS[kind][0]} {KINDS[kind][1]}"}]
            ids = server.post("/tokenize", {"messages": marks})["tokens"]
            plain = server.post("/tokenize", {"messages": [{"role": "user", "content": "x"}]})["tokens"]
            special = set(read_back.all_special_ids)
            self.assertEqual([i for i in ids if i in special], [i for i in plain if i in special], template)
            self.assertEqual(server.post("/v1/chat/completions", {"messages": marks, "max_tokens": 3})["object"], "chat.completion")
            server.close()
        self.assertGreater(compared, 8)

    def test_llama3(self):
        self.check("llama3")

    def test_qwen2(self):
        self.check("qwen2")

    def test_llama2(self):
        self.check("llama2")


def tearDownModule():
    FOLDER.cleanup()


if __name__ == "__main__":
    main()
