# Begin with `make help`. CMake does the work; see CMakePresets.json for the builds.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := release

BUILD := build
HOST ?= 127.0.0.1
PORT ?= 8080
# MODEL=folder or owner/name; the default model if not given.
MODEL ?=
# Reaches `generate` through the environment, so that quotes in it are no trouble.
PROMPT ?= Here is a simple recipe for bread. First,
export PROMPT
GENERATE_FLAGS ?=
DURATION ?= 600
FUZZ_SECONDS ?= 20
FUZZ_SEED ?= 0
FUZZ ?=
DEFAULT_MODEL := sentence-transformers/all-MiniLM-L6-v2
DEMO_MODEL := HuggingFaceTB/SmolLM2-135M-Instruct

# As many compilers as there are cores, but no more than memory carries (about 1.5 GB each).
CORES := $(shell nproc)
MEMORY_JOBS := $(shell awk '/MemAvailable/ {n = int($$2 / 1572864); print (n > 0 ? n : 1)}' /proc/meminfo)
JOBS ?= $(shell echo $$(( $(CORES) < $(MEMORY_JOBS) ? $(CORES) : $(MEMORY_JOBS) )))

SOURCES = $(shell git ls-files --cached --others --exclude-standard 'src/*.h' 'src/*.cc' 'apps/*.h' 'apps/*.cc' 'library/*.h' 'library/*.cc' 'library/*.c' 'lab/*.h' 'lab/*.cc' 'bench/*.cc' 'tests/*.h' 'tests/*.cc')

# How far a compilation is.
export NINJA_STATUS ?= [%p, %f of %t] 

.PHONY: help release lab deps deps-serve sources configured serve generate install install-strip uninstall deb wheel check-wheel check-ray check-proxies check-chart check-session image check-deb test unit e2e bench bench-peers bench-generate-peers bench-tensors-peers bench-magika soak soak-chat soak-hostile soak-tensors format check layers audit sbom lines check-format check-python tidy by-file odr asan tsan sanitizers fuzz check-arm check-cuda gpu-check gpu-bundle clean

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

release: $(BUILD)/build.ninja  ## build/penstock (the default)
	cmake --build $(BUILD) -j $(JOBS) --target penstock

lab: $(BUILD)/build.ninja  ## build/penstock-lab as well: experiments with Penstock (docs/BENCHMARKS.md)
	cmake --build $(BUILD) -j $(JOBS) --target penstock penstock-lab

# Only the first run: CMake itself runs again when it must. Without tests and benchmarks, which take
# more packages; `configured` adds them.
$(BUILD)/build.ninja:
	cmake --preset release -B $(BUILD) -DPENSTOCK_BUILD_TESTS=OFF -DPENSTOCK_BUILD_BENCHES=OFF || \
	  { echo 'packages missing? `make deps-serve` installs them' >&2; exit 1; }

configured:
	@cmake --preset release -B $(BUILD) -DPENSTOCK_BUILD_TESTS=ON -DPENSTOCK_BUILD_BENCHES=ON > /dev/null || \
	  { echo 'packages missing? `make deps` installs them' >&2; exit 1; }

deps:  ## install the Debian packages that are missing, and the sources of XGrammar and protobuf
	@tools/install_deps.sh build
	@$(MAKE) --no-print-directory sources

deps-serve:  ## the same, but only what the program itself needs
	@tools/install_deps.sh serve
	@$(MAKE) --no-print-directory sources

# What is compiled into the program and no Debian package has.
sources:
	@tools/install_xgrammar.py > /dev/null || echo 'no XGrammar: answers are not held to schemas (docs/API.md)' >&2
	@tools/install_protobuf.py > /dev/null || echo 'no sources of protobuf: the library is linked to the system'"'"'s' >&2

serve:  ## install, build, fetch two models, serve on 127.0.0.1:8080: embeddings, chat (HOST=, PORT=, MODEL=)
	@tools/say_steps.sh '$(BUILD)' '$(JOBS)' 'serve: http://$(HOST):$(PORT) answers a second later; Ctrl-C ends it'
	@$(MAKE) --no-print-directory deps-serve
	@$(MAKE) --no-print-directory release
	@if [[ -n "$(MODEL)" ]]; then models=(--model "$(MODEL)"); else \
	  embedder=$$(tools/get_default_model.py) || exit 1; \
	  chat=$$(tools/get_demo_model.py) || exit 1; \
	  models=(--model "$(DEFAULT_MODEL),$(notdir $(DEFAULT_MODEL))=$$embedder" \
	          --model "$(DEMO_MODEL),$(notdir $(DEMO_MODEL))=$$chat"); \
	fi; \
	exec $(BUILD)/penstock serve --preload "$${models[@]}" --host $(HOST) --port $(PORT)

