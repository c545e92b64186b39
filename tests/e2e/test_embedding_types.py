"""Quantised embeddings in every dialect, by Cohere's and Voyage's clients and by hand, against numpy.

The formulas are those of sentence-transformers' quantize_embeddings, which wants torch; where that
package is here, it is asked too.
"""
import base64
import json

import cohere
import numpy as np
import pytest
import voyageai

from conftest import EMBED, GOLDEN, RERANK, expected
from test_openapi import check_answer, check_request

CASES = [case for case in expected(EMBED)["texts"] if not case.get("prompt_name")][:6]
TEXTS = [case["text"] for case in CASES]
TYPES = ["int8", "uint8", "binary", "ubinary"]


def quantize(rows, kind, reach=1.0):
    rows = np.asarray(rows, np.float32)
    if kind.endswith("binary"):
        bits = np.packbits(rows > 0, axis=1)
        return (bits - 128).astype(np.int8) if kind == "binary" else bits
    start, end = np.float32(-reach), np.float32(reach)
    scaled = (rows - start) / ((end - start) / np.float32(255))
    return scaled.astype(np.uint8) if kind == "uint8" else (scaled - np.float32(128)).astype(np.int8)


@pytest.fixture(scope="module")
def server_args(weather):
    return ("--model", f"embed={GOLDEN / EMBED}", "--model", f"rerank={GOLDEN / RERANK}", "--model", f"weather={weather}")


@pytest.fixture(scope="module")
def floats(server):
    answer = server.post("/v1/embeddings", {"model": "embed", "input": TEXTS})
    return np.array([row["embedding"] for row in answer.json()["data"]], np.float32)


@pytest.fixture(scope="module")
def document(server):
    return server.get("/openapi.json").json()


@pytest.fixture(scope="module")
def voyage(server):
    return voyageai.Client(api_key="none", base_url=server.url + "/v1")


def test_the_formulas_are_sentence_transformers(floats):
    quantization = pytest.importorskip("sentence_transformers.quantization")
    ranges = np.array([[-1.0] * floats.shape[1], [1.0] * floats.shape[1]], np.float32)
    for kind in TYPES:
        assert (quantization.quantize_embeddings(floats, kind, ranges=ranges) == quantize(floats, kind)).all()


@pytest.mark.parametrize("field", ["embedding_type", "output_dtype"])
@pytest.mark.parametrize("kind", TYPES)
def test_jinas_and_voyages_fields(server, document, floats, field, kind):
    body = {"model": "embed", "input": [{"text": TEXTS[0]}, *TEXTS[1:]], field: kind}
    check_request(document, "/v1/embeddings", body)
    answer = server.post("/v1/embeddings", body).json()
    check_answer(document, "POST", "/v1/embeddings", answer)
    got = np.array([row["embedding"] for row in answer["data"]])
    assert (got == quantize(floats, kind)).all()
    assert ("quantization" in answer) == kind.endswith("int8")
    if kind.endswith("int8"):
        assert answer["quantization"] == {"type": kind, "min": -1.0, "max": 1.0, "saturated": 0}


def test_a_range_of_ones_own(server, floats):
    reach = 0.5
    answer = server.post("/v1/embeddings", {"model": "embed", "input": TEXTS, "output_dtype": "uint8",
                                            "quantize_range": reach}).json()
    outside = np.abs(floats) > np.float32(reach)
    got = np.array([row["embedding"] for row in answer["data"]])
    wanted = quantize(np.clip(floats, -reach, reach), "uint8", reach)
    assert (got == wanted).all() and answer["quantization"]["saturated"] == outside.sum() > 0


def test_lines_have_them_too(server, floats):
    answer = server.post("/v1/embeddings", {"model": "embed", "input": TEXTS, "output_dtype": "int8"},
                         headers={"Accept": "application/x-ndjson"})
    lines = [json.loads(line) for line in answer.text.splitlines()]
    rows = {line["index"]: line["embedding"] for line in lines[:-1]}
    assert (np.array([rows[i] for i in range(len(TEXTS))]) == quantize(floats, "int8")).all()
    assert lines[-1]["quantization"]["max"] == 1.0


