#!/usr/bin/env python3
"""Makes the environments of `make bench-peers` outside the tree. Standard library only.

  install.py [CACHE_FOLDER]

Fills CACHE_FOLDER/peers-venv and CACHE_FOLDER/infinity-venv, writes why anything could not be
installed to CACHE_FOLDER/peers-venv/missing.json, and prints the first one's python. An environment
is touched again only when the text of its requirements changes; `rm -r` on it starts anew.
"""
import json
import os
import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).parent


def say(text):
    print(f"install: {text}", file=sys.stderr, flush=True)


def pip(python, arguments, **environment):
    """Its last line of complaint, or None."""
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments],
                          env={**os.environ, **environment}, stdout=sys.stderr, stderr=subprocess.PIPE, text=True)
    if done.returncode == 0:
        return None
    sys.stderr.write(done.stderr)
    errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
    return (errors or done.stderr.splitlines() or ["pip failed"])[-1][:200]


def install(folder, requirements, **environment):
    """{requirement: reason} of what is missing. All at once, or else line by line."""
    python = folder / "bin/python"
    stamp = folder / f".{requirements.name}"
    text = requirements.read_text()
    if stamp.exists():
        kept = json.loads(stamp.read_text())
        if kept["text"] == text:
            return kept["missing"]
    if not python.exists():
        venv.create(folder, with_pip=True)
    say(f"{requirements.name} into {folder}")
    missing = {}
    if pip(python, ["-r", str(requirements)], **environment):
        for line in text.splitlines():
            if line and not line.startswith("#"):
                reason = pip(python, [line], **environment)
                if reason:
                    say(f"{line}: {reason}")
                    missing[line.split("==")[0]] = reason
    stamp.write_text(json.dumps({"text": text, "missing": missing}))
    return missing


def install_llama(folder):
    flags = "-DGGML_NATIVE=ON -DMTMD_BUILD=OFF -DLLAVA_BUILD=OFF"
    if "amx_tile" in pathlib.Path("/proc/cpuinfo").read_text():
        # g++ before 13.3 takes the stores of a tile configuration for dead: llama.cpp would crash.
        flags += " '-DCMAKE_CXX_FLAGS=-fno-tree-dse -fno-dse'"
    return install(folder, HERE / "requirements-llama.txt", CMAKE_ARGS=flags)


def default_cache():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "penstock"


def main():
    cache = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default_cache()
    peers = cache / "peers-venv"
    missing = install(peers, HERE / "requirements.txt")
    missing |= install_llama(peers)
    missing |= install(cache / "infinity-venv", HERE / "requirements-infinity.txt")
    (peers / "missing.json").write_text(json.dumps(missing, indent=1))
    print(peers / "bin/python")


if __name__ == "__main__":
    main()
