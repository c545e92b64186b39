"""The Open Inference Protocol over HTTP, with the clients of Triton as they are."""
import asyncio
import json
import re
import socket
import time
import uuid

import numpy as np
import pytest
import requests
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory as shm

from conftest import EMBED, GOLDEN, ROOT, Server

pytestmark = pytest.mark.client("tritonclient", "http, http.aio: infer, metadata, statistics, repository, shared memory")

MODELS = {
    "same": "builtin:identity?type=FP32&shape=-1",
    "add": "builtin:add?type=INT32",
    "three": "builtin:identity?type=INT64&shape=2x2&inputs=3",
    "strings": "builtin:identity?type=BYTES&shape=-1",
    "halves": "builtin:identity?type=FP16&shape=4",
    "flags": "builtin:identity?type=BOOL&shape=3",
    "whole": "builtin:identity?type=FP64&shape=2x-1&batch=0",
    "slow": "builtin:slow?ms=300&shape=1",
    "failing": "builtin:failing?shape=1",
}
SHARED_BYTES = 1 << 20


def model_args():
    args = []
    for name, reference in MODELS.items():
        args += ["--model", f"{name}={reference}"]
    return args


@pytest.fixture(scope="module")
def server_args():
    return *model_args(), "--model", f"text={GOLDEN / EMBED}", "--shared-memory-bytes", SHARED_BYTES


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(f"{server.host}:{server.port}", concurrency=8) as client:
        yield client


def tensor(name, values, binary=True):
    names = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "int32": "INT32", "int64": "INT64",
             "bool": "BOOL", "object": "BYTES"}
    made = triton.InferInput(name, list(values.shape), names[str(values.dtype)])
    made.set_data_from_numpy(values, binary_data=binary)
    return made


def refused(call, *args, status, says, **more):
    with pytest.raises(InferenceServerException) as error:
        call(*args, **more)
    assert error.value.status() == str(status), error.value
    assert says in error.value.message(), error.value.message()


def test_the_documents_example(capsys):
    server = Server("--model", "add=builtin:add?shape=2")
    code = re.search(r"^```python\n(.*?)^```$", (ROOT / "docs/KSERVE.md").read_text(), re.MULTILINE | re.DOTALL)
    exec(code.group(1).replace("127.0.0.1:8080", f"{server.host}:{server.port}"), {})
    assert capsys.readouterr().out == "[[2. 4.]]\n"
    assert server.stop() == 0


def test_health_and_metadata(client):
    assert client.is_server_live() and client.is_server_ready()
    about = client.get_server_metadata()
    assert about["name"] == "penstock" and "binary_tensor_data" in about["extensions"]
    assert client.is_model_ready("add") and client.is_model_ready("add", "1")
    assert not client.is_model_ready("nobody") and not client.is_model_ready("add", "2")
    model = client.get_model_metadata("add")
    assert (model["name"], model["versions"]) == ("add", ["1"])
    assert [(each["name"], each["datatype"], each["shape"]) for each in model["inputs"]] == [
        ("INPUT0", "INT32", [-1, 16]), ("INPUT1", "INT32", [-1, 16])]
    assert [each["name"] for each in model["outputs"]] == ["OUTPUT0", "OUTPUT1"]
    assert client.get_model_metadata("add", "1") == model
    refused(client.get_model_metadata, "nobody", status=404, says="nobody")
    refused(client.get_model_metadata, "add", "7", status=404, says="'7'")
    refused(client.get_model_metadata, "text", status=422, says="not a tensor model")


def test_configuration(client):
    config = client.get_model_config("add")
    assert config["name"] == "add" and config["max_batch_size"] > 1
    assert config["input"][0]["data_type"] == "TYPE_INT32" and config["input"][0]["dims"] == [16]
    whole = client.get_model_config("whole", "1")
    assert whole["max_batch_size"] == 0 and whole["output"][0]["dims"] == [2, -1]
    assert client.get_model_config("strings")["input"][0]["data_type"] == "TYPE_STRING"


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("rows", [1, 3, 700])
def test_several_outputs(client, binary, rows):
    a = np.arange(rows * 16, dtype=np.int32).reshape(rows, 16)
    b = np.full((rows, 16), -7, dtype=np.int32)
    outputs = [triton.InferRequestedOutput("OUTPUT1", binary_data=binary),
               triton.InferRequestedOutput("OUTPUT0", binary_data=not binary)]
    result = client.infer("add", [tensor("INPUT0", a, binary), tensor("INPUT1", b, not binary)],
                          outputs=outputs, request_id="my id", model_version="1")
    assert np.array_equal(result.as_numpy("OUTPUT0"), a + b)
    assert np.array_equal(result.as_numpy("OUTPUT1"), a - b)
    response = result.get_response()
    assert response["id"] == "my id" and response["model_name"] == "add" and response["model_version"] == "1"
    assert [each["name"] for each in response["outputs"]] == ["OUTPUT1", "OUTPUT0"]


