"""Hostile clients beside good ones, for minutes, on one server with models of every kind.

Starts a server with an encoder, a decoder that generates text, two built-in tensor models and a
folder for batches. Good clients embed one text at a time, as an interactive user does, and compare
each vector with the one of a quiet moment. Beside them at the same time:

  chat      many texts of one prompt with penalties, cancelled in the middle, long ones, streams
  half      requests whose header or body does not come to its end
  slow      streams that are read a few bytes a second
  giant     bodies over every limit, deep JSON, millions of small values, forms without an end
  tensors   binary and BYTES tensors, right ones, cut ones, lengths that lie
  batches   files and batches, cancelled and deleted at any time
  many      hundreds of connections that are opened and say nothing

Asked of the server: it lives; no interactive embedding is refused, lost or wrong; /livez answers
throughout; hostile requests never get a 500; memory stays within its budgets; afterwards it serves
as before and stops in order.

What each client sends follows from --seed; when, also from the machine.

Usage: soak_hostile.py --program build/penstock --encoder DIR --decoder DIR|FILE [--duration 600]
                       [--only chat,half] [--json FILE]
"""

import argparse
import asyncio
import contextlib
import json
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

MB = 1 << 20
ANSWER_S = 120  # longest wait for an answer that is owed
TEXTS = ["a dog", "the weather in Ulm is fine today", "penstock " * 30, "x", "\u00fc\u00e4\u00f6 \u4e2d\u6587 " * 10]
HOSTILE = ("chat", "half", "slow", "giant", "tensors", "batches", "many")


class Gone(Exception):
    """The connection ended before the answer did."""


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of an answer with a length, in chunks, or up to the end."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").lower()
        status = int(head.split(" ", 2)[1])
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        if "content-length" in fields:
            return status, await reader.readexactly(int(fields["content-length"]))
        if fields.get("transfer-encoding") != "chunked":
            return status, await reader.read()
        body = b""
        while size := int((await reader.readline()).split(b";")[0] or b"0", 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
        return status, body
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, IndexError, ValueError) as error:
        raise Gone(type(error).__name__) from error


def post(path: str, body: bytes, *headers: str, kind: str = "application/json", length: int | None = None) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {kind}",
             f"Content-Length: {len(body) if length is None else length}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def ask(method: str, path: str) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode()


