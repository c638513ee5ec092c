#!/usr/bin/env bash
# Builds the fuzz targets of the file readers with clang's libFuzzer and the address and undefined-behaviour sanitizers,
# and runs them one after the other.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

folder=$root/build/fuzz
seconds=60
jobs=1

targets() {
  local file
  for file in "$root"/tests/fuzz/*_fuzz.cpp; do
    file=${file##*/}
    echo "${file%_fuzz.cpp}"
  done
}

usage() {
  cat <<END
Usage: scripts/fuzz.sh [--seconds N] [--jobs N] [--minimise] [READER...]
       scripts/fuzz.sh --add READER FILE...

Fuzzes each reader (all of them, if none is named) for N seconds (default 60), starting from the examples in
tests/fuzz/corpus/READER.tar and the inputs of earlier runs in build/fuzz/corpus/READER. A finding ends the run with
exit status 1; its input is written to build/fuzz/findings, and the command that reproduces it is printed.
  --jobs N     build with N processes (default 1)
  --minimise   instead of fuzzing, reduce the inputs of both to those that add code coverage, and put these into
               tests/fuzz/corpus/READER.tar; only files of at most 512 bytes
  --add        put files into tests/fuzz/corpus/READER.tar, which is made if there is none; nothing is built

Readers: $(targets | tr '\n' ' ')
END
}

# Whether clang can build a program with libFuzzer and the sanitizers.
check_compiler() {
  command -v clang++ >/dev/null || die "clang++ was not found; install Debian's packages clang and libclang-rt-dev"
  local work
  work=$(mktemp -d)
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' >"$work/a.cpp"
  clang++ -fsanitize=fuzzer,address,undefined "$work/a.cpp" -o "$work/a" 2>/dev/null ||
    die "clang++ has no libFuzzer or sanitizers; install Debian's package libclang-rt-dev"
  rm -r "$work"
}

build_targets() {
  say "configuring build/fuzz"
  (cd "$root" && cmake --preset fuzz) || die "cmake failed; the reason is above"
  say "building ${*/#/fuzz_}"
  cmake --build "$folder" --parallel "$jobs" --target "${@/#/fuzz_}" || die "the build failed; the first error is above"
}

# unpack READER FOLDER: the examples of a reader as files.
unpack() {
  tar -xf "$root/tests/fuzz/corpus/$1.tar" -C "$2" || die "tests/fuzz/corpus/$1.tar cannot be unpacked"
}

# pack READER FOLDER: the files as examples of a reader. Equal files give equal archives.
pack() {
  local archive=$root/tests/fuzz/corpus/$1.tar
  (cd "$2" && export LC_ALL=C && tar --format=ustar --owner=0 --group=0 --numeric-owner --mode=u=rw,go=r --mtime=@0 \
    --blocking-factor=2 -cf "$archive.new" -- *) || die "tests/fuzz/corpus/$1.tar cannot be written"
  mv "$archive.new" "$archive"
  say "$1: $(tar -tf "$archive" | wc -l) files, $(stat -c %s "$archive") bytes"
}

add_files() {
  local reader=$1 work
  shift
  work=$(mktemp -d)
  if [ -e "$root/tests/fuzz/corpus/$reader.tar" ]; then unpack "$reader" "$work"; fi
  cp -- "$@" "$work/"
  pack "$reader" "$work"
  rm -r "$work"
}

# Small inputs suffice, as parsing errors are in headers. Memory use beyond the limit is a finding, too.
fuzz() {
  local reader=$1 found=$folder/corpus/$1 findings=$folder/findings log=$folder/$1.log examples
  mkdir -p "$found" "$findings"
  examples=$(mktemp -d)
  unpack "$reader" "$examples"
  say "fuzzing $reader for $seconds s (log: $log)"
  if ! "$folder/fuzz/fuzz_$reader" -max_total_time="$seconds" -max_len=16384 -timeout=20 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$findings/$reader-" "$found" "$examples" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    die "$reader: a finding; run $folder/fuzz/fuzz_$reader with the file in $findings to repeat it"
  fi
  rm -r "$examples"
  grep -E '^stat::(number_of_executed_units|peak_rss_mb)' "$log"
}

minimise() {
  local reader=$1 work
  work=$(mktemp -d)
  mkdir "$work/all" "$work/kept"
  unpack "$reader" "$work/kept"
  find "$work/kept" "$folder/corpus/$reader" -type f -size -2 -exec cp {} "$work/all/" \;
  "$folder/fuzz/fuzz_$reader" -set_cover_merge=1 -use_counters=0 "$work/kept" "$work/all" >"$folder/$reader.log" 2>&1
  pack "$reader" "$work/kept"
  rm -r "$work"
}

action=fuzz
readers=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=${2:?--seconds needs a number} && shift ;;
    --jobs) jobs=${2:?--jobs needs a number} && shift ;;
    --minimise) action=minimise ;;
    --add) action=add_files ;;
    -h | --help) usage && exit ;;
    -*) usage >&2 && exit 2 ;;
    *) readers+=("$1") ;;
  esac
  shift
done

require_reader() {
  [ -e "$root/tests/fuzz/${1}_fuzz.cpp" ] || die "no reader '$1'; there are: $(targets | tr '\n' ' ')"
}

if [ "$action" = add_files ]; then
  [ ${#readers[@]} -gt 1 ] || die "--add needs a reader and files"
  require_reader "${readers[0]}"
  add_files "${readers[@]}"
  exit
fi
[ ${#readers[@]} -gt 0 ] || mapfile -t readers < <(targets)
for reader in "${readers[@]}"; do require_reader "$reader"; done

check_compiler
build_targets "${readers[@]}"
for reader in "${readers[@]}"; do "$action" "$reader"; done
say "$action: no findings"
