"""What llama.cpp's server and vLLM have beside the routes of others, and names and bodies of clients that know an
address alone."""
import json

import numpy as np
import pytest
from huggingface_hub import InferenceClient

import scripted_model
from conftest import CLASSIFY, EMBED, GOLDEN, RERANK, expected
from test_openapi import check_answer, check_request

CASES = [case for case in expected(EMBED)["texts"] if not case.get("prompt_name")][:4]
PAIRS = [case for case in expected(RERANK)["texts"] if case.get("text_pair")]
SAME = [case for case in PAIRS if case["text"] == PAIRS[0]["text"]]
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def server_args(weather):
    return ("--model", f"embed={GOLDEN / EMBED}", "--model", f"rank={GOLDEN / RERANK}",
            "--model", f"labels={GOLDEN / CLASSIFY}", "--model", f"weather={weather}", "--max-sequences", "3")


@pytest.fixture(scope="module")
def document(server):
    return server.get("/openapi.json").json()


def asked(server, document, path, body):
    check_request(document, path, body)
    answer = server.post(path, body)
    assert answer.status_code == 200, answer.text
    check_answer(document, "POST", path, answer.json())
    return answer.json()


# --- llama.cpp's server ----------------------------------------------------------------------------


def test_completion(server, document):
    body = {"prompt": "<|chat|>", "temperature": 0}
    whole = asked(server, document, "/completion", {**body, "return_tokens": True, "n_probs": 2})
    assert whole["content"] == "Good day." and whole["stop_type"] == "eos" and whole["prompt"] == "<|chat|>"
    assert whole["tokens_predicted"] == len(whole["tokens"]) == 3 and whole["tokens_evaluated"] == 1
    assert [len(one["top_logprobs"]) for one in whole["completion_probabilities"]] == [2, 2, 2]
    cut = asked(server, document, "/completion", {**body, "n_predict": 1})
    assert (cut["content"], cut["stop_type"], cut["tokens"]) == ("Good ", "limit", [])
    assert asked(server, document, "/completion", {**body, "n_predict": 0})["content"] == ""
    word = asked(server, document, "/completion", {**body, "stop": ["x", "day"]})
    assert (word["content"], word["stop_type"], word["stopping_word"]) == ("Good ", "word", "day")
    lines = server.post("/completion", {**body, "stream": True}).text.strip().split("\n\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert [event["content"] for event in events] == ["Good ", "day.", ""]
    assert [event["stop"] for event in events] == [False, False, True] and events[-1]["tokens_predicted"] == 3
    refused = server.post("/completion", {**body, "grammar": 3})
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "grammar"
    refused = server.post("/completion", {**body, "repeat_penalty": 0})
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "repeat_penalty"


def test_tokens_in_every_form(server, document):
    case = CASES[0]
    ids = case["ids"]
    content = asked(server, document, "/tokenize", {"content": case["text"]})
    assert content == {"tokens": ids[1:-1]}
    assert asked(server, document, "/tokenize", {"content": case["text"], "add_special": True}) == {"tokens": ids}
    prompt = asked(server, document, "/tokenize", {"prompt": case["text"], "return_token_strs": True})
    assert (prompt["tokens"], prompt["count"], prompt["max_model_len"]) == (
        ids, len(ids), server.get("/info?model=embed").json()["max_input_length"])
    assert len(prompt["token_strs"]) == len(ids)
    assert [token["id"] for token in asked(server, document, "/tokenize", {"inputs": case["text"]})[0]] == ids
    text = asked(server, document, "/detokenize", {"tokens": ids[1:-1]})
    assert text == {"content": "that is a happy person", "prompt": "that is a happy person"}
    assert asked(server, document, "/detokenize", {"tokens": ids})["content"].startswith("[CLS]")
    for path, body, field in (("/tokenize", {"content": "a", "with_pieces": True}, "with_pieces"),
                              ("/tokenize", {"messages": HELLO}, "messages"), ("/tokenize", {}, "inputs"),
                              ("/detokenize", {"tokens": ["a"]}, "tokens[0]")):
        answer = server.post(path, body)
        assert answer.status_code == 400 and field in answer.text, answer.text


def test_props_and_slots(server, document):
    props = server.get("/props").json()
    check_answer(document, "GET", "/props", props)
    assert props["total_slots"] == 3 and props["model_alias"] == "weather" and "<tools>" in props["chat_template"]
    assert props["default_generation_settings"]["n_ctx"] == scripted_model.CONTEXT
    assert str(GOLDEN) not in json.dumps(props)
    slots = server.get("/slots?model=weather&fail_on_no_slot=1").json()
    check_answer(document, "GET", "/slots", slots)
    assert [slot["id"] for slot in slots] == [0, 1, 2] and not any(slot["is_processing"] for slot in slots)
    for path in ("/props?model=embed", "/slots?model=embed"):
        answer = server.get(path)
        assert answer.status_code == 400 and "generates no text" in answer.text
    assert server.get("/props?model=gone").status_code == 404


def test_a_server_without_text_has_no_props(reranker):
    for path in ("/props", "/slots"):
        answer = reranker.get(path)
        assert answer.status_code == 404 and "no model for this" in answer.text, answer.text


# --- vLLM ------------------------------------------------------------------------------------------


def test_scores_of_a_reranker(server, document):
    texts = [case["text_pair"] for case in SAME]
    body = {"model": "rank", "text_1": SAME[0]["text"], "text_2": texts}
    answer = asked(server, document, "/score", body)
    # In the order of the texts, not the best first.
    assert [one["index"] for one in answer["data"]] == list(range(len(texts)))
    assert [one["score"] for one in answer["data"]] == pytest.approx([case["logits"][0] for case in SAME], abs=1e-4)
    assert answer["usage"]["total_tokens"] > 0 and answer["model"] == "rank"
    unnamed = asked(server, document, "/v1/score", {"queries": [SAME[0]["text"]], "documents": texts})
    assert unnamed["data"] == answer["data"]
    pairs = asked(server, document, "/score", {"model": "rank", "text_1": [case["text"] for case in PAIRS],
                                               "text_2": [case["text_pair"] for case in PAIRS]})
    assert [one["score"] for one in pairs["data"]] == pytest.approx([case["logits"][0] for case in PAIRS], abs=1e-4)
    many = server.post("/score", {**body, "text_1": ["a"] * (len(texts) + 1)})
    assert many.status_code == 400 and many.json()["error"]["param"] == "text_1"
    long = server.post("/score", {**body, "text_2": ["dog " * 500], "truncate": False})
    assert long.status_code == 413 and "text_2" in long.text, long.text


def test_scores_of_embeddings_are_their_similarity(server, document):
    first, *others = CASES
    body = {"model": "embed", "text_1": first["text"], "text_2": [case["text"] for case in others]}
    vectors = np.array([case["embedding"] for case in CASES])
    scores = [one["score"] for one in asked(server, document, "/score", body)["data"]]
    assert scores == pytest.approx(list(vectors[1:] @ vectors[0]), abs=1e-5)
    texts = [case["text"] for case in CASES]
    pairs = asked(server, document, "/score", {"model": "embed", "text_1": texts, "text_2": texts[::-1]})["data"]
    assert [one["score"] for one in pairs] == pytest.approx(list((vectors * vectors[::-1]).sum(1)), abs=1e-5)


def test_pooling(server, document):
    case = CASES[0]
    vector = asked(server, document, "/pooling", {"model": "embed", "input": case["text"]})["data"][0]
    assert vector["object"] == "pooling" and np.abs(np.array(vector["data"]) - case["embedding"]).max() < 1e-5
    packed = asked(server, document, "/pooling",
                   {"model": "embed", "input": [case["text"]], "encoding_format": "base64"})["data"][0]["data"]
    openai = server.post("/v1/embeddings", {"model": "embed", "input": case["text"], "encoding_format": "base64"})
    assert packed == openai.json()["data"][0]["embedding"]
    tokens = asked(server, document, "/pooling", {"model": "embed", "input": case["text"], "task": "token_embed"})
    assert np.array(tokens["data"][0]["data"]).shape == (len(case["ids"]), len(case["embedding"]))
    labels = asked(server, document, "/pooling", {"model": "labels", "input": ["a", "b"]})["data"]
    probs = [one["probs"] for one in server.post("/v1/classify", {"model": "labels", "input": ["a", "b"]}).json()["data"]]
    assert [one["data"] for one in labels] == probs
    for more, field in (({"task": "plugin"}, "task"), ({"task": "token_embed", "encoding_format": "base64"},
                                                       "encoding_format")):
        answer = server.post("/pooling", {"model": "embed", "input": "a", **more})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == field


def test_version_and_docs(server, document):
    version = server.get("/version").json()
    check_answer(document, "GET", "/version", version)
    assert version == {"version": server.get("/").json()["version"]}
    page = server.get("/docs")
    assert page.headers["Content-Type"].startswith("text/html") and "openapi.json" in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"] and "<script" not in page.text
    assert all(path in page.text for path in document["paths"])


# --- Clients that know an address alone ------------------------------------------------------------


@pytest.mark.client("huggingface_hub", "InferenceClient(model=URL): chat_completion, text_generation")
def test_hugging_faces_client_by_address(server):
    client = InferenceClient(model=server.url)
    assert client.chat_completion(HELLO).choices[0].message.content == "Good day."
    # The first model embeds; what is asked for is told by the body.
    assert client.text_generation("<|chat|>", max_new_tokens=2) == "Good day."
    assert client.text_generation("<|chat|>", stream=False) == "Good day."
    assert len(client.feature_extraction(CASES[0]["text"])[0]) == len(CASES[0]["embedding"])


def test_names_that_mean_the_model_that_is_there(server, start, tmp_path):
    for name in ("dummy", "tgi"):
        for path, body in (("/v1/chat/completions", {"messages": HELLO}),
                           ("/v1/completions", {"prompt": "<|chat|>", "temperature": 0})):
            answer = server.post(path, {"model": name, **body})
            assert answer.status_code == 200 and answer.json()["model"] == "weather", answer.text
        # A route without such clients knows no such name.
        assert server.post("/v1/embeddings", {"model": name, "input": "a"}).status_code == 404
    other = scripted_model.write(tmp_path / "tgi", {"<|chat|>": ["Bye."]}, "<|chat|>")
    weather = scripted_model.write_weather(tmp_path / "weather")
    served = start("--model", weather, "--model", other)  # one that has the name is meant by it
    answer = served.post("/v1/chat/completions", {"model": "tgi", "messages": HELLO}).json()
    assert answer["model"] == "tgi" and answer["choices"][0]["message"]["content"] == "Bye."


def test_the_root_takes_the_task_of_the_model_that_is_named(server):
    pair = {"query": SAME[0]["text"], "texts": [case["text_pair"] for case in SAME]}
    assert server.post("/", {"model": "rank", **pair}).json() == server.post("/rerank", {"model": "rank", **pair}).json()
    text = {"inputs": "<|chat|>", "parameters": {"max_new_tokens": 1}}
    assert server.post("/", {"model": "weather", **text}).json()["generated_text"] == "Good "
    assert server.post("/", text).json()["generated_text"] == "Good "
    vectors = server.post("/", {"model": "embed", "inputs": "a", "parameters": {"max_new_tokens": 1}}).json()
    assert len(vectors[0]) == len(CASES[0]["embedding"])
