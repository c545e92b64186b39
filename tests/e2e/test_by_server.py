"""rerank, classify and tokenize by --url: what comes out is what a model in the process gives."""
import http.server
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from conftest import ALL_MODELS, CLASSIFY, EMBED, GOLDEN, RERANK, binary, clean_environment, model_args, run, wait_for

DOCUMENTS = ["dog " * (1 + 7 * i % 23) + str(i % 40) for i in range(300)]
MODELS = {"rerank": RERANK, "classify": CLASSIFY, "tokenize": EMBED}


@pytest.fixture
def files(tmp_path):
    queries = [{"id": f"q{i}", "query": f"what is {i}?", "documents": DOCUMENTS[i:3 * i + 1]} for i in range(9)]
    texts = [{"id": i, "text": text, **({"text_pair": "a cat"} if i % 3 == 0 else {})}
             for i, text in enumerate(DOCUMENTS)]
    for name, rows in (("queries", queries), ("texts", texts)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "texts.txt").write_text("\n".join([*DOCUMENTS, "a [SEP] in the text", "", "ünïcode"]) + "\n")
    return tmp_path


COMMANDS = [
    ["rerank", "--query", "a dog", "texts.txt"],
    ["rerank", "--query", "a dog", "--top-n", "7", "--raw-scores", "--return-documents", "--id-field", "id",
     "texts.jsonl"],
    ["rerank", "--top-n", "3", "--id-field", "id", "queries.jsonl"],
    ["classify", "texts.txt"],
    ["classify", "--raw-scores", "--top-k", "2", "--id-field", "id", "--batch", "10", "texts.jsonl"],
    ["tokenize", "texts.txt"],
    ["tokenize", "--table", "--prompt-name", "query", "texts.txt"],
    ["tokenize", "--no-special-tokens", "--id-field", "id", "texts.jsonl"],
]


def both(files, url, args, *more, **others):
    """What the command writes by its own model, and by the server."""
    name, *rest = args
    here = run(name, "--model", GOLDEN / MODELS[name], *rest, cwd=files)
    there = run(name, "--url", url, *rest, *more, cwd=files, **others)
    return here, there


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_the_same_as_locally(files, server, args):
    for url in (server.url, server.url.removeprefix("http://") + "/v1/"):
        here, there = both(files, url, args)
        assert len(here.stdout) > 300 and there.stdout == here.stdout


def test_the_same_into_a_file(files, server):
    for args in COMMANDS[2:8:3]:
        name, *rest = args
        run(name, "--model", GOLDEN / MODELS[name], *rest, "-o", "here", cwd=files)
        run(name, "--url", server.url, *rest, "-o", "there", cwd=files)
        assert (files / "there").read_bytes() == (files / "here").read_bytes() != b""


@pytest.mark.parametrize("limits", [("--max-client-batch-size", "16"), ("--max-body-bytes", "3000"),
                                    ("--max-response-bytes", "40000")], ids=lambda limits: limits[0])
def test_requests_fit_the_servers_limits(files, start, limits):
    small = start(*model_args(*ALL_MODELS), *limits)
    for args in (COMMANDS[0], COMMANDS[1], COMMANDS[3], COMMANDS[5]):
        here, there = both(files, small.url, args)
        assert there.stdout == here.stdout, (args, there.stderr)


def test_cut_inputs_are_told(files, server):
    (files / "long.txt").write_text("dog " * 500 + "\nshort\n")
    here, there = both(files, server.url, ["classify", "long.txt"])
    assert there.stdout == here.stdout
    assert b"1 input was cut to the model's 72 tokens" in here.stderr
    assert b"1 input was cut to as many tokens as the server's model takes" in there.stderr


