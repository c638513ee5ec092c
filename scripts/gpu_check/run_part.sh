# shellcheck shell=bash disable=SC2154
# How a part of gpu_check.sh is run: limits, pieces that survive an interruption, status, packing. Sourced, not run.

progress() { printf '[%5d s] %s\n' "$SECONDS" "$*"; }

json_string() {
  local text=${1//\\/\\\\}
  printf '"%s"' "$(tr '\n\t\r' '   ' <<<"${text//\"/\\\"}" | tr -d '\000-\037' | sed 's/ *$//')"
}

cpu_name() { sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1; }

remaining() { echo $((budget - SECONDS)); }

is_spent() { [ "$budget" -gt 0 ] && [ "$(remaining)" -le 0 ]; }

# Runs a program of a part, whose standard output are records (or the log, if redirected); ends when the budget is spent.
limited() {
  { printf '\n$'; printf ' %q' "$@"; echo; } >&2
  if [ "$budget" -gt 0 ]; then
    ! is_spent || return 1
    timeout -k 10 "$(remaining)" "$@"
  else
    "$@"
  fi
}

# within SECONDS COMMAND...: limited, and ended after so many seconds (exit code 124 or 137).
within() {
  local seconds=$1
  shift
  limited timeout -k 2 "$seconds" "$@"
}

# piece PART.NAME COMMAND...: prints the records of a command, which may take piece_seconds; runs it unless it finished before
# the part was cut off.
piece() {
  local file=$results/$1.piece
  shift
  if [ ! -f "$file" ]; then
    within "$piece_seconds" "$@" >"$file.new" || return
    mv "$file.new" "$file"
  fi
  cat "$file"
}

# The last line of a log that is not blank or a rule, without colours.
last_line() { sed 's/\x1b\[[0-9;]*m//g' "$1" | grep -v '^[[:space:]=-]*$' | tail -n 1; }

status_of() { sed -n 's/.*"status":"\([a-z ]*\)".*/\1/p' "$results/$1.json" 2>/dev/null || true; }

# Clock rates of multiprocessors and memory, power, temperature, and the reasons (a bit mask) for which clocks are held down.
# Older drivers know the last under its former name alone.
gpu_state() {
  local reasons
  for reasons in clocks_event_reasons.active clocks_throttle_reasons.active; do
    nvidia-smi "--query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu,$reasons" --format=csv,noheader 2>/dev/null |
      head -n 1 && return
  done
  true
}

# write_status PART STATUS SECONDS REASON GPU_BEFORE
write_status() {
  printf '{"part":"%s","status":"%s","seconds":%d,"date":"%s","reason":%s,"gpu_before":%s,"gpu_after":%s}\n' "$1" "$2" "$3" \
    "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(json_string "$4")" "$(json_string "$5")" "$(json_string "$(gpu_state)")" \
    >"$results/$1.json.new"
  mv "$results/$1.json.new" "$results/$1.json" # a call that is killed leaves a whole one
}

# All files of a part in packed/PART.tar.gz, which replaces that of an earlier run as a whole: what is there can be fetched at
# any moment.
pack_part() {
  local packed=$results/packed
  mkdir -p "$packed"
  if (cd "$results" && tar -czf "$packed/$1.tar.gz.new" -- PROGRAM "$1".*); then
    mv "$packed/$1.tar.gz.new" "$packed/$1.tar.gz"
  else
    warn "$1: its results could not be packed into $packed"
  fi
}

# A part that was cut off, or has left something for the next call (PART.left), goes on from its pieces.
goes_on() { [ "$(status_of "$1")" = 'cut off' ] || [ -e "$results/$1.left" ]; }

# Runs part_NAME, which writes records to standard output and its progress to standard error.
run_part() {
  local part=$1 code=0 began=$SECONDS status=failed reason='' before log=$results/$1.log
  progress "$part ..."
  before=$(gpu_state)
  if $again || ! goes_on "$part"; then rm -f "$results/$part".*.piece "$results/$part.left"; fi
  # If this call is killed, the next one finds a part that was cut off.
  write_status "$part" 'cut off' 0 'the call ended before the part did' "$before"
  "part_$part" >"$results/$part.jsonl" 2>"$log" || code=$?
  if [ "$code" -eq 0 ]; then
    status=passed
  elif [ "$code" -eq "$skipped" ]; then
    status=skipped
  elif is_spent; then
    status='cut off'
  fi
  [ "$code" -eq 0 ] || reason=$(last_line "$log")
  write_status "$part" "$status" $((SECONDS - began)) "$reason" "$before"
  pack_part "$part"
  progress "$part: $status, $((SECONDS - began)) s${reason:+: $reason}"
}

# Results belong to the programs that made them. Those of other programs, as before a kernel was mended, are moved to
# before_NAME, where report.py can read them.
keep_apart() {
  local program before
  program=$(cat "$moh" "$tests" | sha256sum | cut -c 1-12)
  before=$(cat "$results/PROGRAM" 2>/dev/null) || before=''
  if [ -n "$before" ] && [ "$before" != "$program" ]; then
    say "the programs are others than those of the results: these are now in $results/before_$before"
    rm -rf "$results/before_$before"
    mkdir "$results/before_$before"
    find "$results" -mindepth 1 -maxdepth 1 ! -name 'before_*' -exec mv -t "$results/before_$before" -- {} +
  fi
  echo "$program" >"$results/PROGRAM"
}
