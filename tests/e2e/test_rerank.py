"""Reranking and classifying: Cohere's client, Jina's shape, TEI's."""
import cohere
import pytest

from conftest import CLASSIFY, RERANK, expected

PAIRS = [case for case in expected(RERANK)["texts"] if case.get("text_pair")]
QUERY = PAIRS[0]["text"]
SAME = [case for case in PAIRS if case["text"] == QUERY]
DOCUMENTS = [case["text_pair"] for case in SAME]
LOGITS = [case["logits"][0] for case in SAME]
ORDER = sorted(range(len(SAME)), key=lambda i: -LOGITS[i])


def check(results, score="relevance_score"):
    assert [r["index"] for r in results] == ORDER
    for r in results:
        assert r[score] == pytest.approx(LOGITS[r["index"]], abs=1e-4)


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])
def test_by_hand(server, path):
    body = {"model": "rerank", "query": QUERY, "documents": DOCUMENTS}
    answer = server.post(path, body)
    assert answer.status_code == 200, answer.text
    check(answer.json()["results"])
    assert "document" not in answer.json()["results"][0]
    assert answer.headers["X-Penstock-Truncated-Inputs"] == "0"
    assert answer.json()["usage"]["total_tokens"] > 0
    objects = [{"text": text} for text in DOCUMENTS]
    again = server.post(path, {**body, "documents": objects, "top_n": 1, "return_documents": True})
    assert again.json()["results"] == [{**answer.json()["results"][0],
                                        "document": {"text": DOCUMENTS[ORDER[0]]}}]


@pytest.mark.client("cohere", "ClientV2.rerank, Client.rerank")
def test_cohere_client(server):
    v2 = cohere.ClientV2(api_key="none", base_url=server.url)
    answer = v2.rerank(model="rerank", query=QUERY, documents=DOCUMENTS, top_n=2)
    assert [r.index for r in answer.results] == ORDER[:2]
    v1 = cohere.Client(api_key="none", base_url=server.url)
    answer = v1.rerank(model="rerank", query=QUERY, documents=DOCUMENTS, return_documents=True)
    assert answer.results[0].document.text == DOCUMENTS[ORDER[0]]
    with pytest.raises(cohere.NotFoundError) as caught:
        v2.rerank(model="gone", query=QUERY, documents=DOCUMENTS)
    assert "gone" in str(caught.value.body)


def test_tei_rerank(reranker):
    body = {"query": QUERY, "texts": DOCUMENTS}
    raw = reranker.post("/rerank", {**body, "raw_scores": True, "return_text": True})
    assert raw.status_code == 200, raw.text
    check(raw.json(), "score")
    assert [r["text"] for r in raw.json()] == [DOCUMENTS[i] for i in ORDER]
    assert reranker.post("/", body).json() == reranker.post("/rerank", body).json()
    info = reranker.get("/info").json()
    assert "reranker" in info["model_type"] and info["max_input_length"] > 0


@pytest.mark.parametrize("path", ["/rerank", "/reranking", "/v1/reranking"])
def test_every_form_on_one_route(reranker, path):
    texts = reranker.post(path, {"query": QUERY, "texts": DOCUMENTS, "raw_scores": True})
    assert texts.status_code == 200, texts.text
    check(texts.json(), "score")
    # As LiteLLM's infinity/ and hosted_vllm/, Jina's client and llama.cpp's server have it.
    body = {"model": "rerank", "query": QUERY, "documents": DOCUMENTS, "top_n": 2, "return_documents": True}
    answer = reranker.post(path, body)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {**reranker.post("/v1/rerank", body).json(), "id": answer.json()["id"]}
    assert answer.json()["results"][0]["document"] == {"text": DOCUMENTS[ORDER[0]]}
    # Errors are in the form of the request.
    wrong = reranker.post(path, {**body, "top_n": 0})
    assert wrong.status_code == 400 and wrong.json()["field"] == "top_n" and "top_n" in wrong.json()["message"]
    wrong = reranker.post(path, {"query": QUERY, "texts": [1]})
    assert wrong.status_code == 400 and wrong.json()["field"] == "texts[0]" and "texts" in wrong.json()["error"]
    both = reranker.post(path, {"query": QUERY, "texts": DOCUMENTS, "documents": DOCUMENTS})
    assert both.status_code == 400 and "exclude" in both.text


