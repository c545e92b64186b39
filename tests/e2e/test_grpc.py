"""The Open Inference Protocol over gRPC, with the clients of Triton and of gRPC as they are."""
import asyncio
import queue
import re
import signal
import ssl
import subprocess
import threading
import time
import uuid

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory as shm

from conftest import EMBED, GOLDEN, ROOT, Server, wait_for

pytestmark = pytest.mark.client("tritonclient", "grpc, grpc.aio: infer, streams, metadata, statistics, repository, shared memory")

Code = grpc.StatusCode
MODELS = {
    "same": "builtin:identity?type=FP32&shape=-1",
    "add": "builtin:add?type=INT32",
    "strings": "builtin:identity?type=BYTES&shape=-1",
    "halves": "builtin:identity?type=FP16&shape=4",
    "flags": "builtin:identity?type=BOOL&shape=3",
    "bytes": "builtin:identity?type=UINT8&shape=-1",
    "slow": "builtin:slow?ms=300&shape=1",
    "failing": "builtin:failing?shape=1",
}
SHARED_BYTES = 1 << 20


def model_args(*names):
    args = []
    for name in names or MODELS:
        args += ["--model", f"{name}={MODELS[name]}"]
    return args


def address(server):
    found = re.search(r"ready on \S+ and grpcs?://[^:]+:(\d+)", "".join(server.stdout))
    assert found, server.stdout
    return f"{server.host}:{found.group(1)}"


@pytest.fixture(scope="module")
def server_args():
    return (*model_args(), "--model", f"text={GOLDEN / EMBED}", "--grpc-port", "0", "--shared-memory-bytes", SHARED_BYTES)


@pytest.fixture
def start():
    """Starts servers, and stops them after the test."""
    servers = []

    def start(*args, **more):
        servers.append(Server(*args, "--grpc-port", "0", **more))
        return servers[-1]
    yield start
    for one in servers:
        assert one.stop() == 0


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(address(server)) as client:
        yield client


def tensor(name, values, datatype=None):
    values = np.asarray(values)
    given = triton.InferInput(name, list(values.shape), datatype or (triton.service_pb2 and
                              {"float32": "FP32", "int32": "INT32", "float16": "FP16", "bool": "BOOL", "uint8": "UINT8",
                               "object": "BYTES"}[values.dtype.name]))
    given.set_data_from_numpy(values)
    return given


def row(value, size=3):
    return np.full((1, size), value, np.float32)


def slow(value):
    return [tensor("INPUT0", np.full((1, 1), value, np.float32))]


def refused(code, text, call, *args, **more):
    with pytest.raises(InferenceServerException) as error:
        call(*args, **more)
    assert error.value.status() == f"StatusCode.{code.name}", error.value
    assert text in error.value.message(), error.value


# ---- What is served

def test_messages_are_those_of_the_protocol(server):
    """Names, numbers and types beside those of Triton's own client, as the server reflects them."""
    with grpc.insecure_channel(address(server)) as channel:
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        services = ProtoReflectionDescriptorDatabase(channel).get_services()
        assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= set(services)

        def compare(ours, theirs):
            assert ours.full_name == theirs.full_name
            one = {f.number: (f.name, f.type, f.is_repeated, f.message_type and f.message_type.full_name)
                   for f in ours.fields}
            other = {f.number: (f.name, f.type, f.is_repeated, f.message_type and f.message_type.full_name)
                     for f in theirs.fields}
            assert one == other, ours.full_name
            for nested, other_nested in zip(ours.nested_types, theirs.nested_types):
                compare(nested, other_nested)

        for name, message in service_pb2.DESCRIPTOR.message_types_by_name.items():
            compare(pool.FindMessageTypeByName(f"inference.{name}"), message)
        theirs = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
        ours = pool.FindServiceByName("inference.GRPCInferenceService")
        for method in theirs.methods:
            one = ours.FindMethodByName(method.name)
            assert (one.input_type.full_name, one.output_type.full_name) == (method.input_type.full_name,
                                                                            method.output_type.full_name)


