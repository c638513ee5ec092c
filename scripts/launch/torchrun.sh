#!/usr/bin/env bash
# Trains in several processes that torchrun starts, and starts again when one of them is lost. They find each other by TCP,
# through the variables that it sets (docs/processes.md); Open MPI need not be there.
set -euo pipefail

usage() {
  cat <<END
Usage: scripts/launch/torchrun.sh PROCESSES CONFIG.yaml [KEY=VALUE...]

PROCESSES on each of NODES machines; on several, start it on each with NODE_RANK 0, 1, ... and the first one's name.
  MOH=build/release/moh  the program
  NODES=1 NODE_RANK=0 MASTER_ADDR=localhost MASTER_PORT=29500
  RESTARTS=3             times that all are started again, from the last checkpoint
END
}

if [[ $# -lt 2 || $1 == -h || $1 == --help ]]; then
  usage
  [[ $# -ge 1 && ( $1 == -h || $1 == --help ) ]]
  exit
fi
processes=$1
shift
# Empty, but set: torchrun would set it to 1, and moh divides the processors itself.
export OMP_NUM_THREADS="${OMP_NUM_THREADS-}"
exec torchrun --nnodes "${NODES:-1}" --node-rank "${NODE_RANK:-0}" --nproc-per-node "$processes" \
  --master-addr "${MASTER_ADDR:-localhost}" --master-port "${MASTER_PORT:-29500}" --max-restarts "${RESTARTS:-3}" \
  --no-python "${MOH:-build/release/moh}" train --resume "$@"
