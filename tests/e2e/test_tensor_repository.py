"""Repositories as NVIDIA Triton lays them out: versions of tensor models, settings in config.pbtxt."""
import shutil

import numpy as np
import pytest
import requests

from conftest import GOLDEN
from test_repository import POLL, Clients, changes, lifecycle, wait_for_refusal, wait_for_version, wait_until

TENSORS = GOLDEN.parent / "tensors"
WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)  # of matmul.onnx: y = x W
CONFIG = """
name: "net"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] } ]
instance_group [ { count: 2 kind: KIND_CPU } ]
dynamic_batching { max_queue_delay_microseconds: 100 preferred_batch_size: [ 4, 8 ] }
"""


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


def put(repository, version, config=None, scale=1, name="net", file="model.onnx", source="matmul.onnx"):
    """Places a version, whole at once; `scale` multiplies the weights of matmul.onnx."""
    model = (TENSORS / source).read_bytes()
    if source == "matmul.onnx":
        assert model.count(WEIGHTS.tobytes()) == 1
        model = model.replace(WEIGHTS.tobytes(), (WEIGHTS * scale).tobytes())
    making = repository / f".{name}"
    making.mkdir()
    (making / file).write_bytes(model)
    (repository / name).mkdir(exist_ok=True)
    if config is not None:
        (repository / name / "config.pbtxt").write_text(config)
    making.rename(repository / name / str(version))
    return repository / name


def serve(start, repository, *more, **options):
    server = start("--repository", repository, *POLL, *more, model=False, **options)
    wait_until(lambda: lifecycle(server, "net")["state"] not in ("waiting", "loading"), lambda: server.log)
    if "tensor models need OpenVINO" in "".join(server.log):
        pytest.skip("NOT TESTED: OpenVINO is not installed")
    return server


def infer(server, values, name="net", tensor="x", post=requests.post, dtype="FP32"):
    """{output: array}"""
    values = np.asarray(values)
    body = {"inputs": [{"name": tensor, "shape": list(values.shape), "datatype": dtype,
                        "data": values.ravel().tolist()}]}
    answer = post(f"{server.url}/v2/models/{name}/infer", json=body, timeout=30)
    assert answer.status_code == 200, answer.text
    return {one["name"]: np.array(one["data"], dtype=np.float32).reshape(one["shape"])
            for one in answer.json()["outputs"]}


X = np.arange(8, dtype=np.float32).reshape(2, 4)


