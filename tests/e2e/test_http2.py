"""HTTP/2 on the port of HTTP, with curl and with frames made by hand."""
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest

from conftest import ROOT, serving, wait_for
from test_chat import folder  # noqa: F401  (fixtures)
from test_chat import server_args as chat_args  # noqa: F401

VECTOR = {"input": ["a text", "another"], "model": "embed"}
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name, value):
    assert len(name) < 127 and len(value) < 127
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value


def headers(stream, method, path, *fields, flags=4):
    block = (field(b":method", method) + field(b":scheme", b"http") + field(b":authority", b"localhost")
             + field(b":path", path))
    return frame(1, flags, stream, block + b"".join(field(*one) for one in fields))


HELLO = PREFACE + frame(4, 0, 0) + frame(4, 1, 0)


@pytest.fixture(scope="module")
def chat_server(chat_args):  # noqa: F811
    with serving(*chat_args) as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def curl_speaks_http2():
    try:
        told = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip("curl IS NOT HERE")
    if "HTTP2" not in told:
        pytest.skip("THIS curl HAS NO HTTP/2")


def curl(*args, body=None, how="--http2-prior-knowledge"):
    """(status, version, body)"""
    data = ("--data-binary", "@-") if body is not None else ()
    done = subprocess.run(["curl", "-sS", "-k", how, "-w", "\n%{http_code} %{http_version}", *data, *map(str, args)],
                          input=body, capture_output=True, timeout=60, check=True)
    text, _, last = done.stdout.rpartition(b"\n")
    status, version = last.decode().split()
    return int(status), version, text


def test_the_same_answers(server):
    assert curl(server.url + "/livez")[:2] == (200, "2")
    body = json.dumps(VECTOR).encode()
    status, version, answer = curl(server.url + "/v1/embeddings", body=body)
    assert (status, version) == (200, "2")
    assert json.loads(answer)["data"] == server.post("/v1/embeddings", VECTOR).json()["data"]
    lines = curl(server.url + "/v1/embeddings", "-H", "Accept: application/x-ndjson", body=body)
    assert lines[:2] == (200, "2")
    assert lines[2].count(b"\n") >= 2 and b'"usage"' in lines[2]
    assert curl("-I", server.url + "/livez")[0] == 200
    many = json.dumps({"input": ["some words " * 20] * 200, "model": "embed"}).encode()
    assert len(json.loads(curl(server.url + "/v1/embeddings", body=many)[2])["data"]) == 200


def read_frames(client):
    """(type, flags, stream, payload) of each frame, until the server closes."""
    read = b""
    while True:
        while len(read) >= 9 and len(read) >= 9 + int.from_bytes(read[:3], "big"):
            size = int.from_bytes(read[:3], "big")
            yield read[3], read[4], int.from_bytes(read[5:9], "big"), read[9:9 + size]
            read = read[9 + size:]
        some = client.recv(65536)
        if not some:
            return
        read += some


def test_many_requests_of_one_connection(server):
    expected = server.post("/v1/embeddings", VECTOR).json()["data"]
    body = json.dumps(VECTOR).encode()
    window = frame(8, 0, 0, struct.pack(">I", 16 << 20))
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        client.sendall(HELLO + window + b"".join(
            headers(stream, b"POST", b"/v1/embeddings", (b"content-type", b"application/json"))
            + frame(0, 1, stream, body) for stream in range(1, 201, 2)))
        bodies, ended = {}, set()
        for kind, flags, stream, payload in read_frames(client):
            assert kind != 3, (stream, payload)
            if kind == 1:
                assert payload[:1] == b"\x88"  # ":status: 200" of the static table
            if kind == 0:
                bodies[stream] = bodies.get(stream, b"") + payload
            if kind in (0, 1) and flags & 1:
                ended.add(stream)
            if len(ended) == 100:
                break
    assert ended == set(range(1, 201, 2))
    assert all(json.loads(bodies[stream])["data"] == expected for stream in ended)


