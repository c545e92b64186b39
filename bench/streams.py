#!/usr/bin/env python3
"""Many slow readers of answers in lines at once: what they hold, and whether others notice.

    python3 bench/streams.py [--bin build/penstock] [--model FOLDER] [--streams 500] [--json FILE]

Starts a server, opens the streams with small windows, reads nothing of them, and meanwhile asks
/livez again and again and embeds a text now and then. Prints the memory that requests hold
(penstock_inflight_bytes), the growth of resident memory and quantiles of both times in milliseconds.
The clients live in this process, so its own work is in the times. Standard library only.
"""
import argparse
import http.client
import json
import pathlib
import re
import resource
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def start(args):
    process = subprocess.Popen(
        [args.bin, "serve", "--model", f"m={args.model}", "--port", "0", "--threads", str(args.threads),
         "--write-timeout-ms", "600000", "--max-connections", str(args.streams + 100), *args.serve],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if found := re.search(r"ready on http://[^:]+:(\d+)", line):
            return process, int(found.group(1))
    raise SystemExit(process.stderr.read())


def open_stream(port, body):
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    connection.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\n"
                       b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return connection


def metrics(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return {name: float(value) for name, value in re.findall(r"^(\S+) ([-+\d.e]+)$", text, re.MULTILINE)}


def resident(process):
    return int(pathlib.Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1]) * 4096


def timed(connection, method, path, body=None):
    began = time.perf_counter()
    connection.request(method, path, body)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, answer.status
    return (time.perf_counter() - began) * 1e3


def quantiles(times):
    times = sorted(times)
    return {name: round(times[min(len(times) - 1, int(len(times) * q))], 3)
            for name, q in (("p50", .5), ("p99", .99), ("p999", .999), ("max", 1))}


def probe(port, seconds):
    live = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    embed = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    live_ms, embed_ms = [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(20):
            live_ms.append(timed(live, "GET", "/livez"))
            time.sleep(0.0005)
        embed_ms.append(timed(embed, "POST", "/embed", '{"inputs":"a text of another client"}'))
    return live_ms, embed_ms


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", default=str(ROOT / "build" / "penstock"))
    parser.add_argument("--model", default=str(ROOT / "tests" / "golden" / "models" / "bert_mean_normalize"))
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--inputs", type=int, default=2000, help="texts of each request")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--json", help="writes the figures there")
    parser.add_argument("serve", nargs="*", help="after --: more flags of penstock serve")
    args = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, args.streams + 1000)), hard))
    process, port = start(args)
    try:
        quiet, _ = probe(port, 2)
        before = resident(process)
        body = json.dumps({"input": [f"text number {i} of a long list" for i in range(args.inputs)]}).encode()
        streams = [open_stream(port, body) for _ in range(args.streams)]
        opening, _ = probe(port, args.seconds / 2)  # while parts are made for all of them
        while metrics(port)["penstock_requests_in_flight"] > 0:
            time.sleep(0.1)
        live_ms, embed_ms = probe(port, args.seconds)
        held = metrics(port)
        figures = {
            "streams": held["penstock_http_streams"],
            "inflight_bytes": held["penstock_inflight_bytes"],
            "resident_growth_bytes": resident(process) - before,
            "livez_ms": quantiles(live_ms),
            "livez_ms_while_opening": quantiles(opening),
            "livez_ms_without_streams": quantiles(quiet),
            "embed_ms": quantiles(embed_ms),
        }
        for stream in streams:
            stream.close()
        for _ in range(100):
            figures["inflight_bytes_after"] = metrics(port)["penstock_inflight_bytes"]
            if figures["inflight_bytes_after"] == 0:
                break
            time.sleep(0.1)
    finally:
        process.terminate()
        process.wait()
    print(json.dumps(figures, indent=1))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(figures) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