def test_server_and_models_tell_of_themselves(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("add") and client.is_model_ready("add", "1")
    assert not client.is_model_ready("nobody") and not client.is_model_ready("add", "2")
    server = client.get_server_metadata()
    assert server.name == "penstock" and "system_shared_memory" in server.extensions
    metadata = client.get_model_metadata("add")
    assert [t.name for t in metadata.inputs] == ["INPUT0", "INPUT1"] and list(metadata.inputs[0].shape) == [-1, 16]
    config = client.get_model_config("add", as_json=True)["config"]
    assert config["max_batch_size"] == 256 and config["input"][0]["data_type"] == "TYPE_INT32"
    refused(Code.NOT_FOUND, "nobody", client.get_model_metadata, "nobody")
    refused(Code.UNIMPLEMENTED, "not a tensor model", client.get_model_metadata, "text")


def test_repository(start):
    with triton.InferenceServerClient(address(start(*model_args("add", "same")))) as client:
        states = {m.name: m.state for m in client.get_model_repository_index().models}
        assert states == {"add": "READY", "same": "READY"}
        client.unload_model("add")
        assert wait_for(lambda: not client.is_model_ready("add"))
        assert [m.name for m in client.get_model_repository_index().models if m.state == "READY"] == ["same"]
        client.load_model("add")
        assert client.is_model_ready("add")
        refused(Code.UNIMPLEMENTED, "parameter 'config'", client.load_model, "add", config="{}")
        refused(Code.NOT_FOUND, "nobody", client.load_model, "nobody")


def test_statistics(client):
    before = client.get_inference_statistics("same").model_stats[0]
    client.infer("same", [tensor("INPUT0", row(1))])
    after = client.get_inference_statistics("same").model_stats[0]
    assert after.inference_count == before.inference_count + 1
    assert after.inference_stats.success.count == before.inference_stats.success.count + 1
    assert {m.name for m in client.get_inference_statistics().model_stats} == set(MODELS)


def test_what_is_not_there_is_refused_by_name(client):
    refused(Code.UNIMPLEMENTED, "TraceSetting", client.get_trace_settings)
    refused(Code.UNIMPLEMENTED, "LogSettings", client.get_log_settings)
    refused(Code.UNIMPLEMENTED, "CudaSharedMemoryRegister", client.register_cuda_shared_memory, "r", b"AAAA", 0, 64)
    client.unregister_cuda_shared_memory()
    assert not client.get_cuda_shared_memory_status().regions


# ---- Inference

def test_infers(client):
    a, b = np.arange(32, dtype=np.int32).reshape(2, 16), np.ones((2, 16), np.int32)
    result = client.infer("add", [tensor("INPUT0", a), tensor("INPUT1", b)], request_id="7")
    assert (result.as_numpy("OUTPUT0") == a + b).all() and (result.as_numpy("OUTPUT1") == a - b).all()
    response = result.get_response()
    assert (response.id, response.model_name, response.model_version) == ("7", "add", "1")
    result = client.infer("add", [tensor("INPUT1", b), tensor("INPUT0", a)],
                          outputs=[triton.InferRequestedOutput("OUTPUT1")])
    assert (result.as_numpy("OUTPUT1") == a - b).all() and result.as_numpy("OUTPUT0") is None
    result = client.infer("add", [tensor("INPUT0", a), tensor("INPUT1", b)], model_version="1", priority=2,
                          timeout=10_000_000, parameters={"mine": "x"})
    assert (result.as_numpy("OUTPUT0") == a + b).all()


@pytest.mark.parametrize("model, values", [
    ("halves", np.array([[1, 2, 3, 4]], np.float16)),
    ("flags", np.array([[True, False, True]])),
    ("bytes", np.arange(256, dtype=np.uint8).reshape(2, 128)),
    ("strings", np.array([["", "a", "ä" * 1000]], object)),
    ("same", np.zeros((1, 0), np.float32)),
    ("same", np.random.default_rng(1).standard_normal((3, 100_000)).astype(np.float32)),
])
def test_types_and_sizes(client, model, values):
    result = client.infer(model, [tensor("INPUT0", values)]).as_numpy("OUTPUT0")
    assert result.shape == values.shape
    if model == "strings":
        result = np.array([[x.decode() for x in line] for line in result], object)
    assert (result == values).all()


def test_typed_contents(server):
    """What clients without numpy send: elements in the fields of the message."""
    with grpc.insecure_channel(address(server)) as channel:
        from tritonclient.grpc import service_pb2_grpc
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)

        def request(model, datatype, shape, **contents):
            return service_pb2.ModelInferRequest(model_name=model, inputs=[
                service_pb2.ModelInferRequest.InferInputTensor(
                    name="INPUT0", datatype=datatype, shape=shape,
                    contents=service_pb2.InferTensorContents(**contents))])

        answer = stub.ModelInfer(request("same", "FP32", [1, 2], fp32_contents=[1.5, -2]))
        assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [1.5, -2]
        answer = stub.ModelInfer(request("bytes", "UINT8", [1, 3], uint_contents=[0, 255, 7]))
        assert answer.raw_output_contents[0] == b"\x00\xff\x07"
        answer = stub.ModelInfer(request("flags", "BOOL", [1, 3], bool_contents=[True, False, True]))
        assert answer.raw_output_contents[0] == b"\x01\x00\x01"
        answer = stub.ModelInfer(request("strings", "BYTES", [1, 2], bytes_contents=[b"abc", b""]))
        assert answer.raw_output_contents[0] == b"\x03\x00\x00\x00abc\x00\x00\x00\x00"
        adding = request("add", "INT32", [1, 16], int_contents=range(16))
        adding.inputs.append(service_pb2.ModelInferRequest.InferInputTensor(
            name="INPUT1", datatype="INT32", shape=[1, 16],
            contents=service_pb2.InferTensorContents(int_contents=[1] * 16)))
        adding.outputs.add().name = "OUTPUT1"
        answer = stub.ModelInfer(adding)
        assert len(answer.outputs) == 1
        assert np.frombuffer(answer.raw_output_contents[0], np.int32).tolist() == list(range(-1, 15))
        for bad in (request("bytes", "UINT8", [1, 1], uint_contents=[256]),
                    request("halves", "FP16", [1, 4], fp32_contents=[1, 2, 3, 4]),
                    request("same", "FP32", [1, 3], fp32_contents=[1, 2])):
            with pytest.raises(grpc.RpcError) as error:
                stub.ModelInfer(bad)
            assert error.value.code() == Code.INVALID_ARGUMENT