generate:  ## install, build, fetch a small model, write text (PROMPT='...', MODEL=, GENERATE_FLAGS=)
	@tools/say_steps.sh '$(BUILD)' '$(JOBS)' 'the text, after the prompt'
	@$(MAKE) --no-print-directory deps-serve
	@$(MAKE) --no-print-directory release
	@model="$(MODEL)"; \
	[[ -n $$model ]] || model=$$(tools/get_demo_model.py); \
	exec $(BUILD)/penstock generate -m "$$model" -p "$$PROMPT" \
	  $(if $(filter -n% --max-tokens%,$(GENERATE_FLAGS)),,-n 64) $(GENERATE_FLAGS)

# Variables given to make (PREFIX, DESTDIR, bindir, ...) reach the script through the environment.
install: release  ## install program, unit, config, documents (PREFIX=/usr/local, DESTDIR=; or install-strip)
	@packaging/install.sh install '$(BUILD)/penstock'

install-strip: release
	@packaging/install.sh install-strip '$(BUILD)/penstock'

uninstall:  ## remove what install put there, with the same variables
	@packaging/install.sh uninstall

# Without the libraries that only benchmarks link, so that the package does not depend on them.
deb: deps  ## the Debian package, build-deb/penstock_VERSION_ARCHITECTURE.deb
	@tools/install_deps.sh package
	cmake --preset release -B build-deb -DPENSTOCK_BUILD_TESTS=OFF -DPENSTOCK_BUILD_BENCHES=OFF > /dev/null
	cmake --build build-deb -j $(JOBS) --target penstock
	@rm -f build-deb/penstock_*.deb
	@tools/make_deb.sh build-deb/penstock build-deb

wheel: release  ## the Python package with library and program, build-wheel/penstock-VERSION-py3-none-manylinux_2_34_ARCH.whl
	@python=$$(tools/make_venv.sh $(BUILD)/wheel-venv tools/requirements-wheel.txt) && \
	  "$$python" tools/make_wheel.py --build $(BUILD) --out build-wheel

check-wheel: wheel  ## the wheel in new Debians (root), by every Python here, beside pyarrow, grpcio and onnxruntime
	@tools/install_deps.sh check-deb
	@tools/check_wheel.py build-wheel/penstock-*.whl $(CHECK_FLAGS)

check-ray: release  ## penstock.ray with real Ray, whose workers are killed; about 620 MB of packages, some minutes
	python=$$(tools/make_venv.sh $(BUILD)/ray-venv tests/e2e/requirements-ray.txt) && \
	  PENSTOCK_BIN=$(abspath $(BUILD))/penstock PENSTOCK_LIBRARY=$(abspath $(BUILD))/libpenstock.so.1 \
	  "$$python" -m pytest -q -rs -p no:cacheprovider tests/e2e/test_ray.py tests/e2e/test_ray_nodes.py

check-proxies: release  ## deploy/proxies with real HAProxy, nginx and Envoy, replicas killed and restarted; some minutes
	@tools/install_deps.sh proxies
	python=$$(tools/make_venv.sh $(BUILD)/proxies-venv tests/e2e/requirements-proxies.txt) && \
	  PENSTOCK_BIN=$(abspath $(BUILD))/penstock "$$python" -m pytest -q -rs -s -p no:cacheprovider tests/e2e/test_proxies.py

check-chart: release  ## deploy/helm by Helm's SDK, by the schemas of Kubernetes 1.25 to 1.37 and (PENSTOCK_CRDS=) of custom resources
	python=$$(tools/make_venv.sh $(BUILD)/chart-venv tests/e2e/requirements-chart.txt) && \
	  PENSTOCK_BIN=$(abspath $(BUILD))/penstock "$$python" -m pytest -q -rs -p no:cacheprovider tests/e2e/test_chart.py

check-session: release  ## some 800 requests over the routes of every dialect: each answer as another build's (BEFORE=its program)
	@test -n "$(BEFORE)" || { echo 'check-session: BEFORE=PROGRAM is missing' >&2; exit 2; }
	@tools/http_session.py $(BUILD)/penstock $(BEFORE)

