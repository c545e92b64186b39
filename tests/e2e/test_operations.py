"""What an operator relies on: metrics, readiness, overload, deadlines, cancelling, stopping."""
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from conftest import raw_post, read_response, wait_for

# About 100,000 tokens: long enough to meet it in the act, with some of them one after the other.
SLOW_TEXTS = ["dog " * 46] * 2048
SLOW = json.dumps({"inputs": SLOW_TEXTS}).encode()


def test_series_of_routes_and_codes_come_with_the_first_such_request(start):
    server = start()
    before = server.metrics()
    assert not [name for name in before if name.startswith("penstock_http_request")]
    assert before["penstock_http_connections_refused_total"] == 0
    assert before["penstock_http_connections"] >= 1
    server.post("/embed", {"inputs": "a"})
    server.get("/made-up-by-a-client")
    requests_of = 'penstock_http_requests_total{route="%s",method="%s",code="%d"}'
    ours = {requests_of % ("/embed", "POST", 200), requests_of % ("other", "other", 404),
            requests_of % ("/metrics", "GET", 200)}
    # A request is counted once its answer is sent, so perhaps after the next one has come.
    assert wait_for(lambda: ours <= server.metrics().keys())
    after = server.metrics()
    counted = {name: value for name, value in after.items()
               if name.startswith("penstock_http_requests_total")}
    assert counted.pop(requests_of % ("/metrics", "GET", 200)) >= 1
    assert set(counted) < ours and set(counted.values()) == {1}
    assert after['penstock_http_request_duration_seconds_count{route="/embed",method="POST"}'] == 1
    assert after["penstock_http_received_bytes_total"] > before["penstock_http_received_bytes_total"]
    assert after["penstock_http_sent_bytes_total"] > before["penstock_http_sent_bytes_total"]
    assert {name for name in after if not name.startswith("penstock_http_request")} == {
        name for name in before if not name.startswith("penstock_http_request")}


def test_metrics_follow_prometheus_rules(start):
    promtool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if not promtool:
        pytest.skip("promtool is not here")
    server = start()
    for text in (server.get("/metrics").text,
                 server.post("/embed", {"inputs": "a"}) and server.get("/metrics").text):
        done = subprocess.run([promtool, "check", "metrics"], input=text.encode(),
                              capture_output=True, timeout=30)
        assert done.returncode == 0 and not done.stderr, done.stderr


def test_health_and_readiness(server):
    for path in ("/health", "/healthz", "/livez", "/ping"):
        assert server.get(path).json() == {"status": "ok"}
    assert server.get("/readyz").json() == {"status": "ready"}


def test_health_does_not_wait_behind_inference(start):
    server = start("--threads", "1", "--io-threads", "2")
    with server.connect() as busy:
        for _ in range(4):
            busy.sendall(raw_post("/embed", SLOW))
        slowest = 0
        for path in ("/health", "/readyz", "/metrics") * 5:
            begin = time.monotonic()
            assert server.get(path).status_code == 200
            slowest = max(slowest, time.monotonic() - begin)
    assert slowest < 1


def test_overload_is_429_with_retry_after(start):
    server = start("--threads", "1", "--max-concurrent-requests", "1")
    bodies = {"/embed": {"inputs": SLOW_TEXTS}, "/v1/embeddings": {"input": SLOW_TEXTS}}

    def ask(path):
        return server.post(path, bodies[path])

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(ask, ["/embed", "/v1/embeddings"] * 12))
    assert {answer.status_code for answer in answers} == {200, 429}
    refused = [answer for answer in answers if answer.status_code == 429]
    for answer in refused:
        assert int(answer.headers["Retry-After"]) >= 1
        error = answer.json()
        assert error.get("error_type") == "Overloaded" or error["error"]["type"] == "rate_limit_error"
    assert server.post("/embed", {"inputs": "a"}).status_code == 200


def test_a_deadline_that_passes_is_503(start):
    server = start("--threads", "1")
    begin = time.monotonic()
    answer = server.post("/embed", {"inputs": SLOW_TEXTS}, headers={"X-Request-Timeout-Ms": "20"})
    assert answer.status_code == 503 and answer.headers["Retry-After"]
    assert time.monotonic() - begin < 5
    default = start("--threads", "1", "--request-timeout-ms", "20")
    assert default.post("/embed", {"inputs": SLOW_TEXTS}).status_code == 503
    assert default.post("/embed", {"inputs": "a"},
                        headers={"X-Request-Timeout-Ms": "10000"}).status_code == 200


