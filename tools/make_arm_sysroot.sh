#!/bin/bash
# Unpacks Debian's arm64 packages of the libraries Penstock needs into a folder, for cross builds
# (cmake/aarch64-linux-gnu.cmake). The system's own packages and architectures stay as they are:
# apt runs on a state of its own. About 40 MB are downloaded once; needs no root.
# Usage: tools/make_arm_sysroot.sh FOLDER
set -euo pipefail

[[ $# -eq 1 ]] || { echo "usage: $0 FOLDER" >&2; exit 2; }
packages=(
  libstdc++-12-dev libfmt-dev libspdlog-dev libsimdjson-dev libssl-dev
  libboost-dev libcli11-dev libtomlplusplus-dev libhiredis-dev libxxhash-dev zlib1g-dev libzstd-dev
  libedit-dev libnghttp2-dev libprotobuf-dev libgtest-dev libgmock-dev
)
# The last thing written, so that a run that was cut short begins again.
stamp=$1/.packages
[[ -f $stamp && $(< "$stamp") == "${packages[*]}" ]] && exit 0

rm -rf "$1"
mkdir -p "$1" "$1.apt/lists/partial" "$1.apt/archives/partial"
folder=$(cd "$1" && pwd)
state=$(cd "$1.apt" && pwd)
trap 'rm -rf "$state"' EXIT
: > "$state/status"
apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Acquire::Retries=3
     -o APT::Sandbox::User="$(id -un)"
     -o Dir::State="$state" -o Dir::State::Lists="$state/lists" -o Dir::State::status="$state/status"
     -o Dir::Cache="$state" -o Dir::Cache::archives="$state/archives")
echo "fetching Debian's arm64 libraries into $1" >&2
"${apt[@]}" update >&2
"${apt[@]}" install -y --no-install-recommends --download-only "${packages[@]}" >&2
for package in "$state"/archives/*.deb; do dpkg-deb -x "$package" "$folder"; done
# Links to /lib/... would be looked for on this machine.
find "$folder" -type l -lname '/*' -printf '%p %l\n' | while read -r link target; do
  ln -snf "$folder$target" "$link"
done
echo "${packages[*]}" > "$stamp"
