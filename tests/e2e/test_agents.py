"""The two APIs that agents speak, with their own clients: OpenAI's Responses and Anthropic's Messages.

The model is scripted: given tools it thinks, says something, calls weather(at="Ulm"), and answers once it is told.
"""

import json

import anthropic
import openai
import pydantic
import pytest
import requests

import scripted_model
from conftest import EMBED, GOLDEN, serving
from test_openapi import check_answer, check_request

SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
TOOL = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a place.",
    "parameters": SCHEMA,
    "strict": True,
}
ANTHROPIC_TOOL = {"name": "weather", "description": "The weather of a place.", "input_schema": SCHEMA}
THOUGHT, SAID, CALL = "Ask the station.", "Let me look.", {"at": "Ulm"}


@pytest.fixture(scope="module")
def server_args(weather):
    return ("--model", f"weather={weather}", "--model", f"embed={GOLDEN / EMBED}")


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def claude(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)


# --- Responses --------------------------------------------------------------------------------


@pytest.mark.client("openai", "Responses: the tool runner, whole and streamed")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_openais_tool_runner(client, stream):
    from openai.lib.responses_tool_runner import RegisteredFunction, ResponsesToolRunner

    asked = []

    def weather(arguments):
        asked.append(arguments)
        return "rain"

    runner = ResponsesToolRunner(functions=[RegisteredFunction(TOOL, weather)])
    answer = runner.run(
        client, {"model": "weather", "input": "Weather?", "temperature": 0, "store": False}, stream=stream
    )
    assert asked == [CALL] and answer.output_text == "It rains in Ulm."


@pytest.mark.client("anthropic", "Messages: the tool runner")
def test_anthropics_tool_runner(claude):
    asked = []

    @anthropic.beta_tool
    def weather(at: str) -> str:
        """The weather of a place."""
        asked.append(at)
        return "rain"

    runner = claude.beta.messages.tool_runner(
        model="weather", max_tokens=50, tools=[weather], messages=[{"role": "user", "content": "Weather?"}]
    )
    answer = runner.until_done()
    assert asked == ["Ulm"] and answer.content[-1].text == "It rains in Ulm."


@pytest.mark.client("openai", "responses: text, usage, reasoning, tools")
def test_a_response(client, server):
    answer = client.responses.create(model="weather", input="Hello", temperature=0)
    assert answer.output_text == "Good day." and answer.status == "completed"
    assert answer.usage.output_tokens == 3 and answer.usage.total_tokens == answer.usage.input_tokens + 3
    assert answer.store is False and answer.temperature == 0 and answer.tools == []
    body = {"model": "weather", "input": [{"role": "user", "content": "Weather?"}], "tools": [TOOL], "temperature": 0}
    answer = client.responses.create(**body)
    assert [item.type for item in answer.output] == ["reasoning", "message", "function_call"]
    reasoning, message, call = answer.output
    assert reasoning.content[0].text == THOUGHT and message.content[0].text == SAID
    assert call.name == "weather" and json.loads(call.arguments) == CALL
    assert 4 <= answer.usage.output_tokens_details.reasoning_tokens <= 6
    assert answer.tools[0].name == "weather"
    # Its items are the next request's input.
    items = body["input"] + [item.model_dump(exclude_none=True) for item in answer.output]
    items += [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"}]
    told = client.responses.create(**(body | {"input": items}))
    assert told.output_text == "It rains in Ulm."
    document = server.get("/openapi.json").json()
    check_request(document, "/v1/responses", body)
    check_answer(document, "post", "/v1/responses", server.post("/v1/responses", body).json())


@pytest.mark.client("openai", "responses: every event of a stream")
def test_a_streamed_response(client):
    events = list(client.responses.create(model="weather", input="Weather?", tools=[TOOL], stream=True, temperature=0))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed"
    assert "".join(e.delta for e in events if e.type == "response.reasoning_text.delta") == THOUGHT
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == SAID
    arguments = "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta")
    assert json.loads(arguments) == CALL
    done = [e for e in events if e.type == "response.output_item.done"]
    assert [e.item.type for e in done] == ["reasoning", "message", "function_call"]
    assert done[2].item.arguments == arguments
    final = events[-1].response
    assert [item.id for item in final.output] == [e.item.id for e in done]
    assert final.usage.output_tokens == 14
    # The client's own accumulation of a stream.
    with client.responses.stream(model="weather", input="Hello", temperature=0) as stream:
        assert "".join(e.delta for e in stream if e.type == "response.output_text.delta") == "Good day."
        assert stream.get_final_response().output_text == "Good day."


