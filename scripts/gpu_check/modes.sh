# shellcheck shell=bash disable=SC2154
# Part modes: checks that settings which may not change the losses, or only within a tolerance, do not. Sourced, not run.

# mode_run NAME CONFIG SETTING...: a short training run. With cuda_graph, fails if the step was not captured.
mode_run() {
  local name=$1 config=$2 begin
  shift 2
  [ ! -f "$results/modes.$name.piece" ] || return 0
  begin=$(wc -c <"$results/modes.log")
  train_run "modes.$name" "$config" device=cuda "train.steps=$mode_steps" log.every=1 eval.every=0 'data.validation=[]' \
    data.validation_fraction=0 "${mode_settings[@]}" "$@" || return
  [[ " $* " == *' cuda_graph=true '* ]] || return 0
  if tail -c +$((begin + 1)) "$results/modes.log" | grep -c 'the step is captured' >/dev/null; then return; fi
  rm "$results/modes.$name.piece"
  echo "$name: the step was not captured" >&2
  return 1
}

# compare_runs PART EXPECTED NAME REFERENCE: prints a record; fails unless losses and gradient norms of two runs of the part
# are as expected: `same`, bit for bit; `near`, losses within the tolerance; or `rounded`, near but not the same.
compare_runs() {
  local files=("$results/$1.$4.piece" "$results/$1.$3.piece")
  shift
  [ -f "${files[0]}" ] || files[0]=/dev/null
  [ -f "${files[1]}" ] || files[1]=/dev/null
  awk -v expected="$1" -v name="$2" -v reference="$3" -v steps="$mode_steps" -v most="$mode_tolerance" "$awk_value"'
    /"kind":"train"/ { file = FILENAME == ARGV[1] ? 1 : 2; step = value("step"); loss[file, step] = value("loss")
      norm[file, step] = value("grad_norm"); ++lines[file] }
    END {
      whole = lines[1] == steps && lines[2] == steps
      for (step = 1; step <= steps; ++step) {
        of_loss = whole ? difference(loss[2, step], loss[1, step]) : 1e9
        of_norm = whole ? difference(norm[2, step], norm[1, step]) : 1e9
        if (of_loss > largest) largest = of_loss
        if (of_norm > largest_norm) largest_norm = of_norm
      }
      same = largest == 0 && largest_norm == 0
      good = whole && (expected == "same" ? same : largest <= most && (expected == "near" || !same))
      printf "{\"mode\":\"%s\",\"reference\":\"%s\",\"expected\":\"%s\",\"steps\":%d,", name, reference, expected, steps
      if (whole) printf "\"loss_difference\":%g,\"norm_difference\":%g,", largest, largest_norm
      printf "\"tolerance\":%g,\"good\":%s}\n", expected == "same" ? 0 : most, good ? "true" : "false"
      exit !good
    }' "${files[@]}"
}

# Checks that the run that read the file of algorithms did not change it.
check_algorithms() {
  [ -s "$1.searched" ] && cmp -s "$1" "$1.searched" && return
  echo "$1: expected the file that the search wrote, unchanged" >&2
  return 1
}

# attempt_mode NAME ...: mode_run that succeeds after a failure, too (the comparison reports it), unless the budget is spent.
attempt_mode() { mode_run "$@" || [ "$budget" -eq 0 ] || [ "$(remaining)" -gt 0 ]; }

# Three runs each: a reference, the same again (bits need not be equal), and with a CUDA graph.
graph_modes() {
  local name=$1
  shift
  attempt_mode "$name" "$@" && attempt_mode "${name}_again" "$@" && attempt_mode "${name}_graph" "$@" cuda_graph=true
}

# The first run searches for algorithms and writes the file; the next ones read it.
algorithm_modes() {
  local file=$results/modes.algorithms
  if [ ! -f "$results/modes.searched.piece" ]; then rm -f "$file" "$file.searched"; fi
  attempt_mode searched "$@" "gemm_algorithms=$file" || return
  if [ -f "$file" ] && [ ! -f "$file.searched" ]; then cp "$file" "$file.searched"; fi
  attempt_mode read_back "$@" "gemm_algorithms=$file" &&
    attempt_mode read_back_graph "$@" "gemm_algorithms=$file" cuda_graph=true
}

part_modes() {
  local broken='' comparison model=tiny_shakespeare_moh_50
  graph_modes moh $model precision=bfloat16 || return
  graph_modes dense tiny_shakespeare_dense precision=bfloat16 || return
  algorithm_modes $model precision=bfloat16 || return
  attempt_mode float32 $model precision=float32 || return
  attempt_mode tf32 $model precision=float32 tf32=true || return
  for comparison in 'same moh_again moh' 'same moh_graph moh' 'same dense_again dense' 'same dense_graph dense' \
    'near searched moh' 'same read_back searched' 'same read_back_graph searched' 'rounded tf32 float32'; do
    # shellcheck disable=SC2086
    compare_runs modes $comparison || broken+=", ${comparison#* }"
  done
  check_algorithms "$results/modes.algorithms" || broken+=', the file of algorithms'
  [ -z "$broken" ] || { echo "not as expected: ${broken#, }" >&2 && return 1; }
}
