#!/usr/bin/env python3
"""Packs a build for a GPU machine that has no compiler: programs, their libraries, gpu_check.py and its models.

Usage: tools/gpu_bundle.py [--build build] [--out build/gpu-bundle.tar.gz]

There, with Python 3, NVIDIA's driver, and a glibc and libstdc++ not older than those of the build:
  tar xf gpu-bundle.tar.gz && gpu-bundle/check --table gpu-check.md
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ("penstock", "cuda_test", "devices_test")
# What comes with the system there: the others would not fit its loader.
SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|pthread|rt|resolv|stdc\+\+|gcc_s))\.so.*")
START = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH="$here/../lib" exec "$here/bin/{name}" "$@"
"""
# Tests name their data from the folder that holds it.
CHECK = """#!/bin/sh
cd "$(dirname "$(readlink -f "$0")")" && exec python3 tools/gpu_check.py --build build "$@"
"""


def libraries(program):
    """Shared libraries that a program loads, but for those of the system."""
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    paths = (pathlib.Path(path) for path in re.findall(r"=> (/\S+)", told))
    return [path for path in paths if not SYSTEM.fullmatch(path.name)]


def write_script(path, text):
    path.write_text(text)
    path.chmod(0o755)


def fill(folder, build):
    """Lays the bundle out in a folder."""
    for part in ("build/bin", "lib", "tools", "tests/golden"):
        (folder / part).mkdir(parents=True)
    for name in PROGRAMS:
        subprocess.run(["strip", "-o", folder / "build/bin" / name, build / name], check=True)
        write_script(folder / "build" / name, START.format(name=name))
        for library in libraries(build / name):
            shutil.copy(library, folder / "lib")
    shutil.copy(ROOT / "tools/gpu_check.py", folder / "tools")
    for data in ("models", "decoders"):
        shutil.copytree(ROOT / "tests/golden" / data, folder / "tests/golden" / data)
    write_script(folder / "check", CHECK)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder of the build")
    parser.add_argument("--out", type=pathlib.Path, help="file to write; default: gpu-bundle.tar.gz in that folder")
    options = parser.parse_args()
    out = options.out or options.build / "gpu-bundle.tar.gz"
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "gpu-bundle"
        fill(folder, options.build)
        with tarfile.open(out, "w:gz") as archive:
            archive.add(folder, arcname=folder.name)
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
