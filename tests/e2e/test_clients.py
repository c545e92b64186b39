"""LangChain's and LiteLLM's clients, unchanged, against a server of embeddings and chat, in the dialects of OpenAI
and of Ollama.

They want other versions of packages than the rest of these tests (tests/e2e/README.md).
"""
import json
import os

import pytest

# Else it asks the network for the prices of models.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
MISSING = "NO LANGCHAIN AND LITELLM HERE: tests/e2e/requirements-clients.txt"
langchain_ollama = pytest.importorskip("langchain_ollama", reason=MISSING)
langchain_openai = pytest.importorskip("langchain_openai", reason=MISSING)
litellm = pytest.importorskip("litellm", reason=MISSING)

from conftest import EMBED, GOLDEN, RERANK, expected, find_minilm, serving

HELLO = "What is the capital of France? Answer in one short sentence."
CASES = [case for case in expected(EMBED)["texts"] if not case.get("prompt_name")][:4]
TOOL = {"type": "function", "function": {
    "name": "weather", "description": "The weather of a place.",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}}


def close(got, wanted):
    return len(got) == len(wanted) and max(abs(a - b) for a, b in zip(got, wanted)) < 1e-5


@pytest.fixture(scope="module")
def server_args(weather):
    return ("--model", f"weather={weather}", "--model", f"embed={GOLDEN / EMBED}", "--model", f"rerank={GOLDEN / RERANK}")


@pytest.fixture(scope="module")
def real():
    chat, embedder = os.environ.get("PENSTOCK_SMOLLM2"), find_minilm()
    if not chat or embedder is None:
        pytest.skip("NO REAL MODELS: set PENSTOCK_SMOLLM2 and PENSTOCK_MINILM")
    with serving("--model", f"smollm2={chat}", "--model", f"minilm={embedder}") as server:
        yield server


def chat_of(server, model, **more):
    return langchain_openai.ChatOpenAI(base_url=server.url + "/v1", api_key="none", model=model, temperature=0,
                                       max_retries=0, **more)


def lite(server, model, **more):
    return {"model": f"openai/{model}", "api_base": server.url + "/v1", "api_key": "none", "num_retries": 0, **more}


# --- LangChain --------------------------------------------------------------------------------


@pytest.mark.client("langchain-openai", "ChatOpenAI: invoke, stream, batch")
def test_langchain_chats(server):
    chat = chat_of(server, "weather")
    reply = chat.invoke("Hello")
    assert reply.content == "Good day." and reply.response_metadata["finish_reason"] == "stop"
    assert reply.usage_metadata["output_tokens"] == 3
    chunks = list(chat.stream("Hello"))
    assert "".join(chunk.content for chunk in chunks) == "Good day." and len([c for c in chunks if c.content]) == 2
    counted = list(chat_of(server, "weather", stream_usage=True).stream("Hello"))
    assert sum(chunk.usage_metadata["output_tokens"] for chunk in counted if chunk.usage_metadata) == 3
    assert [one.content for one in chat.batch(["Hello", "Hello"])] == ["Good day."] * 2


@pytest.mark.client("langchain-openai", "ChatOpenAI: bind_tools, whole and streamed")
def test_langchain_calls_tools(server):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool

    @tool
    def weather(at: str) -> str:
        """The weather of a place."""
        return "rain in " + at

    chat = chat_of(server, "weather").bind_tools([weather])
    turns = [HumanMessage("Does it rain in Ulm?")]
    reply = chat.invoke(turns)
    call, = reply.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"at": "Ulm"}) and reply.content == "Let me look."
    streamed = None
    for chunk in chat.stream(turns):
        streamed = chunk if streamed is None else streamed + chunk
    assert streamed.tool_calls[0]["args"] == {"at": "Ulm"} and streamed.content == reply.content
    told = weather.invoke(call)
    assert isinstance(told, ToolMessage) and told.content == "rain in Ulm"
    assert chat.invoke([*turns, reply, told]).content == "It rains in Ulm."


