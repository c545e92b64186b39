#!/bin/bash
# clang-tidy with the project's .clang-tidy; quiet when there is nothing to say.
# Usage: tools/run_tidy.sh BUILD_FOLDER [--all]
# Without --all only the sources that differ from the last commit on the main branch, or, on that
# branch with nothing changed, from the commit before: what a change is about, in a minute or two.
set -euo pipefail

cd "$(dirname "$0")/.."
build=$1

all() {
  git ls-files --cached --others --exclude-standard 'src/*.cc' 'apps/*.cc' 'lab/*.cc'
}
changed() {
  local base
  base=$(git merge-base HEAD origin/main 2> /dev/null || git rev-parse HEAD)
  if [[ $base == $(git rev-parse HEAD) ]] && git diff --quiet HEAD; then
    base=$(git rev-parse -q --verify HEAD~1 || git rev-parse HEAD)
  fi
  git diff --name-only --diff-filter=d "$base" -- 'src/*.cc' 'apps/*.cc' 'lab/*.cc'
  git ls-files --others --exclude-standard 'src/*.cc' 'apps/*.cc' 'lab/*.cc'
}

if [[ ${2:-} == --all ]]; then list=all; else list=changed; fi
# Kernels are compiled per instruction set from isa_*.cc; test bodies are macros that tidy takes
# for code of ours.
mapfile -t files < <($list | sort -u | grep -vE '_test\.cc$|_bench\.cc$|/isa_' || true)
if [[ ${#files[@]} -eq 0 ]]; then
  echo "tidy: nothing to check"
  exit 0
fi
echo "tidy: ${#files[@]} files"
# g++'s -fno-... flags, which clang does not know, are not findings.
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "${JOBS:-2}" clang-tidy -p "$build" --quiet --warnings-as-errors='*' \
    --extra-arg=-Wno-unknown-warning-option 2> >(grep -vE 'warnings? (generated|treated)|^Suppressed|^Use -header' >&2) ||
  { echo "tidy: findings above" >&2; exit 1; }
echo "tidy: no findings"
