#!/usr/bin/env python3
"""Makes the wheel of a build: FOLDER/penstock-VERSION-py3-none-manylinux_2_34_ARCH.whl, whose path it prints.

Usage: tools/make_wheel.py [--build build] [--out build-wheel]

The wheel holds the package of python/penstock, libpenstock.so.1, the program, which is linked to it, and the
shared libraries that manylinux does not promise, bundled by auditwheel, which also refuses what would not run on
such a system. The same build gives the same bytes: files are sorted, and their time is that of SOURCE_DATE_EPOCH,
or else of the commit. Needs tools/requirements-wheel.txt.
"""

import argparse
import base64
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

from elftools.elf.elffile import ELFFile

from packing import ROOT, Failure, licenses, shipped_parts, source_time, stripped, version

POLICY = "manylinux_2_34"
ZIP_BEGINS = 315532800  # 1980
STB_GLOBAL = 1
METADATA = """Metadata-Version: 2.4
Name: penstock
Version: {version}
Summary: Embed, rerank, classify and generate text, in the process or as a server
License-Expression: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: numpy
Classifier: Programming Language :: Python :: 3
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

{description}"""
ENTRY_POINTS = "[console_scripts]\npenstock = penstock.cli:main\n"


def put(source, target, mode=0o644):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def put_bytes(data, target, mode=0o644):
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(mode)


def fill(folder, build):
    """Lays the wheel out, without a RECORD."""
    package = folder / "penstock"
    for path in sorted((ROOT / "python/penstock").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            put(path, package / path.relative_to(ROOT / "python/penstock"))
    put(ROOT / "library/penstock.h", package / "include/penstock.h")
    for name, place, mode in (("libpenstock.so.1", "_lib", 0o644), ("penstock", "bin", 0o755)):
        put_bytes(stripped(build / name), package / place / name, mode)
    info = folder / f"penstock-{version()}.dist-info"
    for name, data in licenses(build).items():
        put_bytes(data, info / "licenses" / name)
    (info / "METADATA").write_text(
        METADATA.format(version=version(), description=(ROOT / "docs/PYTHON.md").read_text())
    )
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    write_tag(info, f"linux_{platform.machine()}")
    put_bytes(shipped_parts(build).encode(), info / "sboms/penstock.cdx.json")


def write_tag(info, tag):
    (info / "WHEEL").write_text(
        f"Wheel-Version: 1.0\nGenerator: make_wheel.py\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n"
    )


def record(folder, info):
    """RECORD: each file with its digest and size."""
    lines = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "RECORD"):
        data = path.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path.relative_to(folder)},sha256={digest},{len(data)}\n")
    lines.append(f"{info.relative_to(folder)}/RECORD,,\n")
    (info / "RECORD").write_text("".join(lines))


def pack(folder, wheel, seconds):
    """The files of a folder as a zip whose bytes they alone decide."""
    stamp = time.gmtime(seconds)[:6]
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    # The description of a wheel comes last, as PEP 427 advises.
    files.sort(key=lambda path: ".dist-info" in str(path.relative_to(folder)))
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in files:
            entry = zipfile.ZipInfo(str(path.relative_to(folder)), stamp)
            entry.external_attr = (0o100755 if path.stat().st_mode & 0o100 else 0o100644) << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)


def repair(wheel, folder):
    """Has auditwheel bundle libraries; the wheel that it made."""
    name = f"{POLICY}_{platform.machine()}"
    python = pathlib.Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{python}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = subprocess.run(
        [sys.executable, "-m", "auditwheel", "repair", "--plat", name, "--only-plat", "-w", folder, wheel],
        capture_output=True,
        text=True,
        env=environment,
    )
    made = list(folder.glob("*.whl"))
    if done.returncode or len(made) != 1:
        raise Failure(f"auditwheel: {done.stderr.strip()}")
    return made[0]


def part_from_others(library):
    """Makes the "unique" symbols of a bundled library its own.

    The loader has one of each in a process (STB_GNU_UNIQUE), whoever brings it: another version of the same library
    would put its data under this one's functions.
    """
    data = bytearray(library.read_bytes())
    with library.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        for index, symbol in enumerate(table.iter_symbols()):
            if symbol["st_info"]["bind"] == "STB_LOOS":  # 10, which Linux calls unique
                at = table["sh_offset"] + index * table["sh_entsize"] + 4
                data[at] = (data[at] & 15) | STB_GLOBAL << 4
    library.write_bytes(data)


def timeless(document):
    """A CycloneDX document of auditwheel without what differs from run to run."""
    document.pop("serialNumber", None)
    document.get("metadata", {}).pop("timestamp", None)
    return document


def make(build, out):
    seconds = max(source_time(), ZIP_BEGINS)
    name = f"penstock-{version()}"
    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(scratch)
        fill(work / "made", build)
        record(work / "made", work / f"made/{name}.dist-info")
        first = work / f"{name}-py3-none-linux_{platform.machine()}.whl"
        pack(work / "made", first, seconds)
        (work / "repaired").mkdir()
        repaired = repair(first, work / "repaired")
        whole = work / "whole"
        with zipfile.ZipFile(repaired) as archive:
            archive.extractall(whole)
            for entry in archive.infolist():
                (whole / entry.filename).chmod(entry.external_attr >> 16 or 0o644)
        for library in (whole / "penstock.libs").iterdir():
            part_from_others(library)
        info = whole / f"{name}.dist-info"
        for path in (info / "sboms").glob("*.json"):
            path.write_text(json.dumps(timeless(json.loads(path.read_text())), indent=2, sort_keys=True) + "\n")
        record(whole, info)
        out.mkdir(parents=True, exist_ok=True)
        wheel = out / repaired.name
        pack(whole, wheel, seconds)
    return wheel


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder of the build")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build-wheel", help="folder for the wheel")
    options = parser.parse_args()
    try:
        wheel = make(options.build, options.out)
    except Failure as failure:
        print(f"make_wheel: {failure}", file=sys.stderr)
        return 1
    print(wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
