"""What the tests of the drawing scripts share. Importing it ends a test as skipped where Python has no matplotlib."""

import functools
import importlib.util
import os
import pathlib
import struct
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ.get("MOH_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))

if importlib.util.find_spec("matplotlib") is None:
    print(f"moh test skipped: {sys.executable} has no matplotlib")
    sys.exit(77)

sys.path.append(str(SOURCE / "tests/support"))
from forked_scripts import ForkedScripts  # noqa: E402


def path_of(name):
    return SOURCE / "scripts" / f"{name}.py"


def load(name):
    """The script as a module."""
    spec = importlib.util.spec_from_file_location(name, path_of(name))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@functools.cache
def scripts():
    """Runs them where matplotlib has been imported."""
    forked = ForkedScripts("import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot")
    unittest.addModuleCleanup(forked.__exit__)
    return forked


def run(name, *arguments):
    return scripts().run(path_of(name), *arguments)


def run_without_matplotlib(name, folder):
    """Runs the script where importing matplotlib fails."""
    (folder / "matplotlib.py").write_text("raise ImportError\n", encoding="utf-8")
    return subprocess.run([sys.executable, path_of(name), "x"], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(folder)})


def png_size(path):
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "not a PNG"
    return struct.unpack(">II", data[16:24])
