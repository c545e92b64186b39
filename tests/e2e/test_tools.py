"""Calls of tools, as OpenAI's client makes and reads them: whole, streamed, and with the result sent back."""
import json

import openai
import pytest

import scripted_model

WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "The weather of a place.",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}}
QUESTION = [{"role": "user", "content": "Does it rain in Ulm?"}]

# What each family writes for the same two calls.
CALLS = {
    "hermes": ("<tool_call>\"arguments\"", ["<tool_call>", "\n{\"name\": \"weath", "er\", \"argu", "ments\": {\"at\": ",
                                            "\"Ulm\"}}\n</tool_call>", "\n<tool_call>{\"name\": \"weather\", ",
                                            "\"arguments\": {\"at\": \"Bonn\"}}</tool_call>"]),
    "llama": ("<|python_tag|>", ["<|python_tag|>", "{\"name\": \"weather\", \"para", "meters\": {\"at\": \"Ul", "m\"}}",
                                 "; {\"name\": \"weather\", \"parameters\": {\"at\": \"Bonn\"}}"]),
    "mistral": ("[TOOL_CALLS]", ["[TOOL_CALLS]", "[{\"name\": \"weather\", ", "\"arguments\": {\"at\": \"Ulm\"}}",
                                 ", {\"name\": \"weather\", \"arguments\": {\"at\"", ": \"Bonn\"}}]"]),
    "mistral_names": ("[TOOL_CALLS][ARGS]", ["[TOOL_CALLS]", "weath", "er", "[ARGS]", "{\"at\": ", "\"Ulm\"}",
                                             "[TOOL_CALLS]weather", "[ARGS]{\"at\": \"Bonn\"}"]),
    "qwen_coder": ("<tool_call><function=><parameter=>", ["<tool_call>", "\n<function=weather>\n<para", "meter=at>\nUlm\n",
                                                         "</parameter>\n</function>\n</tool_call>",
                                                         "\n<tool_call>\n<function=weather>\n<parameter=at>\nBonn\n",
                                                         "</parameter>\n</function>\n</tool", "_call>"]),
}
MARKERS = ("<tool_call>", "<|python_tag|>", "[TOOL_CALLS]")
# Would be arguments that are not JSON, and a call of a tool that the request does not define.
NO_CALLS = {"broken": ["<tool_call>", "{\"name\": \"weather\", \"argu", "ments\": {\"at\": noth", "ing}}</tool_call>"],
            "unknown": ["<tool_call>", "{\"name\": \"wea", "pons\", \"arguments\": {}}", "</tool_call>"]}
BARE = "{% for message in messages %}{{ message.content }}{% endfor %}<|asked|>"


