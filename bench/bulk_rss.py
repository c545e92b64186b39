#!/usr/bin/env python3
"""Resident memory of a server before and after a bulk run.

before  the model is loaded and one small batch was embedded
peak    while `penstock embed --url` sends thousands of texts, some of them long, as a bulk run
after   the run was ended and the server was idle for --idle seconds

Linux only: memory is read from /proc. Writes one JSON object a line to --json FILE: {"name",
"value", "unit"}.
"""
import argparse
import json
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

SEED = 20260102
WORDS = ["the", "river", "carries", "its", "water", "through", "a", "long", "pipe", "of", "steel", "down", "to", "the", "turbine", "hall", "where", "wheels", "turn", "day", "and", "night", "while", "engineers", "watch", "pressure", "flow", "and", "heat", "on", "old", "dials"]


def texts(count):
    """Mostly of 3 to 60 words; one in twenty of 500 to 3000, beyond what a model takes."""
    rng = random.Random(SEED)
    for i in range(count):
        words = rng.randint(500, 3000) if i % 20 == 0 else rng.randint(3, 60)
        yield " ".join(rng.choice(WORDS) + (str(rng.randint(0, 999)) if rng.random() < 0.1 else "")
                       for _ in range(words))


def memory_bytes(pid, field):
    """VmRSS: now; VmHWM: the most there ever was."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE).group(1)) * 1024


def measure(args):
    server = subprocess.Popen(
        [args.penstock, "serve", "--model", args.model, "--port", "0", "--log-level", "error",
         *args.serve_args], stdout=subprocess.PIPE, text=True)
    try:
        url = re.search(r"ready on (http://\S+)", server.stdout.readline()).group(1)
        body = json.dumps({"input": list(texts(8))[1:]}).encode()
        request = urllib.request.Request(url + "/v1/embeddings", body,
                                         {"Content-Type": "application/json"})
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).read()
        time.sleep(args.idle)
        before = memory_bytes(server.pid, "VmRSS")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "texts.txt"
            path.write_text("".join(text + "\n" for text in texts(args.texts)))
            done = subprocess.run(
                [args.penstock, "embed", "--url", url, "--log-level", "info", "--output",
                 pathlib.Path(folder) / "vectors.npy", path], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        said = re.search(r"the server released .*", done.stderr)
        time.sleep(args.idle)
        after = memory_bytes(server.pid, "VmRSS")
        peak = memory_bytes(server.pid, "VmHWM")
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    print(said.group(0) if said else "the server said nothing about memory")
    return [{"name": "bulk.rss_before_mib", "value": round(before / 2**20, 1), "unit": "MiB"},
            {"name": "bulk.rss_peak_mib", "value": round(peak / 2**20, 1), "unit": "MiB"},
            {"name": "bulk.rss_after_mib", "value": round(after / 2**20, 1), "unit": "MiB"},
            {"name": "bulk.rss_after_percent", "value": round(100 * after / before, 1), "unit": "%"}]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--penstock", default="build/penstock", help="the program")
    parser.add_argument("--model", required=True, help="folder or hub reference of the model")
    parser.add_argument("--texts", type=int, default=4000)
    parser.add_argument("--idle", type=float, default=3, help="seconds to wait before memory is read")
    parser.add_argument("--json", help="file to write the records to")
    parser.add_argument("serve_args", nargs="*", help="after --: further flags of penstock serve")
    args = parser.parse_args()
    records = measure(args)
    for record in records:
        print(f"{record['name']:24} {record['value']:10} {record['unit']}")
    if args.json:
        pathlib.Path(args.json).write_text("".join(json.dumps(r) + "\n" for r in records))


if __name__ == "__main__":
    main()
