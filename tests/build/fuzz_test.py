"""The preset of scripts/fuzz.sh: with clang a file of a layer, a reader and a fuzz target compile. All of a target would take minutes."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
SKIPPED = 77
OBJECTS = ("core/CMakeFiles/moh_core.dir/dtype.cpp.o", "tests/fuzz/CMakeFiles/moh_fuzzed_readers.dir/__/__/train/base/formats/tar_file.cpp.o",
           "tests/fuzz/CMakeFiles/fuzz_tar.dir/tar_fuzz.cpp.o")


def main():
    missing = [name for name in ("clang++", "ninja") if not shutil.which(name)]
    if missing:
        print(f"moh test skipped: {missing[0]} was not found")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        for command in (["cmake", "--preset", "fuzz", "-B", folder], ["ninja", "-C", folder, *OBJECTS]):
            run = subprocess.run(command, cwd=SOURCE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if run.returncode or " warning: " in run.stdout:
                sys.exit(run.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
