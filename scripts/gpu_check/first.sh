# shellcheck shell=bash disable=SC2154
# Part first: in a minute and a half, whatever a GPU may refuse, each in a process of its own, whatever becomes of the others.
# Sourced, not run.

# attempt NAME COMMAND...: prints a record of whether the command succeeds, and prints the words of $expects, if any; fails if
# it does not.
attempt() {
  local name=$1 log=$results/first.attempt.log code=0 began=$SECONDS result=passed says='' left
  shift
  left=$((first_deadline - SECONDS))
  if [ "$left" -le 0 ]; then
    result='not tried'
  else
    within "$((left < attempt_seconds ? left : attempt_seconds))" "$@" >"$log" 2>&1 || code=$?
    if [ "$code" -eq 124 ] || [ "$code" -eq 137 ]; then
      result=hung
    elif [ "$code" -ne 0 ] || grep -q 'moh test skipped\|No test cases matched\|No tests ran\|- none -' "$log"; then
      result=failed
    elif ! grep -qF -e "${expects:-}" "$log"; then
      result=failed
      echo "expected to read: $expects" >>"$log"
    fi
    [ "$result" = passed ] || says=$(last_line "$log")
    { printf '\n#### %s: %s\n' "$name" "$result" && cat "$log"; } >&2
  fi
  printf '{"check":"%s","result":"%s","seconds":%d,"says":%s}\n' "$name" "$result" $((SECONDS - began)) "$(json_string "$says")"
  [ "$result" = passed ] || { broken+=", $name ($result)" && return 1; }
}

# attempt_steps NAME SETTING...: steps of a small MoH model, which have to be finite.
attempt_steps() {
  local name=$1 folder=$results/first.run
  shift
  attempt "$name" env MOH_CUDA_SYNC="${sync:-0}" "$moh" train "$root/configs/llm/tiny_shakespeare_moh_50.yaml" --overwrite \
    "data.train=$text" "output.dir=$folder" device=cuda precision=bfloat16 log.every=1 eval.every=0 checkpoint.every=0 \
    sample.tokens=0 'data.validation=[]' data.validation_fraction=0 "${mode_settings[@]}" "$@" || true
  rm -rf "$folder"
}

part_first() {
  local first_deadline=$((SECONDS + first_seconds)) broken='' width
  within 20 python3 "$root/scripts/gpu_check/versions.py" "${libraries[@]}" || true
  attempt 'device primitives' "$tests" 'device primitives*' || true
  for width in "${head_widths[@]}"; do
    attempt "attention, head width $width" "$tests" "$width_test" -c "width $width" || true
  done
  sync=1 attempt_steps 'a step that waits for each kernel' train.steps=1
  expects='the step is captured' attempt_steps 'captured steps' train.steps=4 cuda_graph=true
  rm -f "$results/first.attempt.log"
  [ -z "$broken" ] || { echo "not as expected: ${broken#, }" >&2 && return 1; }
}
