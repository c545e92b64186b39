"""Servers over loopback HTTP under the same load generator, `penstock bench http`: infinity with its
torch and its onnx engine, and `penstock serve` in each data type. They take turns; all stay up.
"""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

import workloads

START_S = 300
# (clients, texts a request, which texts)
LOADS = {"b": ("8", "8", "b"), "a": ("1", "1", "a")}


@dataclasses.dataclass
class Server:
    name: str
    dtype: str
    command: list
    folder: object = None  # where it starts
    reason: str = None
    texts_per_s: list = dataclasses.field(default_factory=list)
    p50_ms: list = dataclasses.field(default_factory=list)
    p99_ms: list = dataclasses.field(default_factory=list)
    rss_start: float = None  # MB, once the model is loaded
    rss_end: float = None  # after the load
    weights: float = None  # MB in memory, by `penstock inspect`
    process: object = None
    port: int = 0

    def start(self, log, environment):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.process = subprocess.Popen([*self.command, "--host", "127.0.0.1", "--port", str(self.port)], stdout=log,
                                        stderr=log, env=environment, start_new_session=True, cwd=self.folder)

    def wait(self):
        body = json.dumps({"model": "model", "input": ["a warm-up text"]}).encode()
        until = time.time() + START_S
        while time.time() < until and self.process.poll() is None:
            try:
                request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/embeddings", body,
                                                 {"Content-Type": "application/json"})
                urllib.request.urlopen(request, timeout=60).read()
                self.rss_start = self.rss()
                return
            except OSError:
                time.sleep(0.5)
        self.reason = "did not start" if self.process.poll() is None else f"ended ({self.process.poll()})"
        self.end()

    def rss(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def end(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.process = None


def onnx_folder(folder):
    """Infinity's onnx engine wants the graph in the model's folder, and finds it only from there."""
    import onnx_graphs
    path = folder.with_name("model-onnx")
    if not (path / "model.onnx").exists():
        shutil.copytree(folder, path, dirs_exist_ok=True)
        onnx_graphs.build(folder, "plain", path / "model.onnx")
    return path


def offered(run, args):
    penstock = str(pathlib.Path(args.build).resolve() / "penstock")
    out = []
    if "infinity" in args.peers:
        python = args.cache.parent / "infinity-venv/bin/infinity_emb"
        for engine in ("torch", "optimum"):
            folder = run.folder
            reason = None if python.exists() else "not installed"
            if engine == "optimum" and not reason:
                try:
                    folder = onnx_folder(run.folder)
                except Exception as error:
                    reason = f"{type(error).__name__}: {error}"
            out.append(Server(f"infinity-emb, {engine}", "f32", [
                str(python), "v2", "--model-id", ".", "--served-model-name", "model", "--engine", engine,
                "--device", "cpu", "--dtype", "float32", "--url-prefix", "/v1", "--no-model-warmup",
                "--log-level", "error"], folder, reason))
    for dtype in args.dtypes:
        server = Server("**penstock serve**", dtype, [
            penstock, "serve", "--model", str(run.folder), "--served-model-name", "model", "--dtype", dtype,
            "--threads", str(args.threads)])
        seen = subprocess.run([penstock, "inspect", "--model", str(run.folder), "--dtype", dtype],
                              capture_output=True, text=True).stdout
        found = re.search(r"in memory.* ([0-9.]+) (MB|GB)", seen)
        if found:
            server.weights = float(found[1]) * (1000 if found[2] == "GB" else 1)
        out.append(server)
    return out


def load(server, run, args, workload, texts):
    clients, batch, _ = LOADS[workload]
    file = run.work / "http.json"
    file.unlink(missing_ok=True)
    seconds = "2" if args.quick else "10"
    done = subprocess.run(
        [str(pathlib.Path(args.build) / "penstock"), "bench", "http", "--url", f"http://127.0.0.1:{server.port}",
         "--model-name", "model", "--texts", str(texts), "--concurrency", clients, "--batch", batch,
         "--duration", seconds, "--warmup", "1", "--json", str(file)], capture_output=True, text=True)
    records = {}
    if done.returncode == 0:
        records = {r["name"]: r["value"] for r in map(json.loads, file.read_text().splitlines())}
    if not records or records["http.errors"] or not records["http.texts_per_s"]:
        server.reason = f"errors under load: {(done.stderr.strip().splitlines() or ['no answers'])[-1][:120]}"
        server.end()
        return
    print(f"  {server.name} {server.dtype} {workload}: {records['http.texts_per_s']:.1f} texts/s, "
          f"p50 {records['http.p50_ms']:.2f} ms", flush=True)
    if workload == "b":
        server.texts_per_s.append(records["http.texts_per_s"])
    else:
        server.p50_ms.append(records["http.p50_ms"])
        server.p99_ms.append(records["http.p99_ms"])


def compare(run, args):
    print(" servers over HTTP", flush=True)
    environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads), MKL_NUM_THREADS=str(args.threads),
                       HF_HUB_OFFLINE="1", DO_NOT_TRACK="1", INFINITY_ANONYMOUS_USAGE_STATS="0")
    files = {w: workloads.text_lines(run.files[w], run.work / f"http-{w}.txt") for w in LOADS}
    servers = offered(run, args)
    try:
        for i, server in enumerate(servers):
            if server.reason is None:
                with open(run.work / f"server-{i}.log", "w") as log:
                    server.start(log, environment)
                server.wait()
                if server.reason:
                    print(f"  {server.name} {server.dtype}: {server.reason}", flush=True)
        for workload in LOADS:
            for _ in range(run.rounds):
                for server in servers:
                    if server.reason is None:
                        load(server, run, args, workload, files[workload])
        for server in servers:
            if server.reason is None:
                server.rss_end = server.rss()
    finally:
        for server in servers:
            server.end()
    return servers
