#!/usr/bin/env bash
# Everything that needs a GPU, in one command: tests, sanitizers, losses compared with the CPU's, training, benchmarks,
# tables. Runs from a folder of scripts/bundle.sh, without building or installing anything, or from a built source tree.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The most important first.
all_parts=(device tests modes losses processes step train step_images attention_causal attention_full attention_window ops_bf16 module
  ops_f32 memcheck racecheck synccheck pytorch)
skipped=77

usage() {
  cat <<END
Usage: scripts/gpu_check.sh [OPTION...]

  --out FILE        writes the tables to FILE (default: docs/benchmarks/gpu.md; in a bundle gpu.md)
  --results FOLDER  results of each part, as JSON and logs (default: runs/gpu_check)
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
Parts that have finished are not repeated without --again, so that the same command continues after an interruption. A part
fails if a test or program fails or a tolerance is exceeded; the other parts run nevertheless. MOH_BINARY and TEST_BINARY
replace the programs.

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
  : "${out:=$root/docs/benchmarks/gpu.md}" "${text:=[$root/README.md,$root/docs,$root/core,$root/autograd,$root/ops,$root/models,$root/train]}"
fi
moh=${MOH_BINARY:-$moh} tests=${TEST_BINARY:-$tests}
for program in "$moh" "$tests"; do
  [ -x "$program" ] || wrong "expected a program at $program, found none; build it, or say where it is with --build FOLDER"
done
# --- How a part is run ------------------------------------------------------------------------------------------------

progress() { printf '[%5d s] %s\n' "$SECONDS" "$*"; }

json_string() {
  local text=${1//\\/\\\\}
  printf '"%s"' "$(tr '\n\t\r' '   ' <<<"${text//\"/\\\"}" | tr -d '\000-\037' | sed 's/ *$//')"
}

cpu_name() { sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1; }

remaining() { echo $((budget - SECONDS)); }

# Runs a program of a part, whose standard output are records (or the log, if redirected); ends when the budget is spent.
limited() {
  { printf '\n$'; printf ' %q' "$@"; echo; } >&2
  if [ "$budget" -gt 0 ]; then
    [ "$(remaining)" -gt 0 ] || return 1
    timeout -k 10 "$(remaining)" "$@"
  else
    "$@"
  fi
}

# piece PART.NAME COMMAND...: prints the records of a command; runs it unless it finished before the part was cut off.
piece() {
  local file=$results/$1.piece
  shift
  if [ ! -f "$file" ]; then
    limited "$@" >"$file.new" || return
    mv "$file.new" "$file"
  fi
  cat "$file"
}

# The last line of a log that is not blank or a rule, without colours.
last_line() { sed 's/\x1b\[[0-9;]*m//g' "$1" | grep -v '^[[:space:]=-]*$' | tail -n 1; }

status_of() { sed -n 's/.*"status":"\([a-z ]*\)".*/\1/p' "$results/$1.json" 2>/dev/null || true; }

write_status() {
  local part=$1 status=$2 seconds=$3 reason=$4
  printf '{"part":"%s","status":"%s","seconds":%d,"date":"%s","reason":%s}\n' "$part" "$status" "$seconds" \
    "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(json_string "$reason")" >"$results/$part.json"
}

# Runs part_NAME, which writes records to standard output and its progress to standard error.
run_part() {
  local part=$1 code=0 began=$SECONDS status=failed reason='' log=$results/$1.log
  progress "$part ..."
  # Pieces that finished before the part was cut off are kept.
  if $again || [ "$(status_of "$part")" != 'cut off' ]; then rm -f "$results/$part".*.piece; fi
  rm -f "$results/$part.json"
  "part_$part" >"$results/$part.jsonl" 2>"$log" || code=$?
  if [ "$code" -eq 0 ]; then
    status=passed
  elif [ "$code" -eq "$skipped" ]; then
    status=skipped
  elif [ "$budget" -gt 0 ] && [ "$(remaining)" -le 0 ]; then
    status='cut off'
  fi
  [ "$code" -eq 0 ] || reason=$(last_line "$log")
  write_status "$part" "$status" $((SECONDS - began)) "$reason"
  progress "$part: $status, $((SECONDS - began)) s${reason:+: $reason}"
}

# --- The parts --------------------------------------------------------------------------------------------------------

# moh's first line of output shows whether there is a GPU; if anything else fails here, the tests say what is wrong.
part_device() {
  local head smi dense code=0
  rm -f "$results/device.attention.piece" # only its log is needed
  head=$(limited "$moh" bench attention --device cuda --tokens 16 --heads 1 --kv-heads 1 --repeats 1) || code=$?
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

# Every case of every kernel, on the device and on the CPU. Skipped cases count as a failure.
part_tests() {
  local code=0 whole=$results/tests.whole.piece # exists after a failure
  if [ ! -f "$whole" ]; then
    limited timeout -k 10 "$tests_seconds" "$tests" "$test_filter" >&2 || code=$?
    count_tests "$results/tests.log"
    ! grep -q 'moh test skipped' "$results/tests.log" || { echo "tests were skipped: there is no GPU" >&2 && return 1; }
    ! grep -q 'moh test left out' "$results/tests.log" || { echo "cases were left out: see tests.log" >&2 && return 1; }
    if [ "$code" -eq 0 ] || is_spent; then return "$code"; fi
    count_tests "$results/tests.log" >"$whole"
    : >"$results/tests.alone.log"
  else
    cat "$whole"
  fi
  one_by_one
  return 1
}

is_spent() { [ "$budget" -gt 0 ] && [ "$(remaining)" -le 0 ]; }

# An illegal address or a hanging kernel makes all later tests of the process fail. So each test is run again, in a process
# of its own that waits for each kernel (MOH_CUDA_SYNC): a record and a log say which ones fail.
one_by_one() {
  local name names pattern result broken done=$results/tests.alone.piece log=$results/tests.alone.log
  touch "$done"
  mapfile -t names < <("$tests" --list-test-names-only "$test_filter")
  for name in "${names[@]}"; do
    if [ -z "$name" ] || grep -qxF -e "passed $name" -e "failed $name" "$done"; then continue; fi
    pattern=$(printf '%s' "$name" | sed 's/[],[\\]/\\&/g') # special characters in Catch2's patterns
    result=passed
    MOH_CUDA_SYNC=1 limited timeout -k 10 "$test_seconds" "$tests" "$pattern" >"$log.new" 2>&1 || result=failed
    if is_spent; then return; fi
    echo "$result $name" >>"$done"
    [ "$result" = passed ] || { printf '\n#### %s\n' "$name" && cat "$log.new"; } >>"$log"
  done
  rm -f "$log.new"
  broken=$(sed -n 's/^failed //p' "$done")
  broken=${broken//$'\n'/; }
  printf '{"alone":%d,"fail_alone":%s}\n' "$(wc -l <"$done")" "$(json_string "$broken")"
  echo "of $(wc -l <"$done") tests, each alone, fail: ${broken:-none} ($log)" >&2
}

count_tests() {
  local summary
  summary=$(grep -E '^(All tests passed|test cases:|assertions:)' "$1" | tr '\n' ';')
  printf '{"summary":%s}\n' "$(json_string "${summary%;}")"
}

sanitize() {
  local tool=$1 code=0
  shift
  if ! command -v compute-sanitizer >/dev/null && [ ! -x /usr/local/cuda/bin/compute-sanitizer ]; then
    echo "compute-sanitizer was not found: it is part of the CUDA toolkit" >&2
    return "$skipped"
  fi
  PATH=$PATH:/usr/local/cuda/bin limited compute-sanitizer --tool "$tool" --error-exitcode 99 "$@" "$tests" \
    "$sanitizer_filter" >&2 || code=$?
  count_tests "$results/$tool.log"
  return "$code"
}
# The tool reports cudaErrorNotReady of cudaEventQuery as an error, which moh expects for unfinished work.
part_memcheck() { sanitize memcheck --report-api-errors no; }
part_racecheck() { sanitize racecheck; }
part_synccheck() { sanitize synccheck; }

# train_run PART.NAME CONFIG SETTING...: a training run whose metrics are written to $results/PART.NAME.piece.
train_run() {
  local file=$results/$1.piece folder=$results/$1.run config=$2 code=0
  shift 2
  [ ! -f "$file" ] || return 0
  limited "$moh" train "$root/configs/llm/$config.yaml" --overwrite "data.train=$text" "output.dir=$folder" checkpoint.every=0 \
    sample.tokens=0 "$@" >&2 || code=$?
  [ "$code" -ne 0 ] || mv "$folder/metrics.jsonl" "$file"
  rm -rf "$folder"
  return "$code"
}

# awk function: the number that the member NAME has in a line of JSON.
# shellcheck disable=SC2016
awk_value='function value(name) {
  if (!match($0, "\"" name "\":[-+0-9.eE]+")) return "none"
  return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0
}
function difference(a, b) { return a == "none" || b == "none" || b == 0 ? 1e9 : (a > b ? a - b : b - a) / b }'

# Each model without CUDA graph, profiled by op, and with it, where ops cannot be timed.
part_step() {
  local model
  for model in "${models[@]}"; do
    piece "step.$model" "$moh" bench step "$root/configs/llm/$model.yaml" device=cuda precision=bfloat16 "${model_settings[@]}" \
      --random-data --steps "$bench_steps" --profile --json || return
    piece "step.${model}_graph" "$moh" bench step "$root/configs/llm/$model.yaml" device=cuda precision=bfloat16 \
      "${model_settings[@]}" cuda_graph=true --random-data --steps "$bench_steps" --json || return
  done
}

# The same of the image classifiers, without a graph and with it.
part_step_images() {
  local model
  for model in "${image_models[@]}"; do
    piece "step_images.$model" "$moh" bench step "$root/scripts/gpu_check/images/$model.yaml" device=cuda precision=bfloat16 \
      "${image_settings[@]}" --random-data --steps "$bench_steps" --profile --json || return
    piece "step_images.${model}_graph" "$moh" bench step "$root/scripts/gpu_check/images/$model.yaml" device=cuda precision=bfloat16 \
      "${image_settings[@]}" cuda_graph=true --random-data --steps "$bench_steps" --json || return
  done
}

# Training must at least reduce the loss.
part_train() {
  local model
  for model in "${models[@]}"; do
    train_run "train.$model" "$model" device=cuda precision=bfloat16 "${model_settings[@]}" "train.steps=$train_steps" \
      'data.validation=[]' data.validation_fraction=0 eval.every=0 log.every=10 "${train_settings[@]}" || return
    printf '{"model":"%s"}\n' "$model"
    cat "$results/train.$model.piece"
    awk -v steps="$train_steps" "$awk_value"'
      /"kind":"train"/ { loss = value("loss"); if (first == "") first = loss; step = value("step") }
      END { exit !(step == steps && loss != "none" && loss < first) }' "$results/train.$model.piece" ||
      { echo "$model: the loss does not fall in $train_steps steps" >&2 && return 1; }
  done
}

bench_attention() {
  local mask=$1 length
  for length in "${attention_lengths[@]}"; do
    piece "attention_$mask.$length" "$moh" bench attention --device cuda --dtype bf16 --tokens "${length%:*}" --batch "${length#*:}" "--$mask" \
      --listed --active "$shares" "${attention_shape[@]}" --json || return
  done
}
part_attention_causal() { bench_attention causal; }
part_attention_full() { bench_attention full; }

# Aggregated attention of TransNeXt, in sizes tokens:images:heads.
part_attention_window() {
  local size tokens images heads
  for size in "${window_sizes[@]}"; do
    IFS=: read -r tokens images heads <<<"$size"
    piece "attention_window.$size" "$moh" bench attention --device cuda --dtype bf16 --tokens "$tokens" --batch "$images" \
      --heads "$heads" --active "$shares" "${window_shape[@]}" --json || return
  done
}

part_module() {
  local length
  for length in "${module_lengths[@]}"; do
    piece "module.$length" "$moh" bench module --device cuda --dtype bf16 --tokens "${length%:*}" --batch "${length#*:}" --causal --full \
      --active "$shares" "${module_shape[@]}" --json || return
  done
}

part_ops_bf16() { limited "$moh" bench ops --device cuda --dtype bf16 "${ops_options[@]}" --json; }
part_ops_f32() { limited "$moh" bench ops --device cuda --dtype f32 "${ops_options[@]}" --json; }

part_pytorch() {
  if [ -z "$venv" ]; then
    echo "not asked for; --pytorch FOLDER compares" >&2
    return "$skipped"
  fi
  local case
  for case in "${pytorch_cases[@]}"; do
    piece "pytorch.$case" python3 "$root/scripts/bench_pytorch.py" --device cuda --venv "$venv" --moh "$moh" --json --cases "$case" \
      "${pytorch_options[@]}" || return
  done
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
# shellcheck source=gpu_check/libraries.sh
. "$root/scripts/gpu_check/libraries.sh"
find_libraries

report() {
  python3 "$root/scripts/gpu_check/report.py" "$results" --out "$out"
}

# Whether a part has finished. Part device is repeated if it found no GPU.
is_there() {
  case $1/$(status_of "$1") in
    device/failed) return 1 ;;
    */passed | */failed) ;;
    *) return 1 ;;
  esac
}

left=()
for part in "${parts[@]}"; do
  if ! $again && is_there "$part"; then
    progress "$part: is in $results already ($(status_of "$part"))"
  elif [ "$budget" -gt 0 ] && [ "$(remaining)" -le 0 ]; then
    left+=("$part")
  else
    run_part "$part"
    # After each part, so that there are tables even if this is interrupted.
    report >/dev/null 2>&1 || true
  fi
  if [ "$part" = device ] && [ "$(status_of device)" = failed ] && [ ! -s "$results/device.jsonl" ]; then
    die "there is no GPU to check: $(last_line "$results/device.log")"
  fi
done

failed=()
for part in "${parts[@]}"; do
  case $(status_of "$part") in
    failed) failed+=("$part") ;;
    skipped) say "skipped: $part: $(last_line "$results/$part.log")" ;;
    'cut off') left+=("$part") ;;
  esac
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
