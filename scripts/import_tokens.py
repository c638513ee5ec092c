#!/usr/bin/env python3
"""Makes a token file of moh from token ids that other programs wrote:

  .npy           NumPy: integers of one dimension, or of two, whose rows follow each other
  .bin           llm.c, with its header; nanoGPT: ids alone, whose type --dtype says
  .idx and .bin  Megatron-LM; either name stands for the pair

No such file names its tokenizer. --like is a token file that moh wrote with it, of any text:

  moh data tokenize --input notes.txt --tokenizer gpt2/ --output like.safetensors
  scripts/import_tokens.py train.bin --dtype uint16 --like like.safetensors --output train.safetensors
"""

import argparse
import json
import os
import pathlib
import struct
import sys

try:
    import numpy as np
except ImportError:
    np = None  # main refuses, so that --help works without it

HEADER_BYTES = 1024  # room for the header, which is written last
BLOCK = 1 << 22  # ids
MEGATRON_TYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
LLM_C_TYPES = {(20240520, 1): "<u2", (20240801, 7): "<u4"}


def megatron_documents(index):
    """The ids of each document."""
    data = index.read_bytes()
    _, code, sequences, bounds = struct.unpack_from("<QBQQ", data, 9)
    if data[:9] != b"MMIDIDX\0\0" or code not in MEGATRON_TYPES or sequences == 0:
        raise ValueError(f"{index}: expected an index of Megatron-LM, of sequences of integers")
    ids = np.memmap(index.with_suffix(".bin"), MEGATRON_TYPES[code], "r")
    sizes = np.frombuffer(data, "<i4", sequences, 34)
    pointers = np.frombuffer(data, "<i8", sequences, 34 + 4 * sequences)
    last = np.frombuffer(data, "<i8", bounds, 34 + 12 * sequences)
    ends = np.cumsum(sizes, dtype=np.int64)
    if ends[-1] != len(ids) or np.any(pointers != (ends - sizes) * ids.itemsize):
        raise ValueError(f"{index}: expected sequences that follow each other, {len(ids)} ids, as the .bin has")
    places = np.unique(np.concatenate(([0], ends[last[last > 0] - 1], [len(ids)])))
    return [ids[begin:end] for begin, end in zip(places, places[1:])]


def ids_of(path, dtype):
    """The ids of a file that does not say where documents end."""
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r").reshape(-1)
    with path.open("rb") as file:
        magic, version, count = struct.unpack("<3I", file.read(12).ljust(12, b"\0"))
    if (magic, version) in LLM_C_TYPES:
        ids = np.memmap(path, LLM_C_TYPES[magic, version], "r", 1024)
        if len(ids) != count:
            raise ValueError(f"{path}: expected {count} ids, as its header says, found {len(ids)}")
        return ids
    if dtype is None:
        raise ValueError(f"{path}: no header says the type of the ids; say it: --dtype uint16, or uint32")
    return np.memmap(path, np.dtype(dtype), "r")


def write_ids(file, ids, vocab_size, stored):
    for begin in range(0, len(ids), BLOCK):
        block = ids[begin : begin + BLOCK]
        if block.dtype.kind not in "iu" or block.min() < 0 or block.max() >= vocab_size:
            found = f"{block.min()} ... {block.max()} of type {block.dtype}"
            raise ValueError(f"expected ids of 0 ... {vocab_size - 1}, found {found}: are tokenizer and --dtype those of the file?")
        file.write(block.astype(stored).tobytes())


def write_tokens(file, documents, metadata, separator):
    """Writes a token file (docs/token_files.md); returns the number of its ids."""
    vocab_size = int(metadata["vocab_size"])
    name, stored = ("U8", "u1") if vocab_size <= 1 << 8 else ("U16", "<u2") if vocab_size <= 1 << 16 else ("I32", "<i4")
    file.write(bytes(HEADER_BYTES))
    last = None
    for ids in documents:
        if separator is not None and last not in (None, separator):
            write_ids(file, np.array([separator]), vocab_size, stored)
        write_ids(file, ids, vocab_size, stored)
        last = ids[-1]
    size = file.tell() - HEADER_BYTES
    tensor = {"dtype": name, "shape": [size // np.dtype(stored).itemsize], "data_offsets": [0, size]}
    header = json.dumps({"__metadata__": metadata, "tokens": tensor}).encode()
    file.seek(0)
    file.write(struct.pack("<Q", HEADER_BYTES - 8) + header.ljust(HEADER_BYTES - 8))
    return tensor["shape"][0]


def import_tokens(options):
    with open(options.like, "rb") as file:
        like = json.loads(file.read(int.from_bytes(file.read(8), "little")))["__metadata__"]
    metadata = {key: like[key] for key in ("format", "tokenizer", "vocab_size", "tokenizer_hash") if key in like}
    metadata["version"] = "1"
    documents, known = [], True
    for path in options.inputs:
        index = path.with_suffix(".idx")
        if path.suffix in (".idx", ".bin") and index.is_file():
            documents += megatron_documents(index)
        else:
            documents.append(ids_of(path, options.dtype))
            known = False
    if known:
        metadata["documents"] = str(len(documents))
    part = options.output.with_name(f".{options.output.name}.part")
    try:
        with part.open("wb") as file:
            count = write_tokens(file, documents, metadata, options.separator)
        os.replace(part, options.output)
    finally:
        part.unlink(missing_ok=True)
    print(f"wrote {options.output}\ntokens      {count}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--like", required=True, help="token file of moh whose tokenizer made the ids")
    parser.add_argument("--output", required=True, type=pathlib.Path, help="token file to write")
    parser.add_argument("--dtype", choices=("uint16", "uint32"), help="type of the ids in .bin files without a header")
    parser.add_argument("--separator", type=int, metavar="ID", help="end-of-document id, put between documents and files that lack it")
    options = parser.parse_args()
    if np is None:
        sys.exit(f"import_tokens.py: this Python ({sys.executable}) has no NumPy; install the package python3-numpy")
    try:
        import_tokens(options)
    except (OSError, ValueError, KeyError, IndexError, struct.error) as error:
        sys.exit(f"import_tokens.py: {error}")


if __name__ == "__main__":
    main()
