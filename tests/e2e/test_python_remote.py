"""The Python package against a server: results, errors, retries, streams, cancelling."""

import asyncio
import base64
import concurrent.futures
import http.server
import json
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from conftest import CLASSIFY, EMBED, GOLDEN, RERANK, ROOT, serving

sys.path.insert(0, str(ROOT / "python"))

import penstock

from test_python_package import python

pytestmark = pytest.mark.alone
TEXTS = ["hello world", "a penstock is a pipe", "", "naïve café — déjà vu", "日本語のテキスト"]
LLAMA = ROOT / "tests" / "golden" / "decoders" / "llama"
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def server_args(weather):
    models = {"embed": GOLDEN / EMBED, "rerank": GOLDEN / RERANK, "classify": GOLDEN / CLASSIFY, "weather": weather}
    models.update(llama=LLAMA, add="builtin:add?shape=2", same="builtin:identity")
    words = [word for name, path in models.items() for word in ("--model", f"{name}={path}")]
    return (*words, "--keep-alive=-1")


@pytest.fixture(scope="module")
def embedder(server):
    return penstock.Embedder("embed", url=server.url)


@pytest.fixture(scope="module")
def reranker(server):
    return penstock.Reranker(url=server.url)


def rows(server, texts, **fields):
    """What /v1/embeddings answers, float32 [n, d]."""
    answer = server.post("/v1/embeddings", {"model": "embed", "input": texts, "encoding_format": "base64", **fields})
    assert answer.status_code == 200, answer.text
    data = [base64.b64decode(each["embedding"]) for each in answer.json()["data"]]
    return np.frombuffer(b"".join(data), "<f4").reshape(len(texts), -1)


# --- Embedder ----------------------------------------------------------------------------------


def test_encode_has_the_bits_of_the_server(server, embedder):
    vectors = embedder.encode(TEXTS)
    assert vectors.dtype == np.float32 and vectors.shape == (len(TEXTS), 32)
    assert np.array_equal(vectors, rows(server, TEXTS))
    assert np.array_equal(embedder.encode(TEXTS[0]), vectors[0])
    assert np.array_equal(embedder.encode(np.array(TEXTS)), vectors)
    assert np.array_equal(embedder.encode(inputs=tuple(TEXTS)), vectors)
    listed = embedder.encode(TEXTS, convert_to_numpy=False)
    assert isinstance(listed, list) and np.array_equal(np.stack(listed), vectors)
    vectors += 1  # it can be written to


def test_encode_of_nothing(embedder):
    assert embedder.encode([]).shape == (0, 32)
    assert embedder.encode([], truncate_dim=5).shape == (0, 5)


def test_many_texts_go_in_windows_and_keep_their_order(server, embedder):
    texts = [f"text {i % 97}" for i in range(5000)]
    vectors = embedder.encode(texts)
    some = rows(server, texts[:97])
    assert vectors.shape == (5000, 32)
    assert np.array_equal(vectors, some[np.arange(5000) % 97])


def test_prompts(server, embedder):
    given = rows(server, TEXTS, prompt_name="query")
    assert not np.array_equal(given, rows(server, TEXTS))
    assert np.array_equal(embedder.encode(TEXTS, prompt_name="query"), given)
    assert np.array_equal(embedder.encode(TEXTS, "query"), given)
    assert np.array_equal(embedder.encode_query(TEXTS), given)
    assert np.array_equal(embedder.encode(TEXTS, prompt="query: "), given)
    assert np.array_equal(embedder.encode(TEXTS, prompt_name="passage", prompt="query: "), given)
    assert np.array_equal(embedder.encode_document(TEXTS), rows(server, TEXTS, prompt_name="passage"))
    assert np.array_equal(embedder.encode_query(TEXTS, prompt="x "), rows(server, TEXTS, prompt="x "))


