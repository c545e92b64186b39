"""OpenAI's routes, by OpenAI's client and by hand."""
import base64

import numpy as np
import openai
import pytest

from conftest import EMBED, expected, model_args, wait_for

TEXTS = [case for case in expected(EMBED)["texts"] if not case.get("prompt_name")]


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def close(got, wanted):
    return np.abs(np.asarray(got) - np.asarray(wanted)).max() < 1e-5


@pytest.mark.client("openai", "embeddings.create: floats and base64")
@pytest.mark.parametrize("encoding", ["float", "base64", None])
def test_embeddings_equal_the_reference(client, encoding):
    more = {} if encoding is None else {"encoding_format": encoding}
    texts = [case["text"] for case in TEXTS]
    answer = client.embeddings.create(model="embed", input=texts, user="me", **more)
    assert [row.index for row in answer.data] == list(range(len(texts)))
    for row, case in zip(answer.data, TEXTS):
        got = row.embedding
        if isinstance(got, str):
            got = np.frombuffer(base64.b64decode(got), "<f4")
        assert close(got, case["embedding"]), case["text"][:40]
    assert answer.usage.prompt_tokens == sum(len(case["ids"]) for case in TEXTS)
    assert answer.model == "embed"


@pytest.mark.client("openai", "embeddings.create of token ids")
def test_token_ids(client):
    case = TEXTS[0]
    alone = client.embeddings.create(model="embed", input=case["ids"])
    both = client.embeddings.create(model="embed", input=[case["ids"], TEXTS[1]["ids"]])
    assert close(alone.data[0].embedding, case["embedding"])
    assert both.data[0].embedding == alone.data[0].embedding
    assert close(both.data[1].embedding, TEXTS[1]["embedding"])


def test_prompts(server):
    case = next(case for case in expected(EMBED)["texts"] if case.get("prompt_name") == "query")
    for more in ({"prompt_name": "query"}, {"prompt": "query: "}, {"input_type": "query"},
                 {"input_type": "search_query"}, {"task": "retrieval.query"}):
        answer = server.post("/v1/embeddings", {"input": case["text"], **more})
        assert close(answer.json()["data"][0]["embedding"], case["embedding"]), more
    answer = server.post("/v1/embeddings", {"input": "x", "prompt_name": "nope"})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "prompt_name"


def test_dimensions(server):
    case = TEXTS[0]
    answer = server.post("/v1/embeddings", {"input": case["text"], "dimensions": 8}).json()
    got = np.array(answer["data"][0]["embedding"])
    assert got.shape == (8,)
    raw = np.array(case["embedding"][:8])
    cosine = got @ raw / np.linalg.norm(got) / np.linalg.norm(raw)
    assert cosine > 1 - 1e-6
    too_many = server.post("/v1/embeddings", {"input": "x", "dimensions": 33})
    assert too_many.status_code in (400, 422)
    assert too_many.json()["error"]["param"] == "dimensions"


def test_truncation_is_reported(server):
    body = {"input": ["dog " * 500, "dog"]}
    answer = server.post("/v1/embeddings", body)
    cut = answer.json()["truncated"]
    assert answer.status_code == 200 and cut["inputs"] == 1
    # A long text is not read to its end; a word is four bytes.
    assert cut["tokens"] > 0 and cut["tokens"] + cut["unread_bytes"] / 4 > 400
    assert answer.headers["X-Penstock-Unread-Bytes"] == str(cut["unread_bytes"])
    assert answer.headers["X-Penstock-Truncated-Inputs"] == "1"
    assert answer.headers["X-Penstock-Truncated-Tokens"] == str(cut["tokens"])
    for refuse in (False, "NONE"):
        answer = server.post("/v1/embeddings", {**body, "truncate": refuse})
        assert answer.status_code in (413, 422), answer.text
        assert answer.json()["error"]["param"] == "input[0]"
    left = server.post("/v1/embeddings", {"input": "dog " * 500 + "cat", "truncate": "START"})
    right = server.post("/v1/embeddings", {"input": "dog " * 500 + "cat", "truncate": "END"})
    assert left.json()["data"] != right.json()["data"]
    assert server.post("/v1/embeddings", {"input": "dog"}).json()["truncated"] == {
        "inputs": 0, "tokens": 0, "unread_bytes": 0}


