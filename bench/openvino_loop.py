#!/usr/bin/env python3
"""A tensor model through Penstock's side of OpenVINO beside OpenVINO's own Python loop.

Both run the same release with the same number of threads on the same input, in turns of a few runs,
so that what else the machine does meets both. Prints milliseconds a row (medians over turns), by the
clock and of processor time, and the ratios of the medians; above 1 Penstock is faster. Where others
use the machine, processor time says more. Input is random bytes as magika takes them.

Needs the packages of tests/e2e/requirements-tensors.txt and openvino.
"""

import argparse
import importlib.util
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np
import openvino

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "e2e"))
from openvino_models import Driver


def magika_model():
    folder = pathlib.Path(importlib.util.find_spec("magika").origin).parent / "models"
    return next(folder.glob("standard_*/model.onnx"))


def processor_seconds(pid):
    """Processor time of all threads of a process, to the nanosecond."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def measure(driver, model, threads, batch, turns, runs):
    tokens = np.random.default_rng(1).integers(0, 257, (batch, 2048), np.int32)
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads,
                                                            "PERFORMANCE_HINT": "LATENCY"})
    request = compiled.create_infer_request()
    request.set_input_tensor(openvino.Tensor(tokens, shared_memory=True))

    def penstock():
        begin = processor_seconds(driver.process.pid)
        seconds = driver.run(model, {"bytes": tokens}, threads=threads, batch=batch, runs=runs)["seconds"]
        return statistics.median(seconds), (processor_seconds(driver.process.pid) - begin) / runs

    def python():
        seconds, begin_all = [], time.process_time()
        for _ in range(runs):
            begin = time.perf_counter()
            request.infer()
            seconds.append(time.perf_counter() - begin)
        return statistics.median(seconds), (time.process_time() - begin_all) / runs

    driver.run(model, {"bytes": tokens}, threads=threads, batch=batch), python()  # warm
    ours, theirs = [], []
    for turn in range(turns):
        for run, into in ((penstock, ours), (python, theirs))[::1 if turn % 2 else -1]:
            into.append(run())
    # [clock, processor], in milliseconds a row
    return [[statistics.median(values) * 1e3 / batch for values in zip(*each)] for each in (ours, theirs)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--turns", type=int, default=10)
    arguments = parser.parse_args()
    print(f"openvino {openvino.__version__}\nthreads  batch  ms/row Penstock  Python  ratio  processor ms/row Penstock  Python  ratio")
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(folder)
        for threads in arguments.threads:
            for batch in arguments.batch:
                ours, theirs = measure(driver, magika_model(), threads, batch, arguments.turns, max(2, 16 // batch))
                columns = "  ".join(f"{mine:15.3f}  {their:7.3f}  {their / mine:5.3f}" for mine, their in zip(ours, theirs))
                print(f"{threads:7}  {batch:5}  {columns}", flush=True)
        driver.close()


if __name__ == "__main__":
    main()
