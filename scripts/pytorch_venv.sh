#!/usr/bin/env bash
# A virtual environment with the versions of PyTorch, transformers, TensorBoard and lm-evaluation-harness that the tests compare with.
# Made once: 8 GB, three minutes on a fast network, as PyPI's PyTorch for Linux brings CUDA's libraries along. No GPU is used.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

packages=(torch==2.9.1 transformers==4.57.6 safetensors==0.8.0 numpy==2.4.6 tensorboard==2.21.0 accelerate==1.15.0 'lm_eval[api]==0.4.13')
# Of these PyPI has the sources alone, pure Python.
as_sources=sqlitedict,rouge-score,word2number

case ${1:-} in
  -h | --help)
    cat <<END
Usage: scripts/pytorch_venv.sh [FOLDER]

Makes the virtual environment FOLDER (default: build/pytorch-venv, where the tests look for it; MOH_PYTORCH_VENV names
another to them) with ${packages[*]}. Does nothing, quickly, when it is complete.
END
    exit
    ;;
esac

folder=${1:-$root/build/pytorch-venv}
python_venv "$folder" "torch, transformers, safetensors, tensorboard, lm_eval" "${packages[@]}" --no-binary "$as_sources"
say "${packages[*]} are in $folder"
