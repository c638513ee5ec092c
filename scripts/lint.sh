#!/usr/bin/env bash
# Format, shell scripts, and clang-tidy on what changed. Ends with an error where one of them has a finding.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
  -h | --help)
    cat <<END
Usage: scripts/lint.sh [--since COMMIT] [--minutes N] [FILE.cpp...]

clang-format over every C++ and CUDA file, shellcheck over every shell script, and clang-tidy over the C++ files that
are named or, without names, that changed since COMMIT (default: the last version): those of the newest commits first,
for at most N minutes (default: no limit). A file that passed before is not looked at again while it and all that it
includes stay the same.
END
    exit
    ;;
esac

"$root/scripts/setup.sh" --checks
cd "$root"

say "clang-format"
git ls-files -z '*.cpp' '*.h' '*.cu' '*.cuh' | xargs -0 clang-format-14 --dry-run -Werror ||
  die "not formatted as .clang-format says; the places are above. To mend: clang-format-14 -i FILE"

say "shellcheck"
git ls-files -z '*.sh' .ci/run | xargs -0 shellcheck --external-sources ||
  die "shellcheck has findings; they are above"

# A folder of its own: clang cannot read the headers that GCC precompiled for build/release.
say "clang-tidy"
mkdir -p build
cmake --preset debug -B build/lint -DMOH_CUDA=OFF -DMOH_BUILD_TESTS=ON >build/lint.log ||
  die "cmake failed; see $root/build/lint.log"
exec python3 -B scripts/tidy.py build/lint "$@"
