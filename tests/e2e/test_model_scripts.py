"""tools/get_default_model.py and tools/get_demo_model.py, against a hub on this machine."""
import dataclasses
import hashlib
import http.server
import importlib.util
import os
import pathlib
import subprocess
import sys
import threading
import zipfile

import pytest

from conftest import ROOT

TOOLS = ROOT / "tools"
WHEEL = "carrier-1.0-py3-none-any.whl"


def script(name):
    """A script as a module of its own, whose messages and sources the test may change."""
    sys.path.insert(0, str(TOOLS))
    try:
        spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(TOOLS))


class Hub:
    """Answers GET with `files`, {path: bytes}; keeps the paths and the authorizations."""

    def __init__(self):
        hub = self
        self.files, self.asked, self.tokens = {}, [], []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                hub.asked.append(self.path)
                hub.tokens.append(self.headers.get("Authorization"))
                body = hub.files.get(self.path)
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def hub():
    hub = Hub()
    yield hub
    hub.server.shutdown()
    hub.server.server_close()


@pytest.fixture
def environment(tmp_path, hub, monkeypatch):
    """Everything the scripts look at: a home, this hub, and no index of packages."""
    for name in list(os.environ):
        if name.startswith(("PENSTOCK_", "HF_", "HUGGINGFACE_", "XDG_", "PIP_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name, value in {"HOME": tmp_path, "HF_ENDPOINT": hub.url, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels,
                        "PIP_CONFIG_FILE": os.devnull, "no_proxy": "*"}.items():
        monkeypatch.setenv(name, str(value))
    return tmp_path


def digest(data):
    return hashlib.sha256(data).hexdigest()


def contents(model):
    return {name: f"the bytes of {name}".encode() for name in model.files}


def in_small(model, wheel_sha256="0" * 64):
    """The same model with a few bytes of weights."""
    weights = contents(model)[model.weights]
    return dataclasses.replace(model, weights_sha256=digest(weights), weights_bytes=len(weights),
                               package="carrier==1.0", package_sha256=wheel_sha256)


def write_wheel(folder, model):
    path = folder / WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in contents(model).items():
            archive.writestr(model.package_folder + name, data)
        archive.writestr("carrier-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\n")
        archive.writestr("carrier-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
                                                         "Tag: py3-none-any\n")
        archive.writestr("carrier-1.0.dist-info/RECORD", "")
    return digest(path.read_bytes())


def serve(hub, model):
    for name, data in contents(model).items():
        hub.files[f"/{model.repository}/resolve/main/{name}"] = data


# The script, its variable, the folder it fills, what it prints of that.
DEFAULT = ("get_default_model", "PENSTOCK_DEFAULT_MODEL", "sentence-transformers--all-MiniLM-L6-v2", "")
DEMO = ("get_demo_model", "PENSTOCK_DEMO_MODEL", "HuggingFaceTB--SmolLM2-135M-Instruct",
        "SmolLM2-135M-Instruct.Q4_1.gguf")
BOTH = pytest.mark.parametrize("name,variable,folder,printed", [DEFAULT, DEMO], ids=["default", "demo"])


@BOTH
def test_from_the_hub_once(environment, hub, name, variable, folder, printed, monkeypatch):
    module = script(name)
    model = in_small(module.MODEL)
    serve(hub, model)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    place = environment / ".cache/penstock/models" / folder
    assert module.find(model) == place / printed
    for file, data in contents(model).items():
        assert (place / file).read_bytes() == data
    assert set(hub.tokens) == {"Bearer hf_secret"}
    assert [p.name for p in place.parent.iterdir()] == [folder]  # no part is left beside it
    asked = len(hub.asked)
    assert module.find(model) == place / printed and len(hub.asked) == asked
    # Another place for caches is another folder.
    monkeypatch.setenv("XDG_CACHE_HOME", str(environment / "elsewhere"))
    assert module.find(model) == environment / "elsewhere/penstock/models" / folder / printed


@BOTH
def test_what_is_given_counts_first(environment, hub, name, variable, folder, printed, monkeypatch):
    module = script(name)
    serve(hub, in_small(module.MODEL))
    monkeypatch.setenv(variable, "/some/where")
    assert module.find(in_small(module.MODEL)) == pathlib.Path("/some/where") and not hub.asked


@BOTH
def test_wrong_bytes_of_the_hub_are_not_kept(environment, hub, name, variable, folder, printed, capfd):
    module = script(name)
    sha256 = write_wheel(environment / "wheels", module.MODEL)
    model = in_small(module.MODEL, sha256)
    serve(hub, model)
    hub.files[f"/{model.repository}/resolve/main/{model.weights}"] = b"other bytes"
    place = environment / ".cache/penstock/models" / folder
    assert module.find(model) == place / printed
    said = capfd.readouterr().err
    assert f"{model.weights} has SHA-256 {digest(b'other bytes')}, expected {model.weights_sha256}" in said
    assert "taken from the Python package carrier==1.0" in said
    assert (place / model.weights).read_bytes() == contents(model)[model.weights]


@BOTH
def test_offline_does_not_ask_the_hub(environment, hub, name, variable, folder, printed, monkeypatch, capfd):
    module = script(name)
    model = in_small(module.MODEL, write_wheel(environment / "wheels", module.MODEL))
    serve(hub, model)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert module.find(model) == environment / ".cache/penstock/models" / folder / printed
    assert not hub.asked and "taken from the Python package" in capfd.readouterr().err


@BOTH
def test_another_package_is_refused(environment, hub, name, variable, folder, printed, capfd):
    module = script(name)
    sha256 = write_wheel(environment / "wheels", module.MODEL)
    model = in_small(module.MODEL)  # expects another
    with pytest.raises(SystemExit) as ended:
        module.find(model)
    assert f"{WHEEL} has SHA-256 {sha256}, expected {'0' * 64}" in str(ended.value)
    assert f"Set {variable} to" in str(ended.value)
    assert "the hub is of no help (HTTP Error 404" in capfd.readouterr().err
    assert not (environment / ".cache/penstock/models" / folder).exists()


@BOTH
def test_a_part_of_a_file_is_fetched_again(environment, hub, name, variable, folder, printed):
    module = script(name)
    model = in_small(module.MODEL)
    serve(hub, model)
    place = environment / ".cache/penstock/models" / folder
    for file, data in contents(model).items():
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_bytes(data[:-1])
    module.find(model)
    assert (place / model.weights).read_bytes() == contents(model)[model.weights]


def test_the_default_model_in_the_cache_of_the_hub(environment, hub):
    module = script("get_default_model")
    model = in_small(module.MODEL)
    root = environment / ".cache/huggingface/hub/models--sentence-transformers--all-MiniLM-L6-v2"
    for file in model.needed:
        (root / "snapshots/abc" / file).parent.mkdir(parents=True, exist_ok=True)
        (root / "snapshots/abc" / file).write_bytes(contents(model)[file])
    (root / "refs").mkdir()
    (root / "refs/main").write_text("abc\n")
    assert module.find(model) == root / "snapshots/abc" and not hub.asked
    (root / "snapshots/abc/tokenizer.json").unlink()
    serve(hub, model)
    assert module.find(model) == environment / ".cache/penstock/models" / model.folder_name


def test_files_that_are_not_needed_may_be_missing(environment, hub):
    module = script("get_default_model")
    model = in_small(module.MODEL)
    serve(hub, model)
    del hub.files[f"/{model.repository}/resolve/main/special_tokens_map.json"]
    folder = module.find(model)
    assert (folder / "modules.json").exists() and not (folder / "special_tokens_map.json").exists()


@BOTH
def test_the_script_as_it_is_run(environment, hub, name, variable, folder, printed, monkeypatch):
    """Its own checksums: other weights are refused, and the end says what to do."""
    serve(hub, script(name).MODEL)
    done = subprocess.run([TOOLS / f"{name}.py"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stdout == ""
    assert f"{name}: the hub is of no help" in done.stderr and "expected" in done.stderr
    assert f"{name}: cannot get" in done.stderr and f"Set {variable} to" in done.stderr
    monkeypatch.setenv(variable, "/some/where")
    done = subprocess.run([TOOLS / f"{name}.py"], capture_output=True, text=True, check=True)
    assert done.stdout == "/some/where\n"


def test_the_program_looks_where_the_script_puts_the_demonstration_model():
    source = (ROOT / "src/hub/default_model.cc").read_text()
    if "FindDemoModel" not in source:
        pytest.skip("this program has no demonstration model")
    assert all(part in source for part in DEMO[1:])
