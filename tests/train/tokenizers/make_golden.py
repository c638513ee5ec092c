#!/usr/bin/env python3
"""Makes the tokenizers and the ids that the tests of train/tokenizers compare with: golden.json, and data/NAME.json.

    python3 -m venv V && V/bin/pip install tokenizers && V/bin/python tests/train/tokenizers/make_golden.py [SHARED]

Made with tokenizers 0.23.3. The tokenizers have the forms of GPT-2, LLaMA 3, Qwen 2 and LLaMA 2, and other components, and are
trained on this project's text. With the folder SHARED, golden.json has hashes of the ids of files in SHARED/data, too.
"""

import hashlib
import json
import pathlib
import random
import struct
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
          r"|\s+")
LANGUAGES = """The quick brown fox jumps over the lazy dog. Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.
Le cœur déçu mais l'âme plutôt naïve. Съешь же ещё этих мягких французских булок. 多头注意力为每个词元选择几个头。
いろはにほへと ちりぬるを。 키스의 고유조건은 입술끼리 만나야 하고. צפרו דג סקרן שט בים. نص حكيم له سر قاطع. ฉันกินกระจกได้ 😀🏳️‍🌈
"""
FILES = ("tinyshakespeare.txt", "wikitext2/*", "cmmlu/*", "gsm8k/*")


def corpus():
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "core").glob("*.cpp"))]
    return [path.read_text(encoding="utf-8")[:20000] for path in paths] + [LANGUAGES] * 20


def trained(tokenizer, size, special, **options):
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                                                **options))
    return tokenizer


def byte_level(tokenizer, size, special):
    tokenizer.decoder = decoders.ByteLevel()
    return trained(tokenizer, size, special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def gpt2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return byte_level(tokenizer, 700, ["<|endoftext|>"])


def llama3():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    byte_level(tokenizer, 700, [])
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    tokenizer.add_tokens([AddedToken("New York", single_word=True), AddedToken("zzz"),
                          AddedToken("  pad", lstrip=True, rstrip=True, normalized=False)])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin_of_text|> $A",
                                                             special_tokens=[("<|begin_of_text|>", begin)])
    return tokenizer


def qwen2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3.replace("{1,3}", "")), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return byte_level(tokenizer, 600, ["<|endoftext|>"])


def llama2():
    """Words are cut at spaces for training alone; the file, as LLaMA 2's, has no pre-tokenizer."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    trained(tokenizer, 900, ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))], limit_alphabet=120)
    description = json.loads(tokenizer.to_str())
    description["pre_tokenizer"] = None
    description["added_tokens"] = [token for token in description["added_tokens"] if not token["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(description))


def metaspace():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Punctuation()])
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return trained(tokenizer, 500, ["<unk>", "</s>"], limit_alphabet=200)


def compatibility():
    tokenizer = gpt2()
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Replace(Regex(r"\s+"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer


def splits():
    """Every behaviour of Split."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split("\n", "removed"), pre_tokenizers.Split(Regex(r"\p{Lu}"), "merged_with_next"),
        pre_tokenizers.Split(Regex("[.!?]"), "merged_with_previous"), pre_tokenizers.Split("-", "contiguous"),
        pre_tokenizers.Digits(), pre_tokenizers.Split(Regex(r"[a-z]*"), "isolated", invert=True)])
    tokenizer.decoder = decoders.Fuse()
    return trained(tokenizer, 400, ["<unk>"], limit_alphabet=150)


NAMES = {make.__name__: make for make in (gpt2, llama3, qwen2, llama2, metaspace, compatibility, splits)}


def texts():
    """Hand-made and random texts, of what the components treat in special ways."""
    randomness = random.Random(7)
    pool = [*" \n\t\r  '\u00a0\u3000\u180e.,!?-09aAe<|>zB_中文ſßİ\u0301\u200d\u1680", "<|end_of_text|>", "New York", "  pad", "zzz",
            "'s", "'LL", "<0x41>", "▁", "</s>", "<|endoftext|>", "\r\n", "héllo", "12345", "tokens"]
    made = ["", " ", "a", "Hello world", " Hello  world \n\n", LANGUAGES, "a" * 300, "ab " * 200, " " * 100]
    made += ["".join(randomness.choice(pool) for _ in range(randomness.randint(1, 30))) for _ in range(150)]
    return made


def blocks(plane):
    """Every character of a plane of Unicode in runs of 256, each as it is, with spaces, and with letters between."""
    for begin in range(plane << 16, (plane + 1) << 16, 256):
        characters = [chr(code) for code in range(begin, begin + 256) if not 0xD800 <= code < 0xE000]
        if characters:
            yield from ("".join(characters), " ".join(characters), "a".join(characters))


def hash_of(tokenizer, many):
    digest = hashlib.sha256()
    for encoding in tokenizer.encode_batch(list(many), add_special_tokens=False):
        digest.update(struct.pack(f"<{len(encoding.ids)}i", *encoding.ids))
    return digest.hexdigest()


def main():
    shared = pathlib.Path(sys.argv[1]) / "data" if len(sys.argv) > 1 else None
    golden = {"tokenizers": tokenizers.__version__, "texts": texts(), "of": {}}
    for name, make in NAMES.items():
        tokenizer = make()
        tokenizer.save(str(HERE / "data" / f"{name}.json"), pretty=False)
        ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in golden["texts"]]
        of = {"ids": ids, "decoded": [tokenizer.decode(each) for each in ids],
              "planes": [hash_of(tokenizer, blocks(plane)) for plane in range(17)]}
        if shared:
            paths = sorted(path for pattern in FILES for path in shared.glob(pattern) if path.is_file())
            of["files"] = {str(path.relative_to(shared)):
                           hash_of(tokenizer, [path.read_bytes().decode("utf-8", errors="replace")]) for path in paths}
        golden["of"][name] = of
    (HERE / "golden.json").write_text(json.dumps(golden, ensure_ascii=True, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
