#!/usr/bin/env bash
# The documentation as a site: pages that can be read from a folder, without network.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
  -h | --help)
    cat <<END
Usage: scripts/site.sh [--packages | --moh FILE] [--out FOLDER]

Builds the site of README.md, docs/ and the texts of --help into FOLDER/html (default: build/site) and looks at every link of it. A page
that is in no list of scripts/site/index.md, a link that leads nowhere, and any other warning are errors.

  --packages   only install the Python packages that it takes (scripts/site/requirements.txt), once, into the virtual environment
               that MOH_SITE_VENV names (default: build/site-venv)
  --moh FILE   the program whose --help is shown (default: build/release/moh)
END
    exit
    ;;
esac

moh=$root/build/release/moh
out=$root/build/site
packages_only=false
while [ $# -gt 0 ]; do
  case $1 in
    --packages) packages_only=true ;;
    --moh) moh=$2 && shift ;;
    --out) out=$2 && shift ;;
    *) die "$1: unknown option; scripts/site.sh --help" ;;
  esac
  shift
done

site=$root/scripts/site
venv=${MOH_SITE_VENV:-$root/build/site-venv}
mapfile -t packages <"$site/requirements.txt"
python_venv "$venv" "sphinx, myst_parser, furo" "${packages[@]}"
if $packages_only; then
  say "the packages of the site are in $venv"
  exit
fi
[ -x "$moh" ] || die "$moh: no such program; build it (README.md), or name it: --moh FILE"

# What the pages are and link to lies side by side, with the generated pages.
source=$out/source
rm -rf "$out"
mkdir -p "$source"
cp -r "$root"/{README.md,CONTRIBUTING.md,CHANGELOG.md,LICENSE,CITATION.cff,docs,configs,scripts} "$source/"
cp "$site/index.md" "$source/"
ln -s "$root"/{core,autograd,ops,models,train,examples,tests} "$source/"
"$venv/bin/python" -B "$site/configurations.py" "$source/configs" >"$source/configurations.md"
"$venv/bin/python" -B "$root/scripts/command_pages.py" "$moh" --markdown "$source/commands"

export PYTHONDONTWRITEBYTECODE=1
"$venv/bin/sphinx-build" -q -n -W --keep-going -b html -c "$site" -d "$out/doctrees" "$source" "$out/html" ||
  die "the site has mistakes; they are above. A page that is 'not included in any toctree' needs a line in scripts/site/index.md"
"$venv/bin/python" -B "$site/check_pages.py" "$out/html" || die "the pages have links that lead nowhere; they are above"
say "the site is $out/html/index.html"
