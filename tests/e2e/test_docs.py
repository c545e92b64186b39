"""Every example of README.md and docs/API.md, run as it is printed, and of docs/OPERATING.md what
changes no machine (test_service.py has its files).

A server is started by the documents' own commands; only its port is another one. Blocks of shell run
in a folder that holds what they name. What the API document prints as an answer is compared with the
real one: the same fields and types, where "..." stands for more of the same.
"""
import gzip
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import CLASSIFY, EMBED, GOLDEN, RERANK, ROOT, Server, binary, clean_environment, find_minilm
from test_openapi import check_answer

DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
ADDRESS = "127.0.0.1:8080"
PASSAGES = ["Voith builds water turbines.", "A pencil is for writing.", "Rain falls in autumn."] * 7
# Tells the status of each request on stderr.
CURL = 'curl() { command curl -w "%{stderr}status %{http_code}\\n" "$@"; }\n'


def blocks(text, *languages):
    """(language, text) of the fenced blocks."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(language, body) for language, body in found if not languages or language in languages]


def commands(body):
    """The commands of a block of shell, without comments at their end."""
    lines = body.replace("\\\n", "").splitlines()
    joined = []
    for line in lines:  # a quote may go over lines
        if joined and joined[-1].count("'") % 2:
            joined[-1] += "\n" + line
        else:
            joined.append(line)
    stripped = [re.sub(r"\s+#\s.*$", "", line).strip() for line in joined]
    return [line for line in stripped if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the program, models and texts under the names the documents use."""
    folder = tmp_path_factory.mktemp("place")
    cache = folder / "home/.cache/huggingface/hub" / ("models--" + DEFAULT.replace("/", "--"))
    (cache / "refs").mkdir(parents=True)
    (cache / "refs/main").write_text(COMMIT)
    (cache / "snapshots").mkdir()
    (cache / "snapshots" / COMMIT).symlink_to(find_minilm() or GOLDEN / EMBED)
    for name, source in (("embedder", EMBED), ("reranker", RERANK), ("classifier", CLASSIFY)):
        shutil.copytree(GOLDEN / source, folder / name)
    for name in ("build", "bin"):
        (folder / name).mkdir()
        (folder / name / "penstock").symlink_to(binary())
    for name in ("passages.txt", "reviews.txt", "notes.txt"):
        (folder / name).write_text("\n".join(PASSAGES) + "\n")
    table = "id,title,body\n" + "".join(f'{i},Note {i},"{text}"\n' for i, text in enumerate(PASSAGES))
    (folder / "notes.csv.gz").write_bytes(gzip.compress(table.encode()))
    return folder


@pytest.fixture(scope="module")
def environment(place):
    kept = {k: v for k, v in clean_environment().items() if not k.startswith(("HF_", "XDG_"))}
    kept.pop("PENSTOCK_DTYPE", None)
    return {**kept, "HOME": str(place / "home"), "HF_HUB_OFFLINE": "1", "PATH": f"{place / 'bin'}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def serve(place, environment):
    """serve(command) starts the server that a document's command starts."""
    servers = []

    def start(command):
        words = command.split()
        assert words[0].endswith("penstock") and words[1] == "serve", command
        # Relative paths are those of the place.
        args = [re.sub(r"(^|=)\./", rf"\1{place}/", word) for word in words[2:]]
        servers.append(Server(*args, env=environment))
        return servers[-1]

    yield start
    for server in servers:
        assert server.stop() == 0, "".join(server.log)


def sh(command, server, place, environment, timeout=120):
    text = CURL + command.replace(ADDRESS, f"127.0.0.1:{server.port}")
    return subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=place, env=environment,
                          capture_output=True, text=True, timeout=timeout)


def check_statuses(command, done):
    """Each request of the command had the status it is to have: 200, or what its comment says."""
    wanted = [status or "200" for status in
              re.findall(r"curl -(?:.*?)(?:#\s+(4\d\d)\b.*)?$", command.replace("\\\n", ""), re.MULTILINE)]
    assert done.returncode == 0, (command, done.stderr)
    assert re.findall(r"status (\d+)", done.stderr) == wanted, (command, done.stdout, done.stderr)


def same_shape(printed, real, where="answer"):
    if isinstance(printed, dict):
        assert isinstance(real, dict), where
        more = "..." in printed
        assert set(printed) - {"..."} <= set(real) and (more or set(real) <= set(printed)), (where, real)
        for key in set(printed) - {"..."}:
            same_shape(printed[key], real[key], f"{where}.{key}")
    elif isinstance(printed, list):
        assert isinstance(real, list), where
        more = "..." in printed
        shown = [item for item in printed if item != "..."]
        assert len(real) > len(shown) if more else len(real) == len(shown), (where, real)
        for i, item in enumerate(shown):
            same_shape(item, real[i], f"{where}[{i}]")
    else:
        kinds = [("number" if type(x) in (int, float) else type(x).__name__) for x in (printed, real)]
        assert kinds[0] == kinds[1], (where, printed, real)