def test_a_model_with_its_settings(repository, start):
    put(repository, 1, CONFIG)
    server = serve(start, repository)
    assert np.array_equal(infer(server, X)["y"], X @ WEIGHTS)
    model = server.get("/v2/models/net").json()
    assert model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert model["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}]
    assert model["platform"] == "onnxruntime_onnx" and model["versions"] == ["1"]
    config = server.get("/v2/models/net/config").json()
    assert config["max_batch_size"] == 8 and config["input"][0]["dims"] == [4]
    too_many = requests.post(server.url + "/v2/models/net/infer", timeout=30, json={
        "inputs": [{"name": "x", "shape": [1, 5], "datatype": "FP32", "data": [0] * 5}]})
    assert too_many.status_code == 400
    said = "dynamic_batching.preferred_batch_size has no effect"
    assert "".join(server.log).count(said) == 1


def test_without_settings_the_model_decides(repository, start):
    put(repository, 1)
    shutil.copytree(TENSORS / "add_saved_model", repository / "saved" / "1" / "model.savedmodel")
    put(repository, 1, name="graph", file="model.graphdef", source="add.pb")
    put(repository, 1, name="lite", file="model.tflite", source="double.tflite")
    (repository / "ir" / "1").mkdir(parents=True)
    for end in ("xml", "bin"):
        shutil.copy(TENSORS / f"matmul.{end}", repository / "ir" / "1" / f"model.{end}")
    server = serve(start, repository)
    names = {model["id"] for model in server.get("/v1/models").json()["data"]}
    assert names == {"net", "saved", "graph", "lite", "ir"}
    platforms = {name: server.get(f"/v2/models/{name}").json()["platform"] for name in names}
    assert platforms == {"net": "onnxruntime_onnx", "saved": "tensorflow_savedmodel", "ir": "openvino",
                         "graph": "tensorflow_graphdef", "lite": "tflite"}
    assert np.array_equal(infer(server, X, "net")["y"], X @ WEIGHTS)
    assert np.array_equal(infer(server, X, "ir")["y"], X @ WEIGHTS)
    plus = np.array([[1, 2, 3]], dtype=np.float32)
    for name in ("saved", "graph"):
        (tensor,) = server.get(f"/v2/models/{name}").json()["inputs"]
        (given,) = infer(server, plus, name, tensor["name"]).values()
        assert np.array_equal(given, 2 * plus)


def test_versions_change_and_no_request_is_lost(repository, start):
    folder = put(repository, 1, CONFIG)
    server = serve(start, repository)
    with Clients(lambda post: infer(server, X, post=post)["y"].tolist(), count=4) as clients:
        put(repository, 2, scale=2)
        wait_for_version(server, 2, "net")
        clients.go_on()
        # Settings that do not fit the model keep the version that serves; so does a broken file.
        (folder / "config.pbtxt").write_text(CONFIG.replace("dims: [ 3 ]", "dims: [ 5 ]"))
        assert "output 'y' is declared as [5], the model has [3]" in wait_for_refusal(server, 2, "net")
        clients.go_on()
        (folder / "config.pbtxt").write_text(CONFIG.replace("max_batch_size: 8", "max_batch_size: 4"))
        wait_until(lambda: server.get("/v2/models/net/config").json()["max_batch_size"] == 4,
                   lambda: server.log[-20:])
        broken = put(repository, 3) / "3" / "model.onnx"
        broken.write_bytes(broken.read_bytes()[:100])
        assert "model.onnx" in wait_for_refusal(server, 3, "net")
        clients.go_on()
    one, two = (X @ WEIGHTS).tolist(), (2 * (X @ WEIGHTS)).tolist()
    for answers in clients.stop():
        assert changes(answers) == [one, two]


def test_clients_see_the_dims_of_the_settings(repository, start):
    put(repository, 1, """
max_batch_size: 16
input { name: "x" data_type: TYPE_FP32 dims: [ 2, 1, 2 ] reshape { shape: 4 } }
output { name: "y" data_type: TYPE_FP32 dims: [ 1, 3 ] reshape { shape: 3 } }
""")
    # One of two outputs is offered; without batches; any size told as a fixed one.
    put(repository, 1, """
max_batch_size: 0
input [ { name: "a" data_type: TYPE_FP32 dims: [ 3, 2 ] }, { name: "b" data_type: TYPE_FP32 dims: [ 3, 2 ] } ]
output { name: "sum" data_type: TYPE_FP32 dims: [ 3, 2 ] }
""", name="two", source="two.onnx")
    server = serve(start, repository)
    given = infer(server, X.reshape(2, 2, 1, 2))["y"]
    assert given.shape == (2, 1, 3) and np.array_equal(given.reshape(2, 3), X @ WEIGHTS)
    model = server.get("/v2/models/two").json()
    assert [one["name"] for one in model["outputs"]] == ["sum"]
    assert model["inputs"][0]["shape"] == [3, 2]
    body = {"inputs": [{"name": name, "shape": [3, 2], "datatype": "FP32", "data": [1, 2, 3, 4, 5, 6]}
                       for name in "ab"]}
    answer = server.post("/v2/models/two/infer", body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["outputs"][0]["data"] == [2, 4, 6, 8, 10, 12]
    for one in body["inputs"]:
        one.update(shape=[2, 2], data=[1, 2, 3, 4])
    assert server.post("/v2/models/two/infer", body).status_code == 400


def test_what_is_refused_has_a_name(repository, start):
    folder = put(repository, 1, CONFIG)
    server = serve(start, repository)
    for text, says in (
            ("sequence_batching { }", "config.pbtxt:1:1: sequence_batching is not supported"),
            ("\ninstance_group { kind: KIND_GPU }", "config.pbtxt:2:18: instance_group[0].kind KIND_GPU"),
            ("platform: 'tensorrt_plan'", "platform 'tensorrt_plan' is not supported; supported: onnxruntime_onnx"),
            ("platform: 'tensorflow_savedmodel'", "it has no model.savedmodel, which config.pbtxt names"),
            ("default_model_filename: 'other.onnx'", "it has no other.onnx, which config.pbtxt names"),
            ("default_model_filename: '../../net/1/model.onnx'", "default_model_filename is to name a file"),
            ("name: 'other'", "name 'other' is not that of the folder"),
            ("max_batch_sise: 8", 'has no field named "max_batch_sise"'),
            ("max_batch_size: 8 input { name: 'x' data_type: TYPE_FP32 dims: 5 }",
             "input 'x' is declared as [5], the model has [4]"),
            ("max_batch_size: 8 input { name: 'x' data_type: TYPE_FP64 dims: 4 }",
             "input 'x' is declared as FP64, the model has FP32"),
            ("max_batch_size: 8 input { name: 'z' data_type: TYPE_FP32 dims: 4 }", "the model has no input 'z'"),
            ("input {", "config.pbtxt:1:8"),
            ("# " + "x" * (2 << 20), "config.pbtxt"),
    ):
        (folder / "config.pbtxt").write_text(text)
        wait_until(lambda: says in (lifecycle(server, "net").get("refused_version") or {"error": ""})["error"],
                   lambda: (says, lifecycle(server, "net")))
    assert lifecycle(server, "net")["version"] == 1
    assert np.array_equal(infer(server, X)["y"], X @ WEIGHTS)


def test_versions_that_the_settings_pick(repository, start):
    folder = put(repository, 1, "version_policy { specific { versions: [ 1, 2 ] } }")
    put(repository, 2, scale=2)
    put(repository, 3, scale=3)
    server = serve(start, repository)
    assert np.array_equal(infer(server, X)["y"], 2 * (X @ WEIGHTS))
    (folder / "config.pbtxt").write_text("version_policy { latest { num_versions: 2 } }")
    wait_for_version(server, 3, "net")
    assert np.array_equal(infer(server, X)["y"], 3 * (X @ WEIGHTS))
    assert "version_policy.latest has one version served" in "".join(server.log)


def test_load_and_unload(repository, start):
    put(repository, 1, CONFIG)
    server = serve(start, repository)
    index = server.post("/v2/repository/index", {}).json()
    assert [(one["name"], one["version"], one["state"]) for one in index] == [("net", "1", "READY")]
    assert server.post("/v2/repository/models/net/unload", {}).status_code == 200
    wait_until(lambda: server.get("/v2/models/net/ready").status_code != 200, lambda: lifecycle(server, "net"))
    assert server.post("/v2/repository/models/net/load", {}).status_code == 200
    assert server.get("/v2/models/net/ready").status_code == 200
    assert np.array_equal(infer(server, X)["y"], X @ WEIGHTS)