def infer(model: str, datatype: str, shape: list[int], data: bytes, size: int | None = None) -> bytes:
    head = json.dumps({"inputs": [{"name": "INPUT0", "shape": shape, "datatype": datatype,
                                   "parameters": {"binary_data_size": len(data) if size is None else size}}],
                       "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}]}).encode()
    return post(f"/v2/models/{model}/infer", head + data, f"Inference-Header-Content-Length: {len(head)}",
                kind="application/octet-stream")


def form(content: bytes) -> bytes:
    return (b"--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
            b"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n\r\n" + content +
            b"\r\n--x--\r\n")


class Soak:
    def __init__(self, port: int, pid: int, seed: int, duration_s: float) -> None:
        self.port, self.pid, self.seed = port, pid, seed
        self.end = time.monotonic() + duration_s
        self.expected: dict[str, list[float]] = {}
        self.good = {"sent": 0, "right": 0, "wrong": 0, "refused": 0, "lost": 0}
        self.good_ms: list[float] = []
        self.livez_ms: list[float] = []
        self.livez_failed = 0
        self.hostile: dict[str, dict[str, int]] = {kind: {} for kind in HOSTILE}
        self.memory_mb: list[float] = []
        self.odd: list[str] = []

    def running(self) -> bool:
        return time.monotonic() < self.end

    def note(self, kind: str, outcome) -> None:
        counts = self.hostile[kind]
        counts[str(outcome)] = counts.get(str(outcome), 0) + 1

    async def open(self):
        return await asyncio.open_connection("127.0.0.1", self.port, limit=64 * MB)

    async def once(self, request: bytes, timeout_s: float = ANSWER_S) -> tuple[int, bytes]:
        """One request on a connection of its own; TimeoutError, Gone, ConnectionError."""
        reader, writer = await self.open()
        try:
            with contextlib.suppress(ConnectionError):  # the server may answer and close before it has read all
                writer.write(request)
                await asyncio.wait_for(writer.drain(), timeout_s)
            return await asyncio.wait_for(read_answer(reader), timeout_s)
        finally:
            writer.close()

    async def hostile_once(self, kind: str, request: bytes, allowed=()) -> tuple[int, bytes]:
        """Returns the answer, or (0, b"") if the connection ended. A 500 and a missing answer are findings."""
        try:
            status, body = await self.once(request)
        except (Gone, ConnectionError):
            self.note(kind, "closed")
            return 0, b""
        except TimeoutError:
            self.note(kind, "unanswered")
            self.odd.append(f"{kind}: no answer in {ANSWER_S} s to {request[:120]!r}")
            return 0, b""
        self.note(kind, status)
        if status == 500 or (allowed and status not in allowed):
            self.odd.append(f"{kind}: {status} {body[:200]!r} to {request[:120]!r}")
        return status, body

    # --- Good clients --------------------------------------------------------------------------

    async def embedding(self, text: str) -> tuple[int, list[float] | None]:
        request = post("/v1/embeddings", json.dumps({"model": "embed", "input": text}).encode())
        status, body = await self.once(request)
        return status, json.loads(body)["data"][0]["embedding"] if status == 200 else None

    async def good_client(self, number: int) -> None:
        choose = random.Random(f"{self.seed} good {number}")
        while self.running():
            text = choose.choice(TEXTS)
            begin = time.monotonic()
            self.good["sent"] += 1
            try:
                status, vector = await self.embedding(text)
            except (TimeoutError, Gone, ConnectionError, OSError) as error:
                self.good["lost"] += 1
                self.odd.append(f"good: {type(error).__name__} {error}")
                continue
            self.good_ms.append((time.monotonic() - begin) * 1e3)
            if status == 200:
                self.good["right" if vector == self.expected[text] else "wrong"] += 1
            else:
                self.good["refused"] += 1
                self.odd.append(f"good: {status}")
            await asyncio.sleep(choose.uniform(0.05, 0.3))

    async def livez(self) -> None:
        while self.running():
            begin = time.monotonic()
            try:
                status, _ = await self.once(ask("GET", "/livez"), 30)
                self.livez_failed += status != 200
            except (TimeoutError, Gone, ConnectionError, OSError):
                self.livez_failed += 1
            self.livez_ms.append((time.monotonic() - begin) * 1e3)
            await asyncio.sleep(0.1)

    async def watch(self) -> None:
        while self.running():
            self.memory_mb.append(resident_mb(self.pid))
            await asyncio.sleep(0.25)

    # --- Hostile clients -----------------------------------------------------------------------

    async def chat(self, number: int) -> None:
        choose = random.Random(f"{self.seed} chat {number}")
        while self.running():
            body = {"model": "chat", "prompt": ["word " * choose.randrange(1, 60)] * choose.choice([1, 1, 2, 4]),
                    "n": choose.choice([1, 2, 4, 8]), "max_tokens": choose.choice([1, 8, 32, 128]),
                    "frequency_penalty": choose.choice([0, 0.1, 1.9]), "presence_penalty": choose.choice([0, -1.5]),
                    "logit_bias": {str(i): 1 for i in range(choose.choice([0, 3, 200]))}, "seed": choose.randrange(99),
                    "stream": choose.random() < 0.5, "temperature": choose.choice([0, 1, 2])}
            # A slow machine may need longer for the text than an answer may take.
            request = post("/v1/completions", json.dumps(body).encode(), "X-Request-Timeout-Ms: 60000")
            if choose.random() < 0.5:
                await self.leave("chat", request, choose.uniform(0, 2))
            else:
                await self.hostile_once("chat", request, (200, 400, 413, 429, 503))
            await asyncio.sleep(choose.uniform(0, 0.2))

    async def leave(self, kind: str, request: bytes, after_s: float) -> None:
        try:
            _, writer = await self.open()
            writer.write(request)
            await asyncio.sleep(after_s)
            writer.transport.abort()
            self.note(kind, "left")
        except OSError:
            self.note(kind, "closed")

    async def half(self, number: int) -> None:
        choose = random.Random(f"{self.seed} half {number}")
        whole = post("/v1/embeddings", json.dumps({"model": "embed", "input": "half " * 50}).encode())
        while self.running():
            await self.leave("half", whole[:choose.randrange(1, len(whole))], choose.uniform(0, 5))

    async def slow(self, number: int) -> None:
        choose = random.Random(f"{self.seed} slow {number}")
        body = {"model": "chat", "prompt": "Once", "max_tokens": 256, "stream": True, "ignore_eos": True, "logprobs": 5}
        while self.running():
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=256)
                writer.write(post("/v1/completions", json.dumps(body).encode()))
                until = min(self.end, time.monotonic() + choose.uniform(1, 40))
                while time.monotonic() < until and await asyncio.wait_for(reader.read(8), ANSWER_S):
                    await asyncio.sleep(0.5)
                writer.transport.abort()
                self.note("slow", "left")
            except (TimeoutError, OSError):
                self.note("slow", "closed")

    async def giant(self, number: int) -> None:
        choose = random.Random(f"{self.seed} giant {number}")
        bodies = (
            lambda: json.dumps({"model": "embed", "input": "x" * choose.choice([1, 6, 9, 30]) * MB}).encode(),
            lambda: b"[" * choose.choice([2000, 2 * MB]),
            lambda: b'{"model":"embed","input":[' + b'"",' * (1 * MB) + b'""]}',
            lambda: b'{"model":"embed","input":[' + b"1," * (2 * MB) + b"1]}",
            lambda: choose.randbytes(2 * MB),
            lambda: json.dumps({"model": "embed", "input": ["dog " * 400] * 512}).encode(),
        )
        while self.running():
            # Beside interactive work bulk is owed a ninth of the processor, not an answer in time: the 131,072
            # tokens of the last of the bodies may take longer, so a time is asked for, and must be kept.
            priority = "X-Penstock-Priority: bulk\r\nX-Request-Timeout-Ms: 100000"
            path = choose.choice(["/v1/embeddings", "/v1/completions", "/v1/rerank", "/v1/files", "/tokenize"])
            kind = "multipart/form-data; boundary=x" if path == "/v1/files" else "application/json"
            request = post(path, choose.choice(bodies)(), priority, kind=kind)
            await self.hostile_once("giant", request)
            await asyncio.sleep(choose.uniform(0, 0.5))

    async def tensors(self, number: int) -> None:
        choose = random.Random(f"{self.seed} tensors {number}")
        while self.running():
            rows = choose.choice([1, 2, 5, 16, 60])
            if choose.random() < 0.5:
                data = b"".join(struct.pack("<f", choose.random()) for _ in range(rows * 4))
                request, echoed = infer("numbers", "FP32", [rows, 4], data), data
            else:
                strings = [choose.randbytes(choose.choice([0, 3, 200])) for _ in range(rows)]
                data = b"".join(struct.pack("<I", len(s)) + s for s in strings)
                request, echoed = infer("strings", "BYTES", [rows, 1], data), data
            fault = choose.choice(["none", "none", "cut", "lie", "shape"])
            if fault == "cut":
                request = infer("strings", "BYTES", [rows, 1], data[:-1] if data else b"\1")
            elif fault == "lie":
                request = infer("strings", "BYTES", [rows, 1], struct.pack("<I", 0xffffffff) + data)
            elif fault == "shape":
                request = infer("numbers", "FP32", [1 << 40, 4], data)
            status, body = await self.hostile_once("tensors", request)
            if fault == "none" and status == 200 and not body.endswith(echoed):
                self.odd.append(f"tensors: {rows} rows came back as others")
            if fault == "none" and status not in (0, 200, 429, 503):
                self.odd.append(f"tensors: a right request got {status} {body[:200]!r}")
            if fault in ("cut", "lie", "shape") and status == 200:
                self.odd.append(f"tensors: {fault} was served")
            await asyncio.sleep(choose.uniform(0, 0.1))

    async def batches(self, number: int) -> None:
        choose = random.Random(f"{self.seed} batches {number}")
        while self.running():
            lines = [json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/embeddings",
                                 "body": {"model": choose.choice(["embed", "gone"]), "input": "dog " * choose.randrange(1, 200)}})
                     for i in range(choose.choice([1, 20, 300]))]
            if choose.random() < 0.2:
                lines[choose.randrange(len(lines))] = choose.choice(["{", "[]", '{"custom_id":"0"}', "\x00"])
            upload = post("/v1/files", form("\n".join(lines).encode()), kind="multipart/form-data; boundary=x")
            status, body = await self.hostile_once("batches", upload, (0, 200, 413, 429, 503))
            if status != 200:
                await asyncio.sleep(1)
                continue
            file = json.loads(body)["id"]
            create = post("/v1/batches", json.dumps({"input_file_id": file, "endpoint": "/v1/embeddings",
                                                     "completion_window": "24h"}).encode())
            status, body = await self.hostile_once("batches", create, (0, 200, 429, 503))
            batch = json.loads(body)["id"] if status == 200 else "batch_none"
            await asyncio.sleep(choose.uniform(0, 3))
            state = {}
            for request in choose.sample([ask("GET", "/v1/batches"), ask("POST", f"/v1/batches/{batch}/cancel"),
                                          ask("DELETE", f"/v1/files/{file}"), ask("GET", f"/v1/batches/{batch}")], 4):
                status, body = await self.hostile_once("batches", request)
                if status == 200 and request.startswith(b"GET") and batch.encode() in request:
                    state = json.loads(body)
            for key in ("output_file_id", "error_file_id"):
                if state.get(key):
                    await self.hostile_once("batches", ask("GET", f"/v1/files/{state[key]}/content"))
                    await self.hostile_once("batches", ask("DELETE", f"/v1/files/{state[key]}"))

    async def many(self, number: int) -> None:
        choose = random.Random(f"{self.seed} many {number}")
        while self.running():
            writers = []
            for _ in range(100):
                with contextlib.suppress(OSError):
                    writers.append((await self.open())[1])
            await asyncio.sleep(choose.uniform(0, 5))
            for writer in writers:
                writer.transport.abort()
            self.note("many", "opened")

    async def run(self, kinds: list[str]) -> None:
        for text in TEXTS:
            status, self.expected[text] = await self.embedding(text)
            assert status == 200, status
        before = self.end - time.monotonic()
        self.memory_mb.append(resident_mb(self.pid))
        clients = {"chat": 6, "half": 20, "slow": 6, "giant": 3, "tensors": 6, "batches": 3, "many": 3}
        await asyncio.gather(self.livez(), self.watch(), *(self.good_client(i) for i in range(4)),
                             *(getattr(self, kind)(i) for kind in kinds for i in range(clients[kind])))
        assert before > 0


