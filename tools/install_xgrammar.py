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

import package_folder

VERSION = "0.2.8"
SHA256 = "8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80"
KEPT = ("include/", "cpp/", "3rdparty/picojson/", "3rdparty/dlpack/include/", "LICENSE", "NOTICE")
DROPPED = ("cpp/tvm_ffi/",)


def place(name):
    return name if name.startswith(KEPT) and not name.startswith(DROPPED) else None


def main():
    package_folder.install_sources(
        "xgrammar",
        "XGrammar",
        f"xgrammar=={VERSION}",
        SHA256,
        place,
        stamp=f"xgrammar {VERSION}",
        description=__doc__,
    )


if __name__ == "__main__":
    main()
