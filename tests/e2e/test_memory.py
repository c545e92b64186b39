"""What one client can take of the server: memory is admitted before it is allocated, comes back, and
nothing heavy holds up the io threads."""
import contextlib
import json
import statistics
import threading
import time

import pytest
import requests

from conftest import read_response, wait_for

pytestmark = pytest.mark.alone
MIB = 1 << 20


def resident(server):
    with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4096


def head(path, length):
    return (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\n\r\n").encode()


def empty_texts(size):
    return b'{"inputs":[' + b'"",' * ((size - 16) // 3) + b'""]}'


def test_the_default_body_limit_is_8_mib(start):
    server = start()
    with server.connect() as connection:
        connection.sendall(head("/embed", 8 * MIB + 1))
        status, _, body, _ = read_response(connection)
        assert status == 413 and str(8 * MIB).encode() in body
    answer = requests.post(f"{server.url}/embed", data=empty_texts(8 * MIB - 1000))
    assert answer.status_code == 413 and "'inputs' has more than 2048 entries" in answer.text


def test_outputs_are_refused_before_they_are_made(start):
    server = start("--max-response-bytes", 1_000_000)
    before = resident(server)
    body = json.dumps({"inputs": [[5] * 64] * 1900})
    answer = requests.post(f"{server.url}/embed_all", data=body)
    assert answer.status_code == 413 and "--max-response-bytes" in answer.text
    assert resident(server) - before < 30 * MIB
    for path, request in (("/tokenize", {"inputs": ["dog " * 2000] * 100}),
                          ("/decode", {"ids": [[7] * 5000] * 100})):
        answer = server.post(path, request)
        assert answer.status_code == 413 and "--max-response-bytes" in answer.text, answer.text[:200]
    assert server.post("/embed_all", {"inputs": ["a dog"]}).status_code == 200


def test_idle_connections_hold_nothing_of_the_last_request(start):
    server = start()
    server.post("/embed", {"inputs": "a"})
    before = resident(server)
    body = b" " * (7 * MIB) + b'{"inputs":"a"}'
    held = []
    for _ in range(20):
        connection = server.connect()
        connection.sendall(head("/embed", len(body)) + body)
        assert read_response(connection)[0] == 200
        held.append(connection)
    assert wait_for(lambda: resident(server) - before < 40 * MIB), resident(server) - before
    # The worker that read the last body may end its turn just after the answer has arrived.
    assert wait_for(lambda: server.metrics()["penstock_inflight_bytes"] == 0)
    for connection in held:
        connection.close()


def test_bodies_in_flight_have_a_common_bound(start):
    server = start("--max-inflight-bytes", 64 * MIB)
    before = resident(server)
    refused, held = 0, []
    for _ in range(20):  # 6 MiB of 7 each, and no more
        connection = server.connect()
        held.append(connection)
        with contextlib.suppress(OSError):  # refused while it was sending
            connection.sendall(head("/embed", 7 * MIB) + b" " * (6 * MIB))
    for connection in held:
        connection.settimeout(0.5)
        try:
            answer = read_response(connection)
        except (TimeoutError, OSError):
            continue
        if answer is not None:
            assert answer[0] == 429 and b"--max-inflight-bytes" in answer[2]
            assert answer[1]["retry-after"] == "1"
            refused += 1
    assert refused > 0
    assert resident(server) - before < 64 * MIB
    assert server.get("/livez").status_code == 200
    for connection in held:
        connection.close()
    assert wait_for(lambda: server.metrics()["penstock_inflight_bytes"] == 0)
    assert server.post("/embed", {"inputs": "a"}).status_code == 200


def livez_beside(server, work, seconds=3):
    """Milliseconds of /livez while `work` runs again and again in four threads."""
    stop = threading.Event()

    def client():
        session = requests.Session()
        while not stop.is_set():
            work(session)

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    took = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.monotonic()
        assert server.get("/livez").status_code == 200
        took.append(1e3 * (time.monotonic() - begin))
        time.sleep(0.005)  # a probe now and then does not count as load
    stop.set()
    for thread in threads:
        thread.join()
    return took


def test_large_bodies_do_not_hold_up_liveness(start):
    server = start()
    body = empty_texts(8 * MIB - 1000)
    took = livez_beside(server, lambda session: session.post(f"{server.url}/embed", data=body))
    # The client's own threads are slow beside it; seconds are what is to be seen here.
    assert statistics.median(took) < 30 and max(took) < 400, sorted(took)[-5:]


def test_large_answers_do_not_hold_up_liveness(start):
    server = start()
    body = json.dumps({"inputs": [[5] * 30] * 2000})

    def work(session):
        assert session.post(f"{server.url}/embed_all", data=body, stream=True).status_code in (200, 429)

    took = livez_beside(server, work)
    assert statistics.median(took) < 30 and max(took) < 400, sorted(took)[-5:]
