#!/usr/bin/env python3
"""Compares how fast text becomes token ids on one core: moh beside tokenizers, sentencepiece and tiktoken.

  python3 -m venv V && V/bin/pip install tokenizers sentencepiece tiktoken
  scripts/bench_tokenizers.py --python V/bin/python DATA

DATA is a folder with English (tinyshakespeare.txt, wikitext2), Chinese (cmmlu) and JSON Lines (gsm8k); code is
that of this project. Tokenizers of the forms of GPT-2, LLaMA 3, LLaMA 2 and T5 are trained on them once (--work). Both sides
get the same documents of some 4 KiB and encode them by the fastest call that they have (encode_batch_fast, encode with a
list, encode with all special tokens). Processes alternate, each measures every text --repeats times after one pass that is not counted,
and the ratio is the median of the rounds' ratios. The numbers of ids are compared.
"""

import argparse
import base64
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT_BYTES = 4096
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# Name: the library, and the file that both sides read.
TOKENIZERS = {
    "GPT-2": ("tokenizers", "gpt2.json"),
    "LLaMA 3": ("tokenizers", "llama3.json"),
    "LLaMA 2": ("tokenizers", "llama2.json"),
    "SentencePiece BPE": ("sentencepiece", "bpe.model"),
    "SentencePiece unigram": ("sentencepiece", "unigram.model"),
    "tiktoken": ("tiktoken", "ranks/ranks.tiktoken"),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("data", type=pathlib.Path, help="folder with the texts")
    add("--python", default=sys.executable, help="interpreter that has the libraries; default: this one")
    add("--moh", default=str(ROOT / "build/release/moh"), help="the program; default: build/release/moh")
    add("--work", type=pathlib.Path, default=ROOT / "build/bench_tokenizers", help="folder of texts and tokenizers")
    add("--only", nargs="+", choices=TOKENIZERS, default=list(TOKENIZERS), help="tokenizers to measure; default: all")
    add("--vocab-size", type=int, default=32000, help="tokens of each tokenizer; default: 32000")
    add("--rounds", type=int, default=5, help="measurements of each side; default: 5")
    add("--repeats", type=int, default=3, help="passes over each text in a measurement; default: 3")
    add("--core", type=int, default=0, help="the core of both sides; default: 0")
    add("--worker", choices=["prepare", *TOKENIZERS], help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- in the process that has the libraries ----


def documents_of(paths):
    """Lines, joined to documents."""
    document = ""
    for path in paths:
        for line in path.read_bytes().decode("utf-8", errors="replace").splitlines(keepends=True):
            document += line
            if len(document.encode()) >= DOCUMENT_BYTES:
                yield document
                document = ""
    if document:
        yield document


def write_texts(options):
    code = [path for room in ("core", "autograd", "ops", "models", "train") for path in sorted((ROOT / room).rglob("*.cpp"))]
    sources = {
        "English": [options.data / "tinyshakespeare.txt", *sorted((options.data / "wikitext2").iterdir())],
        "Chinese": sorted((options.data / "cmmlu").iterdir()),
        "code": code,
        "JSON Lines": sorted((options.data / "gsm8k").iterdir()),
    }
    for name, paths in sources.items():
        lines = [json.dumps({"text": document}, ensure_ascii=False) + "\n" for document in documents_of(paths)]
        (options.work / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def read_texts(options):
    for path in sorted(options.work.glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            yield path.stem, [json.loads(line)["text"] for line in lines]


def train_byte_level(options, texts, name, cut, **model):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = cut
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=options.vocab_size, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.save(str(options.work / name))


def train_llama2(options, texts):
    """Words are cut at spaces for training alone, as LLaMA 2's file has no pre-tokenizer."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=options.vocab_size, special_tokens=tokens, show_progress=False, limit_alphabet=4000))
    description = json.loads(tokenizer.to_str())
    description["pre_tokenizer"] = None
    description["added_tokens"] = [token for token in description["added_tokens"] if not token["content"].startswith("<0x")]
    (options.work / "llama2.json").write_text(json.dumps(description, ensure_ascii=False), encoding="utf-8")


def train_sentencepiece(options, texts, name, **settings):
    import sentencepiece

    lines = (line for text in texts for line in text.splitlines())
    with (options.work / name).open("wb") as model:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines, model_writer=model, minloglevel=2, byte_fallback=True, character_coverage=0.9995,
            max_sentence_length=100000, **settings)


def write_ranks(options):
    """The tokens of llama3.json, in the order of their ids."""
    from tokenizers import pre_tokenizers

    visible = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in visible]
    byte_of = {chr(byte): byte for byte in visible} | {chr(256 + i): byte for i, byte in enumerate(others)}
    assert set(byte_of) == set(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = json.loads((options.work / "llama3.json").read_text(encoding="utf-8"))["model"]["vocab"]
    names = [name for name in sorted(vocabulary, key=vocabulary.get) if name != "<|endoftext|>"]
    lines = [f"{base64.b64encode(bytes(byte_of[c] for c in name)).decode()} {rank}\n" for rank, name in enumerate(names)]
    (options.work / "ranks").mkdir(exist_ok=True)
    (options.work / "ranks/ranks.tiktoken").write_text("".join(lines), encoding="ascii")
    (options.work / "ranks/tiktoken.json").write_text(json.dumps({"pattern": "llama3", "special_tokens": {"<|endoftext|>": len(names)}}))


def prepare(options):
    from tokenizers import Regex, pre_tokenizers

    options.work.mkdir(parents=True, exist_ok=True)
    write_texts(options)
    texts = [text for _, some in read_texts(options) for text in some]
    byte_level = pre_tokenizers.ByteLevel
    train_byte_level(options, texts, "gpt2.json", byte_level(add_prefix_space=False))
    train_byte_level(options, texts, "llama3.json", pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"), byte_level(add_prefix_space=False, use_regex=False)]), ignore_merges=True)
    train_llama2(options, texts)
    plain = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    train_sentencepiece(options, texts, "bpe.model", model_type="bpe", vocab_size=options.vocab_size, **plain)
    train_sentencepiece(options, texts, "unigram.model", model_type="unigram", vocab_size=options.vocab_size, hard_vocab_limit=False)
    write_ranks(options)


def encoder(options, name):
    """A function from texts to their number of ids."""
    library, file = TOKENIZERS[name]
    path = options.work / file
    if library == "tokenizers":
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        return lambda texts: sum(len(e) for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False))
    if library == "sentencepiece":
        import sentencepiece

        model = sentencepiece.SentencePieceProcessor(model_file=str(path))
        return lambda texts: sum(len(ids) for ids in model.encode(texts, out_type=int, num_threads=1))
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    special = json.loads(path.with_name("tiktoken.json").read_text())["special_tokens"]
    encoding = tiktoken.Encoding("bench", pat_str=LLAMA3, mergeable_ranks=load_tiktoken_bpe(str(path)), special_tokens=special)
    # As moh does: the name of a special token in a text is that token.
    return lambda texts: sum(len(encoding.encode(text, allowed_special="all")) for text in texts)


def measure_library(options):
    encode = encoder(options, options.worker)
    for name, texts in read_texts(options):
        tokens = encode(texts)
        megabytes = 1e-6 * sum(len(text.encode()) for text in texts)
        seconds = []
        for _ in range(options.repeats):
            begin = time.perf_counter()
            encode(texts)
            seconds.append(time.perf_counter() - begin)
        print(json.dumps({"file": name, "tokens": tokens, "encode_mb_per_s": megabytes / statistics.median(seconds)}), flush=True)


# ---- in this process ----


def run(options, command, pinned=True):
    environment = dict(os.environ, RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
    prefix = ["taskset", "-c", str(options.core)] if pinned else []
    done = subprocess.run(prefix + [str(part) for part in command], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stderr}")
    return {pathlib.Path(row["file"]).stem: row for row in map(json.loads, done.stdout.splitlines())}


def worker(options, name):
    return [options.python, pathlib.Path(__file__).resolve(), options.data, "--work", options.work, "--repeats", options.repeats,
            "--vocab-size", options.vocab_size, "--worker", name]


def compare(options, name):
    library, file = TOKENIZERS[name]
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(run(options, [options.moh, "bench", "tokenizer", *sorted(options.work.glob("*.jsonl")), "--tokenizer",
                                  options.work / file, "--repeats", options.repeats, "--json"]))
        theirs.append(run(options, worker(options, name)))
    for text in ours[0]:
        if ours[0][text]["tokens"] != theirs[0][text]["tokens"]:
            sys.exit(f"{name}, {text}: {ours[0][text]['tokens']} ids of moh, {theirs[0][text]['tokens']} of {library}")
        a, b = ([row[text]["encode_mb_per_s"] for row in side] for side in (ours, theirs))
        ratios = [x / y for x, y in zip(a, b)]
        print(f"| {name} | {text} | {statistics.median(a):.1f} | {statistics.median(b):.1f} ({library}) "
              f"| {statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |", flush=True)


def main():
    options = parse_arguments()
    if options.worker == "prepare":
        return prepare(options)
    if options.worker:
        return measure_library(options)
    if not (options.work / "ranks/tiktoken.json").exists():
        run(options, worker(options, "prepare"), pinned=False)
    print("| tokenizer | text | moh, MB/s | the library, MB/s | moh is faster by | lowest and highest |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in options.only:
        compare(options, name)
    return None


if __name__ == "__main__":
    main()
