#!/usr/bin/env python3
"""Checks Penstock on this machine's GPU, step by step, and writes what it found as a table.

Usage: tools/gpu_check.py [--build build] [--dry-run] [--keep-going] [--only STEP] [--json FILE] [--table FILE]

Needs a build with kernels and tests (`make gpu-check` makes it). Stops at the first step that fails: speed is of no
interest where a number is wrong. --dry-run takes the emulated GPU of the tests instead: the same steps on small
shapes, whose times say nothing.
"""

import argparse
import concurrent.futures
import datetime
import http.client
import json
import math
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/models"
SMALL = GOLDEN / "bert_mean_normalize"
DECODER = ROOT / "tests/golden/decoders/llama"
STEP_SECONDS_MAX = 600
COSINE_MIN = 0.9999
# Words of made texts, without the two special tokens.
LENGTHS = (16, 30, 126, 510)


class Failure(Exception):
    """What ends a step."""


class Check:
    """One run of all steps. rows: (step, what, figure) of the table."""

    def __init__(self, options):
        self.options = options
        self.program = options.build / "penstock"
        self.environment = dict(os.environ)
        if options.dry_run:
            self.environment["PENSTOCK_CUDA_DRIVER"] = str(options.build / "libfake_cuda_driver.so")
        self.rows = []
        self.step = ""
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-"))

    def say(self, what, figure):
        self.rows.append((self.step, what, figure))
        print(f"{self.step:10} {what}: {figure}", flush=True)

    def run(self, *command, text=None, **environment):
        done = subprocess.run(
            [str(part) for part in command],
            input=text,
            capture_output=True,
            text=True,
            timeout=STEP_SECONDS_MAX,
            env=self.environment | environment,
        )
        if done.returncode != 0:
            raise Failure(
                f"{' '.join(map(str, command))}: status {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}"
            )
        return done.stdout

    # --- Steps, in their order --------------------------------------------------------------------

    def device(self):
        """What the GPU is."""
        if shutil.which("nvidia-smi") and not self.options.dry_run:
            names = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit"
            self.say("nvidia-smi", self.run("nvidia-smi", f"--query-gpu={names}", "--format=csv,noheader").strip())
        self.say("program", self.run(self.program, "--version").split("\n")[0])
        vector = self.embed(["hello world"], "cuda")[0]
        self.say("a first vector", f"{len(vector)} numbers, by {self.backend('cuda')}")

    def kernels(self):
        """Every kernel's bits, beside those of the emulator."""
        texts = ("--accuracy-texts", "4") if self.options.dry_run else ()
        told = self.run(self.program, "doctor", "--device", "cuda", "--model", SMALL, *texts)
        for line in told.splitlines():
            verdict, check, text = (*line.split(maxsplit=2), "", "")[:3]
            if check in ("kernels", "answers", "batch", "finite", "accuracy"):
                self.say(f"doctor, {check}", f"{verdict}: {text.strip()}")

    def goldens(self):
        """The tests of whole models on this device: references, the same bits alone and in any batch."""
        tests = self.options.build / "cuda_test"
        which = "Models/CudaGoldenModel.*:CudaGolden.*"
        if self.options.dry_run:
            which = "Models/CudaGoldenModel.AgreesWithReference/bert_mean_normalize"
        told = self.run(tests, f"--gtest_filter={which}", "--gtest_brief=1", PENSTOCK_TEST_DEVICE="cuda")
        self.say("models against their references", told.strip().splitlines()[-1])
        texts = self.texts(24, 40)
        together = self.embed(texts, "cuda")
        alone = [self.embed([text], "cuda")[0] for text in texts[:3]]
        if alone != together[:3]:
            raise Failure("a text has other bits alone than in a batch")
        self.say("a text alone and among others", "the same bits")
        self.say("cosine to the CPU's f32, least of 24", f"{self.least_cosine(together, self.embed(texts, 'cpu')):.6f}")

    def text(self):
        """Decoders: the reference's tokens in f32, and the same text alone and among others."""
        which = "All/CudaGoldenDecoder.*"
        if self.options.dry_run:
            which = "All/CudaGoldenDecoder.*/qwen3"
        tests = self.options.build / "devices_test"
        told = self.run(tests, f"--gtest_filter={which}", "--gtest_brief=1", PENSTOCK_TEST_DEVICE="cuda")
        self.say("decoders against their references", told.strip().splitlines()[-1])
        accuracy = ("--accuracy-texts", "0") if self.options.dry_run else ()
        told = self.run(self.program, "doctor", "--device", "cuda", "--model", DECODER, *accuracy)
        for line in told.splitlines():
            verdict, check, text = (*line.split(maxsplit=2), "", "")[:3]
            if check in ("answers", "batch", "finite"):
                self.say(f"doctor, {check}", f"{verdict}: {text.strip()}")
        exact = ("--dtype", "f32", "--cache-type", "f32", "--temperature", "0", "-n", "24", "-q")
        texts = [
            self.run(self.program, "generate", "-m", DECODER, "--device", device, *exact, "-p", "water")
            for device in ("cuda", "cpu")
        ]
        if texts[0] != texts[1]:
            raise Failure(f"f32 writes another text than the CPU: {texts}")
        self.say("text in f32", "that of the CPU")

    def decode(self):
        """Tokens a second, each optimisation off in turn."""
        models = {
            f"{shape}.{kind}": ("--shape", shape, "--type", kind, "--prompt=512", "--prompt=8192")
            for shape, kind in (("qwen3-0.6b", "bf16"), ("llama3.2-1b", "bf16"), ("llama-1b", "q4_k_m"))
        }
        if self.options.dry_run:
            models = {"small": ("--model", DECODER, "--prompt=8", "--depth=0", "--tokens=2", "--rounds=1")}
        for name, flags in models.items():
            records = self.scratch / f"decode-{name}.json"
            self.run(
                *(self.program, "bench", "generate", "--device", "cuda", "--name", name, "--tuning"),
                *("--json", records, *flags),
            )
            self.say_records(records)

    def sanitizer(self):
        """NVIDIA's compute-sanitizer, where it is installed."""
        tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if self.options.dry_run or not pathlib.Path(tool).exists():
            return self.say("compute-sanitizer", "NOT RUN: not installed, or no GPU")
        for kind in ("memcheck", "racecheck", "synccheck"):
            self.run(
                *(tool, "--tool", kind, "--error-exitcode", "9"),
                *(self.program, "embed", "--device", "cuda", "--model", SMALL),
                text="\n".join(self.texts(8, 30)) + "\n",
            )
            self.say(f"compute-sanitizer {kind}", "no report")

    def load(self):
        """A server with clients that give up, beside bulk work; memory must come back."""
        seconds = 6 if self.options.dry_run else 60
        # The emulated GPU would take a minute for one batch of the usual size.
        batch = ("--max-batch-tokens", "512") if self.options.dry_run else ()
        server = Server(self, "--model", f"m={SMALL}", "--device", "cuda", "--keep-alive", "2s", *batch)
        try:
            server.vectors(["warm"])
            end, words = time.monotonic() + seconds, random.Random(7)
            expected = server.vectors(["the same text"])[0]

            def one(index):
                answered = 0
                while time.monotonic() < end:
                    if index % 4 == 0:
                        server.abandon(self.texts(32, 60))
                    elif server.vectors(["the same text", *self.texts(words.randrange(8), 20)])[0] != expected:
                        raise Failure("a vector changed under load")
                    else:
                        answered += 1
                return answered

            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                self.say(f"answered in {seconds} s beside clients that give up", sum(pool.map(one, range(8))))
            after = self.memory_without_model(server)
            server.vectors(["again"])
            again = self.memory_without_model(server)
            if again > after + 16:
                raise Failure(f"the GPU's memory grew from {after} MiB to {again} MiB without a model")
            self.say("memory after the model was unloaded, twice", f"{after}, {again} MiB")
        finally:
            server.stop()

    def times(self):
        """Each kernel beside its floor."""
        small = ("--width=64", "--tokens=32", "--launches=1", "--rounds=1") if self.options.dry_run else ()
        records = self.scratch / "times.json"
        self.run(self.program, "bench", "kernels", "--device", "cuda", "--json", records, *small)
        found = {}
        for line in records.read_text().splitlines():
            record = json.loads(line)
            found.setdefault(record["row"], {})[record["name"]] = record["value"]
        for row, values in found.items():
            share = values["kernels.floor_share"]
            self.say(row, f"{values['kernels.us']:.2f} us, {share:.1%} of what the GPU's rates allow")

    def speed(self):
        """Batches of one text to full ones over HTTP, and the device's own time in them."""
        model = self.model()
        server = Server(self, "--model", f"m={model}", "--device", "cuda", "--preload", "--keep-alive", "-1")
        try:
            for words in LENGTHS[: 1 if self.options.dry_run else None]:
                for batch in (1, 4) if self.options.dry_run else (1, 8, 64, 512):
                    self.time_batches(server, words, batch)
        finally:
            server.stop()

    def reindex(self):
        """A file embedded, beside the kernels alone."""
        records = self.scratch / "reindex.json"
        small = ("--rows", "40", "--rounds", "1", "--lengths", "fixed:12") if self.options.dry_run else ()
        model = SMALL if self.options.dry_run else self.model()
        tokens = 1024 if self.options.dry_run else 32768
        self.run(
            *(self.program, "bench", "reindex", "--device", "cuda", "--model", model),
            *("--max-batch-tokens", tokens, "--json", records, *(small or ("--rows", "60000"))),
        )
        self.say_records(records)

    def server(self):
        """A server that is saturated."""
        records = self.scratch / "http.json"
        load = ("--concurrency", "1,64", "--batch", "1,32", "--duration", "15")
        if self.options.dry_run:
            load = ("--concurrency", "2", "--duration", "2", "--lengths", "fixed:8")
        model = SMALL if self.options.dry_run else self.model()
        self.run(
            *(self.program, "bench", "http", "--model", model, "--server-flag=--device=cuda"),
            *("--server-flag=--preload", *load, "--json", records),
        )
        self.say_records(records)

    # --- What steps share -------------------------------------------------------------------------

    def texts(self, count, words):
        choose = random.Random(count * 1000 + words)
        vocabulary = "abcdefghijklmnopqrst"  # a token each, for the tokenizer of the golden models
        return [" ".join(choose.choice(vocabulary) for _ in range(words)) for _ in range(count)]

    def embed(self, texts, device):
        more = ("--dtype", "f32") if device == "cpu" else ()
        told = self.run(
            *(self.program, "embed", "--device", device, "--model", SMALL, *more), text="\n".join(texts) + "\n"
        )
        return [json.loads(line)["embedding"] for line in told.splitlines()]

    def backend(self, device):
        told = self.run(self.program, "doctor", "--device", device, "--model", SMALL, "--accuracy-texts", "0")
        return told.splitlines()[0].rsplit(", ", 1)[-1]

    def memory_without_model(self, server):
        """MiB that the driver says are used once the idle model is unloaded; of the emulated GPU 0."""
        deadline = time.monotonic() + 60
        while server.metrics()['penstock_device_memory_used_bytes{device="cuda"}'] > 0:
            if time.monotonic() > deadline:
                raise Failure("the model is loaded a minute after the last request")
            time.sleep(0.2)
        if self.options.dry_run:
            return 0
        form = "--format=csv,noheader,nounits"
        used = self.run("nvidia-smi", "--query-compute-apps=pid,used_memory", form)
        ours = [line.split(",")[1] for line in used.splitlines() if line.split(",")[0] == str(server.process.pid)]
        if not ours:  # in a container its number is another one
            ours = self.run("nvidia-smi", "--query-gpu=memory.used", form).splitlines()
        return sum(map(int, ours))

    @staticmethod
    def least_cosine(ours, theirs):
        def cosine(a, b):
            return math.fsum(x * y for x, y in zip(a, b)) / math.hypot(*a) / math.hypot(*b)

        least = min(cosine(a, b) for a, b in zip(ours, theirs))
        if least < COSINE_MIN:
            raise Failure(f"cosine {least:.6f} to the CPU's vectors, at least {COSINE_MIN} is expected")
        return least

    def model(self):
        """A model of BERT base's shape with random weights: its speed does not depend on them."""
        folder = self.scratch / "base"
        if not folder.exists():
            width, layers, inner = (64, 2, 128) if self.options.dry_run else (768, 12, 3072)
            write_bert(folder, width, layers, inner)
        return folder

    def time_batches(self, server, words, batch):
        texts = self.texts(batch, words)
        tokens = server.embed(texts)["usage"]["prompt_tokens"]  # captures the graph
        if tokens != batch * (words + 2):
            raise Failure(f"{batch} texts of {words} words have {tokens} tokens")
        times, before = [], server.device()
        end = time.monotonic() + (0.5 if self.options.dry_run else 2)
        while time.monotonic() < end or len(times) < 3:
            begin = time.perf_counter()
            server.vectors(texts)
            times.append(time.perf_counter() - begin)
        after = server.device()
        busy = (after["busy_s"] - before["busy_s"]) / len(times)
        self.say(
            f"{batch} x {words + 2} tokens",
            f"p50 {sorted(times)[len(times) // 2] * 1e3:.3f} ms over HTTP, device {busy * 1e6:.0f} us, "
            f"{tokens / max(busy, 1e-9) / 1e6:.3f} M tokens a device second",
        )

    def say_records(self, path):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            self.say(record["name"], f"{record['value']:.6g} {record.get('unit', '')}".strip())


