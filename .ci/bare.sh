#!/usr/bin/env bash
# Runs a command as on a poor machine: no packages of Python, no MPI, a home folder that cannot be written, LANG=C. As root,
# in a mount namespace of its own, so that nothing outside changes.
set -euo pipefail

if [ "${1:-}" != --inside ]; then
  exec unshare --mount "$0" --inside "$@"
fi
shift

empty() { mount -t tmpfs -o ro,size=4k none "$1"; }

for packages in /usr/lib/python3/dist-packages /usr/local/lib/python3*/dist-packages; do
  if [ -d "$packages" ]; then empty "$packages"; fi
done
for file in /usr/bin/mpirun /usr/lib/x86_64-linux-gnu/libmpi.so.40; do
  if [ -e "$file" ]; then mount --bind /dev/null "$(readlink -f "$file")"; fi
done
home=$(mktemp -d)
empty "$home"
export HOME=$home LANG=C LC_ALL=C
unset XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME LC_CTYPE
exec "$@"
