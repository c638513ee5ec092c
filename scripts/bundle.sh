#!/usr/bin/env bash
# Makes a folder with moh and its GPU tests that runs on another Linux x86-64 machine with a GPU.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<END
Usage: scripts/bundle.sh [OPTION...] [FOLDER]      (default: build/moh-bundle)

  --without-cudnn    builds without cuDNN: moh's own kernels compute dense attention. By default cuDNN's headers and its
                     front end are required; scripts/setup.sh fetches the latter
  --cpu-losses FILE  includes the losses that FOLDER/scripts/gpu_check.sh --make-cpu-losses FILE computed here, in an
                     earlier bundle of the same sources and text, so that the other machine need not train on its CPU

Builds moh and cuda_tests for compute capability 8.0 and 9.0a and copies them to FOLDER with the shared libraries that they
need (except the C library and CUDA's), the configurations, a training text, and the scripts for tests and benchmarks. The
other machine needs a C library at least as new as this one's, a GPU driver for CUDA 13, and CUDA 13's cuBLAS; for attention
through cuDNN also cuDNN 9, NVRTC and the CUDA runtime. They come with a CUDA toolkit, or as the Python packages
nvidia-cublas, nvidia-cudnn-cu13, nvidia-cuda-nvrtc and nvidia-cuda-runtime; several GPUs need NCCL 2 (libnccl2, or the
package nvidia-nccl-cu13). gpu_check.sh finds either; programs started without it may need their folders in LD_LIBRARY_PATH.
  FOLDER/scripts/gpu_check.sh          tests, benchmarks and tables, in one command
  FOLDER/cuda_tests                    every kernel against the CPU
  FOLDER/moh train CONFIG device=cuda
END
}

wrong() {
  printf 'error: bundle: %s\n' "$1" >&2
  exit 2
}

folder='' cudnn=ON cpu_losses=''
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit ;;
    --without-cudnn) cudnn=OFF ;;
    --cpu-losses)
      [ -f "${2:-}" ] || wrong "--cpu-losses: expected a file, found '${2:-}'"
      cpu_losses=$2
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
limit_mib=50

"$root/scripts/setup.sh"
# --fresh: cached paths of an earlier call, above all those of CUDA and cuDNN, may be outdated.
configure bundle --fresh -DMOH_BUILD_TESTS=ON "-DMOH_CUDNN=$cudnn"
build bundle moh cuda_tests

say "filling $folder"
rm -rf "$folder.new"
mkdir -p "$folder.new/lib"
built=$root/build/bundle
cp "$built/moh" "$built/tests/cuda_sim/cuda_tests" "$folder.new/"
strip "$folder.new/moh" "$folder.new/cuda_tests"
cp -r "$root/configs" "$folder.new/"
[ -z "$cpu_losses" ] || cp "$cpu_losses" "$folder.new/cpu_losses.jsonl"
git -C "$root" describe --always --dirty --exclude '*' --abbrev=12 >"$folder.new/COMMIT" || echo unknown >"$folder.new/COMMIT"
mkdir "$folder.new/scripts" "$folder.new/text"
cp -r "$root"/scripts/{lib.sh,gpu_check.sh,gpu_check,bench_pytorch.py,model_settings.py,pytorch_bench} "$folder.new/scripts/"
find "$folder.new/scripts" -name __pycache__ -prune -exec rm -r {} +
cp -r "$root"/{README.md,docs,core,autograd,ops,models,train} "$folder.new/text/"
# The C library is not copied: it has to match the other machine's loader and kernel.
ldd "$folder.new/moh" "$folder.new/cuda_tests" | awk '$2 == "=>" { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' |
  while read -r library; do cp -L "$library" "$folder.new/lib/"; done
rm -rf "$folder"
mv "$folder.new" "$folder"

mib=$(du -sm "$folder" | cut -f1)
[ "$mib" -le "$limit_mib" ] || die "$folder: expected at most $limit_mib MiB, found $mib"
# With an empty environment, so that a library missing in the bundle is not found through this machine's search paths.
env -i "$folder/moh" --version > /dev/null || die "$folder/moh does not start"
env -i PATH="$PATH" "$folder/scripts/gpu_check.sh" --help > /dev/null || die "$folder/scripts/gpu_check.sh does not start"
say "$folder: $mib MiB"
