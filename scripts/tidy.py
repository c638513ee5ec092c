"""What scripts/lint.sh runs for clang-tidy: see there."""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "moh" / "clang-tidy"
TIDY = "clang-tidy-14"
RULES = b"".join((ROOT / name).read_bytes() for name in (".clang-tidy", "tests/.clang-tidy"))
# clang 14 has no std::source_location, by which the simulator says where a kernel waits.
LEFT_OUT = "tests/cuda_sim/"
FINDING = re.compile(r"^\S+:\d+:\d+: (?:warning|error): .*\[[\w.,-]+\]$", re.M)


def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()


def last_version():
    """The commit of the last version: it dates CITATION.cff. A clone may lack the tags."""
    return git("log", "-1", "--format=%H", "--", "CITATION.cff")[0]


def changed_sources(since):
    """C++ sources that changed, newest first; for a header the source of its name, which includes it first."""
    names = git("diff", "--name-only", "HEAD") + git("log", "--format=", "--name-only", f"{since}..HEAD")
    sources = (name[:-2] + ".cpp" if name.endswith(".h") else name for name in names)
    return list(dict.fromkeys(name for name in sources if name.endswith(".cpp") and not name.startswith(LEFT_OUT)))


def compile_commands(build):
    """The first command of each file, by its path below the root: kernels have one per instruction set."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        commands.setdefault(os.path.relpath(entry["file"], ROOT), entry)
    return commands


def fingerprint(entry):
    """Hash of the file, all that it includes (with comments: some silence a finding), and the rules."""
    words = shlex.split(entry["command"])
    words[words.index("-o") + 1] = "-"
    words[words.index("-c")] = "-E"
    compiler = next(i for i, word in enumerate(words) if re.fullmatch(r"(.*/)?(c\+\+|g\+\+|clang\+\+)(-\d+)?", word))
    text = subprocess.run([*words[compiler:], "-C", "-P"], capture_output=True, check=True, cwd=entry["directory"]).stdout
    return hashlib.sha256(text + RULES).hexdigest()


def findings(name, entry, commands_folder):
    """What clang-tidy says of a file; an empty list where it passes, or passed before."""
    passed = CACHE / fingerprint(entry)
    if passed.exists():
        return []
    result = subprocess.run([TIDY, "-p", str(commands_folder), "--quiet", name], capture_output=True, text=True, cwd=ROOT)
    said = FINDING.findall(result.stdout)
    if result.returncode != 0 and not said:
        said = [f"{name}: clang-tidy failed:\n{result.stdout[-2000:]}{result.stderr[-1000:]}"]
    if not said:
        CACHE.mkdir(parents=True, exist_ok=True)
        passed.touch()
    return said


def look_at(names, commands, folder, minutes):
    """Findings of the files, and how many files were looked at before the time was up."""
    end = time.monotonic() + minutes * 60

    def one(name):
        return findings(name, commands[name], folder) if time.monotonic() < end else None

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = [result for result in pool.map(one, names) if result is not None]
    return sorted({finding for result in results for finding in result}), len(results)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--since")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    commands = compile_commands(arguments.build)
    since = arguments.since or last_version()
    wanted = [os.path.relpath(name, ROOT) for name in arguments.files] or changed_sources(since)
    unknown = [name for name in arguments.files if os.path.relpath(name, ROOT) not in commands]
    if unknown:
        sys.exit(f"error: not compiled in this build, so clang-tidy cannot look at: {', '.join(unknown)}")
    names = [name for name in wanted if name in commands]
    folder = arguments.build / "tidy"  # a file is looked at once, not once per instruction set
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(list(commands.values())))
    said, count = look_at(names, commands, folder, arguments.minutes)
    for finding in said:
        print(finding)
    if count < len(names):
        print(f"warning: clang-tidy looked at {count} of {len(names)} files in {arguments.minutes:g} minutes; "
              "scripts/lint.sh looks at the others, too")
    if said:
        sys.exit(f"error: clang-tidy has {len(said)} findings; they are above")
    print(f"clang-tidy: no finding in {count} files" + ("" if arguments.files else f" that changed since {since}"))


if __name__ == "__main__":
    main()