def test_errors(client):
    refused(Code.NOT_FOUND, "nobody", client.infer, "nobody", slow(1))
    refused(Code.NOT_FOUND, "version", client.infer, "same", [tensor("INPUT0", row(1))], model_version="7")
    refused(Code.INVALID_ARGUMENT, "INPUT0", client.infer, "same", [tensor("INPUT1", row(1))])
    refused(Code.INVALID_ARGUMENT, "shape", client.infer, "halves", [tensor("INPUT0", np.zeros((1, 5), np.float16))])
    refused(Code.INVALID_ARGUMENT, "FP32", client.infer, "same", [tensor("INPUT0", np.zeros((1, 3), np.int32))])
    refused(Code.UNIMPLEMENTED, "classification", client.infer, "same", [tensor("INPUT0", row(1))],
            outputs=[triton.InferRequestedOutput("OUTPUT0", class_count=2)])
    refused(Code.UNIMPLEMENTED, "sequence", client.infer, "same", [tensor("INPUT0", row(1))], sequence_id=5,
            sequence_start=True)
    with pytest.raises(InferenceServerException) as error:
        client.infer("failing", [tensor("INPUT0", row(-1, 1))])
    assert error.value.status() in ("StatusCode.INTERNAL", "StatusCode.INVALID_ARGUMENT")
    assert client.infer("failing", [tensor("INPUT0", row(1, 1))]).as_numpy("OUTPUT0")[0, 0] == 1


