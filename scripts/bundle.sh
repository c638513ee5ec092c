#!/usr/bin/env bash
# Makes a folder with moh and its GPU tests that runs on another Linux x86-64 machine with a GPU, and an archive of it.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

limit=$((45 * 1000 * 1000)) # bytes of all files

usage() {
  cat <<END
Usage: scripts/bundle.sh [OPTION...] [FOLDER]      (default: build/moh-bundle)

  --without-cudnn       builds without cuDNN: moh's own kernels compute dense attention. By default cuDNN's headers and its
                        front end are required; scripts/setup.sh fetches the latter
  --without-cpu-losses  leaves out the losses that the GPU's are compared with. They take minutes here, or later on the other
                        machine's CPU. Losses of an earlier bundle in FOLDER are taken where they are of the same programs
  --from BUILD          takes the program of this build folder and compiles nothing, to see what a bundle weighs; CPU kernels
                        beyond AVX2, which a bundle lacks, are left out of the sum

Builds moh, with cuda_tests in the same program, for compute capability 8.0 and 9.0a and with CPU kernels up to AVX2, and copies it
to FOLDER with the shared libraries that it needs (except the C library and CUDA's), the configurations, a training text, the losses
on this CPU, and the scripts for tests and benchmarks; prints what is how large, and ends with an error above $((limit / 1000000)) MB.
FOLDER.tar.xz has it all.
The other machine needs a C library at least as new as this one's, a GPU driver for CUDA 13, and CUDA 13's cuBLAS; for attention
through cuDNN also cuDNN 9, NVRTC and the CUDA runtime. They come with a CUDA toolkit, or as the Python packages
nvidia-cublas, nvidia-cudnn-cu13, nvidia-cuda-nvrtc and nvidia-cuda-runtime; several GPUs need NCCL 2 (libnccl2, or the
package nvidia-nccl-cu13). gpu_check.sh finds either; programs started without it may need their folders in LD_LIBRARY_PATH.
docs/gpu_hour.md says what to do with it.
  FOLDER/scripts/gpu_check.sh          tests, benchmarks and tables, in one command
  FOLDER/cuda_tests                    every kernel against the CPU
  FOLDER/moh train CONFIG device=cuda
END
}

wrong() {
  printf 'error: bundle: %s\n' "$1" >&2
  exit 2
}

folder='' cudnn=ON losses=true built=''
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit ;;
    --without-cudnn) cudnn=OFF ;;
    --without-cpu-losses) losses=false ;;
    --from)
      [ -d "${2:-}" ] || wrong "--from: expected a build folder, found '${2:-}'"
      built=$(cd "$2" && pwd)
      shift
      ;;
    -*) wrong "unknown option '$1'; --help lists them" ;;
    *)
      [ -z "$folder" ] || wrong "expected one folder, found '$folder' and '$1'"
      folder=$1
      ;;
  esac
  shift
done
folder=${folder:-$root/build/moh-bundle}

# Shared libraries of a program that are neither the C library's, which have to match the other machine's loader and kernel,
# nor virtual.
libraries_of() {
  ldd "$@" | awk '$2 == "=>" { print $3 }' | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so'
}

# fill FOLDER: all but the losses.
fill() {
  local to=$1 program=$built/tests/cuda_sim/moh_with_tests library
  [ -x "$program" ] || die "expected a program at $program; it is built with CUDA"
  mkdir -p "$to/lib" "$to/scripts" "$to/text"
  strip -o "$to/moh" "$program"
  # shellcheck disable=SC2016
  printf '#!/bin/sh\nexec "$(dirname "$0")/moh" cuda_tests "$@"\n' >"$to/cuda_tests"
  chmod +x "$to/cuda_tests"
  libraries_of "$program" | while read -r library; do strip --strip-unneeded -o "$to/lib/$(basename "$library")" "$library"; done
  cp -r "$root/configs" "$to/"
  git -C "$root" describe --always --dirty --exclude '*' --abbrev=12 >"$to/COMMIT" || echo unknown >"$to/COMMIT"
  cp -r "$root"/scripts/{lib.sh,gpu_check.sh,gpu_check,bench_pytorch.py,model_settings.py,resolved_config.py,pytorch_bench} "$to/scripts/"
  cp "$root/docs/gpu_hour.md" "$to/"
  cp -r "$root"/{README.md,core,autograd,models} "$to/text/"
  find "$to/scripts" -name __pycache__ -prune -exec rm -r {} +
}

