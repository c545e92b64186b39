#!/bin/bash
# Prints the path of promtool, which checks metrics and alerts by Prometheus' own rules. Takes it out of
# Debian's package prometheus, 19 MB, without installing the server; keeps it in
# ${XDG_CACHE_HOME:-~/.cache}/penstock/promtool. Running it again costs nothing.
set -euo pipefail

if found=$(command -v promtool); then
  echo "$found"
  exit
fi
folder=${XDG_CACHE_HOME:-$HOME/.cache}/penstock/promtool
if [[ ! -x $folder/promtool ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  (cd "$work" && apt-get -o APT::Sandbox::User="$(id -un)" download -qq prometheus && dpkg-deb -x prometheus_*.deb unpacked) >&2
  mkdir -p "$folder"
  install -m 755 "$work/unpacked/usr/bin/promtool" "$folder/promtool.new"
  mv "$folder/promtool.new" "$folder/promtool"
fi
echo "$folder/promtool"
