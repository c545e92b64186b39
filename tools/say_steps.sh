#!/bin/bash
# What `make serve` and `make generate` will do, and about how long each step takes here.
# Usage: tools/say_steps.sh BUILD JOBS LAST_STEP
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 jobs=$2 last=$3

# Seconds of one processor for ten files, on a machine that does nothing else.
seconds_of_ten=13

missing=$(tools/install_deps.sh --missing serve | wc -w)
if [[ $missing -eq 0 ]]; then packages='packages: all are here'
else packages="packages: $missing of Debian are missing; 1 to 3 minutes, as root or by sudo"; fi

if [[ -x $build/penstock ]]; then compile='compile: what has changed; seconds, if nothing has'
else
  files=$(find src apps -name '*.cc' ! -name '*_test.cc' ! -name '*_bench.cc' | wc -l)
  minutes=$(((files * seconds_of_ten / 10 / jobs + 59) / 60))
  compile="compile: about $files files, $jobs at a time; about $minutes minutes, once"
fi

cat >&2 << TEXT
penstock: 4 steps
  1. $packages
  2. $compile
  3. models: at most 190 MB from the network, unless they are in ~/.cache already
  4. $last
TEXT
