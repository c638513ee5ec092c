"""Where scripts find the program and the shipped configurations: in the source tree, or where cmake --install has put all three."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]  # the source tree; PREFIX/share/moh of an installation


def program():
    """The program of the source tree's build, or the one in PATH."""
    built = ROOT / "build/release/moh"
    return str(built) if built.exists() else "moh"


def shipped(argument):
    """`configs/...`, where it is not below the current folder, as the file that was shipped with the scripts; anything else as it is."""
    text = str(argument)
    file = ROOT / text
    return str(file) if text.startswith("configs/") and not pathlib.Path(text).exists() and file.exists() else text
