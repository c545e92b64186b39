"""Chat completions and completions: what OpenAI's client sends and gets, whole and streamed.

The model has random weights, each byte is a token, and its template is written here; so a text means
nothing, but everything about it can be counted. PENSTOCK_SMOLLM2 names a real chat model.
"""
import concurrent.futures
import json
import os
import shutil
import socket

import openai
import pytest
import requests

from conftest import EMBED, ROOT, raw_post, serving, wait_for
from conftest import GOLDEN as MODELS
from test_openapi import check_answer, check_request

TINY = ROOT / "tests" / "golden" / "decoders" / "llama"
CONTEXT = 2048
TEMPLATE = """\
{%- if messages[0].role not in ['system', 'user'] %}{{ raise_exception('begin with a user') }}{% endif -%}
{{- bos_token }}
{%- if tools %}<tools>{% for tool in tools %}{{ tool.function.name }} {% endfor %}</tools>{% endif -%}
{%- for message in messages %}
{{- '<|turn|>' + message.role + '\\n' + message.content }}
{%- if message.tool_calls %}{% for call in message.tool_calls %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}{% endif %}{{- '<|end|>\\n' }}
{%- endfor %}
{%- if mood %}[{{ mood }}]{% endif %}
{%- if add_generation_prompt %}{{- '<|turn|>assistant\\n' }}{% endif %}"""
HELLO = [{"role": "user", "content": "Say hello."}]
# Letters and a space alone, so that the text is readable and a token is a character.
LETTERS = {str(token): -100 for token in range(260) if not (97 <= token <= 122 or token == 32)}
PLAIN = {"temperature": 0, "max_tokens": 12, "extra_body": {"ignore_eos": True}, "logit_bias": LETTERS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    shutil.copytree(TINY, folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = CONTEXT
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture(scope="module")
def server_args(folder):
    return ("--model", f"tiny={folder}", "--model", f"embed={MODELS / EMBED}", "--model", f"bare={TINY}",
            "--stream-ping-ms", "100")


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def events(answer):
    """The data of each event of a streamed answer, "[DONE]" as it is."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache" and answer.headers["x-accel-buffering"] == "no"
    found = []
    for block in answer.text.split("\n\n"):
        if not block or block.startswith(":"):
            continue
        assert block.startswith("data: "), block
        text = block[len("data: "):]
        found.append(text if text == "[DONE]" else json.loads(text))
    return found


def whole(server, path="/v1/chat/completions", **body):
    answer = server.post(path, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.client("openai", "chat.completions.create")
def test_a_chat_with_the_client(client, server):
    reply = client.chat.completions.create(model="tiny", messages=HELLO, **PLAIN)
    choice = reply.choices[0]
    assert reply.id.startswith("chatcmpl-") and reply.object == "chat.completion" and reply.model == "tiny"
    assert choice.message.role == "assistant" and len(choice.message.content) == 12
    assert choice.finish_reason == "length" and choice.logprobs is None
    rendered = server.post("/apply-template", {"messages": HELLO}).json()["prompt"]
    assert rendered == "<|begin|><|turn|>user\nSay hello.<|end|>\n<|turn|>assistant\n"
    # One token a byte, and one for each of the four marks: no second begin.
    assert reply.usage.prompt_tokens == len("user\nSay hello.\nassistant\n") + 4
    assert reply.usage.completion_tokens == 12
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 12
    again = client.chat.completions.create(model="", messages=HELLO, **PLAIN)
    assert again.choices[0].message.content == choice.message.content and again.model == "tiny"
    # All but what has to be computed anew: whole blocks of the prompt.
    assert again.usage.prompt_tokens_details.cached_tokens <= again.usage.prompt_tokens


def test_several_answers_to_a_prompt_of_whole_blocks(server):
    for tokens in (31, 32, 64):
        body = {"model": "bare", "prompt": [5] * tokens, "n": 3, "max_tokens": 2, "ignore_eos": True, "seed": 1}
        assert len(whole(server, "/v1/completions", **body)["choices"]) == 3


@pytest.mark.client("openai", "chat.completions.create, streamed")
def test_a_stream_says_the_same(client):
    wanted = client.chat.completions.create(model="tiny", messages=HELLO, **PLAIN)
    stream = client.chat.completions.create(model="tiny", messages=HELLO, stream=True,
                                            stream_options={"include_usage": True}, **PLAIN)
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[0].choices[0].delta.content == ""
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert all(chunk.object == "chat.completion.chunk" for chunk in chunks)
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert len(pieces) == 12, "an event a token"
    assert "".join(pieces) == wanted.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 12
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_what_is_on_the_wire(server):
    document = server.get("/openapi.json").json()
    body = {"messages": HELLO, "max_tokens": 4, "temperature": 0, "logit_bias": LETTERS, "logprobs": True,
            "top_logprobs": 2}
    check_request(document, "/v1/chat/completions", body)
    check_answer(document, "POST", "/v1/chat/completions", whole(server, **body))
    found = events(server.post("/v1/chat/completions", {**body, "stream": True}))
    assert found[-1] == "[DONE]"
    schema = {**document["components"]["schemas"]["ChatChunk"], "components": document["components"]}
    import jsonschema
    for event in found[:-1]:
        jsonschema.Draft202012Validator(schema).validate(event)
    assert "usage" not in found[0]
    plain = {"prompt": "abc", "max_tokens": 4, "logprobs": 2, "n": 2, "logit_bias": LETTERS}
    check_request(document, "/v1/completions", plain)
    check_answer(document, "POST", "/v1/completions", whole(server, "/v1/completions", **plain))
    check_answer(document, "POST", "/apply-template", server.post("/apply-template", {"messages": HELLO}).json())
    for path in ("/v1/models/tiny", "/info?model=tiny"):
        told = server.get(path).json()
        check_answer(document, "GET", "/v1/models/{id}" if "models" in path else "/info", told)


def test_logprobs(client):
    reply = client.chat.completions.create(model="tiny", messages=HELLO, logprobs=True, top_logprobs=3, **PLAIN)
    content = reply.choices[0].logprobs.content
    assert "".join(token.token for token in content) == reply.choices[0].message.content
    for token in content:
        assert token.logprob <= 0 and bytes(token.bytes).decode() == token.token
        assert len(token.top_logprobs) == 3
        ordered = [other.logprob for other in token.top_logprobs]
        assert ordered == sorted(ordered, reverse=True)
    chunks = client.chat.completions.create(model="tiny", messages=HELLO, logprobs=True, top_logprobs=3, stream=True,
                                            **PLAIN)
    streamed = [token for chunk in chunks if chunk.choices[0].logprobs for token in chunk.choices[0].logprobs.content]
    assert streamed == content


def test_several_texts(client):
    reply = client.chat.completions.create(model="tiny", messages=HELLO, n=3, max_tokens=8, seed=1, temperature=1,
                                           logit_bias=LETTERS)
    texts = [choice.message.content for choice in reply.choices]
    assert [choice.index for choice in reply.choices] == [0, 1, 2] and len(set(texts)) == 3
    stream = client.chat.completions.create(model="tiny", messages=HELLO, n=3, max_tokens=8, seed=1, temperature=1,
                                            logit_bias=LETTERS, stream=True)
    joined = ["", "", ""]
    for chunk in stream:
        joined[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert joined == texts


def test_stops(client):
    first = client.completions.create(model="tiny", prompt="abc", **PLAIN).choices[0]
    stop = first.text[4:6]
    cut = client.completions.create(model="tiny", prompt="abc", stop=[stop], **PLAIN).choices[0]
    assert cut.text == first.text[:first.text.index(stop)] and cut.finish_reason == "stop"
    kept = client.completions.create(model="tiny", prompt="abc", stop=stop, **{
        **PLAIN, "extra_body": {"ignore_eos": True, "include_stop_str_in_output": True}}).choices[0]
    assert kept.text == cut.text + stop
    token = ord(first.text[3])
    ended = client.completions.create(model="tiny", prompt="abc", **{
        **PLAIN, "extra_body": {"stop_token_ids": [token]}}).choices[0]
    assert ended.text == first.text[:first.text.index(first.text[3])] and ended.finish_reason == "stop"


@pytest.mark.client("openai", "completions.create")
def test_completions(client):
    default = client.completions.create(model="tiny", prompt="abc", temperature=0, logit_bias=LETTERS,
                                        extra_body={"ignore_eos": True})
    assert default.id.startswith("cmpl-") and default.object == "text_completion"
    assert default.usage.completion_tokens == 16 and default.usage.prompt_tokens == 4
    several = client.completions.create(model="tiny", prompt=["abc", "xyz"], n=2, seed=5, max_tokens=6,
                                        logit_bias=LETTERS, temperature=1)
    assert [choice.index for choice in several.choices] == [0, 1, 2, 3]
    assert several.usage.prompt_tokens == 8
    ids = client.completions.create(model="tiny", prompt=[256, 97, 98, 99], **PLAIN)
    text = client.completions.create(model="tiny", prompt="abc", **PLAIN)
    assert ids.choices[0].text == text.choices[0].text
    lists = client.completions.create(model="tiny", prompt=[[256, 97, 98, 99], [97]], **PLAIN)
    assert lists.choices[0].text == text.choices[0].text and len(lists.choices) == 2
    echoed = client.completions.create(model="tiny", prompt="abc", echo=True, **PLAIN)
    assert echoed.choices[0].text == "abc" + text.choices[0].text
    streamed = client.completions.create(model="tiny", prompt="abc", echo=True, stream=True, **PLAIN)
    assert "".join(chunk.choices[0].text for chunk in streamed) == echoed.choices[0].text


def test_logprobs_of_completions(client):
    choice = client.completions.create(model="tiny", prompt="abc", logprobs=2, **PLAIN).choices[0]
    assert "".join(choice.logprobs.tokens) == choice.text
    assert choice.logprobs.text_offset == list(range(12))
    assert len(choice.logprobs.token_logprobs) == 12
    for token, top in zip(choice.logprobs.tokens, choice.logprobs.top_logprobs):
        assert token in top and 2 <= len(top) <= 3
    streamed = list(client.completions.create(model="tiny", prompt="abc", logprobs=2, stream=True, **PLAIN))
    offsets = [offset for chunk in streamed if chunk.choices[0].logprobs for offset in
               chunk.choices[0].logprobs.text_offset]
    assert offsets == list(range(12))


def test_scores_of_prompts(client):
    def scored(prompt, **more):
        return client.completions.create(model="tiny", prompt=prompt, echo=True, **{"temperature": 0, **more})

    text = "the cat sat on the mat"
    alone = scored(text, logprobs=2, max_tokens=0)
    choice, logprobs = alone.choices[0], alone.choices[0].logprobs
    assert choice.text == text and choice.finish_reason == "length"
    assert alone.usage.prompt_tokens == len(text) + 1 and alone.usage.completion_tokens == 0
    assert "".join(logprobs.tokens[1:]) == text
    assert logprobs.text_offset == [0] + list(range(len(text)))
    assert logprobs.token_logprobs[0] is None and logprobs.top_logprobs[0] is None
    for token, own, top in zip(logprobs.tokens[1:], logprobs.token_logprobs[1:], logprobs.top_logprobs[1:]):
        assert top[token] == own <= max(top.values()) < 0 and 2 <= len(top) <= 3
    # Now it is cached, and more is asked for.
    more = scored(text, logprobs=2, n=2, **{**PLAIN, "max_tokens": 3})
    for choice in more.choices:
        assert choice.text.startswith(text) and len(choice.text) == len(text) + 3
        assert choice.logprobs.token_logprobs[:len(text) + 1] == logprobs.token_logprobs
        assert len(choice.logprobs.tokens) == len(text) + 4
        assert choice.logprobs.text_offset[-3:] == [len(text) + i for i in range(3)]
    # What was generated, read as a prompt, has the scores it was generated with.
    ids = [256, *more.choices[0].text.encode()]
    again = scored(ids, logprobs=2, max_tokens=0).choices[0]
    assert again.logprobs.token_logprobs == more.choices[0].logprobs.token_logprobs
    assert again.text == more.choices[0].text


def test_scores_of_prompts_streamed(client):
    prompts = ["a long prompt of more than thirty-two tokens, which is more than a step scores", "b"]
    whole = client.completions.create(model="tiny", prompt=prompts, echo=True, logprobs=1, n=2, seed=3, **PLAIN)
    texts, logprobs = {}, {}
    for chunk in client.completions.create(model="tiny", prompt=prompts, echo=True, logprobs=1, n=2, seed=3,
                                           stream=True, **PLAIN):
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
            if choice.logprobs:
                parts = logprobs.setdefault(choice.index, {})
                for key, values in choice.logprobs.model_dump().items():
                    parts[key] = parts.get(key, []) + values
    for choice in whole.choices:
        assert texts[choice.index] == choice.text
        assert logprobs[choice.index] == choice.logprobs.model_dump()
    empty = list(client.completions.create(model="tiny", prompt="abc", echo=True, logprobs=1, max_tokens=0, stream=True))
    assert [chunk.choices[0].text for chunk in empty] == ["abc", ""]
    assert empty[1].choices[0].finish_reason == "length"


def test_scores_as_lm_evaluation_harness_reads_them(server):
    """Its model local-completions: token ids of context and continuation, one token more than wanted."""
    pairs = [(b"the cat ", b"sat"), (b"a", b"nother one"), (b"x" * 100, b"yz")]
    batch = [[256, *context, *rest] for context, rest in pairs]
    body = {"model": "tiny", "prompt": batch, "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234,
            "echo": True}
    document = server.get("/openapi.json").json()
    check_request(document, "/v1/completions", body)
    answer = server.post("/v1/completions", body)
    assert answer.status_code == 200, answer.text
    check_answer(document, "POST", "/v1/completions", answer.json())
    for choice, (context, rest) in zip(sorted(answer.json()["choices"], key=lambda one: one["index"]), pairs):
        scores = choice["logprobs"]["token_logprobs"][len(context) + 1:-1]
        tops = choice["logprobs"]["top_logprobs"][len(context) + 1:-1]
        assert len(scores) == len(tops) == len(rest)
        for byte, score, top in zip(rest, scores, tops):
            assert top[chr(byte)] == score and score <= max(top.values())
    zero = server.post("/v1/completions", {**body, "max_tokens": 0}).json()
    for choice, other in zip(answer.json()["choices"], zero["choices"]):
        assert choice["logprobs"]["token_logprobs"][:-1] == other["logprobs"]["token_logprobs"]


def test_bytes_that_are_no_characters(server):
    """Half of a character is held back; its bytes are told as log-probabilities."""
    ids = {str(token): -100 for token in range(260) if token not in (0xC3, 0xA9)}
    reply = whole(server, messages=HELLO, max_tokens=9, temperature=1.5, seed=3, logit_bias=ids, logprobs=True,
                  ignore_eos=True)
    spelt = bytes(byte for token in reply["choices"][0]["logprobs"]["content"] for byte in token["bytes"])
    assert reply["choices"][0]["message"]["content"] == spelt.decode(errors="replace")
    assert set(spelt) == {0xC3, 0xA9}


TOOLS = [{"type": "function", "function": {"name": "weather", "description": "d",
                                           "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}}]


def test_the_template_gets_it_all(server):
    def rendered(**body):
        answer = server.post("/apply-template", {"messages": HELLO, **body})
        assert answer.status_code == 200, answer.text
        return answer.json()["prompt"]

    assert "<tools>weather </tools>" in rendered(tools=TOOLS)
    assert "<tools>" not in rendered(tools=[])
    assert rendered(chat_template_kwargs={"mood": "glad"}).count("[glad]") == 1
    assert not rendered(add_generation_prompt=False).endswith("assistant\n")
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert "user\na\nb<|end|>" in rendered(messages=parts)
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"at\": \"Ulm\"}"}}
    turns = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [call]},
             {"role": "tool", "tool_call_id": "call_1", "content": "rain"}]
    assert '{"name": "weather", "arguments": {"at": "Ulm"}}' in rendered(messages=turns)
    begun = [*HELLO, {"role": "assistant", "content": "I say"}]
    assert rendered(messages=begun, continue_final_message=True).endswith("assistant\nI say")
    with_tools = server.post("/v1/chat/completions", {"messages": HELLO, "tools": TOOLS, "max_tokens": 1}).json()
    without = server.post("/v1/chat/completions", {"messages": HELLO, "tools": TOOLS, "max_tokens": 1,
                                                   "tool_choice": "none"}).json()
    assert with_tools["usage"]["prompt_tokens"] > without["usage"]["prompt_tokens"]


REFUSED = [
    ({"messages": []}, "messages"),
    ({"messages": "hello"}, "messages"),
    ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
     "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages[0].content[0].type"),
    ({"response_format": {"type": "yaml"}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.schema"),
    ({"guided_regex": "a+", "tools": TOOLS}, "guided_regex"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": {"type": "function", "function": {"name": "no_such_tool"}}, "tools": TOOLS}, "tool_choice"),
    ({"functions": [{"name": ""}]}, "functions[0].name"),
    ({"audio": {"voice": "x"}}, "audio"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"min_tokens": 3, "max_tokens": 2}, "min_tokens"),
    ({"guided_json": 3}, "guided_json"),
    ({"temperature": 3}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"top_p": 2}, "top_p"),
    ({"n": 17}, "n"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_completion_tokens": 5000}, "max_completion_tokens"),
    ({"logit_bias": {"x": 1}}, "logit_bias.x"),
    ({"logit_bias": {"5": 101}}, "logit_bias.5"),
    ({"logit_bias": {"260": 1}}, "logit_bias"),
    ({"stop": [""]}, "stop[0]"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"tools": [{"type": "retrieval"}]}, "tools[0].type"),
    ({"chat_template": "x"}, "chat_template"),
]


@pytest.mark.parametrize("body,field", REFUSED, ids=[f"{field}-{i}" for i, (_, field) in enumerate(REFUSED)])
def test_refusals_name_the_field(server, body, field):
    for stream in (False, True):
        if stream and "stream_options" in body:
            continue
        answer = server.post("/v1/chat/completions", {"messages": HELLO, "model": "tiny", "stream": stream, **body})
        assert answer.status_code == 400, (answer.status_code, answer.text)
        error = answer.json()["error"]
        assert error["param"] == field and field.split("[")[0].split(".")[0] in error["message"], error


def test_the_template_refuses_in_its_own_words(server):
    answer = server.post("/v1/chat/completions", {"messages": [{"role": "tool", "content": "x"}], "model": "tiny"})
    assert answer.status_code == 400 and answer.json()["error"]["message"] == "begin with a user"


def test_a_context_that_is_too_small_is_told_with_both_numbers(server):
    long = [{"role": "user", "content": "x" * CONTEXT}]
    answer = server.post("/v1/chat/completions", {"messages": long, "model": "tiny"})
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["param"] == "messages"
    assert str(CONTEXT) in error["message"] and str(CONTEXT + 20) in error["message"]
    answer = server.post("/v1/completions", {"prompt": "abc", "model": "tiny", "max_tokens": CONTEXT})
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["param"] == "max_tokens"
    assert str(CONTEXT) in error["message"] and str(CONTEXT + 4) in error["message"]
    refused = server.post("/v1/completions", {"prompt": "abc", "model": "tiny", "max_tokens": 0})
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "max_tokens"
    ids = server.post("/v1/completions", {"prompt": [1, 9999], "model": "tiny"})
    assert ids.status_code == 400 and "9999" in ids.json()["error"]["message"]


def test_the_wrong_model_is_told_what_it_does(client, server):
    with pytest.raises(openai.BadRequestError) as told:
        client.chat.completions.create(model="embed", messages=HELLO)
    assert "'embed' is for embedding" in str(told.value) and "'tiny' does" in str(told.value)
    with pytest.raises(openai.BadRequestError) as told:
        client.embeddings.create(model="tiny", input="x")
    assert "'tiny' generates text" in str(told.value) and "'embed' does" in str(told.value)
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-4", messages=HELLO)
    with pytest.raises(openai.BadRequestError) as told:
        client.chat.completions.create(model="bare", messages=HELLO)
    assert "no chat template" in str(told.value) and "--chat-template" in str(told.value)
    assert client.completions.create(model="bare", prompt="x", max_tokens=2).usage.completion_tokens <= 2


def test_models_tell_their_context(client, server):
    told = {model["id"]: model for model in server.get("/v1/models").json()["data"]}
    assert told["tiny"]["max_model_len"] == told["tiny"]["context_length"] == CONTEXT
    assert told["tiny"]["task"] == "generation" and told["tiny"]["chat"] is True
    assert told["bare"]["chat"] is False and "max_model_len" not in told["embed"]
    info = server.get("/info?model=tiny").json()
    assert info["model_type"] == {"generation": {"context_length": CONTEXT}}
    assert client.models.retrieve("tiny").id == "tiny"


def test_text_generation_inference(server):
    document = server.get("/openapi.json").json()
    parameters = {"max_new_tokens": 6, "seed": 4, "temperature": 1.0, "logit_bias": LETTERS}
    body = {"inputs": "abc", "parameters": {**parameters, "details": True, "top_n_tokens": 2}}
    check_request(document, "/generate", body)
    answer = whole(server, "/generate", **body)
    check_answer(document, "POST", "/generate", answer)
    assert len(answer["generated_text"]) == 6 and answer["details"]["generated_tokens"] == 6
    assert answer["details"]["finish_reason"] == "length" and answer["details"]["seed"] == 4
    assert "".join(token["text"] for token in answer["details"]["tokens"]) == answer["generated_text"]
    found = events(server.post("/generate_stream", body))
    assert "".join(event["token"]["text"] for event in found) == answer["generated_text"]
    assert [event["generated_text"] for event in found] == [None] * 6 + [answer["generated_text"]]
    full = whole(server, "/generate", inputs="abc", parameters={**parameters, "return_full_text": True})
    assert full == {"generated_text": "abc" + answer["generated_text"]}
    greedy = {"inputs": "abc", "parameters": {"max_new_tokens": 6, "logit_bias": LETTERS}}
    assert whole(server, "/generate", **greedy) == whole(server, "/generate", **greedy)
    assert whole(server, "/", **greedy) == whole(server, "/generate", **greedy)
    refused = server.post("/generate", {"inputs": "abc", "parameters": {"truncate": 5}})
    assert refused.status_code == 400 and refused.json()["field"] == "parameters.truncate"


@pytest.mark.client("huggingface_hub", "InferenceClient: chat_completion")
def test_hugging_faces_client(server):
    from huggingface_hub import InferenceClient
    client = InferenceClient(base_url=server.url + "/v1", api_key="none")
    reply = client.chat_completion(HELLO, model="tiny", max_tokens=5, temperature=0, extra_body={"ignore_eos": True})
    assert reply.usage.completion_tokens == 5
    chunks = list(client.chat_completion(HELLO, model="tiny", max_tokens=5, stream=True))
    assert chunks[-1].choices[0].finish_reason in ("length", "stop")


def running(server):
    return sum(value for name, value in server.metrics().items()
               if name.startswith("penstock_generate_running"))


def test_a_client_that_leaves_ends_its_text(server):
    body = json.dumps({"messages": HELLO, "model": "tiny", "stream": True, "max_tokens": 1900, "ignore_eos": True,
                       "n": 4, "temperature": 1}).encode()
    connection = server.connect()
    connection.sendall(raw_post("/v1/chat/completions", body))
    assert b"200 OK" in connection.recv(4096)
    assert wait_for(lambda: running(server) >= 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
    assert wait_for(lambda: running(server) == 0, 2)
    assert wait_for(lambda: server.metrics()["penstock_requests_in_flight"] == 0)
    assert wait_for(lambda: server.metrics()["penstock_inflight_bytes"] == 0)


def test_a_client_that_does_not_read_is_dropped(folder, start):
    server = start("--model", f"tiny={folder}", "--max-stream-unread-bytes", "4096")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((server.host, server.port))
    body = json.dumps({"messages": HELLO, "stream": True, "max_tokens": 1900, "ignore_eos": True, "n": 16,
                       "temperature": 1, "logprobs": True, "top_logprobs": 20}).encode()
    connection.sendall(raw_post("/v1/chat/completions", body))
    assert wait_for(lambda: server.metrics()["penstock_http_streams_dropped_total"] == 1, 30)
    assert wait_for(lambda: running(server) == 0)
    assert wait_for(lambda: server.metrics()["penstock_inflight_bytes"] == 0)
    assert whole(server, messages=HELLO, max_tokens=2, ignore_eos=True)["usage"]["completion_tokens"] == 2
    connection.close()


def test_tokens_of_a_generating_model(server):
    tokens = whole(server, "/tokenize", model="tiny", inputs="ab")
    assert [token["id"] for token in tokens[0]] == [256, 97, 98]
    assert whole(server, "/decode", model="tiny", ids=[[97, 98]]) == ["ab"]
    refused = server.post("/tokenize", {"model": "tiny", "inputs": "ab", "prompt_name": "query"})
    assert refused.status_code == 400 and refused.json()["field"] == "prompt_name"


def test_streams_at_once_are_those_alone(server):
    def text(i):
        found = events(server.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": f"Number {i}" * (i + 1)}], "model": "tiny", "stream": True,
            "max_tokens": 40, "seed": i, "temperature": 1.2, "ignore_eos": True}))
        assert found[-1] == "[DONE]"
        return "".join(event["choices"][0]["delta"].get("content", "") for event in found[:-1])

    alone = [text(i) for i in range(16)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert list(pool.map(text, range(16))) == alone


def test_time_runs_out_within_a_stream(server):
    answer = requests.post(server.url + "/v1/chat/completions", timeout=30, headers={"X-Request-Timeout-Ms": "300"}, json={
        "messages": HELLO, "model": "tiny", "stream": True, "max_tokens": 1990, "ignore_eos": True, "n": 16,
        "temperature": 1})
    found = events(answer)
    assert found[-1]["error"]["type"] == "server_error" and "time" in found[-1]["error"]["message"]
    answer = requests.post(server.url + "/v1/chat/completions", timeout=30, headers={"X-Request-Timeout-Ms": "300"}, json={
        "messages": HELLO, "model": "tiny", "max_tokens": 1990, "ignore_eos": True, "n": 16, "temperature": 1})
    assert answer.status_code == 503


def test_stages_of_a_chat(folder, start):
    server = start("--model", f"tiny={folder}")
    whole(server, messages=HELLO, max_tokens=3, ignore_eos=True)
    stats = server.get("/v1/stats").json()
    times = {stage["stage"]: stage for stage in stats["stages"]}
    assert times["decode"]["count"] == 1 and times["tokenize"]["count"] == 1


@pytest.fixture(scope="module")
def smollm2():
    path = os.environ.get("PENSTOCK_SMOLLM2")
    if not path:
        pytest.skip("NO CHAT MODEL: set PENSTOCK_SMOLLM2 to SmolLM2-135M-Instruct's .gguf file")
    with serving("--model", f"smollm2={path}", "--stream-ping-ms", "50") as server:
        yield openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def test_a_real_chat(smollm2):
    question = [{"role": "user", "content": "What is the capital of France? Answer in one short sentence."}]
    reply = smollm2.chat.completions.create(model="smollm2", messages=question, temperature=0, max_tokens=40)
    assert "Paris" in reply.choices[0].message.content and reply.choices[0].finish_reason == "stop"
    streamed = smollm2.chat.completions.create(model="smollm2", messages=question, temperature=0, max_tokens=40,
                                               stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in streamed)
    assert text == reply.choices[0].message.content
    # The second turn knows the first.
    more = [*question, {"role": "assistant", "content": text}, {"role": "user", "content": "And of Italy?"}]
    second = smollm2.chat.completions.create(model="smollm2", messages=more, temperature=0, max_tokens=40)
    assert second.usage.prompt_tokens_details.cached_tokens >= 32


def test_a_long_prompt_is_not_silent(smollm2):
    body = {"messages": [{"role": "user", "content": "word " * 600}], "max_tokens": 2, "stream": True}
    answer = requests.post(str(smollm2.base_url) + "chat/completions", json=body, timeout=120)
    assert answer.text.count(": ping\n\n") >= 1 and answer.text.rstrip().endswith("data: [DONE]")
