"""Started by scripts/mutate.sh in the copy of the source that it made: see there."""

import argparse
import pathlib
import re
import subprocess
import sys
import time

from mutations import MUTATIONS

FAILED = re.compile(r"^\s*\d+ - (.+) \((?:Failed|Timeout|SEGFAULT|Subprocess aborted|Bus error|ILLEGAL|NUMERICAL)\)", re.M)
BUILD = "build/release"


def build(targets):
    result = subprocess.run(["cmake", "--build", BUILD, "--target", *targets], capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"the build failed:\n{result.stdout[-3000:]}{result.stderr[-1000:]}")


def failing_tests(pattern):
    """Names of the tests that match and fail. Raises RuntimeError if none matches."""
    result = subprocess.run(
        ["ctest", "--test-dir", BUILD, "-R", pattern, "-LE", "isa", "--no-tests=error", "--timeout", "300", "-j2"],
        capture_output=True, text=True)
    failed = FAILED.findall(result.stdout)
    if result.returncode != 0 and not failed:
        raise RuntimeError(f"ctest -R '{pattern}' ran nothing:\n{result.stdout[-2000:]}{result.stderr[-1000:]}")
    return failed


def require_tests(mutation):
    listed = subprocess.run(["ctest", "--test-dir", BUILD, "-N", "-R", mutation.tests, "-LE", "isa"],
                            capture_output=True, text=True, check=True)
    if "Total Tests: 0" in listed.stdout:
        raise RuntimeError(f"{mutation.name}: no test matches '{mutation.tests}'; mend scripts/mutations.py")


def mutated(mutation):
    path = pathlib.Path(mutation.file)
    text = path.read_text()
    if text.count(mutation.text) != 1:
        raise RuntimeError(f"{mutation.name}: {mutation.file} has its text {text.count(mutation.text)} times, not once; "
                           "the source has changed: mend scripts/mutations.py")
    return path, text, text.replace(mutation.text, mutation.instead)


def try_mutation(mutation):
    """The tests that fail with the mutation."""
    path, original, broken = mutated(mutation)
    path.write_text(broken)
    try:
        build([mutation.target])
        return failing_tests(mutation.tests)
    finally:
        path.write_text(original)
        build([mutation.target])  # or its tests would fail for the next mutation, too


HEADER = """# What the tests notice

Made by `scripts/mutate.sh --table docs/benchmarks/tests.md`: each line is a way in which the source was broken
(`scripts/mutations.py`), in a copy and one at a time, and the first of the tests that failed then.
"""


def table(results):
    lines = [HEADER, "| what is broken | file | noticed by |", "| --- | --- | --- |"]
    for mutation, failed in results:
        first = f"`{failed[0]}`" if failed else "**nothing**"
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        lines.append(f"| {mutation.name} | `{mutation.file}` | {first}{more} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="mutations whose name contains this")
    parser.add_argument("--table", type=pathlib.Path, help="file for a table in Markdown")
    arguments = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if arguments.only in mutation.name]
    if not chosen:
        sys.exit(f"mutate: no mutation has '{arguments.only}' in its name")
    for mutation in chosen:
        mutated(mutation)  # checks that all of them apply, before the first build
    build(sorted({mutation.target for mutation in chosen}))
    for mutation in chosen:
        require_tests(mutation)
    broken_before = failing_tests("|".join(sorted({mutation.tests for mutation in chosen})))
    if broken_before:
        sys.exit(f"mutate: these fail without any mutation: {', '.join(broken_before)}")
    results = []
    for number, mutation in enumerate(chosen, 1):
        began = time.monotonic()
        failed = try_mutation(mutation)
        results.append((mutation, failed))
        said = f"{len(failed)} tests notice, {failed[0]} among them" if failed else "NOT NOTICED"
        print(f"[{number}/{len(chosen)}] {mutation.name}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
        if arguments.table:
            arguments.table.write_text(table(results))
    missed = [mutation.name for mutation, failed in results if not failed]
    print(f"{len(results) - len(missed)} of {len(results)} mutations noticed")
    if missed:
        sys.exit("not noticed: " + "; ".join(missed))


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(f"mutate: {error}")
