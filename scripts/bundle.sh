#!/usr/bin/env bash
# A folder with moh and its GPU tests that runs on another Linux x86-64 machine with a GPU.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
  -h | --help)
    cat <<END
Usage: scripts/bundle.sh [FOLDER]      (default: build/moh-bundle)

Builds moh and cuda_tests for compute capability 8.0 and 9.0a and puts them into FOLDER with the shared libraries that they
need other than the system's C library and CUDA's, the configurations, some text to train on, and the scripts that measure. The
other machine needs a C library as new as this one's, a GPU driver for CUDA 13, and CUDA 13's cuBLAS: a toolkit, or the
nvidia-cublas package of Python with its lib folder in LD_LIBRARY_PATH.
  FOLDER/scripts/gpu_check.sh          tests, benchmarks and tables, in one command
  FOLDER/cuda_tests                    every kernel against the CPU
  FOLDER/moh train CONFIG device=cuda
END
    exit
    ;;
esac

folder=${1:-$root/build/moh-bundle}
limit_mib=50

"$root/scripts/setup.sh"
configure bundle -DMOH_BUILD_TESTS=ON
build bundle moh cuda_tests

say "filling $folder"
rm -rf "$folder.new"
mkdir -p "$folder.new/lib"
built=$root/build/bundle
cp "$built/moh" "$built/tests/cuda_sim/cuda_tests" "$folder.new/"
strip "$folder.new/moh" "$folder.new/cuda_tests"
cp -r "$root/configs" "$folder.new/"
git -C "$root" describe --always --dirty --exclude '*' --abbrev=12 >"$folder.new/COMMIT" || echo unknown >"$folder.new/COMMIT"
mkdir "$folder.new/scripts" "$folder.new/text"
cp -r "$root"/scripts/{lib.sh,gpu_check.sh,gpu_check,bench_pytorch.py,pytorch_bench} "$folder.new/scripts/"
find "$folder.new/scripts" -name __pycache__ -prune -exec rm -r {} +
cp -r "$root"/{README.md,docs,core,autograd,ops,models,train} "$folder.new/text/"
# The C library belongs to the machine: its parts fit each other and the kernel.
ldd "$folder.new/moh" "$folder.new/cuda_tests" | awk '$2 == "=>" { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' |
  while read -r library; do cp -L "$library" "$folder.new/lib/"; done
rm -rf "$folder"
mv "$folder.new" "$folder"

mib=$(du -sm "$folder" | cut -f1)
[ "$mib" -le "$limit_mib" ] || die "$folder: expected at most $limit_mib MiB, found $mib"
# With an empty environment: what the bundle lacks must not come from this machine's search paths.
env -i "$folder/moh" --version > /dev/null || die "$folder/moh does not start"
env -i PATH="$PATH" "$folder/scripts/gpu_check.sh" --help > /dev/null || die "$folder/scripts/gpu_check.sh does not start"
say "$folder: $mib MiB"
