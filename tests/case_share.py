"""A share of the cases of a test program in one process: of MOH_TEST_SHARE=2/8 the second, and each eighth after it."""

import os
import re
import subprocess
import sys
import tempfile

SKIPPED = 77


def names_of(program, *chosen):
    """Names of the program's cases, or of those that are chosen. The program's exit code is their number."""
    listed = subprocess.run([program, "--list-test-names-only", *chosen], stdout=subprocess.PIPE, text=True, check=False).stdout
    return [name for name in listed.splitlines() if name]


def main():
    program = os.environ["MOH_TEST_PROGRAM"]
    share, shares = map(int, os.environ["MOH_TEST_SHARE"].split("/"))
    every = names_of(program)
    if not every:
        sys.exit(f"{program}: expected cases, found none")
    names = every[share - 1::shares]
    if not names:
        print(f"skipped: all {len(every)} cases are in the shares before")
        return SKIPPED
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(re.sub(r"([\\,\[\]])", r"\\\1", name) + "\n" for name in names)  # they mean something else in a filter
        file.flush()
        chosen = ["--input-file", file.name]
        if sorted(names_of(program, *chosen)) != sorted(names):
            sys.exit(f"{program}: expected a filter for {len(names)} cases, found {names_of(program, *chosen)}")
        print(f"{program}: {len(names)} of {len(every)} cases", flush=True)
        return subprocess.run([program, *chosen], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
