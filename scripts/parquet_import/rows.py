"""Parquet files as rows, a few at a time: which files are meant, what their columns are, and reading them in little memory."""

import glob
import json
import pathlib
from dataclasses import dataclass

from seeded_runs import Refused

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    pa = None  # the script refuses, so that --help works without it

BUFFER_BYTES = 1 << 20  # of a column that is read


@dataclass(frozen=True)
class Source:
    """A file, and what its footer says."""

    path: pathlib.Path
    name: str  # of what is made of it, without the ending
    schema: object
    rows: int

    def state(self):
        """What differs where the file is another one."""
        found = self.path.stat()
        return [self.path.name, found.st_size, found.st_mtime_ns]


def paths_of(given):
    """(file, its name below what was given) of files, folders and globs, in the order of the names within each."""
    found = []
    for text in given:
        path = pathlib.Path(text)
        if path.is_dir():
            inside = [(file, file.relative_to(path)) for file in sorted(path.rglob("*.parquet"))]
            of_text = [(file, below) for file, below in inside if not any(part.startswith(".") for part in below.parts)]
        else:
            names = [text] if path.exists() else sorted(glob.glob(text, recursive=True))
            of_text = [(pathlib.Path(name), pathlib.Path(pathlib.Path(name).name)) for name in names]
        if not of_text:
            raise Refused(f"{text}: expected a Parquet file, a folder of .parquet files or a pattern of names, found none")
        found += of_text
    return found


def sources_of(given):
    """The files with their footers. Throws Refused for what is no Parquet file, and for two that would become one."""
    sources = {}
    for path, below in paths_of(given):
        name = "-".join(below.with_suffix("").parts if below.suffix == ".parquet" else below.parts)
        if name in sources:
            raise Refused(f"{path}: expected another name than {sources[name].path} has, as both become {name}; convert them into two "
                          "folders")
        file = opened(path)
        sources[name] = Source(path, name, file.schema_arrow, file.metadata.num_rows)
    return list(sources.values())


def opened(path):
    try:
        return pq.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise Refused(f"{path}: expected a Parquet file, found none that can be read: {error}") from error


def batches(source, columns, size):
    """(number of its first row, at most `size` rows of these columns), to the file's end."""
    first = 0
    try:
        for batch in opened(source.path).iter_batches(size, columns=columns):
            yield first, batch
            first += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise Refused(f"{source.path}: rows from {first} on cannot be read: {error}") from error


def column_of(source, wanted):
    """The name of the column to convert: `wanted`, or else text or image."""
    known = [wanted] if wanted else ["text", "image"]
    found = [name for name in known if name in source.schema.names]
    if len(found) != 1:
        raise Refused(f"{source.path}: column: expected {' or '.join(known)}, found {', '.join(source.schema.names)}; name one: "
                      "--column NAME")
    return found[0]


def kind_of(source, column):
    """texts or pictures, by the type of the column."""
    found = source.schema.field(column).type
    if pa.types.is_string(found) or pa.types.is_large_string(found):
        return "texts"
    if pa.types.is_struct(found) and found.get_field_index("bytes") >= 0 and pa.types.is_binary(found.field("bytes").type):
        return "pictures"
    raise Refused(f"{source.path}: column {column}: expected strings, or pictures as struct<bytes: binary, path: string>, found {found}; "
                  "name another column: --column NAME")


def class_names(source, label):
    """The names of a ClassLabel, which the package datasets writes into the file's metadata; None where there are none."""
    try:
        names = json.loads(source.schema.metadata[b"huggingface"])["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError):
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) and name and name.isprintable() for name in names):
        raise Refused(f"{source.path}: metadata: expected names of classes, a line each, found {str(names)[:80]}")
    return names
