#!/usr/bin/env python3
"""Installs the sources of protobuf, which gRPC and config.pbtxt need, for the build. Standard library only.

libpenstock.so carries protobuf: two of them in sight of each other end a process, and other Python packages bring
one. Debian's static library cannot go into a shared one, so the C++ sources are taken out of the source archive of
the Python package grpcio-tools, which pip downloads: version and SHA-256 are those written below, and pip's own
settings say from where. No Python package is installed; CMake compiles the sources as a part of Penstock
(cmake/protobuf.cmake). About 3 MB. The version is that of Debian's protoc, which writes the code for it.

Goes to ${XDG_DATA_HOME:-~/.local/share}/penstock/protobuf, or with --folder where you say, and then
PENSTOCK_PROTOBUF must name that folder. Running it again costs nothing; one that is not the version below is
replaced. Without it Penstock is linked to the system's shared library.
"""

import pathlib

import package_folder

PACKAGE = "grpcio-tools==1.54.3"
VERSION = "3.21.12"
SHA256 = "baff375130c155b47d44b7dbe6dc5bd0e3334804669774869b1d0cf5ce14d297"
ROOT = "third_party/protobuf/src/"
DROPPED = ("google/protobuf/compiler/", "google/protobuf/util/", "google/protobuf/testing/", "solaris/")


def place(name):
    """Where a file of the archive goes. The messages that come with protobuf stay out, but for descriptors."""
    path = pathlib.PurePosixPath(name.removeprefix(ROOT))
    if not name.startswith(ROOT + "google/") or str(path).startswith(DROPPED) or "test" in path.name:
        return None
    if ".pb." in path.name and not path.name.startswith("descriptor."):
        return None
    return path if path.suffix in (".cc", ".h", ".inc") else None


def main():
    package_folder.install_sources(
        "protobuf",
        "protobuf",
        PACKAGE,
        SHA256,
        place,
        stamp=f"protobuf {VERSION}",
        # The package's set-up script imports pkg_resources, which later ones have not.
        constraint="setuptools==75.8.0",
        description=__doc__,
    )


if __name__ == "__main__":
    main()
