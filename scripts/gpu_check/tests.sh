# shellcheck shell=bash disable=SC2154
# Parts tests, memcheck, racecheck and synccheck: every kernel against the CPU. Sourced, not run.

count_tests() {
  local summary
  summary=$(grep -E '^(All tests passed|test cases:|assertions:)' "$1" | tr '\n' ';')
  printf '{"summary":%s}\n' "$(json_string "${summary%;}")"
}

# Every case of every kernel, on the device and on the CPU. Skipped cases count as a failure.
part_tests() {
  local code=0 whole=$results/tests.whole.piece log=$results/tests.whole.log # the piece exists after a failure
  if [ ! -f "$whole" ]; then
    within "$tests_seconds" "$tests" "$test_filter" --durations yes >"$log" 2>&1 || code=$?
    cat "$log" >&2
    count_tests "$log"
    ! grep -q 'moh test skipped' "$log" || { echo "tests were skipped: there is no GPU" >&2 && return 1; }
    ! grep -q 'moh test left out' "$log" || { echo "cases were left out: see tests.log" >&2 && return 1; }
    if [ "$code" -eq 0 ] || is_spent; then return "$code"; fi
    count_tests "$log" >"$whole"
  else
    cat "$whole"
  fi
  one_by_one "$log"
  return 1
}

# The names of all tests from the first one on that failed in the log, or is not said to have ended, as after a hang: those
# before it have passed. The log has a failed test's name, cut to its width, below a rule, and each name when its test ends.
from_first_broken() {
  "$tests" --list-test-names-only "$test_filter" |
    awk '
      FNR == NR { if (below_rule) headings[$0]; below_rule = /^-+$/ && length($0) > 70
                  if (sub(/^ *[0-9.]+ s: /, "")) ended[$0]; next }
      $0 == "" { next }
      !broken {
        broken = !($0 in ended)
        for (heading in headings)
          if (heading == $0 || length(heading) > 60 && index($0, heading) == 1) broken = 1
      }
      broken' "$1" -
}

# An illegal address or a hanging kernel makes all later tests of the process fail. So the first test that failed and those
# after it are run again, each in a process of its own that waits for each kernel (MOH_CUDA_SYNC): a record and a log say which
# ones fail. What its time limit leaves is for the next call.
one_by_one() {
  local name names pattern result broken end=$((SECONDS + alone_seconds)) done=$results/tests.alone.piece
  local log=$results/tests.alone.log left=0
  touch "$done"
  mapfile -t names < <(from_first_broken "$1")
  for name in "${names[@]}"; do
    if grep -qxF -e "passed $name" -e "failed $name" "$done"; then continue; fi
    if [ "$SECONDS" -ge "$end" ] || is_spent; then
      left=$((left + 1))
      continue
    fi
    pattern=$(printf '%s' "$name" | sed 's/[],[\\]/\\&/g') # special characters in Catch2's patterns
    result=passed
    MOH_CUDA_SYNC=1 within "$test_seconds" "$tests" "$pattern" >"$log.new" 2>&1 || result=failed
    if is_spent; then
      left=$((left + 1))
      continue
    fi
    echo "$result $name" >>"$done"
    [ "$result" = passed ] || { printf '\n#### %s\n' "$name" && cat "$log.new"; } >>"$log"
  done
  rm -f "$log.new" "$results/tests.left"
  [ "$left" -eq 0 ] || echo "$left" >"$results/tests.left"
  broken=$(sed -n 's/^failed //p' "$done")
  broken=${broken//$'\n'/; }
  printf '{"alone":%d,"left":%d,"fail_alone":%s}\n' "$(wc -l <"$done")" "$left" "$(json_string "$broken")"
  echo "of $(wc -l <"$done") tests, each alone, fail: ${broken:-none} ($log)$([ "$left" -eq 0 ] ||
    echo "; $left are left for the next call")" >&2
}

# sanitize TOOL SECONDS ARGUMENT...: the tests with these arguments under a tool of compute-sanitizer; 0: without a limit.
sanitize() {
  local tool=$1 seconds=$2 log=$results/$1.one.log code=0 options=()
  shift 2
  # memcheck reports cudaErrorNotReady of cudaEventQuery as an error, which moh expects for unfinished work.
  [ "$tool" != memcheck ] || options=(--report-api-errors no)
  if ! command -v compute-sanitizer >/dev/null && [ ! -x /usr/local/cuda/bin/compute-sanitizer ]; then
    echo "compute-sanitizer was not found: it is part of the CUDA toolkit" >&2
    return "$skipped"
  fi
  PATH=$PATH:/usr/local/cuda/bin within "$seconds" compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 99 "${options[@]}" \
    "$tests" "$@" >"$log" 2>&1 || code=$?
  cat "$log" >&2
  count_tests "$log"
  rm "$log"
  return "$code"
}

# Attention alone, of heads of several widths in odd lengths: a minute, for the first call.
part_memcheck() {
  local width code=0
  for width in "${memcheck_widths[@]}"; do
    sanitize memcheck "$memcheck_seconds" "$width_test" -c "width $width" || code=$?
    if is_spent || [ "$code" -eq "$skipped" ]; then break; fi
  done
  return "$code"
}
part_memcheck_all() { sanitize memcheck 0 "$sanitizer_filter"; }
part_racecheck() { sanitize racecheck 0 "$sanitizer_filter"; }
part_synccheck() { sanitize synccheck 0 "$sanitizer_filter"; }
