"""The container image and the tar beside it: what they hold, that they are made alike twice, that they run."""

import hashlib
import io
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile

import pytest

from conftest import EMBED, GOLDEN, ROOT, binary, clean_environment

BUILD = pathlib.Path(binary()).parent


def make(out):
    told = subprocess.run(["ldd", binary()], capture_output=True, text=True).stdout
    if "libasan" in told or "libtsan" in told:
        pytest.skip("built with sanitizers")
    done = subprocess.run(
        [sys.executable, ROOT / "tools/make_image.py", "--build", BUILD, "--out", out],
        capture_output=True,
        text=True,
        timeout=120,
        env=clean_environment(SOURCE_DATE_EPOCH="1700000000"),
    )
    assert done.returncode == 0, done.stderr
    (image,) = out.glob("*.image.tar")
    (plain,) = set(out.glob("*.tar")) - {image}
    return image, plain


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def parts(made):
    """The image's settings, and its files as a tar."""
    with tarfile.open(made[0]) as archive:
        read = lambda name: archive.extractfile(name).read()
        (entry,) = json.loads(read("manifest.json"))
        config, layer = read(entry["Config"]), read(entry["Layers"][0])
    assert entry["Config"] == hashlib.sha256(config).hexdigest() + ".json"
    settings = json.loads(config)
    assert settings["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
    return settings, tarfile.open(fileobj=io.BytesIO(layer))


def test_it_is_small_and_has_one_user_and_no_shell(made, parts):
    assert made[0].stat().st_size <= 65e6
    settings, files = parts
    assert settings["config"]["User"] == "10001:10001"
    assert settings["config"]["Entrypoint"] == ["/usr/bin/penstock", "serve"]
    assert settings["config"]["Healthcheck"]["Test"] == ["CMD", "/usr/bin/penstock", "health"]
    names = {entry.name for entry in files}
    assert {
        "usr/bin/penstock",
        "etc/ssl/certs/ca-certificates.crt",
        "usr/share/penstock/sbom.cdx.json",
        "tmp",
        "var/cache/penstock",
    } <= names
    executables = [entry.name for entry in files if entry.isfile() and entry.mode & 0o111 and ".so" not in entry.name]
    assert executables == ["usr/bin/penstock"]
    assert not [entry.name for entry in files if entry.mode & 0o6000]


def test_it_is_made_alike_twice(made, tmp_path):
    again = make(tmp_path)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in made]


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can change the root folder")
def test_it_runs_with_nothing_else_around(parts, tmp_path):
    root = tmp_path / "root"
    parts[1].extractall(root)
    root.chmod(0o755)  # pytest's folders are for their owner
    shutil.copytree(GOLDEN / EMBED, root / "model")
    environment = {pair.split("=")[0]: pair.split("=", 1)[1] for pair in parts[0]["config"]["Env"]}
    done = subprocess.run(
        [
            shutil.which("chroot", path="/usr/sbin:/sbin"),
            "--userspec=10001:10001",
            root,
            "/usr/bin/penstock",
            "embed",
            "--model",
            "/model",
        ],
        input=b"hello\n",
        capture_output=True,
        timeout=60,
        env=environment,
    )
    assert done.returncode == 0 and b'"embedding":[' in done.stdout, done.stderr


def test_the_tar_runs_from_any_folder(made, tmp_path):
    with tarfile.open(made[1]) as archive:
        archive.extractall(tmp_path)
    (folder,) = tmp_path.iterdir()
    done = subprocess.run(
        [folder / "bin/penstock", "version", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert folder.name == "penstock-" + said["version"] and said["architecture"] == platform.machine()
    assert said["libraries"]["openssl"].startswith("3.")
    told = subprocess.run(["ldd", folder / "bin/penstock"], capture_output=True, text=True, check=True).stdout
    assert str(folder / "lib/penstock") in told.replace("bin/../", "")


def test_a_server_says_whether_it_is_healthy(start, tmp_path):
    server = start("--model", f"m={GOLDEN / EMBED}")

    def health(*args, **variables):
        return subprocess.run(
            [binary(), "health", *args], capture_output=True, text=True, timeout=30, env=clean_environment(**variables)
        )

    done = health("--url", server.url)
    assert (done.returncode, done.stdout) == (0, "ready\n"), done.stderr
    assert health("--live", PENSTOCK_PORT=str(server.port)).stdout == "live\n"
    gone = health("--url=http://127.0.0.1:9", "--connect-timeout", "1")
    assert gone.returncode == 1 and "127.0.0.1:9" in gone.stderr
