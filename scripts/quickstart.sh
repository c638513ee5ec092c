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
# shellcheck disable=SC2046 # one option, or none
configure release $(kernels_of_new release)
build release moh moh_pages moh_library # the latter two: so that cmake --install works afterwards
cd "$root"

# The run folder. Errors in the overrides are reported here, before training.
resolved=$("$moh" config "$config" "$@")
run_dir=$(sed -n "/^output:/,/^[^ ]/s/^  dir: *//p" <<<"$resolved" | tr -d "\"'")

# An interrupted run continues; a finished one only writes its sample again.
say "training: $moh train $config${*:+ $*} --resume"
"$moh" train "$config" "$@" --resume

say "plotting"
"$(system_python)" scripts/plot_run.py "$run_dir" || warn "the plot is missing; everything else is there"

cat <<END

== done. In $run_dir:
  checkpoints/    the trained model
  sample.txt      generated text
  curves.png      loss, learning rate and head load, drawn from metrics.jsonl
  config.yaml     every setting of the run
  moh.log         the lines that you have just seen

Next:
  $moh generate --checkpoint $run_dir --prompt "This program"
  $moh eval --checkpoint $run_dir data=README.md
  $moh train configs/llm/tiny_shakespeare_moh_50.yaml data.train=YOUR_TEXT output.dir=runs/mine
  $moh --help
To train this one again from the start: rm -r $run_dir
END
