#!/usr/bin/env python3
"""An autoscaler's loop with real servers: the load rises four times at once, and falls again.

    bench/autoscale.py --model MODEL [--rate 20] [--target 0.1] [--interval 10]

Servers of one thread each are started and stopped as KEDA and the HorizontalPodAutoscaler would have it
by the chart's query, sum(rate(penstock_demand_seconds_total{class="interactive"})) over --target, rounded
up. Requests go to the server with the fewest under way. Prints each decision and, at the end:

    right          the count that the load takes by what a request was measured to ask for
    after          the count one interval after the step
    swing          the largest distance from the right count from then on
    lost           requests without an answer of 200
"""

import argparse
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = "the pressure of the water in the pipe turns the wheel " * 5
DEMAND = re.compile(r'^penstock_demand_seconds_total\{[^}]*class="interactive"[^}]*\} (\S+)', re.MULTILINE)


class Replica:
    """One server. Requests are counted, so that the next one goes where there are fewest."""

    def __init__(self, program, model):
        words = [
            program,
            "serve",
            "--model",
            f"m={model}",
            "--port",
            "0",
            "--threads",
            "1",
            "--preload",
            "--keep-alive=-1",
            "--shutdown-delay-s",
            "1",
            "--log-level",
            "warn",
        ]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.url = re.search(r"http://\S+", self.process.stdout.readline()).group()
        self.under_way = 0
        while True:
            try:
                with urllib.request.urlopen(self.url + "/readyz", timeout=5):
                    return
            except OSError:
                time.sleep(0.05)  # it loads its model

    def demand(self):
        with urllib.request.urlopen(self.url + "/metrics", timeout=10) as answer:
            return sum(float(value) for value in DEMAND.findall(answer.read().decode()))

    def ask(self):
        body = ('{"input": "%s %d", "model": "m"}' % (TEXT, time.monotonic_ns())).encode()
        request = urllib.request.Request(self.url + "/v1/embeddings", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status


class Fleet:
    def __init__(self, make):
        self.make = make
        self.lock = threading.Lock()
        self.replicas = []
        self.gone = 0.0  # what those that were stopped were asked for
        self.ending = []

    def resize(self, count):
        with ThreadPoolExecutor(4) as pool:
            new = list(pool.map(lambda _: self.make(), range(count - len(self.replicas))))
        with self.lock:
            self.replicas += new
            stopped, self.replicas = self.replicas[count:], self.replicas[:count]
        for replica in stopped:
            self.gone += replica.demand()
            replica.process.send_signal(signal.SIGTERM)
            self.ending.append(replica)

    def demand(self):
        return self.gone + sum(replica.demand() for replica in list(self.replicas))

    def ask(self):
        with self.lock:
            replica = min(self.replicas, key=lambda one: one.under_way)
            replica.under_way += 1
        try:
            return replica.ask()
        except OSError as error:
            print(f"lost: {error}", file=sys.stderr)
            return 0
        finally:
            with self.lock:
                replica.under_way -= 1

    def stop(self):
        self.resize(0)
        return all(replica.process.wait(60) == 0 for replica in self.ending)


class Load:
    """Requests at even distances, at a rate that may change."""

    def __init__(self, fleet, rate):
        self.fleet, self.rate, self.ended = fleet, rate, False
        self.answers = []
        self.pool = ThreadPoolExecutor(64)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        due = time.monotonic()
        while not self.ended:
            self.answers.append(self.pool.submit(self.fleet.ask))
            due += 1 / self.rate
            time.sleep(max(0.0, due - time.monotonic()))  # until the next one is due

    def stop(self):
        self.ended = True
        self.thread.join()
        self.pool.shutdown()
        return [answer.result() for answer in self.answers]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rate", type=float, default=15, help="requests a second before the step")
    parser.add_argument("--target", type=float, default=0.1, help="demand of a replica")
    parser.add_argument("--interval", type=float, default=10, help="seconds between two decisions")
    parser.add_argument("--intervals", type=int, default=6, help="of each load")
    options = parser.parse_args()
    program = os.environ.get("PENSTOCK_BIN", str(ROOT / "build" / "penstock"))
    fleet = Fleet(lambda: Replica(program, options.model))
    fleet.resize(1)
    before = fleet.demand()
    for _ in range(20):
        fleet.ask()
    request_s = (fleet.demand() - before) / 20
    print(f"a request asks for {1000 * request_s:.2f} ms of a replica")
    load = Load(fleet, options.rate)
    worst, lines = 0, []
    for name, rate in (("before", options.rate), ("4 times", 4 * options.rate), ("back", options.rate)):
        load.rate = rate
        right = math.ceil(rate * request_s / options.target)
        counts = []
        for _ in range(options.intervals):
            before, begin = fleet.demand(), time.monotonic()
            time.sleep(options.interval)  # the interval of the decisions
            demand = (fleet.demand() - before) / (time.monotonic() - begin)
            wanted = max(1, math.ceil(demand / options.target))
            print(f"{name}: {demand:.3f} s a second asked for, {len(fleet.replicas)} replicas -> {wanted}", flush=True)
            fleet.resize(wanted)
            counts.append(wanted)
        swing = max(abs(count - right) for count in counts)
        worst = max(worst, swing)
        lines.append(f"{name:8} right {right}, after one interval {counts[0]}, swing {swing}")
    answers = load.stop()
    clean = fleet.stop()
    print("\n".join(lines))
    lost = sum(status != 200 for status in answers)
    print(f"requests {len(answers)}, lost {lost}")
    return 0 if worst <= 1 and lost == 0 and clean else 1


if __name__ == "__main__":
    sys.exit(main())
