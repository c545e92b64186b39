#!/bin/bash
# Installs what was built, or removes it; `make install` and `make uninstall` call it.
# Usage: packaging/install.sh install|install-strip|uninstall PROGRAM
# libpenstock.so.1, of which the program is made, lies beside it; bindir/../lib/penstock is where the
# program looks for it.
# Variables, as the GNU coding standards name them: DESTDIR, PREFIX or prefix (/usr/local),
# exec_prefix, bindir, includedir, datarootdir, docdir, mandir, sysconfdir (prefix/etc; /etc for /usr), INSTALL,
# STRIP; unitdir and sysusersdir, where systemd looks; and bashdir, zshdir and fishdir, where the
# shells look for completions. A program that does not run on this machine (it was compiled for
# another one) is installed without manual pages and completions, which it prints itself.
# A config that is there is never written over; one that was changed is not removed.
set -euo pipefail

action=${1:-}
program=${2:+$(realpath -m "$2")}
cd "$(dirname "$0")/.."

prefix=${prefix:-${PREFIX:-/usr/local}}
[[ $prefix == / ]] || prefix=${prefix%/}
exec_prefix=${exec_prefix:-$prefix}
bindir=${bindir:-$exec_prefix/bin}
libdir=$(dirname "$bindir")/lib/penstock
includedir=${includedir:-$prefix/include}
datarootdir=${datarootdir:-$prefix/share}
docdir=${docdir:-$datarootdir/doc/penstock}
mandir=${mandir:-$datarootdir/man}
if [[ $prefix == /usr ]]; then sysconfdir=${sysconfdir:-/etc}; fi
sysconfdir=${sysconfdir:-$prefix/etc}
unitdir=${unitdir:-$prefix/lib/systemd/system}
sysusersdir=${sysusersdir:-$prefix/lib/sysusers.d}
bashdir=${bashdir:-$datarootdir/bash-completion/completions}
zshdir=${zshdir:-$datarootdir/zsh/site-functions}
fishdir=${fishdir:-$datarootdir/fish/vendor_completions.d}
destdir=${DESTDIR:-}
install=${INSTALL:-install}
config=$sysconfdir/penstock/penstock.toml

# These appear in the unit; DESTDIR does not, and may be any folder.
for folder in "$bindir" "$includedir" "$datarootdir" "$docdir" "$mandir" "$sysconfdir" "$unitdir" "$sysusersdir" "$bashdir" \
  "$zshdir" "$fishdir"; do
  if [[ ! $folder =~ ^/[A-Za-z0-9/._+~-]*$ ]]; then
    echo "install.sh: '$folder' is not an absolute path of letters, digits and /._+~-" >&2
    exit 2
  fi
done

documents=(README.md CHANGELOG.md SECURITY.md LICENSE docs/API.md docs/CHAT.md docs/CONFIGURATION.md
  docs/CLIENTS.md docs/EMBEDDING.md docs/GPU.md docs/GRPC.md docs/KSERVE.md docs/MODELS.md docs/OPERATING.md
  docs/PYTHON.md docs/TENSORS.md docs/UI.md)
examples=(packaging/penstock.toml deploy/prometheus.yml deploy/alerts.yml deploy/grafana.json)

put() {  # put SOURCE TARGET [flags of install]
  local source=$1 target=$2
  shift 2
  "$install" -d "$destdir$(dirname "$target")"
  "$install" -m 644 "$@" "$source" "$destdir$target"
}

install_files() {
  [[ -f $program ]] || { echo "install.sh: no program at '$program'; make builds it" >&2; exit 1; }
  local library=${program%/*}/libpenstock.so.1
  [[ -f $library ]] || { echo "install.sh: no library at '$library', of which the program is made" >&2; exit 1; }
  local strip=()
  if [[ $action == install-strip ]]; then strip=(-s --strip-program="${STRIP:-strip}"); fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  put "$program" "$bindir/penstock" -m 755 "${strip[@]}"
  put "$library" "$libdir/libpenstock.so.1" "${strip[@]}"
  ln -sf libpenstock.so.1 "$destdir$libdir/libpenstock.so"
  put library/penstock.h "$includedir/penstock.h"
  sed -e "s|/usr/bin/penstock|$bindir/penstock|" -e "s|/etc/penstock/|$sysconfdir/penstock/|" \
    packaging/penstock.service > "$work/unit"
  put "$work/unit" "$unitdir/penstock.service"
  put packaging/penstock.sysusers "$sysusersdir/penstock.conf"
  if [[ -e $destdir$config ]]; then
    echo "install.sh: kept $destdir$config" >&2
  else
    put packaging/local.toml "$config"
  fi
  for file in "${documents[@]}"; do put "$file" "$docdir/$file"; done
  for file in "${examples[@]}"; do put "$file" "$docdir/examples/${file##*/}"; done
  put tools/install_openvino.py "$datarootdir/penstock/install_openvino.py" -m 755
  for module in model_fetch package_folder; do put tools/$module.py "$datarootdir/penstock/$module.py"; done
  if ! "$program" --version > /dev/null 2>&1; then
    echo "install.sh: $program does not run here: no manual pages, no completions" >&2
    return
  fi
  "$program" man --folder "$work/man"
  for page in "$work"/man/*.1; do put "$page" "$mandir/man1/$(basename "$page")"; done
  for shell in bash zsh fish; do "$program" completion "$shell" > "$work/$shell"; done
  put "$work/bash" "$bashdir/penstock"
  put "$work/zsh" "$zshdir/_penstock"
  put "$work/fish" "$fishdir/penstock.fish"
}

uninstall_files() {
  if [[ -e $destdir$config ]]; then
    if cmp -s packaging/local.toml "$destdir$config"; then rm -f "$destdir$config"
    else echo "install.sh: kept $destdir$config, which was changed" >&2; fi
  fi
  rm -f "$destdir$bindir/penstock" "$destdir$libdir"/libpenstock.so{,.1} "$destdir$includedir/penstock.h" "$destdir$unitdir/penstock.service" \
    "$destdir$sysusersdir/penstock.conf" "$destdir$mandir"/man1/penstock{,-*}.1 \
    "$destdir$bashdir/penstock" "$destdir$zshdir/_penstock" "$destdir$fishdir/penstock.fish"
  rm -f "$destdir$datarootdir"/penstock/{install_openvino,model_fetch,package_folder}.py
  rm -rf "$destdir$datarootdir/penstock/__pycache__"
  for file in "${documents[@]}"; do rm -f "$destdir$docdir/$file"; done
  for file in "${examples[@]}"; do rm -f "$destdir$docdir/examples/${file##*/}"; done
  for folder in "$libdir" "$docdir/docs" "$docdir/examples" "$docdir" "$datarootdir/penstock" \
    "$sysconfdir/penstock"; do
    if [[ -d $destdir$folder ]]; then rmdir --ignore-fail-on-non-empty "$destdir$folder"; fi
  done
}

case "$action" in
  install | install-strip) install_files ;;
  uninstall) uninstall_files ;;
  *) echo "usage: $0 install|install-strip|uninstall PROGRAM" >&2; exit 2 ;;
esac
