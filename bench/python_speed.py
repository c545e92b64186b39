#!/usr/bin/env python3
"""The Python package beside the server and the command: import, first vector, single queries, many texts, threads.

Usage: python bench/python_speed.py --model FOLDER [--program build/penstock] [--json FILE]

Needs numpy. The package is python/penstock of the repository with the library of the build, unless PYTHONPATH and
PENSTOCK_LIBRARY name others. Each figure is a ratio of two measurements of one run, the better of which alternate.
"""

import argparse
import json
import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUERY = "how do I reset the password of my account"


def texts(count):
    """Texts of 8 to 60 words, the same in each run."""
    words = "penstock turbine water pressure gate valve river reservoir energy grid flow head loss pipe steel".split()
    state, made = 7, []
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        made.append(" ".join(words[(state >> 8 + i) % len(words)] for i in range(8 + state % 52)) + f" {state}")
    return made


def child(code, *arguments, environment):
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(done.stdout)


def import_times(model, environment):
    """Milliseconds of the import alone (the interpreter's start taken off), and seconds to the first vector."""
    code = """
import json, sys, time
begin = time.perf_counter()
import penstock
imported = time.perf_counter()
penstock.Embedder(sys.argv[1]).encode("hello")
print(json.dumps([(imported - begin) * 1e3, time.perf_counter() - imported]))
"""
    found = [child(code, model, environment=environment) for _ in range(5)]
    return min(each[0] for each in found), min(each[1] for each in found)


def single_queries(embedder, server, count=300):
    """Medians of a query in this process and by the server, with the same lines of Python, in milliseconds, in turns."""
    inside, outside = [], []
    with penstock.Embedder(url=server.url) as remote:
        for number in range(count):
            begin = time.perf_counter()
            embedder.encode(f"{QUERY} {number}")
            middle = time.perf_counter()
            remote.encode(f"{QUERY} {number}")
            outside.append(time.perf_counter() - middle)
            inside.append(middle - begin)
    return statistics.median(inside[20:]) * 1e3, statistics.median(outside[20:]) * 1e3


def used_s(of):
    used = resource.getrusage(of)
    return used.ru_utime + used.ru_stime


def timed(of, work):
    """Seconds of the wall and of processors that the work takes; of: resource.RUSAGE_SELF or RUSAGE_CHILDREN."""
    begin, used = time.perf_counter(), used_s(of)
    work()
    return time.perf_counter() - begin, used_s(of) - used


def many_texts(model, program, environment, rounds=15):
    """Speed of encode over that of `penstock embed`: by the wall, and by seconds of processors.

    What 1,000 texts take of the command is the time of 2,000 less that of 1,000: a run with a single text does
    things that a longer one does beside its work. Medians of rounds in which the three are timed one after the
    other, so that a machine whose speed changes slows all; each round opens the model anew, since loads of the same
    model differ by some per cent, by where its pages happen to lie.
    """
    given, ratios = texts(1000), []
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder) / f"{times}000.txt" for times in (1, 2)]
        for times, file in enumerate(files, 1):
            file.write_text("\n".join(given * times) + "\n")

        def embed(file):
            words = [program, "embed", "--model", model, file, "-o", f"{folder}/out.npy", "--quiet"]
            subprocess.run(words, check=True, capture_output=True, env=environment)

        for _ in range(rounds):
            with penstock.Embedder(model) as embedder:
                embedder.encode(given[:64])
                encode = timed(resource.RUSAGE_SELF, lambda one=embedder: one.encode(given))
            once, twice = (timed(resource.RUSAGE_CHILDREN, lambda file=file: embed(file)) for file in files)
            ratios.append([(twice[i] - once[i]) / encode[i] for i in range(2)])
    wall, processors = (statistics.median(one[i] for one in ratios) for i in range(2))
    return {"encode over embed": wall, "... by processor time": processors}


def ran_and_waited():
    """Seconds that this thread ran, and that it waited for a processor."""
    ran, waited, _ = pathlib.Path("/proc/thread-self/schedstat").read_text().split()
    return int(ran) / 1e9, int(waited) / 1e9


def kept_speed(embedder, seconds=3.0):
    """The share of its time that a thread of Python which counts runs while another one encodes.

    The time that it waits for a processor is left out, as if there were one for it: what is missing is the time
    that it waits for the interpreter's lock.
    """
    given, stop = texts(2000), threading.Event()

    def encode():
        while not stop.is_set():
            embedder.encode(given)

    worker = threading.Thread(target=encode)
    worker.start()
    time.sleep(0.2)  # into the middle of an encode
    ran, waited = ran_and_waited()
    begin = time.perf_counter()
    while time.perf_counter() < begin + seconds:
        pass
    took = time.perf_counter() - begin
    ran_after, waited_after = ran_and_waited()
    stop.set()
    worker.join()
    return (ran_after - ran) / (took - (waited_after - waited))


def interruption(embedder):
    """Milliseconds from SIGINT in the middle of a long call to KeyboardInterrupt."""
    given, sent = texts(50_000), []

    def interrupt():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(0.7, interrupt).start()
    try:
        embedder.encode(given)
    except KeyboardInterrupt:
        return (time.perf_counter() - sent[0]) * 1e3
    return float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/penstock")
    parser.add_argument("--json", help="file for the figures")
    options = parser.parse_args()
    environment = {
        "PYTHONPATH": str(ROOT / "python"),
        "PENSTOCK_LIBRARY": str(options.program.parent / "libpenstock.so.1"),
        "PENSTOCK_PROGRAM": str(options.program),
        **os.environ,
    }
    os.environ.update(environment)
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
    global penstock
    import penstock

    found = {}
    found["import, ms"], found["first vector after it, s"] = import_times(options.model, environment)
    with (
        penstock.Embedder(options.model) as embedder,
        penstock.serve(model=options.model, port=0, preload=True) as server,
    ):
        inside, outside = single_queries(embedder, server)
        found["single query, ms"], found["over HTTP, ms"], found["ratio"] = inside, outside, inside / outside
    found.update(many_texts(options.model, options.program, environment))
    with penstock.Embedder(options.model, threads=1) as embedder:
        found["a Python thread keeps"] = kept_speed(embedder)
        found["Ctrl-C to its exception, ms"] = interruption(embedder)
    for name, value in found.items():
        print(f"{name:30} {value:10.3f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
