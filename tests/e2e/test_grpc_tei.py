"""text-embeddings-inference's gRPC API: the same answers as over HTTP, streams in order, errors by code.

The clients are made from src/grpc/tei.proto by grpcio-tools; one test makes them from what the
server says of itself (reflection).
"""
import importlib
import random
import re
import sys
import threading

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_tools import protoc

from conftest import ALL_MODELS, EMBED, RERANK, ROOT, expected, find_minilm, model_args, serving, wait_for

TEXTS = [case["text"] for case in expected(EMBED)["texts"] if not case.get("prompt_name")]
PAIRS = [case for case in expected(RERANK)["texts"] if case.get("text_pair")]
QUERY = PAIRS[0]["text"]
DOCUMENTS = [case["text_pair"] for case in PAIRS if case["text"] == QUERY]
SERVICES = {"Info": ["Info"],
            "Embed": ["Embed", "EmbedStream", "EmbedSparse", "EmbedSparseStream", "EmbedAll", "EmbedAllStream"],
            "Predict": ["Predict", "PredictPair", "PredictStream", "PredictPairStream"],
            "Rerank": ["Rerank", "RerankStream"],
            "Tokenize": ["Tokenize", "TokenizeStream", "Decode", "DecodeStream"]}
Code = grpc.StatusCode


@pytest.fixture(scope="module")
def pb(tmp_path_factory):
    """(messages, stubs) of tei.proto."""
    out = tmp_path_factory.mktemp("stubs")
    source = ROOT / "src" / "grpc"
    assert protoc.main(["protoc", f"-I{source}", f"--python_out={out}", f"--grpc_python_out={out}",
                        str(source / "tei.proto")]) == 0
    sys.path.insert(0, str(out))
    yield importlib.import_module("tei_pb2"), importlib.import_module("tei_pb2_grpc")
    sys.path.remove(str(out))


def grpc_address(server):
    port = re.search(r"listening on grpcs?://\S*:(\d+)", "".join(server.log))
    assert port, "".join(server.log)
    return f"127.0.0.1:{port.group(1)}"


class Client:
    """Stubs of all services on one channel; calls of `model` with `metadata`."""

    def __init__(self, server, pb, *metadata):
        self.server = server
        self.pb, stubs = pb
        self.channel = grpc.insecure_channel(grpc_address(server),
                                             options=[("grpc.max_receive_message_length", 64 << 20)])
        self.metadata = metadata
        for name in SERVICES:
            setattr(self, name.lower(), getattr(stubs, f"{name}Stub")(self.channel))

    def of(self, model):
        other = Client.__new__(Client)
        other.__dict__.update(self.__dict__)
        other.metadata = (*self.metadata, ("model", model))
        return other

    def call(self, service, method, request, **more):
        return getattr(getattr(self, service), method)(request, metadata=self.metadata, timeout=60, **more)

    def Embed(self, text, **more):
        return self.call("embed", "Embed", self.pb.EmbedRequest(inputs=text, **more))


@pytest.fixture(scope="module")
def client(pb):
    with serving(*model_args(*ALL_MODELS), "--grpc-port", "0") as server:
        client = Client(server, pb)
        yield client
        client.channel.close()


@pytest.fixture(scope="module")
def minilm_client(pb):
    folder = find_minilm()
    if folder is None:
        pytest.skip("all-MiniLM-L6-v2 IS NOT HERE: set PENSTOCK_MINILM to its folder")
    with serving("--model", f"minilm={folder}", "--grpc-port", "0") as server:
        client = Client(server, pb)
        yield client
        client.channel.close()


def floats(values):
    return np.array(values, dtype=np.float32)


def refused(call, code, part=""):
    with pytest.raises(grpc.RpcError) as caught:
        answer = call()
        list(answer) if hasattr(answer, "__next__") else answer
    assert caught.value.code() == code, caught.value.details()
    assert part in caught.value.details()
    return caught.value