image: release  ## the container image from scratch, and a tar without containers, in build-image/; for buildah, podman, docker
	@python3 tools/make_image.py --build $(BUILD) --out build-image $$(command -v buildah > /dev/null && echo --load || true)

check-deb: deb  ## the package installed, run, upgraded and purged in a new Debian (root)
	@tools/install_deps.sh check-deb
	@tools/check_deb.py build-deb/penstock_*_$$(dpkg --print-architecture).deb

test: deps  ## install, build everything, run the unit tests and the end-to-end tests
	@tools/install_deps.sh test package
	@tools/install_deps.sh ui || echo 'no Chromium: the tests of the web page will be skipped' >&2
	@$(MAKE) --no-print-directory configured
	cmake --build $(BUILD) -j $(JOBS)
	@tools/run_tests.sh $(BUILD)

unit: configured  ## the unit tests only (TESTS=regular expression)
	cmake --build $(BUILD) -j $(JOBS)
	ctest --test-dir $(BUILD) -j 2 --output-on-failure $(if $(TESTS),-R '$(TESTS)')

e2e: configured  ## the end-to-end tests only
	cmake --build $(BUILD) -j $(JOBS) --target penstock penstock-lab penstock_queue_peers openvino_cases
	@tools/run_tests.sh $(BUILD) e2e

bench: deps  ## the encoder beside onnxruntime, in one run (JSON=file for the records)
	@$(MAKE) --no-print-directory configured
	cmake --build $(BUILD) -j $(JOBS) --target encode_bench
	@model="$(MODEL)"; \
	[[ -n $$model ]] || model=$$(tools/get_default_model.py); \
	python=$$(tools/make_venv.sh $(BUILD)/bench-venv bench/requirements.txt); \
	exec $$python bench/encode_vs_ort.py --program $(BUILD)/bench/encode_bench --model "$$model" \
	  $(if $(JSON),--json '$(JSON)') $(BENCH_FLAGS)

bench-peers: deps  ## beside other runtimes from PyPI; writes docs/peers.md (JSON=, PEERS_FLAGS=--quick)
	@$(MAKE) --no-print-directory configured
	cmake --build $(BUILD) -j $(JOBS) --target penstock encode_bench
	@model="$(MODEL)"; \
	[[ -n $$model ]] || model=$$(tools/get_default_model.py); \
	python=$$(python3 bench/peers/install.py); \
	exec $$python bench/peers/bench_peers.py --build $(BUILD) --model "$$model" \
	  $(if $(JSON),--json '$(JSON)') $(PEERS_FLAGS)

bench-generate-peers: deps release  ## text generation beside other runtimes; docs/peers-generate.md (JSON=, PEERS_FLAGS=, PENSTOCK_IK=)
	@model=$$(tools/get_demo_model.py); \
	python=$$(python3 bench/peers_generate/prepare.py); \
	exec $$python bench/peers_generate/bench_generate_peers.py --program $(BUILD)/penstock --model "$$model" \
	  $(if $(JSON),--json '$(JSON)') $(PEERS_FLAGS)

bench-tensors-peers: deps lab  ## tensor requests over gRPC beside pytriton and mlserver (JSON=, PEERS_FLAGS=)
	@exec python3 bench/peers_tensors/bench_tensors_peers.py --program $(BUILD)/penstock \
	  $(if $(JSON),--json '$(JSON)') $(PEERS_FLAGS)

bench-magika: deps release  ## a tensor model served, beside OpenVINO's own loop (JSON=)
	@python=$$(tools/make_venv.sh $(BUILD)/magika-venv bench/requirements-magika.txt); \
	exec $$python bench/magika_speed.py --program $(BUILD)/penstock $(if $(JSON),--json '$(JSON)')

soak: deps lab  ## four times the load a server can carry, for DURATION=600 seconds (MODEL=)
	@model="$(MODEL)"; \
	[[ -n $$model ]] || model=$$(tools/get_default_model.py); \
	exec $(BUILD)/penstock-lab soak --model "$$model" --duration $(DURATION) $(if $(JSON),--json '$(JSON)')

soak-chat: deps lab  ## the same with streams of generated text (MODEL=)
	@model="$(MODEL)"; \
	[[ -n $$model ]] || model=$$(tools/get_demo_model.py); \
	exec $(BUILD)/penstock-lab soak --chat --model "$$model" --duration $(DURATION) $(if $(JSON),--json '$(JSON)')

