# shellcheck shell=bash disable=SC2154
# Part losses: compares losses of training on the GPU with the CPU's, which may come from a file. Sourced, not run.

loss_run_settings() { settings=("train.steps=$loss_steps" log.every=1 "eval.every=$loss_steps" "${loss_settings[@]}"); }

train_cpu() {
  # shellcheck disable=SC2034 # read by train_run: a CPU takes minutes
  local settings piece_seconds=0
  loss_run_settings
  train_run "losses.$1_cpu" "$1" device=cpu precision=float32 "${settings[@]}"
}

# Names and contents of the training text: of a file, of a folder, or of a list of them.
text_contents() {
  local entry entries
  IFS=, read -ra entries <<<"$(tr -d '[]' <<<"$text")"
  for entry in "${entries[@]}"; do
    if [ -d "$entry" ]; then
      (cd "$entry" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
    else
      sha256sum <"$entry"
    fi
  done
}

# A hash of what the CPU's losses of a model depend on: configuration, text and program.
cpu_losses_key() {
  local settings resolved
  loss_run_settings
  resolved=$("$moh" config "$root/configs/llm/$1.yaml" data.train=text output.dir=run device=cpu precision=float32 \
    "${settings[@]}") || return
  { echo "$resolved" && text_contents && sha256sum <"$moh"; } | sha256sum | cut -d ' ' -f 1
}

# Writes the file of --make-cpu-losses: for each model a header line and its metrics, which are those of --cpu-losses where that
# has them.
make_cpu_losses() {
  local file=$1 model key cpu
  cpu=$(cpu_name | tr -d \"\\\\)
  results=$(mktemp -d)
  trap 'rm -rf "$results"' EXIT
  : >"$file.new"
  for model in "${loss_models[@]}"; do
    take_cpu_losses "$model"
    if [ ! -f "$results/losses.${model}_cpu.piece" ]; then
      progress "$model on the CPU, $loss_steps steps ..."
      if ! train_cpu "$model" || ! key=$(cpu_losses_key "$model"); then die "there are no losses of $model"; fi
      printf '{"cpu_losses":"%s","model":"%s","made":"%s on %s"}\n' "$key" "$model" "$(date -u +%Y-%m-%d)" "$cpu" \
        >>"$file.new"
    fi
    cat "$results/losses.${model}_cpu.piece" >>"$file.new"
  done
  mv "$file.new" "$file"
}

# Copies the CPU's metrics of a model from the file to where train_cpu would write them, if they were computed with the same
# configuration, text and program.
take_cpu_losses() {
  local piece=$results/losses.$1_cpu.piece key
  [ -n "$cpu_losses" ] && [ ! -f "$piece" ] || return 0
  key=$(cpu_losses_key "$1") || return
  awk -v key="$key" '/^\{"cpu_losses":/ { take = index($0, "\"" key "\"") > 0 } take' "$cpu_losses" >"$piece.new"
  if [ -s "$piece.new" ]; then
    mv "$piece.new" "$piece"
  else
    rm "$piece.new"
    progress "losses: $cpu_losses has none of $1 with this configuration, text and program: training on the CPU" >&3
  fi
}

# compare_losses NAME PRECISION CPU_METRICS GPU_METRICS ORIGIN: prints a record; fails if a tolerance is exceeded.
compare_losses() {
  local early=early_tolerance_$2 final=final_tolerance_$2
  awk -v name="$1" -v precision="$2" -v origin="$5" -v steps="$early_steps" -v early_most="${!early}" -v final_most="${!final}" \
    "$awk_value"'
    FNR == 1 { file += 1 }
    /"kind":"train"/ { loss[file, value("step")] = value("loss"); last[file] = value("step") }
    /"kind":"eval"/ { final[file] = value("loss") }
    END {
      for (step = 1; step <= steps && step <= last[1]; ++step) {
        found = (2, step) in loss ? difference(loss[2, step], loss[1, step]) : 1e9
        if (found > early) early = found
      }
      whole = last[1] > 0 && last[1] == last[2] && 1 in final && 2 in final
      end = whole ? difference(final[2], final[1]) : 1e9
      good = whole && early <= early_most && end <= final_most
      printf "{\"model\":\"%s\",\"precision\":\"%s\",\"steps\":%d,\"early_difference\":%g,\"early_tolerance\":%g,", \
        name, precision, last[1], early, early_most
      printf "\"cpu_losses\":\"%s\",", origin
      printf "\"cpu_loss\":%.5f,\"gpu_loss\":%.5f,\"difference\":%g,\"tolerance\":%g,\"good\":%s}\n", \
        final[1], final[2], end, final_most, good ? "true" : "false"
      exit !good
    }' "$3" "$4"
}

part_losses() {
  local model precision origin settings code=0 broken=''
  loss_run_settings
  for model in "${loss_models[@]}"; do
    take_cpu_losses "$model" && train_cpu "$model" || return
    origin=$(sed -n 's/^{"cpu_losses".*"made":"\([^"]*\)".*/\1/p' "$results/losses.${model}_cpu.piece")
    for precision in float32 bfloat16; do
      train_run "losses.${model}_$precision" "$model" device=cuda "precision=$precision" "${settings[@]}" || return
      compare_losses "$model" "$precision" "$results/losses.${model}"_{cpu,"$precision"}.piece "${origin:-this machine}" ||
        { code=1 && broken+=" $model/$precision"; }
    done
  done
  [ "$code" -eq 0 ] || echo "losses differ from the CPU's by more than the tolerance:$broken" >&2
  return "$code"
}
