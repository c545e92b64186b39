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
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

import model_fetch

VERSION = "0.2.8"
SHA256 = "8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80"
KEPT = ("include/", "cpp/", "3rdparty/picojson/", "3rdparty/dlpack/include/", "LICENSE", "NOTICE")
DROPPED = ("cpp/tvm_ffi/",)
STAMP = "penstock-version"


def say(text):
    print(f"install_xgrammar: {text}", file=sys.stderr, flush=True)


def default_folder():
    data = os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local" / "share"
    return pathlib.Path(data) / "penstock" / "xgrammar"


def stamp():
    return f"xgrammar {VERSION} sha256:{SHA256}\n"


def download(scratch):
    """The archive. pip asks the package for its metadata, and so fetches what builds it, to a folder of its own."""
    command = [
        model_fetch.pip_python(scratch),
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--disable-pip-version-check",
        "--no-binary=xgrammar",
        "--dest",
        scratch / "archive",
        f"xgrammar=={VERSION}",
    ]
    say(f"downloading the sources of xgrammar {VERSION} (about 3 MB)")
    subprocess.run(command, check=True, stdout=sys.stderr)
    archives = list((scratch / "archive").glob("*.tar.gz"))
    if len(archives) != 1:
        raise RuntimeError(f"pip gave {len(archives)} archives")
    return archives[0]


def unpack(archive, folder):
    if (found := model_fetch.sha256(archive)) != SHA256:
        raise RuntimeError(f"{archive.name} has SHA-256 {found}, expected {SHA256}")
    with tarfile.open(archive) as entries:
        for entry in entries:
            name = entry.name.partition("/")[2]
            if not entry.isfile() or not name.startswith(KEPT) or name.startswith(DROPPED):
                continue
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with entries.extractfile(entry) as source, open(target, "wb") as file:
                shutil.copyfileobj(source, file)
    (folder / STAMP).write_text(stamp())


def install(folder, archive):
    """Fills a folder beside `folder` and moves it there whole."""
    try:
        if (folder / STAMP).read_text() == stamp():
            return
    except OSError:
        pass
    if folder.exists() and any(folder.iterdir()) and not (folder / STAMP).exists():
        raise RuntimeError(f"{folder} holds something else; name another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".part-") as scratch:
        scratch = pathlib.Path(scratch)
        part = scratch / "xgrammar"
        part.mkdir()
        unpack(archive or download(scratch), part)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    say(f"installed the sources of xgrammar {VERSION} in {folder}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", type=pathlib.Path, help="where to; the default is of this user")
    parser.add_argument("--archive", type=pathlib.Path, help="the archive, downloaded before; its SHA-256 is checked")
    arguments = parser.parse_args()
    folder = (arguments.folder or default_folder()).absolute()
    try:
        install(folder, arguments.archive)
    except subprocess.CalledProcessError:
        sys.exit("install_xgrammar: pip could not download XGrammar (above); it must reach a package index that has it")
    except (OSError, RuntimeError, tarfile.TarError) as error:
        sys.exit(f"install_xgrammar: cannot install XGrammar: {error}")
    print(folder)


if __name__ == "__main__":
    main()