soak-hostile: deps release  ## hostile clients of all kinds beside good ones, for DURATION seconds (MODEL=, CHAT_MODEL=)
	@model="$(MODEL)"; chat="$(CHAT_MODEL)"; \
	[[ -n $$model ]] || model=$$(tools/get_default_model.py); \
	[[ -n $$chat ]] || chat=$$(tools/get_demo_model.py); \
	exec python3 bench/soak_hostile.py --program $(BUILD)/penstock --encoder "$$model" --decoder "$$chat" \
	  --duration $(DURATION) $(if $(JSON),--json '$(JSON)')

soak-tensors: deps release  ## tensor requests: overload, models that fail, versions that come and go
	@python=$$(tools/make_venv.sh $(BUILD)/tensors-venv tests/e2e/requirements-tensors.txt); \
	exec $$python bench/soak_tensors.py --program $(BUILD)/penstock --duration $(DURATION) $(if $(JSON),--json '$(JSON)')

format:  ## format the C++ sources in place
	@tools/install_deps.sh format
	clang-format -i $(SOURCES)

check: layers check-format check-python tidy  ## layers, format, ruff, clang-tidy on changed files (ALL=1: on all)

layers:  ## modules, lengths, names, wording and other rules (HEADERS=1: headers alone; LOWER=1: numbers that fell)
	@python3 tools/check_layers.py $(if $(HEADERS),--headers) $(if $(LOWER),--lower)

audit: release  ## versions of the libraries that are linked, against known vulnerabilities (UPDATE=1: those of Debian's tracker first)
	@python3 tools/audit.py --program $(BUILD)/penstock $(if $(UPDATE),--update)

sbom: release  ## build/sbom.json: these libraries as CycloneDX (SBOM=file)
	@python3 tools/audit.py --program $(BUILD)/penstock --sbom '$(or $(SBOM),$(BUILD)/sbom.json)'

# Commands for each file by itself, and the headers that are made.
by-file:
	@cmake --preset release -B $(BUILD)-by-file -DPENSTOCK_UNITY=OFF > /dev/null
	@cmake --build $(BUILD)-by-file -j $(JOBS) --target penstock_kserve_protos penstock_grpc_protos

lines: by-file  ## what the compiler reads for each file, against its bound (some minutes)
	@tools/check_preprocessed.py $(BUILD)-by-file

check-format:
	@tools/install_deps.sh format
	@clang-format --dry-run -Werror $(SOURCES) && echo 'format: no findings'

# The linter and formatter of the Python here, in a virtual environment of their own (ruff.toml).
check-python:  ## ruff: lint and format of the Python files (FIX=1: mend what it can)
	@python=$$(tools/make_venv.sh $(BUILD)/ruff-venv tools/requirements-lint.txt) && \
	  "$$python" -m ruff check -q $(if $(FIX),--fix) . && \
	  "$$python" -m ruff format -q $(if $(FIX),,--check) . && echo 'python: no findings'

# At level 0: the linker compares classes, whatever the optimiser does.
odr:  ## one build whose linker compares the definitions of every class
	cmake --preset debug -B $(BUILD)-odr -DPENSTOCK_UNITY=ON -DPENSTOCK_BUILD_TESTS=OFF -DPENSTOCK_BUILD_BENCHES=OFF \
	  -DCMAKE_CXX_FLAGS='-flto=$(JOBS) -g0 -Wodr -Werror=odr' -DCMAKE_AR=$$(command -v gcc-ar) \
	  -DCMAKE_RANLIB=$$(command -v gcc-ranlib) > /dev/null
	cmake --build $(BUILD)-odr -j $(JOBS) --target penstock

tidy: by-file
	@tools/install_deps.sh tidy
	@JOBS=$(JOBS) tools/run_tidy.sh $(BUILD)-by-file $(if $(ALL),--all)

asan:  ## unit tests under the address and undefined-behaviour sanitizers
	cmake --preset asan -DPENSTOCK_BUILD_BENCHES=OFF
	cmake --build build-asan -j $(JOBS)
	ctest --test-dir build-asan -j 2 --output-on-failure $(if $(TESTS),-R '$(TESTS)')