def test_async_infer(client):
    answers = queue.Queue()
    for i in range(50):
        client.async_infer("same", [tensor("INPUT0", row(i))], lambda result, error: answers.put((result, error)),
                           request_id=str(i))
    for _ in range(50):
        result, error = answers.get(timeout=20)
        assert error is None
        assert result.as_numpy("OUTPUT0")[0, 0] == int(result.get_response().id)


def test_asyncio_client(server):
    async def run():
        async with triton_aio.InferenceServerClient(address(server)) as client:
            assert await client.is_server_ready()
            results = await asyncio.gather(*[client.infer("same", [tensor("INPUT0", row(i))]) for i in range(50)])
            assert [r.as_numpy("OUTPUT0")[0, 0] for r in results] == list(range(50))

            async def requests():
                for i in range(20):
                    yield {"model_name": "same", "inputs": [tensor("INPUT0", row(i))], "request_id": str(i)}
            order = [(result.get_response().id, error) async for result, error in client.stream_infer(requests())]
            assert order == [(str(i), None) for i in range(20)]
    asyncio.run(run())


def test_stream_answers_in_order(client):
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    client.async_stream_infer("slow", slow(0), request_id="0")
    for i in range(1, 200):
        client.async_stream_infer("nobody" if i == 100 else "same", [tensor("INPUT0", row(i))], request_id=str(i),
                                  enable_empty_final_response=True)
    for i in range(200):
        result, error = answers.get(timeout=20)
        if i == 100:
            assert "nobody" in error.message()
            continue
        assert error is None and result.get_response().id == str(i)
        assert result.get_response().parameters["triton_final_response"].bool_param
        assert result.as_numpy("OUTPUT0")[0, 0] == i
    client.stop_stream()


def test_shared_memory(client):
    key, values = f"/penstock-{uuid.uuid4().hex}", np.arange(16, dtype=np.int32).reshape(1, 16)
    handle = shm.create_shared_memory_region("in_out", key, 256)
    try:
        shm.set_shared_memory_region(handle, [values, values])
        client.register_system_shared_memory("in_out", key, 256)
        status = client.get_system_shared_memory_status(as_json=True)["regions"]["in_out"]
        assert (status["key"], status["byte_size"]) == (key, "256")
        inputs = [triton.InferInput(f"INPUT{i}", [1, 16], "INT32") for i in range(2)]
        for i, each in enumerate(inputs):
            each.set_shared_memory("in_out", 64, offset=64 * i)
        outputs = [triton.InferRequestedOutput("OUTPUT0"), triton.InferRequestedOutput("OUTPUT1")]
        outputs[0].set_shared_memory("in_out", 64, offset=128)
        result = client.infer("add", inputs, outputs=outputs)
        assert (shm.get_contents_as_numpy(handle, np.int32, [1, 16], 128) == 2 * values).all()
        assert (result.as_numpy("OUTPUT1") == 0).all()
        assert result.get_output("OUTPUT0").parameters["shared_memory_region"].string_param == "in_out"
        inputs[0].set_shared_memory("in_out", 64, offset=224)
        refused(Code.INVALID_ARGUMENT, "in_out", client.infer, "add", inputs)
        refused(Code.NOT_FOUND, "elsewhere", client.get_system_shared_memory_status, "elsewhere")
        client.unregister_system_shared_memory("in_out")
        assert not client.get_system_shared_memory_status().regions
        refused(Code.NOT_FOUND, "in_out", client.infer, "add", inputs)
    finally:
        shm.destroy_shared_memory_region(handle)


