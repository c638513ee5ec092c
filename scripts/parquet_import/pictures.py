"""Pictures of a Parquet file as a tar archive in the form of WebDataset: KEY.jpg or KEY.png, and KEY.cls with the label."""

import io
import tarfile

from seeded_runs import Refused

from .rows import batches, pa

BATCH = 64  # rows
ENDINGS = {b"\xff\xd8\xff": "jpg", b"\x89PNG": "png"}


def check_labels(source, options):
    names = source.schema.names
    found = source.schema.field(options.label).type if options.label in names else f"columns {', '.join(names)}"
    if not (options.label in names and pa.types.is_integer(found)):
        raise Refused(f"{source.path}: column {options.label}: expected the numbers of classes, found {found}; name another: --label NAME")


def checked_label(label, where, classes):
    if label is None or label < 0 or (classes and label >= len(classes)):
        bounds = f"0 to {len(classes) - 1}" if classes else "from 0 on"
        raise Refused(f"{where}: label: expected a number of a class, {bounds}, found {label}"
                      + ("; the pictures of a test split have no labels" if label == -1 else ""))
    return str(label).encode()


def ending_of(contents, where):
    for start, ending in ENDINGS.items():
        if contents is not None and contents.startswith(start):
            return ending
    found = "none (its path alone)" if contents is None else f"bytes that begin with {contents[:4].hex(' ')}"
    raise Refused(f"{where}: expected the bytes of a JPEG or PNG file, found {found}")


def add(shard, name, contents):
    member = tarfile.TarInfo(name)
    member.size = len(contents)
    shard.addfile(member, io.BytesIO(contents))


def write_shard(source, options, path, advance):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as shard:
        for first, batch in batches(source, [f"{options.column}.bytes", options.label], BATCH):
            pictures = batch.column(options.column).to_pylist()
            labels = batch.column(options.label).to_pylist()
            for row, (picture, label) in enumerate(zip(pictures, labels), first):
                where = f"{source.path}: row {row}"
                contents = picture["bytes"] if picture else None
                add(shard, f"{row:08}.{ending_of(contents, where)}", contents)
                add(shard, f"{row:08}.cls", checked_label(label, where, options.classes))
            shard.members.clear()  # which are for readers, and would grow with the file
            advance(batch.num_rows)
