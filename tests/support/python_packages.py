"""Packages of Python that not every machine has, for the tests that compare with them."""

import atexit
import importlib.util
import os
import pathlib
import sys
import unittest

SOURCE = pathlib.Path(os.environ.get("MOH_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
VENV = os.path.abspath(os.environ.get("MOH_PYTORCH_VENV", SOURCE / "build/pytorch-venv")) + "/bin/python"
SKIPPED = 77  # to ctest

_ended_with = []  # the exit code of main()


def require(*names):
    """Begins the program again under the Python of the virtual environment MOH_PYTORCH_VENV (build/pytorch-venv), if there
    is one. Ends the test as skipped where a package is missing: call it before anything else is done."""
    if os.path.exists(VENV) and sys.executable != VENV:
        os.execv(VENV, [VENV, "-B", *sys.argv])
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        print(f"moh test skipped: no {', '.join(missing)} for Python; scripts/pytorch_venv.sh gets them", file=sys.stderr)
        sys.exit(SKIPPED)
    if "transformers" in names:
        # It would import scikit-learn, with SciPy and pandas, for one way to generate that no test uses: as much work as PyTorch's import.
        sys.modules["sklearn"] = None
    atexit.register(_end_at_once)  # the first to be registered is the last to run


def _end_at_once():
    """Ends a process without taking its modules apart, which for those of PyTorch and transformers takes a second."""
    if _ended_with:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_ended_with[0])


def main(**arguments):
    """Runs the tests of a file as unittest.main() does; all of them skipped is told to ctest."""
    result = unittest.main(module="__main__", exit=False, **arguments).result
    all_skipped = result.wasSuccessful() and 0 < result.testsRun == len(result.skipped)
    _ended_with.append(SKIPPED if all_skipped else int(not result.wasSuccessful()))
    sys.exit(_ended_with[0])