def test_a_response_that_is_cut(client):
    answer = client.responses.create(model="weather", input="Hello", max_output_tokens=1, temperature=0)
    assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens"
    assert answer.output[0].status == "incomplete" and answer.output_text == "Good "


@pytest.mark.client("openai", "responses: .parse with pydantic")
def test_a_parsed_response(client):
    class Place(pydantic.BaseModel):
        at: str

    try:
        answer = client.responses.parse(model="weather", input="Hello", text_format=Place, max_output_tokens=400)
    except openai.BadRequestError as error:
        if "without XGrammar" in str(error):
            pytest.skip("BUILT WITHOUT XGRAMMAR")
        raise
    # The model knows no JSON: what it writes may be cut, and is never anything else.
    if answer.status == "completed":
        assert isinstance(answer.output_parsed, Place)
    assert answer.output_text.lstrip().startswith("{")


def test_tokens_of_an_input(server, client):
    body = {"model": "weather", "input": "Hello"}
    counted = server.post("/v1/responses/input_tokens", body).json()
    assert counted == {
        "object": "response.input_tokens",
        "input_tokens": client.responses.create(**body).usage.input_tokens,
    }


@pytest.mark.parametrize(
    "more, param",
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"store": True}, "store"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]"),
        ({"truncation": "auto"}, "truncation"),
        ({"max_output_tokens": 100000}, "max_output_tokens"),
        ({"input": 5}, "input"),
        ({"model": "embed"}, "model"),
    ],
)
def test_responses_refuse_by_name(server, more, param):
    answer = server.post("/v1/responses", {"model": "weather", "input": "Hello"} | more)
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["error"]["param"] == param


# A coding agent's request, as Codex sends it: instructions, developer and user items, tools of several kinds, no store.
CODEX = {
    "model": "weather",
    "instructions": "You are a coding agent running in a terminal.",
    "input": [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "<permissions>read-only</permissions>"}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context/>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
    ],
    "tools": [
        {
            "type": "function",
            "name": "shell",
            "description": "Runs a command.",
            "strict": False,
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "array", "items": {"type": "string"}}},
                "required": ["command"],
                "additionalProperties": False,
            },
        },
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Edits files.",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
        },
        {"type": "web_search", "external_web_access": False},
        TOOL,
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "0199-abc",
    "text": {"verbosity": "low"},
}


def test_a_coding_agent_by_responses(server):
    answer = server.post("/v1/responses", CODEX)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-penstock-ignored-options"] == "custom, web_search"
    events = [json.loads(line[len("data: ") :]) for line in answer.text.splitlines() if line.startswith("data: ")]
    call = events[-1]["response"]["output"][-1]
    assert call["type"] == "function_call" and call["name"] == "weather"
    again = CODEX | {
        "input": CODEX["input"]
        + events[-1]["response"]["output"]
        + [{"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}],
        "stream": False,
    }
    answer = server.post("/v1/responses", again).json()
    assert answer["output"][-1]["content"][0]["text"] == "It rains in Ulm."


# --- Messages ---------------------------------------------------------------------------------


@pytest.mark.client("anthropic", "messages: text, thinking, tools, count_tokens")
def test_a_message(claude, server):
    body = {
        "model": "weather",
        "max_tokens": 50,
        "extra_body": {"temperature": 0},
        "tools": [ANTHROPIC_TOOL],
        "messages": [{"role": "user", "content": "Weather?"}],
    }
    message = claude.messages.create(**body)
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    thinking, text, call = message.content
    assert thinking.thinking == THOUGHT and text.text == SAID and call.name == "weather" and call.input == CALL
    assert message.stop_reason == "tool_use" and message.usage.output_tokens == 14
    turn = [
        *body["messages"],
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "rain"}]},
    ]
    told = claude.messages.create(**(body | {"messages": turn}))
    assert told.content[0].text == "It rains in Ulm." and told.stop_reason == "end_turn"
    count = claude.messages.count_tokens(model="weather", messages=turn, tools=[ANTHROPIC_TOOL])
    assert count.input_tokens == told.usage.input_tokens + told.usage.cache_read_input_tokens
    document = server.get("/openapi.json").json()
    body |= {"temperature": body.pop("extra_body")["temperature"]}
    check_request(document, "/v1/messages", body)
    check_answer(document, "post", "/v1/messages", server.post("/v1/messages", body).json())


