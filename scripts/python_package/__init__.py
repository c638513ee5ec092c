"""moh: moh.program() is the path of the program, and `python -m moh` runs it."""

from ._program import program

__all__ = ["program"]