def test_outputs_that_are_not_named_are_all_and_binary(client):
    one = np.ones((2, 2, 2), dtype=np.int64)
    inputs = [tensor(f"INPUT{i}", one * i) for i in (2, 0, 1)]
    result = client.infer("three", inputs)
    for i in range(3):
        assert np.array_equal(result.as_numpy(f"OUTPUT{i}"), one * i)
        assert "binary_data_size" in result.get_output(f"OUTPUT{i}")["parameters"]


@pytest.mark.parametrize("binary", [True, False])
def test_types(client, binary):
    floats = np.array([[0.1, -0.0, 3e38, 1e-45, 16777216.0]], dtype=np.float32)
    words = np.array([["", "a", "\u00e9\u4e16", "x" * 300]], dtype=object)
    doubles = np.array([[np.pi, 1e300], [5e-324, -1.0]])
    flags = np.array([[True, False, True]])
    for model, values in [("same", floats), ("strings", words), ("whole", doubles), ("flags", flags)]:
        outputs = [triton.InferRequestedOutput("OUTPUT0", binary_data=binary)]
        result = client.infer(model, [tensor("INPUT0", values, binary)], outputs=outputs).as_numpy("OUTPUT0")
        if values.dtype == object and binary:
            result = np.array([[text.decode() for text in result[0]]], dtype=object)
        assert np.array_equal(result, values), model
        assert result.dtype == values.dtype


def test_numbers_that_are_none(client):
    values = np.array([[np.nan, np.inf, -np.inf, 0]], dtype=np.float32)
    outputs = [triton.InferRequestedOutput("OUTPUT0", binary_data=False)]
    result = client.infer("same", [tensor("INPUT0", values)], outputs=outputs).as_numpy("OUTPUT0")
    assert np.array_equal(result, values, equal_nan=True)


def test_halves_are_binary_only(client):
    values = np.array([[1, 0.5, -2, 0]], dtype=np.float16)
    assert np.array_equal(client.infer("halves", [tensor("INPUT0", values)]).as_numpy("OUTPUT0"), values)
    refused(client.infer, "halves", [tensor("INPUT0", values)],
            outputs=[triton.InferRequestedOutput("OUTPUT0", binary_data=False)], status=422, says="FP16")


def test_strings_that_are_not_utf8_are_binary_only(client):
    words = np.array([[b"\xff\xfe", b"a"]], dtype=object)
    assert np.array_equal(client.infer("strings", [tensor("INPUT0", words)]).as_numpy("OUTPUT0"), words)
    refused(client.infer, "strings", [tensor("INPUT0", words)],
            outputs=[triton.InferRequestedOutput("OUTPUT0", binary_data=False)], status=422, says="UTF-8")


def test_large_tensors(client):
    values = np.random.default_rng(1).normal(size=(1, 1_500_000)).astype(np.float32)
    assert np.array_equal(client.infer("same", [tensor("INPUT0", values)]).as_numpy("OUTPUT0"), values)
    values = values[:, :300_000]
    outputs = [triton.InferRequestedOutput("OUTPUT0", binary_data=False)]
    result = client.infer("same", [tensor("INPUT0", values, False)], outputs=outputs)
    assert np.array_equal(result.as_numpy("OUTPUT0"), values)


def test_no_elements(client):
    none = np.empty((1, 0), dtype=np.float32)
    for binary in (True, False):
        result = client.infer("same", [tensor("INPUT0", none, binary)])
        assert result.as_numpy("OUTPUT0").shape == (1, 0)


def test_async_infer(client):
    rows = [np.full((1, 16), i, dtype=np.int32) for i in range(50)]
    pending = [client.async_infer("add", [tensor("INPUT0", row), tensor("INPUT1", row)]) for row in rows]
    for row, request in zip(rows, pending):
        assert np.array_equal(request.get_result().as_numpy("OUTPUT0"), row * 2)


