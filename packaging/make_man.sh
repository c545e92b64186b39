#!/bin/bash
# Makes manual pages of what the program says of itself: penstock.1 of `penstock --help`, and of
# each command that it lists penstock-COMMAND.1 of `penstock COMMAND --help-all`.
# Usage: packaging/make_man.sh PROGRAM FOLDER. Needs help2man.
set -euo pipefail

program=$(realpath "$1")
folder=$2
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$("$program" --version | sed 's/^penstock //')
# A date of the sources where there is one, so that the same sources give the same pages.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(date +%s)} LC_ALL=C.UTF-8 TZ=UTC

# page NAME WHAT: help2man runs a program; this one prints the help on standard input, with a colon
# after the name of each group of flags, by which help2man knows a section, and an empty line after
# each example, so that they stay lines.
page() {
  sed -E -e '/^[A-Z][A-Za-z ,-]*$/s/$/:/' -e '/^Examples?:/,$s/^( +.*)$/\1\n/' > "$work/help"
  printf '#!/bin/sh\nexec cat "%s"\n' "$work/help" > "$work/$1"
  chmod +x "$work/$1"
  "${HELP2MAN:-help2man}" --no-info --no-discard-stderr --name="$2" --version-string="$version" \
    --output="$folder/$1.1" "$work/$1"
}

"$program" --help | page penstock "inference server: embeds, reranks, classifies and generates text"
"$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]\+\) \+\(.*\)$/\1 \2/p' > "$work/commands"
while read -r command what; do
  all=--help-all
  "$program" "$command" --help-all > /dev/null 2>&1 || all=--help
  "$program" "$command" "$all" < /dev/null | page "penstock-$command" "$what"
done < "$work/commands"