def test_leaving_cancels(start):
    server = start("--threads", "1", "--max-queued-tokens", "100000000")
    connections = [server.connect() for _ in range(16)]
    for connection in connections:
        connection.sendall(raw_post("/embed", SLOW))
    queued = 'penstock_queue_tokens{model="embed",lane="interactive"}'
    assert wait_for(lambda: server.metrics()[queued] > 0, 10)
    for connection in connections:
        connection.close()
    left = 'penstock_http_requests_total{route="/embed",method="POST",code="499"}'
    assert wait_for(lambda: server.metrics().get(left, 0) > 4, 10)
    assert wait_for(lambda: server.metrics()[queued] == 0, 10)
    dropped = 'penstock_dropped_total{model="embed",reason="cancelled"}'
    assert wait_for(lambda: server.metrics()[dropped] > 0, 10)
    assert server.post("/embed", {"inputs": "a"}).status_code == 200


def test_stopping_finishes_what_is_in_flight(start):
    server = start("--threads", "1", "--max-queued-tokens", "100000000")
    idle, busy = server.connect(30), [server.connect(30) for _ in range(16)]
    for connection in busy:
        connection.sendall(raw_post("/embed", SLOW))
    # All have been read once the last is queued; one thread needs a second for all of them.
    assert wait_for(lambda: server.metrics()["penstock_http_received_bytes_total"] > 16 * len(SLOW))
    stopper = threading.Thread(target=server.stop)
    stopper.start()
    assert idle.recv(10) == b""
    closed = 0
    for connection in busy:
        status, headers, body, _ = read_response(connection)
        assert status == 200 and len(json.loads(body)) == len(SLOW_TEXTS)
        closed += headers["connection"] == "close"
    assert closed > 0
    stopper.join()
    assert server.process.returncode == 0
    with pytest.raises(ConnectionRefusedError):
        server.connect()


def test_stopping_under_load_answers_wholly_or_not_at_all(start):
    server = start()
    stop, bad, good = threading.Event(), [], []

    def hammer():
        with requests.Session() as session:
            while not stop.is_set():
                try:
                    answer = session.post(server.url + "/embed", json={"inputs": ["a dog"] * 20},
                                          timeout=10)
                except requests.exceptions.ConnectionError as error:
                    # Closed before an answer began is fair; a torn one is not.
                    if "IncompleteRead" in str(error):
                        bad.append(error)
                    return
                except requests.exceptions.ChunkedEncodingError as error:
                    bad.append(error)
                    return
                if answer.status_code == 200 and len(answer.json()) == 20:
                    good.append(1)
                elif answer.status_code != 503:
                    bad.append(answer.text)

    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            pool.submit(hammer)
        time.sleep(0.5)  # requests are answered meanwhile
        begin = time.monotonic()
        assert server.stop() == 0
        stop.set()
    assert not bad and len(good) > 8
    assert time.monotonic() - begin < 10


def test_stopping_is_bounded(start):
    server = start("--threads", "1", "--shutdown-timeout-s", "0")
    with server.connect() as busy:
        busy.sendall(raw_post("/embed", SLOW))
        time.sleep(0.05)  # until the request is under way
        begin = time.monotonic()
        server.stop()
        assert time.monotonic() - begin < 10


def test_access_log(start):
    server = start("--access-log")
    server.post("/embed", {"inputs": "very private words"}, headers={"X-Request-Id": "find-me"})
    assert wait_for(lambda: any("find-me" in line for line in server.log))
    line = next(line for line in server.log if "find-me" in line)
    assert "POST /embed 200" in line and "model 'embed', 1 rows, " in line
    assert not any("private" in line for line in server.log)


