#!/usr/bin/env bash
# The readers of files and the ops under the address and undefined-behaviour sanitizers: what untrusted input and pointer
# arithmetic go through. Everything under them: MOH_PRESET=asan scripts/test.sh.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
  -h | --help)
    cat <<END
Usage: scripts/sanitize.sh [CTEST OPTION...]

Builds the fuzz targets' readers and the tests of core, autograd and ops in build/asan, replays the corpus with seeded
mutations, and runs these tests.
END
    exit
    ;;
esac

"$root/scripts/setup.sh"
# Kernels of other instruction sets would be compiled and not run.
# shellcheck disable=SC2046 # one option, or none
MOH_CUDA=OFF configure asan $(kernels_of_new asan) -DMOH_BUILD_TESTS=ON
build asan core_tests ops_tests fuzz_replays
say "testing build/asan"
unset MOH_CUDA
exec ctest --test-dir "$root/build/asan" -L '^(fuzz|core_tests|ops_tests)$' --output-on-failure --no-tests=error \
  --parallel "$(nproc)" "$@"