def test_asyncio_client(server):
    async def work():
        async with triton_aio.InferenceServerClient(f"{server.host}:{server.port}") as client:
            assert await client.is_server_live()
            rows = [np.full((1, 16), i, dtype=np.int32) for i in range(20)]
            results = await asyncio.gather(
                *[client.infer("add", [tensor("INPUT0", row), tensor("INPUT1", row)]) for row in rows])
            for row, result in zip(rows, results):
                assert np.array_equal(result.as_numpy("OUTPUT0"), row * 2)

    asyncio.run(work())


def test_statistics_are_true(client):
    before = client.get_inference_statistics("add")["model_stats"][0]
    row = np.ones((3, 16), dtype=np.int32)
    for _ in range(4):
        client.infer("add", [tensor("INPUT0", row), tensor("INPUT1", row)])
    after = client.get_inference_statistics("add", "1")["model_stats"][0]
    assert (after["name"], after["version"]) == ("add", "1")
    assert after["inference_count"] - before["inference_count"] == 12
    assert after["execution_count"] - before["execution_count"] == 4
    success = after["inference_stats"]["success"]
    assert success["count"] - before["inference_stats"]["success"]["count"] == 4
    assert success["ns"] > before["inference_stats"]["success"]["ns"]
    assert after["last_inference"] > 1_700_000_000_000
    assert 3 in [batch["batch_size"] for batch in after["batch_stats"]]
    everything = client.get_inference_statistics()["model_stats"]
    assert {each["name"] for each in everything} == set(MODELS)
    refused(client.get_inference_statistics, "nobody", status=404, says="nobody")


def test_a_failed_run_is_counted_and_told(client):
    refused(client.infer, "failing", [tensor("INPUT0", np.array([[-1]], dtype=np.float32))], status=422, says="negative")
    stats = client.get_inference_statistics("failing")["model_stats"][0]["inference_stats"]
    assert stats["fail"]["count"] == 1


def test_errors(client, server):
    a = np.ones((1, 16), dtype=np.int32)
    both = [tensor("INPUT0", a), tensor("INPUT1", a)]
    refused(client.infer, "nobody", both, status=404, says="nobody")
    refused(client.infer, "add", both, "2", status=404, says="'2'")
    refused(client.infer, "text", both, status=400, says="tensors")
    refused(client.infer, "add", both[:1], status=400, says="'INPUT1' is missing")
    refused(client.infer, "add", [*both, tensor("INPUT2", a)], status=400, says="INPUT2")
    refused(client.infer, "add", [both[0], both[0]], status=400, says="twice")
    refused(client.infer, "add", [both[0], tensor("INPUT1", a.astype(np.float32))], status=400, says="FP32")
    refused(client.infer, "add", [both[0], tensor("INPUT1", a[:, :3])], status=400, says="[1,3]")
    refused(client.infer, "add", both, outputs=[triton.InferRequestedOutput("Y")], status=400, says="'Y'")
    refused(client.infer, "add", both, sequence_id=3, status=422, says="sequence_id")
    refused(client.infer, "add", both, outputs=[triton.InferRequestedOutput("OUTPUT0", class_count=2)],
            status=422, says="classification")
    refused(client.infer, "add", both, headers={"X-Penstock-Priority": "high"}, status=400, says="X-Penstock-Priority")
    assert client.infer("add", both, priority=2, timeout=10_000_000, parameters={"mine": "x"})
    url = server.url + "/v2/models/add/infer"
    for body, header, says in [
            (b"{", None, "JSON"), (b"", None, "no body"), (b"[]", None, "object"), (b"{}", None, "'inputs'"),
            (b"{}", "3", "Inference-Header-Content-Length"), (b"{}", "-1", "Inference-Header-Content-Length"),
            (b"{}xx", "2", "'inputs'"), (b'{"inputs":' + b"[" * 100 + b"]" * 100 + b"}", None, "64"),
            (b'{"inputs":[{"name":"INPUT0","shape":[4611686018427387904,4],"datatype":"FP32","data":[1]}]}', None,
             "shape")]:
        headers = {} if header is None else {"Inference-Header-Content-Length": header}
        answer = requests.post(url, data=body, headers=headers, timeout=10)
        assert answer.status_code == 400, (body, answer.text)
        assert set(answer.json()) == {"error"} and says in answer.json()["error"], answer.text
    answer = requests.post(server.url + "/v2/nothing", timeout=10)
    assert answer.status_code == 404 and set(answer.json()) == {"error"}
    assert requests.get(server.url + "/v2/repository/index", timeout=10).status_code == 405
    assert requests.get(url, timeout=10).headers["Allow"].startswith("POST")  # and not a model "add/infer"
    unknown = requests.post(server.url + "/v2/models/nobody/infer", data=b"{}", timeout=10)
    assert unknown.status_code == 404 and "nobody" in unknown.json()["error"]


