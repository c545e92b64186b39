#!/usr/bin/env python3
"""Measures how many seconds a server takes to be ready: as a plain process, and in a container under podman.

Usage: python3 bench/image_ready.py --model FOLDER [--program build/penstock] [--image localhost/penstock:0.1.0]
                                    [--podman "podman run ..."] [--rounds 7]

Load the image first: `make image`, or `podman load -i build-image/penstock-*.image.tar`. What podman needs by itself
is timed too, by `penstock version` in a container.
"""

import argparse
import os
import pathlib
import shlex
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def seconds_to_ready(command):
    port = free_port()
    begin = time.perf_counter()
    server = subprocess.Popen(
        [*command, "--port", str(port), "--preload", "--log-level", "error"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1):
                    return time.perf_counter() - begin
            except OSError:
                if server.poll() is not None:
                    sys.exit("the server ended: " + shlex.join(map(str, command)))
                time.sleep(0.002)  # one look every 2 ms
    finally:
        server.terminate()
        server.wait()


def seconds_of(command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--program", default=ROOT / "build/penstock")
    parser.add_argument("--image", default="localhost/penstock:0.1.0")
    parser.add_argument("--podman", default="podman run --rm --network host --read-only --cap-drop=all")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()

    podman = shlex.split(options.podman)
    inside = [*podman, "-v", f"{os.path.realpath(options.model)}:/model:ro", options.image, "--model", "/model"]
    times = {}
    for _ in range(options.rounds):
        for name, measured in {
            "the program": lambda: seconds_to_ready([options.program, "serve", "--model", options.model]),
            "in a container": lambda: seconds_to_ready(inside),
            "version": lambda: seconds_of([options.program, "version"]),
            "version in a container": lambda: seconds_of(
                [*podman, "--entrypoint", "/usr/bin/penstock", options.image, "version"]
            ),
        }.items():
            times.setdefault(name, []).append(measured())
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, value in medians.items():
        print(f"{name:24} {value:.3f} s")
    podman_s = medians["version in a container"] - medians["version"]
    print(f"{'container over program':24} {medians['in a container'] / medians['the program']:.2f}")
    print(f"{'less the start of podman':24} {(medians['in a container'] - podman_s) / medians['the program']:.2f}")


if __name__ == "__main__":
    main()