# --- Voyage ------------------------------------------------------------------------------------


@pytest.mark.client("voyageai", "embed: every output_dtype, output_dimension, input_type")
def test_voyages_client_embeds(voyage, floats):
    plain = voyage.embed(TEXTS, model="embed")
    assert np.abs(np.array(plain.embeddings) - floats).max() < 1e-6
    assert plain.total_tokens == sum(len(case["ids"]) for case in CASES)
    for kind in TYPES:
        assert (np.array(voyage.embed(TEXTS, model="embed", output_dtype=kind).embeddings)
                == quantize(floats, kind)).all()
    assert len(voyage.embed(["a"], model="embed", input_type="query", output_dimension=8).embeddings[0]) == 8
    prompted = next(case for case in expected(EMBED)["texts"] if case.get("prompt_name") == "query")
    got = voyage.embed([prompted["text"]], model="embed", input_type="query").embeddings[0]
    assert np.abs(np.array(got) - prompted["embedding"]).max() < 1e-5


@pytest.mark.client("voyageai", "rerank")
def test_voyages_client_reranks(server, voyage):
    documents = ["a dog", "a cat", "the law"]
    ranked = voyage.rerank("dog", documents, model="rerank", top_k=2)
    plain = server.post("/v1/rerank", {"query": "dog", "documents": documents, "model": "rerank"}).json()["results"]
    assert [(row.index, row.relevance_score) for row in ranked.results] == \
        [(row["index"], row["relevance_score"]) for row in plain[:2]]
    assert ranked.results[0].document == documents[ranked.results[0].index] and ranked.total_tokens > 0
    assert len(voyage.rerank("dog", documents, model="rerank").results) == 3


@pytest.mark.client("voyageai", "errors")
def test_voyages_client_reads_errors(voyage):
    with pytest.raises(voyageai.error.InvalidRequestError) as told:
        voyage.embed(["dog " * 500], model="embed", truncation=False, output_dtype="int4")
    assert "output_dtype" in str(told.value)
    with pytest.raises(voyageai.error.VoyageError) as told:
        voyage.embed(["a"], model="gone")
    assert "gone" in str(told.value)


# --- Cohere ------------------------------------------------------------------------------------


@pytest.mark.client("cohere", "ClientV2.embed: every embedding type, inputs, output_dimension")
def test_cohere_v2_embeds(server, floats):
    client = cohere.ClientV2("none", base_url=server.url)
    answer = client.embed(model="embed", texts=TEXTS, input_type="classification",
                          embedding_types=["float", *TYPES, "base64"])
    got = answer.embeddings
    assert np.abs(np.array(got.float_) - floats).max() < 1e-6
    for kind in TYPES:
        assert (np.array(getattr(got, kind)) == quantize(floats, kind)).all()
    decoded = np.array([np.frombuffer(base64.b64decode(row), "<f4") for row in got.base64])
    assert (decoded == floats).all()
    assert answer.texts == TEXTS
    assert answer.meta.billed_units.input_tokens == sum(len(case["ids"]) for case in CASES)
    short = client.embed(model="embed", inputs=[{"content": [{"type": "text", "text": TEXTS[0]}]}],
                         input_type="classification", output_dimension=8)
    assert len(short.embeddings.float_[0]) == 8


@pytest.mark.client("cohere", "Client.embed")
def test_cohere_v1_embeds(server, floats, document):
    client = cohere.Client("none", base_url=server.url)
    plain = client.embed(model="embed", texts=TEXTS, input_type="classification")
    assert np.abs(np.array(plain.embeddings) - floats).max() < 1e-6
    typed = client.embed(model="embed", texts=TEXTS, input_type="classification", embedding_types=["int8"])
    assert (np.array(typed.embeddings.int8) == quantize(floats, "int8")).all()
    for path, more in (("/v1/embed", {}), ("/v2/embed", {"embedding_types": ["uint8", "base64"]})):
        body = {"model": "embed", "texts": ["a"], "input_type": "search_query", **more}
        check_request(document, path, body)
        check_answer(document, "POST", path, server.post(path, body).json())


