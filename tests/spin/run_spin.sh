#!/bin/bash
# Checks batch_ring.pml: every schedule of its small bounds, and that faults put in are found.
# Usage: tests/spin/run_spin.sh SCRATCH_FOLDER     (a minute on one core, up to 1.5 GB of memory)
# Ends with 77 (skipped) where spin or a C compiler is missing.
set -uo pipefail

model=$(cd "$(dirname "$0")" && pwd)/batch_ring.pml
scratch=$1
compiler=${CC:-cc}
for tool in spin "$compiler"; do
  if ! command -v "$tool" > /dev/null; then
    echo "run_spin.sh: SKIPPED: no $tool; the model of the ring was not checked" >&2
    exit 77
  fi
done

# check good|faulty FLAGS...
check() {
  local wanted=$1
  shift
  local folder="$scratch/${*// /}"
  rm -rf "$folder"
  mkdir -p "$folder"
  (
    cd "$folder" || exit 2
    spin -a "$@" "$model" > spin.log 2>&1 && [[ -f pan.c ]] &&
      "$compiler" -O2 -DSAFETY -DCOLLAPSE -DMEMLIM=1500 -o pan pan.c > cc.log 2>&1 &&
      ./pan -m200000 > pan.log 2>&1
  )
  local log="$folder/pan.log"
  local states
  states=$(sed -nE 's/^ *([0-9]+) states, stored.*/\1/p' "$log" 2> /dev/null)
  if ! grep -q '^State-vector.*errors: [01]' "$log" 2> /dev/null; then
    echo "FAILED   $*: did not run (see $folder)"
    return 1
  elif [[ $wanted == good ]] && grep -qE 'errors: [^0]|^Warning: Search not completed|pan: reached' "$log"; then
    echo "FAILED   $*: $(grep -m1 -E '^pan:1:|pan: reached|Warning' "$log") (see $folder)"
    return 1
  elif [[ $wanted == faulty ]] && grep -q 'errors: 0' "$log"; then
    echo "FAILED   $*: the fault was not found in $states states"
    return 1
  fi
  echo "ok       $*: $states states, $([[ $wanted == good ]] && echo 'all of them' || echo 'fault found')"
}

failed=0
# Two at a time.
start() {
  while (($(jobs -rp | wc -l) >= 2)); do wait -n || failed=1; done
  check "$@" &
}

# Two pieces of producer 0 and one of 1: three batches, so a slot is used again. With two executors
# one each, for the number of states; NEEDS_TWO takes more slots than both executors hold.
start good -DEXECUTORS=2 -DPIECES=1
start good -DEXECUTORS=2 -DPIECES=1 -DBATCHES=4 -DNEEDS_TWO
start good -DEXECUTORS=1 -DPIECES1=1
start good -DEXECUTORS=1 -DPIECES1=1 -DAWAITED
start good -DEXECUTORS=1 -DPIECES1=1 -DAWAITED -DROWS=2
start good -DEXECUTORS=1 -DPIECES1=1 -DAWAITED -DLEADER
start good -DRUNNER_FREE -DEXECUTORS=2 -DPIECES=1 -DNEEDS_TWO
start faulty -DBREAK=1 -DEXECUTORS=2 -DPIECES=1 -DBATCHES=4 -DNEEDS_TWO
start faulty -DBREAK=2 -DEXECUTORS=1
start faulty -DBREAK=3 -DEXECUTORS=1 -DAWAITED
start faulty -DBREAK=4 -DEXECUTORS=1
start faulty -DBREAK=5 -DEXECUTORS=1 -DAWAITED
start faulty -DBREAK=6 -DEXECUTORS=1 -DLEADER
start faulty -DBREAK=7 -DEXECUTORS=2 -DPIECES=1 -DBATCHES=4 -DNEEDS_TWO
start faulty -DBREAK=1 -DRUNNER_FREE -DEXECUTORS=2 -DPIECES=1 -DNEEDS_TWO
start faulty -DBREAK=8 -DRUNNER_FREE -DEXECUTORS=2 -DPIECES=1 -DNEEDS_TWO
while (($(jobs -p | wc -l) > 0)); do wait -n || failed=1; jobs > /dev/null; done
exit $failed
