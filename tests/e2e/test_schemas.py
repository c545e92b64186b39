"""Answers that are held to a schema, a pattern or rules, by a model of random weights: it writes whatever it may."""

import concurrent.futures
import json
import re
import shutil

import jsonschema
import pytest

from conftest import ROOT, serving

# Shows calls in the form of Hermes.
TEMPLATE = """{% if tools %}{{ tools | tojson }}<tool_call>{"name": "f", "arguments": {}}</tool_call>{% endif %}\
{% for message in messages %}{{ message.content }}
{% endfor %}>"""
# The same in that of Qwen3-Coder.
CODER = TEMPLATE.replace('{"name": "f", "arguments": {}}', "<function=f><parameter=a>")
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "parameters": {
                "type": "object",
                "required": ["a", "b"],
                "additionalProperties": False,
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": 'say "hi"',
            "parameters": {
                "type": "object",
                "required": ["how"],
                "properties": {"how": {"enum": ["loud", "root", "]"]}},
            },
        },
    },
    {"type": "function", "function": {"name": "stop"}},
]
ASK = [{"role": "user", "content": "Say something."}]
PERSON = {
    "type": "object",
    "required": ["name", "tags", "born"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 8},
        "tags": {"type": "array", "items": {"enum": ["a", "bc"]}, "minItems": 1, "maxItems": 3},
        "born": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}$"},
    },
}
CHOICE = {
    "type": "object",
    "required": ["kind"],
    "additionalProperties": False,
    "properties": {"kind": {"anyOf": [{"type": "boolean"}, {"type": "null"}, {"$ref": "#/$defs/small"}]}},
    "$defs": {"small": {"type": "integer", "minimum": -3, "maximum": 12}},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    shutil.copytree(ROOT / "tests" / "golden" / "decoders" / "llama", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 2048}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    coder = shutil.copytree(folder, folder.parent / "coder")
    (coder / "chat_template.jinja").write_text(CODER)
    with serving("--model", f"tiny={folder}", "--model", f"coder={coder}") as started:
        answer = started.post("/v1/completions", {"model": "tiny", "prompt": "a", "guided_choice": ["b"]})
        if answer.status_code != 200 and "XGrammar" in answer.text:
            pytest.skip("built without XGrammar: tools/install_xgrammar.py")
        yield started


def chat(server, **more):
    body = {"model": "tiny", "messages": ASK, "temperature": 1.5, "max_tokens": 300, **more}
    answer = server.post("/v1/chat/completions", body)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"]


def response_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


@pytest.mark.parametrize("schema", [PERSON, CHOICE], ids=["person", "choice"])
def test_every_answer_holds_to_its_schema(server, schema):
    def ask(seed):
        return chat(server, seed=seed, n=3, response_format=response_format(schema))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for choices in pool.map(ask, range(8)):
            for choice in choices:
                assert choice["finish_reason"] in ("stop", "length")
                if choice["finish_reason"] == "stop":
                    jsonschema.validate(json.loads(choice["message"]["content"]), schema)


def test_a_stream_is_the_whole_answer(server):
    body = {
        "model": "tiny",
        "messages": ASK,
        "temperature": 1.2,
        "seed": 5,
        "max_tokens": 300,
        "response_format": response_format(CHOICE),
    }
    whole = server.post("/v1/chat/completions", body).json()["choices"][0]["message"]["content"]
    lines = server.post("/v1/chat/completions", {**body, "stream": True}).text.split("\n\n")
    parts = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    assert "".join(part["choices"][0]["delta"].get("content") or "" for part in parts) == whole
    jsonschema.validate(json.loads(whole), CHOICE)


@pytest.mark.parametrize(
    "more,pattern",
    [
        ({"guided_regex": "[a-c]{2}-[0-9]+x"}, "[a-c]{2}-[0-9]+x"),
        ({"guided_choice": ["yes, it is", "no"]}, "yes, it is|no"),
        ({"structured_outputs": {"regex": "(ab|c)d?"}}, "(ab|c)d?"),
        ({"guided_grammar": 'root ::= "a" mid "z"\nmid ::= [0-9] | "(" mid ")"'}, r"a\(*[0-9]\)*z"),
        ({"grammar": 'root ::= ("x" | "yy"){2}'}, "(x|yy){2}"),
    ],
    ids=["regex", "choice", "structured", "rules", "gbnf"],
)
def test_patterns_and_rules(server, more, pattern):
    for seed in range(5):
        body = {"model": "tiny", "prompt": "The", "temperature": 1.5, "seed": seed, "max_tokens": 200, **more}
        choice = server.post("/v1/completions", body).json()["choices"][0]
        if choice["finish_reason"] == "stop":
            assert re.fullmatch(pattern, choice["text"]), choice


def test_other_dialects(server):
    answer = server.post(
        "/api/chat",
        {
            "model": "tiny",
            "messages": ASK,
            "stream": False,
            "format": CHOICE,
            "options": {"num_predict": 300, "seed": 3},
        },
    ).json()
    jsonschema.validate(json.loads(answer["message"]["content"]), CHOICE)
    answer = server.post("/completion", {"prompt": "a", "json_schema": CHOICE, "n_predict": 300, "seed": 3}).json()
    jsonschema.validate(json.loads(answer["content"]), CHOICE)
    answer = server.post(
        "/generate",
        {
            "inputs": "a",
            "parameters": {
                "max_new_tokens": 300,
                "seed": 3,
                "do_sample": True,
                "grammar": {"type": "json", "value": CHOICE},
            },
        },
    ).json()
    jsonschema.validate(json.loads(answer["generated_text"]), CHOICE)
    answer = server.post(
        "/v2/chat",
        {
            "model": "tiny",
            "messages": ASK,
            "max_tokens": 300,
            "seed": 3,
            "response_format": {"type": "json_object", "json_schema": CHOICE},
        },
    ).json()
    jsonschema.validate(json.loads(answer["message"]["content"][0]["text"]), CHOICE)


HOSTILE = [
    {"type": "array", "uniqueItems": True},
    {"type": "string", "maxLength": 2_000_000_000},
    {"type": "string", "pattern": "((a{1000}){1000}){1000}"},
    {"type": "string", "pattern": "(?=a)b"},
    {"$ref": "#/$defs/gone"},
    {"enum": list(range(10_000))},
    {"type": "integer", "minimum": 1e400},
    {"not": {}},
    [1],
]


@pytest.mark.parametrize("schema", HOSTILE, ids=range(len(HOSTILE)))
def test_what_cannot_be_enforced_is_refused_by_name(server, schema):
    text = json.dumps(schema).replace("Infinity", "1e400")
    answer = server.post("/v1/completions", {"model": "tiny", "prompt": "a", "guided_json": text})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == "guided_json" and "guided_json" in answer.json()["error"]["message"]


def test_logprobs_are_those_of_the_free_model(server):
    body = {"model": "tiny", "prompt": "The", "max_tokens": 1, "temperature": 0, "logprobs": 3}
    free = server.post("/v1/completions", body).json()["choices"][0]["logprobs"]
    held = server.post("/v1/completions", {**body, "guided_regex": "[0-9]+"}).json()["choices"][0]["logprobs"]
    assert held["top_logprobs"][0] == pytest.approx(free["top_logprobs"][0]) or set(
        free["top_logprobs"][0].items()
    ) <= set(held["top_logprobs"][0].items())
    assert held["tokens"][0].isdigit()


def check_calls(calls):
    schemas = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in TOOLS}
    for call in calls:
        jsonschema.validate(json.loads(call["function"]["arguments"]), schemas[call["function"]["name"]])


