"""Answers in lines: they come while the rest is made, and slow or leaving clients cost no other client."""
import base64
import http.client
import json
import re
import socket
import struct
import subprocess
import threading
import time

import jsonschema
import pytest
import requests

from conftest import Server, find_minilm, wait_for

pytestmark = pytest.mark.alone
LINES = {"Accept": "application/x-ndjson"}
TEXTS = [f"a dog and {i} cats" for i in range(300)]
# As long as the model takes them, so that the request takes a while.
LONG = [f"dog {i} " + "cat " * 400 for i in range(300)]


def lines_of(answer):
    return [json.loads(line) for line in answer.text.splitlines()]


def raw_request(path, body, *headers):
    text = json.dumps(body).encode()
    head = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Accept: application/x-ndjson",
            "Content-Type: application/json", f"Content-Length: {len(text)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + text


def slow_client(server, body, path="/v1/embeddings", headers=()):
    """A client with a small window, which has sent its request and read nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(30)
    connection.connect((server.host, server.port))
    connection.sendall(raw_request(path, body, *headers))
    return connection


def resident(server):
    with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4096


def test_lines_are_the_rows_of_the_whole_answer(server):
    body = {"input": TEXTS, "dimensions": 8, "model": "embed"}
    whole = server.post("/v1/embeddings", body).json()
    answer = server.post("/v1/embeddings", body, headers=LINES)
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["transfer-encoding"] == "chunked" and "content-length" not in answer.headers
    *rows, last = lines_of(answer)
    assert [row["index"] for row in rows] == list(range(len(TEXTS)))
    assert [row["embedding"] for row in rows] == [row["embedding"] for row in whole["data"]]
    assert last == {key: whole[key] for key in ("model", "usage", "truncated")}


def test_base64_tei_and_aliases(server):
    whole = server.post("/v1/embeddings", {"input": "a dog"}).json()["data"][0]["embedding"]
    line = lines_of(server.post("/embeddings", {"input": "a dog", "encoding_format": "base64"}, headers=LINES))[0]
    assert struct.unpack("<32f", base64.b64decode(line["embedding"])) == \
        pytest.approx(struct.unpack("<32f", struct.pack("<32f", *whole)), abs=0)
    for path in ("/embed", "/"):
        body = {"inputs": TEXTS[:70], "normalize": False}
        *rows, last = lines_of(server.post(path, body, headers=LINES))
        assert [row["embedding"] for row in rows] == server.post("/embed", body).json()
        assert last["usage"]["prompt_tokens"] > 70 and last["model"] == "embed"


def test_a_server_that_stops_ends_streams_with_an_error(start):
    server = start("--shutdown-timeout-s", "0", "--max-client-batch-size", "4096")
    stream = requests.post(server.url + "/embed", json={"inputs": LONG * 10}, headers=LINES, stream=True, timeout=30)
    lines = stream.iter_lines()
    assert "embedding" in json.loads(next(lines))
    assert server.stop() == 0
    last = json.loads(list(lines)[-1])
    assert last == {"error": "the server is shutting down", "error_type": "Unhealthy"}


def test_truncation_is_in_the_last_line(server):
    inputs = ["dog " * 600, "dog", "cat " * 600]
    last = lines_of(server.post("/v1/embeddings", {"input": inputs}, headers=LINES))[-1]
    assert last["truncated"]["inputs"] == 2
    assert last["truncated"] == server.post("/v1/embeddings", {"input": inputs}).json()["truncated"]


def test_lines_are_as_openapi_says(server):
    document = server.get("/openapi.json").json()
    for path, body in (("/v1/embeddings", {"input": ["a", "dog " * 600], "truncate": False}),
                       ("/v1/embeddings", {"input": "a"}), ("/embed", {"inputs": TEXTS})):
        schema = document["paths"][path]["post"]["responses"]["200"]["content"]["application/x-ndjson"]["schema"]
        for line in lines_of(server.post(path, body, headers=LINES)):
            jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(line)


def test_who_does_not_ask_gets_json(server):
    for accept in ("*/*", "application/json", "application/x-ndjson;q=0.1, application/json"):
        answer = server.post("/embed", {"inputs": "a"}, headers={"Accept": accept})
        assert answer.headers["content-type"] == "application/json" and len(answer.json()) == 1


def test_refused_requests_have_their_status(server):
    for path, body, status in (("/v1/embeddings", {"input": "a", "dimensions": 99}, 400),
                               ("/v1/embeddings", {"input": "a", "model": "none"}, 404),
                               ("/embed", {"inputs": "dog " * 600, "truncate": False}, 413),
                               ("/embed", {"inputs": "a", "model": "rerank"}, 422)):
        plain = server.post(path, body)
        answer = server.post(path, body, headers=LINES)
        assert (answer.status_code, answer.json()) == (plain.status_code, plain.json()), path
        assert answer.status_code == status and answer.headers["content-type"] == "application/json"


def test_an_error_in_the_middle_is_the_last_line(server):
    bad = [*TEXTS[:100], "dog " * 600, *TEXTS[100:]]
    before = server.metrics()
    *rows, last = lines_of(server.post("/v1/embeddings", {"input": bad, "truncate": False}, headers=LINES))
    assert [row["index"] for row in rows] == list(range(len(rows))) and 0 < len(rows) <= 100
    assert last["error"]["param"] == "input[100]" and "inputs" not in last["error"]["message"]
    *rows, last = lines_of(server.post("/embed", {"inputs": bad, "truncate": False}, headers=LINES))
    assert rows and last["error_type"] == "Validation" and last["field"] == "inputs[100]"
    series = 'penstock_http_requests_total{route="/v1/embeddings",method="POST",code="413"}'
    # It is counted once it is sent.
    assert wait_for(lambda: server.metrics().get(series, 0) == before.get(series, 0) + 1)


def test_the_connection_goes_on_and_others_come_between(server):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    for _ in range(3):
        connection.request("POST", "/v1/embeddings", json.dumps({"input": TEXTS}), LINES)
        answer = connection.getresponse()
        assert answer.status == 200 and len(answer.read().splitlines()) == len(TEXTS) + 1
        connection.request("GET", "/livez")
        assert connection.getresponse().read() == b'{"status":"ok"}'
    with server.connect() as pipelined:
        pipelined.sendall(raw_request("/embed", {"inputs": TEXTS}) + raw_request("/livez", {}))
        data = b""
        while b"405 Method" not in data:  # /livez takes no POST: the second answer
            block = pipelined.recv(65536)
            assert block
            data += block
        assert data.index(b"0\r\n\r\nHTTP/1.1 405") > 0


def test_http_1_0_gets_lines_until_the_end(server):
    with server.connect() as connection:
        connection.sendall(raw_request("/embed", {"inputs": TEXTS}).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        data = b""
        while block := connection.recv(65536):
            data += block
    head, body = data.split(b"\r\n\r\n", 1)
    assert b"chunked" not in head and b"Connection: close" in head
    assert len(body.splitlines()) == len(TEXTS) + 1 and b"usage" in body.splitlines()[-1]


def test_lines_over_tls(start, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    server = start("--tls-cert", cert, "--tls-key", key, "--max-stream-unread-bytes", 8192)
    with requests.Session() as session:
        for _ in range(2):
            answer = session.post(f"{server.url}/embed", json={"inputs": TEXTS * 6}, headers=LINES, timeout=60, verify=str(cert))
            assert len(answer.text.splitlines()) == 6 * len(TEXTS) + 1
        leaving = session.post(f"{server.url}/embed", json={"inputs": TEXTS * 6}, headers=LINES, stream=True, timeout=60, verify=str(cert))
        next(leaving.iter_lines())
        leaving.close()

        def metric(name):
            text = session.get(f"{server.url}/metrics", timeout=30, verify=str(cert)).text
            return float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE).group(1))
        assert wait_for(lambda: metric("penstock_http_streams") == 0)
        assert metric("penstock_requests_in_flight") == 0


def test_lines_arrive_before_the_last_batch_and_others_are_answered_meanwhile(start):
    server = start("--threads", "1")
    answer = requests.post(f"{server.url}/v1/embeddings", json={"input": LONG}, headers=LINES, stream=True, timeout=60)
    lines = answer.iter_lines()
    first = json.loads(next(lines))
    assert first["index"] == 0
    assert server.metrics()["penstock_http_streams"] == 1
    assert server.post("/embed", {"inputs": "a dog"}).status_code == 200
    assert len(list(lines)) == len(LONG)
    assert wait_for(lambda: server.metrics()["penstock_http_streams"] == 0)


def test_leaving_cancels_the_rest(start):
    server = start("--threads", "1", "--access-log", "--max-stream-unread-bytes", 4096)
    connection = slow_client(server, {"input": LONG})
    assert connection.recv(1024).startswith(b"HTTP/1.1 200 OK")
    connection.close()
    dropped = 'penstock_dropped_total{model="embed",reason="cancelled"}'
    assert wait_for(lambda: server.metrics()[dropped] > 100), server.metrics()
    assert wait_for(lambda: server.metrics()["penstock_requests_in_flight"] == 0)
    assert wait_for(lambda: server.metrics()["penstock_inflight_bytes"] == 0)
    assert server.metrics()["penstock_http_streams"] == 0
    assert wait_for(lambda: any("POST /v1/embeddings 499" in line and "rows streamed" in line for line in server.log))


def test_a_slow_reader_is_dropped_and_delays_nobody(start):
    server = start("--max-stream-unread-bytes", 8192, "--write-timeout-ms", 3000, "--max-concurrent-requests", 2)
    # 2000 rows of 32 numbers: more than the kernel takes for a client with a small window.
    slow = []

    def begun():  # on a busy machine the first may be dropped before the last has begun
        metrics = server.metrics()
        return metrics["penstock_http_streams"] + metrics["penstock_http_streams_dropped_total"]

    def accepted():  # a stream takes its place again for each part: two that do leave none for a moment
        client = slow_client(server, {"input": TEXTS * 6})
        if client.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200":
            slow.append(client)
            return True
        client.close()
        return False

    for count in range(1, 5):  # those that wait for their client hold no place
        assert wait_for(accepted)
        assert wait_for(lambda count=count: begun() == count)
        assert wait_for(lambda: server.metrics()["penstock_requests_in_flight"] == 0)
    trickle = threading.Event()

    def read_a_little():  # a byte now and then does not keep a stream
        try:
            while slow[0].recv(1):
                time.sleep(0.1)  # slower than the server sends
        except OSError:
            pass
        trickle.set()

    threading.Thread(target=read_a_little, daemon=True).start()
    for _ in range(20):
        began = time.monotonic()
        assert server.post("/embed", {"inputs": "a dog"}).status_code == 200
        assert time.monotonic() - began < 3  # what waits for a slow reader waits for its timeout
    assert wait_for(lambda: server.metrics()["penstock_http_streams_dropped_total"] == 4, timeout=30)
    assert wait_for(lambda: server.metrics()["penstock_inflight_bytes"] == 0)
    for connection in slow:
        connection.close()


@pytest.mark.parametrize("unread", [4096, 8192, 16384])
def test_rows_larger_than_the_bound_go_one_by_one(unread):
    folder = find_minilm()
    if folder is None:
        pytest.skip("all-MiniLM-L6-v2 IS NOT HERE: set PENSTOCK_MINILM to its folder")
    server = Server("--model", f"minilm={folder}", "--max-stream-unread-bytes", unread)
    try:
        for _ in range(5):
            answer = server.post("/embed", {"inputs": TEXTS[:40]}, headers=LINES)
            assert len(lines_of(answer)) == 41
        assert server.metrics()["penstock_http_streams_dropped_total"] == 0
    finally:
        server.stop()


def test_the_whole_time_ends_a_stream_with_an_error(start):
    server = start("--max-stream-unread-bytes", 8192)
    connection = slow_client(server, {"input": TEXTS * 6}, headers=["X-Request-Timeout-Ms: 2000"])
    assert wait_for(lambda: server.metrics()["penstock_http_streams"] == 1)
    time.sleep(2.1)  # then there is a second to say so
    data = b""
    while block := connection.recv(1 << 20):
        data += block
        if data.endswith(b"0\r\n\r\n"):
            break
    assert b"the request's time ran out" in data[-400:], data[-400:]
    assert 0 < data.count(b'"index"') < 6 * len(TEXTS)
    connection.close()
    # One that does not read then is closed.
    connection = slow_client(server, {"input": TEXTS * 6}, headers=["X-Request-Timeout-Ms: 500"])
    assert wait_for(lambda: server.metrics()["penstock_http_streams"] == 1)
    assert wait_for(lambda: server.metrics()["penstock_http_streams"] == 0)
    assert wait_for(lambda: server.metrics()["penstock_requests_in_flight"] == 0)
    connection.close()


def test_the_first_line_has_a_time_of_its_own(start):
    # The batch, which is not full, begins only after 0.3 s.
    server = start("--linger-us", 300_000, "--stream-start-timeout-ms", 1)
    answer = server.post("/v1/embeddings", {"input": TEXTS[:3]}, headers=LINES)
    assert answer.status_code == 503 and "--stream-start-timeout-ms" in answer.text
    assert server.post("/v1/embeddings", {"input": TEXTS}).status_code == 200  # of streams only


def test_shutdown_finishes_a_stream(start):
    server = start("--threads", "1")
    answer = requests.post(f"{server.url}/v1/embeddings", json={"input": LONG}, headers=LINES, stream=True, timeout=60)
    lines = answer.iter_lines()
    next(lines)
    stopped = threading.Thread(target=server.stop)
    stopped.start()
    rest = list(lines)
    assert len(rest) == len(LONG) and b"usage" in rest[-1]
    stopped.join()
    assert server.process.returncode == 0


def test_the_result_cache_gives_the_same_lines(start):
    server = start("--result-cache-bytes", "16MiB")
    first = lines_of(server.post("/v1/embeddings", {"input": TEXTS}, headers=LINES))
    again = lines_of(server.post("/v1/embeddings", {"input": TEXTS}, headers=LINES))
    assert first == again
    assert server.metrics()['penstock_cache_hits_total{cache="result"}'] >= len(TEXTS)


def test_many_slow_streams_hold_bounded_memory_and_health_answers(start):
    """The figures of bench/streams.py, with room for a busy machine of two cores."""
    streams, unread = 300, 64 << 10
    server = start("--max-stream-unread-bytes", unread, "--max-connections", 2000)
    server.post("/embed", {"inputs": TEXTS})
    before = resident(server)
    body = {"input": TEXTS * 6}
    slow = [slow_client(server, body) for _ in range(streams)]
    assert wait_for(lambda: server.metrics()["penstock_http_streams"] == streams, timeout=30)
    assert wait_for(lambda: server.metrics()["penstock_requests_in_flight"] == 0, timeout=60)
    took = []
    live = http.client.HTTPConnection(server.host, server.port, timeout=30)
    for _ in range(500):
        began = time.monotonic()
        live.request("GET", "/livez")
        assert live.getresponse().read()
        took.append(time.monotonic() - began)
    took.sort()
    metrics = server.metrics()
    # A body is kept with four bytes a byte, besides what is unread.
    bound = streams * (unread + 5 * len(json.dumps(body)))
    assert metrics["penstock_inflight_bytes"] < bound
    assert resident(server) - before < 2 * bound
    assert took[int(len(took) * 0.99)] < 0.1, took[-20:]
    # One that reads on gets all of it.
    slow[0].settimeout(60)
    data = b""
    while not data.endswith(b"0\r\n\r\n"):
        block = slow[0].recv(1 << 20)
        assert block
        data += block
    assert data.count(b'"index"') == len(body["input"])
    for connection in slow:
        connection.close()
    assert wait_for(lambda: server.metrics()["penstock_inflight_bytes"] == 0, timeout=30)
    assert server.metrics()["penstock_http_streams"] == 0
