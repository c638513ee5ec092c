#!/usr/bin/env bash
# scripts/bleu.py in a virtual environment with sacreBLEU, which is made if there is none.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

venv=$root/build/sacrebleu-venv
python_venv "$venv" sacrebleu sacrebleu==2.6.0 >&2
exec "$venv/bin/python" -B "$root/scripts/bleu.py" "$@"