def test_text_as_it_is_generated(start):
    """The text of /v1/completions, in one answer or as it comes, and errors as answers."""
    server = start("--model", f"writer={ROOT / 'tests' / 'golden' / 'decoders' / 'llama'}", *model_args("same"))
    body = {"model": "writer", "prompt": "The quick", "max_tokens": 12, "temperature": 0, "ignore_eos": True}
    whole = server.post("/v1/completions", body).json()["choices"][0]["text"]
    parameters = {"max_tokens": 12, "temperature": 0.0, "ignore_eos": True}

    def ask(client, answers, streams, **more):
        inputs = [tensor("text_input", np.array([b"The quick"], object))]
        if streams is not None:
            inputs.append(tensor("stream", np.array([streams])))
        client.async_stream_infer("writer", inputs, request_id="t", **{"parameters": parameters, **more})

    def text_of(result):
        output = result.as_numpy("text_output")
        return b"" if output is None else output[0]

    with triton.InferenceServerClient(address(server)) as client:
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        ask(client, answers, None)
        result, error = answers.get(timeout=20)
        assert error is None and text_of(result) == whole.encode()
        ask(client, answers, True, enable_empty_final_response=True)
        pieces, last = [], False
        while not last:
            result, error = answers.get(timeout=20)
            assert error is None and result.get_response().id == "t"
            last = result.get_response().parameters["triton_final_response"].bool_param
            pieces.append(text_of(result))
        assert b"".join(pieces) == whole.encode() and len(pieces) > 3 and pieces[-1] == b""
        # Answers keep the order of the requests, whatever model they are for.
        ask(client, answers, False)
        client.async_stream_infer("same", [tensor("INPUT0", row(3))], request_id="after")
        assert answers.get(timeout=20)[0].get_response().id == "t"
        assert answers.get(timeout=20)[0].get_response().id == "after"
        ask(client, answers, True, parameters={"temperature": 9.0})
        assert "temperature" in answers.get(timeout=20)[1].message()
        ask(client, answers, True, parameters={"max_tokens": 5})
        assert answers.get(timeout=20)[1] is None  # the rest is not read
        client.stop_stream(cancel_requests=True)
        assert wait_for(lambda: server.metrics()["penstock_grpc_in_flight"] == 0)


def test_many_clients(server):
    wrong = []

    def work(number):
        with triton.InferenceServerClient(address(server)) as client:
            for i in range(100):
                value = number * 1000 + i
                if client.infer("same", [tensor("INPUT0", row(value))]).as_numpy("OUTPUT0")[0, 2] != value:
                    wrong.append(value)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- Health, metrics, logs

def test_health(start):
    server = start(*model_args("add"))
    with grpc.insecure_channel(address(server)) as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        def check(service):
            return stub.Check(health_pb2.HealthCheckRequest(service=service)).status

        serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
        assert check("") == check("inference.GRPCInferenceService") == check("add") == serving
        with pytest.raises(grpc.RpcError) as error:
            check("nobody")
        assert error.value.code() == Code.NOT_FOUND
        changes = stub.Watch(health_pb2.HealthCheckRequest(service="add"))
        assert next(changes).status == serving
        unknown = stub.Watch(health_pb2.HealthCheckRequest(service="nobody"))
        assert next(unknown).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        unknown.cancel()
        with triton.InferenceServerClient(address(server)) as client:
            client.unload_model("add")
        assert next(changes).status == not_serving
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(grpc.RpcError) as error:
            while True:
                assert next(changes).status == not_serving
        assert error.value.code() == Code.UNAVAILABLE
    assert server.process.wait(20) == 0


