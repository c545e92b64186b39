"""What make_wheel.py and make_image.py share: commands, the time of all files, programs without symbols, licences."""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Failure(Exception):
    """What is told instead of a package."""


def run(*command):
    """Standard output of a command."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"{command[0]} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def source_time():
    """Seconds since 1970 that all files carry: SOURCE_DATE_EPOCH, else the time of the commit."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "-C", ROOT, "log", "-1", "--format=%ct"))


def version():
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"^project\(penstock VERSION (\S+)", text, re.MULTILINE)[1]


def stripped(path):
    """The bytes of a program or library without its symbols."""
    if not path.is_file():
        raise Failure(f"there is no {path}: build it first")
    with tempfile.NamedTemporaryFile() as out:
        run("strip", "-o", out.name, path)
        return pathlib.Path(out.name).read_bytes()


@functools.cache
def shipped_parts(build):
    """The parts of the program and its library, as CycloneDX."""
    return run(sys.executable, ROOT / "tools/audit.py", "--program", build / "penstock", "--shipped", "--sbom", "-")


def licenses(build):
    """Penstock's licence, and those of its parts: what Debian says of its packages, and of those that it has not."""
    found = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
    found["copyright"] = (ROOT / "packaging/debian/copyright").read_bytes()
    for part in json.loads(shipped_parts(build))["components"]:
        path = pathlib.Path("/usr/share/doc") / part["name"] / "copyright"
        if path.is_file():
            found[f"{part['name']}.copyright"] = path.read_bytes()
    return found