# Without address randomisation: the sanitizer of g++ 12 cannot map its memory on newer kernels.
tsan:  ## unit tests under the thread sanitizer
	cmake --preset tsan -DPENSTOCK_BUILD_BENCHES=OFF
	cmake --build build-tsan -j $(JOBS)
	setarch $$(uname -m) -R ctest --test-dir build-tsan -j 2 --output-on-failure $(if $(TESTS),-R '$(TESTS)')

# What CI runs of the two: programs with the most threads, and with the most bytes of strangers, among
# them the inputs of fuzz targets, changed.
ASAN_TESTS := http net files families corpus cuda
TSAN_TESTS := batch gate sched http cuda
# They compare numbers over many shapes, for minutes, by kernels that other tests run, too.
SANITIZERS_SKIP := ^cuda[.]([^.]*SelfCheck[.]|.*[.]OperandsOfTensorCoresStayClose|CudaStepRun[.](Bits|Blocks|Draws|Matrices|States|TensorCores))
sanitizers:  ## a part of asan and tsan, in some minutes
	cmake --preset asan -DPENSTOCK_BUILD_BENCHES=OFF > /dev/null
	cmake --build build-asan -j $(JOBS) --target $(ASAN_TESTS:=_test) fuzz_replays
	ctest --test-dir build-asan -j 2 --output-on-failure --progress -R '^($(subst $() ,|,$(ASAN_TESTS))|fuzz)\.' -LE slow_to_compile -E '$(SANITIZERS_SKIP)'
	cmake --preset tsan -DPENSTOCK_BUILD_BENCHES=OFF > /dev/null
	cmake --build build-tsan -j $(JOBS) --target $(TSAN_TESTS:=_test)
	setarch $$(uname -m) -R ctest --test-dir build-tsan -j 2 --output-on-failure --progress -R '^($(subst $() ,|,$(TSAN_TESTS)))\.' -E '$(SANITIZERS_SKIP)'

fuzz:  ## fuzz targets under clang's sanitizers, FUZZ_SECONDS=20 each (FUZZ=regular expression, FUZZ_SEED=)
	@tools/install_deps.sh build fuzz
	cmake --preset fuzz > /dev/null
	cmake --build build-fuzz -j $(JOBS) --target fuzz_targets
	tools/run_fuzz.py build-fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED) --only '$(FUZZ)'

gpu-check: configured  ## every kernel, whole models, load and speed on this machine's GPU; build/gpu-check.md
	cmake --build $(BUILD) -j $(JOBS) --target penstock cuda_test devices_test
	tools/gpu_check.py --build $(BUILD) --json $(BUILD)/gpu-check.json --table $(BUILD)/gpu-check.md

gpu-bundle: configured  ## build/gpu-bundle.tar.gz: gpu-check for a GPU machine without a compiler
	cmake --build $(BUILD) -j $(JOBS) --target penstock cuda_test devices_test
	tools/gpu_bundle.py --build $(BUILD) --out $(BUILD)/gpu-bundle.tar.gz

check-cuda:  ## the kernels of src/cuda compiled for each GPU architecture; needs nvcc (CHANGED=1: if they are new)
	tools/check_cuda.py $(if $(CHANGED),--changed)

# Modules that depend on the processor: kernels and models (sets neon and scalar), text (sign of char).
ARM_TESTS := base json log os threads files families text cpu models
# What an emulator cannot do: start itself again, count pages, be as fast as limits of time want.
ARM_SKIP := [.](MappedFileTest[.]OtherFaults|HugePageArena[.]ABlockThatStays|Hostile|LongTokens)

check-arm:  ## cross-compile for 64-bit ARM; under qemu the tests from kernels to models, an embedding
	@tools/install_deps.sh build arm
	@tools/make_arm_sysroot.sh build-arm-sysroot
	cmake --preset arm
	cmake --build build-arm -j $(JOBS) --target penstock $(ARM_TESTS:%=%_test)
	echo 'That is a happy person' | qemu-aarch64 -L build-arm-sysroot build-arm/penstock embed --dtype f32 \
	  --model tests/golden/models/bert_mean_normalize | grep -q '"embedding":\[0.0403'
	ctest --test-dir build-arm -j $(CORES) --output-on-failure -R '$(or $(TESTS),^($(subst $() ,|,$(ARM_TESTS)))[.])' \
	  -E '$(ARM_SKIP)'

clean:  ## remove the build folders
	rm -rf build build-*
