#!/usr/bin/env python3
"""Ends `penstock embed` at random moments, goes on with --resume, and compares with an undisturbed
run.

    bench/reindex_faults.py --runs 100 --rows 20000 --json faults.json

Each run is ended one to three times, by the means in turn: SIGINT, SIGTERM, SIGKILL, a full disk
(a limit on the size of files), and with --url the death of the server. Passages come from the
documentation of the machine, or from --input.

    reindex.runs                     runs, each ended at least once
    reindex.lost_rows                rows missing in the results
    reindex.differing_bits           bits in which the results differ from the undisturbed one
    reindex.resume_overhead_percent  time of the ended runs with their resumes, over undisturbed ones
    reindex.resume_overhead_cpu_percent  the same in processor time, where the machine is not idle
"""
import argparse
import gzip
import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MEANS = ("SIGINT", "SIGTERM", "SIGKILL", "full disk")
HEADER_BYTES = 256


def passages(count, seed):
    """Paragraphs of the documentation and the Python sources of this machine."""
    found = []
    files = sorted(path for folder in ("/usr/share/doc", "/usr/lib/python3")
                   for path in pathlib.Path(folder).rglob("*")
                   if path.suffix in (".gz", ".txt", ".py", ".md", "") and path.is_file())
    random.Random(seed).shuffle(files)
    for path in files:
        try:
            opened = gzip.open(path, "rt", errors="ignore") if path.suffix == ".gz" else open(path, errors="ignore")
            with opened as file:
                text = file.read(200_000)
        except (OSError, EOFError):
            continue
        for paragraph in re.split(r"\n\s*\n", text):
            line = " ".join(paragraph.split())
            if 40 <= len(line) <= 1500 and line.isprintable():
                found.append(line)
        if len(found) >= count:
            return found[:count]
    sys.exit(f"only {len(found)} passages on this machine: give --input, or fewer --rows")


def children_cpu_s():
    """Processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Job:
    """One output made of one input, by a model of its own or by a server."""

    def __init__(self, options, folder, name):
        self.options, self.output = options, folder / f"{name}.npy"
        self.server = None
        self.attempts = self.ended = 0
        self.busy_s = self.cpu_s = 0.0

    def environment(self):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_")}
        return {**kept, "PENSTOCK_DTYPE": self.options.dtype}

    def start_server(self):
        if not self.options.url:
            return
        self.server = subprocess.Popen([self.options.program, "serve", "--port", str(self.options.port),
                                        "--model", self.options.model, "--log-level", "error"],
                                       env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop_server(self, number=signal.SIGTERM):
        if self.server is not None:
            self.server.send_signal(number)
            self.server.wait()
            self.server = None

    def attempt(self, means=None, after_s=None, file_bytes=None):
        """One process; ended by `means` after a while, or by its own end. True: the output is whole."""
        self.attempts += 1
        model = (["--url", f"http://127.0.0.1:{self.options.port}", "--connect-timeout", "20"] if self.options.url
                 else ["--model", self.options.model])
        limit = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))) if file_bytes else None
        begin, cpu_begin = time.monotonic(), children_cpu_s()
        process = subprocess.Popen([self.options.program, "embed", *model, "-q", "--resume", "-o", self.output,
                                    self.options.input], env=self.environment(), preexec_fn=limit,
                                   # SIGXFSZ stays ignored, as Python has it: the write fails then.
                                   restore_signals=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if after_s is not None:
            try:
                process.wait(after_s)
            except subprocess.TimeoutExpired:
                if means == "server":
                    self.stop_server(signal.SIGKILL)
                    if random.random() < 0.5:  # in half of these runs the client ends too
                        process.send_signal(signal.SIGINT)
                    self.start_server()
                else:
                    process.send_signal(getattr(signal, means))
        errors = process.stderr.read().decode()
        code = process.wait()
        self.busy_s += time.monotonic() - begin
        self.cpu_s += children_cpu_s() - cpu_begin
        # By the signal itself while the model loads: there is nothing to save yet.
        expected = {0, 1, 128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGKILL, -signal.SIGINT,
                    -signal.SIGTERM}
        if code not in expected or (code == 1 and file_bytes and "File too large" not in errors):
            sys.exit(f"embed: exit code {code}: {errors}")
        self.ended += code != 0
        return code == 0

    def undisturbed(self):
        self.start_server()
        if not self.attempt():
            sys.exit("the undisturbed run failed")
        self.stop_server()
        return self.output.read_bytes()

    def disturbed(self, turn, took_s, whole_bytes):
        self.start_server()
        done = False
        for _ in range(random.randint(1, 3)):
            means = "server" if self.options.url and turn % 2 else MEANS[turn % len(MEANS)]
            if means == "full disk":
                done = self.attempt(file_bytes=random.randint(HEADER_BYTES, whole_bytes - 1))
            else:
                done = self.attempt(means, random.uniform(0.02, 1.0) * took_s)
            turn += 1
            if done:
                break  # it was faster
        while not done:
            done = self.attempt()
        self.stop_server()
        return self.output.read_bytes()


def differing_bits(a, b):
    if a == b:
        return 0
    return sum(bin(x ^ y).count("1") for x, y in zip(a, b)) + 8 * abs(len(a) - len(b))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", default=str(ROOT / "build" / "penstock"))
    parser.add_argument("--model", default=str(ROOT / "tests" / "golden" / "models" / "bert_mean_normalize"))
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--input", help="a text a line; default: passages of this machine's documentation")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--url", action="store_true", help="by a server on loopback, which is killed too")
    parser.add_argument("--port", type=int, default=18431)
    parser.add_argument("--folder", help="where outputs go; default: a temporary folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    options = parser.parse_args()
    random.seed(options.seed)
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = pathlib.Path(temporary)
        if not options.input:
            options.input = str(folder / "passages.txt")
            pathlib.Path(options.input).write_text("\n".join(passages(options.rows, options.seed)) + "\n")
        reference = Job(options, folder, "reference")
        whole = reference.undisturbed()
        took_s = reference.busy_s
        print(f"undisturbed: {took_s:.1f} s, {len(whole)} bytes", flush=True)
        lost = bits = attempts = ended = 0
        busy_s = cpu_s = 0.0
        row_bytes = (len(whole) - HEADER_BYTES) // options.rows
        runs = turn = 0
        while runs < options.runs:
            job = Job(options, folder, "run")
            made = job.disturbed(turn, took_s, len(whole))
            turn += 1
            if job.ended == 0 and not options.url:
                continue
            runs += 1
            lost += max(0, len(whole) - len(made)) // max(1, row_bytes)
            bits += differing_bits(whole, made)
            attempts += job.attempts
            busy_s += job.busy_s
            cpu_s += job.cpu_s
            ended += job.ended
            left = [path.name for path in folder.iterdir() if path.suffix in (".part", ".checkpoint", ".new")]
            if left:
                sys.exit(f"left behind after a whole run: {left}")
            job.output.unlink()
        overhead = 100 * (busy_s / (options.runs * took_s) - 1)
        cpu_overhead = 100 * (cpu_s / (options.runs * reference.cpu_s) - 1)
    records = {"reindex.runs": options.runs, "reindex.attempts": attempts, "reindex.attempts_ended": ended,
               "reindex.lost_rows": lost,
               "reindex.differing_bits": bits, "reindex.resume_overhead_percent": round(overhead, 1)}
    if not options.url:  # a server's time is not the run's
        records["reindex.resume_overhead_cpu_percent"] = round(cpu_overhead, 1)
    for name, value in records.items():
        print(f"{name:34} {value}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(records, indent=1) + "\n")
    return 0 if lost == 0 and bits == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
