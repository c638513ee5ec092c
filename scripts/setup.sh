#!/usr/bin/env bash
# Installs the dependencies of moh: Debian 12 packages, and from PyPI, in the user's cache, the sources of nanobind, and, if
# there is a CUDA toolkit with cuDNN, the headers of cuDNN's front end. Returns quickly if nothing is missing. Needs root or
# sudo only if a package is missing.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

packages=(
  build-essential cmake ninja-build ccache
  libyaml-cpp-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libxxhash-dev # configuration, console, files
  zlib1g-dev                                                                 # checksums of PyTorch's files
  libeigen3-dev                                                              # eigenvalues
  libjpeg62-turbo-dev libpng-dev                                             # pictures
  libpcre2-dev libutf8proc-dev                                               # tokenizers
  libzstd-dev                                                                # compressed text
  libboost-dev                                                               # HTTP of moh serve
  libopenmpi-dev openmpi-bin                                                 # several processes
  catch2                                                                     # tests
  python3 python3-matplotlib                                                 # end-to-end tests, plots
  python3-dev python3-numpy                                                  # the Python module and its tests
  python3-pip                                                                # to fetch nanobind and cuDNN's front end
)
# For scripts/lint.sh, scripts/pytorch_venv.sh and the test of the page of moh watch.
check_packages=(clang-format-14 clang-tidy-14 shellcheck git python3-venv chromium)

usage() {
  cat <<END
Usage: scripts/setup.sh [--list | --checks]

Installs the Debian 12 packages that moh is built from, as root or through sudo. Also fetches from PyPI nanobind, with
which the Python module is built, and, where there is a CUDA toolkit with cuDNN, the headers of cuDNN's front end.
  --list   print their names and stop
  --checks install what scripts/lint.sh, scripts/pytorch_venv.sh and the test of moh watch's page run, too

MOH_SKIP_SETUP=1 skips the check, for machines that have these libraries in another way.
END
}

missing_packages() {
  # The status tells installed packages from removed ones that were not purged, which dpkg-query lists, too.
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null |
    sed -n 's/^installed //p' || true)
  for package in "${packages[@]}"; do
    grep -qxF "$package" <<<"$installed" || echo "$package"
  done
}

# Runs a command as root or through sudo; fails silently if neither is possible.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    sudo "$@"
  else
    return 126
  fi
}

install_packages() {
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
  as_root true || die "missing Debian packages: $*
To install them, this script must run as root or find sudo, and neither is the case. Ask your administrator for
  apt-get update && apt-get install --no-install-recommends $*
or, if you have these libraries in another way, run with MOH_SKIP_SETUP=1"
  say "installing $*"
  as_root "${apt[@]}" update || warn "apt-get update failed; trying with the existing package lists"
  as_root "${apt[@]}" install -y --no-install-recommends "$@" ||
    die "apt-get could not install: $*
Its reason is above. Without network, install them from a mirror that this machine reaches; on a system other than
Debian 12, find out what it calls them, install them, and run with MOH_SKIP_SETUP=1"
}

# Same version and folder as in cmake/MohDependencies.cmake.
cudnn_frontend=1.32.0
cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
cudnn_frontend_folder=$cache/moh/cudnn-frontend-$cudnn_frontend

has_cudnn() {
  local nvcc roots=("${CUDAToolkit_ROOT:-}" "${CUDA_PATH:-}" /usr/local/cuda)
  if nvcc=$(command -v nvcc); then roots+=("$(dirname "$(dirname "$(readlink -f "$nvcc")")")"); fi
  for folder in "${roots[@]}"; do
    if [ -e "$folder/include/cudnn.h" ]; then return; fi
  done
  [ -e /usr/include/cudnn.h ]
}

# fetch PACKAGE==VERSION FOLDER PART FILE: of a Python package's archive its folder PART, with FILE in it, as FOLDER/PART.
# Only sources are needed, so they are unpacked and nothing is installed.
fetch() {
  local package=$1 folder=$2 part=$3 file=$4 work fetched=false
  say "fetching $package"
  work=$(mktemp -d)
  if python3 -m pip download -q --no-deps --only-binary :all: -d "$work" "$package" &&
    python3 -m zipfile -e "$work"/*.whl "$work/package" && [ -e "$work/package/$part/$file" ] &&
    mkdir -p "$(dirname "$folder")" && rm -rf "$folder.new" "$folder" && mkdir "$folder.new" &&
    cp -r "$work/package/$part" "$folder.new/" && mv "$folder.new" "$folder"; then
    fetched=true
  fi
  rm -rf "$work"
  $fetched
}

fetch_cudnn_frontend() {
  fetch "nvidia-cudnn-frontend==$cudnn_frontend" "$cudnn_frontend_folder" include cudnn_frontend.h ||
    warn "cuDNN's front end (nvidia-cudnn-frontend $cudnn_frontend) could not be fetched; its reason is above.
  moh is built without cuDNN's attention then: dense attention on a GPU runs in its own kernels. To have it, put the
  package's headers into $cudnn_frontend_folder/include"
}

fetch_nanobind() {
  fetch "nanobind==$nanobind" "$nanobind_folder" nanobind cmake/nanobind-config.cmake ||
    warn "nanobind $nanobind could not be fetched; its reason is above. moh is built without its Python module then."
}

case ${1:-} in
  '') ;;
  --checks) packages+=("${check_packages[@]}") ;;
  --list) printf '%s\n' "${packages[@]}" && exit ;;
  -h | --help) usage && exit ;;
  *) usage >&2 && exit 2 ;;
esac

if [ "${MOH_SKIP_SETUP:-0}" = 1 ]; then
  say "set-up skipped (MOH_SKIP_SETUP=1)"
  exit
fi
if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  mapfile -t missing < <(missing_packages)
  if [ ${#missing[@]} -eq 0 ]; then
    say "set-up: all ${#packages[@]} packages are installed"
  else
    install_packages "${missing[@]}"
  fi
else
  warn "this is not a Debian system, so nothing was checked or installed. moh needs what Debian 12 calls
  ${packages[*]}
If the configuration below fails, one of these is what it misses."
fi
# The version is that of cmake/MohDependencies.cmake.
nanobind=$(sed -n 's/^set(MOH_NANOBIND_VERSION \(.*\))$/\1/p' "$root/cmake/MohDependencies.cmake")
nanobind_folder=$cache/moh/nanobind-$nanobind
if [ -n "$cache" ] && [ ! -e "$nanobind_folder/nanobind/cmake/nanobind-config.cmake" ]; then
  fetch_nanobind
fi
if [ -n "$cache" ] && has_cudnn && [ ! -e "$cudnn_frontend_folder/include/cudnn_frontend.h" ]; then
  fetch_cudnn_frontend
fi
