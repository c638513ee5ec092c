"""Models with a SentencePiece model or tiktoken's ranks, exported: AutoTokenizer gives the ids of the libraries that these files are of."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

from with_transformers import FOLDER, SOURCE, main  # first: it may begin again under another Python

from transformers import AutoTokenizer

MOH = os.environ.get("MOH_BINARY", "moh")
WORK = pathlib.Path(FOLDER.name)
TESTS = SOURCE / "tests/train/tokenizers"
GOLDEN = json.loads((TESTS / "golden_models.json").read_text(encoding="utf-8"))
# `tokenizers` finds the names of special tokens in a text, as transformers has it; sentencepiece does not.
NAMES = ("<s>", "</s>", "<unk>", "<pad>")
# Its normalisation rules are those of NFKC: `tokenizers` applies them to a character with its combining marks as a whole.
RULES, COMBINING = "t5.model", ("\u0301", "\u200d")
JOB = """model: {{layers: 1, hidden: 16, intermediate: 16, heads: 2, max_positions: 16}}
data: {{train: text.txt, sequence_length: 16, tokenizer: {tokenizer}}}
train: {{steps: 1, batch_size: 1}}
schedule: {{warmup_steps: 0}}
sample: {{tokens: 0}}
threads: 1
output: {{dir: run_{name}}}
"""


def moh(*arguments):
    done = subprocess.run([MOH, *map(str, arguments)], cwd=WORK, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"moh {arguments}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def exported(name):
    """The folder of a small model with the tokenizer, in the form of transformers."""
    folder = WORK / name
    folder.mkdir()
    if name.endswith(".model"):
        shutil.copy(TESTS / "data" / name, folder / "tokenizer.model")
    else:
        shutil.copy(TESTS / "data/ranks.tiktoken", folder)
        shutil.move(folder / "ranks.tiktoken", folder / "tokenizer.tiktoken")
        (folder / "tiktoken.json").write_text(json.dumps({"pattern": name, "special_tokens": GOLDEN["special"]}))
    (WORK / "job.yaml").write_text(JOB.format(tokenizer=name, name=name))
    moh("train", "job.yaml")
    moh("convert", "--from", f"run_{name}", "--to", f"hf_{name}", "--format", "hf")
    return WORK / f"hf_{name}"


def setUpModule():
    (WORK / "text.txt").write_text((SOURCE / "README.md").read_text(encoding="utf-8") + "Zürich 東京 🙂 naïve\n", encoding="utf-8")


def tearDownModule():
    FOLDER.cleanup()


class ConvertedTokenizers(unittest.TestCase):
    def assert_same(self, name, folder):
        tokens, expected = AutoTokenizer.from_pretrained(folder), GOLDEN["of"][name]
        compared = 0
        for text, ids, decoded in zip(GOLDEN["texts"], expected["ids"], expected["decoded"]):
            if name.endswith(".model") and any(special in text for special in NAMES):
                continue
            if name == RULES and any(mark in text for mark in COMBINING):
                continue
            self.assertEqual(tokens(text, add_special_tokens=False)["input_ids"], ids, (name, text))
            if decoded is not None and "⁇" not in decoded and name.endswith(".model"):
                self.assertEqual(tokens.decode(ids), decoded, (name, text))
            compared += 1
        self.assertGreater(compared, 60)
        return tokens

    def test_ids_are_those_of_the_libraries(self):
        for name in GOLDEN["of"]:
            with self.subTest(name):
                folder = exported(name)
                tokens = self.assert_same(name, folder)
                begin = json.loads((folder / "generation_config.json").read_text())["bos_token_id"]
                ids = tokens("heads", add_special_tokens=False)["input_ids"]
                self.assertEqual(tokens("heads")["input_ids"], ([] if begin is None else [begin]) + ids)
                self.assertEqual(tokens.eos_token_id, json.loads((folder / "generation_config.json").read_text())["eos_token_id"])
                # Back in moh the original counts: token files made with it go on to fit.
                for source, file in ((name, "before"), (f"hf_{name}", "after")):
                    moh("data", "tokenize", "--input", "text.txt", "--tokenizer", source, "--output", f"{name}_{file}.safetensors")
                before, after = ((WORK / f"{name}_{file}.safetensors").read_bytes() for file in ("before", "after"))
                self.assertEqual(before, after)


if __name__ == "__main__":
    main()
