"""From a model of transformers with its tokenizer to a Mixture-of-Head model, and back to transformers: the same text, the same losses."""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import unittest

from with_transformers import FOLDER, SOURCE, main  # first: it may begin again under another Python

import torch
import transformers
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

MOH = os.environ.get("MOH_BINARY", "moh")

TOKENIZERS = SOURCE / "tests/train/tokenizers/data"
# name: what ends and what begins a text.
KINDS = {"gpt2": ("<|endoftext|>", None), "llama3": ("<|end_of_text|>", "<|begin_of_text|>"), "llama2": ("</s>", "<s>")}
# Two lines, of the data besides.
JOB = """init: {{from: {source}}}
model: {{moh: {{router: query_norm, num_shared: 25%, top_k: 50%}}}}
data: {{train: text.txt, sequence_length: 64}}
train: {{steps: 4, batch_size: 2}}
schedule: {{warmup_steps: 1}}
sample: {{tokens: 0}}
threads: 1
output: {{dir: {run}}}
"""


def moh(*arguments, code=0):
    done = subprocess.run([MOH, *map(str, arguments)], cwd=FOLDER.name, capture_output=True, text=True, timeout=120)
    if done.returncode != code:
        raise AssertionError(f"moh {arguments}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout if code == 0 else done.stdout + done.stderr


def evaluated(folder, text, *settings):
    return json.loads(moh("eval", "--checkpoint", folder, f"data={text}", "--json", *settings))


def make(kind):
    """A small model of transformers with a tokenizer, as save_pretrained writes them."""
    end, begin = KINDS[kind]
    tokens = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_file(str(TOKENIZERS / f"{kind}.json")),
                                                  eos_token=end, bos_token=begin)
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=len(tokens) + 3, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=64, eos_token_id=tokens.eos_token_id, bos_token_id=tokens.bos_token_id)
    folder = pathlib.Path(FOLDER.name) / kind
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokens.save_pretrained(folder)
    return folder


def setUpModule():
    for kind in KINDS:
        make(kind)
    text = (SOURCE / "README.md").read_text(encoding="utf-8")
    (pathlib.Path(FOLDER.name) / "text.txt").write_text(text + "Zürich 東京 🙂 naïve\n")
    (pathlib.Path(FOLDER.name) / "short.txt").write_text("Heads are routed: Zürich 東京 🙂, 12345 of them.\n")


def tearDownModule():
    FOLDER.cleanup()


def mean_loss(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), labels=torch.tensor([ids])).loss.item()