def test_timeout_and_deadline(client):
    one = np.ones((1, 1), dtype=np.float32)
    pending = client.async_infer("slow", [tensor("INPUT0", one)])
    refused(client.infer, "slow", [tensor("INPUT0", one)], timeout=1000, status=503, says="time ran out")
    assert pending.get_result().as_numpy("OUTPUT0") == one


def test_traces_and_log_settings_are_refused_by_name(client):
    refused(client.get_trace_settings, status=422, says="trace/setting")
    refused(client.update_trace_settings, "add", {"trace_rate": "1"}, status=422, says="trace/setting")
    refused(client.get_log_settings, status=422, says="logging")
    refused(client.update_log_settings, {"log_info": True}, status=422, says="logging")


def state_of(client, name, while_it_is):
    """(state, reason) of a model, once it is no longer as it is."""
    end = time.monotonic() + 10
    while True:
        index = {each["name"]: each for each in client.get_model_repository_index()}
        if index[name]["state"] != while_it_is or time.monotonic() > end:
            return index[name]["state"], index[name]["reason"]


def test_repository(server):
    with triton.InferenceServerClient(f"{server.host}:{server.port}") as client:
        states = {each["name"]: each["state"] for each in client.get_model_repository_index()}
        assert states == {**dict.fromkeys(MODELS, "READY"), "text": "READY"}
        client.unload_model("flags")
        assert not client.is_model_ready("flags")
        assert state_of(client, "flags", while_it_is="UNLOADING") == ("UNAVAILABLE", "unloaded")
        client.load_model("flags")
        assert client.is_model_ready("flags")
        refused(client.load_model, "flags", config="{}", status=422, says="'config'")
        refused(client.load_model, "nobody", status=404, says="nobody")
        refused(client.unload_model, "nobody", status=404, says="nobody")
    ready = requests.post(server.url + "/v2/repository/index", json={"ready": True}, timeout=10).json()
    assert {each["state"] for each in ready} == {"READY"}


def test_a_model_is_loaded_by_the_first_question():
    server = Server(*model_args()[:2], preload=False)
    with triton.InferenceServerClient(f"{server.host}:{server.port}") as client:
        assert client.is_server_ready() and client.is_model_ready("same")
        assert client.get_model_repository_index()[0]["state"] == "UNAVAILABLE"
        assert client.get_model_metadata("same")["inputs"][0]["shape"] == [-1, -1]
        assert client.get_model_repository_index()[0]["state"] == "READY"
    assert server.stop() == 0


@pytest.fixture
def region(client):
    client.unregister_system_shared_memory()
    client.unregister_cuda_shared_memory()
    key = f"/penstock_e2e_{uuid.uuid4().hex}"
    handle = shm.create_shared_memory_region("mine", key, 4096)
    yield handle, key
    client.unregister_system_shared_memory()
    shm.destroy_shared_memory_region(handle)


def test_shared_memory(client, region):
    handle, key = region
    a = np.arange(32, dtype=np.int32).reshape(2, 16)
    shm.set_shared_memory_region(handle, [a, a * 3])
    client.register_system_shared_memory("mine", key, 4096)
    assert client.get_system_shared_memory_status() == [
        {"name": "mine", "key": key, "offset": 0, "byte_size": 4096}]
    assert client.get_system_shared_memory_status("mine")[0]["key"] == key
    inputs = [triton.InferInput(f"INPUT{i}", [2, 16], "INT32") for i in range(2)]
    for i, each in enumerate(inputs):
        each.set_shared_memory("mine", a.nbytes, offset=i * a.nbytes)
    outputs = [triton.InferRequestedOutput("OUTPUT0"), triton.InferRequestedOutput("OUTPUT1")]
    outputs[0].set_shared_memory("mine", a.nbytes, offset=1024)
    result = client.infer("add", inputs, outputs=outputs)
    assert result.get_output("OUTPUT0")["parameters"] == {
        "shared_memory_region": "mine", "shared_memory_offset": 1024, "shared_memory_byte_size": a.nbytes}
    assert np.array_equal(shm.get_contents_as_numpy(handle, np.int32, [2, 16], offset=1024), a * 4)
    assert np.array_equal(result.as_numpy("OUTPUT1"), a * -2)
    client.unregister_system_shared_memory("mine")
    assert client.get_system_shared_memory_status() == []
    refused(client.infer, "add", inputs, status=404, says="'mine'")


