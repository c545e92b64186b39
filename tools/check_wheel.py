#!/usr/bin/env python3
"""Checks a wheel of Penstock where it is to run: in new Debians, by every Python that is here, beside other libraries.

Usage: tools/check_wheel.py WHEEL [--debian bookworm,trixie] [--python PATH...] [--no-neighbours]

Everywhere the same text must give the same bits. A new Debian is made by debootstrap (root; tools/install_deps.sh
check-deb) with its own Python and numpy. Each --python (else every python3.9 to python3.14 on the PATH) gets a virtual
environment with the wheel and numpy from PyPI. In one of them pyarrow, grpcio and onnxruntime are loaded before and
after it. Exits with 1 where one of the checks fails.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "tests/golden/models/bert_mean_normalize"
NEIGHBOURS = ("pyarrow", "grpc", "grpc_tools._protoc_compiler", "onnxruntime")
NEIGHBOUR_PACKAGES = ("pyarrow", "grpcio", "grpcio-tools", "onnxruntime")
# Prints the digest of vectors, by the package and by the program that came with it.
SCRIPT = """
import hashlib, json, os, struct, subprocess, sys
{before}
import penstock
texts = ["That is a happy person", "", "pen stock"]
with penstock.Embedder({model!r}, dtype="f32", threads=1) as model:
    rows = model.encode(texts)
{after}
program = os.path.join(os.path.dirname(penstock.__file__), "bin", "penstock")
environment = dict(os.environ, PENSTOCK_CPU_ISA=os.environ.get("PENSTOCK_CPU_ISA", ""))
told = subprocess.run([program, "embed", "--model", {model!r}, "--dtype", "f32", "--threads", "1"], env=environment,
                      input="\\n".join(texts[::2]).encode(), stdout=subprocess.PIPE, check=True).stdout
said = [json.loads(line)["embedding"] for line in told.decode().splitlines()]
assert [row.tobytes() for row in rows[::2]] == [struct.pack(f"{{len(row)}}f", *row) for row in said], "other bits than the program's"
print(hashlib.sha256(rows.tobytes()).hexdigest())
"""


class Failure(Exception):
    """What is told where a check fails."""


def run(*command, **settings):
    """Standard output of a command."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **settings)
    if done.returncode:
        raise Failure(f"{' '.join(map(str, command[:4]))} ...: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout.strip()


def script(model, before=(), after=()):
    imports = ["import " + ", ".join(names) if names else "" for names in (before, after)]
    return SCRIPT.format(model=str(model), before=imports[0], after=imports[1])


def mirror():
    """The address of packages that this machine's apt uses; it has the other releases of Debian, too."""
    told = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
    found = [line.split() for line in told.splitlines()]
    for address, release, component in found:
        if component == "main" and "-" not in release:
            return address
    raise Failure("apt knows no release of Debian")


def in_debian(release, wheel):
    """The digest in a new Debian of that release, by its own Python and numpy."""
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch) / "root"
        run("debootstrap", "--variant=minbase", "--include=python3,python3-numpy", release, root, mirror())
        run("unzip", "-q", wheel, "-d", root / "site")
        shutil.copytree(MODEL, root / "model")
        subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
        try:
            return run(
                shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin"),
                root,
                "python3",
                "-c",
                script("/model"),
                env={"PATH": "/usr/bin:/bin", "PYTHONPATH": "/site", "LC_ALL": "C.UTF-8"},
            )
        finally:
            subprocess.run(["umount", root / "proc"], check=True)


def by_python(python, wheel, neighbours):
    """Digests by a Python with the wheel and numpy from PyPI; with `neighbours` also beside these, in either order."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PENSTOCK_", "PYTHON"))}
    with tempfile.TemporaryDirectory() as scratch:
        run(python, "-m", "venv", scratch)
        inside = pathlib.Path(scratch) / "bin/python"
        packages = NEIGHBOUR_PACKAGES if neighbours else ()
        run(inside, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel, *packages)
        digests = [run(inside, "-c", script(MODEL), env=environment, cwd=scratch)]
        if neighbours:
            digests.append(run(inside, "-c", script(MODEL, before=NEIGHBOURS), env=environment, cwd=scratch))
            digests.append(run(inside, "-c", script(MODEL, after=NEIGHBOURS), env=environment, cwd=scratch))
        told = run(pathlib.Path(scratch) / "bin/penstock", "--version", env=environment, cwd=scratch)
        if not told.startswith("penstock "):
            raise Failure(f"the command says {told!r}")
        return digests


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS
    )
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("--debian", default="bookworm,trixie", help='releases, with commas between; none: ""')
    parser.add_argument("--python", action="append", default=[], metavar="PATH", help="a Python; may be given again")
    parser.add_argument("--no-neighbours", action="store_true", help="not beside pyarrow, grpcio and onnxruntime")
    options = parser.parse_args()
    pythons = options.python or [found for minor in range(9, 15) if (found := shutil.which(f"python3.{minor}"))]
    wheel = options.wheel.resolve()
    digests = {}
    try:
        for number, python in enumerate(pythons):
            neighbours = number == len(pythons) - 1 and not options.no_neighbours
            name = run(python, "-c", "import platform; print('Python', platform.python_version())")
            for place, digest in zip(
                ("", ", after the neighbours", ", before them"), by_python(python, wheel, neighbours)
            ):
                digests[name + place] = digest
                print(f"{name + place}: {digest[:16]}", flush=True)
        for release in filter(None, options.debian.split(",")):
            digests[release] = in_debian(release, wheel)
            print(f"Debian {release}: {digests[release][:16]}", flush=True)
        if len(set(digests.values())) != 1:
            raise Failure("the bits differ")
    except Failure as failure:
        print(f"check_wheel: FAILED: {failure}", file=sys.stderr)
        return 1
    print(f"check_wheel: the same bits in {len(digests)} places")
    return 0


if __name__ == "__main__":
    sys.exit(main())