def sentences(count):
    words = ["the", "river", "carries", "cold", "water", "past", "old", "stones", "while", "a", "heron", "waits", "for", "morning", "light"]
    chosen = random.Random(7)
    return [" ".join(chosen.choices(words, k=chosen.randint(1, 30))) for _ in range(count)]


def test_reflection_tells_every_method(client):
    database = ProtoReflectionDescriptorDatabase(client.channel)
    pool = descriptor_pool.DescriptorPool(database)
    assert {f"tei.v1.{name}" for name in SERVICES} <= set(database.get_services())
    for name, methods in SERVICES.items():
        assert [method.name for method in pool.FindServiceByName(f"tei.v1.{name}").methods] == methods
    method = pool.FindServiceByName("tei.v1.Embed").FindMethodByName("Embed")
    request = message_factory.GetMessageClass(method.input_type)(inputs="x")
    call = client.channel.unary_unary(
        "/tei.v1.Embed/Embed", request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=message_factory.GetMessageClass(method.output_type).FromString)
    assert list(call(request).embeddings) == list(client.Embed("x").embeddings)


def test_embed_gives_the_bits_of_http(minilm_client):
    texts = sentences(40) + TEXTS
    http = minilm_client.server.post("/embed", {"inputs": texts, "truncate": True}).json()
    for text, row in zip(texts, http):
        answer = minilm_client.Embed(text, truncate=True)
        assert np.array_equal(floats(answer.embeddings), floats(row))


def test_embed_takes_the_fields_of_tei(client):
    http = client.server
    text = TEXTS[0]
    assert np.linalg.norm(client.Embed(text).embeddings) == pytest.approx(1, abs=1e-5)  # by default
    for fields in ({"normalize": False}, {"dimensions": 8}, {"truncate": True}):
        row = http.post("/embed", {"inputs": text, **fields}).json()[0]
        assert np.array_equal(floats(client.Embed(text, **fields).embeddings), floats(row))
    long = "dog " * 60 + "cat " * 60
    left, right = (client.Embed(long, truncate=True, truncation_direction=side).embeddings for side in (1, 0))
    assert list(left) != list(right)
    for side, name in ((left, "left"), (right, "right")):
        row = http.post("/embed", {"inputs": long, "truncate": True, "truncation_direction": name}).json()[0]
        assert np.array_equal(floats(side), floats(row))
    # Unlike over HTTP, where the server's default counts, false is what is not set.
    refused(lambda: client.Embed(long), Code.INVALID_ARGUMENT, "Input validation error: inputs")
    refused(lambda: client.Embed("x", truncation_direction=7), Code.INVALID_ARGUMENT, "'truncation_direction'")
    refused(lambda: client.Embed("x", dimensions=100000), Code.INVALID_ARGUMENT, "dimensions")
    refused(lambda: client.Embed("x", prompt_name="nope"), Code.INVALID_ARGUMENT, "nope")


def test_embed_all(client):
    http = client.server.post("/embed_all", {"inputs": TEXTS[0]}).json()[0]
    answer = client.call("embed", "EmbedAll", client.pb.EmbedAllRequest(inputs=TEXTS[0]))
    rows = [floats(token.embeddings) for token in answer.token_embeddings]
    assert np.array_equal(floats(rows), floats(http))
    assert answer.metadata.compute_tokens == len(rows)


def test_sparse_embeddings_are_refused(client):
    request = client.pb.EmbedSparseRequest(inputs="x")
    refused(lambda: client.call("embed", "EmbedSparse", request), Code.FAILED_PRECONDITION, "SPLADE")
    refused(lambda: client.call("embed", "EmbedSparseStream", iter([request])), Code.FAILED_PRECONDITION, "SPLADE")