def test_metrics_and_log(start):
    server = start(*model_args("same"), "--access-log")
    with triton.InferenceServerClient(address(server)) as client:
        client.infer("same", [tensor("INPUT0", row(1))], headers={"x-request-id": "found-in-the-log"})
        refused(Code.NOT_FOUND, "nobody", client.infer, "nobody", slow(1))
    name = "penstock_grpc_requests_total"
    method = 'method="/inference.GRPCInferenceService/ModelInfer"'
    assert wait_for(lambda: server.metrics().get(f'{name}{{{method},code="NOT_FOUND"}}') == 1)
    metrics = server.metrics()
    assert metrics[f'{name}{{{method},code="OK"}}'] == 1 and metrics["penstock_grpc_in_flight"] == 0
    assert metrics[f"penstock_grpc_request_duration_seconds_count{{{method}}}"] == 2
    assert wait_for(lambda: any(re.search(r"GRPC /inference.GRPCInferenceService/ModelInfer OK \S+ ms, .*"
                                          r"id found-in-the-log", line) for line in server.log))


# ---- Access

def infer_code(client, **more):
    try:
        client.infer("same", [tensor("INPUT0", row(1))], **more)
        return "OK"
    except InferenceServerException as error:
        return error.status().removeprefix("StatusCode.")


def test_keys(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("one\n")
    server = start(*model_args("same"), "--api-key-file", keys, "--admin-api-key", "chief")
    with triton.InferenceServerClient(address(server)) as client:
        assert client.is_server_live()
        assert infer_code(client) == "UNAUTHENTICATED"
        assert infer_code(client, headers={"authorization": "Bearer other"}) == "UNAUTHENTICATED"
        assert infer_code(client, headers={"authorization": "Bearer one"}) == "OK"
        assert infer_code(client, headers={"x-api-key": "one"}) == "OK"
        refused(Code.PERMISSION_DENIED, "administrator", client.unload_model, "same", headers={"x-api-key": "one"})
        keys.write_text("two\n")
        server.process.send_signal(signal.SIGHUP)
        assert wait_for(lambda: infer_code(client, headers={"x-api-key": "two"}) == "OK")
        assert infer_code(client, headers={"x-api-key": "one"}) == "UNAUTHENTICATED"
        client.unload_model("same", headers={"x-api-key": "chief"})
        metrics = server.get("/metrics", headers={"authorization": "Bearer two"}).text
        assert 'penstock_grpc_keys_refused_total{reason="missing"} 1\n' in metrics
    # The health of the server is told to everybody, that of models to those with a key.
    with grpc.insecure_channel(address(server)) as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        def code(name, key, call=stub.Check):
            try:
                answer = call(health_pb2.HealthCheckRequest(service=name), metadata=key and [("x-api-key", key)])
                next(answer) if call == stub.Watch else answer
                return Code.OK
            except grpc.RpcError as error:
                return error.code()
        assert code("", None) == code("inference.GRPCInferenceService", None) == code("same", "two") == Code.OK
        assert code("same", None) == code("nobody", None) == code("same", "wrong") == Code.UNAUTHENTICATED
        assert code("same", None, stub.Watch) == Code.UNAUTHENTICATED
        assert code("nobody", "two") == Code.NOT_FOUND


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)


def authority(folder, name):
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", 2, "-subj",
            f"/CN={name}")
    return cert, key


def signed(folder, name, ca):
    key, request, cert = folder / f"{name}.key", folder / f"{name}.csr", folder / f"{name}.pem"
    names = folder / f"{name}.ext"
    names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}")
    openssl("x509", "-req", "-in", request, "-CA", ca[0], "-CAkey", ca[1], "-CAcreateserial", "-out", cert, "-days", 2,
            "-extfile", names)
    return cert, key


def secure_code(server, ca, pair=None):
    """The code of a call over TLS that trusts `ca` and shows the certificate `pair`."""
    cert, key = pair or (None, None)
    credentials = grpc.ssl_channel_credentials(ca[0].read_bytes(), key and key.read_bytes(), cert and cert.read_bytes())
    with grpc.secure_channel(address(server), credentials) as channel:
        try:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
            return Code.OK
        except grpc.RpcError as error:
            return error.code()


