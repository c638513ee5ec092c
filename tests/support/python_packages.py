"""Packages of Python that not every machine has, for the tests that compare with them."""

import importlib.util
import os
import pathlib
import sys

SOURCE = pathlib.Path(os.environ.get("MOH_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
VENV = os.path.abspath(os.environ.get("MOH_PYTORCH_VENV", SOURCE / "build/pytorch-venv")) + "/bin/python"


def require(*names):
    """Begins the program again under the Python of the virtual environment MOH_PYTORCH_VENV (build/pytorch-venv), if there
    is one. Ends the test as skipped where a package is missing: call it before anything else is done."""
    if os.path.exists(VENV) and sys.executable != VENV:
        os.execv(VENV, [VENV, "-B", *sys.argv])
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        print(f"moh test skipped: no {', '.join(missing)} for Python; scripts/pytorch_venv.sh gets them", file=sys.stderr)
        sys.exit(77)