@pytest.mark.parametrize("raw", [True, False])
def test_rerank(client, raw):
    http = client.server.post("/rerank", {"model": "rerank", "query": QUERY, "texts": DOCUMENTS, "raw_scores": raw})
    ranks = [(rank["index"], np.float32(rank["score"])) for rank in http.json()]
    request = client.pb.RerankRequest(query=QUERY, texts=DOCUMENTS, raw_scores=raw, return_text=True)
    answer = client.call("rerank", "Rerank", request)
    assert [(rank.index, np.float32(rank.score)) for rank in answer.ranks] == ranks
    assert [rank.text for rank in answer.ranks] == [DOCUMENTS[index] for index, _ in ranks]
    assert answer.metadata.compute_chars == sum(len(QUERY) + len(text) for text in DOCUMENTS)
    plain = client.call("rerank", "Rerank", client.pb.RerankRequest(query=QUERY, texts=DOCUMENTS))
    assert not plain.ranks[0].HasField("text")
    # The first message says it for all.
    stream = [client.pb.RerankStreamRequest(query=QUERY, text=text, raw_scores=raw if i == 0 else not raw,
                                            return_text=i == 0) for i, text in enumerate(DOCUMENTS)]
    streamed = client.call("rerank", "RerankStream", iter(stream))
    assert list(streamed.ranks) == list(answer.ranks)
    assert streamed.metadata.compute_chars == answer.metadata.compute_chars
    assert streamed.metadata.compute_tokens == answer.metadata.compute_tokens


def test_rerank_refuses(client):
    pb = client.pb
    for request, part in ((pb.RerankRequest(query=QUERY), "texts"), (pb.RerankRequest(texts=["a"]), "query"),
                          (pb.RerankRequest(query="q", texts=["a"] * 2049), "texts has 2049 entries")):
        refused(lambda: client.call("rerank", "Rerank", request), Code.INVALID_ARGUMENT, part)
    refused(lambda: client.call("rerank", "RerankStream", iter([])), Code.INVALID_ARGUMENT, "no texts")
    for model in ("embed", "classify"):
        refused(lambda: client.of(model).call("rerank", "Rerank", pb.RerankRequest(query="q", texts=["a"])),
                Code.FAILED_PRECONDITION, "it offers")
    bad = [pb.RerankStreamRequest(query="q", text="a"), pb.RerankStreamRequest(text="b")]
    refused(lambda: client.call("rerank", "RerankStream", iter(bad)), Code.INVALID_ARGUMENT, "query is empty")


def test_a_rerank_stream_of_many_texts_and_queries(client):
    texts = sentences(1000)
    stream = (client.pb.RerankStreamRequest(query=f"{QUERY} {i % 3}", text=text, truncate=True)
              for i, text in enumerate(texts))
    answer = client.call("rerank", "RerankStream", stream)
    assert sorted(rank.index for rank in answer.ranks) == list(range(1000))
    scores = [rank.score for rank in answer.ranks]
    assert scores == sorted(scores, reverse=True)
    for rank in answer.ranks[:5]:
        alone = client.pb.RerankRequest(query=f"{QUERY} {rank.index % 3}", texts=[texts[rank.index]], truncate=True)
        assert client.call("rerank", "Rerank", alone).ranks[0].score == rank.score


def test_predict(client):
    http = client.server.post("/predict", {"model": "classify", "inputs": TEXTS[0]}).json()
    labels = [(label["label"], np.float32(label["score"])) for label in http]
    answer = client.call("predict", "Predict", client.pb.PredictRequest(inputs=TEXTS[0]))
    assert [(p.label, np.float32(p.score)) for p in answer.predictions] == labels
    assert sum(p.score for p in answer.predictions) == pytest.approx(1, abs=1e-5)
    raw = client.call("predict", "Predict", client.pb.PredictRequest(inputs=TEXTS[0], raw_scores=True))
    assert [p.label for p in raw.predictions] == [p.label for p in answer.predictions]
    assert sum(p.score for p in raw.predictions) != pytest.approx(1, abs=1e-3)

    def pair(*texts):
        return client.call("predict", "PredictPair", client.pb.PredictPairRequest(inputs=texts))
    http = client.server.post("/predict", {"model": "classify", "inputs": [TEXTS[0], TEXTS[1]]}).json()
    assert [np.float32(p.score) for p in pair(*TEXTS[:2]).predictions] == [np.float32(p["score"]) for p in http]
    assert list(pair(TEXTS[0]).predictions) == list(answer.predictions)
    for texts in ((), TEXTS[:3]):
        refused(lambda: pair(*texts), Code.INVALID_ARGUMENT, "a pair of strings")
    refused(lambda: client.of("embed").call("predict", "Predict", client.pb.PredictRequest(inputs="x")),
            Code.FAILED_PRECONDITION, "Backend error: model 'embed' is for embedding")


