"""The routes of text-embeddings-inference, by Hugging Face's client and by hand."""
import numpy as np
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

from conftest import EMBED, expected

CASES = [case for case in expected(EMBED)["texts"] if not case.get("prompt_name")]


def test_embed(server):
    texts = [case["text"] for case in CASES]
    answer = server.post("/embed", {"inputs": texts, "truncate": True})
    rows = np.array(answer.json())
    for row, case in zip(rows, CASES):
        assert np.abs(row - case["embedding"]).max() < 1e-5
    assert server.post("/embed", {"inputs": texts[0]}).json() == [answer.json()[0]]
    assert server.post("/", {"inputs": texts[0]}).json() == [answer.json()[0]]
    assert server.post("/embed", {"inputs": [CASES[0]["ids"]]}).json() == [answer.json()[0]]
    plain = np.array(server.post("/embed", {"inputs": texts[0], "normalize": False}).json())[0]
    assert np.linalg.norm(rows[0]) == pytest.approx(1, abs=1e-5)
    assert np.linalg.norm(plain) != pytest.approx(1, abs=1e-3)


def test_embed_all(server):
    case = CASES[0]
    rows = np.array(server.post("/embed_all", {"inputs": case["text"]}).json())
    assert rows.shape[:2] == (1, len(case["ids"]))
    pooled = rows[0].mean(0)
    assert np.abs(pooled / np.linalg.norm(pooled) - case["embedding"]).max() < 1e-5


def test_embed_sparse_is_refused(server):
    answer = server.post("/embed_sparse", {"inputs": "x"})
    assert answer.status_code == 424 and answer.json()["error_type"] == "Backend"


def test_tokenize_and_decode(server):
    case = CASES[0]
    tokens = server.post("/tokenize", {"inputs": case["text"]}).json()[0]
    assert [t["id"] for t in tokens] == case["ids"]
    assert tokens[0]["special"] and tokens[0]["start"] is None
    words = [t for t in tokens if not t["special"]]
    assert [case["text"][t["start"]:t["stop"]].lower() for t in words][:2] == ["that", "is"]
    bare = server.post("/tokenize", {"inputs": [case["text"]], "add_special_tokens": False}).json()
    assert [t["id"] for t in bare[0]] == case["ids"][1:-1]
    decoded = server.post("/decode", {"ids": case["ids"]}).json()
    assert decoded == ["that is a happy person"]
    assert server.post("/decode", {"ids": [case["ids"]] * 2}).json() == decoded * 2
    special = server.post("/decode", {"ids": case["ids"], "skip_special_tokens": False}).json()
    assert special[0].startswith("[CLS]")


@pytest.mark.client("huggingface_hub", "InferenceClient: feature_extraction, sentence_similarity")
def test_similarity_and_the_hugging_face_client(server):
    client = InferenceClient(model=server.url)
    texts = [case["text"] for case in CASES]
    vectors = np.array([case["embedding"] for case in CASES])
    assert np.abs(client.feature_extraction(texts[0])[0] - vectors[0]).max() < 1e-5
    many = client.feature_extraction(texts, normalize=True, truncate=True)
    assert np.abs(many - vectors).max() < 1e-5
    scores = client.sentence_similarity(texts[0], texts[1:])
    assert np.abs(np.array(scores) - vectors[1:] @ vectors[0]).max() < 1e-5
    direct = server.post("/similarity",
                         {"inputs": {"source_sentence": texts[0], "sentences": texts[1:]}})
    assert direct.json() == scores
    with pytest.raises(HfHubHTTPError):
        client.feature_extraction("x", prompt_name="nope")


def test_sagemaker_and_vertex(server, reranker):
    one = {"inputs": CASES[0]["text"]}
    assert server.post("/invocations", one).json() == server.post("/", one).json()
    pair = {"inputs": [case["text"] for case in CASES[:2]]}
    answer = server.post("/vertex", {"instances": [one, pair]})
    assert answer.json() == {"predictions": [server.post("/", one).json(), server.post("/", pair).json()]}
    lines = server.post("/vertex", {"instances": [one]}, headers={"Accept": "application/x-ndjson"})
    assert lines.json() == {"predictions": [server.post("/", one).json()]}  # no stream within it
    many = server.post("/vertex", {"instances": [{"inputs": "a"}] * 700})
    assert many.status_code == 200 and len(many.json()["predictions"]) == 700
    ranked = {"query": "dog", "texts": ["a dog", "a law"]}
    assert reranker.post("/vertex", {"instances": [ranked]}).json() == {
        "predictions": [reranker.post("/rerank", ranked).json()]}
    for body, says, field in (
            ({}, "'instances'", "instances"), ({"instances": []}, "empty", "instances"),
            ({"instances": ["a"]}, "must be an object", "instances[0]"),
            ({"instances": [one, {"inputs": 5}]}, "instances[1]: ", "instances[1].inputs"),
            ({"instances": [{**one, "stream": True}]}, "as a whole", "instances[0].stream")):
        refused = server.post("/vertex", body)
        assert refused.status_code == 400 and says in refused.json()["error"], (body, refused.text)
        assert refused.json()["field"] == field, refused.text


def test_info(server):
    info = server.get("/info").json()
    assert info["model_id"] == "embed" and info["model_type"] == {"embedding": {"pooling": "mean"}}
    assert info["max_input_length"] == 48 and info["max_client_batch_size"] > 0
    assert info["max_batch_tokens"] > 0  # measured
    assert info["tokenization_workers"] == server.get("/v1/stats").json()["tokenization"]["workers"] > 0
    assert [model["id"] for model in info["models"]] == ["embed", "rerank", "classify"]
    for model in info["models"]:
        assert model["ready"] and model["dtype"] == "float32" and model["aliases"] == []
        assert model["max_tokens"] > 0 and model["max_batch_tokens"] > 0
    assert [model["task"] for model in info["models"]] == ["embedding", "reranking", "classification"]
    assert "dimensions" in info["models"][0] and "dimensions" not in info["models"][1]
    assert server.get("/info?model=classify").json()["model_type"]["classifier"]["id2label"]
    assert server.get("/info?model=gone").status_code == 404


def test_truncation_headers(server):
    answer = server.post("/embed", {"inputs": ["dog " * 100, "a"]})
    assert answer.headers["X-Penstock-Truncated-Inputs"] == "1"
    assert int(answer.headers["X-Penstock-Truncated-Tokens"]) > 40
