"""Starts the real program and hands its address to the tests.

PENSTOCK_BIN      the program; default build/penstock of the repository
PENSTOCK_MINILM   folder of all-MiniLM-L6-v2; else looked for in the Hugging Face and Penstock
                  caches; tests of it are skipped where it is not found
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import requests

import client_table
import scripted_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "models"
EMBED, RERANK, CLASSIFY = "bert_mean_normalize", "bert_rerank_identity", "bert_classify_softmax"
START_TIMEOUT_S = 60


@contextlib.contextmanager
def modules_of(*folders):
    """Modules of these folders can be imported, and are forgotten afterwards: names come twice."""
    added, before = [str(folder) for folder in folders], set(sys.modules)
    sys.path[:0] = added
    try:
        yield
    finally:
        for path in added:
            sys.path.remove(path)
        for name in set(sys.modules) - before:
            if pathlib.Path(getattr(sys.modules[name], "__file__", None) or "").is_relative_to(ROOT / "bench"):
                del sys.modules[name]


def binary():
    path = pathlib.Path(os.environ.get("PENSTOCK_BIN", ROOT / "build" / "penstock"))
    if not path.is_file():
        pytest.exit(f"{path} is not there: build it, or set PENSTOCK_BIN", returncode=2)
    return str(path)


def clean_environment(**more):
    """The environment without settings of Penstock or of a proxy, which would change the tests.

    Products are in f32, as in the references; bf16 and int8 are asked for by name.
    """
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith("PENSTOCK_") and not k.lower().endswith("_proxy")}
    return {**kept, "PENSTOCK_DTYPE": "f32", **more}


def run(*args, stdin=None, env=None, check=True, cwd=None, timeout=60):
    """A command of the program, to its end; "lab", "soak" is one of penstock-lab, which lies beside it."""
    words = [binary() + "-lab", *args[1:]] if args[:1] == ("lab",) else [binary(), *args]
    done = subprocess.run([*map(str, words)], input=stdin, capture_output=True, timeout=timeout,
                          env=env or clean_environment(), cwd=cwd)
    if check:
        assert done.returncode == 0, (args, done.returncode, done.stderr.decode())
    return done


class Server:
    """penstock serve, from start to SIGTERM. Its models are loaded when it is ready, unless told."""

    def __init__(self, *args, env=None, ready=True, preload=True, before=None):
        threads = () if "--threads" in args else ("--threads", "2")
        loading = ("--preload",) if preload else ()
        port = () if "--port" in args else ("--port", "0")
        self.process = subprocess.Popen(
            [binary(), "serve", *port, *threads, *loading, *map(str, args)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env or clean_environment(), preexec_fn=before)
        self.log = []
        self.stdout = []
        self._ready = threading.Event()
        self.port = self.url = None
        for stream, keep in ((self.process.stdout, self.stdout), (self.process.stderr, self.log)):
            threading.Thread(target=self._read, args=(stream, keep), daemon=True).start()
        if ready and not self._ready.wait(START_TIMEOUT_S):
            self.process.kill()
            raise AssertionError("did not start: " + "".join(self.log))
        assert not ready or self.url, "ended at once: " + "".join(self.log)
        self.host = "127.0.0.1"

    def _read(self, stream, keep):
        for line in stream:
            line = line.decode(errors="replace")
            keep.append(line)
            found = re.search(r"ready on (https?)://[^:]+:(\d+)", line)
            if found:
                self.port = int(found.group(2))
                self.url = f"{found.group(1)}://127.0.0.1:{self.port}"
                self._ready.set()
        self._ready.set()

    # A wait that ends a test that hangs: slow machines run other tests beside it.
    PATIENCE_S = 240

    def post(self, path, body=None, **more):
        return requests.post(self.url + path, json=body, timeout=self.PATIENCE_S, **more)

    def get(self, path, **more):
        return requests.get(self.url + path, timeout=self.PATIENCE_S, **more)

    def metrics(self):
        """{name{labels}: value}"""
        values = {}
        for line in self.get("/metrics").text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    def connect(self, timeout=10):
        connection = socket.create_connection((self.host, self.port), timeout=timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def stop(self, timeout=20):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)


def model_args(*names):
    args = []
    for alias, name in names:
        args += ["--model", f"{alias}={GOLDEN / name}"]
    return args


ALL_MODELS = [("embed", EMBED), ("rerank", RERANK), ("classify", CLASSIFY)]


def expected(name):
    return json.loads((GOLDEN / name / "expected.json").read_text())


@contextlib.contextmanager
def serving(*args, **more):
    """A server, which must end well."""
    server = Server(*args, **more)
    yield server
    assert server.stop() == 0, "".join(server.log)


@pytest.fixture(scope="session")
def three_models():
    """Three models; the first is the default. They stay, however long no test asks for them."""
    with serving(*model_args(*ALL_MODELS), "--keep-alive=-1") as server:
        yield server


@pytest.fixture(scope="module")
def server_args():
    """What the module's server is started with; None: its tests share the server of three models."""
    return None


