#!/bin/bash
# Makes the Debian package of a program that is built: FOLDER/penstock_VERSION_ARCHITECTURE.deb,
# whose path it prints. What the package depends on is read off the program.
# Usage: tools/make_deb.sh PROGRAM FOLDER. Needs tools/install_deps.sh package.
set -euo pipefail

[[ $# -eq 2 ]] || { echo "usage: $0 PROGRAM FOLDER" >&2; exit 2; }
PENSTOCK_PROGRAM=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
cd "$(dirname "$0")/.."
PENSTOCK_SOURCE=$PWD
export PENSTOCK_PROGRAM PENSTOCK_SOURCE

version=$("$PENSTOCK_PROGRAM" --version | sed 's/^penstock //')
packaged=$(dpkg-parsechangelog -l packaging/debian/changelog -S Version)
if [[ $version != "$packaged" ]]; then
  echo "make_deb.sh: the program is $version, packaging/debian/changelog says $packaged" >&2
  exit 1
fi

# debhelper works in a folder that holds debian/ and writes beside it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/penstock"
cp -r packaging/debian "$work/penstock/debian"
(cd "$work/penstock" && umask 022 && dpkg-buildpackage -b -uc -us) > "$work/log" 2>&1 ||
  { cat "$work/log" >&2; exit 1; }
package=penstock_${version}_$(dpkg --print-architecture).deb
mv "$work/$package" "$folder/$package"
echo "$folder/$package"
