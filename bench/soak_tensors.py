"""Tensor requests at several times what the models can carry, for minutes.

Starts a server with three models that give their input back: one that takes its time, one whose
runs fail, each 50th, and one of a repository folder whose versions come and go. Clients send rows
over HTTP (Open Inference Protocol, binary tensors); some leave in the middle, some have deadlines.
Every row carries its own checksum. Asked of the server:

  no request is left without an answer        no row is another's or damaged
  memory is flat after the first tenth        /livez answers throughout

Usage: soak_tensors.py --program build/penstock [--duration 600] [--overload 4] [--json FILE]
Needs numpy and onnx.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

WIDTH = 16  # elements of a row; the last is its checksum


def onnx_identity(path: pathlib.Path, version: int) -> None:
    """y = x in as many steps as the version has, so that the files differ."""
    from onnx import TensorProto, helper, save

    names = ["x"] + [f"h{i}" for i in range(version % 5)] + ["y"]
    nodes = [helper.make_node("Identity", [a], [b]) for a, b in itertools.pairwise(names)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", WIDTH])
    graph = helper.make_graph(nodes, f"identity{version}", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    save(model, str(path))


class Model:
    def __init__(self, name: str, input_name: str, output_name: str) -> None:
        self.name, self.input, self.output = name, input_name, output_name

    def request(self, rows: np.ndarray, timeout_us: int | None) -> bytes:
        head = {
            "inputs": [{"name": self.input, "shape": list(rows.shape), "datatype": "FP32",
                        "parameters": {"binary_data_size": rows.nbytes}}],
            "outputs": [{"name": self.output, "parameters": {"binary_data": True}}],
        }
        if timeout_us is not None:
            head["parameters"] = {"timeout": timeout_us}
        text = json.dumps(head, separators=(",", ":")).encode()
        return (f"POST /v2/models/{self.name}/infer HTTP/1.1\r\nHost: localhost\r\n"
                f"Inference-Header-Content-Length: {len(text)}\r\n"
                f"Content-Length: {len(text) + rows.nbytes}\r\n\r\n").encode() + text + rows.tobytes()


def make_rows(rng: np.random.Generator, count: int) -> np.ndarray:
    rows = rng.integers(0, 1 << 16, size=(count, WIDTH)).astype(np.float32)
    rows[:, -1] = rows[:, :-1].sum(axis=1)  # exact: under 2^24
    return rows


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin1").split("\r\n")
    fields = {k.strip().lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:] if ":" in line)}
    body = await reader.readexactly(int(fields.get("content-length", 0)))
    return int(lines[0].split()[1]), fields, body


class Soak:
    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.random = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.counts = {"ok": 0, "refused": 0, "late": 0, "failed": 0, "left": 0, "wrong": 0,
                       "unanswered": 0}
        self.odd: list[str] = []
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.livez_ms: list[float] = []

    async def connection(self):
        if self.idle:
            return self.idle.pop()
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def one(self, model: Model, may_leave: bool = True) -> None:
        rows = make_rows(self.rng, self.random.choice([1, 1, 1, 2, 5, 20, 60]))
        timeout_us = self.random.choice([None, 300_000])
        try:
            reader, writer = await self.connection()
        except OSError:
            self.counts["refused"] += 1
            return
        try:
            writer.write(model.request(rows, timeout_us))
            if may_leave and self.random.random() < 0.1:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(reader.read(1), self.random.random() * 0.3)
                self.counts["left"] += 1
                writer.close()
                return
            status, fields, body = await asyncio.wait_for(read_answer(reader), 60)
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError) as error:
            self.counts["unanswered"] += 1
            self.odd.append(f"{model.name}: {type(error).__name__}")
            writer.close()
            return
        self.idle.append((reader, writer))
        if status == 200:
            at = int(fields["inference-header-content-length"])
            given = np.frombuffer(body[at:], dtype=np.float32)
            right = given.size == rows.size and np.array_equal(given.reshape(rows.shape), rows)
            right = right and np.array_equal(rows[:, :-1].sum(axis=1), rows[:, -1])
            self.counts["ok" if right else "wrong"] += 1
        elif status in (429, 503, 504, 408):
            self.counts["late" if b"time" in body else "refused"] += 1
        else:
            self.counts["failed"] += 1
            if model.name != "failing" or status != 500:
                self.odd.append(f"{model.name}: {status} {body[:200]!r}")

    async def capacity(self, model: Model, seconds: float) -> float:
        """Requests a second that 64 clients get answered, each waiting for its answer."""
        stop = time.monotonic() + seconds
        before = self.counts["ok"]

        async def client() -> None:
            while time.monotonic() < stop:
                await self.one(model, may_leave=False)

        await asyncio.gather(*(client() for _ in range(64)))
        return max((self.counts["ok"] - before) / seconds, 1)

    async def load(self, model: Model, rate: float, seconds: float) -> None:
        """Arrivals at random moments, whether or not earlier ones were answered."""
        loop, tasks = asyncio.get_running_loop(), set()
        end, at = loop.time() + seconds, loop.time()
        while at < end:
            at += self.random.expovariate(rate)
            await asyncio.sleep(max(0, at - loop.time()))
            if len(tasks) < 2000:  # descriptors
                task = asyncio.create_task(self.one(model))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        await asyncio.gather(*list(tasks))

    async def livez(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begin = time.monotonic()
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            status, _, _ = await asyncio.wait_for(read_answer(reader), 60)
            writer.close()
            assert status == 200
            self.livez_ms.append((time.monotonic() - begin) * 1e3)
            await asyncio.sleep(0.2)


def resident_mb(pid: int) -> float:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0


async def switch_versions(folder: pathlib.Path, seconds: float) -> int:
    end, version = time.monotonic() + seconds, 1
    while time.monotonic() < end:
        await asyncio.sleep(min(5, max(0.1, end - time.monotonic())))
        version += 1
        new = folder / f".{version}"
        new.mkdir()
        onnx_identity(new / "model.onnx", version)
        new.rename(folder / str(version))
        if version > 3:
            shutil.rmtree(folder / str(version - 3))
    return version


async def run(arguments, port: int, pid: int, folder: pathlib.Path) -> int:
    soak = Soak(port, arguments.seed)
    models = [Model("slow", "INPUT0", "OUTPUT0"), Model("failing", "INPUT0", "OUTPUT0"),
              Model("switching", "x", "y")]
    rates = [await soak.capacity(model, 3) for model in models]
    print("capacity, requests/s:", {m.name: round(r) for m, r in zip(models, rates)})
    soak.counts = dict.fromkeys(soak.counts, 0)
    # Together they share the processors; what this client can send is bounded, too.
    wanted = [min(arguments.overload * r, arguments.rate_max) for r in rates]
    memory: list[float] = []

    async def watch() -> None:
        end = time.monotonic() + arguments.duration
        while time.monotonic() < end:
            await asyncio.sleep(max(0.2, arguments.duration / 100))
            memory.append(resident_mb(pid))

    results = await asyncio.gather(
        watch(), switch_versions(folder / "switching", arguments.duration),
        soak.livez(arguments.duration),
        *(soak.load(m, r, arguments.duration) for m, r in zip(models, wanted)))
    early = max(memory[: max(1, len(memory) // 10)])
    late = max(memory[-max(1, len(memory) // 10):])
    livez = sorted(soak.livez_ms)
    print("asked, requests/s:   ", {m.name: round(r) for m, r in zip(models, wanted)})
    print("answers:", soak.counts, f"versions: {results[1]}")
    print(f"memory: {early:.1f} MB in the first tenth, {late:.1f} MB in the last")
    print(f"/livez: p99 {livez[int(len(livez) * 0.99)]:.1f} ms, slowest {livez[-1]:.1f} ms")
    for line in soak.odd[:20]:
        print("odd:", line)
    good = (soak.counts["unanswered"] == 0 and soak.counts["wrong"] == 0 and not soak.odd
            and soak.counts["ok"] > 0 and late - early <= arguments.growth_mb_max)
    if arguments.json:
        records = [{"name": f"soak_tensors.{k}", "value": v, "unit": "1"} for k, v in soak.counts.items()]
        records.append({"name": "soak_tensors.memory_growth", "value": late - early, "unit": "MB"})
        pathlib.Path(arguments.json).write_text("".join(json.dumps(r) + "\n" for r in records))
    print("soak of tensors:", "holds" if good else "FAILED")
    return 0 if good else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="build/penstock")
    parser.add_argument("--duration", type=float, default=600)
    parser.add_argument("--overload", type=float, default=4)
    parser.add_argument("--rate-max", type=float, default=600, help="requests a second to a model")
    parser.add_argument("--growth-mb-max", type=float, default=32)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "switching" / "1").mkdir(parents=True)
        onnx_identity(folder / "switching" / "1" / "model.onnx", 1)
        (folder / "switching" / "config.pbtxt").write_text("max_batch_size: 16\n")
        log = open(folder / "log", "w")
        server = subprocess.Popen(
            [arguments.program, "serve", "--port", "0", "--host", "127.0.0.1",
             "--model", f"slow=builtin:slow?ms=10&batch=8&shape={WIDTH}",
             "--model", f"failing=builtin:failing?every=50&batch=8&shape={WIDTH}",
             "--repository", str(folder), "--repository-poll-s", "1", "--preload",
             "--max-queued-tensor-rows", "2048"],
            stdout=log, stderr=subprocess.STDOUT)
        try:
            port = None
            for _ in range(300):
                time.sleep(0.1)
                for line in (folder / "log").read_text().splitlines():
                    if "http://127.0.0.1:" in line:
                        port = int(line.split("http://127.0.0.1:")[1].split()[0].rstrip("/.,"))
                if port or server.poll() is not None:
                    break
            if port is None:
                print((folder / "log").read_text())
                return 1
            time.sleep(1)
            return asyncio.run(run(arguments, port, server.pid, folder))
        finally:
            if server.poll() is not None:
                print("the server ended:", server.returncode, (folder / "log").read_text()[-3000:])
            server.terminate()
            server.wait(30)


if __name__ == "__main__":
    sys.exit(main())