class Server:
    """`penstock serve` for the time of a step."""

    def __init__(self, check, *flags):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = open(check.scratch / "serve.log", "w+")
        self.process = subprocess.Popen(
            [check.program, "serve", "--port", str(self.port), "--result-cache-bytes", "0", *map(str, flags)],
            env=check.environment,
            stderr=self.log,
        )
        deadline = time.monotonic() + 180
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                self.get("/readyz")
                return
            except OSError:
                time.sleep(0.05)
        self.process.kill()
        self.log.seek(0)
        raise Failure(f"the server does not start:\n{self.log.read()[-3000:]}")

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            return answer.read().decode()

    def vectors(self, texts):
        return [row["embedding"] for row in self.embed(texts)["data"]]

    def embed(self, texts):
        body = json.dumps({"model": "m", "input": texts, "encoding_format": "base64"}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/embeddings", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Failure(f"{error.code}: {error.read()[:500]!r}") from None

    def abandon(self, texts):
        """Sends a request and leaves without the answer."""
        body = json.dumps({"model": "m", "input": texts}).encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as link:
            link.sendall(
                b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            time.sleep(0.01)

    def device(self):
        return {one["device"]: one for one in json.loads(self.get("/v1/stats"))["devices"]}["cuda"]

    def metrics(self):
        lines = (line.rsplit(" ", 1) for line in self.get("/metrics").splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failure("the server does not end within a minute") from None
        if status != 0:
            self.log.seek(0)
            raise Failure(f"the server ended with status {status}:\n{self.log.read()[-3000:]}")


def write_bert(folder, width, layers, inner):
    """A folder with a BERT of that shape: random weights in f16, the tokenizer of a golden model."""
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "modules.json"):
        shutil.copy(SMALL / name, folder / name)
    limits = json.loads((folder / "tokenizer_config.json").read_text()) | {"model_max_length": max(LENGTHS) + 2}
    (folder / "tokenizer_config.json").write_text(json.dumps(limits))
    pooling = json.loads((SMALL / "1_Pooling/config.json").read_text()) | {"word_embedding_dimension": width}
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    config = json.loads((SMALL / "config.json").read_text())
    config |= {"hidden_size": width, "num_hidden_layers": layers, "intermediate_size": inner}
    config |= {"num_attention_heads": width // (32 if width < 768 else 64), "max_position_embeddings": 600}
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], width),
        "embeddings.position_embeddings.weight": (600, width),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], width),
        "embeddings.LayerNorm.weight": (width,),
        "embeddings.LayerNorm.bias": (width,),
    }
    for layer in range(layers):
        at = f"encoder.layer.{layer}."
        for name, (out, of) in {
            **{f"attention.self.{part}": (width, width) for part in ("query", "key", "value")},
            **{"attention.output.dense": (width, width), "intermediate.dense": (inner, width)},
            "output.dense": (width, inner),
        }.items():
            shapes |= {f"{at}{name}.weight": (out, of), f"{at}{name}.bias": (out,)}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{at}{name}.weight": (width,), f"{at}{name}.bias": (width,)}
    draw = random.Random(5)
    # A table of numbers, taken from places by chance: drawing each one would take minutes.
    table = struct.pack("<16384e", *(draw.gauss(0, 0.03) for _ in range(16384)))
    ones, header, at = struct.pack("<e", 1.0), {}, 0
    for name, shape in shapes.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    head = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for name, shape in shapes.items():
            size = 2 * math.prod(shape)
            if name.endswith("LayerNorm.weight"):
                file.write(ones * (size // 2))
                continue
            for first in range(0, size, len(table)):
                turn = 2 * draw.randrange(16384)
                file.write((table[turn:] + table[:turn])[: min(len(table), size - first)])


STEPS = ("device", "kernels", "goldens", "text", "sanitizer", "load", "times", "speed", "decode", "reindex", "server")


def write_table(path, rows, dry_run):
    lines = [f"# `make gpu-check`{', dry run: an emulated GPU' if dry_run else ''}, {datetime.date.today()}", ""]
    lines += ["| step | | |", "|---|---|---|"]
    lines += [f"| {step} | {what} | {str(figure).replace('|', '/')} |" for step, what, figure in rows]
    path.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.partition("Usage:")[0] + __doc__.split("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder of the build")
    parser.add_argument("--dry-run", action="store_true", help="on the emulated GPU")
    parser.add_argument("--keep-going", action="store_true", help="after a step that fails")
    parser.add_argument("--only", choices=STEPS, action="append", help="this step; may be given again")
    parser.add_argument("--json", type=pathlib.Path, help="file for what was found")
    parser.add_argument("--table", type=pathlib.Path, help="file for the table, Markdown")
    options = parser.parse_args()
    options.build = options.build.resolve()
    check, failed = Check(options), []
    try:
        for check.step in options.only or STEPS:
            begin = time.monotonic()
            try:
                getattr(check, check.step)()
            except (
                Failure,
                OSError,
                LookupError,
                ValueError,
                http.client.HTTPException,
                subprocess.SubprocessError,
            ) as error:
                failed.append(check.step)
                check.say("FAILED", f"{type(error).__name__}: {error}")
                if not options.keep_going:
                    break
            check.say("seconds", f"{time.monotonic() - begin:.1f}")
    finally:
        shutil.rmtree(check.scratch, ignore_errors=True)
    if options.json:
        rows = [dict(zip(("step", "what", "figure"), row)) for row in check.rows]
        options.json.write_text(
            json.dumps({"dry_run": options.dry_run, "failed": failed, "rows": rows}, indent=1) + "\n"
        )
    if options.table:
        write_table(options.table, check.rows, options.dry_run)
    sys.exit(f"gpu_check: failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
