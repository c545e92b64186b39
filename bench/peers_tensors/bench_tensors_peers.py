#!/usr/bin/env python3
"""Penstock's gRPC beside pytriton's Triton server and mlserver: one identity model of 32 FP32, one
row a request, the same client (`penstock-lab tensors --grpc-target`), servers one at a time, in
turns. Prints a table; --json adds grpc.ratio_vs_pytriton and grpc.ratio_vs_mlserver.

Their environments are made under --cache from Debian's python3: pytriton's server embeds the
system's libpython.
"""

import argparse
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent


def environment(cache: pathlib.Path, name: str) -> pathlib.Path:
    folder, text = cache / f"{name}-venv", (HERE / f"requirements-{name}.txt").read_text()
    stamp = folder / ".requirements"
    if not stamp.exists() or stamp.read_text() != text:
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--clear", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check",
                        "-r", HERE / f"requirements-{name}.txt"], check=True)
        stamp.write_text(text)
    return folder / "bin"


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Server:
    """A server process with its gRPC port."""

    def __init__(self, command, port: int, cwd=None) -> None:
        self.port = port
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, cwd=cwd, stdout=self.log, stderr=subprocess.STDOUT,
                                        start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, 15)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)


def penstock(program: str) -> Server:
    (port,) = free_ports(1)
    return Server([program, "serve", "--port", "0", "--grpc-port", str(port), "--preload",
                   "--model", "identity=builtin:identity?shape=32&batch=256"], port)


def pytriton(bin_folder: pathlib.Path) -> Server:
    grpc, http = free_ports(2)
    return Server([bin_folder / "python", HERE / "pytriton_server.py", str(grpc), str(http)], grpc)


def mlserver(bin_folder: pathlib.Path, scratch: str) -> Server:
    http, grpc, metrics = free_ports(3)
    folder = pathlib.Path(scratch) / str(grpc)
    folder.mkdir()
    for file in (HERE / "mlserver_identity").iterdir():
        if file.is_file():
            (folder / file.name).write_text(file.read_text())
    (folder / "settings.json").write_text(json.dumps({
        "host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_port": metrics,
        "parallel_workers": 0, "debug": False}))
    return Server([bin_folder / "mlserver", "start", str(folder)], grpc, cwd=folder)


def rate(program: str, server: Server, seconds: float, under_way: int) -> float:
    """Requests a second, once the server answers at all."""
    for _ in range(60):
        done = subprocess.run(
            [f"{program}-lab", "tensors", "--grpc-target", f"127.0.0.1:{server.port}",
             "--grpc-model", "identity", "--seconds", str(seconds), "--rounds", "3",
             "--under-way", str(under_way)], capture_output=True, text=True)
        if done.returncode == 0:
            return float(re.search(r"(\d+) requests/s", done.stdout).group(1))
        if server.process.poll() is not None:
            break
        time.sleep(1)
    server.log.seek(0)
    raise SystemExit(f"{done.stderr}\n{server.log.read()[-2000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="build/penstock")
    parser.add_argument("--cache", default=os.path.expanduser("~/.cache/penstock/peers-tensors"))
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--under-way", type=int, default=64)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    cache = pathlib.Path(arguments.cache)
    cache.mkdir(parents=True, exist_ok=True)
    triton_bin, ml_bin = environment(cache, "pytriton"), environment(cache, "mlserver")
    rates: dict[str, list[float]] = {"penstock": [], "pytriton": [], "mlserver": []}
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(arguments.rounds):
            for name, start in (("penstock", lambda: penstock(arguments.program)),
                                ("pytriton", lambda: pytriton(triton_bin)),
                                ("mlserver", lambda: mlserver(ml_bin, scratch))):
                with start() as server:
                    rates[name].append(rate(arguments.program, server, arguments.seconds,
                                            arguments.under_way))
    records = []
    for name, values in rates.items():
        line = f"{name:10} {statistics.median(values):9.0f} requests/s"
        if name != "penstock":
            ratio = statistics.median(a / b for a, b in zip(rates["penstock"], values))
            line += f"   penstock: {ratio:.1f} times"
            records.append({"name": f"grpc.ratio_vs_{name}", "value": ratio, "unit": "1"})
        print(line)
    if arguments.json:
        pathlib.Path(arguments.json).write_text("".join(json.dumps(r) + "\n" for r in records))


if __name__ == "__main__":
    sys.exit(main())
