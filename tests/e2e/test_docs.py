"""Every example of README.md, docs/API.md and docs/KSERVE.md, run as it is printed, and of docs/OPERATING.md what
changes no machine (test_service.py has its files). docs/CONFIGURATION.md's table beside the program;
test_architecture.py has docs/ARCHITECTURE.md.

A server is started by the documents' own commands; only its port is another one. Blocks of shell run
in a folder that holds what they name. What the API document prints as an answer is compared with the
real one: the same fields and types, where "..." stands for more of the same.
"""
import gzip
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from conftest import CLASSIFY, EMBED, GOLDEN, RERANK, ROOT, Server, binary, clean_environment, find_minilm, run
from test_openapi import check_answer

# A decoder that was trained on stories, of the test data.
STORIES = (pathlib.Path(os.environ.get("PENSTOCK_TESTDATA", ROOT / ".." / "shared" / "testdata")) /
           "vespa-engine__vespa" / "tinyllm.gguf")
DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
ADDRESS = "127.0.0.1:8080"
PASSAGES = ["Voith builds water turbines.", "A pencil is for writing.", "Rain falls in autumn."] * 7
CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
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
    shutil.copytree(GOLDEN / EMBED, folder / "models" / "minilm" / "1")
    shutil.copytree(GOLDEN.parent / "decoders" / "llama", folder / "chat")
    (folder / "chat" / "chat_template.jinja").write_text(CHATML)
    for name in ("build", "bin"):
        (folder / name).mkdir()
        (folder / name / "penstock").symlink_to(binary())
    for name in ("passages.txt", "reviews.txt", "notes.txt"):
        (folder / name).write_text("\n".join(PASSAGES) + "\n")
    table = "id,title,body\n" + "".join(f'{i},Note {i},"{text}"\n' for i, text in enumerate(PASSAGES))
    if STORIES.is_file():
        (folder / "model.gguf").symlink_to(STORIES.resolve())
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
        words = shlex.split(command, comments=True)
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
    got = re.findall(r"status (\d+)", done.stderr)
    if "until curl" in command:  # asks until it is there, so often as it takes
        assert set(got) == set(wanted) == {"200"} and len(got) >= len(wanted), (command, done.stdout, done.stderr)
    else:
        assert got == wanted, (command, done.stdout, done.stderr)


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


API = [(ROOT / "docs" / name).read_text() for name in ("API.md", "KSERVE.md")]
API_BLOCKS = [blocks(text) for text in API]
API_SERVE = [[body for language, body in of if language in ("sh", "bash", "console")
              and re.match(r"\S*penstock serve ", body)] for of in API_BLOCKS]
API_EXAMPLES = [(document, i) for document, of in enumerate(API_BLOCKS) for i, (language, body) in enumerate(of)
                if language in ("sh", "bash", "console") and body not in API_SERVE[document]]


@pytest.fixture(scope="module")
def api_servers(serve):
    """The server of each document, which its own command starts."""
    assert [len(serves) for serves in API_SERVE] == [1] * len(API)
    return [serve(commands(serves[0])[0]) for serves in API_SERVE]


def template_of(path, document):
    """The path in the document that matches, the most specific one."""
    def pattern(template):
        return ".+".join(map(re.escape, re.split(r"\{\w+\}", template)))

    found = [template for template in document["paths"] if re.fullmatch(pattern(template), path)]
    return max(found, key=lambda template: len(re.sub(r"\{\w+\}", "", template)), default=path)


def routes_of(command, document):
    """("POST", "/embed") of each request of a command."""
    routes = []
    for call in re.split(r"\bcurl -", command)[1:]:
        path = re.search(re.escape(ADDRESS) + r"(/[^\s'\"?]*)", call).group(1)
        named = re.search(r"-X ([A-Z]+)", call)
        method = named.group(1) if named else "POST" if re.search(r"\s-d\s", call) else "GET"
        routes.append((method, template_of(path, document)))
    return routes


# The server of the examples takes no models from clients.
REFUSED = {"/api/pull": 403, "/api/delete": 403}


def status_of(method, path, document):
    if path in REFUSED:
        return REFUSED[path]
    statuses = set(document["paths"][path][method.lower()]["responses"]) - {"default"}
    return int(statuses.pop())


@pytest.mark.parametrize("of,at", API_EXAMPLES, ids=[API_BLOCKS[of][i][1][:60] for of, i in API_EXAMPLES])
def test_api_example(of, at, api_servers, place, environment):
    command = API_BLOCKS[of][at][1]
    document = api_servers[of].get("/openapi.json").json()
    done = sh(command, api_servers[of], place, environment)
    check_statuses(command, done)
    routes = routes_of(command, document)
    assert routes
    language, printed = API_BLOCKS[of][at + 1]
    if language == "text":
        assert done.stdout.strip()
        return
    assert language == "json", "an example is followed by its answer"
    answers = values(done.stdout)
    for (method, path), answer in zip(routes[-len(answers):], answers):
        check_answer(document, method, path, answer, status_of(method, path, document))
    same_shape(json.loads(printed), answers[0])


