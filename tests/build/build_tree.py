"""What the tests of the build know about the source tree and the build tree that ctest runs in."""

import json
import os
import pathlib
import shlex
import subprocess

# A layer may include itself and those before it.
LAYERS = ("core", "autograd", "ops", "models", "train")

SOURCE_DIR = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
BUILD_DIR = pathlib.Path(os.environ["MOH_BUILD_DIR"])


def sources(folder):
    """C++ sources and headers below a folder of the source tree, in a fixed order."""
    return sorted(path for path in (SOURCE_DIR / folder).rglob("*") if path.suffix in (".h", ".cpp"))


class CompileCommand:
    """One compiler call of the build, as compile_commands.json records it."""

    def __init__(self, entry):
        self.directory = entry["directory"]
        self.file = pathlib.Path(entry["file"])
        self.arguments = shlex.split(entry["command"])
        self.output = pathlib.Path(self.directory, self.arguments[self.arguments.index("-o") + 1])

    @property
    def target(self):
        """Name of the CMake target that the object belongs to."""
        return next(part[: -len(".dir")] for part in self.output.parts if part.endswith(".dir"))

    def compile(self, code, output=None):
        """Compiles `code` with the options of this call; only checks it when there is no output file."""
        at = self.arguments.index("-o")
        arguments = self.arguments[:at] + [a for a in self.arguments[at + 2 :] if a not in ("-c", str(self.file))]
        arguments += ["-x", "c++", "-"] + (["-c", "-o", str(output)] if output else ["-fsyntax-only"])
        return subprocess.run(arguments, cwd=self.directory, input=code, text=True, capture_output=True)


def compile_commands():
    with open(BUILD_DIR / "compile_commands.json") as file:
        return [CompileCommand(entry) for entry in json.load(file)]