def test_dimensions_are_cut_as_sentence_transformers_does(server, embedder):
    whole = embedder.encode(TEXTS)
    assert np.allclose(np.linalg.norm(whole, axis=1), 1)
    assert np.array_equal(embedder.encode(TEXTS, truncate_dim=8), whole[:, :8])
    assert np.array_equal(embedder.encode(TEXTS, normalize_embeddings=False), whole)
    unit = embedder.encode(TEXTS, truncate_dim=8, normalize_embeddings=True)
    assert np.allclose(unit, whole[:, :8] / np.linalg.norm(whole[:, :8], axis=1, keepdims=True), atol=1e-6)
    for more in ({}, {"normalize_embeddings": True}):
        with pytest.raises(penstock.InvalidArgument) as caught:
            embedder.encode(TEXTS, truncate_dim=33, **more)
        assert caught.value.field == "truncate_dim"


def test_precisions(embedder):
    texts = [f"text {i}" for i in range(200)]
    vectors = embedder.encode(texts)
    bits = embedder.encode(texts, precision="ubinary")
    assert bits.dtype == np.uint8 and np.array_equal(np.unpackbits(bits, axis=1), vectors > 0)
    signed = embedder.encode(texts, precision="binary")
    assert signed.dtype == np.int8 and np.array_equal(signed.astype(int), bits.astype(int) - 128)
    levels = embedder.encode(texts, precision="uint8")
    steps = (vectors.max(axis=0) - vectors.min(axis=0)) / 255
    assert np.abs(levels * steps + vectors.min(axis=0) - vectors).max() <= steps.max() * 1.01
    assert np.array_equal(embedder.encode(texts, precision="int8").astype(int), levels.astype(int) - 128)
    with pytest.raises(penstock.InvalidArgument) as caught:
        embedder.encode("alone", precision="int8")
    assert caught.value.field == "precision"


@pytest.mark.parametrize(
    ("arguments", "field", "kind"),
    [
        ({"pool": "mean"}, "pool", penstock.UnknownArgument),
        ({"normalise": True}, "normalise", TypeError),
        ({"output_value": "token_embeddings"}, "output_value", penstock.InvalidArgument),
        ({"precision": "int4"}, "precision", ValueError),
        ({"device": "cuda"}, "device", penstock.InvalidArgument),
        ({"device": ["cpu", "cpu"]}, "device", penstock.InvalidArgument),
        ({"batch_size": 0}, "batch_size", penstock.InvalidArgument),
        ({"truncate_dim": "8"}, "truncate_dim", penstock.InvalidArgument),
        ({"prompt_name": "nope"}, "prompt_name", penstock.InvalidArgument),
        ({"prompt": 7}, "prompt", penstock.InvalidArgument),
    ],
)
def test_what_could_change_numbers_is_refused_by_name(embedder, arguments, field, kind):
    with pytest.raises(kind) as caught:
        embedder.encode(TEXTS, **arguments)
    assert isinstance(caught.value, penstock.Error)
    assert caught.value.field == field
    assert caught.value.code == "invalid_argument"
    with pytest.raises(kind):
        asyncio.run(embedder.aencode(TEXTS, **arguments))


def test_lazy_embed_refuses_what_is_for_encode_alone(embedder):
    for arguments in ({"precision": "int8"}, {"convert_to_tensor": True}, {"parallel": 2}):
        with pytest.raises(penstock.UnknownArgument):
            embedder.embed(TEXTS, **arguments)


@pytest.mark.parametrize("texts", [5, None, b"bytes", {"text": "x"}, ["a", 5], [["a", "b"]]])
def test_what_is_no_text_is_refused(embedder, texts):
    with pytest.raises(penstock.InvalidArgument) as caught:
        embedder.encode(texts)
    assert caught.value.field.startswith("sentences")