def test_the_api_documents_have_every_route(api_servers):
    document = api_servers[0].get("/openapi.json").json()
    all_routes = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    shown = {route for of, i in API_EXAMPLES for route in routes_of(API_BLOCKS[of][i][1], document)}
    assert shown == all_routes
    tables = [text.split("## Routes")[1].split("\n## ")[0] for text in API]
    table = set(re.findall(r"`(?:GET |POST |DELETE )?(/[^`\s]*)`", "\n".join(tables)))
    assert {path for _, path in all_routes} <= table


README = (ROOT / "README.md").read_text()
README_COMMANDS = [line for _, body in blocks(README, "sh", "bash", "console") for line in commands(body)]
README_SERVE = [line for line in README_COMMANDS if line.startswith("build/penstock serve")]


@pytest.fixture(scope="module")
def readme_server(serve):
    """Started by README's own first command that serves, with a model for chat as `make serve` has one."""
    return serve(README_SERVE[0] + " --model SmolLM2-135M-Instruct=./chat")


@pytest.mark.parametrize("command", [line for line in README_COMMANDS if line not in README_SERVE[:1]])
def test_readme_command(command, readme_server, serve, place, environment):
    if command.startswith("pip install "):  # test_wheel.py installs one
        assert "build-wheel/penstock-" in command and '"build-wheel"' in (ROOT / "tools/make_wheel.py").read_text()
    elif command.startswith(("build/penstock serve", "penstock serve")):
        assert serve(command).get("/readyz").status_code == 200
    elif command.startswith("make "):
        done = subprocess.run(["make", "-n", *shlex.split(command, comments=True)[1:]], cwd=ROOT, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
    else:
        if "model.gguf" in command and not (place / "model.gguf").exists():
            pytest.skip(f"NO TEST DATA at {STORIES}: set PENSTOCK_TESTDATA")
        if " chat " in command or " run " in command:  # the stories have no chat template
            command = command.replace("./model.gguf", "./chat") + " < /dev/null"
        if "bench http" in command:
            command += " --duration 1 --warmup 0"  # what it measures does not matter here
        done = sh(command, readme_server, place, environment)
        check_statuses(command, done)


@pytest.mark.parametrize("code", [body for _, body in blocks(README, "python")])
def test_readme_python(code, readme_server, place, environment):
    library = pathlib.Path(binary()).parent / "libpenstock.so.1"
    package = {"PYTHONPATH": str(ROOT / "python"), "PENSTOCK_LIBRARY": str(library)}
    done = subprocess.run([sys.executable, "-c", code.replace(ADDRESS, f"127.0.0.1:{readme_server.port}")],
                          cwd=place, capture_output=True, timeout=60, env={**environment, **package})
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


CONFIGURATION = (ROOT / "docs/CONFIGURATION.md").read_text()
# The unit of a flag, by the placeholder of its value in the help.
UNITS = {None: "switch", "BYTES": "bytes", "MS": "ms", "S": "s", "US": "us", "TOKENS": "tokens", "N": "number",
         "PORT": "number", "FILE": "file"}
UNITLESS = "text"


def table_of_flags():
    """{first name: (all names, variable, key, default, unit)} of the table; "" where a cell is empty."""
    section = CONFIGURATION.split("## Flags of penstock serve")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    assert lines[0] == "| flag | variable | key | default | unit | meaning |"
    table = {}
    for line in lines[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == 6 and cells[5], line
        names = re.findall(r"`([^`]+)`", cells[0])
        first = next(name for name in names if name.startswith("--"))
        assert first not in table, first
        table[first] = (names, *(cell.strip("`") for cell in cells[1:5]))
    return table


def flags_of_help():
    """{first name: (all names, unit)} of the help with every flag."""
    text = run("serve", "--help-all").stdout.decode()
    flags = {}
    for names, value in re.findall(r"^  ((?:-\w, )?--[a-z0-9-]+(?:, --[a-z0-9-]+)*)(?: (\S+))?$", text, re.MULTILINE):
        names = names.split(", ")
        first = next(name for name in names if name.startswith("--"))
        flags[first] = (names, UNITS.get(value or None, UNITLESS))
    return flags


def printed_config(**variables):
    """{key: (value, where it is from)} of --print-config; the value is None where it is not shown."""
    done = run("serve", "--print-config", env={**clean_environment(), "PENSTOCK_DTYPE": "", **variables})
    keys = {}
    for line in done.stdout.decode().splitlines():
        if found := re.fullmatch(r"# ([a-z0-9-]+) is not set", line):
            keys[found[1]] = (None, "default")
        elif found := re.fullmatch(r"# ([a-z0-9-]+) is set, and secret  # (.*)", line):
            keys[found[1]] = (None, found[2])
        elif found := re.fullmatch(r"([a-z0-9-]+) = (.*)  # (.*)", line):
            keys[found[1]] = (json.loads(found[2]), found[3])
    return keys


def shown(value, unit):
    """A value as the table has it."""
    if value is None:
        return "none"
    if unit == "switch":
        return "on" if value else "off"
    if unit == "bytes":
        for name, bits in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
            if value and value % (1 << bits) == 0:
                return f"{value >> bits} {name}"
    return str(value)


def test_the_table_of_flags_is_the_programs():
    table, flags, keys = table_of_flags(), flags_of_help(), printed_config()
    assert {first: row[0] for first, row in table.items()} == {first: row[0] for first, row in flags.items()}
    assert {first: row[4] for first, row in table.items()} == {first: unit for first, (_, unit) in flags.items()}
    assert {row[2] for row in table.values() if row[2]} == set(keys)
    for first, (_, _variable, key, default, unit) in table.items():
        if not key:
            assert first in ("--help", "--help-all", "--config", "--print-config"), first
            continue
        assert key == first[2:]
        assert default == shown(keys[key][0], unit), first
        assert keys[key][1] == "default", first


def test_the_variables_of_the_table_are_the_programs():
    """Each is set, and the program says that the value is from there."""
    made_up = {"text": "x", "file": "/dev/null", "PENSTOCK_MODEL": "x=./x", "PENSTOCK_REDIS_URL": "redis://h",
               "PENSTOCK_REDIS_KEY": "0123456789abcdef", "PENSTOCK_POOLING": "cls", "PENSTOCK_TASK": "embedding", "PENSTOCK_INT8_KEEP": "0",
               "PENSTOCK_BULK_ROUTE": "/embed", "PENSTOCK_GRPC_PORT": "0", "PENSTOCK_TEMPERATURE": "0.5", "PENSTOCK_TOP_K": "3",
               "PENSTOCK_TOP_P": "0.5", "PENSTOCK_MIN_P": "0.5", "PENSTOCK_REPETITION_PENALTY": "1.1",
               "PENSTOCK_MAX_TOKENS_DEFAULT": "9"}
    variables = {}
    table = {first: row for first, row in table_of_flags().items() if row[2]}
    for _, variable, _, default, unit in table.values():
        is_set = default != "none" and variable not in made_up
        variables[variable] = default.replace(" ", "") if is_set else made_up.get(variable, made_up.get(unit))
    keys = printed_config(**variables)
    for _, variable, key, _, _ in table.values():
        assert keys[key][1] == f"variable {variable}", key
    assert table_of_flags()["--config"][1] == "PENSTOCK_CONFIG"


def test_the_example_file_starts_a_server(serve, place, tmp_path):
    examples = [body for _, body in blocks(CONFIGURATION, "toml")]
    assert len(examples) == 1
    example = examples[0].replace("/srv/models/", f"{place}/").replace("/etc/penstock/", f"{tmp_path}/")
    (tmp_path / "keys").write_text("key-one\n")
    (tmp_path / "penstock.toml").write_text(example)
    checked = run("serve", "--config", tmp_path / "penstock.toml", "--print-config").stdout.decode()
    for key in re.findall(r"^([a-z-]+) = ", example.split("[serve]")[1].split("\n[")[0], re.MULTILINE):
        assert re.search(rf"^{key} = .*penstock.toml:\d+$", checked, re.MULTILINE), key
    server = serve(f"penstock serve --config {tmp_path / 'penstock.toml'}")
    key = {"Authorization": "Bearer key-one"}
    assert server.post("/v1/embeddings", {"model": "text-embedding-3-small", "input": "x"}, headers=key).status_code == 200
    assert server.post("/v1/rerank", {"model": "rank", "query": "x", "documents": ["y"]}, headers=key).status_code == 200
    assert server.get("/v1/models").status_code == 401
    assert server.get("/readyz", headers={"Host": "elsewhere.example"}).status_code == 200
    assert server.get("/info", headers={"Host": "elsewhere.example", **key}).status_code == 403


def test_the_probes_answer(readme_server, place, environment):
    probes = [body for _, body in blocks(CONFIGURATION.split("## Probes")[1].split("\n## ")[0], "sh")]
    assert len(probes) == 1
    done = sh(probes[0], readme_server, place, environment)
    check_statuses(probes[0], done)


def test_links_between_documents_lead_somewhere():
    """Files that are there, and headings of them."""
    documents = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    for document in [*documents, *sorted((ROOT / "docs").glob("*.md"))]:
        text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if "://" in link:
                continue
            path, _, anchor = link.partition("#")
            target = document.parent / path if path else document
            assert target.exists(), (document.name, link)
            if anchor:
                heads = [re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-")
                         for head in re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)]
                assert anchor in heads, (document.name, link)
