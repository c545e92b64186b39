#!/usr/bin/env python3
"""One peer with one model, in a process of its own, so that peers share neither threads nor memory.

  worker.py PEER DTYPE MODEL_FOLDER THREADS WORK_FOLDER

Prints a line {"variants": {"latency" and "throughput": [...]}, "version", "takes"}, then answers each command, a JSON
object a line, with one. Tasks: pooled (vectors of texts), logits (scores of pairs).
  {"do": "run", "task", "data", "variant", "batch", "rows"?}  -> {"seconds"}
  {"do": "each", "task", "data", "variant"}                   -> {"seconds": [...]}
`data` is a JSON file of {"ids": [[...]], "texts": [...] or "pairs": [[...]]}. A failure is
answered {"error": reason}.
"""
import importlib
import json
import os
import pathlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]


def padded(ids):
    """[texts, longest] of ids and of the mask, int64."""
    length = max(map(len, ids))
    out = np.zeros((len(ids), length), np.int64)
    mask = np.zeros_like(out)
    for row, text in enumerate(ids):
        out[row, :len(text)] = text
        mask[row, :len(text)] = 1
    return out, mask


class BatchPeer:
    """A runtime that takes padded batches of ids. A subclass gives `load`, which returns a call from
    (ids, mask) to rows, and `variants`. A variant that ends in "/2x1" runs two batches at a time,
    each on its share of the threads.
    """

    takes = "ids"

    def __init__(self, folder, dtype, threads, work):
        self.folder, self.dtype, self.threads, self.work = folder, dtype, threads, work
        self.loaded = None

    def folder_for(self, task):
        return self.folder if task == "pooled" else self.folder.with_name(self.folder.name + "-rerank")

    def prepare(self, task, variant):
        if self.loaded != (task, variant):
            self.call = self.loaded = None
            form, _, streams = variant.partition("/")
            self.streams = 2 if streams == "2x1" else 1
            self.call = self.load(task, form, self.streams)
            self.pool = ThreadPoolExecutor(self.streams)
            self.loaded = (task, variant)

    def run(self, data, batch):
        """Rows in the order of the texts, which are worked on in order of length, longest first."""
        texts = data["ids"]
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        parts = [order[i:i + batch] for i in range(0, len(order), batch)]

        def work(part):
            return np.array(self.call(*padded([texts[i] for i in part])))

        done = map(work, parts) if self.streams == 1 else self.pool.map(work, parts)
        rows = np.concatenate(list(done))
        out = np.empty_like(rows)
        out[order] = rows
        return out

    def one(self, data, i):
        return self.call(*padded([data["ids"][i]]))


class Worker:
    def __init__(self, peer):
        self.peer, self.path, self.data = peer, None, None

    def read(self, path):
        if path != self.path:
            self.path, self.data = path, json.loads(pathlib.Path(path).read_text())
        return self.data

    def answer(self, command):
        data = self.read(command["data"])
        self.peer.prepare(command["task"], command["variant"])
        own_clock = hasattr(self.peer, "timed_run")  # a program beside this one
        if command["do"] == "run":
            if own_clock:
                seconds, rows = self.peer.timed_run(data, command["batch"])
            else:
                start = time.perf_counter()
                rows = self.peer.run(data, command["batch"])
                seconds = time.perf_counter() - start
            if "rows" in command:
                np.asarray(rows, np.float32).tofile(command["rows"])
            return {"seconds": seconds}
        if own_clock:
            return {"seconds": self.peer.timed_each(data)}
        seconds = []
        for i in range(len(data["ids"])):
            start = time.perf_counter()
            self.peer.one(data, i)
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds}


def main():
    # Answers go where stdout was; what a runtime prints goes to stderr.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(value):
        answers.write(json.dumps(value) + "\n")

    name, dtype, folder, threads, work = sys.argv[1:]
    try:
        module = importlib.import_module(f"peer_{name}")
        peer = module.Peer(pathlib.Path(folder), dtype, int(threads), pathlib.Path(work))
        worker = Worker(peer)
        say({"variants": peer.variants(), "version": peer.version, "takes": peer.takes})
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
        raise
    for line in sys.stdin:
        try:
            say(worker.answer(json.loads(line)))
        except Exception as error:  # told by name; the run goes on with the other peers
            say({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
