"""Where the program is that pip installed with this package."""

import pathlib


def program():
    """Path of the program `moh`, as text. FileNotFoundError: it is not there any more."""
    import importlib.metadata  # when it is needed: it takes longer to import than all else

    beside = pathlib.Path(__file__).resolve().parents[1] / "bin" / "moh"  # where pip install --target puts it
    listed = [file.locate() for file in importlib.metadata.files("moh") or ()
              if file.name == "moh" and file.parent.name in ("bin", "scripts")]
    for path in (*listed, beside):
        if pathlib.Path(path).is_file():
            return str(pathlib.Path(path).resolve())
    raise FileNotFoundError(f"moh: its program was expected at {listed[0] if listed else beside}, where it is not; install the wheel again")
