#!/bin/bash
# Runs the unit tests (ctest) and the end-to-end tests (pytest); ends with their own summaries.
# Usage: tools/run_tests.sh BUILD_FOLDER [unit|e2e]
# Fails if either fails; the second runs even if the first failed.
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1
build=$1
which=${2:-all}
failed=0

# Weights are too large to keep beside the tests; those that want them skip where there are none.
if [[ -z ${PENSTOCK_MINILM:-} ]]; then
  if model=$(tools/get_default_model.py); then
    export PENSTOCK_MINILM=$model
  else
    echo "run_tests.sh: no default model; the tests that need it are skipped" >&2
  fi
fi
if [[ -z ${PENSTOCK_SMOLLM2:-} ]]; then
  if model=$(tools/get_demo_model.py); then
    export PENSTOCK_SMOLLM2=$model
  else
    echo "run_tests.sh: no chat model; the tests that need it are skipped" >&2
  fi
fi

# So is the library that runs tensor models.
if [[ -z ${PENSTOCK_OPENVINO:-} ]]; then
  if folder=$(tools/install_openvino.py); then
    export PENSTOCK_OPENVINO=$folder
  else
    echo "run_tests.sh: no OpenVINO; the tests of tensor models are skipped" >&2
  fi
fi

if [[ $which != e2e ]]; then
  ctest --test-dir "$build" -j 2 --output-on-failure --progress || failed=1
fi

shopt -s nullglob
e2e=(tests/e2e/test_*.py tests/e2e/*_test.py)
if [[ $which != unit && ${#e2e[@]} -gt 0 && -f tests/e2e/requirements.txt ]]; then
  python=$(tools/make_venv.sh "$build/venv" tests/e2e/requirements.txt) || exit 1
  PENSTOCK_BIN=${PENSTOCK_BIN:-$PWD/$build/penstock} \
    "$python" -m pytest -q -p no:cacheprovider tests/e2e --ignore=tests/e2e/test_openvino_models.py \
      --ignore=tests/e2e/test_magika.py --ignore=tests/e2e/test_grpc.py \
      --ignore=tests/e2e/test_kserve_http.py --ignore=tests/e2e/test_kserve_client.py \
      --ignore=tests/e2e/test_ui.py || failed=1
  # The clients of Triton and KServe want another protobuf than the newest of gRPC's tools do. Each
  # brings the protocol's messages, and one process takes them once.
  python=$(tools/make_venv.sh "$build/kserve-venv" tests/e2e/requirements-kserve.txt) || exit 1
  for tests in "tests/e2e/test_grpc.py tests/e2e/test_kserve_http.py" tests/e2e/test_kserve_client.py; do
    # shellcheck disable=SC2086  # several files
    PENSTOCK_BIN=${PENSTOCK_BIN:-$PWD/$build/penstock} \
      "$python" -m pytest -q -p no:cacheprovider $tests || failed=1
  done
  if command -v chromium chromedriver > /dev/null; then
    python=$(tools/make_venv.sh "$build/ui-venv" tests/e2e/requirements-ui.txt) || exit 1
    PENSTOCK_BIN=${PENSTOCK_BIN:-$PWD/$build/penstock} \
      "$python" -m pytest -q -rs -p no:cacheprovider tests/e2e/test_ui.py || failed=1
  else
    echo "run_tests.sh: no Chromium (tools/install_deps.sh ui); the tests of the web page are skipped" >&2
  fi
  if [[ -n ${PENSTOCK_OPENVINO:-} ]]; then
    python=$(tools/make_venv.sh "$build/tensors-venv" tests/e2e/requirements-tensors.txt) || exit 1
    PENSTOCK_BIN=${PENSTOCK_BIN:-$PWD/$build/penstock} \
      "$python" -m pytest -q -rs -p no:cacheprovider tests/e2e/test_openvino_models.py \
        tests/e2e/test_magika.py || failed=1
  fi
fi
exit $failed