@pytest.mark.client("anthropic", "messages: streams")
def test_a_streamed_message(claude):
    body = {
        "model": "weather",
        "max_tokens": 50,
        "extra_body": {"temperature": 0},
        "tools": [ANTHROPIC_TOOL],
        "messages": [{"role": "user", "content": "Weather?"}],
    }
    with claude.messages.stream(**body) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    assert [block.type for block in final.content] == ["thinking", "text", "tool_use"]
    assert final.content[0].thinking == THOUGHT and final.content[1].text == SAID and final.content[2].input == CALL
    assert final.stop_reason == "tool_use" and final.usage.output_tokens == 14
    stopped = claude.messages.create(
        model="weather",
        max_tokens=50,
        stop_sequences=["day"],
        extra_body={"temperature": 0},
        messages=[{"role": "user", "content": "Hello"}],
    )
    assert stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == "day"
    cut = claude.messages.create(
        model="weather", max_tokens=1, extra_body={"temperature": 0}, messages=[{"role": "user", "content": "Hello"}]
    )
    assert cut.stop_reason == "max_tokens"


@pytest.mark.client("anthropic", "errors")
def test_messages_refuse_by_name(claude, server):
    with pytest.raises(anthropic.BadRequestError) as refused:
        claude.messages.create(
            model="weather",
            max_tokens=5,
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}
                    ],
                }
            ],
        )
    assert "messages[0].content[0].type" in refused.value.message
    assert refused.value.body["error"]["type"] == "invalid_request_error"
    with pytest.raises(anthropic.NotFoundError) as missing:
        claude.messages.create(model="none", max_tokens=5, messages=[{"role": "user", "content": "Hi"}])
    assert missing.value.body["error"]["type"] == "not_found_error"
    raw = requests.post(server.url + "/v1/messages", data="{", timeout=10)
    assert raw.status_code == 400 and raw.json()["type"] == "error"
    assert raw.json()["request_id"] == raw.headers["x-request-id"]