def test_a_log_that_nobody_reads_stops_nothing():
    from conftest import EMBED, binary, clean_environment, model_args
    reads, writes = os.pipe()
    fcntl.fcntl(writes, 1031, 4096)  # F_SETPIPE_SZ
    args = (binary(), "serve", "--port", "0", "--threads", "1", "--preload", "--access-log", *model_args(("embed", EMBED)))
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=writes, env=clean_environment())
    os.close(writes)
    try:
        url = re.search(rb"ready on (\S+) serving", process.stdout.readline()).group(1).decode()

        def dropped():
            text = requests.get(url + "/metrics", timeout=20).text
            return float(re.search(r"^penstock_log_dropped_total (.*)$", text, re.M).group(1))

        with requests.Session() as session:
            for _ in range(100):
                for _ in range(100):
                    assert session.get(url + "/livez?" + "x" * 200, timeout=20).status_code == 200
                if dropped() > 0:
                    break
        lost = dropped()
        assert lost > 0
        assert requests.get(url + "/livez", timeout=20).status_code == 200  # on a new connection
        assert requests.post(url + "/embed", json={"inputs": "a dog"}, timeout=20).status_code == 200
        # The pipe is read again: whole lines, and one that says how many are missing.
        os.set_blocking(reads, False)
        text = b""

        def told():
            nonlocal text
            try:
                while block := os.read(reads, 1 << 16):
                    text += block
            except BlockingIOError:
                pass
            return b"lines of the log were dropped" in text

        assert wait_for(told, 20), text[-500:]
        lines = text.decode().splitlines()
        assert all(re.match(r"\d{4}-\d\d-\d\dT\S+ (info|warning) ", line) for line in lines[:-1]), lines
        assert int(re.search(rb"warning (\d+) lines of the log", text).group(1)) >= lost
        # And it is stopped while the pipe is not read, by its own time.
        with requests.Session() as session:
            before = dropped()
            while dropped() == before:
                for _ in range(100):
                    session.get(url + "/livez?" + "x" * 200, timeout=20)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        os.close(reads)


def json_lines(server, message):
    lines = [json.loads(line) for line in server.log if line.startswith("{")]
    return [line for line in lines if line["message"] == message]


def test_json_logs_have_fields(start):
    server = start("--access-log", "--log-format", "json", "--slow-request-ms", "1", "--api-key", "k1",
                   "--api-key", "k2", "--bulk-api-key", "k3")
    texts = ["private words " * 20] * 300
    ids = {}
    for name, key in (("second", "k2"), ("bulk", "k3"), ("stranger", "k9")):
        answer = server.post("/embed?x=1", {"inputs": texts}, headers={"X-API-Key": key, "X-Request-Id": name})
        ids[name] = answer
    server.get("/nowhere", headers={"X-API-Key": "k1"})
    assert wait_for(lambda: len(json_lines(server, "request")) == 4)
    by_id = {line["request_id"]: line for line in json_lines(server, "request")}
    line = by_id["second"]
    assert line["level"] == "info" and line["time"]
    for field, wanted in {"method": "POST", "route": "/embed", "target": "/embed?x=1", "status": 200,
                          "bytes_in": len(json.dumps({"inputs": texts})),
                          "bytes_out": len(ids["second"].content), "model": "embed", "rows": 300,
                          "class": "interactive", "key": 2}.items():
        assert line[field] == wanted, field
    assert line["tokens"] == 300 * 42 or line["tokens"] > 300
    assert list(line["stages"]) == ["receive", "parse", "load", "tokenize", "queue", "form", "forward", "prefill",
                                    "decode", "complete", "serialise", "send"]
    assert sum(line["stages"].values()) == pytest.approx(line["ms"], abs=0.05)
    assert by_id["bulk"]["class"] == "bulk" and by_id["bulk"]["key"] == 3
    assert by_id["stranger"]["status"] == 401 and "key" not in by_id["stranger"]
    nowhere = next(line for line in by_id.values() if line["target"] == "/nowhere")
    assert nowhere["status"] == 404 and nowhere["route"] is None and "model" not in nowhere
    # Bulk work is not slow; a refusal may be, on a busy machine.
    slow = {line["request_id"]: line for line in json_lines(server, "slow request")}
    assert "bulk" not in slow
    assert slow["second"]["level"] == "warning" and slow["second"]["stages"] == line["stages"]
    assert slow["second"]["ms"] == line["ms"] and slow["second"]["rows"] == 300
    assert not any("private" in line for line in server.log)


def test_a_port_in_use_is_said(start):
    from conftest import EMBED, GOLDEN, run
    server = start()
    done = run("serve", "--model", GOLDEN / EMBED, "--port", server.port, check=False)
    assert done.returncode != 0 and str(server.port) in done.stderr.decode()
