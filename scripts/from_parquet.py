#!/usr/bin/env python3
"""Makes training data of moh from Parquet files, as data sets on the Hugging Face Hub have them.

    scripts/from_parquet.py fineweb-edu/sample/10BT --output corpus --tokenizer llama3/tokenizer.json
    scripts/from_parquet.py 'imagenet-1k/data/train-*.parquet' --output imagenet/train

Texts (a column of strings: text, or --column) become token files with --tokenizer, and compressed JSON Lines without. Pictures (a column
image: struct<bytes, path>, and numbers of classes: label, or --label) become tar archives, and classes.txt where the files name their
classes. Each Parquet file becomes a file of its own in the folder --output, which data.train takes.

Files are read in batches of rows. What is complete is not made again: the same command continues after it was stopped, and makes the
same bytes. Needs PyArrow.
"""

import argparse
import json
import os
import pathlib
import sys
import time

import places
from parquet_import import pictures, rows, texts
from seeded_runs import Refused, reported, write_atomically

NOTE = ".from_parquet.json"  # what was made of which files


class Progress:
    """A bar on a terminal, redrawn in place; elsewhere a line for each file."""

    def __init__(self, total, drawn):
        self.total, self.drawn, self.done, self.fresh, self.began, self.shown = total, drawn, 0, 0, time.monotonic(), 0.0

    def skip(self, count):
        self.done += count

    def advance(self, count):
        self.done += count
        self.fresh += count
        now = time.monotonic()
        if self.drawn and now > self.shown + 0.2:
            self.shown = now
            self.draw(now - self.began)

    def draw(self, seconds):
        rate = self.fresh / max(seconds, 1e-9)
        share = self.done / max(self.total, 1)
        left = (self.total - self.done) / max(rate, 1e-9)
        print(f"\r[{'=' * int(30 * share):30}] {share:6.1%}  {rate:,.0f} rows/s  {left / 60:.0f} min left \x1b[K", end="", file=sys.stderr,
              flush=True)

    def wrote(self, path, source):
        if not self.drawn:
            print(f"wrote {path} ({source.rows} rows)", file=sys.stderr, flush=True)

    def end(self):
        if self.drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def parse_arguments(given):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", metavar="PATH", help="Parquet files, folders of them, or patterns in quotes")
    parser.add_argument("--output", required=True, type=pathlib.Path, metavar="FOLDER", help="for the files that are made")
    parser.add_argument("--column", help="of the texts or pictures (text or image, whichever there is)")
    parser.add_argument("--label", default="label", help="column of the numbers of classes (%(default)s)")
    parser.add_argument("--tokenizer", help="make token files: byte, a tokenizer's file, or a folder with one (docs/tokenizers.md)")
    parser.add_argument("--moh", default=places.program(), help="the moh program, for --tokenizer (%(default)s)")
    return parser.parse_args(given)


def prepare(options, sources):
    """Finds the one kind of all files, and what is made of each: sets options.column and options.classes; returns (writer, ending)."""
    kinds = {}
    for source in sources:
        column = rows.column_of(source, options.column)
        kinds.setdefault((rows.kind_of(source, column), column), source)
    if len(kinds) > 1:
        raise Refused("expected files of one kind, found " + "; ".join(f"{kind} in {source.path}" for (kind, _), source in kinds.items()))
    ((kind, options.column),) = kinds
    options.classes = None
    if kind == "texts":
        return (texts.write_tokens, ".tokens") if options.tokenizer else (texts.write_lines, ".jsonl.zst")
    if options.tokenizer:
        raise Refused(f"--tokenizer: expected texts, found pictures in {sources[0].path}")
    for source in sources:
        pictures.check_labels(source, options)
        names = rows.class_names(source, options.label)
        if source is not sources[0] and names != options.classes:
            raise Refused(f"{source.path}: classes: expected those of {sources[0].path}, found others")
        options.classes = names
    return pictures.write_shard, ".tar"


def note_of(options):
    """What was made before in the folder; refused is one that others wrote, or that was made in another way."""
    made = {"column": options.column, "label": options.label, "tokenizer": options.tokenizer}
    note = options.output / NOTE
    if not note.exists():
        if options.output.exists() and any(options.output.iterdir()):
            raise Refused(f"--output {options.output}: expected an empty folder, or one that this script made, found other files")
        return {"made": made, "files": {}}
    found = json.loads(note.read_text(encoding="utf-8"))
    if found["made"] != made:
        differing = [f"--{key} {value or '(none)'}" for key, value in found["made"].items() if value != made[key]]
        raise Refused(f"--output {options.output}: expected {', '.join(differing)}, as before, found other options; take another folder")
    return found


def publish(part, path):
    """Gives a file that is on the disk its name."""
    with open(part, "rb") as file:
        os.fsync(file.fileno())
    os.replace(part, path)


def convert(options):
    sources = rows.sources_of(options.inputs)
    write, ending = prepare(options, sources)
    note = note_of(options)
    progress, kept = Progress(sum(source.rows for source in sources), sys.stderr.isatty()), 0
    try:
        for source in sources:
            path, part = options.output / (source.name + ending), options.output / f".{source.name}.part"
            state = source.state()
            if note["files"].get(path.name) == state and path.exists():
                progress.skip(source.rows)
                kept += 1
                continue
            write_atomically(options.output / NOTE, json.dumps(note) + "\n")
            try:
                write(source, options, part, progress.advance)
                publish(part, path)
            finally:
                part.unlink(missing_ok=True)
            note["files"][path.name] = state
            write_atomically(options.output / NOTE, json.dumps(note) + "\n")
            progress.wrote(path, source)
    finally:
        progress.end()
    if options.classes:
        write_atomically(options.output / "classes.txt", "".join(f"{name}\n" for name in options.classes))
    print(f"wrote {options.output}\nfiles       {len(sources)} ({kept} already up to date)\nrows        {progress.total}"
          + (f"\nclasses     {len(options.classes)}, in {options.output}/classes.txt" if options.classes else ""))


def main(given=None):
    options = parse_arguments(given)
    if rows.pa is None:
        sys.exit(f"from_parquet.py: this Python ({sys.executable}) has no PyArrow; install pyarrow with pip, into a virtual environment")
    with reported("from_parquet"):
        try:
            convert(options)
        except OSError as error:
            raise Refused(str(error)) from error


if __name__ == "__main__":
    main()
