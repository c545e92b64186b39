"""The real all-MiniLM-L6-v2, where its folder is found."""
import numpy as np
import pytest

from conftest import ROOT


def test_similar_sentences_are_close(minilm):
    answer = minilm.post("/v1/embeddings", {"input": [
        "That is a happy person", "That is a very happy person", "Today is a sunny day"]})
    rows = np.array([row["embedding"] for row in answer.json()["data"]])
    assert rows.shape == (3, 384)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    assert rows[0] @ rows[1] == pytest.approx(0.943, abs=2e-3)
    assert rows[0] @ rows[2] == pytest.approx(0.257, abs=2e-3)


def test_reference(minilm):
    import json
    reference = json.loads((ROOT / "tests/golden/minilm/expected.json").read_text())
    cases = [case for case in reference["texts"] if "embedding" in case]
    assert cases
    answer = minilm.post("/embed", {"inputs": [case["text"] for case in cases]})
    for row, case in zip(answer.json(), cases):
        row, wanted = np.array(row), np.array(case["embedding"])
        assert 1 - row @ wanted / np.linalg.norm(row) / np.linalg.norm(wanted) < 1e-6


def test_long_texts_are_cut_at_the_models_limit(minilm):
    answer = minilm.post("/v1/embeddings", {"input": "word " * 500})
    info = minilm.get("/info").json()
    assert answer.json()["usage"]["prompt_tokens"] == info["max_input_length"]
    # Few enough bytes to be read whole, so the count is exact.
    assert answer.json()["truncated"] == {
        "inputs": 1, "tokens": 502 - info["max_input_length"], "unread_bytes": 0}
    long = minilm.post("/v1/embeddings", {"input": "word " * 50_000}).json()
    assert long["data"][0]["embedding"] == answer.json()["data"][0]["embedding"]
    assert long["truncated"]["inputs"] == 1 and long["truncated"]["unread_bytes"] > 240_000


def test_concurrent_equals_alone(minilm):
    from concurrent.futures import ThreadPoolExecutor
    texts = ["sentence " * (1 + i) for i in range(16)]

    def embed(text):
        return minilm.post("/embed", {"inputs": text}).json()[0]

    alone = [embed(text) for text in texts]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(embed, texts)) == alone