def test_errors_name_the_row_of_the_whole(embedder):
    texts = ["a"] * 3000
    texts[2500] = "half \ud800"
    with pytest.raises(penstock.InvalidArgument):
        embedder.encode(texts)
    texts[2500] = "b" * ((1 << 20) + 1)
    with pytest.raises(penstock.PayloadTooLarge) as caught:
        embedder.encode(texts)
    assert caught.value.field == "sentences[2500]"


def test_lazy_embed_reads_a_little_ahead(server, embedder):
    read = 0

    def source():
        nonlocal read
        while True:
            read += 1
            yield f"text {read % 10}"

    vectors = embedder.embed(source())
    first = [next(vectors) for _ in range(20)]
    assert read < 5000
    vectors.close()
    assert np.array_equal(np.stack(first[:9]), rows(server, [f"text {i}" for i in range(1, 10)]))
    assert np.array_equal(np.stack(list(embedder.embed(TEXTS))), rows(server, TEXTS))
    assert np.array_equal(
        np.stack(list(embedder.embed(iter(TEXTS), prompt_name="query"))), embedder.encode_query(TEXTS)
    )


def test_async_gives_the_same(embedder):
    async def main():
        some = await asyncio.gather(*(embedder.aencode([text]) for text in TEXTS))
        return np.concatenate(some), await embedder.aencode([f"text {i}" for i in range(3000)])

    single, many = asyncio.run(main())
    assert np.array_equal(single, embedder.encode(TEXTS))
    assert np.array_equal(many, embedder.encode([f"text {i}" for i in range(3000)]))


def test_threads_share_an_object(embedder):
    whole = embedder.encode(TEXTS)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for vectors in pool.map(lambda _: embedder.encode(TEXTS), range(64)):
            assert np.array_equal(vectors, whole)


def test_pickled_it_opens_where_it_is_used(server, embedder):
    copy = pickle.loads(pickle.dumps(embedder))
    assert copy._backend is None
    assert np.array_equal(copy.encode(TEXTS), embedder.encode(TEXTS))
    assert repr(copy) == f"Embedder('embed', url='{server.url}')"


def test_a_forked_child_has_connections_of_its_own(server):
    script = f"""
import os, penstock
one = penstock.Embedder("embed", url={server.url!r})
vectors = one.encode(["a", "b"])
child = os.fork()
if child == 0:
    raise SystemExit(not all((one.encode(["a", "b"]) == vectors).all() for _ in range(50)))
assert all((one.encode(["a", "b"]) == vectors).all() for _ in range(50))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("well")
"""
    assert python(script) == "well"


def test_facts(embedder):
    assert embedder.get_sentence_embedding_dimension() == 32
    assert embedder.max_seq_length == 48
    assert embedder.info["task"] == "embedding"
    assert embedder.similarity_fn_name == "cosine"
    ids = embedder.tokenize(["hello world", "a"])
    assert len(ids) == 2 and ids[0][0] == ids[1][0] and all(isinstance(each, int) for each in ids[0])