@pytest.fixture(scope="module")
def server_args(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripted")
    models = ["--model", f"weather={scripted_model.write_weather(folder / 'weather')}"]
    for form, (markers, pieces) in CALLS.items():
        template = "{# " + markers + " #}" + BARE
        models += ["--model", f"{form}={scripted_model.write(folder / form, {'<|asked|>': pieces}, template, MARKERS)}"]
    template = "{# " + CALLS["hermes"][0] + " #}" + BARE
    for name, pieces in NO_CALLS.items():
        models += ["--model", f"{name}={scripted_model.write(folder / name, {'<|asked|>': pieces}, template, MARKERS)}"]
    return models


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def joined(stream):
    """The parts of a streamed answer: content, reasoning, calls as (id, name, arguments), how it ended."""
    content, reasoning, calls, ended = "", "", {}, None
    for chunk in stream:
        choice = chunk.choices[0]
        content += choice.delta.content or ""
        reasoning += getattr(choice.delta, "reasoning_content", None) or ""
        for part in choice.delta.tool_calls or []:
            if part.index not in calls:
                # The first part of a call names it; the others add to its arguments.
                assert part.index == len(calls) and part.type == "function" and part.id and part.function.name
                calls[part.index] = [part.id, part.function.name, ""]
            else:
                assert part.id is None and part.function.name is None
            calls[part.index][2] += part.function.arguments or ""
        assert ended is None or not (choice.delta.content or choice.delta.tool_calls)
        ended = choice.finish_reason or ended
    return content, reasoning, list(calls.values()), ended


def parts(message, ended):
    calls = [[call.id, call.function.name, call.function.arguments] for call in message.tool_calls or []]
    return message.content, getattr(message, "reasoning_content", None), calls, ended


def ask(client, stream, **body):
    body = {"model": "weather", "messages": QUESTION, "tools": [WEATHER], "temperature": 0, **body}
    if stream:
        return joined(client.chat.completions.create(stream=True, **body))
    choice = client.chat.completions.create(**body).choices[0]
    return parts(choice.message, choice.finish_reason)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_call_its_result_and_the_answer(client, stream):
    content, reasoning, calls, ended = ask(client, stream)
    assert (content, reasoning, ended) == ("Let me look.", "Ask the station.", "tool_calls")
    (call_id, name, arguments), = calls
    assert name == "weather" and json.loads(arguments) == {"at": "Ulm"} and call_id
    turns = [*QUESTION,
             {"role": "assistant", "content": content, "reasoning_content": reasoning, "tool_calls": [
                 {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}]},
             {"role": "tool", "tool_call_id": call_id, "content": "rain"}]
    content, reasoning, calls, ended = ask(client, stream, messages=turns)
    assert (content, reasoning or None, calls, ended) == ("It rains in Ulm.", None, [], "stop")


def test_arguments_come_as_they_are_written(client):
    chunks = list(client.chat.completions.create(model="weather", messages=QUESTION, tools=[WEATHER], stream=True))
    grown = [part.function.arguments for chunk in chunks for part in chunk.choices[0].delta.tool_calls or []
             if part.function.arguments]
    assert len(grown) >= 2, grown


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("form", CALLS)
def test_two_calls_in_each_form(client, form, stream):
    content, _, calls, ended = ask(client, stream, model=form)
    assert [(name, json.loads(arguments)) for _, name, arguments in calls] == [
        ("weather", {"at": "Ulm"}), ("weather", {"at": "Bonn"})]
    assert len({call_id for call_id, _, _ in calls}) == 2 and not content and ended == "tool_calls"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("form", CALLS)
def test_one_call_where_several_are_not_wanted(client, form, stream):
    _, _, calls, ended = ask(client, stream, model=form, parallel_tool_calls=False)
    assert len(calls) == 1 and json.loads(calls[0][2]) == {"at": "Ulm"} and ended == "tool_calls"


def test_what_is_no_call_is_text(client):
    for stream in (False, True):
        content, _, calls, ended = ask(client, stream, model="broken", max_tokens=2)
        assert (content, calls, ended) == ("".join(NO_CALLS["broken"][:2]), [], "length")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", NO_CALLS)
def test_a_call_that_was_begun_is_held(client, name, stream):
    """The model would call a tool that there is not, or break the arguments off."""
    tool = {"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"at": {"enum": ["Ulm"]}}, "required": ["at"]}}}
    content, _, calls, ended = ask(client, stream, model=name, tools=[tool])
    assert [(name, json.loads(arguments)) for _, name, arguments in calls] == [("weather", {"at": "Ulm"})]
    assert not content and ended == "tool_calls"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_old_form_of_tools(client, stream):
    body = {"model": "weather", "messages": QUESTION, "functions": [WEATHER["function"]], "temperature": 0}
    if stream:
        name = arguments = ended = ""
        for chunk in client.chat.completions.create(stream=True, **body):
            call = chunk.choices[0].delta.function_call
            name += (call and call.name) or ""
            arguments += (call and call.arguments) or ""
            ended = chunk.choices[0].finish_reason or ended
    else:
        choice = client.chat.completions.create(**body).choices[0]
        call, ended = choice.message.function_call, choice.finish_reason
        name, arguments = call.name, call.arguments
        assert not choice.message.tool_calls
    assert (name, json.loads(arguments), ended) == ("weather", {"at": "Ulm"}, "function_call")
    told = [*QUESTION, {"role": "assistant", "content": None, "function_call": {"name": name, "arguments": arguments}},
            {"role": "function", "name": name, "content": "rain"}]
    answer = client.chat.completions.create(**{**body, "messages": told})
    assert answer.choices[0].message.content == "It rains in Ulm."


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_no_tools_no_calls(client, stream):
    for more in ({"tool_choice": "none"}, {"tools": openai.NOT_GIVEN}):
        content, _, calls, ended = ask(client, stream, **more)
        assert (content, calls, ended) == ("Good day.", [], "stop")
    # Without tools a text is not searched for calls.
    content, _, calls, _ = ask(client, stream, model="llama", tools=openai.NOT_GIVEN)
    assert not calls and content.startswith("<|python_tag|>{")


def test_the_clients_helper_for_streams(client):
    """`chat.completions.stream` joins the parts itself, and checks them against its types."""
    with client.chat.completions.stream(model="weather", messages=QUESTION, tools=[WEATHER]) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_completion().choices[0].message
    assert "tool_calls.function.arguments.delta" in kinds and "tool_calls.function.arguments.done" in kinds
    assert message.tool_calls[0].function.name == "weather"
    assert json.loads(message.tool_calls[0].function.arguments) == {"at": "Ulm"}


def test_hugging_faces_client(server):
    from huggingface_hub import InferenceClient
    client = InferenceClient(base_url=server.url + "/v1", api_key="none")
    message = client.chat_completion(QUESTION, model="weather", tools=[WEATHER]).choices[0].message
    assert message.tool_calls[0].function.name == "weather"
    arguments = message.tool_calls[0].function.arguments
    assert (json.loads(arguments) if isinstance(arguments, str) else arguments) == {"at": "Ulm"}