def test_tokenize_and_decode(client):
    pb = client.pb
    text = TEXTS[0]
    http = client.server.post("/tokenize", {"inputs": text}).json()[0]
    answer = client.call("tokenize", "Tokenize", pb.EncodeRequest(inputs=text, add_special_tokens=True))
    for token, other in zip(answer.tokens, http, strict=True):
        assert (token.id, token.text, token.special) == (other["id"], other["text"], other["special"])
        assert token.HasField("start") == (other["start"] is not None)
        assert not token.HasField("start") or (token.start, token.stop) == (other["start"], other["stop"])
    ids = [token.id for token in answer.tokens]
    bare = client.call("tokenize", "Tokenize", pb.EncodeRequest(inputs=text))
    assert [token.id for token in bare.tokens] == ids[1:-1]
    decoded = client.call("tokenize", "Decode", pb.DecodeRequest(ids=ids, skip_special_tokens=True))
    assert [decoded.text] == client.server.post("/decode", {"ids": ids}).json()
    special = client.call("tokenize", "Decode", pb.DecodeRequest(ids=ids))
    assert special.text.startswith("[CLS]")
    again = client.call("tokenize", "Tokenize", pb.EncodeRequest(inputs=decoded.text, add_special_tokens=True))
    assert [token.id for token in again.tokens] == ids
    refused(lambda: client.call("tokenize", "Decode", pb.DecodeRequest(ids=[1, 2**32 - 1])),
            Code.INVALID_ARGUMENT, "'ids[1]' must be a token id")
    refused(lambda: client.call("tokenize", "Decode", pb.DecodeRequest(ids=[10**6])), Code.INVALID_ARGUMENT, "ids[0]")


@pytest.mark.parametrize("model", ["embed", "rerank", "classify"])
def test_info(client, model):
    info = client.of(model).call("info", "Info", client.pb.InfoRequest())
    http = client.server.get(f"/info?model={model}").json()
    for field in ("model_id", "model_dtype", "max_concurrent_requests", "max_input_length", "max_batch_tokens",
                  "max_client_batch_size", "tokenization_workers", "version"):
        assert getattr(info, field) == http[field], field
    assert client.pb.ModelType.Name(info.model_type) == {
        "embed": "MODEL_TYPE_EMBEDDING", "rerank": "MODEL_TYPE_RERANKER", "classify": "MODEL_TYPE_CLASSIFIER"}[model]
    assert not info.HasField("sha") and not info.HasField("max_batch_requests")


def test_the_model_is_picked_by_metadata(client):
    assert client.call("info", "Info", client.pb.InfoRequest()).model_id == "embed"
    tokens = client.pb.EncodeRequest(inputs=TEXTS[0])
    for model in ("embed", "rerank"):
        assert client.of(model).call("tokenize", "Tokenize", tokens).tokens
    refused(lambda: client.of("gone").Embed("x"), Code.NOT_FOUND, "gone")
    refused(lambda: client.of("gone").call("info", "Info", client.pb.InfoRequest()), Code.NOT_FOUND, "gone")
    refused(lambda: client.of("gone").call("tokenize", "TokenizeStream", iter([tokens])), Code.NOT_FOUND, "gone")
    refused(lambda: client.of("n" * 600).Embed("x"), Code.INVALID_ARGUMENT, "'model' is 600 bytes long")
    refused(lambda: client.of("rerank").Embed("x"), Code.FAILED_PRECONDITION, "model 'rerank' is for reranking")