# Bytes of the files of a folder, or of a file.
bytes_of() { find "$1" -type f -printf '%s\n' | awk '{ sum += $1 } END { printf "%d\n", sum }'; }

# Bytes of the device code in a program, compressed as it is; 0 for one without.
device_code_of() {
  local size
  size=$(objdump -h "$1" | awk '$2 == ".nv_fatbin" { print $3 }')
  echo $((16#${size:-0}))
}

# Bytes of the CPU kernels beyond AVX2 in the objects of a build folder.
kernels_beyond_avx2() {
  find "$1" -path '*/moh_*_kernels_A*.dir/*' ! -path '*_kernels_Avx2.dir/*' -name '*.o' -exec size {} + |
    awk '$1 ~ /^[0-9]+$/ { sum += $1 + $2 } END { printf "%d\n", sum }'
}

megabytes() { awk -v bytes="$1" 'BEGIN { printf "%.1f MB", bytes / 1e6 }'; }

# weigh FOLDER LESS: prints what is in it by size; dies if that is above the limit after LESS bytes are taken off.
weigh() {
  local name all
  for name in "$1"/*; do
    printf '%d %s %s\n' "$(bytes_of "$name")" "$(megabytes "$(bytes_of "$name")")" "${name##*/}"
  done | sort -rn | sed 's/^[0-9]* /   /'
  say "device code in moh: $(megabytes "$(device_code_of "$1/moh")")"
  [ "$2" -eq 0 ] || say "CPU kernels beyond AVX2, which do not count: $(megabytes "$2")"
  all=$(($(bytes_of "$1") - $2))
  [ "$all" -le "$limit" ] || die "$1: expected at most $(megabytes "$limit"), found $(megabytes "$all"); what is in it is listed above"
  say "$1: $(megabytes "$all")"
}

less=0
if [ -n "$built" ]; then
  less=$(kernels_beyond_avx2 "$built")
else
  "$root/scripts/setup.sh"
  # --fresh: cached paths of an earlier call, above all those of CUDA and cuDNN, may be outdated.
  configure bundle --fresh -DMOH_BUILD_TESTS=ON "-DMOH_CUDNN=$cudnn"
  build bundle moh_with_tests
  built=$root/build/bundle
fi

say "filling $folder"
rm -rf "$folder.new"
fill "$folder.new"
weigh "$folder.new" "$less" # before minutes are spent on losses
# With an empty environment, so that a library missing in the bundle is not found through this machine's search paths.
env -i "$folder.new/moh" --version > /dev/null || die "$folder.new/moh does not start"
env -i PATH="$PATH" "$folder.new/scripts/gpu_check.sh" --help > /dev/null || die "$folder.new/scripts/gpu_check.sh does not start"
if $losses; then
  # By the very program that is in the bundle, as the GPU's losses are compared with those of no other.
  earlier=()
  if [ -f "$folder/cpu_losses.jsonl" ]; then earlier=(--cpu-losses "$folder/cpu_losses.jsonl"); fi
  "$folder.new/scripts/gpu_check.sh" "${earlier[@]}" --make-cpu-losses "$folder.new/cpu_losses.jsonl"
fi
rm -rf "$folder"
mv "$folder.new" "$folder"
tar -C "$(dirname "$folder")" -cJf "$folder.tar.xz.new" "$(basename "$folder")"
mv "$folder.tar.xz.new" "$folder.tar.xz"
say "$folder: $(megabytes "$(bytes_of "$folder")"); $folder.tar.xz: $(megabytes "$(bytes_of "$folder.tar.xz")")"
