"""Input that is wrong, huge or strange gets a clear error or the right answer, never a crash."""
import json

import pytest
import requests

LONE = '{"%s": "\\ud800"}'


def post(server, path, data):
    return requests.post(server.url + path, data=data, timeout=30,
                         headers={"Content-Type": "application/json"})


WRONG = [
    # route, body, the field that the error names
    ("/v1/embeddings", {}, "input"),
    ("/v1/embeddings", {"input": None}, "input"),
    ("/v1/embeddings", {"input": 5}, "input"),
    ("/v1/embeddings", {"input": {"a": 1}}, "input"),
    ("/v1/embeddings", {"input": []}, "input"),
    ("/v1/embeddings", {"input": ["a", 1]}, "input[1]"),
    ("/v1/embeddings", {"input": ["a", ["b"]]}, "input[1]"),
    ("/v1/embeddings", {"input": [1, "a"]}, "input[1]"),
    ("/v1/embeddings", {"input": [1, -1]}, "input[1]"),
    ("/v1/embeddings", {"input": [1, 999999]}, "input"),
    ("/v1/embeddings", {"input": [[1], []]}, "input"),
    ("/v1/embeddings", {"input": "a", "model": 1}, "model"),
    ("/v1/embeddings", {"input": "a", "encoding_format": "int8"}, "encoding_format"),
    ("/v1/embeddings", {"input": "a", "dimensions": 0}, "dimensions"),
    ("/v1/embeddings", {"input": "a", "dimensions": 1.5}, "dimensions"),
    ("/v1/embeddings", {"input": "a", "dimensions": 10 ** 30}, "dimensions"),
    ("/v1/embeddings", {"input": "a", "truncate": "MIDDLE"}, "truncate"),
    ("/v1/embeddings", {"input": "a", "truncate": 1}, "truncate"),
    ("/v1/embeddings", {"input": "a", "normalize": "no"}, "normalize"),
    ("/v1/embeddings", {"input": "a", "input_type": "image"}, "input_type"),
    ("/v1/embeddings", {"input": "a", "prompt_name": ["q"]}, "prompt_name"),
    ("/v1/embeddings", {"input": "a", "prompt": 3}, "prompt"),
    ("/v1/rerank", {"model": "rerank", "documents": ["a"]}, "query"),
    ("/v1/rerank", {"model": "rerank", "query": 1, "documents": ["a"]}, "query"),
    ("/v1/rerank", {"model": "rerank", "query": "a", "documents": []}, "documents"),
    ("/v1/rerank", {"model": "rerank", "query": "a", "documents": "b"}, "documents"),
    ("/v1/rerank", {"model": "rerank", "query": "a", "documents": ["b", 1]}, "documents[1]"),
    ("/v1/rerank", {"model": "rerank", "query": "a", "documents": ["b"], "top_n": 0}, "top_n"),
    ("/v2/rerank", {"model": "rerank", "query": "a", "documents": [{"x": 1}]}, "documents[0].text"),
    ("/v1/rerank", {"model": "embed", "query": "a", "documents": ["b"]}, "model"),
    ("/v1/classify", {"model": "classify", "input": [["a", "b", "c"]]}, "input[0]"),
    ("/v1/classify", {"model": "classify", "input": []}, "input"),
    ("/v1/classify", {"model": "classify", "input": "a", "raw_scores": "x"}, "raw_scores"),
    ("/embed", {"input": "a"}, "inputs"),
    ("/embed", {"inputs": "a", "truncation_direction": "up"}, "truncation_direction"),
    ("/embed_all", {"inputs": [True]}, "inputs[0]"),
    ("/rerank", {"model": "rerank", "query": "a"}, "texts"),
    ("/rerank", {"model": "rerank", "query": "a", "documents": ["b", None]}, "documents[1]"),
    ("/rerank", {"model": "rerank", "query": "a", "documents": ["b"], "texts": ["b"]}, "documents"),
    ("/rerank", {"model": "rerank", "query": "a", "texts": ["b", None]}, "texts[1]"),
    ("/rerank", {"model": "rerank", "query": "a", "texts": []}, "texts"),
    ("/predict", {"model": "classify", "inputs": ["a", "b", "c"]}, "inputs"),
    ("/predict", {"model": "classify", "inputs": [[]]}, "inputs[0]"),
    ("/similarity", {"inputs": {"sentences": ["a"]}}, "inputs.source_sentence"),
    ("/similarity", {"inputs": {"source_sentence": "a", "sentences": []}}, "inputs.sentences"),
    ("/tokenize", {"inputs": [1]}, "inputs[0]"),
    ("/tokenize", {"inputs": "a", "add_special_tokens": "yes"}, "add_special_tokens"),
    ("/decode", {"ids": ["a"]}, "ids[0]"),
    ("/decode", {"ids": "a"}, "ids"),
]