class TokenizerTest(unittest.TestCase):
    def test_a_folder_is_evaluated_as_transformers_does(self):
        text = (pathlib.Path(FOLDER.name) / "short.txt").read_text()
        for kind in KINDS:
            with self.subTest(kind):
                folder = pathlib.Path(FOLDER.name) / kind
                ids = AutoTokenizer.from_pretrained(folder)(text)["input_ids"]
                model = AutoModelForCausalLM.from_pretrained(folder).eval()
                found = evaluated(kind, "short.txt")
                self.assertAlmostEqual(found["loss"], mean_loss(model, ids[:64]), delta=2e-5)
                per_byte = found["loss"] * (len(ids) - 1) / math.log(2) / found["bits_per_byte"]
                self.assertAlmostEqual(per_byte, len(text.encode()), delta=8)  # but for the first token, and a space

    def test_two_lines_of_yaml_and_back(self):
        text = (pathlib.Path(FOLDER.name) / "short.txt").read_text()
        for kind, (end, begin) in KINDS.items():
            with self.subTest(kind):
                (pathlib.Path(FOLDER.name) / "job.yaml").write_text(JOB.format(source=kind, run=f"run_{kind}"))
                moh("train", "job.yaml")
                moh("convert", "--from", f"run_{kind}", "--to", f"out_{kind}", "--format", "hf")
                folder = pathlib.Path(FOLDER.name) / f"out_{kind}"
                before, after = (AutoTokenizer.from_pretrained(f) for f in (pathlib.Path(FOLDER.name) / kind, folder))
                self.assertEqual((after.eos_token, after.bos_token), (end, begin))
                ids = after(text)["input_ids"]
                self.assertEqual(ids, before(text)["input_ids"])
                model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
                self.assertEqual(model.generation_config.eos_token_id, after.eos_token_id)
                expected = mean_loss(model, ids[:64])
                for checkpoint in (f"run_{kind}", f"out_{kind}"):
                    self.assertAlmostEqual(evaluated(checkpoint, "short.txt")["loss"], expected, delta=2e-5)

    def test_generated_text_is_that_of_transformers(self):
        for kind in KINDS:
            with self.subTest(kind):
                folder = pathlib.Path(FOLDER.name) / kind
                tokens, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
                ids = tokens("Heads are", return_tensors="pt").input_ids
                # Padded rows of the embedding have no token, and moh draws none of them.
                made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False,
                                      suppress_tokens=list(range(len(tokens), len(tokens) + 3)))[0]
                # moh prints no control characters.
                expected = re.sub(r"[\0-\x08\x0b-\x1f\x7f-\x9f]", "\ufffd", tokens.decode(made, skip_special_tokens=True))
                found = moh("generate", "--checkpoint", kind, "--prompt", "Heads are", "--tokens", 12, "--temperature", 0)
                self.assertEqual(found.rstrip("\n"), expected.rstrip("\n"))

    def test_a_tokenizer_that_does_not_fit_is_refused(self):
        (pathlib.Path(FOLDER.name) / "job.yaml").write_text(JOB.format(source="gpt2", run="refused"))
        said = moh("train", "job.yaml", "data.tokenizer=llama2", code=2)
        self.assertRegex(" ".join(said.split()), "data.tokenizer: expected .*gpt2/tokenizer.json .* as in the checkpoint of "
                                                 "init.from, found llama2 .*init.new_tokenizer")
        config = json.loads((pathlib.Path(FOLDER.name) / "gpt2/config.json").read_text())
        for source, name in (("gpt2", "model.safetensors"), ("gpt2", "tokenizer.json")):
            target = pathlib.Path(FOLDER.name) / "small" / name
            target.parent.mkdir(exist_ok=True)
            target.write_bytes((pathlib.Path(FOLDER.name) / source / name).read_bytes())
        (pathlib.Path(FOLDER.name) / "small/config.json").write_text(json.dumps(config))
        larger = json.loads((pathlib.Path(FOLDER.name) / "small/tokenizer.json").read_text())
        rows = config["vocab_size"]  # some of them have no token
        for token in range(len(larger["model"]["vocab"]), rows + 1):
            content = "<new>" if token == rows else f"<row {token}>"
            larger["added_tokens"].append({"id": token, "content": content, "special": True, "single_word": False,
                                           "lstrip": False, "rstrip": False, "normalized": False})
        (pathlib.Path(FOLDER.name) / "small/tokenizer.json").write_text(json.dumps(larger))
        # Only tokens that occur count: the model has no row for the new one.
        moh("generate", "--checkpoint", "small", "--prompt", "a", "--tokens", 2)
        said = moh("generate", "--checkpoint", "small", "--prompt", "a<new>", code=3)
        self.assertIn(f"expected ids below {rows}, the rows of the model's embedding, found {rows} (<new>)", said)


class TokenizerOfOnesOwn(unittest.TestCase):
    def test_the_recipe_of_the_documentation(self):
        (recipe,) = re.findall(r"```python\n(.*?)```", (SOURCE / "docs/tokenizers.md").read_text(encoding="utf-8"), re.DOTALL)
        folder = pathlib.Path(FOLDER.name) / "own"
        folder.mkdir()
        text = (pathlib.Path(FOLDER.name) / "text.txt").read_text()
        (folder / "corpus.txt").write_text(text)
        subprocess.run([sys.executable, "-c", recipe.replace("32000", "600")], cwd=folder, check=True, capture_output=True)
        moh("data", "tokenize", "--input", "own/corpus.txt", "--tokenizer", "own/tokenizer.json", "--output", "own/ids.safetensors")
        ids = load_file(folder / "ids.safetensors")["tokens"].tolist()
        self.assertEqual(ids, Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids)
        self.assertLess(len(ids), 0.7 * len(text))


if __name__ == "__main__":
    main()
