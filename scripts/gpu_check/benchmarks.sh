# shellcheck shell=bash disable=SC2154
# Parts that measure attention, layers and ops, and PyTorch beside them. Sourced, not run.

bench_attention() {
  local mask=$1 length
  for length in "${attention_lengths[@]}"; do
    piece "attention_$mask.$length" "$moh" bench attention --device cuda --dtype bf16 --tokens "${length%:*}" --batch "${length#*:}" "--$mask" \
      --listed --active "$shares" "${attention_shape[@]}" --repeats "$attention_repeats" --json || return
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
  # shellcheck disable=SC2034 # read by piece
  local case piece_seconds=0
  for case in "${pytorch_cases[@]}"; do
    piece "pytorch.$case" python3 "$root/scripts/bench_pytorch.py" --device cuda --venv "$venv" --moh "$moh" --json --cases "$case" \
      "${pytorch_options[@]}" || return
  done
}
