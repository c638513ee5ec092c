# shellcheck shell=bash
# Functions shared by the other scripts. Sourced, not run.

# The root of the source tree, wherever the script is called from.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '== %s\n' "$*"; }

warn() { printf 'warning: %s\n' "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# configure PRESET [CMAKE OPTION...]: configures build/PRESET, with the environment's MOH_CUDA (AUTO, ON, OFF), and explains
# the most common failure: a build folder that was configured with another compiler, generator or source tree.
configure() {
  local preset=$1
  shift
  say "configuring build/$preset"
  (cd "$root" && cmake --preset "$preset" ${MOH_CUDA:+"-DMOH_CUDA=$MOH_CUDA"} "$@") ||
    die "cmake failed; the reason is above. If it names another generator, compiler or source folder:" \
      "rm -r '$root/build/$preset' and start again"
}

# build PRESET [TARGET...]: builds the targets, or everything.
build() {
  local preset=$1
  shift
  say "building build/$preset (the first time takes minutes, later runs only what changed)"
  # Finished and total steps, percentage, elapsed time.
  NINJA_STATUS=${NINJA_STATUS:-"[%f/%t %p %es] "} \
    cmake --build "$root/build/$preset" --parallel "$(nproc)" ${1:+--target "$@"} ||
    die "the build failed; the first error is above. A compiler that was 'Killed' ran out of memory:" \
      "build with fewer jobs, cmake --build '$root/build/$preset' --parallel 1"
}
