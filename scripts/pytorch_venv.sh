#!/usr/bin/env bash
# Virtual environments with PyTorch, transformers and what else the tests compare with: one of fixed versions, and one of the newest.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

torch=2.9.1
torchvision=0.24.1 # of that torch
packages=("torch==$torch" "torchvision==$torchvision" transformers==4.57.6 safetensors==0.8.0 numpy==2.4.6 tensorboard==2.21.0
  accelerate==1.15.0 'lm_eval[api]==0.4.13' sentencepiece==0.2.3 timm==1.0.22 pillow==12.0.0 scipy==1.17.1 pyarrow==26.0.1
  pytorch-fid==0.3.0 torch-fidelity==0.4.0)
# Of these the newest versions are looked for. PyTorch is not among them: it takes 8 GB, and the environment of fixed versions lends its own.
newest_packages=(transformers tokenizers safetensors numpy accelerate 'lm_eval[api]' sentencepiece timm pillow scipy)
newest_days=3
# Of these PyPI has the sources alone, pure Python.
as_sources=sqlitedict,rouge-score,word2number
fixed=$root/build/pytorch-venv

usage() {
  cat <<END
Usage: scripts/pytorch_venv.sh [FOLDER]
       scripts/pytorch_venv.sh --newest FOLDER [--beside FIXED]

Makes the virtual environment FOLDER (default: build/pytorch-venv, where the tests look for it; MOH_PYTORCH_VENV names
another to them) with ${packages[*]}. Does nothing, quickly, when it is complete. It takes 8 GB and
three minutes on a fast network, as PyPI's PyTorch for Linux brings CUDA's libraries along. No GPU is used.

  --newest  make an environment with the newest versions of ${newest_packages[*]},
            or bring one up to date that is older than $newest_days days. Without network an older one stays as it is.
  --beside  the environment of fixed versions, whose PyTorch it takes (default: build/pytorch-venv)
END
}

# lend_pytorch FIXED FOLDER: lets Python in FOLDER find the packages of FIXED, after its own.
lend_pytorch() {
  local lent own
  lent=$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  own=$("$2/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  printf '%s\n' "$lent" >"$own/moh_fixed_versions.pth"
}

# newest_venv FOLDER FIXED
newest_venv() {
  local folder=$1 fixed=$2
  local complete=$folder/moh-newest
  if [ -n "$(find "$complete" -mtime "-$newest_days" 2>/dev/null)" ]; then
    return
  fi
  "$fixed/bin/python" -c 'import torch' 2>/dev/null || die "$fixed has no PyTorch; scripts/pytorch_venv.sh '$fixed' makes it"
  say "looking for the newest Python packages for $folder"
  if [ ! -e "$complete" ]; then
    rm -rf "$folder"
    mkdir -p "$(dirname "$folder")"
    "$(system_python)" -m venv "$folder" || die "no virtual environment could be made; Debian's package python3-venv is needed"
  fi
  lend_pytorch "$fixed" "$folder"
  printf 'torch==%s\ntorchvision==%s\n' "$torch" "$torchvision" >"$folder/moh-constraints"
  # What FIXED has in an older version is installed anew here, and found first.
  if "$folder/bin/python" -m pip install -q --no-cache-dir --only-binary :all: --no-binary "$as_sources" --upgrade \
    --constraint "$folder/moh-constraints" "${newest_packages[@]}" &&
    "$folder/bin/python" -c 'import torch, transformers, tokenizers, timm, PIL, scipy, lm_eval'; then
    touch "$complete"
  elif [ -e "$complete" ]; then
    warn "the newest Python packages could not be had (the reason is above): $folder stays as it was"
  else
    die "pip could not install the newest ${newest_packages[*]}; its reason is above"
  fi
}

newest=''
folder=''
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit ;;
    --newest) newest=${2:?"--newest needs a folder"} && shift ;;
    --beside) fixed=${2:?"--beside needs a folder"} && shift ;;
    -*) die "$1: unknown option; scripts/pytorch_venv.sh --help" ;;
    *) folder=$1 ;;
  esac
  shift
done

if [ -n "$newest" ]; then
  newest_venv "$newest" "$fixed"
  say "the newest Python packages are in $newest"
  exit
fi
folder=${folder:-$fixed}
python_venv "$folder" "torch, transformers, safetensors, tensorboard, lm_eval, timm, PIL, scipy, pyarrow, pytorch_fid, torch_fidelity" "${packages[@]}" --no-binary "$as_sources"
say "${packages[*]} are in $folder"