def test_similarity(server, embedder):
    a, b = embedder.encode(TEXTS), embedder.encode(TEXTS[:3])
    found = embedder.similarity(a, b)
    assert found.shape == (5, 3) and found.dtype == np.float32
    asked = server.post(
        "/similarity", {"model": "embed", "inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS[:3]}}
    )
    assert np.allclose(found[0], asked.json(), atol=1e-6)
    assert np.allclose(embedder.similarity_pairwise(a[:3], b), np.diag(found[:3]), atol=1e-6)
    far = penstock.Embedder("embed", url=server.url, similarity_fn_name="euclidean").similarity(a, b)
    assert np.allclose(far, -np.linalg.norm(a[:, None] - b[None], axis=-1), atol=1e-6)
    with penstock.Embedder("embed", url=server.url, similarity_fn_name="manhattan") as other:
        assert np.allclose(other.similarity_pairwise(a[1:4], b), -np.abs(a[1:4] - b).sum(axis=1), atol=1e-6)


def test_closed_it_says_so(server):
    with penstock.Embedder("embed", url=server.url) as one:
        one.encode("a")
    with pytest.raises(penstock.Error, match="closed"):
        one.encode("a")


def test_arrow(embedder):
    pyarrow = pytest.importorskip("pyarrow", reason="PYARROW IS NOT HERE")
    column = embedder.embed_arrow(pyarrow.array(TEXTS))
    assert column.type == pyarrow.list_(pyarrow.float32(), 32) and len(column) == len(TEXTS)
    assert np.array_equal(np.array(column.to_pylist(), dtype=np.float32), embedder.encode(TEXTS))


# --- the others --------------------------------------------------------------------------------


def test_rerank(server, reranker):
    documents = ["one", "two pipes", "three", "two pipes"]
    asked = server.post("/v1/rerank", {"model": "rerank", "query": "pipe", "documents": documents}).json()["results"]
    by_row = {each["index"]: each["relevance_score"] for each in asked}
    scores = reranker.predict([("pipe", text) for text in documents])
    assert scores.dtype == np.float32
    assert np.array_equal(scores, np.array([by_row[row] for row in range(4)], dtype=np.float32))
    ranked = reranker.rank("pipe", documents, top_k=3, return_documents=True)
    assert [each["corpus_id"] for each in ranked] == [each["index"] for each in asked][:3]
    assert all(each["text"] == documents[each["corpus_id"]] for each in ranked)
    assert set(reranker.rank("pipe", documents)[0]) == {"corpus_id", "score"}
    assert isinstance(reranker.predict(("pipe", "one")), float)
    assert reranker.predict([]).shape == (0,) and reranker.rank("pipe", []) == []


def test_scores_without_a_function(server, reranker):
    pairs = [("a", "one"), ("a", "two"), ("b", "one"), ("a", "three")]
    raw = reranker.compute_score(pairs)
    for (query, text), score in zip(pairs, raw):
        body = {"model": "rerank", "query": query, "documents": [text], "raw_scores": True}
        assert score == server.post("/v1/rerank", body).json()["results"][0]["relevance_score"]
    unit = reranker.compute_score(pairs, normalize=True)
    assert np.allclose(unit, 1 / (1 + np.exp(-np.array(raw))), atol=1e-6)
    assert isinstance(reranker.compute_score(["a", "one"]), float)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"activation_fn": abs}, "activation_fn"), ({"apply_softmax": True}, "apply_softmax"), ({"top": 1}, "top")],
)
def test_a_reranker_refuses_by_name(reranker, arguments, field):
    with pytest.raises(penstock.InvalidArgument) as caught:
        reranker.predict([("a", "b")], **arguments)
    assert caught.value.field == field


def test_pairs_that_are_none(reranker):
    for pairs, field in (("ab", "pairs"), ([("a",)], "pairs[0]"), ([("a", "b"), ("a", 5)], "pairs[1]")):
        with pytest.raises(penstock.InvalidArgument) as caught:
            reranker.predict(pairs)
        assert caught.value.field == field


def test_many_pairs(reranker):
    pairs = [(f"query {i % 3}", f"text {i % 50}") for i in range(3000)]
    scores = reranker.predict(pairs)
    assert np.array_equal(scores[:150], scores[150:300]) and len(scores) == 3000


def test_classify(server):
    classifier = penstock.Classifier("classify", url=server.url)
    asked = server.post("/v1/classify", {"model": "classify", "input": TEXTS}).json()["data"]
    labels = [each["predictions"] for each in asked]
    assert classifier(TEXTS) == [each[0] for each in labels]
    assert classifier(TEXTS, top_k=None) == labels
    assert classifier(TEXTS, top_k=1) == [each[:1] for each in labels]
    assert classifier(TEXTS[0]) == labels[0][:1]
    assert classifier(TEXTS[0], top_k=2) == labels[0][:2]
    pair = server.post("/v1/classify", {"model": "classify", "input": [["a", "b"]], "raw_scores": True}).json()["data"]
    assert classifier({"text": "a", "text_pair": "b"}, function_to_apply="none") == pair[0]["predictions"][:1]
    for arguments, field in (({"function_to_apply": "tanh"}, "function_to_apply"), ({"padding": True}, "padding")):
        with pytest.raises(penstock.InvalidArgument) as caught:
            classifier(TEXTS, **arguments)
        assert caught.value.field == field


