"""What the tests of the build know about the source tree and the build tree that ctest runs in."""

import json
import os
import pathlib
import re
import shlex
import subprocess

SOURCE_DIR = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
BUILD_DIR = pathlib.Path(os.environ["MOH_BUILD_DIR"])

LAYER = re.compile(r"moh_layer\((\S+)(?: OBJECT)?(?: COLD)?(?: WITHOUT(?: [a-z]+)+)?(?: PRECOMPILE(?: <\S+>)+)?(?: DEPENDS ([^)]*?))? SOURCES")


# Built where its headers are found, above all others.
OPTIONAL_ROOMS = ("train/apps/python",)


def layers():
    """What each layer, and each room of train/ ("train/base/io"), may include besides itself, as CMake has it, lowest first."""
    train = (SOURCE_DIR / "train/CMakeLists.txt").read_text()
    rooms = re.search(r"set\(rooms\s+([^)]*)\)", train).group(1).split()
    names = ["core", "autograd", "ops", "models", *(f"train/{room}" for room in rooms), *OPTIONAL_ROOMS]
    direct = {}
    for name in names:
        found = LAYER.search((SOURCE_DIR / name / "CMakeLists.txt").read_text())
        direct[name] = (found.group(2) or "").split()
    reached = {}
    for name in names:  # in their order: what a layer depends on is complete
        reached[name] = set(direct[name]).union(*(reached[below] for below in direct[name]))
    return reached


LAYERS = layers()


def layer_of(path):
    """The layer or room that a path from the root of the source tree lies in; None outside of all."""
    holding = [name for name in LAYERS if path.startswith(f"{name}/")]
    return max(holding, key=len, default=None)


def sources(layer):
    """C++ sources and headers of a layer, in a fixed order, without those of rooms below its folder."""
    paths = sorted(path for path in (SOURCE_DIR / layer).rglob("*") if path.suffix in (".h", ".cpp"))
    return [path for path in paths if layer_of(str(path.relative_to(SOURCE_DIR))) == layer]


class CompileCommand:
    """One compiler call of the build, as compile_commands.json records it."""

    def __init__(self, entry):
        self.directory = entry["directory"]
        self.file = pathlib.Path(entry["file"])
        self.arguments = shlex.split(entry["command"])
        self.output = pathlib.Path(self.directory, self.arguments[self.arguments.index("-o") + 1])

    @property
    def path(self):
        """The source file from the root of the source tree. A batch of files (MOH_UNITY) lies in the build tree, which has folders
        of the same names. None for other files."""
        root = BUILD_DIR if self.file.name.startswith("unity_") else SOURCE_DIR
        return str(self.file.relative_to(root)) if root in self.file.parents else None

    @property
    def target(self):
        """Name of the CMake target that the object belongs to."""
        return next(part[: -len(".dir")] for part in self.output.parts if part.endswith(".dir"))

    def compile(self, code, output):
        """Compiles `code` with the options of this call."""
        return self.run(self.options(), ["-c", "-o", str(output)], code)

    def preprocess(self, code):
        """Runs the preprocessor on `code` with the options of this call, but for the header that it includes by itself, which is long."""
        options = self.options()
        while "-include" in options:
            at = options.index("-include")
            del options[at : at + 2]
        return self.run(options, ["-E"], code)

    def options(self):
        at = self.arguments.index("-o")
        return self.arguments[:at] + [a for a in self.arguments[at + 2 :] if a not in ("-c", str(self.file))]

    def run(self, options, action, code):
        return subprocess.run([*options, "-x", "c++", "-", *action], cwd=self.directory, input=code, text=True, capture_output=True)


def compile_commands():
    with open(BUILD_DIR / "compile_commands.json") as file:
        return [CompileCommand(entry) for entry in json.load(file)]
