#!/usr/bin/env python3
"""magika's model served over the Open Inference Protocol, at saturation, beside OpenVINO's own Python
loop at the batch size that is best for it. They take turns on the same threads; the median of the
ratios of neighbours counts.

Usage: magika_speed.py --program build/penstock [--threads 2] [--seconds 3] [--rounds 5] [--json FILE]
Needs the packages magika, openvino and numpy.
"""
import argparse
import http.client
import importlib.util
import json
import pathlib
import re
import statistics
import subprocess
import threading
import time

import numpy as np

ROWS = 64  # of a request


def model_path():
    spec = importlib.util.find_spec("magika")
    return next((pathlib.Path(spec.origin).parent / "models").glob("standard_*/model.onnx"))


class Loop:
    """OpenVINO, called by itself."""

    def __init__(self, threads):
        import openvino

        core = openvino.Core()
        self.compiled = {}
        for batch in (1, 2, 4, 8, 16, 32, 64):
            model = core.read_model(model_path())
            model.reshape({model.input(0): [batch, 2048]})
            self.compiled[batch] = core.compile_model(model, "CPU", {
                "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"})
        self.request = {b: c.create_infer_request() for b, c in self.compiled.items()}
        self.best = max(self.compiled, key=lambda batch: self.rate(1, batch))

    def rate(self, seconds, batch=None):
        batch = batch or self.best
        rows = np.random.default_rng(1).integers(0, 257, (batch, 2048), np.int32)
        request, count = self.request[batch], 0
        request.infer({0: rows})
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            request.infer({0: rows})
            count += batch
        return count / (time.perf_counter() - begin)


class Served:
    """The same model behind HTTP; two clients send requests of ROWS rows."""

    def __init__(self, program, threads):
        self.process = subprocess.Popen(
            [program, "serve", "--port", "0", "--threads", str(threads), "--preload",
             "--model", f"magika={model_path()}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.process.stdout:
            found = re.search(r"ready on http://[^:]+:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                return
        raise SystemExit("the server ended")

    def close(self):
        self.process.terminate()
        self.process.wait(30)

    def rate(self, seconds):
        rows = np.random.default_rng(1).integers(0, 257, (ROWS, 2048), np.int32)
        head = json.dumps({
            "inputs": [{"name": "bytes", "shape": [ROWS, 2048], "datatype": "INT32",
                        "parameters": {"binary_data_size": rows.nbytes}}],
            "outputs": [{"name": "target_label", "parameters": {"binary_data": True}}]}).encode()
        body, headers = head + rows.tobytes(), {"Inference-Header-Content-Length": str(len(head))}
        counts, begin = [0, 0], time.perf_counter()

        def client(number):
            connection = http.client.HTTPConnection("127.0.0.1", self.port)
            while time.perf_counter() - begin < seconds:
                connection.request("POST", "/v2/models/magika/infer", body, headers)
                answer = connection.getresponse()
                text = answer.read()
                assert answer.status == 200, text[:300]
                counts[number] += ROWS

        clients = [threading.Thread(target=client, args=(n,)) for n in range(2)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        return sum(counts) / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="build/penstock")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    served = Served(arguments.program, arguments.threads)
    try:
        loop = Loop(arguments.threads)
        served.rate(1)
        ratios, ours, theirs = [], [], []
        for _ in range(arguments.rounds):
            theirs.append(loop.rate(arguments.seconds))
            ours.append(served.rate(arguments.seconds))
            ratios.append(ours[-1] / theirs[-1])
    finally:
        served.close()
    ratio = statistics.median(ratios)
    print(f"OpenVINO's loop, batches of {loop.best}: {statistics.median(theirs):.1f} rows/s")
    print(f"served, requests of {ROWS} rows: {statistics.median(ours):.1f} rows/s, {ratio:.3f} of the loop")
    if arguments.json:
        record = {"name": "tensor.magika_ratio_vs_openvino", "value": ratio, "unit": "1"}
        pathlib.Path(arguments.json).write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