def test_metadata_is_true(client):
    text = "a happy dog \u00e9\u4f60"
    request = client.pb.EmbedRequest(inputs=text)
    answer, call = client.embed.Embed.with_call(request, timeout=30)
    metadata = answer.metadata
    assert metadata.compute_chars == len(text)
    tokens = client.server.post("/tokenize", {"inputs": text}).json()[0]
    assert metadata.compute_tokens == len(tokens)
    parts = metadata.tokenization_time_ns, metadata.queue_time_ns, metadata.inference_time_ns
    assert metadata.inference_time_ns > 0 and metadata.tokenization_time_ns > 0
    assert sum(parts) <= metadata.total_time_ns < 30e9
    headers = dict(call.initial_metadata())
    assert headers["x-compute-tokens"] == str(len(tokens)) and headers["x-compute-characters"] == str(len(text))
    streamed = list(client.call("embed", "EmbedStream", iter([request] * 3)))
    for answer in streamed:
        assert answer.metadata.compute_chars == len(text) and answer.metadata.total_time_ns > 0


def test_a_stream_of_a_thousand_texts(minilm_client):
    texts = sentences(1000)
    stream = (minilm_client.pb.EmbedRequest(inputs=text) for text in texts)
    answers = list(minilm_client.call("embed", "EmbedStream", stream))
    http = minilm_client.server.post("/embed", {"inputs": texts}).json()
    assert len(answers) == 1000
    for answer, row in zip(answers, http):
        assert np.array_equal(floats(answer.embeddings), floats(row))


def test_streams_of_every_kind_keep_the_order(client):
    pb = client.pb
    texts = sentences(1000)
    kinds = [("embed", "EmbedAll", pb.EmbedAllRequest, {"truncate": True}),
             ("predict", "Predict", pb.PredictRequest, {"truncate": True}),
             ("tokenize", "Tokenize", pb.EncodeRequest, {"add_special_tokens": True})]
    tokens = None
    for service, method, request, more in kinds:
        stream = (request(inputs=text, **more) for text in texts)
        answers = list(client.call(service, method + "Stream", stream))
        assert len(answers) == 1000
        for i in random.Random(1).sample(range(1000), 20):
            alone = client.call(service, method, request(inputs=texts[i], **more))
            if answers[i].DESCRIPTOR.fields_by_name.get("metadata"):
                for answer in (alone, answers[i]):
                    answer.ClearField("metadata")
            assert answers[i] == alone
        tokens = answers
    stream = (pb.DecodeRequest(ids=[token.id for token in answer.tokens], skip_special_tokens=True)
              for answer in tokens)
    decoded = [answer.text for answer in client.call("tokenize", "DecodeStream", stream)]
    ids = [[token.id for token in answer.tokens] for answer in tokens]
    assert decoded == client.server.post("/decode", {"ids": ids}).json()
    pairs = (pb.PredictPairRequest(inputs=texts[i:i + 2], truncate=True) for i in range(0, 1000, 2))
    assert len(list(client.call("predict", "PredictPairStream", pairs))) == 500


def test_an_answer_comes_before_the_next_request(client):
    """A client may wait for each answer before it sends on."""
    answered = threading.Semaphore(1)

    def requests():
        for text in TEXTS[:3]:
            assert answered.acquire(timeout=30)
            yield client.pb.EmbedRequest(inputs=text, truncate=True)
    count = 0
    for _ in client.call("embed", "EmbedStream", requests()):
        count += 1
        answered.release()
    assert count == 3


