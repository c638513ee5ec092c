# shellcheck shell=bash disable=SC2154
# Part processes: steps that several processes make together, beside those of one. Sourced, not run.

gpu_count() { { nvidia-smi -L 2>/dev/null || true; } | grep -c '^GPU ' || true; }

# processes_run NAME COUNT SETTING...: a short training run in COUNT processes, started as torchrun does.
processes_run() {
  local name=processes.$1 count=$2 port=$((20000 + RANDOM % 20000)) rank pid pids=() code=0
  local file=$results/$name.piece folder=$results/$name.run
  shift 2
  [ ! -f "$file" ] || return 0
  for ((rank = 0; rank < count; ++rank)); do
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$count MASTER_ADDR=127.0.0.1 MASTER_PORT=$port within "$piece_seconds" "$moh" train \
      "$root/configs/llm/tiny_shakespeare_moh_50.yaml" --overwrite "data.train=$text" "output.dir=$folder" device=cuda \
      precision=float32 "train.steps=$mode_steps" "train.accumulate=$count" log.every=1 eval.every=0 checkpoint.every=0 \
      sample.tokens=0 'data.validation=[]' data.validation_fraction=0 "${mode_settings[@]}" "$@" >&2 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
  [ "$code" -ne 0 ] || mv "$folder/metrics.jsonl" "$file"
  rm -rf "$folder"
  return "$code"
}

# COUNT processes, of which each computes one micro-batch of COUNT, beside one that computes all.
beside_one() {
  local name=$1 count=$2
  shift 2
  processes_run "one_of_$count" 1 "train.accumulate=$count" || return
  processes_run "$name" "$count" "$@" && compare_runs processes near "$name" "one_of_$count"
}

part_processes() {
  local gpus broken=''
  gpus=$(gpu_count)
  beside_one host_2 2 comm.backend=host || broken+=', two processes through host memory'
  if [ "$gpus" -ge 2 ]; then
    beside_one "nccl_$gpus" "$gpus" comm.backend=nccl || broken+=", NCCL on $gpus GPUs"
    processes_run "nccl_${gpus}_graph" "$gpus" comm.backend=nccl cuda_graph=true &&
      compare_runs processes same "nccl_${gpus}_graph" "nccl_$gpus" || broken+=", NCCL in captured steps"
  else
    echo "one GPU: NCCL between processes is not checked, only in one of them (part tests)" >&2
  fi
  [ -z "$broken" ] || { echo "not as expected: ${broken#, }" >&2 && return 1; }
}
