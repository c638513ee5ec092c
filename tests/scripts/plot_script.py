"""What the tests of the drawing scripts share. Importing it ends a test as skipped where Python has no matplotlib."""

import importlib.util
import os
import pathlib
import struct
import subprocess
import sys

SOURCE = pathlib.Path(os.environ.get("MOH_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))

if importlib.util.find_spec("matplotlib") is None:
    print(f"moh test skipped: {sys.executable} has no matplotlib")
    sys.exit(77)


def path_of(name):
    return SOURCE / "scripts" / f"{name}.py"


def load(name):
    """The script as a module."""
    spec = importlib.util.spec_from_file_location(name, path_of(name))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run(name, *arguments, **options):
    return subprocess.run([sys.executable, path_of(name), *map(str, arguments)], capture_output=True, text=True,
                          check=False, **options)


def run_without_matplotlib(name, folder):
    """Runs the script where importing matplotlib fails."""
    (folder / "matplotlib.py").write_text("raise ImportError\n", encoding="utf-8")
    return run(name, "x", env={**os.environ, "PYTHONPATH": str(folder)})


def png_size(path):
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "not a PNG"
    return struct.unpack(">II", data[16:24])
