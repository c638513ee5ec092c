#!/usr/bin/env python3
"""Learns a joint vocabulary of two languages: byte-level byte-pair encoding, with PyPI's package tokenizers."""
import argparse
import gettext
import pathlib


def catalog_texts(path):
    """Both sides of the messages of a catalog, except its header."""
    with open(path, "rb") as file:
        translations = gettext.GNUTranslations(file)
    for message, translation in translations._catalog.items():  # there is no public way to list them
        text = message[0] if isinstance(message, tuple) else message
        if text:
            yield text
            yield translation


def texts(paths):
    for path in paths:
        if path.is_dir():
            yield from texts(sorted(p for p in path.rglob("*") if p.suffix in (".mo", ".tsv")))
        elif path.suffix == ".mo":
            try:
                yield from catalog_texts(path)
            except (OSError, UnicodeDecodeError, LookupError) as error:
                print(f"{path}: left out: {error}")
        else:
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    yield from line.rstrip("\n").split("\t")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inputs", nargs="+", type=pathlib.Path, metavar="INPUT",
                        help="text, a sentence (or a pair with a tab between) on each line; message catalogs (.mo); folders")
    parser.add_argument("--vocabulary", type=int, default=32768, help="number of tokens (default: %(default)s)")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder for tokenizer.json")
    options = parser.parse_args()
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # so that --help needs no package

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=options.vocabulary, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts(options.inputs), trainer)
    options.output.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(options.output / "tokenizer.json"))
    print(f"{options.output / 'tokenizer.json'}: {tokenizer.get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