@pytest.mark.client("langchain-openai", "OpenAIEmbeddings: embed_documents, embed_query")
def test_langchain_embeds(server):
    # As docs/API.md has it; by default it sends the token ids of OpenAI's own models.
    embedder = langchain_openai.OpenAIEmbeddings(base_url=server.url + "/v1", api_key="none", model="embed",
                                                 check_embedding_ctx_length=False)
    for got, case in zip(embedder.embed_documents([case["text"] for case in CASES]), CASES):
        assert close(got, case["embedding"])
    assert close(embedder.embed_query(CASES[0]["text"]), CASES[0]["embedding"])


def test_langchain_with_real_models(real):
    chat = chat_of(real, "smollm2", max_tokens=40)
    reply = chat.invoke(HELLO)
    assert "Paris" in reply.content
    assert "".join(chunk.content for chunk in chat.stream(HELLO)) == reply.content
    # Its chat template has no place for tools.
    with pytest.raises(Exception, match="does not support tools"):
        chat.bind_tools([TOOL]).invoke(HELLO)
    embedder = langchain_openai.OpenAIEmbeddings(base_url=real.url + "/v1", api_key="none", model="minilm",
                                                 check_embedding_ctx_length=False)
    dog, puppy, law = embedder.embed_documents(["a dog", "a puppy", "the law of contracts"])
    near, far = (sum(a * b for a, b in zip(dog, other)) for other in (puppy, law))
    assert len(dog) == 384 and near > 0.5 > far


@pytest.mark.client("langchain-ollama", "ChatOllama: invoke, stream; OllamaLLM: invoke, stream")
def test_langchain_ollama_chats(server):
    chat = langchain_ollama.ChatOllama(base_url=server.url, model="weather", temperature=0, validate_model_on_init=True)
    reply = chat.invoke("Hello")
    assert reply.content == "Good day." and reply.response_metadata["done_reason"] == "stop"
    assert reply.usage_metadata["output_tokens"] == 3
    assert "".join(chunk.content for chunk in chat.stream("Hello")) == "Good day."
    plain = langchain_ollama.OllamaLLM(base_url=server.url, model="weather", temperature=0, num_predict=8)
    assert plain.invoke("Hello") == "Good day." == "".join(plain.stream("Hello"))


@pytest.mark.client("langchain-ollama", "ChatOllama: bind_tools")
def test_langchain_ollama_calls_tools(server):
    from langchain_core.messages import HumanMessage, ToolMessage

    chat = langchain_ollama.ChatOllama(base_url=server.url, model="weather", temperature=0).bind_tools([TOOL])
    turns = [HumanMessage("Does it rain in Ulm?")]
    reply = chat.invoke(turns)
    call, = reply.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"at": "Ulm"})
    told = ToolMessage("rain", tool_call_id=call["id"])
    assert chat.invoke([*turns, reply, told]).content == "It rains in Ulm."


@pytest.mark.client("langchain-ollama", "OllamaEmbeddings: embed_documents, embed_query")
def test_langchain_ollama_embeds(server):
    embedder = langchain_ollama.OllamaEmbeddings(base_url=server.url, model="embed")
    for got, case in zip(embedder.embed_documents([case["text"] for case in CASES]), CASES):
        assert close(got, case["embedding"])
    assert close(embedder.embed_query(CASES[0]["text"]), CASES[0]["embedding"])


# --- LiteLLM ----------------------------------------------------------------------------------