def test_documents_go_to_the_root_too(reranker):
    answer = reranker.post("/", {"query": QUERY, "documents": DOCUMENTS})
    assert [one["index"] for one in answer.json()["results"]] == ORDER
    wrong = reranker.post("/vertex", {"instances": [{"query": QUERY, "documents": [1]}]})
    assert wrong.status_code == 400 and "instances[0]: 'documents[0]' must be" in wrong.json()["error"]


@pytest.mark.client("cohere", "Client.classify, models.list")
def test_coheres_client_classifies_and_lists(server):
    client = cohere.Client(api_key="none", base_url=server.url)
    case = expected(CLASSIFY)["texts"][0]
    answer = client.classify(model="classify", inputs=[case["text"], "a dog"])
    by_hand = server.post("/v1/classify", {"model": "classify", "input": [case["text"], "a dog"]}).json()["data"]
    for got, wanted in zip(answer.classifications, by_hand, strict=True):
        assert got.prediction == wanted["label"] and got.confidence == pytest.approx(wanted["score"])
        assert {name: label.confidence for name, label in got.labels.items()} == pytest.approx(
            {one["label"]: one["score"] for one in wanted["predictions"]})
    with pytest.raises(cohere.BadRequestError) as told:
        client.classify(model="classify", inputs=["a"], examples=[{"text": "b", "label": "c"}] * 2)
    assert "'examples' is not supported" in str(told.value.body)
    listed = {model.name: model.endpoints for model in client.models.list().models}
    assert listed["rerank"] == ["rerank"] and listed["classify"] == ["classify"] and listed["embed"] == ["embed"]
    assert [model.name for model in client.models.list(endpoint="rerank").models] == ["rerank"]


def test_labels_of_a_request_are_refused(server):
    answer = server.post("/v1/classify", {"model": "classify", "input": ["a"], "labels": ["x", "y"]})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "labels"


def test_ties_keep_the_order(server):
    answer = server.post("/v1/rerank", {"model": "rerank", "query": "a", "documents": ["same"] * 5})
    assert [r["index"] for r in answer.json()["results"]] == [0, 1, 2, 3, 4]


def test_classify(server, classifier):
    cases = [case for case in expected(CLASSIFY)["texts"] if not case.get("text_pair")]
    answer = server.post("/v1/classify",
                         {"model": "classify", "input": [case["text"] for case in cases]})
    assert answer.status_code == 200, answer.text
    for row, case in zip(answer.json()["data"], cases):
        assert row["probs"] == pytest.approx(case["scores"], abs=1e-4)
        assert row["num_classes"] == len(case["scores"])
        assert row["score"] == max(row["probs"])
        assert row["label"] == row["prediction"] == row["predictions"][0]["label"]
    single = classifier.post("/predict", {"inputs": cases[0]["text"]}).json()
    assert {"score", "label"} == set(single[0]) and len(single) == len(cases[0]["scores"])
    batch = classifier.post("/predict", {"inputs": [[case["text"]] for case in cases]}).json()
    assert batch[0] == single and len(batch) == len(cases)
    raw = classifier.post("/predict", {"inputs": cases[0]["text"], "raw_scores": True}).json()
    assert sorted(r["score"] for r in raw) == pytest.approx(sorted(cases[0]["logits"]), abs=1e-3)


def test_classify_pairs(classifier):
    pairs = [case for case in expected(CLASSIFY)["texts"] if case.get("text_pair")]
    if not pairs:
        pytest.skip("the reference has no pairs")
    for case in pairs:
        both = [case["text"], case["text_pair"]]
        answer = classifier.post("/predict", {"inputs": both}).json()
        assert sorted(r["score"] for r in answer) == pytest.approx(sorted(case["scores"]), abs=1e-4)
        assert classifier.post("/predict", {"inputs": [both]}).json() == [answer]
