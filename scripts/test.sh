#!/usr/bin/env bash
# Set-up, build, all tests; ends with ctest's summary and exit status. Shares its objects with scripts/quickstart.sh.
# Arguments other than --every-isa and --werror are passed to ctest. MOH_PRESET selects the CMake preset (default: release),
# MOH_CUDA whether to build for a GPU, MOH_SHARED the folder of shared test data.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
  -h | --help)
    cat <<END
Usage: [MOH_PRESET=release|debug|asan] scripts/test.sh [--every-isa] [--werror] [CTEST OPTION...]

  scripts/test.sh                    everything
  scripts/test.sh --every-isa        the tests of ops, models and golden data under the other instruction sets, too:
                                     entries isa.ISA.PROGRAM for baseline, avx2, avx512, avx512_bf16, amx, amx_plain; ctest lists as
                                     skipped those that this processor lacks, and the one that all other tests run with. Without it,
                                     a new build has kernels of this processor's instruction set alone
  scripts/test.sh --werror           with warnings as errors, as continuous integration does
  scripts/test.sh -R moh_attention   tests whose name matches
  scripts/test.sh -L cpu -LE slow    by label
  MOH_PRESET=asan scripts/test.sh    under the address and undefined-behaviour sanitizers
  MOH_CUDA=ON scripts/test.sh        with CUDA kernels, too, where there is a toolkit and no GPU
  MOH_SHARED=DIR scripts/test.sh     with the shared test data in DIR (DIR/golden and so on)
END
    exit
    ;;
esac

every_isa=OFF
werror=OFF
arguments=()
for argument in "$@"; do
  case $argument in
    --every-isa) every_isa=ON ;;
    --werror) werror=ON ;;
    *) arguments+=("$argument") ;;
  esac
done

preset=${MOH_PRESET:-release}
if [ -n "${MOH_SHARED:-}" ]; then
  [ -d "$MOH_SHARED" ] || die "MOH_SHARED: expected a folder, found '$MOH_SHARED'"
  # Tests run in the build folder, so the path must be absolute.
  MOH_SHARED=$(cd "$MOH_SHARED" && pwd)
  export MOH_SHARED
fi

kernels=-DMOH_CPU_KERNELS=all
if [ "$preset" = release ] && [ $every_isa = OFF ]; then
  kernels=$(kernels_of_new release)
fi

"$root/scripts/setup.sh"
configure "$preset" ${kernels:+"$kernels"} -DMOH_BUILD_TESTS=ON -DMOH_WERROR=$werror -DMOH_TEST_EVERY_ISA=$every_isa
build "$preset"

say "testing build/$preset"
# Half of what the tests of the program take is waiting: for processes that start, signals, deadlines.
at_once=$(($(nproc) * 2))
# Several test programs share the processors: the threads of PyTorch, where a test compares with it, should sleep while they wait.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
unset MOH_CUDA MOH_UNITY # they were for this build; scripts started by the tests would read them, too
exec ctest --test-dir "$root/build/$preset" --output-on-failure --no-tests=error --parallel "$at_once" "${arguments[@]}"
