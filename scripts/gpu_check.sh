#!/usr/bin/env bash
# Everything that needs a GPU, in one command: tests, sanitizers, losses compared with the CPU's, training, benchmarks,
# tables. Runs from a folder of scripts/bundle.sh, without building or installing anything, or from a built source tree.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The most important first.
all_parts=(device first step attention_causal attention_full kernels tests memcheck modes losses processes train step_images
  attention_window ops_bf16 module ops_f32 memcheck_all racecheck synccheck pytorch)
skipped=77

usage() {
  cat <<END
Usage: scripts/gpu_check.sh [OPTION...]

  --out FILE        writes the tables to FILE (default: docs/benchmarks/gpu.md; in a bundle gpu.md)
  --results FOLDER  results of each part, as JSON and logs (default: runs/gpu_check), and in packed/PART.tar.gz all of a part
                    that has ended
  --quick           smaller sizes; takes minutes
  --budget SECONDS  time limit: ends the running part and starts no other; the next call runs the remaining ones
  --again           also runs parts whose results are in the results folder
  --only PART,...   these parts only
  --text PATH       training text (default: the source code and pages of this project)
  --build FOLDER    build folder of moh (default: build/release; a bundle contains the programs)
  --pytorch FOLDER  also compares with PyTorch, from this virtual environment (scripts/bench_pytorch.py)
  --sizes FILE      changes sizes (scripts/gpu_check/sizes.sh)
  --cpu-losses FILE reads the CPU's losses for part losses from this file if they were computed with the same configuration,
                    text and program; otherwise says so and trains on the CPU, for minutes (default: cpu_losses.jsonl of a
                    bundle)
  --make-cpu-losses FILE  writes that file, on any machine, and does nothing else; scripts/bundle.sh includes it in a bundle

Parts, the most important first: ${all_parts[*]}
Parts that have finished are not repeated without --again, so that the same command continues after an interruption, even if
it was killed. Results of other programs than these are moved aside. A part fails if a test or program fails or a tolerance is
exceeded; the other parts run nevertheless. MOH_BINARY and TEST_BINARY replace the programs.

Requires bash and standard tools; the tables require Python 3. Without it the results are complete, and
\`python3 scripts/gpu_check/report.py RESULTS --out FILE\` makes the tables on any other machine.

Exit codes: 0 all parts succeeded, 1 a part failed, 2 command line, 75 parts remain for the next call.
END
}

wrong() {
  printf 'error: gpu_check: %s\n' "$1" >&2
  exit 2
}

# --- The command line ------------------------------------------------------------------------------------------------

command_line="scripts/gpu_check.sh $*"
quick=false again=false budget=0 sizes='' text='' venv='' only='' out=''
cpu_losses='' make_losses='' build=$root/build/release results=$root/runs/gpu_check
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit ;;
    --quick) quick=true ;;
    --again) again=true ;;
    --out | --results | --budget | --only | --text | --build | --pytorch | --sizes | --cpu-losses | --make-cpu-losses)
      [ $# -ge 2 ] || wrong "$1: expected a value"
      case $1 in
        --out) out=$2 ;;
        --results) results=$2 ;;
        --budget) budget=$2 ;;
        --only) only=$2 ;;
        --text) text=$2 ;;
        --build) build=$2 ;;
        --pytorch) venv=$2 ;;
        --sizes) sizes=$2 ;;
        --cpu-losses) cpu_losses=$2 ;;
        --make-cpu-losses) make_losses=$2 ;;
      esac
      shift
      ;;
    *) wrong "unknown option '$1'; --help lists them" ;;
  esac
  shift
done
[[ $budget =~ ^[0-9]+$ ]] || wrong "--budget: expected seconds, found '$budget'"
[ -z "$sizes" ] || [ -f "$sizes" ] || wrong "--sizes: expected a file, found '$sizes'"
[ -z "$cpu_losses" ] || [ -f "$cpu_losses" ] || wrong "--cpu-losses: expected a file, found '$cpu_losses'"
[ -z "$text" ] || [ -e "$text" ] || wrong "--text: expected a file or folder, found '$text'"

parts=("${all_parts[@]}")
if [ -n "$only" ]; then
  IFS=, read -ra parts <<<"$only"
  for part in "${parts[@]}"; do
    [[ " ${all_parts[*]} " == *" $part "* ]] || wrong "--only: expected some of ${all_parts[*]}, found '$part'"
  done
fi
# shellcheck source=gpu_check/sizes.sh
. "$root/scripts/gpu_check/sizes.sh"
# shellcheck disable=SC1090
[ -z "$sizes" ] || . "$sizes"

# --- Programs and text, of a bundle or of a source tree ---------------------------------------------------------------

if [ -x "$root/moh" ]; then
  moh=$root/moh tests=$root/cuda_tests commit=$(cat "$root/COMMIT")
  : "${out:=$root/gpu.md}" "${text:=$root/text}"
  if [ -z "$cpu_losses" ] && [ -f "$root/cpu_losses.jsonl" ]; then cpu_losses=$root/cpu_losses.jsonl; fi
else
  moh=$build/moh tests=$build/tests/cuda_sim/cuda_tests
  commit=$(git -C "$root" describe --always --dirty --exclude '*' --abbrev=12 2>/dev/null || echo unknown)
  : "${out:=$root/docs/benchmarks/gpu.md}" "${text:=[$root/README.md,$root/core,$root/autograd,$root/models]}"
fi
moh=${MOH_BINARY:-$moh} tests=${TEST_BINARY:-$tests}
for program in "$moh" "$tests"; do
  [ -x "$program" ] || wrong "expected a program at $program, found none; build it, or say where it is with --build FOLDER"
done
# --- The parts --------------------------------------------------------------------------------------------------------

# shellcheck source=gpu_check/run_part.sh
. "$root/scripts/gpu_check/run_part.sh"
# shellcheck source=gpu_check/first.sh
. "$root/scripts/gpu_check/first.sh"
# shellcheck source=gpu_check/steps.sh
. "$root/scripts/gpu_check/steps.sh"
# shellcheck source=gpu_check/tests.sh
. "$root/scripts/gpu_check/tests.sh"
# shellcheck source=gpu_check/benchmarks.sh
. "$root/scripts/gpu_check/benchmarks.sh"

# moh's first line of output shows whether there is a GPU; if anything else fails here, the tests say what is wrong.
part_device() {
  local head smi dense code=0
  rm -f "$results/device.attention.piece" # only its log is needed
  head=$(within "$piece_seconds" "$moh" bench attention --device cuda --tokens 16 --heads 1 --kv-heads 1 --repeats 1) || code=$?
  head=${head%%$'\n'*}
  [ -n "$head" ] || return "$((code > 0 ? code : 1))"
  train_run device.attention tiny_shakespeare_dense device=cuda precision=bfloat16 train.steps=1 'data.validation=[]' \
    data.validation_fraction=0 eval.every=0 "${mode_settings[@]}" || code=$?
  smi=$(nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader 2>/dev/null) || smi=''
  dense=$(sed -n 's/\x1b\[[0-9;]*m//g; s/.*dense attention: //p' "$results/device.log" | tail -n 1)
  printf '{"gpu":%s,"nvidia_smi":%s,"dense_attention":%s,"libraries":[%s],' \
    "$(json_string "$head")" "$(json_string "$smi")" "$(json_string "${dense:-unknown}")" "$found_libraries"
  printf '"cpu":%s,"cores":%d,"commit":%s,"moh":%s,"command":%s}\n' \
    "$(json_string "$(cpu_name)")" "$(nproc)" \
    "$(json_string "$commit")" "$(json_string "$("$moh" --version)")" "$(json_string "$command_line")"
  [ -n "$dense" ] || [ "$code" -ne 0 ] || { echo "training does not say what computes dense attention" >&2 && code=1; }
  return "$code"
}

# shellcheck source=gpu_check/modes.sh
. "$root/scripts/gpu_check/modes.sh"
# shellcheck source=gpu_check/losses.sh
. "$root/scripts/gpu_check/losses.sh"
# shellcheck source=gpu_check/processes.sh
. "$root/scripts/gpu_check/processes.sh"

# --- All of it --------------------------------------------------------------------------------------------------------

exec 3>&1 # for messages of a part, whose standard output are records
if [ -n "$make_losses" ]; then
  make_cpu_losses "$make_losses"
  exit
fi
mkdir -p "$results" "$(dirname "$out")"
results=$(cd "$results" && pwd)
keep_apart
# shellcheck source=gpu_check/libraries.sh
. "$root/scripts/gpu_check/libraries.sh"
find_libraries

report() {
  python3 "$root/scripts/gpu_check/report.py" "$results" --out "$out"
}

# Whether a part has finished. Part device is repeated if it found no GPU.
is_there() {
  [ ! -e "$results/$1.left" ] || return 1
  case $1/$(status_of "$1") in
    device/failed) return 1 ;;
    */passed | */failed) ;;
    *) return 1 ;;
  esac
}

for part in "${parts[@]}"; do
  if ! $again && is_there "$part"; then
    progress "$part: is in $results already ($(status_of "$part"))"
  elif ! is_spent; then
    run_part "$part"
    # After each part, so that there are tables even if this is interrupted.
    report >/dev/null 2>&1 || true
  fi
  if [ "$part" = device ] && [ "$(status_of device)" = failed ] && [ ! -s "$results/device.jsonl" ]; then
    die "there is no GPU to check: $(last_line "$results/device.log")"
  fi
done

failed=() left=()
for part in "${parts[@]}"; do
  case $(status_of "$part") in
    failed) failed+=("$part") ;;
    skipped) say "skipped: $part: $(last_line "$results/$part.log")" ;;
  esac
  if goes_on "$part" || [ -z "$(status_of "$part")" ]; then left+=("$part"); fi
done
if report; then
  say "tables: $out"
else
  failed+=(tables)
  warn "no tables: they need Python 3. Anywhere else: python3 scripts/gpu_check/report.py $results --out gpu.md"
fi
if [ ${#failed[@]} -gt 0 ]; then
  for part in "${failed[@]}"; do
    [ "$part" = tables ] || warn "failed: $part: $(last_line "$results/$part.log") ($results/$part.log)"
  done
  die "failed: ${failed[*]}${left[*]:+; left for the next call: ${left[*]}}"
fi
if [ ${#left[@]} -gt 0 ]; then
  say "left for the next call: ${left[*]}"
  exit 75
fi
say "all is well"