# A coding agent's request, as Claude Code sends it: blocks with cache_control, its own and the server's tools.
CLAUDE_CODE = {
    "model": "weather",
    "max_tokens": 200,
    "stream": True,
    "temperature": 1,
    "metadata": {"user_id": "user_0_account__session_0"},
    "thinking": {"type": "enabled", "budget_tokens": 31999},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "system": [
        {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>x</system-reminder>"},
                {"type": "text", "text": "Weather?", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ],
    "tools": [
        ANTHROPIC_TOOL | {"cache_control": {"type": "ephemeral"}},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    ],
}


def test_a_coding_agent_by_messages(server):
    headers = {
        "x-api-key": "none",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "interleaved-thinking-2025-05-14",
    }
    answer = requests.post(server.url + "/v1/messages?beta=true", json=CLAUDE_CODE, headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    ignored = answer.headers["x-penstock-ignored-options"].split(", ")
    assert set(ignored) == {"cache_control", "context_management", "thinking.budget_tokens", "web_search_20250305"}
    events = [json.loads(line[len("data: ") :]) for line in answer.text.splitlines() if line.startswith("data: ")]
    starts = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert [block["type"] for block in starts] == ["thinking", "text", "tool_use"]
    arguments = "".join(
        event["delta"].get("partial_json", "") for event in events if event["type"] == "content_block_delta"
    )
    assert json.loads(arguments) == CALL
    count = {key: CLAUDE_CODE[key] for key in ("model", "system", "messages", "tools", "thinking")}
    counted = requests.post(server.url + "/v1/messages/count_tokens?beta=true", json=count, headers=headers, timeout=10)
    usage = events[-2]["usage"]
    assert counted.json() == {"input_tokens": usage["input_tokens"] + usage["cache_read_input_tokens"]}


# --- The text between two others --------------------------------------------------------------


@pytest.fixture(scope="module")
def coder(tmp_path_factory):
    """A model whose text after the mark of the middle is known."""
    marks = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
    scripts = {"<|fim_middle|>": ["return ", "a + b"], "<|fim_prefix|>": ["x1"], "<|fim_suffix|>": ["x2"]}
    folder = scripted_model.write(tmp_path_factory.mktemp("models") / "coder", scripts, "{{ messages }}", marks)
    with serving("--model", f"coder={folder}", "--model", f"embed={GOLDEN / EMBED}") as server:
        yield server


@pytest.mark.client("openai", "completions.create with a suffix")
def test_text_between_two_others(coder):
    client = openai.OpenAI(base_url=coder.url + "/v1", api_key="none", max_retries=0)
    body = {"model": "coder", "prompt": "def add(a, b):", "suffix": "print(add(1, 2))"}
    assert client.completions.create(**body).choices[0].text == "return a + b"
    streamed = client.completions.create(**body, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == "return a + b"
    infill = {
        "input_prefix": "def add(a, b):",
        "input_suffix": "print(add(1, 2))",
        "n_predict": 20,
        "input_extra": [{"filename": "b.py", "text": "c = 1"}],
    }
    document = coder.get("/openapi.json").json()
    check_request(document, "/infill", infill)
    answer = coder.post("/infill", infill)
    assert answer.status_code == 200 and answer.json()["content"] == "return a + b"
    check_answer(document, "post", "/infill", answer.json())
    ollama = coder.post(
        "/api/generate", {"model": "coder", "prompt": body["prompt"], "suffix": body["suffix"], "stream": False}
    )
    assert ollama.json()["response"] == "return a + b"


def test_without_marks_it_is_refused(server):
    answer = server.post("/v1/completions", {"model": "weather", "prompt": "a", "suffix": "b"})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "suffix"
    answer = server.post("/infill", {"model": "weather", "input_prefix": "a", "input_suffix": "b"})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "input_suffix"


# --- A call that the model breaks off ---------------------------------------------------------


def test_a_broken_call_is_not_told_as_a_call(tmp_path):
    """Streamed, its begin is told before it is cut, and the answer says so. Whole, it is text."""
    pieces = ["<tool_call>", '\n{"name": "weath', 'er", "arguments": {"at', '": "Ulm']
    scripts = {"<|asked|>": pieces, "<|told|>": ["x1"], "<|chat|>": ["x2"]}
    special = ("<tool_call>",)
    folder = scripted_model.write(tmp_path / "cut", scripts, scripted_model.TEMPLATE, special)
    with serving("--model", f"cut={folder}") as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        claude = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)
        ask = {"model": "cut", "max_tokens": 5, "messages": [{"role": "user", "content": "Weather?"}]}
        with claude.messages.stream(**ask, tools=[ANTHROPIC_TOOL]) as stream:
            assert stream.get_final_message().stop_reason == "max_tokens"
        whole = claude.messages.create(**ask, tools=[ANTHROPIC_TOOL])
        assert whole.stop_reason == "max_tokens" and whole.content[0].type == "text"
        events = list(
            client.responses.create(model="cut", input="Weather?", tools=[TOOL], stream=True, max_output_tokens=5)
        )
        assert events[-1].type == "response.incomplete" and events[-1].response.output[0].status == "incomplete"
        chat = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
        chunks = list(client.chat.completions.create(**ask, tools=[chat], stream=True))
        assert chunks[-1].choices[0].finish_reason == "length"
