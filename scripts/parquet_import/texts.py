"""Texts of a Parquet file as JSON Lines, or as a token file."""

import json
import os
import subprocess

from seeded_runs import Refused, no_program

from .rows import batches, pa

BATCH = 1024  # rows


def write_lines(source, options, path, advance):
    """Writes a line {"text": ...} for each text that is not empty, compressed with Zstandard."""
    written = 0
    with pa.output_stream(str(path), compression="zstd") as lines:
        for first, batch in batches(source, [options.column], BATCH):
            try:
                texts = batch.column(0).to_pylist()
            except UnicodeDecodeError as error:
                raise Refused(f"{source.path}: rows {first} to {first + batch.num_rows - 1}: column {options.column}: expected UTF-8: "
                              f"{error}") from error
            found = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts if text]
            lines.write("".join(found).encode())
            written += len(found)
            advance(batch.num_rows)
    if written == 0:
        raise Refused(f"{source.path}: column {options.column}: expected a text, found {source.rows} rows without one")


def write_tokens(source, options, path, advance):
    """Writes a token file, by `moh data tokenize` and a file of JSON Lines that is removed again."""
    lines = path.with_name(path.name + ".jsonl.zst")
    try:
        write_lines(source, options, lines, advance)
        # The token file keeps the time of its text: so the same file of Parquet becomes the same bytes.
        time = source.path.stat().st_mtime_ns
        os.utime(lines, ns=(time, time))
        tokenize(options, lines, path)
    finally:
        lines.unlink(missing_ok=True)


def tokenize(options, lines, path):
    command = [options.moh, "data", "tokenize", "--input", lines, "--output", path, "--tokenizer", options.tokenizer, "--overwrite"]
    try:
        code = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        raise no_program(error) from error
    if code != 0:
        raise Refused(f"moh data tokenize ended with code {code}; its error is above")
