"""python -m moh ARGUMENTS: the program, in the place of this process."""

import os
import sys

from ._program import program

os.execv(program(), ["moh", *sys.argv[1:]])
