#!/usr/bin/env bash
# From a fresh clone to a trained Mixture-of-Head language model: set-up, build, train, plot. Minutes on two cores.
# Arguments are configuration overrides: scripts/quickstart.sh train.steps=100 output.dir=runs/short
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
  -h | --help)
    cat <<END
Usage: scripts/quickstart.sh [key.path=value...]

Installs the packages that are missing, builds moh, trains configs/llm/quickstart.yaml and draws its curves.
  scripts/quickstart.sh train.steps=100 output.dir=runs/short
END
    exit
    ;;
esac

config=configs/llm/quickstart.yaml
moh=build/release/moh

"$root/scripts/setup.sh"
configure release
build release moh
cd "$root"

# What the run will use, overrides included; a mistake in them ends here.
run_dir=$("$moh" config "$config" "$@" | sed -n '/^output:/,/^[^ ]/s/^  dir: *//p' | tr -d "\"'")

say "training: $moh train $config${*:+ $*}"
"$moh" train "$config" "$@"

# The system's interpreter first: it is the one that sees the system's matplotlib.
python=python3
[ -x /usr/bin/python3 ] && python=/usr/bin/python3
say "plotting"
"$python" scripts/plot_run.py "$run_dir" || warn "no plot; scripts/plot_run.py needs python3-matplotlib"

checkpoint=$run_dir/checkpoints
cat <<END

== done. In $run_dir:
  metrics.jsonl   loss, learning rate, speed and head load of every logged step
  checkpoints/    the model; the newest continues with --resume
  curves.png      the plot
Next:
  $moh generate --checkpoint $checkpoint --prompt "This program is free software"
  $moh eval --checkpoint $checkpoint
  $moh train $config train.steps=2000 output.dir=runs/longer
  $moh train configs/llm/tiny_shakespeare_moh_50.yaml data.train=YOUR_TEXT
END