def values(text):
    """The JSON values of a text, one after the other."""
    found, at = [], 0
    while at < len(text.rstrip()):
        value, at = json.JSONDecoder().raw_decode(text, at)
        found.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return found


API = (ROOT / "docs/API.md").read_text()
API_BLOCKS = blocks(API)
API_SERVE = [body for language, body in API_BLOCKS if language in ("sh", "bash", "console")
             and re.match(r"\S*penstock serve ", body)]
API_EXAMPLES = [i for i, (language, body) in enumerate(API_BLOCKS)
                if language in ("sh", "bash", "console") and body not in API_SERVE]


@pytest.fixture(scope="module")
def api_server(serve):
    assert len(API_SERVE) == 1
    return serve(commands(API_SERVE[0])[0])


def routes_of(command):
    """("POST", "/embed") of each request of a command."""
    routes = []
    for call in re.split(r"\bcurl -", command)[1:]:
        path = re.search(re.escape(ADDRESS) + r"(/[^\s'\"?]*)", call).group(1)
        method = "POST" if re.search(r"\s-d\s|-X POST", call) else "GET"
        routes.append((method, re.sub(r"^/v1/models/.+", "/v1/models/{id}", path)))
    return routes


@pytest.mark.parametrize("at", API_EXAMPLES, ids=[API_BLOCKS[i][1][:60] for i in API_EXAMPLES])
def test_api_example(at, api_server, place, environment):
    command = API_BLOCKS[at][1]
    document = api_server.get("/openapi.json").json()
    done = sh(command, api_server, place, environment)
    check_statuses(command, done)
    routes = routes_of(command)
    assert routes
    language, printed = API_BLOCKS[at + 1]
    if language == "text":
        assert done.stdout.strip()
        return
    assert language == "json", "an example is followed by its answer"
    answers = values(done.stdout)
    for (method, path), answer in zip(routes[-len(answers):], answers):
        check_answer(document, method, path, answer, 424 if path == "/embed_sparse" else 200)
    same_shape(json.loads(printed), answers[0])


def test_the_api_document_has_every_route(api_server):
    document = api_server.get("/openapi.json").json()
    all_routes = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    shown = {route for i in API_EXAMPLES for route in routes_of(API_BLOCKS[i][1])}
    assert shown == all_routes
    table = set(re.findall(r"`(?:GET |POST )?(/[^`\s]*)`", API.split("## Routes")[1].split("\n## ")[0]))
    assert {path for _, path in all_routes} <= table


README = (ROOT / "README.md").read_text()
README_COMMANDS = [line for _, body in blocks(README, "sh", "bash", "console") for line in commands(body)]
README_SERVE = [line for line in README_COMMANDS if line.startswith("build/penstock serve")]


@pytest.fixture(scope="module")
def readme_server(serve):
    """Started by README's own first command that serves."""
    return serve(README_SERVE[0])


@pytest.mark.parametrize("command", [line for line in README_COMMANDS if line not in README_SERVE[:1]])
def test_readme_command(command, readme_server, serve, place, environment):
    if command.startswith("build/penstock serve"):
        assert serve(command).get("/readyz").status_code == 200
    elif command.startswith("make "):
        done = subprocess.run(["make", "-n", *command.split()[1:]], cwd=ROOT, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
    else:
        if "bench http" in command:
            command += " --duration 1 --warmup 0"  # what it measures does not matter here
        done = sh(command, readme_server, place, environment)
        check_statuses(command, done)


@pytest.mark.parametrize("code", [body for _, body in blocks(README, "python")])
def test_readme_python(code, readme_server, place):
    done = subprocess.run([sys.executable, "-c", code.replace(ADDRESS, f"127.0.0.1:{readme_server.port}")],
                          cwd=place, capture_output=True, timeout=60, env=clean_environment())
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout


OPERATING_BLOCKS = [body for _, body in blocks((ROOT / "docs/OPERATING.md").read_text(), "sh")]


def test_operating_commands(place, environment):
    assert OPERATING_BLOCKS
    ran = 0
    for body in OPERATING_BLOCKS:
        checked = subprocess.run(["bash", "-n"], input=body.encode(), capture_output=True, timeout=20)
        assert checked.returncode == 0, (body, checked.stderr)
        if body.startswith("penstock "):
            command = body.strip() + " --duration 1 --warmup 0"
        elif "openssl rand" in body:  # for the user that runs the test
            command = body.replace("/etc/penstock", str(place / "etc")).replace("-o root -g penstock", "")
            command = command.replace("chgrp penstock", "chgrp $(id -g)")
        else:
            continue
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=place, env=environment,
                              capture_output=True, timeout=120)
        assert done.returncode == 0, (command, done.stderr)
        ran += 1
    assert ran >= 2
    assert (place / "etc/api-keys").stat().st_mode & 0o777 == 0o640
    assert len((place / "etc/api-keys").read_text().strip()) == 48