@pytest.mark.parametrize("parallel", [True, False])
def test_required_calls_hold_to_their_schemas(server, parallel):
    named = set()
    for seed in range(12):
        choice = chat(server, seed=seed, tools=TOOLS, tool_choice="required", parallel_tool_calls=parallel)[0]
        assert choice["finish_reason"] in ("tool_calls", "length"), choice
        if choice["finish_reason"] == "tool_calls":
            calls = choice["message"]["tool_calls"]
            check_calls(calls)
            assert not choice["message"]["content"] and (parallel or len(calls) == 1)
            named |= {call["function"]["name"] for call in calls}
    assert len(named) > 1


def test_calls_whose_parameters_stand_in_tags(server):
    tools = [
        *(tool for tool in TOOLS if tool["function"]["name"] != 'say "hi"'),
        {
            "type": "function",
            "function": {
                "name": "write",
                "parameters": {
                    "type": "object",
                    "required": ["text", "mode", "lines"],
                    "properties": {
                        "text": {"type": "string", "minLength": 1, "maxLength": 20},
                        "mode": {"$ref": "#/$defs/mode"},
                        "lines": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
                        "note": {"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]},
                    },
                    "$defs": {"mode": {"type": "string", "enum": ["new", "append <x>"]}},
                },
            },
        },
    ]
    schemas = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools}
    named = []
    for seed in range(16):
        choice = chat(server, model="coder", seed=seed, tools=tools, tool_choice="required")[0]
        if choice["finish_reason"] == "length":
            continue
        for call in choice["message"]["tool_calls"]:
            named.append(call["function"]["name"])
            jsonschema.validate(json.loads(call["function"]["arguments"]), schemas[named[-1]])
        assert not choice["message"]["content"], choice
    assert len(set(named)) > 1
    refused = {"type": "object", "properties": {"a": {"enum": ["</parameter>"]}}}
    answer = server.post(
        "/v1/chat/completions",
        {
            "model": "coder",
            "messages": ASK,
            "tools": [{"type": "function", "function": {"name": "f", "parameters": refused}}],
            "tool_choice": "required",
        },
    )
    assert answer.status_code == 400 and "'a' has a value" in answer.text


