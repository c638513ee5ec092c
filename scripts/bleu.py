#!/usr/bin/env python3
"""Scores translations by BLEU and chrF, which are sacreBLEU's own, and prints their signatures.

    scripts/bleu.sh test.de.txt test.de
    scripts/bleu.sh test.de.txt test.de --paper
    scripts/bleu.py test.de.txt references/*.de --json > scores.json

The files have a sentence on each line: the translations, then one or more files of references. Text is compared as it is, not
tokenised: sacreBLEU does that (--tokenize). scripts/bleu.sh runs this program with the version of sacreBLEU that it installs.
"""

import argparse
import json
import pathlib
import sys

# The public review of the MoH paper, WMT14 English to German; how these were computed is not published.
PAPER = {"MoA": 28.3, "MoH": 29.0}


class Refused(Exception):
    """A mistake in the arguments."""


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("translations", type=pathlib.Path)
    parser.add_argument("references", type=pathlib.Path, nargs="+")
    parser.add_argument("--tokenize", default="13a", choices=("13a", "intl", "zh", "char", "none"), help="tokens of BLEU")
    parser.add_argument("--lowercase", action="store_true", help="compare without regard to case")
    parser.add_argument("--paper", action="store_true", help="print the paper's scores of WMT14 English to German beside")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    return parser.parse_args(arguments)


def lines_of(path):
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path}: {error}") from error


def read(options):
    """The translations, and the references, file by file."""
    translations = lines_of(options.translations)
    references = [lines_of(path) for path in options.references]
    for path, lines in zip(options.references, references):
        if len(lines) != len(translations):
            raise Refused(f"{path}: expected as many lines as in {options.translations}, {len(translations)}, found {len(lines)}")
    return translations, references


def scores(options):
    """[(name, score, signature)]."""
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError as error:
        raise Refused(f"{error}; scripts/bleu.sh installs sacreBLEU and runs this program with it") from error
    translations, references = read(options)
    metrics = (BLEU(lowercase=options.lowercase, tokenize=options.tokenize), CHRF(lowercase=options.lowercase))
    found = [(metric, metric.corpus_score(translations, references)) for metric in metrics]
    return [(score.name, score.score, str(metric.get_signature())) for metric, score in found]


def report(found, options):
    if options.json:
        entries = {name: {"score": score, "signature": signature} for name, score, signature in found}
        return json.dumps({**entries, **({"paper": {"BLEU": PAPER}} if options.paper else {})})
    lines = [f"{name:5} {score:6.2f}  {signature}" for name, score, signature in found]
    if options.paper:
        beside = ", ".join(f"{method} {score}" for method, score in PAPER.items())
        lines.append(f"paper  BLEU of WMT14 English to German: {beside}; its test set, tokens and version are not published")
    return "\n".join(lines)


def main(arguments=None):
    options = parsed(arguments)
    try:
        print(report(scores(options), options))
    except Refused as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
