"""The Python package itself: its import, names, types, the program and servers that it starts."""

import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import EMBED, GOLDEN, ROOT, binary, clean_environment

sys.path.insert(0, str(ROOT / "python"))

import penstock


def _heed_ctrl_c():
    """A shell without job control ignores SIGINT for what it runs in the background, such as `make test &`."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def python(script, check=True, **variables):
    """What a Python process with the package prints; without `check` the process that ended."""
    env = clean_environment(**{"PYTHONPATH": str(ROOT / "python"), **variables})
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=120, preexec_fn=_heed_ctrl_c
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip() if check else done


def test_the_import_loads_nothing():
    script = """
import sys, time
before = set(sys.modules)
began = time.perf_counter()
import penstock
print(time.perf_counter() - began)
new = set(sys.modules) - before
assert not {each.split(".")[0] for each in new} & {"numpy", "ctypes", "asyncio", "http", "ssl", "json"}, new
assert "Embedder" in dir(penstock)
"""
    assert min(float(python(script)) for _ in range(3)) < 0.06
    with pytest.raises(AttributeError):
        _ = penstock.Nothing


def test_all_names_are_there():
    for name in penstock.__all__:
        assert getattr(penstock, name).__name__ == name


def test_serve(monkeypatch):
    monkeypatch.setenv("PENSTOCK_PROGRAM", binary())
    with penstock.serve([f"embed={GOLDEN / EMBED}"], threads=1, dtype="f32", preload=True) as server:
        assert penstock.Embedder(url=server.url).encode("a").shape == (32,)
    assert server.process.returncode == 0
    with pytest.raises(penstock.Unavailable, match="nope"):
        penstock.serve(str(GOLDEN / EMBED), nope=1)
    monkeypatch.setenv("PENSTOCK_PROGRAM", "/nowhere")
    with pytest.raises(penstock.Error, match="/nowhere"):
        penstock.serve("x")


def test_the_command_is_the_program():
    env = clean_environment(PYTHONPATH=str(ROOT / "python"), PENSTOCK_PROGRAM=binary())
    told = [
        subprocess.run([*words, "--version"], capture_output=True, text=True, env=env, check=True).stdout
        for words in ([binary()], [sys.executable, "-m", "penstock"])
    ]
    assert told[0] == told[1] != ""
    env["PENSTOCK_PROGRAM"] = "/nowhere"
    done = subprocess.run([sys.executable, "-m", "penstock"], capture_output=True, text=True, env=env)
    assert done.returncode == 1 and "/nowhere" in done.stderr


def test_types():
    if shutil.which("mypy") is None and not (pathlib.Path(sys.executable).parent / "mypy").exists():
        pytest.skip("MYPY IS NOT HERE")
    env = {**os.environ, "MYPY_CACHE_DIR": os.devnull}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(ROOT / "python" / "penstock")],
        capture_output=True,
        text=True,
        env=env,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout


def test_errors_are_pickled():
    error = penstock.Overloaded("full", field="x", retry_after=3)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.field, copy.retry_after, copy.code) == (
        penstock.Overloaded,
        "full",
        "x",
        3,
        "resource_exhausted",
    )
