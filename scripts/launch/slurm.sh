#!/usr/bin/env bash
#SBATCH --job-name=moh
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
# A Slurm job that trains, saves five minutes before its time is over, and queues itself again until the run is done:
#
#     sbatch --nodes 2 scripts/launch/slurm.sh CONFIG.yaml [KEY=VALUE...]
#     sbatch --nodes 2 --gpus-per-node 4 scripts/launch/slurm.sh CONFIG.yaml device=cuda    # a GPU for each task
#
# Slurm has to have been built with PMIx, through which Open MPI's processes find each other (srun --mpi=list).
set -euo pipefail

if [[ $# -lt 1 || $1 == -h || $1 == --help ]]; then
  sed -n '/^# A Slurm job/,/^# Slurm has/s/^# \{0,1\}//p' "$0"
  exit 2
fi
readonly preempted=75  # moh: stopped by a signal, everything is saved

srun --mpi=pmix "${MOH:-build/release/moh}" train --resume "$@" &
step=$!
# Slurm sends USR1 to this script; the processes save when one of them gets it.
trap 'kill -USR1 "$step"' USR1
code=0
wait "$step" || code=$?
while kill -0 "$step" 2>/dev/null; do  # the trap ended the wait, and not the processes
  code=0
  wait "$step" || code=$?
done
if ((code == preempted)) && [[ -n ${SLURM_JOB_ID:-} ]]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
