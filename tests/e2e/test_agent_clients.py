"""Clients of agents and of structured output, unchanged: instructor, pydantic-ai, LangChain, LiteLLM, outlines and
guidance, over chat completions, Responses and Messages.

Where a model must write JSON it has random weights, so all that holds is what the server holds it to. Where it must
call, it is scripted (scripted_model.py).
"""

import asyncio
import json
import os
import shutil
from typing import Literal

import pydantic
import pytest

# Else it asks the network for the prices of models.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
MISSING = "NO CLIENTS OF AGENTS HERE: tests/e2e/requirements-clients.txt"
guidance = pytest.importorskip("guidance", reason=MISSING)
instructor = pytest.importorskip("instructor", reason=MISSING)
langchain_anthropic = pytest.importorskip("langchain_anthropic", reason=MISSING)
langchain_openai = pytest.importorskip("langchain_openai", reason=MISSING)
litellm = pytest.importorskip("litellm", reason=MISSING)
outlines = pytest.importorskip("outlines", reason=MISSING)
pydantic_ai = pytest.importorskip("pydantic_ai", reason=MISSING)
import anthropic
import openai
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from conftest import ROOT

TEMPLATE = """{% if tools %}{{ tools | tojson }}<tool_call>{"name": "f", "arguments": {}}</tool_call>{% endif %}\
{% for message in messages %}{{ message.content }}
{% endfor %}>"""
# Every sampled token is a part of a form, so a seed is all that an answer depends on.
FIXED = {"seed": 3, "max_tokens": 400}


class Review(pydantic.BaseModel):
    mood: Literal["good", "bad", "mixed"]
    stars: Literal[1, 2, 3, 4, 5]
    again: bool


@pytest.fixture(scope="module")
def server_args(weather, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    shutil.copytree(ROOT / "tests" / "golden" / "decoders" / "llama", folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = 4096
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return ("--model", f"tiny={folder}", "--model", f"weather={weather}")


@pytest.fixture(scope="module")
def client(server):
    made = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    try:
        made.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "x"}],
            max_tokens=1,
            response_format={"type": "json_object"},
        )
    except openai.BadRequestError as error:
        if "without XGrammar" in str(error):
            pytest.skip("BUILT WITHOUT XGRAMMAR")
        raise
    return made


def weather(at: str) -> str:
    """The weather of a place."""
    assert at == "Ulm"
    return "rain"


# --- Structured output ------------------------------------------------------------------------


@pytest.mark.client("instructor", "from_openai: create with a response_model, in modes JSON_SCHEMA and TOOLS")
@pytest.mark.parametrize("mode", ["JSON_SCHEMA", "TOOLS"])
def test_instructor(client, mode):
    made = instructor.from_openai(client, mode=getattr(instructor.Mode, mode))
    review = made.chat.completions.create(
        model="tiny",
        response_model=Review,
        max_retries=0,
        messages=[{"role": "user", "content": "Review it."}],
        **FIXED,
    )
    assert isinstance(review, Review)


@pytest.mark.client("langchain-openai", "ChatOpenAI: with_structured_output by schema and by call")
@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_langchain_structures(client, server, method):
    chat = langchain_openai.ChatOpenAI(
        base_url=server.url + "/v1", api_key="none", model="tiny", max_retries=0, **FIXED
    )
    assert isinstance(chat.with_structured_output(Review, method=method).invoke("Review it."), Review)


@pytest.mark.client("pydantic-ai-slim", "Agent with an output type: as a call, and by schema")
@pytest.mark.parametrize("output", [Review, pydantic_ai.NativeOutput(Review)], ids=["call", "schema"])
def test_pydantic_ai_structures(client, server, output):
    model = OpenAIChatModel("tiny", provider=OpenAIProvider(base_url=server.url + "/v1", api_key="none"))
    agent = pydantic_ai.Agent(model, output_type=output, retries=0, model_settings=FIXED)
    assert isinstance(agent.run_sync("Review it.").output, Review)


