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

# configure PRESET [CMAKE OPTION...]: configures build/PRESET, with the environment's MOH_CUDA (AUTO, ON, OFF) and MOH_UNITY
# (ON, OFF), and explains the most common failure: a build folder that was configured with another compiler, generator or source
# tree. A new folder of the presets release and asan compiles files in batches (MOH_UNITY), as all of them are compiled; later
# calls keep what the folder has.
configure() {
  local preset=$1 unity=${MOH_UNITY:-}
  shift
  if [[ "$preset" =~ ^(release|asan)$ ]] && [ ! -e "$root/build/$preset/CMakeCache.txt" ]; then
    unity=${unity:-ON}
  fi
  say "configuring build/$preset"
  (cd "$root" && cmake --preset "$preset" ${MOH_CUDA:+"-DMOH_CUDA=$MOH_CUDA"} ${unity:+"-DMOH_UNITY=$unity"} "$@") ||
    die "cmake failed; the reason is above. If it names another generator, compiler or source folder:" \
      "rm -r '$root/build/$preset' and start again"
}

# kernels_of_new PRESET: the option with which a build folder that is not there yet gets the CPU kernels of this machine's
# instruction set alone: a third of all. An existing one keeps what it has.
kernels_of_new() {
  [ -e "$root/build/$1/CMakeCache.txt" ] || echo -DMOH_CPU_KERNELS=native
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

# The system's interpreter is preferred: it finds what the package manager installed, and stays when others change.
system_python() {
  if [ -x /usr/bin/python3 ]; then echo /usr/bin/python3; else echo python3; fi
}

# python_venv FOLDER MODULES PACKAGE==VERSION...: a virtual environment with these packages, whose MODULES ("a, b") can be imported.
# Does nothing, quickly, when it is complete.
python_venv() {
  local folder=$1 modules=$2
  shift 2
  local complete=$folder/moh-packages # written last
  if [ "$(cat "$complete" 2>/dev/null)" = "$*" ]; then
    return
  fi
  say "installing Python packages into $folder"
  rm -rf "$folder"
  mkdir -p "$(dirname "$folder")"
  "$(system_python)" -m venv "$folder" || die "no virtual environment could be made; Debian's package python3-venv is needed"
  "$folder/bin/python" -m pip install -q --no-cache-dir --only-binary :all: "$@" ||
    die "pip could not install $*; its reason is above"
  "$folder/bin/python" -c "import $modules" || die "what was installed cannot be imported"
  printf '%s' "$*" >"$complete"
}
