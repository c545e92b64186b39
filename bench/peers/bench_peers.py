#!/usr/bin/env python3
"""Penstock beside other runtimes: same weights, same texts, same threads, in one run.

Every peer runs in a process of its own and shows its best case: texts in order of length, the
fastest of its graphs, modes and batch sizes (tried on a sample first). Peers take turns in each
round (A B C, C B A); a peer's figure is its median round, a ratio the median of the rounds' ratios.
Bare runtimes, llama.cpp and Penstock get token ids; sentence-transformers and the servers get texts.

A peer that cannot be installed or cannot run a model stands in the table with the reason. One
whose vectors are not those of f32 (mean cosine below 0.98 with the real model) is shown, but is
not the runtimes that Penstock is measured against.

Writes DOCS/NAME.md and DOCS/images/NAME.svg, and one JSON object a line to --json FILE, after each
model, so that a run that is ended early keeps what it has.
"""
import argparse
import json
import os
import pathlib
import sys
import time

import numpy as np

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parent.parent)]
import labels
import report
import servers
import workloads
from contenders import DTYPES, PEERS, Contender, Failed, cosines

TASK = {"a": "pooled", "b": "pooled", "d": "pooled", "c": "logits"}
# Runs of one group take turns; two groups, so that memory carries the large models.
GROUPS = [["f32", "bf16"], ["int8"]]


