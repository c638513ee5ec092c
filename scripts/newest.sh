#!/usr/bin/env bash
# The tests that compare moh with what others wrote, against the newest versions of it.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

newest=${MOH_NEWEST_VENV:-$root/build/newest-venv}
fixed=${MOH_PYTORCH_VENV:-$root/build/pytorch-venv}
preset=${MOH_PRESET:-release}
report=''
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      cat <<END
Usage: scripts/newest.sh [--report FILE]

Runs the tests with the label \`compares\` of the build in build/$preset against the newest transformers, tokenizers, timm, Pillow,
SciPy and lm-evaluation-harness (scripts/pytorch_venv.sh --newest, into the folder that MOH_NEWEST_VENV names; default:
build/newest-venv; PyTorch is that of MOH_PYTORCH_VENV). A test that fails there is a warning, not an error: versions that are
not out yet when moh is written may differ. The exit code is 0, unless the tests could not be run.

  --report FILE  also write the warnings to FILE, a line each; it is empty if there are none
END
      exit
      ;;
    --report) report=${2:?"--report needs a file"} && shift ;;
    *) die "$1: unknown option; scripts/newest.sh --help" ;;
  esac
  shift
done

build_folder=$root/build/$preset
[ -e "$build_folder/CTestTestfile.cmake" ] || die "$build_folder: no build with tests; scripts/test.sh makes it"
"$root/scripts/pytorch_venv.sh" --newest "$newest" --beside "$fixed"

# The environment has its own copies of what the fixed one has in an older version. The same harness would say of the newest transformers
# what hf_export_test does, for a fifth of the time of all.
left_out=()
compgen -G "$newest/lib/python3*/site-packages/lm_eval-*.dist-info" >/dev/null || left_out=(-LE '^newer-lm_eval$')

say "comparing with the newest packages"
results=$(mktemp)
trap 'rm -f "$results"' EXIT
(cd "$build_folder" &&
  MOH_PYTORCH_VENV=$newest ctest -L compares "${left_out[@]}" --parallel "$(nproc)" --output-on-failure --output-junit "$results") || true
warnings=$("$newest/bin/python" -B "$root/scripts/newest_report.py" "$results") || die "the results cannot be read"
if [ -n "$report" ]; then
  printf '%s' "${warnings:+$warnings
}" >"$report"
fi
if [ -n "$warnings" ]; then
  while IFS= read -r line; do warn "$line"; done <<<"$warnings"
else
  say "nothing differs with the newest packages"
fi
