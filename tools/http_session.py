#!/usr/bin/env python3
"""A session of some 800 HTTP requests over the routes of every dialect, whose answers two builds must share.

Usage: tools/http_session.py PENSTOCK [BEFORE]

Serves models of tests/golden with the program PENSTOCK, sends the session, and prints how many requests it has.
With BEFORE, another build of the program, does the same there and prints each answer that differs: status,
headers or body, but for times and ids. Exits with 1 if one does. A change of the structure of the code leaves
all answers as they are. Models and routes come from the program's own /openapi.json; a route that only one of
the two has counts as a difference.
"""

import difflib
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "tests" / "golden"
MODELS = {
    "embed": "models/bert_mean_normalize",
    "rerank": "models/bert_rerank_identity",
    "classify": "models/bert_classify_softmax",
    "chat": "decoders/llama",
    "tensor": "tensors/matmul.onnx",
}
# Headers whose values are times, ids or loads.
VOLATILE = {
    "date",
    "x-request-id",
    "x-compute-time",
    "x-total-time",
    "x-tokenization-time",
    "x-queue-time",
    "x-inference-time",
    "server-timing",
    "inference-id",
    "x-prompt-tokens",
    "endpoint-load-metrics",
}
# In bodies: fields whose values are times, sizes of the process or places, and ids anywhere.
FIELDS = re.compile(
    r'"(created|created_at|completed_at|modified_at|expires_at|started_at|loaded_at|[a-z_]*duration|[a-z_]*_ms|[a-z_]*_s|'
    r"[a-z_]*per_second|[a-z_]*_seconds|[a-z_]*_us|uptime[a-z_]*|timestamp|[a-z_]*_bytes|size|size_vram|pid|host|url|port|"
    r'ns|last_inference)":("[^"]*"|-?[0-9.e+-]+)'
)
IDS = re.compile(
    r"(?<![0-9.])[0-9a-f]{16,}|(?<=[-_])[0-9A-Za-z]{20,}(?=\")|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|"
    r"\d{4}-\d\d-\d\dT[0-9:.]+(Z|\+00:00)|127\.0\.0\.1:\d+|/tmp/[\w/.]+"
)
# What these answer are measurements, or files of their own: status and headers are compared.
MEASUREMENTS = {
    "/metrics",
    "/metrics/router",
    "/v1/stats",
    "/v1/requests",
    "/v2/models/stats",
    "/api/ps",
    "/slots",
    "/ui",
    "/v2/models/tensor/stats",
    "/v2/models/tensor/versions/1/stats",
}