@pytest.mark.client("openai", "models.list, retrieve")
def test_models(client):
    assert [model.id for model in client.models.list()] == ["embed", "rerank", "classify"]
    assert client.models.retrieve("rerank").owned_by == "penstock"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("gone")
    assert caught.value.code == "model_not_found"


@pytest.mark.client("openai", "errors")
def test_errors_reach_the_client(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.embeddings.create(model="gone", input="x")
    assert caught.value.code == "model_not_found" and caught.value.param == "model"
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model="embed", input=[])
    assert caught.value.param == "input" and "input" in caught.value.message
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        client.embeddings.create(model="rerank", input="x")
    assert caught.value.param == "model"


def test_concurrent_clients_get_what_they_get_alone(server):
    from concurrent.futures import ThreadPoolExecutor
    texts = [("word " * (1 + i % 40) + str(i)) for i in range(64)]

    def embed(text):
        answer = server.post("/v1/embeddings", {"input": text, "encoding_format": "base64"})
        return answer.json()["data"][0]["embedding"]

    alone = [embed(text) for text in texts]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(embed, texts))
    batch = server.post("/v1/embeddings", {"input": texts, "encoding_format": "base64"}).json()
    assert together == alone  # to the bit
    assert [row["embedding"] for row in batch["data"]] == alone


def test_an_id_beyond_the_vocabulary_is_named(server):
    for ids, where in (([[5, 6], [7, 999_999]], "input[1][1]"), ([5, 6, 999_999], "input[2]"),
                       ([200], "input[0]")):
        answer = server.post("/v1/embeddings", {"input": ids})
        assert answer.status_code == 400
        message = answer.json()["error"]["message"]
        assert message.startswith(f"{where}: ") and "the vocabulary has 200" in message, message
    assert server.post("/v1/embeddings", {"input": [199]}).status_code == 200


def test_ids_of_another_tokenizer_are_warned_of_once(start):
    # With settings of its own, else both names were one model.
    server = start(*model_args(("embed", EMBED), ("other", EMBED)), "--dtype", "other=bf16")
    said = lambda: [line for line in server.log if "check_embedding_ctx_length" in line]
    own = [token["id"] for token in server.post("/tokenize", {"inputs": "dog"}).json()[0]]
    assert server.post("/v1/embeddings", {"input": own}).status_code == 200
    assert server.post("/v1/embeddings", {"input": own[:-1]}).status_code == 200  # cut by the client
    assert not said()
    for body in ({"input": [own, own[1:-1]]}, {"input": own[1:-1]}):
        assert server.post("/v1/embeddings", body).status_code == 200
    assert wait_for(said) and "model 'embed' gets token ids" in said()[0] and "--no-token-input" in said()[0]
    server.post("/embed", {"inputs": own[1:-1], "model": "other"})
    assert wait_for(lambda: len(said()) == 2) and "model 'other'" in said()[1]


def test_no_token_input(start):
    server = start("--no-token-input")
    for path, field in (("/v1/embeddings", "input"), ("/embed", "inputs"), ("/embed_all", "inputs")):
        for ids in ([5, 6], [[5, 6], [7]]):
            answer = server.post(path, {field: ids})
            assert answer.status_code == 400, answer.text
            assert f"'{field}'" in answer.text and "--no-token-input" in answer.text
        assert server.post(path, {field: "dog"}).status_code == 200
    assert server.post("/v1/embeddings", {"input": [5]}).json()["error"]["param"] == "input"
    assert server.post("/decode", {"ids": [5, 6]}).status_code == 200
