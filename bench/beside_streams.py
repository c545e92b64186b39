#!/usr/bin/env python3
"""Interactive embeddings beside text models that stream: latency for 0, 1, ... models.

Serves the chat model under several names (one load each), lets one client a model stream without
end, and times single embeddings one after the other. Prints a line a count of models and the ratio
of the largest count to one.

Usage: bench/beside_streams.py --program build/penstock --chat MODEL.gguf --embedder FOLDER
       [--models 1,4] [--seconds 20] [--json FILE]
"""

import argparse
import json
import pathlib
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def post(url, body, timeout=120):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=timeout)


class Stream(threading.Thread):
    """Streams text after text; counts tokens."""

    def __init__(self, url, model):
        super().__init__(daemon=True)
        self.url, self.model, self.tokens, self.over = url, model, 0, False

    def run(self):
        while not self.over:
            body = {"model": self.model, "prompt": "A long story. Once", "stream": True, "ignore_eos": True,
                    "max_tokens": 1000}
            with post(self.url + "/v1/completions", body) as answer:
                for line in answer:
                    self.tokens += line.startswith(b"data: {")
                    if self.over:
                        return


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def measure(url, streams, seconds):
    for stream in streams:
        stream.start()
    while any(stream.tokens < 5 for stream in streams):  # loaded, and streaming
        time.sleep(0.1)
    begin, counts = time.monotonic(), [stream.tokens for stream in streams]
    took = []
    while time.monotonic() - begin < seconds:
        start = time.monotonic()
        post(url + "/v1/embeddings", {"model": "embedder", "input": f"text number {len(took)} of many"}).read()
        took.append((time.monotonic() - start) * 1e3)
        time.sleep(0.01)
    spent = time.monotonic() - begin
    rates = [(stream.tokens - count) / spent for stream, count in zip(streams, counts)]
    for stream in streams:
        stream.over = True
    for stream in streams:
        stream.join(30)
    return {"models": len(streams), "embeddings": len(took), "p50_ms": quantile(took, 0.5),
            "p99_ms": quantile(took, 0.99), "worst_ms": max(took), "tokens_per_s": rates}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--chat", required=True)
    parser.add_argument("--embedder", required=True)
    parser.add_argument("--models", default="1,4", help="counts of streaming models")
    parser.add_argument("--seconds", type=float, default=20, help="for each count")
    parser.add_argument("--json", help="file for the records")
    flags = parser.parse_args()
    counts = [int(count) for count in flags.models.split(",")]
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        models = ["--model", f"embedder={flags.embedder}"]
        for i in range(max(counts)):
            link = pathlib.Path(folder) / f"text{i}.gguf"
            link.write_bytes(pathlib.Path(flags.chat).read_bytes())
            models += ["--model", f"text{i}={link}"]
        command = [flags.program, "serve", *models, "--preload", "--port", str(port), "--context", "2048",
                   "--log-level", "warn"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while True:
                try:
                    urllib.request.urlopen(url + "/readyz", timeout=5)
                    break
                except OSError:
                    time.sleep(0.2)
            records = [measure(url, [Stream(url, f"text{i}") for i in range(count)], flags.seconds)
                       for count in counts]
        finally:
            server.terminate()
            server.wait(60)
    for record in records:
        rates = ", ".join(f"{rate:.1f}" for rate in record["tokens_per_s"])
        print(f"{record['models']} models stream ({rates} tokens/s): {record['embeddings']} embeddings, "
              f"p50 {record['p50_ms']:.1f} ms, p99 {record['p99_ms']:.1f} ms, worst {record['worst_ms']:.1f} ms")
    if len(records) > 1:
        print(f"p99 beside {counts[-1]} / beside {counts[0]}: {records[-1]['p99_ms'] / records[0]['p99_ms']:.2f}")
    if flags.json:
        pathlib.Path(flags.json).write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