TEXTS = ["the dog", "a happy cat, and water"]
CHAT = [{"role": "system", "content": "be short"}, {"role": "user", "content": "the dog"}]
SHORT = {"temperature": 0, "seed": 7}
FLOATS = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
TEMPLATE = "{% for m in messages %}{{ m.role }} {{ m.content }}\n{% endfor %}"
TOOL = {
    "type": "function",
    "function": {"name": "find", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}},
}
# Bodies that are answered, by route; a route without any is asked with those that are refused only.
BODIES = {
    "/v1/embeddings": [
        {"model": "embed", "input": TEXTS},
        {"model": "embed", "input": "the dog", "encoding_format": "base64"},
        {"model": "embed", "input": [[2, 3, 4]], "dimensions": 8},
        {"model": "embed", "input": TEXTS, "user": "me"},
    ],
    "/v1/chat/completions": [
        {"model": "chat", "messages": CHAT, "max_tokens": 6, **SHORT},
        {
            "model": "chat",
            "messages": CHAT,
            "max_completion_tokens": 4,
            "stream": True,
            "stream_options": {"include_usage": True},
            **SHORT,
        },
        {"model": "chat", "messages": CHAT, "max_tokens": 3, "n": 2, "logprobs": True, "top_logprobs": 2, **SHORT},
        {"model": "chat", "messages": CHAT, "max_tokens": 4, "tools": [TOOL], "tool_choice": "none", **SHORT},
        {"model": "chat", "messages": CHAT, "max_tokens": 9, "stop": ["e"], **SHORT},
    ],
    "/v1/completions": [
        {"model": "chat", "prompt": "the dog", "max_tokens": 5, **SHORT},
        {"model": "chat", "prompt": [[2, 3]], "max_tokens": 5, "echo": True, **SHORT},
        {"model": "chat", "prompt": TEXTS, "max_tokens": 3, **SHORT},
        {"model": "chat", "prompt": "the dog", "max_tokens": 3, "stream": True, **SHORT},
    ],
    "/v1/responses": [
        {"model": "chat", "input": "the dog", "max_output_tokens": 16, "temperature": 0},
        {"model": "chat", "input": CHAT[1:], "max_output_tokens": 16, "temperature": 0, "stream": True},
    ],
    "/v1/responses/input_tokens": [{"model": "chat", "input": "the dog"}],
    "/v1/messages": [
        {"model": "chat", "messages": CHAT[1:], "max_tokens": 5, "temperature": 0},
        {
            "model": "chat",
            "messages": CHAT[1:],
            "max_tokens": 5,
            "temperature": 0,
            "stream": True,
            "system": "be short",
        },
    ],
    "/v1/messages/count_tokens": [{"model": "chat", "messages": CHAT[1:]}],
    "/apply-template": [{"model": "chat", "messages": CHAT}],
    "/generate": [{"model": "chat", "inputs": "the dog", "parameters": {"max_new_tokens": 5, "details": True}}],
    "/generate_stream": [{"model": "chat", "inputs": "the dog", "parameters": {"max_new_tokens": 4}}],
    "/v1/embed": [{"model": "embed", "texts": TEXTS}],
    "/v2/embed": [
        {"model": "embed", "texts": TEXTS, "input_type": "search_query", "embedding_types": ["float", "int8"]}
    ],
    "/v2/chat": [
        {"model": "chat", "messages": CHAT, "max_tokens": 5, "temperature": 0},
        {"model": "chat", "messages": CHAT, "max_tokens": 4, "temperature": 0, "stream": True},
    ],
    "/v1/rerank": [
        {"model": "rerank", "query": "a dog", "documents": TEXTS},
        {"model": "rerank", "query": "a dog", "documents": TEXTS, "top_n": 1, "return_documents": True},
    ],
    "/v2/rerank": [{"model": "rerank", "query": "a dog", "documents": TEXTS}],
    "/v1/reranking": [{"model": "rerank", "query": "a dog", "documents": TEXTS}],
    "/rerank": [{"model": "rerank", "query": "a dog", "texts": TEXTS, "raw_scores": True}],
    "/v1/classify": [{"model": "classify", "input": TEXTS}],
    "/classify": [{"model": "classify", "input": TEXTS}],
    "/": [{"model": "embed", "inputs": "the dog"}],
    "/invocations": [{"model": "embed", "inputs": "the dog"}],
    "/embed": [
        {"model": "embed", "inputs": TEXTS},
        {"model": "embed", "inputs": TEXTS, "normalize": False, "truncate": True},
    ],
    "/embed_all": [{"model": "embed", "inputs": "the dog"}],
    "/predict": [{"model": "classify", "inputs": [[text] for text in TEXTS]}],
    "/similarity": [{"model": "embed", "inputs": {"source_sentence": "a dog", "sentences": TEXTS}}],
    "/tokenize": [
        {"model": "embed", "inputs": "the dog"},
        {"model": "chat", "content": "the dog", "with_pieces": True},
    ],
    "/decode": [{"model": "embed", "ids": [[2, 3, 4]]}],
    "/detokenize": [{"model": "chat", "tokens": [2, 3, 4]}],
    "/vertex": [{"instances": [{"inputs": "the dog"}], "parameters": {"model": "embed"}}],
    "/score": [{"model": "rerank", "text_1": "a dog", "text_2": TEXTS}],
    "/v1/score": [{"model": "rerank", "text_1": "a dog", "text_2": TEXTS}],
    "/pooling": [{"model": "embed", "input": TEXTS}],
    "/completion": [
        {"model": "chat", "prompt": "the dog", "n_predict": 5, **SHORT},
        {"model": "chat", "prompt": "the dog", "n_predict": 4, "stream": True, **SHORT},
    ],
    "/api/embed": [{"model": "embed", "input": TEXTS}],
    "/api/embeddings": [{"model": "embed", "prompt": "the dog"}],
    "/api/generate": [
        {"model": "chat", "prompt": "the dog", "stream": False, "options": {"num_predict": 5, **SHORT}},
        {"model": "chat", "prompt": "the dog", "options": {"num_predict": 4, **SHORT}},
    ],
    "/api/chat": [
        {"model": "chat", "messages": CHAT, "stream": False, "options": {"num_predict": 5, **SHORT}},
        {"model": "chat", "messages": CHAT, "options": {"num_predict": 4, **SHORT}},
    ],
    "/api/show": [{"model": "embed"}],
    "/v2/repository/index": [{}],
    "/v2/trace/setting": [{}],
    "/v2/logging": [{}],
    "/v2/models/{model}/trace/setting": [{}],
    "/v2/models/{model}/infer": [{"inputs": [FLOATS]}, {"inputs": [{**FLOATS, "datatype": "INT64"}]}],
    "/v2/models/{model}/versions/{version}/infer": [{"inputs": [FLOATS]}],
    "/admin/models/load": [{"model": "embed"}],
    "/admin/models/preload": [{"model": "embed"}],
}
ALIASES = {
    "/embeddings": "/v1/embeddings",
    "/chat/completions": "/v1/chat/completions",
    "/completions": "/v1/completions",
    "/responses": "/v1/responses",
    "/reranking": "/v1/reranking",
}
PARAMETERS = {"model": "tensor", "version": "1", "region": "none", "id": "embed", "file": "app.js"}
# Not asked: they end models that others need, reach the network, or stay open.
UNASKED = {
    "/api/pull",
    "/v1/live",
    "/admin/models/unload",
    "/v2/repository/models/{model}/unload",
    "/api/delete",
    "/v1/stats/reset",
}