def resident_mb(pid: int) -> float:
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    return 0


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def budget_mb(port: int, inflight_mb: int) -> float:
    """What the server says that its models may take, what requests may, and 256 MB for all else."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    models = sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("penstock_model_bytes{"))
    return models / MB + inflight_mb + 256


def judge(soak: Soak, alive: bool, stopped: int | None, memory_max_mb: float) -> list[tuple[str, float, float]]:
    """Rows of the table: name, what it is, what it may be at most."""
    unanswered = sum(counts.get("unanswered", 0) for counts in soak.hostile.values())
    return [
        ("the server ended", float(not alive), 0),
        ("interactive embeddings refused", soak.good["refused"], 0),
        ("interactive embeddings lost", soak.good["lost"], 0),
        ("interactive embeddings wrong", soak.good["wrong"], 0),
        ("interactive embeddings missing", float(soak.good["right"] == 0), 0),
        ("/livez without an answer", soak.livez_failed, 0),
        ("hostile requests without an answer", unanswered, 0),
        ("other findings", len(soak.odd), 0),
        ("resident memory, MB", max(soak.memory_mb), memory_max_mb),
        ("exit status", float(stopped if stopped is not None else -1), 0),
    ]


def start(arguments, folder: pathlib.Path, log):
    # Budgets that a quarter of an hour of attacks reaches, and the memory that follows from them.
    server = subprocess.Popen(
        [arguments.program, "serve", "--port", "0", "--host", "127.0.0.1", "--preload", "--keep-alive=-1",
         "--model", f"embed={arguments.encoder}", "--model", f"chat={arguments.decoder}",
         "--model", "numbers=builtin:slow?ms=5&batch=8&shape=4",
         "--model", "strings=builtin:slow?ms=5&type=BYTES&shape=1&batch=64",
         "--batch-folder", str(folder / "batches"), "--batch-folder-bytes", str(64 * MB),
         "--max-inflight-bytes", str(arguments.inflight_mb * MB), "--write-timeout-ms", "5000",
         "--read-timeout-ms", "10000", *arguments.server_flag],
        stdout=log, stderr=subprocess.STDOUT)
    for _ in range(1200):
        time.sleep(0.1)
        for line in (folder / "log").read_text(errors="replace").splitlines():
            if "ready on http://127.0.0.1:" in line:
                return server, int(line.split("http://127.0.0.1:")[1].split()[0])
        if server.poll() is not None:
            break
    sys.exit("the server did not start:\n" + (folder / "log").read_text(errors="replace")[-2000:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="build/penstock")
    parser.add_argument("--encoder", required=True, help="a model that embeds")
    parser.add_argument("--decoder", required=True, help="a model that generates text")
    parser.add_argument("--duration", type=float, default=600, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join(HOSTILE), help="kinds of hostile clients, of " + ", ".join(HOSTILE))
    parser.add_argument("--inflight-mb", type=int, default=256, help="--max-inflight-bytes of the server")
    parser.add_argument("--server-flag", action="append", default=[], help="as --server-flag=--threads=2")
    parser.add_argument("--json", help="file for the records, a JSON object a line")
    arguments = parser.parse_args()
    kinds = [kind for kind in arguments.only.split(",") if kind]
    if unknown := set(kinds) - set(HOSTILE):
        parser.error(f"--only: unknown {sorted(unknown)}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        with open(folder / "log", "w", encoding="utf-8") as log:
            server, port = start(arguments, folder, log)
            soak = Soak(port, server.pid, arguments.seed, arguments.duration)
            memory_max_mb = budget_mb(port, arguments.inflight_mb)
            try:
                asyncio.run(soak.run(kinds))
            finally:
                alive = server.poll() is None
                if alive:
                    server.send_signal(signal.SIGTERM)
                try:
                    stopped = server.wait(90)
                except subprocess.TimeoutExpired:
                    server.kill()
                    stopped = None
        print("good:    ", soak.good, f"p50 {percentile(soak.good_ms, 0.5):.0f} ms, p99 {percentile(soak.good_ms, 0.99):.0f} ms")
        for kind in kinds:
            print(f"{kind + ':':9}", soak.hostile[kind])
        print(f"/livez:    {len(soak.livez_ms)} answers, p99 {percentile(soak.livez_ms, 0.99):.1f} ms, "
              f"slowest {max(soak.livez_ms, default=0):.1f} ms")
        for line in soak.odd[:20]:
            print("odd:", line)
        rows = judge(soak, alive, stopped, memory_max_mb)
        for name, value, most in rows:
            print(f"{'ok' if value <= most else 'FAILED':7}{name:40}{value:10.1f}  at most {most:g}")
        if arguments.json:
            pathlib.Path(arguments.json).write_text("".join(
                json.dumps({"name": "soak_hostile." + name.replace(" ", "_"), "value": value, "unit": "1"}) + "\n"
                for name, value, _ in rows))
        good = all(value <= most for _, value, most in rows)
        if not good:
            print((folder / "log").read_text(errors="replace")[-3000:])
        print("soak of hostile clients:", "holds" if good else "FAILED")
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
