#!/usr/bin/env bash
# Mutation testing: applies each mutation of scripts/mutations.py to a copy of the source and reports which tests fail.
# Ends with an error if a mutation fails no test: then a test is missing. About half an hour on two cores.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
  -h | --help)
    cat <<END
Usage: scripts/mutate.sh [--only PART-OF-A-NAME] [--table FILE.md]

Copies the tracked files to build/mutate, builds the tests there, and for each mutation changes one file, builds, runs
the tests that should fail, and restores the file. --table writes the failing tests as a table in Markdown.
END
    exit
    ;;
esac

"$root/scripts/setup.sh"
copy=$root/build/mutate
arguments=()
for argument in "$@"; do
  # The table's path is relative to the caller's folder.
  if [ "${previous:-}" = --table ]; then argument=$(realpath -m "$argument"); fi
  arguments+=("$argument")
  previous=$argument
done
say "copying the tracked files to $copy"
mkdir -p "$copy"
(cd "$root" && git ls-files -z | tar --null -T - -c) | tar -x -m -C "$copy"
cd "$copy"
cmake --preset release -DMOH_CPU_KERNELS=native -DMOH_CUDA=OFF -DMOH_BUILD_TESTS=ON >configure.log || die "cmake failed; see $copy/configure.log"
python3 scripts/mutate.py "${arguments[@]}"
