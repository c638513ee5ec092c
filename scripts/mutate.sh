#!/usr/bin/env bash
# Breaks the source in the ways that scripts/mutations.py lists, one at a time, in a copy, and reports which tests notice.
# Ends with an error where none does: such a test is missing. About half an hour on two cores.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
  -h | --help)
    cat <<END
Usage: scripts/mutate.sh [--only PART-OF-A-NAME] [--table FILE.md]

Copies the tracked files to build/mutate, builds the tests there, and for each mutation changes one file, builds, runs
the tests that should notice, and puts the file back. --table writes what noticed as a table in Markdown.
END
    exit
    ;;
esac

"$root/scripts/setup.sh"
copy=$root/build/mutate
arguments=()
for argument in "$@"; do
  # The table's path is the caller's.
  if [ "${previous:-}" = --table ]; then argument=$(realpath -m "$argument"); fi
  arguments+=("$argument")
  previous=$argument
done
say "copying the tracked files to $copy"
mkdir -p "$copy"
(cd "$root" && git ls-files -z | tar --null -T - -c) | tar -x -m -C "$copy"
cd "$copy"
cmake --preset release -DMOH_CUDA=OFF -DMOH_BUILD_TESTS=ON >configure.log || die "cmake failed; see $copy/configure.log"
# Several test programs share the processors, so a thread that waits should sleep instead of spin.
OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive} python3 scripts/mutate.py "${arguments[@]}"
