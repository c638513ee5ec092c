#!/usr/bin/env bash
# Builds moh and kills a training 200 times at random, in one process and in two (scripts/soak.py).
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  cat <<END
Usage: scripts/soak.sh [--kills N] [--ranks N...] [--steps N] [--seed N]

Kills a small training by SIGKILL at random moments, in one process and under mpirun in two, there with a stage of ZeRO by
chance, and resumes it each time.
Ends with exit status 1 if a checkpoint cannot be read, or if the weights at the end are not, byte for byte, those of a
run that was never killed. Takes about ten minutes; docs/benchmarks/reliability.md has the table that it prints.
END
  exit 0
fi
configure release
build release moh
nice -n 19 python3 -B "$root/scripts/soak.py" --moh "$root/build/release/moh" "$@"
