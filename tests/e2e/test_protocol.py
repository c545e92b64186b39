"""HTTP itself, over raw sockets. The connection layer's own tests (http_test) go further."""
import json
import socket
import subprocess
import time

import pytest
import requests

from conftest import raw_post, read_response, wait_for

BODY = json.dumps({"inputs": "hello"}).encode()


def test_keep_alive_and_request_ids(server):
    with server.connect() as connection:
        rest = b""
        for i in range(3):
            connection.sendall(raw_post("/embed", BODY, f"X-Request-Id: mine-{i}"))
            status, headers, _, rest = read_response(connection, rest)
            assert status == 200 and headers["x-request-id"] == f"mine-{i}"
            assert headers["connection"] == "keep-alive"
        connection.sendall(raw_post("/embed", BODY, "X-Request-Id: not/sane\tid "))
        _, headers, _, _ = read_response(connection, rest)
        assert len(headers["x-request-id"]) == 32


def test_pipelined_answers_keep_the_order(server):
    requests_sent = b"".join(
        raw_post("/tokenize", json.dumps({"inputs": "a " * i}).encode()) +
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" for i in range(30))
    with server.connect() as connection:
        connection.sendall(requests_sent)
        rest = b""
        for i in range(30):
            _, _, body, rest = read_response(connection, rest)
            assert len(json.loads(body)[0]) == i + 2
            _, _, body, rest = read_response(connection, rest)
            assert json.loads(body) == {"status": "ok"}


def test_chunked_bodies(server):
    def pieces():
        for byte in BODY:
            yield bytes([byte])
    answer = requests.post(server.url + "/embed", data=pieces(), timeout=10)
    assert answer.json() == server.post("/embed", {"inputs": "hello"}).json()


def test_expect_continue(server):
    with server.connect() as connection:
        connection.sendall(raw_post("/embed", BODY, "Expect: 100-continue")[:-len(BODY)])
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(BODY)
        assert read_response(connection)[0] == 200


def test_half_closed_client_is_answered_or_closed(server):
    with server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert read_response(connection)[0] == 200
        assert connection.recv(10) == b""


def test_head_options_and_unknown_routes(server):
    head = requests.head(server.url + "/health", timeout=10)
    assert head.status_code == 200 and head.text == "" and int(head.headers["Content-Length"]) > 0
    wrong = server.get("/v1/embeddings")
    assert wrong.status_code == 405 and "POST" in wrong.headers["Allow"]
    assert "error" in wrong.json() and "message" in wrong.json()["error"]
    assert server.post("/health", {}).status_code == 405
    options = requests.options(server.url + "/embed", timeout=10)
    assert options.status_code == 204 and "POST" in options.headers["Allow"]
    gone = server.get("/nowhere")
    assert gone.status_code == 404 and gone.json()["error_type"] == "NotFound"
    assert server.get("/v1/nowhere").json()["error"]["code"] == "not_found"
    index = server.get("/").json()
    assert "POST /v1/embeddings" in index["routes"] and index["version"]


@pytest.mark.parametrize("text", [
    b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
    b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100,  # TLS to a plain port
])
def test_malformed_requests(server, text):
    with server.connect() as connection:
        connection.sendall(text)
        status, headers, _, _ = read_response(connection)
        assert status == 400 and headers["connection"] == "close" and headers["x-request-id"]


def test_limits_and_timeouts(start):
    server = start("--max-header-bytes", 2048, "--max-body-bytes", 5000, "--read-timeout-ms", 400,
                   "--idle-timeout-ms", 400)
    big = server.get("/health", headers={"X-Fill": "x" * 3000})
    assert big.status_code == 431
    for data in (b"x" * 5001, (b"x" * 1000 for _ in range(8))):
        answer = requests.post(server.url + "/embed", data=data, timeout=10)
        assert answer.status_code == 413 and "5000" in answer.json()["error"]
    answer = requests.post(server.url + "/v1/embeddings", data=b"x" * 5001, timeout=10)
    assert answer.json()["error"]["code"] == "payload_too_large"
    begin = time.monotonic()
    with server.connect() as slow, server.connect() as idle, server.connect() as body:
        body.sendall(b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nab")
        for byte in b"GET / HT":
            slow.sendall(bytes([byte]))
            time.sleep(0.04)  # shorter than the timeout
        assert read_response(slow)[0] == 408
        assert read_response(body)[0] == 408
        assert idle.recv(10) == b""
    assert time.monotonic() - begin < 5


def test_connections_are_limited(start):
    server = start("--max-connections", 3)
    held = [server.connect() for _ in range(3)]
    assert wait_for(lambda: refused(server))
    for connection in held:
        connection.close()
    assert wait_for(lambda: not refused(server))
    assert server.metrics()["penstock_http_connections_refused_total"] > 0


def refused(server):
    with server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        try:
            answer = read_response(connection)
        except ConnectionResetError:
            return True
        return answer is None or answer[0] == 503


def test_api_keys(start):
    server = start("--api-key", "first", "--api-key", "second")
    body = {"inputs": "x"}
    for headers in ({"Authorization": "Bearer first"}, {"Authorization": "bearer second"},
                    {"X-API-Key": "first"}, {"api-key": "second"}):
        assert server.post("/embed", body, headers=headers).status_code == 200, headers
    for headers in ({}, {"Authorization": "Bearer firs"}, {"Authorization": "first"},
                    {"X-API-Key": "first "+"x"}):
        answer = server.post("/embed", body, headers=headers)
        assert answer.status_code == 401 and answer.json()["error_type"], headers
    answer = server.post("/v1/embeddings", {"input": "x"})
    assert answer.status_code == 401 and answer.json()["error"]["code"] == "invalid_api_key"
    assert server.post("/v1/rerank", {}).json()["message"]
    for path in ("/", "/metrics", "/info", "/v1/models", "/nowhere"):
        assert server.get(path).status_code == 401, path
    for path in ("/health", "/healthz", "/livez", "/readyz", "/ping"):
        assert server.get(path).status_code == 200, path
    assert not any("first" in line or "second" in line for line in server.log + server.stdout)


def test_cors(start, server):
    assert "Access-Control-Allow-Origin" not in server.get("/health", headers={"Origin": "x"}).headers
    own = start("--cors-allow-origin", "https://a.example", "--cors-allow-origin", "https://b.example",
                "--api-key", "k")
    asked = {"Origin": "https://b.example", "Access-Control-Request-Method": "POST",
             "Access-Control-Request-Headers": "authorization,x-custom"}
    pre = requests.options(own.url + "/embed", headers=asked, timeout=10)
    assert pre.status_code == 204
    assert pre.headers["Access-Control-Allow-Origin"] == "https://b.example"
    assert pre.headers["Access-Control-Allow-Headers"] == "authorization,x-custom"
    answer = own.post("/embed", {"inputs": "x"},
                      headers={"Origin": "https://a.example", "api-key": "k"})
    assert answer.headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert answer.headers["Vary"] == "Origin"
    denied = own.post("/embed", {"inputs": "x"}, headers={"Origin": "https://a.example"})
    assert denied.headers["Access-Control-Allow-Origin"] == "https://a.example"  # readable 401
    other = own.get("/health", headers={"Origin": "https://evil.example"})
    assert "Access-Control-Allow-Origin" not in other.headers


def test_tls(start, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert, "-days",
                    "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    server = start("--tls-cert", cert, "--tls-key", key, "--max-body-bytes", 100_000)
    assert server.url.startswith("https://")
    with requests.Session() as session:
        session.trust_env = False  # REQUESTS_CA_BUNDLE would win over verify
        session.verify = str(cert)
        for _ in range(3):
            answer = session.post(server.url + "/embed", json={"inputs": ["x"] * 100}, timeout=10)
            assert answer.status_code == 200 and len(answer.json()) == 100
        too_big = session.post(server.url + "/embed", data=b"x" * 100_001, timeout=10)
        assert too_big.status_code == 413
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(server.url + "/health", timeout=10)
    with server.connect() as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"HTTP/1.1 200" not in plain.recv(1000)
