#!/usr/bin/env python3
"""Installs nvcc of CUDA 13, which compiles the kernels for NVIDIA GPUs, for the build. Standard library only.

Takes the compiler and its headers out of NVIDIA's Python packages, which pip downloads: versions and SHA-256 are those
written below, and pip's configuration says from which index. No Python package is installed, nor a driver, nor libraries of
CUDA: Penstock needs none. About 100 MB are downloaded, 160 MB kept. NVIDIA's licence for CUDA applies to them; it is
in the folder.

Goes to ${XDG_DATA_HOME:-~/.local/share}/penstock/cuda, where CMake looks, or with --folder where you say, and then
PENSTOCK_NVCC must name its bin/nvcc. Running it again costs nothing; versions other than those below are replaced.
"""

import argparse
import pathlib
import platform

import package_folder

# By machine: each package with its version and SHA-256.
PACKAGES = {
    "x86_64": (
        ("nvidia-cuda-nvcc", "13.0.88", "56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03"),
        ("nvidia-nvvm", "13.0.88", "c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0"),
        ("nvidia-cuda-crt", "13.0.88", "2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4"),
        ("nvidia-cuda-runtime", "13.0.96", "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548"),
    ),
    "aarch64": (
        ("nvidia-cuda-nvcc", "13.0.88", "c7ff28f86a24effdc6c034fa15230c549a273e4771b10a7fec14996f8cf3307f"),
        ("nvidia-nvvm", "13.0.88", "c4376a291d72d22a315d9d2f69bdae8f8cd83a627f75bad395cee49a0fe65dc1"),
        ("nvidia-cuda-crt", "13.0.88", "ee2ea2a97073e02ee62bb27841f437332be2c248e3eac013df07997ada39c003"),
        ("nvidia-cuda-runtime", "13.0.96", "ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55"),
    ),
}
BASE = pathlib.PurePosixPath("nvidia/cu13")
KEPT = (
    "bin/nvcc",
    "bin/nvcc.profile",
    "bin/cudafe++",
    "bin/ptxas",
    "bin/fatbinary",
    "nvvm/bin/cicc",
    "include/",
    "nvvm/libdevice/",
)
NEEDED = (
    "bin/nvcc",
    "bin/ptxas",
    "bin/cudafe++",
    "nvvm/bin/cicc",
    "include/cuda_runtime.h",
    "include/crt/host_config.h",
)


def place(path):
    """Where an entry of a package goes; None: it is left out."""
    if path.is_relative_to(BASE):
        inner = path.relative_to(BASE)
        return inner if str(inner).startswith(KEPT) else None
    if path.match("*.dist-info/licenses/*"):
        return f"licenses/{path.parent.parent.name.partition('-')[0]}-{path.name}"
    return None


def install(folder, wheels):
    machine = platform.machine()
    if machine not in PACKAGES:
        raise RuntimeError(f"NVIDIA publishes no nvcc package for {machine}")
    packages = PACKAGES[machine]

    def download(scratch):
        package_folder.say("cuda", "downloading nvcc of CUDA 13.0 (about 100 MB)")
        lines = [f"{name}=={version} --hash=sha256:{digest}" for name, version, digest in packages]
        package_folder.pip_download(scratch, lines, "--require-hashes", "--only-binary=:all:")
        return scratch / "files"

    def write(scratch, part):
        archives = wheels or download(scratch)
        for name, version, digest in packages:
            found = list(archives.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
            if len(found) != 1:
                raise RuntimeError(f"{archives} has {len(found)} wheels of {name} {version}")
            package_folder.check_digest(found[0], digest)
            package_folder.unzip(found[0], part, place)
        for needed in NEEDED:
            if not (part / needed).is_file():
                raise RuntimeError(f"the packages have no {needed}")
        for program in (*(part / "bin").iterdir(), *(part / "nvvm" / "bin").iterdir()):
            program.chmod(0o755)

    stamp = "".join(f"{name} {version} sha256:{digest}\n" for name, version, digest in packages)
    package_folder.fill("cuda", folder, stamp, write)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", type=pathlib.Path, help="where to; default: ~/.local/share/penstock/cuda")
    parser.add_argument(
        "--wheels", type=pathlib.Path, help="a folder with the wheels, downloaded before; their SHA-256 are checked"
    )
    arguments = parser.parse_args()
    folder = arguments.folder or package_folder.default_folder("cuda")
    package_folder.run("cuda", "nvcc", lambda folder: install(folder, arguments.wheels), folder)


if __name__ == "__main__":
    main()
