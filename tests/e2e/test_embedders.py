"""Decoders that embed and rerank, over HTTP and from the command line, without a flag that says so."""
import json

import numpy
import openai
import pytest

from conftest import GOLDEN, run

EMBEDDERS = GOLDEN.parent / "embedders"
# Weights in bf16 where the processor has it: of a cosine, and of a score.
COSINE_MIN, SCORE_ERROR_MAX = 0.9995, 0.02


def expected(name):
    return json.loads((EMBEDDERS / name / "expected.json").read_text(encoding="utf-8"))["texts"]


def cosine(a, b):
    a, b = numpy.array(a), numpy.array(b)
    return a @ b / numpy.linalg.norm(a) / numpy.linalg.norm(b)


@pytest.fixture(scope="module")
def names():
    return ["qwen3_lasttoken", "gemma3_mean_dense", "qwen3_lasttoken_gguf", "qwen3_reranker", "qwen3_logit_score"]


@pytest.fixture(scope="module")
def server_args(names):
    return [arg for name in names for arg in ("--model", EMBEDDERS / name)]


def test_embeddings_with_prompts(server):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    for name in ("qwen3_lasttoken", "gemma3_mean_dense", "qwen3_lasttoken_gguf"):
        for text in expected(name):
            extra = {"prompt_name": text["prompt_name"]} if text["prompt_name"] else {}
            answer = client.embeddings.create(model=name, input=text["text"], extra_body=extra)
            assert cosine(answer.data[0].embedding, text["embedding"]) > COSINE_MIN, (name, text["text"])
            assert answer.usage.prompt_tokens == len(text["ids"])
    models = {model["id"]: model for model in server.get("/v1/models").json()["data"]}
    assert models["qwen3_lasttoken"]["task"] == "embedding" and models["qwen3_lasttoken"]["dimensions"] == 32
    assert models["qwen3_reranker"]["task"] == "reranking"


def test_reranking(server):
    for name in ("qwen3_reranker", "qwen3_logit_score"):
        texts = [text for text in expected(name) if text["text"] == "What is a penstock?"]
        answer = server.post("/v1/rerank", {"model": name, "query": texts[0]["text"],
                                            "documents": [text["text_pair"] for text in texts]}).json()
        scores = {result["index"]: result["relevance_score"] for result in answer["results"]}
        for i, text in enumerate(texts):
            assert abs(scores[i] - text["scores"][0]) < SCORE_ERROR_MAX, (name, text["text_pair"])
        assert answer["usage"]["prompt_tokens"] == sum(len(text["ids"]) for text in texts)
        single = server.post("/v1/classify", {"model": name, "input": "a text"})
        assert single.status_code == 400 and "rerank" in single.text


def test_they_generate_no_text(server):
    for path, body in (("/v1/completions", {"prompt": "a"}), ("/v1/chat/completions",
                                                             {"messages": [{"role": "user", "content": "a"}]})):
        answer = server.post(path, {"model": "qwen3_lasttoken", **body})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == "model", answer.text


def test_from_the_command_line():
    text = expected("qwen3_lasttoken")[1]
    out = run("embed", "--model", EMBEDDERS / "qwen3_lasttoken", stdin=text["text"].encode())
    assert cosine(json.loads(out.stdout)["embedding"], text["embedding"]) > COSINE_MIN
    pair = expected("qwen3_reranker")[0]
    out = run("rerank", "--model", EMBEDDERS / "qwen3_reranker", "--query", pair["text"],
              stdin=pair["text_pair"].encode())
    assert abs(json.loads(out.stdout)["results"][0]["score"] - pair["scores"][0]) < SCORE_ERROR_MAX
    described = run("inspect", "--model", EMBEDDERS / "gemma3_mean_dense", "--program", "--length", "64")
    assert b"both directions" in described.stdout and b"picks(" in described.stdout
    other = run("inspect", "--model", EMBEDDERS / "qwen3_reranker", "--json")
    assert json.loads(other.stdout)["task"] == "reranking"