def test_an_error_ends_the_stream(client):
    pb = client.pb
    requests = [pb.EmbedRequest(inputs=text) for text in ("a", "b", "dog " * 100, "c")]
    answers = []
    with pytest.raises(grpc.RpcError) as caught:
        for answer in client.call("embed", "EmbedStream", iter(requests)):
            answers.append(answer)
    assert caught.value.code() == Code.INVALID_ARGUMENT and "inputs" in caught.value.details()
    assert [list(answer.embeddings) for answer in answers] == [list(client.Embed(text).embeddings) for text in "ab"]
    assert list(client.call("embed", "EmbedStream", iter([]))) == []


def test_a_cancelled_stream_ends_its_work(minilm_client):
    client = minilm_client
    seen = threading.Event()
    endless = (client.pb.EmbedRequest(inputs=f"text {i}") for i in range(10**9))
    call = client.embed.EmbedStream(endless)

    def read():
        with pytest.raises(grpc.RpcError):
            for _ in call:
                seen.set()
    reader = threading.Thread(target=read)
    reader.start()
    assert seen.wait(30)
    call.cancel()
    reader.join(30)
    assert call.code() == Code.CANCELLED
    assert wait_for(lambda: client.server.metrics()["penstock_inflight_bytes"] == 0, 20)
    assert client.Embed("still there").embeddings


def test_a_client_that_does_not_read_holds_the_stream_up(client):
    sent = []

    def requests():
        while True:
            sent.append(1)
            yield client.pb.EmbedAllRequest(inputs="dog " * 40)
    call = client.embed.EmbedAllStream(requests())
    next(call)

    def stands():
        before = len(sent)
        threading.Event().wait(0.5)
        return len(sent) == before
    assert wait_for(stands, 60)
    call.cancel()
    assert wait_for(lambda: client.server.metrics()["penstock_inflight_bytes"] == 0, 20)


def test_a_client_that_never_reads_is_dropped(start, pb):
    server = start("--grpc-port", "0", "--write-timeout-ms", "500")
    client = Client(server, pb)
    call = client.embed.EmbedAllStream(
        (client.pb.EmbedAllRequest(inputs="dog " * 40) for _ in range(10**9)), timeout=120)
    next(call)

    def is_dropped():
        """At the beginning, too, nothing may be held for a moment; but not for a second."""
        if server.metrics()["penstock_inflight_bytes"] != 0:
            return False
        threading.Event().wait(1)
        return server.metrics()["penstock_inflight_bytes"] == 0
    assert wait_for(is_dropped, 60)
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert caught.value.code() == Code.CANCELLED
    assert wait_for(lambda: server.metrics()["penstock_inflight_bytes"] == 0, 20)


def test_deadlines(minilm_client):
    pb = minilm_client.pb
    long = " ".join(sentences(400))
    with pytest.raises(grpc.RpcError) as caught:
        minilm_client.embed.Embed(pb.EmbedRequest(inputs=long, truncate=True), timeout=0.0005)
    assert caught.value.code() == Code.DEADLINE_EXCEEDED
    endless = (pb.EmbedRequest(inputs=f"text {i}") for i in range(10**9))
    with pytest.raises(grpc.RpcError) as caught:
        for _ in minilm_client.embed.EmbedStream(endless, timeout=0.5):
            pass
    assert caught.value.code() == Code.DEADLINE_EXCEEDED
    assert wait_for(lambda: minilm_client.server.metrics()["penstock_inflight_bytes"] == 0, 20)


def test_a_stream_waits_for_room_and_a_single_call_does_not(start, pb):
    client = Client(start("--grpc-port", "0", "--max-concurrent-requests", "1"), pb)
    texts = sentences(1000)
    stream = (client.pb.EmbedRequest(inputs=text, truncate=True) for text in texts)
    assert len(list(client.call("embed", "EmbedStream", stream))) == 1000

    def overloaded():
        calls = [client.embed.Embed.future(client.pb.EmbedRequest(inputs=text, truncate=True)) for text in texts[:200]]
        failed = [call.exception() for call in calls if call.exception() is not None]
        for error in failed:
            assert error.code() == Code.RESOURCE_EXHAUSTED
            assert error.details().startswith("Model is overloaded: ")
        return failed
    assert wait_for(overloaded, 60)


