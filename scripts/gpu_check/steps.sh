# shellcheck shell=bash disable=SC2154
# Parts step, step_images and kernels: steps of training runs. Sourced, not run.

# bench_case PART CASE SUFFIX OPTION...: measures steps of a case of sizes.sh, whose settings stand in case_settings.
bench_case() {
  local part=$1 case=$2 suffix=$3 settings
  shift 3
  read -ra settings <<<"${case_settings[$case]}"
  piece "$part.$case$suffix" "$moh" bench step "$root/${case_config[$case]}" device=cuda precision=bfloat16 \
    "${settings[@]}" --random-data --json "$@"
}

# Each model without CUDA graph, profiled by op, and with it, where ops cannot be timed. A model that fails, as for want of
# memory, stops no other.
bench_steps() {
  local part=$1 case broken=''
  shift
  for case in "$@"; do
    bench_case "$part" "$case" '' --steps "$bench_steps" --profile || broken+=", $case"
    bench_case "$part" "$case" _graph --steps "$bench_steps" cuda_graph=true || broken+=", $case with a graph"
    if is_spent; then return 1; fi
  done
  [ -z "$broken" ] || { echo "not measured: ${broken#, }" >&2 && return 1; }
}
part_step() { bench_steps step "${step_cases[@]}"; }
part_step_images() { bench_steps step_images "${image_cases[@]}"; }

# Each kernel's calls, time, rate and resources. With gemm_algorithms, which is a file that is not written here, so that the
# algorithms of matrix multiplications are searched, and the record has the first proposal's time beside the best.
part_kernels() {
  local case broken=''
  for case in "${kernel_cases[@]}"; do
    bench_case kernels "$case" '' --steps "$kernel_steps" --kernels "gemm_algorithms=$results/kernels.none" || broken+=", $case"
    if is_spent; then return 1; fi
  done
  [ -z "$broken" ] || { echo "not measured: ${broken#, }" >&2 && return 1; }
}

# train_run PART.NAME CONFIG SETTING...: a training run, which may take piece_seconds, and whose metrics are written to
# $results/PART.NAME.piece.
train_run() {
  local file=$results/$1.piece folder=$results/$1.run config=$2 code=0
  shift 2
  [ ! -f "$file" ] || return 0
  within "$piece_seconds" "$moh" train "$root/configs/llm/$config.yaml" --overwrite "data.train=$text" "output.dir=$folder" checkpoint.every=0 \
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