def test_a_bad_row_is_named(files, server):
    (files / "bad.txt").write_text("short\n" * 100 + "x" * 1_100_000 + "\nshort\n")
    (files / "bad.jsonl").write_text(json.dumps({"query": "q", "documents": ["a"]}) + "\n" +
                                     json.dumps({"query": "q", "documents": ["a", "x" * 1_100_000]}) + "\n")
    for args, line in ((["rerank", "--query", "q", "bad.txt"], "bad.txt:101: "),
                       (["rerank", "bad.jsonl"], "bad.jsonl:2: "),
                       (["classify", "bad.txt"], "bad.txt:101: "), (["tokenize", "bad.txt"], "bad.txt:101: ")):
        for who in (("--model", GOLDEN / MODELS[args[0]]), ("--url", server.url)):
            done = run(args[0], *who, *args[1:], cwd=files, check=False)
            assert done.returncode == 1
            message = done.stderr.decode()
            assert f": {line}" in message and "--max-input-bytes" in message, message


def certificate(folder):
    """A private authority, and a certificate of it for 127.0.0.1."""
    def openssl(*args):
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, cwd=folder)
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
            "-days", "2", "-subj", "/CN=private")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=s")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", "server.pem", "-days", "2", "-extfile", "names")
    return folder / "ca.pem", folder / "server.pem", folder / "server.key"


def test_tls_of_a_private_authority(files, start):
    ca, cert, key = certificate(files)
    secure = start(*model_args(*ALL_MODELS), "--tls-cert", cert, "--tls-key", key)
    for args in (COMMANDS[0], COMMANDS[3], COMMANDS[5]):
        here, there = both(files, secure.url, args, "--ca-cert", ca)
        assert there.stdout == here.stdout
    trusting = clean_environment(SSL_CERT_FILE=str(ca))
    for more, env in (((), trusting), (("--insecure",), clean_environment())):
        assert both(files, secure.url, COMMANDS[5], *more, env=env)[1].returncode == 0
    begun = time.monotonic()
    done = run("tokenize", "--url", secure.url, "--connect-timeout", "60", "texts.txt", cwd=files, check=False)
    assert done.returncode == 1 and b"certificate" in done.stderr and time.monotonic() - begun < 20


@pytest.mark.parametrize("name", MODELS)
def test_no_server_is_told_at_once_and_given_up_soon(files, name):
    query = ["--query", "q"] if name == "rerank" else []
    begun = time.monotonic()
    process = subprocess.Popen([binary(), name, "--url", "127.0.0.1:9", "--connect-timeout", "2", *query,
                                files / "texts.txt"], stderr=subprocess.PIPE, env=clean_environment())
    first = process.stderr.readline().decode()
    assert process.poll() is None and "127.0.0.1:9" in first and "--connect-timeout" in first
    assert process.wait(20) == 1 and time.monotonic() - begun > 1.5


@pytest.mark.parametrize("name", MODELS)
def test_what_will_not_pass_ends_at_once(files, start, name):
    locked = start(*model_args(("embed", EMBED)), "--api-key", "k")
    out = files / "old"
    out.write_text("of yesterday")
    query = ["--query", "q"] if name == "rerank" else []
    given = [name, "--url", locked.url, "-o", out, *query, files / "texts.txt"]
    (files / "key").write_text("# ours\n\nk\n")
    cases = [((), "401"), (("--api-key", "wrong"), "401"),
             (("--api-key", "k", "--model", "unknown"), "no model is served as 'unknown'; served: embed")]
    if name != "tokenize":
        cases.append((("--api-key-file", files / "key"), "model 'embed' is for embedding"))
    for more, reason in cases:
        begun = time.monotonic()
        done = run(*given, *more, check=False)
        assert done.returncode == 1 and reason in done.stderr.decode(), done.stderr
        assert time.monotonic() - begun < 5 and out.read_text() == "of yesterday"
    done = run(*given, "--api-key-file", files / "none", check=False)
    assert done.returncode == 2 and b"--api-key-file: " in done.stderr
    if name == "tokenize":
        run(*given, "--api-key-file", files / "key")
        run(*given, env=clean_environment(PENSTOCK_API_KEY="k"))


@pytest.mark.parametrize("name", ["embed", *MODELS])
def test_flags_of_models_are_refused(files, server, name):
    for flags, named in ((["--threads", "2"], "--threads"), (["-t", "2"], "-t"), (["--no-pin"], "--no-pin"),
                         (["--dtype=int8"], "--dtype"), (["--redis-url", "redis://h"], "--redis-url"),
                         (["--no-auto-truncate"], "--no-auto-truncate")):
        done = run(name, "--url", server.url, *flags, files / "texts.txt", check=False)
        assert done.returncode == 2 and f": {named} is for a model in this process" in done.stderr.decode()
    # For all commands of this machine, so not for this one in particular.
    run("tokenize", "--url", server.url, files / "texts.txt", env=clean_environment(PENSTOCK_THREADS="2"))