def test_tls_is_read_again_on_sighup(start, tmp_path):
    first, second = authority(tmp_path, "first"), authority(tmp_path, "second")
    cert, key = signed(tmp_path, "server", first)
    other_cert, other_key = signed(tmp_path, "other", second)
    server = start(*model_args("same"), "--tls-cert", cert, "--tls-key", key)
    assert "grpcs://" in "".join(server.stdout)
    assert secure_code(server, first) == Code.OK
    assert secure_code(server, second) == Code.UNAVAILABLE
    cert.write_bytes(other_cert.read_bytes())  # and not its key
    server.process.send_signal(signal.SIGHUP)
    assert wait_for(lambda: any("gRPC: not reloaded" in line for line in server.log))
    assert secure_code(server, first) == Code.OK
    key.write_bytes(other_key.read_bytes())
    server.process.send_signal(signal.SIGHUP)
    assert wait_for(lambda: secure_code(server, second) == Code.OK)
    assert secure_code(server, first) == Code.UNAVAILABLE


def test_clients_show_certificates(start, tmp_path):
    ours, theirs, others = (authority(tmp_path, name) for name in ("ours", "theirs", "others"))
    cert, key = signed(tmp_path, "server", ours)
    server = start(*model_args("same"), "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", theirs[0])
    known, unknown = signed(tmp_path, "known", theirs), signed(tmp_path, "unknown", others)
    assert secure_code(server, ours, known) == Code.OK
    assert secure_code(server, ours, unknown) == Code.UNAVAILABLE
    assert secure_code(server, ours) == Code.UNAVAILABLE

    def http(pair):
        context = ssl.create_default_context(cafile=ours[0])
        if pair:
            context.load_cert_chain(*pair)
        try:
            with server.connect() as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as tls:
                tls.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return tls.recv(100).startswith(b"HTTP/1.1 200")
        except (ssl.SSLError, ConnectionError):
            return False
    assert http(known) and not http(unknown) and not http(None)


def test_limits_and_ends(start):
    server = start(*model_args("same", "slow"), "--max-body-bytes", 1 << 20)
    with triton.InferenceServerClient(address(server)) as client:
        refused(Code.RESOURCE_EXHAUSTED, "larger than max", client.infer, "same",
                [tensor("INPUT0", np.zeros((1, 1 << 20), np.float32))])
        begin = time.monotonic()
        refused(Code.DEADLINE_EXCEEDED, "", client.infer, "slow", slow(1), client_timeout=0.05)
        assert time.monotonic() - begin < 2
        compressed = [tensor("INPUT0", np.zeros((1, 1 << 17), np.float32))]
        assert not client.infer("same", compressed, compression_algorithm="gzip").as_numpy("OUTPUT0").any()
        refused(Code.UNIMPLEMENTED, "", client.infer, "same", compressed, compression_algorithm="deflate")
        answers = queue.Queue()
        call = client.async_infer("slow", slow(1), lambda result, error: answers.put(error))
        call.cancel()
        assert "Locally cancelled" in answers.get(timeout=10).message()
        assert wait_for(lambda: server.metrics()["penstock_grpc_in_flight"] == 0)
        assert infer_code(client) == "OK"


def test_a_port_that_is_taken(start):
    server = start(*model_args("same"))
    port = address(server).rsplit(":", 1)[1]
    second = Server(*model_args("same"), "--grpc-port", port, ready=False)
    assert second.process.wait(30) != 0
    assert any(f":{port}" in line for line in second.log)


def test_shutdown_lets_calls_end(start):
    server = start(*model_args("slow"))
    with triton.InferenceServerClient(address(server)) as client:
        answers = queue.Queue()
        for i in range(4):
            client.async_infer("slow", slow(i), lambda result, error: answers.put((result, error)))
        assert wait_for(lambda: server.metrics()["penstock_grpc_in_flight"] == 4)
        server.process.send_signal(signal.SIGTERM)
        for _ in range(4):
            assert answers.get(timeout=20)[1] is None
    assert server.process.wait(20) == 0
