"""penstock.ray in a cluster of real Ray whose nodes and drivers are killed: the work goes on, with the same bytes."""

import os
import signal
import subprocess
import sys
import time

import pytest

from conftest import EMBED, GOLDEN, ROOT, binary, run

ray = pytest.importorskip("ray", reason="RAY IS NOT HERE (tests/e2e/requirements-ray.txt)")
from ray.cluster_utils import Cluster

MODEL = str(GOLDEN / EMBED)
SHARDS = 8
# What a driver does: a program of its own, so that it can be killed.
DRIVER = """
import sys, ray, penstock.ray
address, files, out, merged, model = sys.argv[1:]
ray.init(address=address, log_to_driver=False)
print(penstock.ray.embed_files(files, out, model=model, dtype="f32", shards=8, merge=merged)["made"], flush=True)
"""


@pytest.fixture(scope="module")
def cluster():
    os.environ.update({"PENSTOCK_PROGRAM": binary(), "PYTHONPATH": str(ROOT / "python"), "RAY_AUTH_MODE": "disabled"})
    # The head has no processors: it runs no tasks and is not killed.
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A file, and its vectors from one process."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = folder / "a.txt"
    lines.write_text("".join(f"dog {'cat ' * (i % 90)}{i}\n" for i in range(40000)))
    run("embed", "--model", MODEL, "--dtype", "f32", lines, "-q", "-o", folder / "whole.npy")
    return lines, (folder / "whole.npy").read_bytes()


def drive(cluster, lines, folder):
    words = [cluster.address, lines, folder / "parts", folder / "x.npy", MODEL]
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def until_made(folder, count, driver):
    """Waits until that many parts are made, and some are not."""
    until = time.monotonic() + 120
    while len(list((folder / "parts").glob("part-*.json"))) < count:
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < until, "no parts are made"
        time.sleep(0.02)  # between two looks


def ended(driver):
    out, said = driver.communicate(timeout=240)
    assert driver.returncode == 0, said
    return int(out.split()[-1])


def test_a_node_that_is_killed(cluster, corpus, tmp_path):
    lines, whole = corpus
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    driver = drive(cluster, lines, tmp_path)
    until_made(tmp_path, 1, driver)
    cluster.remove_node(nodes.pop(0), allow_graceful=False)  # kill -9 of the node, with a task on it
    until_made(tmp_path, 3, driver)
    nodes.append(cluster.add_node(num_cpus=1))  # and another one comes
    assert ended(driver) == SHARDS
    assert (tmp_path / "x.npy").read_bytes() == whole
    for node in nodes:
        cluster.remove_node(node)


def test_a_driver_that_is_killed_and_started_again(cluster, corpus, tmp_path):
    lines, whole = corpus
    node = cluster.add_node(num_cpus=1)
    driver = drive(cluster, lines, tmp_path)
    until_made(tmp_path, 2, driver)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    again = drive(cluster, lines, tmp_path)
    assert ended(again) <= SHARDS - 2, "parts that were done were made again"
    assert (tmp_path / "x.npy").read_bytes() == whole
    cluster.remove_node(node)
