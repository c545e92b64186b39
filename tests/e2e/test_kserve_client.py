"""KServe's REST client, unchanged."""
import asyncio

import httpx
import pytest

pytest.importorskip("kserve", reason="NO KSERVE HERE: tests/e2e/requirements-kserve.txt")

import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig
from kserve.protocol.infer_type import RequestedOutput

pytestmark = pytest.mark.client("kserve", "InferenceRESTClient: live, ready, infer")


@pytest.fixture(scope="module")
def server_args():
    return "--model", "add=builtin:add?type=FP32&shape=4", "--model", "words=builtin:identity?type=BYTES&shape=-1"


def ask(server, work):
    async def run():
        async with InferenceRESTClient(RESTConfig(protocol="v2", retries=0)) as client:
            return await work(client, server.url)

    return asyncio.run(run())


def given(name, values, datatype, binary):
    tensor = InferInput(name, list(values.shape), datatype)
    tensor.set_data_from_numpy(values, binary_data=binary)
    return tensor


def test_live_and_ready(server):
    assert ask(server, lambda client, url: client.is_server_live(url))
    assert ask(server, lambda client, url: client.is_server_ready(url))
    assert ask(server, lambda client, url: client.is_model_ready(url, "add"))
    assert not ask(server, lambda client, url: client.is_model_ready(url, "nobody"))


@pytest.mark.parametrize("binary", [True, False])
def test_infer(server, binary):
    a = np.arange(8, dtype=np.float32).reshape(2, 4)
    b = np.full((2, 4), 0.1, dtype=np.float32)
    request = InferRequest("add", [given("INPUT0", a, "FP32", binary), given("INPUT1", b, "FP32", not binary)],
                           request_id="7", request_outputs=[RequestedOutput("OUTPUT1", {"binary_data": binary})])
    response = ask(server, lambda client, url: client.infer(url, request, model_name="add"))
    assert response.id == "7" and response.model_name == "add"
    assert [output.name for output in response.outputs] == ["OUTPUT1"]
    assert np.array_equal(response.outputs[0].as_numpy(), a - b)


@pytest.mark.parametrize("binary", [True, False])
def test_strings(server, binary):
    words = np.array([["a", "\u4e16", ""]], dtype=object)
    request = InferRequest("words", [given("INPUT0", words, "BYTES", binary)])
    response = ask(server, lambda client, url: client.infer(url, request, model_name="words"))
    result = response.outputs[0].as_numpy()
    assert [text.decode() if isinstance(text, bytes) else text for text in result.flatten()] == list(words[0])


def test_an_error_has_its_message(server):
    request = InferRequest("nobody", [given("INPUT0", np.ones((1, 4), dtype=np.float32), "FP32", True)])
    with pytest.raises(httpx.HTTPStatusError, match=r"nobody.*404"):
        ask(server, lambda client, url: client.infer(url, request, model_name="nobody"))
