"""Penstock itself, through bench/encode_bench. Ids in."""
import os
import pathlib
import subprocess
import tempfile

import numpy as np


class Peer:
    takes = "ids"

    def __init__(self, folder, dtype, threads, work):
        self.folder, self.dtype, self.threads = folder, dtype, threads
        self.scratch = tempfile.TemporaryDirectory()
        self.program = os.environ["PENSTOCK_ENCODE_BENCH"]
        self.version = "this tree"
        self.process, self.loaded, self.files = None, None, {}

    def variants(self):
        return {"latency": ["packed"], "throughput": ["packed"]}

    def prepare(self, task, variant):
        if self.loaded == task:
            return
        if self.process:
            self.process.stdin.close()
            self.process.wait()
        folder = self.folder if task == "pooled" else self.folder.with_name(self.folder.name + "-rerank")
        self.process = subprocess.Popen([self.program, str(folder), "-", str(self.threads), self.dtype],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()
        self.loaded = task

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"encode_bench ended ({self.process.wait()})")
        return line

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.answer()

    def ids_file(self, data):
        """Written once for each set of texts, longest first as the other peers work on them."""
        key = id(data)
        if key not in self.files:
            texts = data["ids"]
            order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
            path = pathlib.Path(self.scratch.name) / f"{len(self.files)}.ids"
            numbers = [len(texts), *(len(texts[i]) for i in order)]
            for i in order:
                numbers += texts[i]
            np.array(numbers, np.int32).tofile(path)
            self.files[key] = path, order, data
        return self.files[key][:2]

    def timed_run(self, data, batch):
        """Seconds as the program itself takes them, and rows in the order of the texts."""
        path, order = self.ids_file(data)
        rows_file = pathlib.Path(self.scratch.name) / "rows"
        seconds = float(self.ask(f"run {path} {batch} {rows_file}"))
        rows = np.fromfile(rows_file, np.float32).reshape(len(order), -1)
        out = np.empty_like(rows)
        out[order] = rows
        return seconds, out

    def timed_each(self, data):
        path, _ = self.ids_file(data)
        return [float(s) for s in self.ask(f"each {path}").split()]
