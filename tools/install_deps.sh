#!/bin/bash
# Installs the Debian packages Penstock needs and that are missing; nothing else, no questions.
# Usage: tools/install_deps.sh [--missing] [serve] [build] [test] [ui] [format] [tidy] [peers] [proxies] [arm] [fuzz] [package]
#   [check-deb] (default: build)
#   serve      compiler and libraries of the program, for `make serve` and `make release`
#   build      the same with frameworks of tests and benchmarks
#   test       programs that only tests run: a model checker, a Redis (Debian starts it as a service),
#              zstd, shells for which completions are printed, man
#   ui         Chromium and its driver, for the tests of the web page (131 MB to fetch, 440 MB on disk)
#   format     clang-format, for `make format` and `make check`
#   tidy       clang-tidy, for `make check`
#   peers      libraries that `penstock bench` stands beside ours where they are there
#   proxies    HAProxy and nginx, for `make check-proxies` (Debian starts them as services)
#   arm        cross-compiler and emulator, for `make check-arm`
#   package    what makes the Debian package and looks at it, for `make deb`
#   check-deb  what makes a new Debian to install it in, for `make check-deb` and `make check-wheel`
#   fuzz       clang with libFuzzer and its sanitizers, for `make fuzz`
# With --missing the packages that are not here are printed, and none is installed.
set -euo pipefail

serve=(
  build-essential cmake ninja-build ccache git ca-certificates curl
  python3 python3-venv python3-pip
  libfmt-dev libspdlog-dev libsimdjson-dev libssl-dev
  libboost-dev libcli11-dev libtomlplusplus-dev libhiredis-dev libxxhash-dev pkg-config
  zlib1g-dev libzstd-dev libedit-dev libnghttp2-dev
  libprotobuf-dev protobuf-compiler
)
build=(
  "${serve[@]}"
  libgtest-dev libgmock-dev libbenchmark-dev
  libconcurrentqueue-dev libtbb-dev
)
test=(spin redis-server zstd zsh fish man-db groff-base qemu-user)
ui=(chromium chromium-driver)
format=(clang-format)
tidy=(clang-tidy)
peers=(libdnnl-dev)
proxies=(haproxy nginx-light)
arm=(g++-aarch64-linux-gnu qemu-user)
fuzz=(clang llvm libclang-rt-dev)
package=(debhelper lintian)
check_deb=(debootstrap systemd-container unzip)

only_list=
if [[ ${1:-} == --missing ]]; then only_list=yes; shift; fi

wanted=()
for group in "${@:-build}"; do
  case "$group" in
    serve) wanted+=("${serve[@]}") ;;
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    ui) wanted+=("${ui[@]}") ;;
    format) wanted+=("${format[@]}") ;;
    tidy) wanted+=("${tidy[@]}") ;;
    peers) wanted+=("${peers[@]}") ;;
    proxies) wanted+=("${proxies[@]}") ;;
    arm) wanted+=("${arm[@]}") ;;
    fuzz) wanted+=("${fuzz[@]}") ;;
    package) wanted+=("${package[@]}") ;;
    check-deb) wanted+=("${check_deb[@]}") ;;
    *) echo "install_deps.sh: no group '$group'; see the top of the file" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query > /dev/null; then
  [[ -z $only_list ]] || exit 0
  echo "install_deps.sh: not a Debian system; needed are the equivalents of: ${wanted[*]}" >&2
  exit 0
fi

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f='${Status}' "$package" 2> /dev/null || true)
  [[ $state == "install ok installed" ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0
if [[ -n $only_list ]]; then echo "${missing[*]}"; exit 0; fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo > /dev/null; then
    echo "install_deps.sh: run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "installing: ${missing[*]}" >&2
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300
     -o Acquire::Retries=3)
"${apt[@]}" update >&2
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2
