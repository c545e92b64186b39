"""/openapi.json against the rules of OpenAPI, the routes, and what the server answers."""
import copy
import pathlib
import re

import jsonschema
import openapi_spec_validator
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def document(server):
    return server.get("/openapi.json").json()


def strict(schema):
    """The schema, with every field it does not name refused: so that no answer outgrows it."""
    schema = copy.deepcopy(schema)

    def close(node):
        if isinstance(node, dict):
            if "properties" in node and isinstance(node["properties"], dict):
                node.setdefault("additionalProperties", False)
            for value in node.values():
                close(value)
        elif isinstance(node, list):
            for value in node:
                close(value)

    close(schema)
    return schema


def check_answer(document, method, path, answer, status=200):
    """`answer` is what the document says of that route."""
    operation = document["paths"][path][method.lower()]
    responses = operation["responses"]
    content = responses.get(str(status), responses["default"])["content"]
    schema = strict({**content["application/json"]["schema"], "components": document["components"]})
    jsonschema.Draft202012Validator(schema).validate(answer)


def check_request(document, path, body):
    schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(body)


def test_the_document_is_valid(document):
    openapi_spec_validator.validate(document)
    assert document["openapi"].startswith("3.1")


def test_every_route_is_in_it_and_nothing_else(server, document):
    described = {f"{method.upper()} {path}"
                 for path, operations in document["paths"].items() for method in operations}
    assert described == set(server.get("/").json()["routes"])
    ids = [operation["operationId"] for operations in document["paths"].values()
           for operation in operations.values()]
    assert len(ids) == len(set(ids))


BODIES = [
    ("/v1/embeddings", {"input": ["a", "b"], "dimensions": 4, "prompt_name": "query"}),
    ("/v1/embeddings", {"input": "a", "encoding_format": "base64", "truncate": "END"}),
    ("/embeddings", {"input": [5, 6]}),
    ("/v1/rerank", {"query": "a", "documents": ["a", {"text": "b"}], "return_documents": True, "top_n": 1}),
    ("/v2/rerank", {"query": "a", "documents": ["a"]}),
    ("/v1/classify", {"input": ["a", ["b", "c"]]}),
    ("/classify", {"input": "a", "raw_scores": True}),
    ("/invocations", {"inputs": "a"}), ("/vertex", {"instances": [{"inputs": "a"}, {"inputs": ["a", "b"]}]}),
    ("/", {"inputs": "a"}), ("/", {"inputs": {"source_sentence": "a", "sentences": ["b"]}}),
    ("/embed", {"inputs": [[5, 6], [7]], "normalize": False}),
    ("/embed_all", {"inputs": "a dog"}),
    ("/rerank", {"query": "a", "texts": ["a", "b"], "return_text": True}),
    ("/predict", {"inputs": ["a", "b"]}), ("/predict", {"inputs": [["a"], ["a", "b"]]}),
    ("/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b"]}, "parameters": {"truncate": True}}),
    ("/tokenize", {"inputs": "a dog"}), ("/decode", {"ids": [[5, 6]]}),
    ("/v1/bulk", {"action": "begin"}), ("/v1/stats/reset", None),
]


@pytest.mark.parametrize("path,body", BODIES)
def test_answers_are_as_described(server, document, path, body):
    if body is not None:
        check_request(document, path, body)
    answer = server.post(path, body)
    assert answer.status_code == 200, answer.text
    check_answer(document, "POST", path, answer.json())
    if path == "/v1/bulk":
        ended = server.post(path, {"action": "end", "id": answer.json()["id"]})
        check_answer(document, "POST", path, ended.json())


@pytest.mark.parametrize("path", ["/", "/health", "/healthz", "/livez", "/ping", "/readyz", "/info", "/v1/stats",
                                  "/v1/models"])
def test_what_is_got_is_as_described(server, document, path):
    check_answer(document, "GET", path, server.get(path).json())
    check_answer(document, "GET", "/v1/models/{id}", server.get("/v1/models/rerank").json())
    check_answer(document, "GET", "/info", server.get("/info?model=classify").json())


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/rerank", "/embed", "/v1/classify", "/rerank", "/v1/bulk"])
def test_errors_are_as_described(server, document, path):
    answer = server.post(path, {"model": 5})
    assert answer.status_code == 400
    check_answer(document, "POST", path, answer.json(), 400)
    with pytest.raises(jsonschema.ValidationError):
        check_request(document, path, {"model": 5})
    sparse = server.post("/embed_sparse", {"inputs": "a"})
    check_answer(document, "POST", "/embed_sparse", sparse.json(), sparse.status_code)


def test_a_key_is_asked_for_as_on_other_routes(start):
    server = start("--api-key", "k")
    assert server.get("/openapi.json").status_code == 401
    assert server.get("/openapi.json", headers={"X-API-Key": "k"}).status_code == 200

ROW = re.compile(r"^\| (`(?:GET|POST|DELETE) /[^|]*?) \|([^|]*)\|", re.MULTILINE)
NAME = re.compile(r"`([a-z_][a-z0-9_]*)`")
TABLES = ["API.md", "KSERVE.md", "UI.md"]


def rows():
    """(method, path, the cell behind it) of each route in the tables of routes."""
    for table in TABLES:
        for match in ROW.finditer((ROOT / "docs" / table).read_text()):
            method = None
            for name in re.findall(r"`([^`]*)`", match[1]):
                method, path = name.split() if " " in name else (method, name)
                yield method, path, match[2] if table == "API.md" else ""


def words(document, schema, seen):
    """Names of fields, and values they may have, of a schema and of what it refers to."""
    if isinstance(schema, list):
        for each in schema:
            words(document, each, seen)
    elif isinstance(schema, dict):
        name = schema.get("$ref", "").rpartition("/")[2]
        if name and name not in seen:
            seen.add(name)
            words(document, document["components"]["schemas"][name], seen)
        seen.update(schema.get("properties", {}))
        seen.update(value for value in schema.get("enum", []) if isinstance(value, str))
        for value in schema.values():
            words(document, value, seen)


def test_the_tables_of_the_documents_hold_the_routes(document):
    routes = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    told = {(method, path) for method, path, _ in rows()}
    assert told == routes


def test_the_fields_in_the_tables_are_those_of_the_schemas(document):
    unknown = {}
    for method, path, cell in rows():
        request = document["paths"][path][method.lower()].get("requestBody")
        if request is None:
            continue
        seen = set()
        words(document, request["content"], seen)
        if left := set(NAME.findall(cell)) - seen:
            unknown[path] = sorted(left)
    assert unknown == {}
