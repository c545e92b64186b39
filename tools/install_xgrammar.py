#!/usr/bin/env python3
"""Installs the sources of XGrammar, by which answers hold to a schema, for the build. Standard library only.

Takes the C++ sources, and the headers of picojson and DLPack that they use, out of the source archive of the
Python package xgrammar, which pip downloads: version and SHA-256 are those written below, and pip's own settings
say from where. No Python package is installed; CMake compiles the sources as a part of Penstock
(cmake/xgrammar.cmake). About 3 MB.

Goes to ${XDG_DATA_HOME:-~/.local/share}/penstock/xgrammar, or with --folder where you say, and then
PENSTOCK_XGRAMMAR must name that folder. Running it again costs nothing; one that is not the version below is
replaced. Without it Penstock builds, and refuses requests for constrained answers.
"""

import argparse
import pathlib
import shutil
import tarfile

import package_folder

VERSION = "0.2.8"
SHA256 = "8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80"
KEPT = ("include/", "cpp/", "3rdparty/picojson/", "3rdparty/dlpack/include/", "LICENSE", "NOTICE")
DROPPED = ("cpp/tvm_ffi/",)


def download(scratch):
    """The archive. pip asks the package for its metadata, and so fetches what builds it, to a folder of its own."""
    package_folder.say("xgrammar", f"downloading the sources of xgrammar {VERSION} (about 3 MB)")
    (archive,) = package_folder.pip_download(scratch, [f"xgrammar=={VERSION}"], "--no-binary=xgrammar")
    return archive


def unpack(archive, folder):
    with tarfile.open(archive) as entries:
        for entry in entries:
            name = entry.name.partition("/")[2]
            if not entry.isfile() or not name.startswith(KEPT) or name.startswith(DROPPED):
                continue
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with entries.extractfile(entry) as source, open(target, "wb") as file:
                shutil.copyfileobj(source, file)


def install(folder, given):
    def write(scratch, part):
        archive = given or download(scratch)
        package_folder.check_digest(archive, SHA256)
        unpack(archive, part)

    package_folder.fill("xgrammar", folder, f"xgrammar {VERSION} sha256:{SHA256}\n", write)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", type=pathlib.Path, help="where to; the default is of this user")
    parser.add_argument("--archive", type=pathlib.Path, help="the archive, downloaded before; its SHA-256 is checked")
    arguments = parser.parse_args()
    folder = arguments.folder or package_folder.default_folder("xgrammar")
    package_folder.run("xgrammar", "XGrammar", lambda folder: install(folder, arguments.archive), folder)


if __name__ == "__main__":
    main()
