#!/usr/bin/env python3
"""Makes a wheel of an installed moh, tagged for the oldest C library that its binaries run with:

  scripts/make_wheel.py TREE --version 0.1.0 --output FOLDER

TREE has bin/, share/moh, share/man, share/bash-completion and share/doc/moh with the licences, as cmake --install makes it, and
a program that needs the C library alone. scripts/package.sh calls it. The same files make the same bytes; times are
SOURCE_DATE_EPOCH. The path of the wheel is printed.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
import zipfile

PACKAGE = pathlib.Path(__file__).resolve().parent / "python_package"
OLDEST_TIME = 315532800  # 1980, before which a zip has no times
C_LIBRARY = re.compile(r"(lib(c|m|mvec|dl|rt|pthread|resolv)|ld-linux[\w-]*)\.so\.\d+")
MODULE = re.compile(r"\.cpython-(\d+)-[\w-]+\.so$")

METADATA = """\
Metadata-Version: 2.1
Name: moh
Version: {version}
Summary: Training of transformers with Mixture-of-Head attention
License: Apache-2.0
Requires-Python: >=3.8
Provides-Extra: plots
Requires-Dist: matplotlib; extra == 'plots'
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: moh
Root-Is-Purelib: false
Tag: {tag}
"""


# A command that is a link to a script beside its modules, as pip installs no links.
LINK = """\
#!python
import pathlib
import runpy
import sys

script = pathlib.Path(__file__).resolve().parents[1] / "{script}"
sys.path[0] = str(script.parent)
runpy.run_path(str(script), run_name="__main__")
"""


class PackageError(Exception):
    """An error that the user can mend."""


def glibc_of(binary):
    """Minor version of the oldest glibc 2 that has all symbols of the binary. Refuses one that needs another library."""
    text = subprocess.run(["readelf", "--wide", "--dynamic", "--version-info", binary], check=True, capture_output=True, text=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", text)
    others = [name for name in needed if not C_LIBRARY.fullmatch(name)]
    if others:
        raise PackageError(f"{binary}: expected a binary that needs the C library alone, found that it needs {', '.join(others)}")
    return max(int(minor) for minor in re.findall(r"\bGLIBC_2\.(\d+)", text))


def python_tag(modules):
    """The Pythons that the wheel is for: one of them, where it has modules that were compiled for it."""
    found = {match.group(1) if (match := MODULE.search(path.name)) else path.name for path in modules}
    if not found:
        return "py3-none"
    if len(found) != 1 or not min(found).isdigit():
        raise PackageError(f"expected modules of one Python, NAME.cpython-VERSION-PLATFORM.so, found {', '.join(sorted(found))}")
    return "cp{0}-cp{0}".format(*found)


def command(path, tree):
    """A script whose first line pip replaces by the interpreter of the environment; a program as it is."""
    if path.is_symlink():
        return LINK.format(script=path.resolve().relative_to(tree.resolve()).as_posix()).encode()
    return re.sub(rb"\A#!.*python.*", b"#!python", path.read_bytes())


def contents(tree, version, tag, package):
    """{name in the wheel: (bytes, whether it is executable)}, without RECORD."""
    data, info = f"moh-{version}.data", f"moh-{version}.dist-info"
    files = {f"{data}/scripts/{path.name}": (command(path, tree), True) for path in (tree / "bin").iterdir()}
    for folder in ("moh", "man", "bash-completion"):
        for path in (tree / "share" / folder).rglob("*"):
            if path.is_file():
                files[f"{data}/data/{path.relative_to(tree).as_posix()}"] = (path.read_bytes(), False)
    for path in package:
        files[f"moh/{path.name}"] = (path.read_bytes(), False)
    documents = tree / "share" / "doc" / "moh"
    for path in (documents / "LICENSE", *(documents / "third_party").iterdir()):
        files[f"{info}/licenses/{path.relative_to(documents).as_posix()}"] = (path.read_bytes(), False)
    files[f"{info}/METADATA"] = (METADATA.format(version=version).encode(), False)
    files[f"{info}/WHEEL"] = (WHEEL.format(tag=tag).encode(), False)
    return files


def record(files, own_name):
    """The list of the wheel's files with their SHA-256."""
    lines = []
    for name, (data, _) in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join((*lines, f"{own_name},,\n")).encode()


def write_zip(path, files, seconds):
    with zipfile.ZipFile(path, "w") as archive:
        for name, (data, executable) in files:
            entry = zipfile.ZipInfo(name, time.gmtime(seconds)[:6])
            entry.create_system = 3  # the mode below is Unix's
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 6)


def make_wheel(tree, version, output, package):
    """Writes the wheel and returns its path. `package`: the folders of its Python package, whose files may replace earlier ones."""
    package = [path for folder in package for path in folder.iterdir() if path.suffix in (".py", ".so")]
    modules = [path for path in package if path.suffix == ".so"]
    programs = [path for path in (tree / "bin").iterdir() if path.read_bytes()[:4] == b"\x7fELF"]
    minor = max(glibc_of(path) for path in (*programs, *modules))
    tag = f"{python_tag(modules)}-manylinux_2_{minor}_{platform.machine()}"
    files = sorted(contents(tree, version, tag, package).items(), key=lambda item: (".dist-info/" in item[0], item[0]))
    own_name = f"moh-{version}.dist-info/RECORD"
    files.append((own_name, (record(files, own_name), False)))
    path = output / f"moh-{version}-{tag}.whl"
    write_zip(path, files, max(OLDEST_TIME, int(os.environ.get("SOURCE_DATE_EPOCH", OLDEST_TIME))))
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=pathlib.Path, help="the installed moh")
    parser.add_argument("--version", required=True, help="its version; with a label where it is for some machines alone: 0.1.0+cuda13.0")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder for the wheel")
    parser.add_argument("--package", type=pathlib.Path,
                        help="folder with more files of the Python package; with a module the wheel is for its version of Python")
    arguments = parser.parse_args()
    package = [PACKAGE] + ([arguments.package] if arguments.package else [])
    try:
        print(make_wheel(arguments.tree, arguments.version, arguments.output, package))
    except (PackageError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