def test_hostile_shared_memory(client, region, server):
    _handle, key = region
    refused(client.register_system_shared_memory, "r", "../etc/passwd", 16, status=400, says="key")
    refused(client.register_system_shared_memory, "r", key, 4097, status=400, says="does not fit")
    refused(client.register_system_shared_memory, "r", key, 4096, offset=1, status=400, says="does not fit")
    refused(client.register_system_shared_memory, "r", key + "x", 16, status=400, says="cannot open")
    refused(client.register_cuda_shared_memory, "r", b"", 0, 16, status=422, says="cudasharedmemory")
    assert client.get_cuda_shared_memory_status() == []
    client.register_system_shared_memory("mine", key, 4096)
    refused(client.register_system_shared_memory, "mine", key, 4096, status=400, says="already")
    given = triton.InferInput("INPUT0", [1, 1024], "FP32")
    wanted = triton.InferRequestedOutput("OUTPUT0")
    given.set_shared_memory("mine", 4096)
    wanted.set_shared_memory("mine", 4095)
    refused(client.infer, "same", [given], outputs=[wanted], status=400, says="4095")
    given.set_shared_memory("mine", 4096, offset=1)
    refused(client.infer, "same", [given], status=400, says="not inside")
    # Cut short behind the server's back: a mapping would be a SIGBUS.
    given = triton.InferInput("INPUT0", [1, 1024], "FP32")
    given.set_shared_memory("mine", 4096)
    wanted.set_shared_memory("mine", 4096)
    with open(f"/dev/shm{key}", "r+b") as file:
        file.truncate(100)
    refused(client.infer, "same", [given], status=400, says="shorter")
    row = tensor("INPUT0", np.ones((1, 1024), dtype=np.float32))
    refused(client.infer, "same", [row], outputs=[wanted], status=400, says="shorter")
    assert client.is_server_live() and server.process.poll() is None
    with open(f"/dev/shm{key}", "r+b") as file:
        file.truncate(4096)


def test_shared_memory_is_off_by_default():
    server = Server(*model_args()[:2])
    with triton.InferenceServerClient(f"{server.host}:{server.port}") as client:
        refused(client.register_system_shared_memory, "r", "/r", 16, status=422, says="--shared-memory-bytes")
        assert "system_shared_memory" not in client.get_server_metadata()["extensions"]
    assert server.stop() == 0


def test_administrators_alone_load_and_register(tmp_path):
    server = Server(*model_args()[:2], "--api-key", "user", "--admin-api-key", "boss", "--shared-memory-bytes", 4096)
    user, boss = ({"Authorization": f"Bearer {key}"} for key in ("user", "boss"))
    with triton.InferenceServerClient(f"{server.host}:{server.port}") as client:
        assert client.is_server_live()
        refused(client.get_server_metadata, status=401, says="key")
        assert client.get_server_metadata(headers=user)
        for call in (client.load_model, client.unload_model):
            refused(call, "same", headers=user, status=403, says="administrator")
        refused(client.register_system_shared_memory, "r", "/r", 16, headers=user, status=403, says="administrator")
        client.load_model("same", headers=boss)
    assert server.stop() == 0


def test_a_client_that_leaves_hurts_nobody(server, client):
    body = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}).encode()
    for _ in range(3):
        with socket.create_connection((server.host, server.port), timeout=10) as connection:
            connection.sendall(b"POST /v2/models/slow/infer HTTP/1.1\r\nHost: localhost\r\n"
                               b"Content-Length: %d\r\n\r\n" % len(body) + body)
    one = np.ones((1, 1), dtype=np.float32)
    assert client.infer("slow", [tensor("INPUT0", one)]).as_numpy("OUTPUT0") == one