def session(routes):
    """(method, path, headers, body) of each request, in order. `routes`: {path: methods}."""
    typed = {"Content-Type": "application/json"}
    for path in sorted(routes):
        if path in UNASKED:
            continue
        real = re.sub(r"\{(\w+)\}", lambda found: PARAMETERS[found[1]], path)
        for method in sorted(routes[path]):
            if method == "DELETE":
                yield "DELETE", real, {}, None
            if method == "GET":
                yield "GET", real, {}, None
                yield "GET", real + "?unknown=1", {"Accept": "text/html"}, None
        if "POST" not in routes[path]:
            yield "POST", real, typed, b"{}"
            continue
        for body in BODIES.get(ALIASES.get(path, path), []):
            text = json.dumps(body).encode()
            yield "POST", real, typed, text
            yield "POST", real, typed, json.dumps({**body, "model": "no-such-model"}).encode()
            field = next((key for key in body if key != "model"), None)
            if field is not None:
                yield "POST", real, typed, json.dumps({**body, field: 7}).encode()
                yield (
                    "POST",
                    real,
                    typed,
                    json.dumps({key: value for key, value in body.items() if key != field}).encode(),
                )
        for text in (b"", b"{", b"[]", b'{"model":1}'):
            yield "POST", real, typed, text
        yield "PUT", real, typed, b"{}"
    for method, path in (
        ("GET", "/no/such/route"),
        ("POST", "/v1/no"),
        ("GET", "/v2/no"),
        ("POST", "/api/no"),
        ("OPTIONS", "/v1/embeddings"),
        ("HEAD", "/health"),
        ("DELETE", "/v1/embeddings"),
    ):
        yield method, path, {}, None


def plain(text):
    return IDS.sub("ID", FIELDS.sub(r'"\1":_', text))


def answer_to(port, method, path, headers, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        kept = sorted(f"{key.lower()}: {value}" for key, value in answer.getheaders() if key.lower() not in VOLATILE)
        text = answer.read().decode("utf-8", "backslashreplace")
    finally:
        connection.close()
    if path.partition("?")[0] in MEASUREMENTS and answer.status < 300:
        kept = [line for line in kept if not line.startswith(("content-length", "etag"))]
        return [str(answer.status), *kept]
    if path.partition("?")[0] == "/openapi.json" and answer.status < 300:
        text = json.dumps(json.loads(text), indent=1, sort_keys=True)  # whatever the order of its members
    body = plain(text)
    if body != text:  # a length of what was replaced
        kept = [line for line in kept if not line.startswith("content-length")]
    return [str(answer.status), *kept, *body.splitlines()]


def record(program):
    """{request: lines of its answer}"""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    kept = tempfile.TemporaryDirectory()
    template = pathlib.Path(kept.name) / "template.jinja"
    template.write_text(TEMPLATE)
    command = [
        program,
        "serve",
        "--port",
        str(port),
        "--threads",
        "1",
        "--log-level",
        "error",
        "--chat-template",
        f"chat={template}",
        "--max-batch-tokens",
        "4096",
        "--batch-folder",
        kept.name + "/batches",
    ]
    for name, folder in MODELS.items():
        command += ["--model", f"{name}={GOLDEN / folder}"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                paths = json.loads("\n".join(raw(port, "/openapi.json")))["paths"]
                break
            except OSError:
                if server.poll() is not None:
                    sys.exit(f"{program}: the server ended with {server.returncode}")
                time.sleep(0.05)  # polls
        else:
            sys.exit(f"{program}: no answer")
        routes = {
            path: {method.upper() for method in methods if method in ("get", "post", "delete")}
            for path, methods in paths.items()
        }
        answers = {}
        for number, (method, path, headers, body) in enumerate(session(routes)):
            answers[f"{number} {method} {path} {(body or b'').decode()[:200]}"] = answer_to(
                port, method, path, headers, body
            )
        return answers
    finally:
        server.terminate()
        server.wait(timeout=30)
        kept.cleanup()


def raw(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    return connection.getresponse().read().decode().splitlines()


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    answers = record(sys.argv[1])
    statuses = [int(lines[0]) for lines in answers.values()]
    print(
        f"http_session: {len(answers)} requests, {sum(status < 300 for status in statuses)} of them answered with 2xx"
    )
    if len(sys.argv) == 2:
        return
    before = record(sys.argv[2])
    differ = 0
    for request in sorted(answers.keys() | before.keys(), key=lambda one: int(one.split()[0])):
        lines, old = answers.get(request, ["no such request"]), before.get(request, ["no such request"])
        if lines != old:
            differ += 1
            print(request)
            print("\n".join(line[:300] for line in difflib.unified_diff(old, lines, "before", "now", lineterm="", n=0)))
    print(f"http_session: {differ} answers differ")
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