def test_a_streamed_chat(chat_server):
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 20, "temperature": 0,
            "stream": True}
    text = json.dumps(body).encode()
    old = curl(chat_server.url + "/v1/chat/completions", body=text, how="--http1.1")
    new = curl(chat_server.url + "/v1/chat/completions", body=text)
    assert (old[:2], new[:2]) == ((200, "1.1"), (200, "2"))

    def told(answer):
        events = re.findall(rb"^data: (\{.*\})$", answer, re.MULTILINE)
        return [choice["delta"] for event in events for choice in json.loads(event)["choices"]]
    assert told(new[2]) == told(old[2])
    assert len(told(new[2])) > 2 and new[2].endswith(b"data: [DONE]\n\n")


def test_refusals(start):
    server = start("--api-key", "secret", "--max-body-bytes", 10_000, "--max-header-bytes", 4000,
                   "--allowed-host", "good.example")
    url = server.url + "/v1/embeddings"
    good = ("-H", "Host: good.example", "-H", "Authorization: Bearer secret")
    body = json.dumps(VECTOR).encode()
    expected = [
        (200, good, body),
        (401, good[:2], body),
        (401, (*good[:2], "-H", "Authorization: Bearer wrong"), body),
        (403, ("-H", "Host: evil.example", *good[2:]), body),
        (413, good, b"x" * 20_000),
        (413, (*good, "-H", "Content-Length: 20000"), b"x" * 20_000),
        (431, (*good, "-H", "X-Large: " + "x" * 5000), body),
    ]
    for status, args, sent in expected:
        new = curl(url, *args, body=sent)
        old = curl(url, *args, body=sent, how="--http1.1")
        assert (new[0], new[1], old[0]) == (status, "2", status), (args[:2], new, old)
        if status != 200:
            assert json.loads(new[2]) == json.loads(old[2])


def test_a_reset_stream_cancels_its_request(chat_server):
    """The stream, whose window is full, ends; its place is free again, and the connection goes on."""
    body = json.dumps({"model": "tiny", "prompt": "a", "max_tokens": 1900, "ignore_eos": True, "stream": True}).encode()
    streams = "penstock_http_streams"
    with socket.create_connection(("127.0.0.1", chat_server.port), timeout=30) as client:
        # What came of the stream counts in the connection's window after its end, too, so that is made wide.
        client.sendall(HELLO + frame(8, 0, 0, struct.pack(">I", 1 << 24))
                       + headers(1, b"POST", b"/v1/completions", (b"content-type", b"application/json"))
                       + frame(0, 1, 1, body))
        read = b""
        while read.count(b"data: {") < 2:
            some = client.recv(65536)
            assert some, read
            read += some
        assert chat_server.metrics()[streams] == 1
        client.sendall(frame(3, 0, 1, struct.pack(">I", 8)))
        assert wait_for(lambda: chat_server.metrics()[streams] == 0)
        client.sendall(headers(3, b"GET", b"/livez", flags=5))
        while b'"status"' not in read and b"ok" not in read:
            some = client.recv(65536)
            assert some
            read += some


def test_floods_take_no_memory(start):
    """Bounds of memory and of honest calls; times are for a machine that is quiet."""
    server = start()
    done = subprocess.run([sys.executable, ROOT / "bench" / "floods.py", f"127.0.0.1:{server.port}", "--pid",
                           str(server.process.pid), "--seconds", "1", "--p99-ms", "1e9", "--only",
                           "RapidReset|NoAck|Literals|References|Unread"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("resident") == 7
    assert server.get("/livez").status_code == 200


def test_tls_agrees_on_a_version(start, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
                    cert], check=True, capture_output=True)
    server = start("--tls-cert", cert, "--tls-key", key)
    body = json.dumps(VECTOR).encode()
    assert curl(server.url + "/v1/embeddings", body=body, how="--http2")[:2] == (200, "2")
    assert curl(server.url + "/v1/embeddings", body=body, how="--http1.1")[:2] == (200, "1.1")
    assert curl(server.url + "/v1/embeddings", body=body, how="--no-alpn")[:2] == (200, "1.1")


def test_sigterm_beside_silent_connections(start):
    server = start("--shutdown-timeout-s", 3)
    clients = []
    for first in (b"", PREFACE[:10], HELLO, HELLO + headers(1, b"POST", b"/v1/embeddings")):
        clients.append(socket.create_connection(("127.0.0.1", server.port), timeout=10))
        clients[-1].sendall(first)
    assert curl(server.url + "/livez")[0] == 200
    begin = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    assert time.monotonic() - begin < 15
    for client in clients:
        client.close()