@pytest.mark.client("cohere", "ClientV2.chat, chat_stream")
def test_cohere_v2_chats(server, document):
    client = cohere.ClientV2("none", base_url=server.url)
    messages = [{"role": "user", "content": "Hello"}]
    whole = client.chat(model="weather", messages=messages)
    assert whole.message.content[0].text == "Good day." and whole.finish_reason == "COMPLETE"
    assert whole.usage.tokens.output_tokens == 3
    cut = client.chat(model="weather", messages=messages, max_tokens=1)
    assert cut.finish_reason == "MAX_TOKENS"
    events = list(client.chat_stream(model="weather", messages=messages))
    assert [event.type for event in events] == ["message-start", "content-start", "content-delta", "content-delta",
                                               "content-end", "message-end"]
    assert "".join(event.delta.message.content.text for event in events if event.type == "content-delta") == "Good day."
    assert events[-1].delta.finish_reason == "COMPLETE" and events[-1].delta.usage.tokens.output_tokens == 3
    body = {"model": "weather", "messages": messages}
    check_request(document, "/v2/chat", body)
    check_answer(document, "POST", "/v2/chat", server.post("/v2/chat", body).json())


TOOL = {"type": "function", "function": {
    "name": "weather", "description": "The weather of a place.",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}}


@pytest.mark.client("cohere", "ClientV2.chat, chat_stream with tools")
def test_cohere_v2_calls_tools(server):
    client = cohere.ClientV2("none", base_url=server.url)
    turns = [{"role": "user", "content": "Does it rain in Ulm?"}]
    answer = client.chat(model="weather", messages=turns, tools=[TOOL])
    call, = answer.message.tool_calls
    assert (call.function.name, call.function.arguments.split()) == ("weather", ['{"at":', '"Ulm"}'])
    assert answer.finish_reason == "TOOL_CALL" and answer.message.tool_plan == "Let me look."
    assert answer.message.content[0].thinking == "Ask the station."
    events = list(client.chat_stream(model="weather", messages=turns, tools=[TOOL]))
    arguments = "".join(event.delta.message.tool_calls.function.arguments for event in events
                        if event.type == "tool-call-delta")
    assert arguments == call.function.arguments and events[-1].delta.finish_reason == "TOOL_CALL"
    turns += [{"role": "assistant", "tool_plan": answer.message.tool_plan,
               "tool_calls": [call.model_dump()]},
              {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    assert client.chat(model="weather", messages=turns, tools=[TOOL]).message.content[0].text == "It rains in Ulm."


@pytest.mark.client("cohere", "errors")
def test_cohere_reads_errors(server):
    client = cohere.ClientV2("none", base_url=server.url)
    with pytest.raises(cohere.NotFoundError):
        client.embed(model="gone", texts=["a"], input_type="classification", embedding_types=["float"])
    with pytest.raises(cohere.BadRequestError) as told:
        client.chat(model="weather", messages=[{"role": "user", "content": "x"}], p=0.5, k=-1)
    assert "k" in str(told.value.body)
    with pytest.raises(cohere.BadRequestError) as told:
        client.embed(model="embed", images=["data:image/png;base64,aGk="], input_type="image")
    assert "image" in str(told.value.body)


# --- OpenAI's token ids ------------------------------------------------------------------------


def test_token_ids_of_another_tokenizer(server, start):
    ids = [101, 50000, 99999]  # cl100k has about 100,000
    answer = server.post("/v1/embeddings", {"model": "embed", "input": [ids]})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "input[0]"
    assert "50000" in answer.json()["error"]["message"] and "vocabulary" in answer.json()["error"]["message"]
    strict = start("--openai-token-ids", "refuse")
    refused = strict.post("/v1/embeddings", {"input": CASES[0]["ids"]})
    assert refused.status_code == 400 and "--openai-token-ids" in refused.json()["error"]["message"]
    assert strict.post("/v1/embeddings", {"input": "a"}).status_code == 200
    assert strict.post("/embed", {"inputs": [CASES[0]["ids"]]}).status_code == 200
