#!/usr/bin/env bash
# Trains in several processes under Open MPI's mpirun, and goes on after a stop: every run is started with --resume.
set -euo pipefail

usage() {
  cat <<END
Usage: scripts/launch/mpirun.sh PROCESSES CONFIG.yaml [KEY=VALUE...]

On several machines, name them in HOSTS ("node1:8,node2:8"); all need the data and the run folder at the same paths.
  MOH=build/release/moh  the program
  HOSTS                  machines and their slots; empty: this one
END
}

if [[ $# -lt 2 || $1 == -h || $1 == --help ]]; then
  usage
  [[ $# -ge 1 && ( $1 == -h || $1 == --help ) ]]
  exit
fi
processes=$1
shift
# A part of the machine for each process, and not one core: moh divides the processors itself.
exec mpirun -np "$processes" ${HOSTS:+--host "$HOSTS"} --bind-to none "${MOH:-build/release/moh}" train --resume "$@"
