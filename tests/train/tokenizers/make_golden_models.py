#!/usr/bin/env python3
"""Makes the SentencePiece models and the file of ranks, and the ids that tests compare with: data/*.model, data/ranks.tiktoken and
golden_models.json.

    python3 -m venv V && V/bin/pip install tokenizers sentencepiece tiktoken
    V/bin/python tests/train/tokenizers/make_golden_models.py [SHARED]

Made with sentencepiece 0.2.3 and tiktoken 0.14.0. With the folder SHARED, there are hashes of the ids of files in SHARED/data, too.
"""

import base64
import hashlib
import io
import json
import pathlib
import struct
import sys

import sentencepiece
import tiktoken
from make_golden import FILES, HERE, LLAMA3, blocks, corpus, texts

SPECIAL = ("<|begin_of_text|>", "<|end_of_text|>", "<|endoftext|>")
# As in tiktoken_ext.openai_public.
PATTERNS = {
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k": "|".join([
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"]),
    "llama3": LLAMA3,
    "qwen": LLAMA3.replace("{1,3}", ""),
}


def trained(name, **options):
    model = io.BytesIO()
    lines = [line for text in corpus() for line in text.splitlines()]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, minloglevel=2, **options)
    (HERE / "data" / f"{name}.model").write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def models():
    yield "llama2", trained("llama2", model_type="bpe", vocab_size=1200, byte_fallback=True, normalization_rule_name="identity",
                            remove_extra_whitespaces=False, split_digits=True, character_coverage=0.9995,
                            user_defined_symbols=["<sep>", "New York", "zzz"])
    yield "bpe", trained("bpe", model_type="bpe", vocab_size=600, normalization_rule_name="identity", character_coverage=0.99)
    yield "t5", trained("t5", model_type="unigram", vocab_size=600, character_coverage=0.995, bos_id=-1, pad_id=0, eos_id=1, unk_id=2,
                        user_defined_symbols=["<extra_id_0>"])
    yield "unigram", trained("unigram", model_type="unigram", vocab_size=900, byte_fallback=True, add_dummy_prefix=False,
                             normalization_rule_name="identity")


def ranks():
    """The tokens of data/llama3.json, and some more, so that merges overlap."""
    visible = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in visible]
    byte_of = {chr(byte): byte for byte in visible} | {chr(256 + i): byte for i, byte in enumerate(others)}
    vocabulary = json.loads((HERE / "data/llama3.json").read_text(encoding="utf-8"))["model"]["vocab"]
    tokens = [bytes(byte_of[c] for c in name) for name in sorted(vocabulary, key=vocabulary.get) if set(name) <= byte_of.keys()]
    tokens += [token for token in (b"aa", b"aaa", b"aaaa", b"\n\n", b"  ", b"   ", "中文".encode()) if token not in tokens]
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)]
    (HERE / "data/ranks.tiktoken").write_text("".join(lines), encoding="ascii")
    return {token: rank for rank, token in enumerate(tokens)}


def entry(encode, decode, shared):
    def hash_of(many):
        digest = hashlib.sha256()
        for text in many:
            ids = encode(text)
            digest.update(struct.pack(f"<{len(ids)}i", *ids))
        return digest.hexdigest()

    ids = [encode(text) for text in texts()]
    # The library drops all white space that a text begins with, also that which U+2581 in the text became.
    decoded = [None if "▁" in text else decode(each) for text, each in zip(texts(), ids)]
    of = {"ids": ids, "decoded": decoded, "planes": [hash_of(blocks(plane)) for plane in range(17)]}
    if shared:
        paths = sorted(path for pattern in FILES for path in shared.glob(pattern) if path.is_file())
        of["files"] = {str(path.relative_to(shared)): hash_of([path.read_bytes().decode("utf-8", errors="replace")]) for path in paths}
    return of


def main():
    shared = pathlib.Path(sys.argv[1]) / "data" if len(sys.argv) > 1 else None
    golden = {"texts": texts(), "of": {}}
    for name, model in models():
        golden["of"][f"{name}.model"] = entry(model.encode, model.decode, shared)
    tokens = ranks()
    special = {name: len(tokens) + i for i, name in enumerate(SPECIAL)}
    golden["special"] = special
    for name, pattern in PATTERNS.items():
        encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=tokens, special_tokens=special)
        ids_of_special = set(special.values())
        golden["of"][name] = entry(lambda text, e=encoding: e.encode(text, allowed_special="all"),
                                   lambda ids, e=encoding: e.decode([id for id in ids if id not in ids_of_special]), shared)
    (HERE / "golden_models.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
