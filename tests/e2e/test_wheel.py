"""The wheel: what is in it, that it is made alike twice, and that it works where it is installed."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from conftest import EMBED, GOLDEN, ROOT, binary, clean_environment

BUILD = pathlib.Path(binary()).parent
# What auditwheel needs to know where it comes from.
EPOCH = "1700000000"


def sanitized():
    told = subprocess.run(["ldd", binary()], capture_output=True, text=True).stdout
    return "libasan" in told or "libtsan" in told


@pytest.fixture(scope="module")
def python():
    if sanitized():
        pytest.skip("built with sanitizers")
    done = subprocess.run(
        [ROOT / "tools/make_venv.sh", BUILD / "wheel-venv", ROOT / "tools/requirements-wheel.txt"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        pytest.skip(f"NOT TESTED: auditwheel cannot be installed: {done.stderr[-300:]}")
    return done.stdout.strip()


def make(python, out, source=ROOT):
    done = subprocess.run(
        [python, source / "tools/make_wheel.py", "--build", BUILD, "--out", out],
        capture_output=True,
        text=True,
        timeout=300,
        env=clean_environment(SOURCE_DATE_EPOCH=EPOCH),
    )
    assert done.returncode == 0, done.stderr
    return pathlib.Path(done.stdout.strip())


@pytest.fixture(scope="module")
def wheel(python, tmp_path_factory):
    return make(python, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder for PYTHONPATH, as pip fills it: no network, numpy is that of the tests."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder, wheel],
        check=True,
        timeout=120,
    )
    return folder


def check_parts(python, parts):
    """The list is what the schema of CycloneDX says."""
    code = (
        "import sys\nfrom cyclonedx.schema import SchemaVersion\nfrom cyclonedx.validation.json import JsonStrictValidator\n"
        "sys.exit(str(JsonStrictValidator(SchemaVersion.V1_5).validate_str(sys.stdin.read()) or ''))"
    )
    done = subprocess.run([python, "-c", code], input=json.dumps(parts), capture_output=True, text=True, timeout=60)
    assert not done.stderr.strip(), done.stderr


def test_it_is_small_and_of_the_promised_system(wheel, python):
    assert re.fullmatch(r"penstock-[\d.]+-py3-none-manylinux_2_34_\w+\.whl", wheel.name)
    assert wheel.stat().st_size <= 18e6
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
        assert sum(entry.file_size for entry in entries) <= 45e6
        names = {entry.filename for entry in entries}
        assert {
            "penstock/__init__.py",
            "penstock/py.typed",
            "penstock/_lib/libpenstock.so.1",
            "penstock/bin/penstock",
            "penstock/include/penstock.h",
        } <= names
        assert archive.getinfo("penstock/bin/penstock").external_attr >> 16 & 0o111
        assert archive.getinfo("penstock/bin/penstock").file_size < 1e6, "program and library share one core"
        info = next(name.split("/")[0] for name in names if ".dist-info/" in name)
        metadata = archive.read(f"{info}/METADATA").decode()
        assert re.findall("^Requires-Dist: (.*)$", metadata, re.MULTILINE) == ["numpy"]
        parts = json.loads(archive.read(f"{info}/sboms/penstock.cdx.json"))
    check_parts(python, parts)
    listed = {part["name"] for part in parts["components"]}
    assert {"libssl3", "libstdc++-12-dev", "libzstd-dev"} <= listed, listed


def test_it_is_the_same_from_another_folder(wheel, python, tmp_path):
    source = tmp_path / "source"
    for part in ("tools", "library", "python", "docs", "cmake"):
        shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("CMakeLists.txt", "LICENSE", "README.md", "packaging/debian/copyright", "tests/e2e"):
        if (ROOT / file).is_file():
            (source / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, source / file)
        else:
            shutil.copytree(ROOT / file, source / file, ignore=shutil.ignore_patterns("__pycache__"))
    again = make(python, tmp_path / "again", source)
    assert again.name == wheel.name and again.read_bytes() == wheel.read_bytes()


def test_it_embeds_as_the_program_does(installed, tmp_path):
    environment = clean_environment(PYTHONPATH=str(installed))
    text = (
        "import json, penstock, sys\n"
        "m = penstock.Embedder(sys.argv[1], dtype='f32', threads=1)\n"
        "print(json.dumps(m.encode(['That is a happy person']).tolist()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, GOLDEN / EMBED],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    program = subprocess.run(
        [installed / "penstock/bin/penstock", "embed", "--model", GOLDEN / EMBED, "--threads", "1"],
        input=b"That is a happy person\n",
        capture_output=True,
        timeout=120,
        env=environment,
    )
    assert program.returncode == 0, program.stderr
    import numpy as np

    said = np.array(json.loads(program.stdout)["embedding"], dtype=np.float32)
    assert (np.array(rows[0], dtype=np.float32) == said).all()


def test_it_is_not_mixed_up_with_another_protobuf(installed, tmp_path):
    """That of grpcio-tools is of another version, and tells everybody."""
    text = (
        "import sys\nimport grpc\nfrom grpc_tools import _protoc_compiler\nimport penstock\n"
        "print(penstock.Embedder(sys.argv[1]).encode('hello').shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, GOLDEN / EMBED],
        capture_output=True,
        text=True,
        timeout=120,
        env=clean_environment(PYTHONPATH=str(installed)),
        cwd=tmp_path,
    )
    assert done.returncode == 0 and done.stdout == "(32,)\n", done.stderr


def test_it_has_the_licences_of_its_parts(installed):
    (folder,) = installed.glob("*.dist-info/licenses")
    assert "Copyright 2008 Google" in (folder / "copyright").read_text()
    assert "OpenSSL" in (folder / "libssl3.copyright").read_text()


def test_the_command_is_the_program(installed, tmp_path):
    environment = clean_environment(PYTHONPATH=str(installed))
    command = installed / "bin/penstock"
    for words in ([command], [sys.executable, "-m", "penstock"]):
        done = subprocess.run(
            [*words, "--version"], capture_output=True, text=True, timeout=60, env=environment, cwd=tmp_path
        )
        assert done.returncode == 0 and done.stdout.startswith("penstock "), done.stderr


def test_it_needs_nothing_of_the_build(installed):
    """Each library it loads is in the wheel, or one that manylinux promises."""
    environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    for file in (installed / "penstock/bin/penstock", installed / "penstock/_lib/libpenstock.so.1"):
        told = subprocess.run(["ldd", file], capture_output=True, text=True, check=True, env=environment).stdout
        assert "not found" not in told
        outside = {pathlib.Path(path).name for path in re.findall(r"=> (/\S+)", told) if str(installed) not in path}
        assert outside <= {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libz.so.1"}, outside