def test_generate(server):
    llm = penstock.LLM("llama", url=server.url)
    outputs = llm.generate(["Once", "Twice", [65, 66]], penstock.SamplingParams(temperature=0, max_tokens=5))
    assert [each.prompt for each in outputs] == ["Once", "Twice", [65, 66]]
    for each in outputs:
        body = {"model": "llama", "prompt": each.prompt, "temperature": 0, "max_tokens": 5}
        asked = server.post("/v1/completions", body).json()
        assert each.text == each.outputs[0].text == asked["choices"][0]["text"]
        assert each.outputs[0].finish_reason == asked["choices"][0]["finish_reason"]
        assert (each.prompt_tokens, each.completion_tokens) == (
            asked["usage"]["prompt_tokens"],
            asked["usage"]["completion_tokens"],
        )
    several = llm.generate("Once", n=3, seed=1, temperature=1, max_tokens=4, logprobs=2)[0]
    assert len(several.outputs) == 3 and len(several.outputs[0].logprobs["token_logprobs"]) >= 1
    assert llm.generate([]) == []
    drawn = llm.generate(["Once"] * 40, seed=3, temperature=1, max_tokens=4)
    assert len({each.text for each in drawn}) == 1
    assert (
        llm.generate("Once", json_schema={"type": "integer"}, temperature=0, max_tokens=4)[0].text[:1] in "-0123456789"
    )
    assert llm.generate("Once", choice=["yes", "no"], temperature=0)[0].text in ("yes", "no")


def test_a_text_as_it_is_made(server):
    llm = penstock.LLM("llama", url=server.url)
    whole = llm.generate("Once", temperature=0, max_tokens=8)[0]
    with llm.generate("Once", temperature=0, max_tokens=8, stream=True) as stream:
        assert "".join(stream) == whole.text
    assert stream.finish_reason == whole.outputs[0].finish_reason
    assert stream.usage["completion_tokens"] == whole.completion_tokens
    with pytest.raises(penstock.InvalidArgument) as caught:
        llm.generate(["a", "b"], stream=True)
    assert caught.value.field == "stream"