class ModelRun:
    """Everything of one model."""

    def __init__(self, name, args, cache):
        self.name, self.args = name, args
        self.folder = workloads.make_folder(name, args.model, cache)
        self.work = cache / name / "run"
        self.work.mkdir(exist_ok=True)
        counts = workloads.FULL if args.full else workloads.COUNTS[name]
        self.counts = workloads.QUICK if args.quick else counts
        self.rounds = args.rounds or (1 if args.quick else 3)
        self.files, self.tokens = workloads.write_data(self.folder, self.counts, self.work)
        workloads.write_calibration(self.folder, cache / name / "calibration.json")
        self.contenders, self.reference = [], {}
        self.servers, self.scaling = [], {}

    def sample(self, workload):
        """File and number of texts on which ways of batching are tried."""
        if workload == "b":
            return self.files["sample"], len(json.loads(self.files["sample"].read_text())["ids"])
        data = json.loads(self.files[workload].read_text())
        n = max(2, self.counts[workload] // 16)
        path = self.files[workload].with_suffix(".sample.json")
        path.write_text(json.dumps({key: value[:n] for key, value in data.items()}))
        return path, n

    def start(self, dtypes):
        group = []
        for dtype in dtypes:
            for peer in PEERS:
                if dtype in self.args.dtypes and (peer in self.args.peers or peer == "penstock"):
                    print(f"  start {peer} {dtype}", flush=True)
                    contender = Contender(peer, dtype, self.folder, self.args.threads, self.work)
                    self.contenders.append(contender)
                    group.append(contender)
        return group

    def live(self, group):
        return [c for c in group if c.reason is None]

    def turns(self, group):
        """Every contender in every round, first to last and last to first."""
        for i in range(self.rounds):
            yield from self.live(group if i % 2 == 0 else group[::-1])

    def attempt(self, contender, call, *arguments):
        try:
            return call(*arguments)
        except Failed as failed:
            contender.fail(failed)

    def check(self, contender, workload, rows):
        """How the rows agree with the reference, which is the first that ran in f32."""
        shape = (self.counts.get(workload, -1), -1)
        if workload == "sample":
            rows = rows.reshape(self.sample("b")[1], -1)
        else:
            rows = rows.reshape(shape)
        if workload not in self.reference:
            if contender.dtype == "f32":
                self.reference[workload] = rows
            else:
                return
        reference = self.reference[workload]
        if TASK.get(workload) == "logits":
            contender.agreement[workload] = (float(np.corrcoef(rows[:, 0], reference[:, 0])[0, 1]),)
        else:
            c = cosines(rows, reference)
            contender.agreement[workload] = float(c.min()), float(c.mean())

    def latency(self, group):
        for c in self.live(group):
            self.attempt(c, c.choose_latency, self.files["a"])
        for c in self.turns(group):
            seconds = self.attempt(c, lambda: c.ask(do="each", task="pooled", data=str(self.files["a"]),
                                                    variant=c.way["a"][0]))
            c.values.setdefault("a", []).extend(seconds or [])

    def throughput(self, workload, group):
        task = TASK[workload]
        file, texts = self.sample(workload)
        for c in self.live(group):
            # Judged by the vectors only where weights are real: random ones say nothing of accuracy.
            reference = self.reference.get("sample") if self.name == "minilm" and workload == "b" else None
            self.attempt(c, c.choose_throughput, workload, task, file, texts, reference)
            if workload == "b" and c.reason is None and "sample" not in self.reference:
                result = self.attempt(c, c.run, task, file, *c.way["b"])
                if result:
                    self.check(c, "sample", result[1])
        for c in self.turns(group):
            result = self.attempt(c, c.run, task, self.files[workload], *c.way[workload])
            if result:
                c.values.setdefault(workload, []).append(result[0])
                self.check(c, workload, result[1])
                print(f"  {workload} {c.peer} {c.dtype}: {self.counts[workload] / result[0]:.1f} texts/s",
                      flush=True)

    def thread_scaling(self):
        """Penstock on (b), one thread beside all of them, in turns."""
        for dtype in self.args.dtypes:
            pair = [Contender("penstock", dtype, self.folder, n, self.work) for n in (1, self.args.threads)]
            best = [np.inf, np.inf]
            for _ in range(self.rounds + 1):
                for i, c in enumerate(pair):
                    if c.reason is None:
                        result = self.attempt(c, c.run, "pooled", self.files["sample"], "packed", 2048)
                        best[i] = min(best[i], result[0]) if result else best[i]
            for c in pair:
                c.end()
            if np.isfinite(best).all():
                self.scaling[dtype] = best[0] / best[1]
                print(f"  penstock {dtype}: {self.args.threads} threads are {self.scaling[dtype]:.2f} x one", flush=True)

    def run(self):
        for dtypes in GROUPS:
            group = self.start(dtypes)
            for workload in ("a", "b", "d", "c"):
                if group and workload in self.args.workloads:
                    print(f" {workload}: {labels.WORKLOADS[workload]}, {self.counts[workload]} texts", flush=True)
                    self.latency(group) if workload == "a" else self.throughput(workload, group)
            for c in group:
                c.end()
        if self.name == "minilm" and "b" in self.args.workloads:
            self.thread_scaling()
        if self.args.servers and self.name in self.args.server_models:
            self.servers = servers.compare(self, self.args)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--build", default="build", help="where penstock and bench/encode_bench are")
    parser.add_argument("--cache", type=pathlib.Path, help="for the models [~/.cache/penstock/peers]")
    parser.add_argument("--models", nargs="+", choices=workloads.MODELS, default=workloads.MODELS)
    parser.add_argument("--workloads", nargs="+", choices=list("abcd"), default=list("abcd"))
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--peers", nargs="*", choices=PEERS + ["infinity"], default=PEERS + ["infinity"])
    parser.add_argument("--no-servers", dest="servers", action="store_false")
    parser.add_argument("--server-models", nargs="+", choices=workloads.MODELS, default=["minilm"])
    parser.add_argument("--rounds", type=int, help="[3]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--full", action="store_true", help="as many texts for the larger models as for minilm: hours")
    parser.add_argument("--quick", action="store_true", help="a few texts and one round: does it all run?")
    parser.add_argument("--docs", type=pathlib.Path, help="where NAME.md goes [docs; with --quick a folder in --build]")
    parser.add_argument("--name", default="peers", help="of the page and its chart: one for each processor [peers]")
    parser.add_argument("--json", type=pathlib.Path, help="file for the records")
    args = parser.parse_args()
    if args.docs is None:
        args.docs = pathlib.Path(args.build) / "peers" if args.quick else pathlib.Path("docs")
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    args.cache = args.cache or pathlib.Path(base) / "penstock" / "peers"
    return args


def main():
    args = arguments()
    os.environ["PENSTOCK_ENCODE_BENCH"] = str(pathlib.Path(args.build).resolve() / "bench/encode_bench")
    # Peers inherit it: two threads on a large machine are to be on two processors for everybody.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])
    start, runs = time.time(), []
    for name in args.models:
        print(f"{name}: {labels.ABOUT[name]}", flush=True)
        run = ModelRun(name, args, args.cache)
        run.run()
        runs.append(run)
        print(f"{name}: done after {(time.time() - start) / 60:.1f} min", flush=True)
        report.write(runs, args)


if __name__ == "__main__":
    main()