def test_beside_tools_the_answer_is_calls_or_holds_to_its_schema(server):
    called = answered = 0
    for seed in range(12):
        choice = chat(server, seed=seed, tools=TOOLS, response_format=response_format(CHOICE))[0]
        if choice["finish_reason"] == "length":
            continue
        calls = choice["message"].get("tool_calls")
        if calls:
            called += 1
            check_calls(calls)
            assert not choice["message"]["content"]
        else:
            answered += 1
            jsonschema.validate(json.loads(choice["message"]["content"]), CHOICE)
    assert called + answered > 5
    refused = server.post(
        "/v1/chat/completions", {"model": "tiny", "messages": ASK, "tools": TOOLS, "guided_regex": "a+"}
    )
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "guided_regex"


def test_a_named_function_is_called(server):
    for name in ("add", 'say "hi"', "stop"):
        choice = chat(server, seed=1, tools=TOOLS, tool_choice={"type": "function", "function": {"name": name}})[0]
        assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == [name]
        check_calls(choice["message"]["tool_calls"])
    functions = [tool["function"] for tool in TOOLS]
    choice = chat(server, seed=1, functions=functions, function_call={"name": "stop"})[0]
    assert choice["message"]["function_call"] == {"name": "stop", "arguments": "{}"}
    assert choice["finish_reason"] == "function_call"


def test_required_calls_are_streamed_whole(server):
    body = {
        "model": "tiny",
        "messages": ASK,
        "temperature": 1.2,
        "seed": 4,
        "max_tokens": 300,
        "tools": TOOLS,
        "tool_choice": "required",
    }
    whole = server.post("/v1/chat/completions", body).json()["choices"][0]["message"]["tool_calls"]
    lines = server.post("/v1/chat/completions", {**body, "stream": True}).text.split("\n\n")
    calls = {}
    for line in lines:
        if line.startswith("data: {"):
            for delta in json.loads(line.removeprefix("data: "))["choices"][0]["delta"].get("tool_calls") or []:
                call = calls.setdefault(delta["index"], {"name": "", "arguments": ""})
                call["name"] += delta["function"].get("name") or ""
                call["arguments"] += delta["function"].get("arguments") or ""
    assert list(calls.values()) == [{key: call["function"][key] for key in ("name", "arguments")} for call in whole]


def test_a_tool_whose_schema_cannot_be_enforced_is_refused(server):
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "not": {}}}}
    answer = server.post(
        "/v1/chat/completions", {"model": "tiny", "messages": ASK, "tools": [tool], "tool_choice": "required"}
    )
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "tools", answer.text
