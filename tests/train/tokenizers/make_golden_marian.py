#!/usr/bin/env python3
"""Makes golden_marian.json: vocabularies over the SentencePiece models in data, and the ids and texts that MarianTokenizer has with them.

    scripts/pytorch_venv.sh
    build/pytorch-venv/bin/python tests/train/tokenizers/make_golden_marian.py

Made with transformers 4.57.6 and sentencepiece 0.2.3, without sacremoses, of which MarianTokenizer makes no use for ids.
"""

import json
import pathlib
import random
import shutil
import tempfile

import sentencepiece
import transformers
from make_golden import HERE, texts

CODES = [">>deu<<", ">>fra<<", ">>a b<<"]
# Beside those of make_golden.py.
OWN = [">>deu<< The file", ">>deu<<The file", ">>fra<<", ">>xyz<< no such code", ">> no code", ">>a b<< two words", "a >>deu<< within", "><< >>deu<<",
       ">>><<", " >>deu<< after a space", "</s>", "an end </s> within", "<pad>>>deu<< after padding", "<unk>x<unk>", "Heads, they 're routed . Aren n't they ? ' yes '",
       "<extra>the <extra> token <extra>", "\u2603\u2603 snow \u2603", "ein Straßenname, größer", "don 't", "  two  spaces  "]
# (source model, target model, settings of tokenizer_config.json)
CASES = {
    "joint": ("t5", "bpe", {"source_lang": "en", "target_lang": "de"}),
    "bytes": ("bpe", "unigram", {"clean_up_tokenization_spaces": True, "additional_special_tokens": ["<extra>"]}),
    "separate": ("unigram", "t5", {"separate_vocabs": True, "unk_token": "<what>", "eos_token": {
        "__type": "AddedToken", "content": "</s>", "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}}),
    "characters": ("llama2", "llama2", {}),
}


def pieces(name):
    """What a text can be cut into, and some pieces that it cannot: not those of control."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(HERE / f"data/{name}.model"))
    return [model.id_to_piece(i) for i in range(model.get_piece_size()) if not model.is_control(i) and not model.is_unknown(i)]


def vocabulary(names, unknown, size=None):
    """Some pieces are left out. The padding token comes last, as in the released models."""
    randomness = random.Random(len(names))
    tokens = sorted({piece for name in names for piece in pieces(name)})
    tokens = [token for token in tokens if randomness.random() < 0.93] + CODES + ["\u2603\u2603"]
    randomness.shuffle(tokens)
    tokens = ["</s>", unknown, *(token for token in tokens if token not in ("</s>", unknown, "<pad>"))]
    tokens = [*tokens, *(f"filler{i}" for i in range(len(tokens), size - 1 if size else 0)), "<pad>"]
    return {token: i for i, token in enumerate(tokens)}


def entry(source, target, config):
    unknown = config.get("unk_token", "<unk>")
    separate = config.get("separate_vocabs", False)
    files = {"tokenizer_config.json": config, "vocab.json": vocabulary((source,) if separate else (source, target), unknown)}
    if separate:  # of one size, as MarianTokenizer takes the id of padding for that of both
        size = len(files["vocab.json"])
        files["target_vocab.json"] = vocabulary((target,), unknown, size)
        assert len(files["target_vocab.json"]) == size
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        shutil.copy(HERE / f"data/{source}.model", here / "source.spm")
        shutil.copy(HERE / f"data/{target}.model", here / "target.spm")
        for name, contents in files.items():
            (here / name).write_text(json.dumps(contents), encoding="utf-8")
        tokenizer = transformers.MarianTokenizer.from_pretrained(here)
        of = {"source": source, "target": target, "files": files, "source_ids": [], "target_ids": [], "decoded": []}
        for text in all_texts():
            ids = tokenizer(text)["input_ids"]
            of_target = tokenizer(text_target=text)["input_ids"]
            of["source_ids"].append(ids)
            of["target_ids"].append(of_target)
            of["decoded"].append(tokenizer.decode(of_target, skip_special_tokens=True))
    return of


def all_texts():
    return texts()[:60] + OWN


def main():
    golden = {"transformers": transformers.__version__, "texts": all_texts(), "of": {name: entry(*case) for name, case in CASES.items()}}
    (HERE / "golden_marian.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