def test_keys(start, pb):
    server = start("--grpc-port", "0", "--api-key", "secret-key-of-sixteen")
    client = Client(server, pb)
    tokens = client.pb.EncodeRequest(inputs="x")
    for stub in (client, Client(server, pb, ("authorization", "Bearer wrong"))):
        refused(lambda: stub.Embed("x"), Code.UNAUTHENTICATED)
        refused(lambda: stub.call("tokenize", "TokenizeStream", iter([tokens])), Code.UNAUTHENTICATED)
        refused(lambda: stub.call("rerank", "RerankStream", iter([])), Code.UNAUTHENTICATED)
        refused(lambda: stub.call("info", "Info", client.pb.InfoRequest()), Code.UNAUTHENTICATED)
    client = Client(server, pb, ("authorization", "Bearer secret-key-of-sixteen"))
    assert client.Embed("x").embeddings
    assert len(list(client.call("tokenize", "TokenizeStream", iter([tokens] * 3)))) == 3


def test_the_example_of_the_document(start, pb, capsys):
    """docs/GRPC.md, run as it is printed; only the port is another one."""
    server = start(*model_args(("embedder", EMBED), ("reranker", RERANK)), "--grpc-port", "0")
    text = (ROOT / "docs" / "GRPC.md").read_text()
    source, = [example for example in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
               if "import tei_pb2" in example]
    source, ports = re.subn(r"127\.0\.0\.1:\d+", grpc_address(server), source)
    assert ports == 1
    exec(compile(source, "GRPC.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    width = len(Client(server, pb).Embed("x").embeddings)
    assert re.fullmatch(rf"{width} numbers of \d+ tokens", lines[0]), lines
    assert lines[1:3] == [f"{width} numbers"] * 2 and lines[3].startswith("best: "), lines


def test_random_bytes_as_messages(client):
    """Whatever stands in a message, each method answers with something and the server lives."""
    chosen = random.Random(20)
    valid = [client.pb.EmbedRequest(inputs="a text", prompt_name="p", dimensions=3).SerializeToString(),
             client.pb.RerankRequest(query="q", texts=["a", "b"]).SerializeToString(),
             client.pb.DecodeRequest(ids=[1, 2, 3]).SerializeToString()]

    def message():
        if chosen.random() < 0.5:
            return chosen.randbytes(chosen.choice([0, 1, 2, 7, 64, 1000]))
        data = bytearray(chosen.choice(valid))
        for _ in range(chosen.randint(1, 4)):
            data[chosen.randrange(len(data))] = chosen.randrange(256)
        return bytes(data[:chosen.randint(0, len(data))])
    codes = set()
    for name, methods in SERVICES.items():
        for method in methods:
            path = f"/tei.v1.{name}/{method}"
            for _ in range(60):
                messages = [message() for _ in range(chosen.randint(1, 5))]
                try:
                    if method == "RerankStream":
                        client.channel.stream_unary(path)(iter(messages), timeout=30)
                    elif method.endswith("Stream"):
                        list(client.channel.stream_stream(path)(iter(messages), timeout=30))
                    else:
                        client.channel.unary_unary(path)(messages[0], timeout=30)
                    codes.add(Code.OK)
                except grpc.RpcError as error:
                    codes.add(error.code())
    assert Code.DEADLINE_EXCEEDED not in codes and Code.UNAVAILABLE not in codes, codes
    assert Code.OK in codes and Code.INVALID_ARGUMENT in codes, codes
    assert client.Embed("still there").embeddings
    assert wait_for(lambda: client.server.metrics()["penstock_inflight_bytes"] == 0, 20)