def test_a_model_of_a_variable(files, server):
    """A variable may be meant for serve on this machine."""
    folder = str(GOLDEN / EMBED)
    for command, ask in (("tokenize", []), ("embed", [])):
        for value, told in ((folder, True), (f"embed={folder}", False), ("embed", False)):
            done = run(command, "--url", server.url, *ask, files / "texts.txt",
                       env=clean_environment(PENSTOCK_MODEL=value))
            assert (b"no name at the server" in done.stderr) == told, done.stderr
    done = run("tokenize", "--url", server.url, "--model", folder, files / "texts.txt", check=False)
    assert done.returncode == 1 and b"404" in done.stderr


class Strange(http.server.BaseHTTPRequestHandler):
    """A server that answers as it is told."""
    protocol_version = "HTTP/1.1"
    answers = []  # (status, body) of the next requests; the last stays
    seen = []
    hang = threading.Event()

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((time.monotonic(), self.path, dict(self.headers)))
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if status == "hang":
            self.hang.wait(30)
            return
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def strange():
    Strange.seen, Strange.hang = [], threading.Event()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Strange) as one:
        one.daemon_threads = True
        threading.Thread(target=one.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{one.server_port}"
        Strange.hang.set()
        one.shutdown()


def test_what_may_pass_is_tried_again(strange):
    ranked = {"results": [{"index": 0, "relevance_score": 0.5}]}
    Strange.answers = [(503, {}), (429, {}), (200, ranked)]
    done = run("rerank", "--url", strange, "--query", "q", "--api-key", "k", stdin=b"a\n")
    assert json.loads(done.stdout)["results"] == [{"index": 0, "score": 0.5}]
    assert b"2 requests were sent again" in done.stderr
    assert Strange.seen[-1][0] - Strange.seen[0][0] > 2  # Retry-After was kept
    assert {path for _, path, _ in Strange.seen} == {"/v1/rerank"}
    for _, _, headers in Strange.seen:
        assert headers["X-Penstock-Priority"] == "bulk" and headers["Authorization"] == "Bearer k"


@pytest.mark.parametrize("name", MODELS)
def test_answers_that_cannot_be_used(strange, name):
    query = ["--query", "q"] if name == "rerank" else []
    for body in ({}, [], 3, b"<html>", b"", {"results": [{"index": 5, "relevance_score": 1}]}, [[], [], []],
                 {"data": []}):
        Strange.answers = [(200, body)]
        done = run(name, "--url", strange, *query, stdin=b"a\n", check=False)
        assert done.returncode == 1 and done.stdout == b"", (body, done.stdout)
    Strange.answers = [(500, b"<html>broken")]
    done = run(name, "--url", strange, *query, stdin=b"a\n", check=False)
    assert done.returncode == 1 and b"the server says 500: <html>broken" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", MODELS)
def test_a_signal_ends_it(strange, tmp_path, name, number):
    Strange.answers = [("hang", None)]
    (tmp_path / "in.txt").write_text("a\nb\n")
    (tmp_path / "out").write_text("of yesterday")
    query = ["--query", "q"] if name == "rerank" else []
    for args in (["--url", strange, tmp_path / "in.txt"], ["--url", strange],
                 ["--model", GOLDEN / MODELS[name]]):
        process = subprocess.Popen([binary(), name, *map(str, args), *query, "-o", tmp_path / "out"],
                                   stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
        wait_for(lambda: os.path.exists(tmp_path / "out.part"), 20)
        time.sleep(0.1)  # until it waits for input or for the server
        process.send_signal(number)
        begun = time.monotonic()
        assert process.wait(20) == 128 + number and time.monotonic() - begun < 10
        assert b"interrupted" in process.stderr.read()
        assert (tmp_path / "out").read_text() == "of yesterday"
        (tmp_path / "out.part").unlink(missing_ok=True)
