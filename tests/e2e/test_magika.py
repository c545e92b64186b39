"""The package magika with its model served by Penstock: the same labels for a thousand files.

Its session of onnxruntime is replaced by one that asks the server, over HTTP with binary tensors;
all else of the package is as it comes. Runs in the environment of requirements-tensors.txt.
"""
import importlib.util
import json
import os
import pathlib
import threading

import numpy as np
import pytest
import requests

from conftest import Server, clean_environment

FILES = 1000
FILE_BYTES_MAX = 1 << 20

if importlib.util.find_spec("magika") is None:
    pytest.skip("NOT TESTED: the package magika is in requirements-tensors.txt", allow_module_level=True)


def model_folder():
    spec = importlib.util.find_spec("magika")
    return next((pathlib.Path(spec.origin).parent / "models").glob("standard_*/model.onnx")).parent


@pytest.fixture(scope="module")
def server():
    server = Server("--model", f"magika={model_folder() / 'model.onnx'}", env=clean_environment(), ready=False)
    server._ready.wait(60)
    if server.url is None or "tensor models need OpenVINO" in "".join(server.log):
        log = "".join(server.log)
        server.stop()
        if "OpenVINO" in log:
            pytest.skip("NOT TESTED: OpenVINO is not installed")
        raise AssertionError(log)
    yield server
    assert server.stop() == 0


class Session:
    """What magika uses of onnxruntime.InferenceSession, by a model of a server."""

    def __init__(self, url):
        self.url, self.http = url, requests.Session()

    def run(self, outputs, inputs):
        (name, rows), = inputs.items()
        rows = np.asarray(rows, dtype=np.int32)
        head = json.dumps({
            "inputs": [{"name": name, "shape": list(rows.shape), "datatype": "INT32",
                        "parameters": {"binary_data_size": rows.nbytes}}],
            "outputs": [{"name": output, "parameters": {"binary_data": True}} for output in outputs],
        }).encode()
        answer = self.http.post(f"{self.url}/v2/models/magika/infer", data=head + rows.tobytes(), timeout=60,
                                headers={"Inference-Header-Content-Length": str(len(head))})
        assert answer.status_code == 200, answer.text
        at = int(answer.headers["Inference-Header-Content-Length"])
        told = json.loads(answer.content[:at])["outputs"]
        results = []
        for output in told:
            size = output["parameters"]["binary_data_size"]
            results.append(np.frombuffer(answer.content[at:at + size], dtype=np.float32).reshape(output["shape"]))
            at += size
        return results


def files_of_this_machine():
    """In an order that does not follow folders, so that kinds of files are mixed."""
    found = []
    for top in ("/usr/share", "/usr/lib", "/usr/bin", "/etc"):
        for folder, names, files in os.walk(top):
            names.sort()
            for name in sorted(files):
                path = pathlib.Path(folder, name)
                try:
                    if path.is_file() and not path.is_symlink() and 0 < path.stat().st_size <= FILE_BYTES_MAX:
                        path.open("rb").close()
                        found.append(path)
                except OSError:
                    pass
            if len(found) > 200_000:
                break
    step = max(1, len(found) // FILES)
    return found[::step][:FILES]


def magika_of(session=None):
    from magika import Magika

    magika = Magika()
    if session is not None:
        magika._onnx_session = session
    return magika


def test_a_thousand_files_have_the_labels_of_magika(server):
    files = files_of_this_machine()
    assert len(files) == FILES
    # One by one: onnxruntime's scores of a row change by 3e-4 with the size of its batch.
    alone = magika_of()
    expected = [alone.identify_path(path) for path in files]
    # Large requests are split over batches.
    given = magika_of(Session(server.url)).identify_paths(files)
    labels = set()
    for path, want, have in zip(files, expected, given):
        assert want.ok and have.ok
        assert (want.dl.label, want.output.label) == (have.dl.label, have.output.label), path
        assert abs(want.score - have.score) < 1e-4, path
        labels.add(want.output.label)
    assert len(labels) >= 10, labels


def test_files_one_by_one_from_many_threads(server):
    files = files_of_this_machine()[::5]
    expected = dict(zip(files, magika_of().identify_paths(files)))
    wrong, left, lock = [], list(files), threading.Lock()

    def work():
        magika = magika_of(Session(server.url))
        while True:
            with lock:
                if not left:
                    return
                path = left.pop()
            have = magika.identify_path(path)
            if have.output.label != expected[path].output.label:
                wrong.append((path, have.output.label))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not left
    # They shared batches: fewer runs than files that the model was asked about.
    statistics = server.get("/v2/models/magika/stats").json()["model_stats"][0]
    assert statistics["execution_count"] < statistics["inference_stats"]["success"]["count"] + FILES // 8