def test_chat(server):
    llm = penstock.LLM("weather", url=server.url)
    answer = llm.chat(HELLO, temperature=0)
    assert answer.text == answer["choices"][0]["message"]["content"] == "Good day."
    assert answer.finish_reason == "stop" and answer.usage["completion_tokens"] > 1
    pieces = list(llm.chat(HELLO, temperature=0, stream=True))
    assert len(pieces) > 1 and "".join(pieces) == "Good day."
    tool = {
        "type": "function",
        "function": {"name": "weather", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
    }
    called = llm.chat(HELLO, temperature=0, tools=[tool])
    assert called.tool_calls[0]["function"] == {"name": "weather", "arguments": '{"at": "Ulm"}'}
    assert called.reasoning == "Ask the station." and called.finish_reason == "tool_calls"
    told = [*HELLO, called.message, {"role": "tool", "tool_call_id": called.tool_calls[0]["id"], "content": "rain"}]
    assert llm.chat(told, temperature=0, tools=[tool]).text == "It rains in Ulm."
    deltas = [
        event["choices"][0]["delta"]
        for event in llm.chat(HELLO, tools=[tool], stream=True, temperature=0).events()
        if event["choices"]
    ]
    assert any("tool_calls" in delta for delta in deltas)


def test_async_texts(server):
    llm = penstock.LLM("weather", url=server.url)

    async def main():
        answer = await llm.achat(HELLO, temperature=0)
        pieces = [piece async for piece in await llm.achat(HELLO, temperature=0, stream=True)]
        outputs = await llm.agenerate(["<|chat|>"] * 3, temperature=0)
        async with await llm.agenerate("<|chat|>", temperature=0, stream=True) as stream:
            text = "".join([piece async for piece in stream])
        return answer.text, "".join(pieces), [each.text for each in outputs], text

    assert asyncio.run(main()) == ("Good day.", "Good day.", ["Good day."] * 3, "Good day.")


@pytest.mark.parametrize(
    ("fields", "field"), [({"best_of": 2}, "best_of"), ({"temperature": 9}, "temperature"), ({"top_p": "x"}, "top_p")]
)
def test_a_chat_refuses_by_name(server, fields, field):
    llm = penstock.LLM("weather", url=server.url)
    for ask in (lambda **more: llm.chat(HELLO, **more), lambda **more: llm.generate("a", **more)):
        with pytest.raises(penstock.InvalidArgument) as caught:
            ask(**fields)
        assert caught.value.field == field
    with pytest.raises(penstock.InvalidArgument) as caught:
        llm.chat(HELLO, temperature=9, stream=True)
    assert caught.value.field == "temperature"


def test_tensors(server):
    model = penstock.TensorModel("add", url=server.url)
    assert [each.name for each in model.inputs] == ["INPUT0", "INPUT1"]
    assert model.outputs[0] == penstock.TensorSpec("OUTPUT0", "FP32", (-1, 2))
    one, two = np.array([[1, 2]], dtype=np.float32), np.array([[3, 5]], dtype=np.float32)
    found = model(INPUT0=one, INPUT1=two)
    assert np.array_equal(found["OUTPUT0"], one + two) and np.array_equal(found["OUTPUT1"], one - two)
    found["OUTPUT0"] += 1
    assert np.array_equal(model(INPUT0=[[1, 2]], INPUT1=two)["OUTPUT0"], one + two)
    assert np.array_equal(asyncio.run(model.acall(INPUT0=one, INPUT1=two))["OUTPUT0"], one + two)
    large = np.random.default_rng(0).random((100, 2), dtype=np.float32)
    assert np.array_equal(model(INPUT0=large, INPUT1=large)["OUTPUT0"], large + large)
    for arguments, field in (
        ({"INPUT0": one.astype(np.float64), "INPUT1": two}, "INPUT0"),
        ({"INPUT0": one, "INPUT2": two}, "INPUT2"),
    ):
        with pytest.raises(penstock.InvalidArgument) as caught:
            model(**arguments)
        assert caught.value.field == field
    with pytest.raises(penstock.InvalidArgument):
        model(INPUT0=one)


# --- names, keys, addresses --------------------------------------------------------------------


def test_models_by_name_and_task(server):
    with pytest.raises(penstock.ModelNotFound) as caught:
        penstock.Embedder("nope", url=server.url)
    assert caught.value.code == "not_found" and caught.value.field == "model"
    with pytest.raises(penstock.InvalidArgument, match="reranking") as caught:
        penstock.Embedder("rerank", url=server.url)
    assert caught.value.field == "model"
    assert penstock.Embedder(url=server.url + "/v1/").name == "embed"
    assert penstock.LLM(url=server.url).name == "weather"


def test_flags_are_for_a_model_in_this_process(server):
    for flags in ({"dtype": "int8"}, {"threads": 2}, {"max_batch_tokens": 5}, {"device": "cuda"}):
        with pytest.raises(penstock.InvalidArgument) as caught:
            penstock.Embedder("embed", url=server.url, **flags)
        assert caught.value.field == next(iter(flags))


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "http://", "http://x:y"])
def test_an_address_that_is_none(url):
    with pytest.raises(penstock.InvalidArgument) as caught:
        penstock.Embedder(url=url)
    assert caught.value.field == "url"