@pytest.mark.client("outlines", "from_openai, from_vllm: a type; from_vllm: a pattern")
def test_outlines(client, server):
    made = outlines.from_openai(client, "tiny")
    Review.model_validate_json(made("Review it.", Review, **FIXED))
    made = outlines.from_vllm(client, "tiny")
    Review.model_validate_json(made("Review it.", Review, **FIXED))
    assert made("A digit", outlines.regex("[0-9]{3}"), **FIXED).isdigit()


# --- Tools ------------------------------------------------------------------------------------


@pytest.mark.client("guidance", "models.OpenAI: text, and JSON of a type")
def test_guidance(server):
    model = guidance.models.OpenAI("tiny", base_url=server.url + "/v1", api_key="none", echo=False)
    with guidance.user():
        model += "Review it."
    with guidance.assistant():
        made = model + guidance.json(name="review", schema=Review, temperature=1.0, max_tokens=300)
    Review.model_validate_json(made["review"])
    model = guidance.models.OpenAI("weather", base_url=server.url + "/v1", api_key="none", echo=False)
    with guidance.user():
        model += "Hello"
    with guidance.assistant():
        model += guidance.gen(name="text", max_tokens=20)
    assert model["text"] == "Good day."


@pytest.mark.client("pydantic-ai-slim", "Agent with tools, and streamed: chat completions, Responses, Messages")
@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_pydantic_ai_calls(server, api):
    def new_model():  # its connections belong to one event loop
        if api == "messages":
            claude = anthropic.AsyncAnthropic(base_url=server.url, api_key="none", max_retries=0)
            return AnthropicModel("weather", provider=AnthropicProvider(anthropic_client=claude))
        provider = OpenAIProvider(base_url=server.url + "/v1", api_key="none")
        return {"chat": OpenAIChatModel, "responses": OpenAIResponsesModel}[api]("weather", provider=provider)

    async def called():
        return (await pydantic_ai.Agent(new_model(), tools=[weather]).run("Weather?")).output

    async def streamed():
        async with pydantic_ai.Agent(new_model()).run_stream("Hello") as run:
            return "".join([part async for part in run.stream_text(delta=True)])

    assert asyncio.run(called()) == "It rains in Ulm."
    assert asyncio.run(streamed()) == "Good day."


@pytest.mark.client("langchain-openai", "ChatOpenAI: bind_tools over Responses, whole and streamed")
def test_langchain_responses(server):
    chat = langchain_openai.ChatOpenAI(
        base_url=server.url + "/v1", api_key="none", model="weather", max_retries=0, use_responses_api=True
    ).bind_tools([weather])
    reply = chat.invoke("Weather?")
    assert reply.tool_calls[0]["args"] == {"at": "Ulm"}
    chunks = list(chat.stream("Weather?"))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert whole.tool_calls[0]["args"] == {"at": "Ulm"}


@pytest.mark.client("langchain-anthropic", "ChatAnthropic: invoke, stream, bind_tools")
def test_langchain_messages(server):
    chat = langchain_anthropic.ChatAnthropic(base_url=server.url, api_key="none", model="weather", max_retries=0)
    assert chat.invoke("Hello").content == "Good day."
    assert "".join(chunk.text for chunk in chat.stream("Hello")) == "Good day."
    assert chat.bind_tools([weather]).invoke("Weather?").tool_calls[0]["args"] == {"at": "Ulm"}


@pytest.mark.client("litellm", "responses; anthropic/: completion with tools")
def test_litellm(server):
    answer = litellm.responses(model="openai/weather", input="Hello", api_base=server.url + "/v1", api_key="none")
    assert answer.output[-1].content[0].text == "Good day."
    tool = {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a place.",
            "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
        },
    }
    reply = litellm.completion(
        model="anthropic/weather",
        messages=[{"role": "user", "content": "Weather?"}],
        tools=[tool],
        api_base=server.url,
        api_key="none",
        num_retries=0,
    )
    assert json.loads(reply.choices[0].message.tool_calls[0].function.arguments) == {"at": "Ulm"}
