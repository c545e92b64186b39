"""A peer with one model and one data type: its process, its best way of working, its figures."""
import json
import os
import pathlib
import select
import subprocess
import sys

import numpy as np

PEERS = ["sentence_transformers", "onnxruntime", "openvino", "ctranslate2", "llama_cpp", "penstock"]
DTYPES = ["f32", "bf16", "int8"]
# What a peer does not offer at all is not started.
NOT_OFFERED = {
    ("onnxruntime", "bf16"): "its CPU kernels have no bf16 on x86",
    ("llama_cpp", "bf16"): "compared as F32 and Q8_0",
    ("sentence_transformers", "int8"): "none of its own; its ONNX and OpenVINO backends are the runtimes above",
}
LABELS = {"sentence_transformers": "sentence-transformers", "llama_cpp": "llama.cpp", "openvino": "OpenVINO",
          "ctranslate2": "CTranslate2", "penstock": "**Penstock**"}
ANSWER_S = 600
# A way that gives other vectors than these of the real model is passed over.
COSINE_MIN = 0.98


class Failed(Exception):
    pass


def one_line(error):
    """For a page: without the home folder of whoever ran it."""
    return (str(error) or "failed").splitlines()[0].replace(str(pathlib.Path.home()), "~")[:160]


def cosines(rows, reference):
    norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(reference, axis=1)
    return (rows * reference).sum(1) / norms


class Contender:
    def __init__(self, peer, dtype, folder, threads, work):
        self.peer, self.dtype, self.threads = peer, dtype, threads
        self.rows_file = work / f"{peer}-{dtype}-{threads}.rows"
        self.reason, self.version, self.way = None, "", {}
        self.values = {}  # workload: seconds of each round, or of each call
        self.agreement = {}  # workload: (min, mean) cosine, or (correlation,)
        self.failed_ways = {}  # variant: reason
        if (peer, dtype) in NOT_OFFERED:
            self.reason = NOT_OFFERED[peer, dtype]
            return
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads),
                           HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="true")
        self.log = open(work / f"{peer}-{dtype}.log", "w")
        self.process = subprocess.Popen(
            [sys.executable, str(pathlib.Path(__file__).with_name("worker.py")), peer, dtype, str(folder),
             str(threads), str(work.parent)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, bufsize=1, env=environment)
        try:
            hello = self.answer()
            self.variants, self.version, self.takes = hello["variants"], hello["version"], hello["takes"]
        except Failed as failed:
            self.fail(failed)

    @property
    def label(self):
        return LABELS.get(self.peer, self.peer)

    def fail(self, error):
        self.reason = one_line(error).removeprefix("RuntimeError: ")
        print(f"  {self.peer} {self.dtype}: {self.reason}", flush=True)
        self.end()

    def end(self):
        if getattr(self, "process", None):
            self.process.kill()
            self.process.wait()
            self.process = None

    def answer(self):
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_S)
        line = self.process.stdout.readline() if ready else None
        if not line:
            raise Failed(f"no answer within {ANSWER_S} s" if line is None else f"ended ({self.process.wait()})")
        value = json.loads(line)
        if "error" in value:
            raise Failed(value["error"])
        return value

    def ask(self, **command):
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
        except BrokenPipeError:
            raise Failed(f"ended ({self.process.wait()})") from None
        return self.answer()["seconds"]

    def run(self, task, file, variant, batch):
        seconds = self.ask(do="run", task=task, data=str(file), variant=variant, batch=batch, rows=str(self.rows_file))
        return seconds, np.fromfile(self.rows_file, np.float32)

    def batches(self, texts):
        if self.peer == "penstock":
            return [2048, 1024, 4096]  # tokens
        if self.peer == "llama_cpp":
            return [64]  # its variants say how many tokens
        return [b for b in (8, 2, 32) if b <= max(texts, 2)]

    def choose_latency(self, file):
        """The variant with the lowest median over the queries. The first pass only warms."""
        best, reason = None, None
        for variant in self.variants["latency"]:
            try:
                self.ask(do="each", task="pooled", data=str(file), variant=variant)
                took = float(np.median(self.ask(do="each", task="pooled", data=str(file), variant=variant)))
            except Failed as failed:
                self.failed_ways[variant] = one_line(failed)
                print(f"  {self.peer} {self.dtype} {variant}: {self.failed_ways[variant]}", flush=True)
                reason = failed
                if self.process.poll() is not None:
                    raise
                continue
            if best is None or took < best[0]:
                best = took, variant
        if best is None:
            raise Failed(str(reason))
        self.way["a"] = best[1], 1

    def choose_throughput(self, workload, task, file, texts, reference=None):
        """The fastest variant with the first batch size, then its fastest batch size."""
        variants = self.variants["throughput"]
        if workload != "b" and "b" in self.way:
            variants = [self.way["b"][0]]
        batches = self.batches(texts)
        best, closest, reason = None, None, None
        tries = [(v, batches[0]) for v in variants] + [(None, b) for b in batches[1:]]
        for variant, batch in tries:
            variant = variant or (best or closest or [None, None])[1]
            if variant is None:
                break
            try:
                _, rows = self.run(task, file, variant, batch)
                took, _ = self.run(task, file, variant, batch)
            except Failed as failed:
                self.failed_ways[variant] = one_line(failed)
                print(f"  {self.peer} {self.dtype} {variant}: {self.failed_ways[variant]}", flush=True)
                reason = failed
                if self.process.poll() is not None:
                    raise
                continue
            cosine = 1.0
            if reference is not None:
                cosine = float(cosines(rows.reshape(reference.shape), reference).mean())
            print(f"  {self.peer} {self.dtype} {workload} {variant}, batch {batch}: {texts / took:.1f} texts/s"
                  + (f", cosine {cosine:.4f}" if reference is not None else ""), flush=True)
            if cosine >= COSINE_MIN:
                if best is None or took < best[0]:
                    best = took, variant, batch
            elif closest is None or cosine > closest[3]:
                closest = took, variant, batch, cosine
        if best is None and closest is None:
            raise Failed(str(reason))
        self.way[workload] = (best or closest)[1:3]
