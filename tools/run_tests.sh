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

if [[ $which != unit && -z ${PROMTOOL:-} ]]; then
  if tool=$(tools/get_promtool.sh); then
    export PROMTOOL=$tool
  else
    echo "run_tests.sh: no promtool; the tests of Prometheus' own rules are skipped" >&2
  fi
fi

# The tests' environments are made beside the unit tests, which leave a third of two cores idle.
if [[ $which == all ]]; then
  for name in "" clients kserve ui tensors; do
    tools/make_venv.sh "$build/${name:+$name-}venv" "tests/e2e/requirements${name:+-$name}.txt" > /dev/null
  done &
fi

if [[ $which != e2e ]]; then
  ctest --test-dir "$build" -j 2 --output-on-failure --progress || failed=1
fi
wait

# Tests in an environment of their own, build/NAME-venv. Usage: in_environment NAME ARGUMENTS_OF_PYTEST...
in_environment() {
  local name=$1 python
  shift
  python=$(tools/make_venv.sh "$build/$name-venv" "tests/e2e/requirements-$name.txt") || exit 1
  "$python" -m pytest -q -rs -p no:cacheprovider --durations=5 "$@" || failed=1
}

if [[ $which != unit ]]; then
  export PENSTOCK_BIN=${PENSTOCK_BIN:-$PWD/$build/penstock}
  apart=(test_clients.py test_agent_clients.py test_grpc.py test_kserve_http.py test_kserve_client.py test_ui.py test_ui_chat.py test_ui_reading.py test_ui_views.py test_proxies.py test_ray.py test_ray_nodes.py test_chart.py
    test_openvino_models.py test_magika.py)
  python=$(tools/make_venv.sh "$build/venv" tests/e2e/requirements.txt) || exit 1
  together=(-q -p no:cacheprovider --durations=15 tests/e2e "${apart[@]/#/--ignore=tests/e2e/}")
  # Most tests wait most of the time, so two processes take files in turn.
  "$python" -m pytest "${together[@]}" -m 'not alone' -n 2 --dist loadfile || failed=1
  "$python" -m pytest "${together[@]}" -m alone || failed=1
  # LangChain and LiteLLM want another openai, the clients of Triton and KServe another protobuf.
  in_environment clients tests/e2e/test_clients.py tests/e2e/test_agent_clients.py
  in_environment kserve tests/e2e/test_grpc.py tests/e2e/test_kserve_http.py
  # Each client brings the protocol's messages, and one process takes them once.
  in_environment kserve tests/e2e/test_kserve_client.py
  if command -v chromium chromedriver > /dev/null; then
    in_environment ui -n 2 --dist loadfile tests/e2e/test_ui.py tests/e2e/test_ui_chat.py tests/e2e/test_ui_reading.py tests/e2e/test_ui_views.py
  else
    echo "run_tests.sh: no Chromium (tools/install_deps.sh ui); the tests of the web page are skipped" >&2
  fi
  if [[ -n ${PENSTOCK_OPENVINO:-} ]]; then
    in_environment tensors -n 2 tests/e2e/test_openvino_models.py tests/e2e/test_magika.py
  fi
fi
exit $failed
