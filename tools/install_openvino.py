#!/usr/bin/env python3
"""Installs OpenVINO, which runs tensor models, for Penstock; prints its folder. Standard library only.

Takes the libraries that Penstock opens (the C API, the plugin for CPUs, the readers of ONNX,
OpenVINO IR, TensorFlow and TensorFlow Lite, and TBB) out of the Python package openvino, which pip
downloads: version and SHA-256 are those written below, and pip's own settings say from where. No
Python package is installed. About 60 MB are downloaded, 110 MB kept.

Goes to ${XDG_DATA_HOME:-~/.local/share}/penstock/openvino; with --system to
/usr/local/lib/penstock/openvino; with --folder where you say, and then PENSTOCK_OPENVINO must name
that folder. Running it again costs nothing; one that is not the version below is replaced.
"""

import argparse
import fnmatch
import pathlib
import platform

import package_folder

VERSION = "2026.4.1"
# By machine: the platform of the wheel, its SHA-256.
WHEELS = {
    "x86_64": ("manylinux_2_28_x86_64", "2d22b1da03f7caf74df30e9f6417d0ab2f637e4a38e08e1dcd294d2c37407aaf"),
    "aarch64": ("manylinux_2_35_aarch64", "bea1eb3733c34ef331adc945da0ccda5937865031139073663be84c517ffda22"),
}
# The C API is the same in the wheels of every Python; this is the one of the digests.
PYTHON = "311"
LIBRARIES = (
    "libopenvino_c.so*",
    "libopenvino.so*",
    "libopenvino_*_cpu_plugin.so",
    "libopenvino_ir_frontend.so*",
    "libopenvino_onnx_frontend.so*",
    "libopenvino_tensorflow_frontend.so*",
    "libopenvino_tensorflow_lite_frontend.so*",
    "libtbb.so*",
    "libtbbbind*.so*",
    "libhwloc.so*",
)
NEEDED = ("libopenvino_c.so", "libopenvino.so", "_cpu_plugin.so", "_onnx_frontend.so", "libtbb.so")
SYSTEM = "/usr/local/lib/penstock/openvino"


def download(scratch, tag, digest):
    """The wheel, which pip has checked against the digest."""
    package_folder.say("openvino", f"downloading openvino {VERSION} (about 60 MB)")
    (wheel,) = package_folder.pip_download(
        scratch,
        [f"openvino=={VERSION} --hash=sha256:{digest}"],
        "--require-hashes",
        "--only-binary=:all:",
        "--implementation=cp",
        f"--python-version={PYTHON}",
        f"--abi=cp{PYTHON}",
        f"--platform={tag}",
    )
    return wheel


def place(path):
    """Where an entry of the wheel goes; None: it is left out."""
    if path.parent == pathlib.PurePosixPath("openvino/libs"):
        return path.name if any(fnmatch.fnmatch(path.name, pattern) for pattern in LIBRARIES) else None
    if ".dist-info/licenses/" in str(path):  # of what is unpacked
        return f"licenses/{path.name}"
    return None


def install(folder, wheel):
    machine = platform.machine()
    if machine not in WHEELS:
        raise RuntimeError(f"there is no OpenVINO for {machine}")
    tag, digest = WHEELS[machine]

    def write(scratch, part):
        archive = wheel or download(scratch, tag, digest)
        package_folder.check_digest(archive, digest)
        package_folder.unzip(archive, part, place)
        names = [path.name for path in part.iterdir()]
        for needed in NEEDED:
            if not any(needed in name for name in names):
                raise RuntimeError(f"{archive.name} has no {needed}")

    package_folder.fill("openvino", folder, f"openvino {VERSION} sha256:{digest}\n", write)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--folder", type=pathlib.Path, help="where to; the default is of this user")
    choice.add_argument("--system", action="store_true", help=f"to {SYSTEM}, as root")
    parser.add_argument("--wheel", type=pathlib.Path, help="the wheel, downloaded before; its SHA-256 is checked")
    arguments = parser.parse_args()
    folder = pathlib.Path(SYSTEM) if arguments.system else arguments.folder or package_folder.default_folder("openvino")
    package_folder.run("openvino", "OpenVINO", lambda folder: install(folder, arguments.wheel), folder)


if __name__ == "__main__":
    main()