def test_keys(monkeypatch):
    monkeypatch.delenv("PENSTOCK_API_KEY", raising=False)
    with serving("--model", f"embed={GOLDEN / EMBED}", "--api-key", "secret") as server:
        with pytest.raises(penstock.Unauthenticated):
            penstock.Embedder(url=server.url)
        with pytest.raises(penstock.Unauthenticated):
            penstock.Embedder(url=server.url, api_key="other")
        one = penstock.Embedder(url=server.url, api_key="secret")
        assert "secret" not in repr(one)
        monkeypatch.setenv("PENSTOCK_API_KEY", "secret")
        assert np.array_equal(penstock.Embedder(url=server.url).encode("a"), one.encode("a"))


def test_https(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(words, check=True, capture_output=True)
    with serving("--model", f"embed={GOLDEN / EMBED}", "--tls-cert", cert, "--tls-key", key) as server:
        assert server.url.startswith("https:")
        script = f"import penstock; print(penstock.Embedder(url={server.url!r}).encode('a').shape)"
        assert python(script, SSL_CERT_FILE=str(cert)) == "(32,)"
        with pytest.raises(penstock.InvalidArgument, match="certificate"):
            penstock.Embedder(url=server.url)


# --- a server that is scripted -----------------------------------------------------------------


class Scripted:
    """Answers what it is told to, one after the other, and counts connections."""

    def __init__(self, *answers):
        outer = self
        self.answers, self.connections, self.requests, self.closed = list(answers), 0, [], threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                outer.connections += 1

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.requests.append((self.path, body, time.monotonic()))
                outer.answers.pop(0)(self)

            do_GET = do_POST

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def answer(status, body, **headers):
    def send(handler):
        data = json.dumps(body).encode()
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return send


def hang_up(handler):
    handler.close_connection = True
    handler.connection.close()


FACTS = answer(200, {"id": "m", "task": "embedding", "max_tokens": 5, "dimensions": 1})
ONE = answer(200, {"data": [{"embedding": base64.b64encode(np.float32(0.5).tobytes()).decode()}]})
FULL = {"error": {"message": "full", "param": None, "code": "rate_limit_exceeded"}}


def test_busy_servers_are_asked_again():
    busy = (answer(429, FULL, Retry_After="1"), answer(503, FULL), hang_up, answer(502, {}))
    with Scripted(FACTS, *busy, ONE) as server:
        assert penstock.Embedder("m", url=server.url).encode("a") == [0.5]
        times = [at for path, _, at in server.requests if path == "/v1/embeddings"]
        assert len(times) == 5 and times[1] - times[0] >= 1.1


def test_a_server_that_stays_busy_is_given_up(monkeypatch):
    monkeypatch.setattr("penstock._http.BACKOFF_S", 0.001)
    with Scripted(FACTS, *[answer(429, FULL)] * 9, answer(429, FULL, Retry_After="7")) as server:
        with pytest.raises(penstock.Overloaded) as caught:
            penstock.Embedder("m", url=server.url).encode("a")
        assert caught.value.retry_after == 7 and caught.value.code == "resource_exhausted"
        assert len(server.requests) == 11


def test_other_errors_are_not_tried_again():
    for status, kind in ((400, penstock.InvalidArgument), (500, penstock.InternalError), (422, penstock.Unprocessable)):
        with Scripted(FACTS, answer(status, {"error": {"message": "no", "param": "input"}})) as server:
            with pytest.raises(kind, match="no") as caught:
                penstock.Embedder("m", url=server.url).encode("a")
            assert caught.value.field == "input"


def test_connections_are_kept_and_replaced():
    with Scripted(FACTS, ONE, ONE, hang_up, ONE) as server:
        one = penstock.Embedder("m", url=server.url)
        for _ in range(2):
            one.encode("a")
        assert server.connections == 1
        began = time.monotonic()
        one.encode("a")  # the kept connection is closed: another one, at once
        assert time.monotonic() - began < 0.2 and server.connections == 2


def test_garbled_answers():
    for body in ({}, {"data": []}, {"data": [{"embedding": "AA"}]}, {"data": [5]}):
        with Scripted(FACTS, answer(200, body)) as server, pytest.raises(penstock.InternalError):
            penstock.Embedder("m", url=server.url).encode("a")


def test_nobody_there():
    began = time.monotonic()
    with pytest.raises(penstock.Unavailable):
        penstock.Embedder(url="http://127.0.0.1:9")
    assert 3 < time.monotonic() - began < 8


def test_timeout():
    with Scripted(FACTS, left(threading.Event())) as server, pytest.raises(penstock.DeadlineExceeded):
        penstock.Embedder("m", url=server.url, timeout=0.3).encode("a")


def left(event):
    """Answers nothing, and sets `event` when the client leaves."""

    def wait(handler):
        handler.connection.settimeout(20)
        if handler.rfile.read(1) == b"":
            event.set()
        handler.close_connection = True

    return wait


def test_a_cancelled_task_ends_the_request():
    gone = threading.Event()
    with Scripted(FACTS, left(gone)) as server:
        one = penstock.Embedder("m", url=server.url)

        async def main():
            task = asyncio.create_task(one.aencode("a"))
            await asyncio.sleep(0.2)  # the request is on its way
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert gone.wait(5)


def test_a_stream_that_is_left_ends_the_request():
    gone = threading.Event()

    def begin(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        data = b'data: {"choices":[{"index":0,"text":"one"}]}\n\n: ping\n\ndata: {"choices":[{"index":0,"te'
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        left(gone)(handler)

    facts = answer(200, {"id": "m", "task": "generation"})
    with Scripted(facts, begin, begin) as server:
        llm = penstock.LLM("m", url=server.url)
        stream = llm.generate("a", stream=True)
        assert next(stream) == "one"
        stream.close()
        assert gone.wait(5)
        gone.clear()

        async def main():
            async with await llm.agenerate("a", stream=True) as stream:
                assert await stream.__anext__() == "one"

        asyncio.run(main())
        assert gone.wait(5)


def test_a_stream_that_breaks_off():
    def broken(handler, data):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    event = b'data: {"choices":[{"index":0,"text":"one"}]}\n\n'
    error = b'data: {"error":{"message":"gone","code":"internal"}}\n\n'
    facts = answer(200, {"id": "m", "task": "generation"})
    with Scripted(facts, lambda h: broken(h, event), lambda h: broken(h, event + error)) as server:
        llm = penstock.LLM("m", url=server.url)
        stream = llm.generate("a", stream=True)
        assert next(stream) == "one"
        with pytest.raises(penstock.Unavailable):
            next(stream)
        with pytest.raises(penstock.InternalError, match="gone"):
            list(llm.generate("a", stream=True))


def seconds_until_ctrl_c_ends_a_request():
    gone = threading.Event()
    with Scripted(FACTS, left(gone)) as server:
        script = f"""
import penstock, signal, threading, os, time
one = penstock.Embedder("m", url={server.url!r})
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    one.encode("a")
except KeyboardInterrupt:
    print(time.monotonic() - began)
"""
        seconds = float(python(script))
        assert gone.wait(5)
        return seconds


def test_ctrl_c_ends_a_request():
    # The machine may be busy with something else at one of these moments.
    assert min(seconds_until_ctrl_c_ends_a_request() for _ in range(3)) < 0.5


def test_progress(embedder, capsys):
    pytest.importorskip("tqdm", reason="TQDM IS NOT HERE")
    embedder.encode(["a"] * 50)
    assert capsys.readouterr().err == ""
    embedder.encode(["a"] * 50, show_progress_bar=True)
    assert "50/50" in capsys.readouterr().err