@pytest.mark.client("litellm", "ollama/, ollama_chat/: completion, tools, embedding")
def test_litellm_chats_as_with_ollama(server):
    ask = {"messages": [{"role": "user", "content": "Hello"}], "api_base": server.url, "num_retries": 0}
    for model in ("ollama_chat/weather", "ollama/weather"):
        reply = litellm.completion(model=model, **ask)
        assert reply.choices[0].message.content.strip() == "Good day." and reply.usage.completion_tokens == 3
        chunks = list(litellm.completion(model=model, stream=True, **ask))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices).strip() == "Good day."
    called = litellm.completion(model="ollama_chat/weather", tools=[TOOL], **{
        **ask, "messages": [{"role": "user", "content": "Does it rain in Ulm?"}]})
    call, = called.choices[0].message.tool_calls
    assert call.function.name == "weather" and json.loads(call.function.arguments) == {"at": "Ulm"}
    answer = litellm.embedding(model="ollama/embed", input=[case["text"] for case in CASES], api_base=server.url)
    for row, case in zip(answer.data, CASES):
        assert close(row["embedding"], case["embedding"])


@pytest.mark.client("litellm", "openai/: completion, text_completion, whole and streamed")
def test_litellm_chats(server):
    messages = [{"role": "user", "content": "Hello"}]
    reply = litellm.completion(messages=messages, temperature=0, **lite(server, "weather"))
    assert reply.choices[0].message.content == "Good day." and reply.choices[0].finish_reason == "stop"
    assert reply.usage.completion_tokens == 3
    chunks = list(litellm.completion(messages=messages, stream=True, stream_options={"include_usage": True},
                                     **lite(server, "weather")))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Good day."
    assert chunks[-1].usage.completion_tokens == 3
    text = litellm.text_completion(prompt="<|chat|>", max_tokens=4, **{
        **lite(server, "weather"), "model": "text-completion-openai/weather"})
    assert text.choices[0].text == "Good day."


@pytest.mark.client("litellm", "openai/: completion with tools")
def test_litellm_calls_tools(server):
    turns = [{"role": "user", "content": "Does it rain in Ulm?"}]
    reply = litellm.completion(messages=turns, tools=[TOOL], **lite(server, "weather"))
    message = reply.choices[0].message
    call, = message.tool_calls
    assert call.function.name == "weather" and json.loads(call.function.arguments) == {"at": "Ulm"}
    assert message.reasoning_content == "Ask the station." and reply.choices[0].finish_reason == "tool_calls"
    chunks = list(litellm.completion(messages=turns, tools=[TOOL], stream=True, **lite(server, "weather")))
    whole = litellm.stream_chunk_builder(chunks, messages=turns).choices[0].message
    assert json.loads(whole.tool_calls[0].function.arguments) == {"at": "Ulm"} and whole.content == message.content
    turns += [message, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    told = litellm.completion(messages=turns, tools=[TOOL], **lite(server, "weather"))
    assert told.choices[0].message.content == "It rains in Ulm."


@pytest.mark.client("litellm", "openai/: embedding; cohere/: rerank")
def test_litellm_embeds_and_ranks(server):
    answer = litellm.embedding(input=[case["text"] for case in CASES], **lite(server, "embed"))
    for row, case in zip(answer.data, CASES):
        assert close(row["embedding"], case["embedding"])
    ranked = litellm.rerank(model="cohere/rerank", api_base=server.url, api_key="none", query="dog",
                            documents=["a dog", "a cat", "a law"], top_n=2)
    assert len(ranked.results) == 2
    scores = [row["relevance_score"] for row in ranked.results]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.client("litellm", "openai/: errors")
def test_litellm_reads_errors(server):
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(messages=[{"role": "user", "content": "x"}], **lite(server, "gone"))
    with pytest.raises(litellm.BadRequestError) as told:
        litellm.completion(messages=[{"role": "user", "content": "x"}], temperature=3, **lite(server, "weather"))
    assert "temperature" in str(told.value)


def test_litellm_with_real_models(real):
    messages = [{"role": "user", "content": HELLO}]
    reply = litellm.completion(messages=messages, temperature=0, max_tokens=40, **lite(real, "smollm2"))
    assert "Paris" in reply.choices[0].message.content
    chunks = litellm.completion(messages=messages, temperature=0, max_tokens=40, stream=True, **lite(real, "smollm2"))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == reply.choices[0].message.content
    assert len(litellm.embedding(input=["a dog"], **lite(real, "minilm")).data[0]["embedding"]) == 384