@pytest.mark.parametrize("path,body,field", WRONG, ids=[f"{w[0]}-{i}" for i, w in enumerate(WRONG)])
def test_wrong_requests_name_the_field(server, path, body, field):
    answer = post(server, path, json.dumps(body))
    assert answer.status_code in (400, 422), answer.text
    error = answer.json()
    if path in ("/v1/embeddings", "/v1/classify"):
        named, message = error["error"]["param"], error["error"]["message"]
    else:
        named, message = error["field"], error.get("error") or error["message"]
    assert named is not None and named.startswith(field), answer.text
    assert field.split("[")[0].split(".")[0] in message, answer.text


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b'"x"', b"null", b"{'inputs': 'x'}", b'{"inputs": "a"} trailing',
    b'{"inputs": "a\xff"}', b'{"inputs": "a\x00b"}', b'{"inputs": "a\nb"}', b'{"inputs": "\\x"}',
    LONE.encode() % b"inputs", b'{"inputs": "\\udc00\\ud800"}', b'{"inputs": NaN}',
    b'{"inputs": "a", "inputs": "b"}', b"[" * 100_000, b'{"a":' * 100_000, b'{"inputs": 1e999}',
    b'{"inputs":' + b"[" * 200 + b"]" * 200 + b"}", b'\xef\xbb\xbf{"inputs": }',
], ids=lambda body: repr(body[:24]))
def test_broken_json(server, body):
    answer = post(server, "/embed", body)
    assert answer.status_code == 400, answer.text
    assert len(answer.json()["error"]) > 10
    assert server.get("/health").status_code == 200


def test_strange_texts_are_texts(server):
    """NUL, as the tokenizer's own cleaning has it, is dropped; it ends nothing."""
    texts = ["", " ", "a\0b", "ab", "\U0001f600", "e\u0301", "\u202eabc", "\ufffd", "x" * 10_000]
    rows = server.post("/embed", {"inputs": texts}).json()
    assert len(rows) == len(texts) and all(len(row) == 32 for row in rows)
    assert rows[2] == rows[3]


def test_a_text_of_a_megabyte(server):
    answer = server.post("/embed", {"inputs": "dog " * (1 << 18)})
    assert answer.status_code == 200 and answer.headers["X-Penstock-Truncated-Inputs"] == "1"
    answer = server.post("/embed", {"inputs": "x" * ((1 << 20) + 1)})
    assert answer.status_code == 413
    assert answer.json()["field"] == "inputs[0]" and "1048576" in answer.json()["error"]


def test_too_many_inputs(server):
    answer = server.post("/v1/embeddings", {"input": ["a"] * 2049})
    assert answer.status_code == 413 and "2048" in answer.json()["error"]["message"]
    assert answer.json()["error"]["param"] == "input"
    assert len(server.post("/embed", {"inputs": ["a"] * 2048}).json()) == 2048


def test_bad_timeout_header(server):
    for value in ("x", "0", "-5", "1.5", "99999999999999999999"):
        answer = server.post("/embed", {"inputs": "a"}, headers={"X-Request-Timeout-Ms": value})
        assert answer.status_code == 400 and "X-Request-Timeout-Ms" in answer.text, value
    good = server.post("/embed", {"inputs": "a"}, headers={"X-Request-Timeout-Ms": "10000"})
    assert good.status_code == 200


def test_bad_priority_header(server):
    for path, where in (("/embed", ("error",)), ("/v1/embeddings", ("error", "message")),
                        ("/v1/rerank", ("message",))):
        answer = server.post(path, {}, headers={"X-Penstock-Priority": "urgent"})
        assert answer.status_code == 400, path
        message = answer.json()
        for key in where:
            message = message[key]
        assert message == "X-Penstock-Priority must be interactive or bulk", path


def test_after_all_this_the_server_is_well(server):
    assert server.get("/readyz").json() == {"status": "ready"}
    assert not [line for line in server.log if " error " in line]