@pytest.fixture(scope="module")
def server_env():
    return None


@pytest.fixture(scope="module")
def server(request, server_args, server_env):
    """The server of a module's tests. A module that wants its own overrides server_args."""
    if server_args is None:
        yield request.getfixturevalue("three_models")
        return
    with serving(*server_args, env=server_env) as server:
        yield server


@pytest.fixture(scope="session")
def reranker():
    with serving(*model_args(("rerank", RERANK))) as server:
        yield server


@pytest.fixture(scope="session")
def classifier():
    with serving(*model_args(("classify", CLASSIFY))) as server:
        yield server


@pytest.fixture(scope="module")
def weather(tmp_path_factory):
    """The folder of a scripted model that asks for the weather."""
    return scripted_model.write_weather(tmp_path_factory.mktemp("models") / "weather")


@pytest.fixture
def start():
    """start(args...) gives a server of the test's own."""
    servers = []

    def start_one(*args, model=True, **more):
        if model and not any(arg == "--model" for arg in args):
            args = (*model_args(("embed", EMBED)), *args)
        servers.append(Server(*args, **more))
        return servers[-1]

    yield start_one
    for one in servers:
        if one.process.poll() is None:
            one.stop()


def find_minilm():
    given = os.environ.get("PENSTOCK_MINILM")
    if given:
        return pathlib.Path(given)
    caches = [pathlib.Path(os.environ.get("HF_HOME", pathlib.Path.home() / ".cache/huggingface")) / "hub",
              pathlib.Path.home() / ".cache/penstock"]
    for cache in caches:
        if not cache.is_dir():
            continue
        for config in sorted(cache.glob("**/*all-MiniLM-L6-v2*/**/config.json")):
            if (config.parent / "model.safetensors").exists():
                return config.parent
    return None


@pytest.fixture(scope="session")
def minilm():
    folder = find_minilm()
    if folder is None:
        pytest.skip("all-MiniLM-L6-v2 IS NOT HERE: set PENSTOCK_MINILM to its folder")
    with serving("--model", f"minilm={folder}") as server:
        server.folder = folder
        yield server


def read_response(connection, rest=b"", head_only=False):
    """One HTTP response from a socket: (status, headers, body, what came after it)."""
    data = rest
    while b"\r\n\r\n" not in data:
        block = connection.recv(65536)
        if not block:
            return None
        data += block
    head, data = data.split(b"\r\n\r\n", 1)
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
    length = 0 if head_only else int(headers.get("content-length", 0))
    while len(data) < length:
        block = connection.recv(65536)
        if not block:
            return None
        data += block
    return int(lines[0].split()[1]), headers, data[:length], data[length:]


def raw_post(path, body, *headers):
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
             f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def wait_for(condition, timeout=30):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)  # polls
    return False


# --- docs/CLIENTS.md ---------------------------------------------------------------------------


def pytest_configure(config):
    config.addinivalue_line("markers", "client(package, calls): the test is a row of docs/CLIENTS.md")
    config.addinivalue_line("markers", "alone: it measures time or loads the whole machine; no other test runs beside it")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call":
        client_table.note(item, report.passed)


def pytest_sessionfinish(session):
    if os.environ.get("PENSTOCK_WRITE_CLIENTS"):
        client_table.write()
