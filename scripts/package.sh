#!/usr/bin/env bash
# Makes packages of moh that need nothing but the C library: a wheel, an archive, and a Debian package.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<END
Usage: scripts/package.sh [OPTION...]

  --cuda           with CUDA kernels, for compute capability 8.0 and 9.0a: a wheel and an archive whose version ends with +cuda
                   and the toolkit's; a CUDA toolkit with cuDNN's headers must be here
  --without-cudnn  with --cuda: leaves out what calls cuDNN
  --without-deb    makes no Debian package
  --from BUILD     takes the program of this build folder and compiles nothing but one file; a folder with tests has their
                   failure points in it
  --output FOLDER  where the packages go (default: build/packages)
  --native         with --from: takes CPU kernels of this machine alone, too; the version ends with +native then

Builds moh in build/package (with --cuda build/package-cuda) with CPU kernels for all instruction sets, and writes into build/packages

  moh-VERSION-py3-none-manylinux_2_NN_x86_64.whl   pip install ./moh-*.whl; for glibc 2.NN or newer
  moh-VERSION-linux-x86_64.tar.xz                  unpack it, run bin/moh
  moh_VERSION_amd64.deb                            apt install ./moh_*.deb, on the Debian that it was made on

In the first two all libraries are linked statically; CUDA's, NCCL's and Open MPI's are found when they are used, and needed for
nothing else. The same build makes the same bytes; SOURCE_DATE_EPOCH (default: the time of the commit) is the time of all files.
docs/install.md says how to install them.
END
}

wrong() {
  printf 'error: package: %s\n' "$1" >&2
  exit 2
}

folder=$root/build/packages preset=package options=() deb=true built='' native=false
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit ;;
    --cuda) preset=package-cuda deb=false ;;
    --without-cudnn) options=(-DMOH_CUDNN=OFF) ;;
    --without-deb) deb=false ;;
    --from)
      [ -f "${2:-}/CMakeCache.txt" ] || wrong "--from: expected a build folder, found '${2:-}'"
      built=$(cd "$2" && pwd)
      shift
      ;;
    --native) native=true ;;
    --output)
      [ -n "${2:-}" ] || wrong "--output: expected a folder"
      folder=$2
      shift
      ;;
    *) wrong "unknown option '$1'; --help lists them" ;;
  esac
  shift
done

# Debian packages whose code is in the program: its libraries, and headers that are more than declarations.
third_party=(libyaml-cpp-dev libfmt-dev libcli11-dev nlohmann-json3-dev libxxhash-dev zlib1g-dev libeigen3-dev libjpeg62-turbo-dev
  libpng-dev libpcre2-dev libutf8proc-dev libzstd-dev libboost-dev gcc-12-base)

# cached NAME: a value of the build folder's cache.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$built/CMakeCache.txt"; }

# fill TREE: the installation, with the program that has its libraries in it, and the licences of what that contains.
fill() {
  local tree=$1 package
  cmake --install "$built" --prefix "$tree" --component Unspecified >/dev/null ||
    die "$built: expected a complete build; cmake --build '$built' --target moh moh_pages makes what is missing"
  strip -o "$tree/bin/moh" "$built/packaged/moh"
  mkdir -p "$tree/share/doc/moh/third_party"
  for package in "${third_party[@]}"; do
    cp "/usr/share/doc/$package/copyright" "$tree/share/doc/moh/third_party/${package%-dev}" ||
      die "the licence of $package must be in a package of moh, as its code is; on a system other than Debian put it there"
  done
}

# label_of KERNELS TEXT: the local label of a version whose program not every machine can use, "+cuda13.0" or "+native", or nothing.
# TEXT is what --version says.
label_of() {
  local kernels=$1 text=$2 label=''
  if [[ $text =~ ', CUDA '([0-9]+\.[0-9]+) ]]; then label=.cuda${BASH_REMATCH[1]}; fi
  if [ "$kernels" != all ]; then label+=.$kernels; fi
  printf '%s' "${label/#./+}"
}

"$root/scripts/setup.sh"
unset MOH_CUDA # the preset says it
if [ -n "$built" ]; then
  cmake --build "$built" --target moh_packaged >/dev/null || die "the build failed; cmake --build '$built' --target moh_packaged shows it"
else
  configure "$preset" "${options[@]}"
  build "$preset" moh_packaged moh moh_pages
  built=$root/build/$preset
fi
kernels=$(cached MOH_CPU_KERNELS)
[ "$kernels" = all ] || $native || die "$built: expected CPU kernels for all instruction sets, found MOH_CPU_KERNELS=$kernels;" \
  "without --from a build of its own has them, and --native takes these for machines like this one"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 315532800)}
export SOURCE_DATE_EPOCH
# With an empty environment: a library that is missing is not found through this machine's search paths.
text=$(env -i "$built/packaged/moh" --version) || die "$built/packaged/moh does not start"
version=$(cached CMAKE_PROJECT_VERSION)$(label_of "$kernels" "$text")
name=moh-$version-linux-$(uname -m)
say "packing $text"
mkdir "$work/$name"
fill "$work/$name"

mkdir -p "$folder"
# A Python package with an extension module that needs the C library alone goes into the wheel from here.
package=()
if [ -d "$built/packaged/moh_package" ]; then package=(--package "$built/packaged/moh_package"); fi
rm -f "$folder/moh-$version"-*.whl # of another tag
"$(system_python)" -B "$root/scripts/make_wheel.py" "$work/$name" --version "$version" --output "$work" "${package[@]}" >/dev/null ||
  die "the wheel could not be made; the reason is above"
mv "$work"/*.whl "$folder/"

tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" \
  -cJf "$work/$name.tar.xz" "$name"
mv "$work/$name.tar.xz" "$folder/"

if $deb; then
  (cd "$work" && cpack --config "$built/CPackConfig.cmake" -B "$work/deb" >/dev/null) ||
    die "cpack could not make the Debian package; on a system other than Debian leave it out with --without-deb"
  mv "$work"/deb/*.deb "$folder/"
fi
(cd "$folder" && du -h --apparent-size -- "moh-$version"-*.whl "$name.tar.xz" && if $deb; then du -h --apparent-size -- moh_*.deb; fi)
say "done: $folder"
