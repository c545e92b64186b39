#!/bin/bash
# Makes or renews a Python environment. Prints its python.
# Usage: tools/make_venv.sh FOLDER REQUIREMENTS
# Renewed only when the requirements' text changes.
set -euo pipefail

folder=$1
requirements=$2
stamp="$folder/.requirements"

if ! cmp -s "$requirements" "$stamp"; then
  rm -rf "$folder"
  python3 -m venv "$folder" >&2
  "$folder/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check -r "$requirements" >&2
  cp "$requirements" "$stamp"
fi
echo "$folder/bin/python"
