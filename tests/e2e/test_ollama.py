"""Ollama's routes, by its Python client and by hand; and models pulled by clients from a hub on this machine."""
import json

import numpy as np
import ollama
import pytest
import requests

import scripted_model
from conftest import EMBED, GOLDEN, ROOT, clean_environment, expected, wait_for
from fake_hub import FakeHub
from test_openapi import check_answer, check_request

BARE = ROOT / "tests" / "golden" / "decoders" / "llama"
GGUF = ROOT / "tests" / "golden" / "decoders" / "llama_gguf" / "llama-q8_0.gguf"
CASES = [case for case in expected(EMBED)["texts"] if not case.get("prompt_name")][:4]
TOOL = {"type": "function", "function": {
    "name": "weather", "description": "The weather of a place.",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}}
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def server_args(weather):
    return "--model", f"weather={weather}", "--model", f"embed={GOLDEN / EMBED}", "--model", f"bare={BARE}"


@pytest.fixture(scope="module")
def client(server):
    return ollama.Client(server.url)


@pytest.fixture(scope="module")
def document(server):
    return server.get("/openapi.json").json()


def close(got, wanted):
    wanted = np.asarray(wanted) / np.linalg.norm(wanted)
    return np.abs(np.asarray(got) - wanted).max() < 1e-5


@pytest.mark.client("ollama", "embed, embeddings")
def test_embeddings_equal_the_reference(client):
    answer = client.embed("embed", [case["text"] for case in CASES])
    assert answer.model == "embed" and answer.total_duration > 0
    assert answer.prompt_eval_count == sum(len(case["ids"]) for case in CASES)
    assert all(close(got, case["embedding"]) for got, case in zip(answer.embeddings, CASES, strict=True))
    assert close(client.embed("embed:latest", CASES[0]["text"]).embeddings[0], CASES[0]["embedding"])
    assert close(client.embeddings("embed", CASES[0]["text"]).embedding, CASES[0]["embedding"])
    short = client.embed("embed", CASES[0]["text"], dimensions=8).embeddings[0]
    assert len(short) == 8 and abs(np.linalg.norm(short) - 1) < 1e-5
    assert client.embed("embed", []).embeddings == []


def test_long_inputs_are_cut_unless_told(client):
    assert client.embed("embed", "dog " * 500).embeddings
    with pytest.raises(ollama.ResponseError) as told:
        client.embed("embed", "dog " * 500, truncate=False)
    assert told.value.status_code in (400, 413, 422) and "input" in told.value.error


@pytest.mark.client("ollama", "chat, whole and streamed; options, logprobs")
def test_chats_whole_and_streamed(client):
    whole = client.chat("weather", HELLO)
    assert whole.message.content == "Good day." and whole.done and whole.done_reason == "stop"
    assert whole.eval_count == 3 and whole.prompt_eval_count > 0
    assert whole.total_duration >= whole.prompt_eval_duration + whole.eval_duration > 0
    parts = list(client.chat("weather", HELLO, stream=True))
    assert [part.message.content for part in parts] == ["Good ", "day.", ""]
    assert [part.done for part in parts] == [False, False, True]
    assert parts[-1].eval_count == 3 and parts[-1].done_reason == "stop"
    cut = client.chat("weather", HELLO, options={"num_predict": 1})
    assert cut.message.content == "Good " and cut.done_reason == "length"
    # As Ollama has it, more than the context holds is not an error.
    assert client.chat("weather", HELLO, options={"num_predict": 10**6, "num_ctx": 4096}).message.content == "Good day."
    stopped = client.chat("weather", HELLO, options={"stop": ["day"], "temperature": 0})
    assert stopped.message.content == "Good "
    scored = client.chat("weather", HELLO, logprobs=True, top_logprobs=2)
    assert [token.token for token in scored.logprobs][:2] == ["Good ", "day."]
    assert len(scored.logprobs[0].top_logprobs) == 2


@pytest.mark.client("ollama", "chat with tools, whole and streamed")
@pytest.mark.parametrize("stream", [False, True])
def test_calls_tools(client, stream):
    turns = [{"role": "user", "content": "Does it rain in Ulm?"}]
    answer = client.chat("weather", turns, tools=[TOOL], stream=stream)
    parts = list(answer) if stream else [answer]
    calls = [call for part in parts for call in part.message.tool_calls or []]
    assert [(call.function.name, call.function.arguments) for call in calls] == [("weather", {"at": "Ulm"})]
    assert "".join(part.message.thinking or "" for part in parts) == "Ask the station."
    content = "".join(part.message.content or "" for part in parts)
    assert content == "Let me look."
    turns += [{"role": "assistant", "content": content, "tool_calls": calls},
              {"role": "tool", "tool_name": "weather", "content": "rain"}]
    assert client.chat("weather", turns, tools=[TOOL]).message.content == "It rains in Ulm."


@pytest.mark.client("ollama", "generate, whole and streamed; raw, system")
def test_generates(client):
    whole = client.generate("weather", "Hello")
    assert whole.response == "Good day." and whole.done_reason == "stop"
    assert [part.response for part in client.generate("weather", "Hello", stream=True)] == ["Good ", "day.", ""]
    assert client.generate("weather", "<|chat|>", raw=True).response == "Good day."
    # A model without a chat template takes the prompt as it is.
    plain = {"temperature": 0, "num_predict": 4}
    assert client.generate("bare", "a", options=plain).response == \
        client.generate("bare", "a", raw=True, options=plain).response
    with pytest.raises(ollama.ResponseError) as told:
        client.generate("bare", "a", system="b")
    assert told.value.status_code == 400 and "template" in told.value.error


@pytest.mark.client("ollama", "ps; keep_alive of chat and generate")
def test_loads_and_unloads(server, client):
    assert client.generate("weather", keep_alive="10m").done_reason == "load"
    assert {model.model for model in client.ps().models} == {"weather", "embed", "bare"}
    expires = {model.model: model.expires_at for model in client.ps().models}
    assert expires["weather"] > expires["embed"]
    assert client.chat("bare", keep_alive=0).done_reason == "unload"
    assert "bare" not in {model.model for model in client.ps().models}  # it is gone when the answer comes
    assert client.generate("bare", keep_alive=0).done_reason == "unload"
    assert client.generate("bare", "a", options={"num_predict": 1}).done  # loads it again
    version = server.get("/api/version").json()
    # What GitHub Copilot's provider for Ollama asks for at least.
    assert tuple(map(int, version["version"].split("."))) >= (0, 6, 4)
    assert version["penstock"] == server.get("/").json()["version"]


@pytest.mark.client("ollama", "list, show")
def test_tells_of_models(server, client, document):
    models = {model.model: model for model in client.list().models}
    assert set(models) == {"weather", "embed", "bare"}
    assert len(models["embed"].digest) == 64 and models["embed"].size > 0
    shown = client.show("weather")
    # Its template shows the marker of thinking.
    assert shown.capabilities == ["completion", "tools", "thinking"] and "<tools>" in shown.template
    assert shown.modelinfo["general.basename"] == "weather"
    assert shown.modelinfo["llama.context_length"] == scripted_model.CONTEXT
    assert client.show("embed").capabilities == ["embedding"]
    for path in ("/api/tags", "/api/ps", "/api/version"):
        check_answer(document, "GET", path, server.get(path).json())
    for path, body in [("/api/show", {"model": "weather"}), ("/api/embed", {"model": "embed", "input": "a"}),
                       ("/api/embeddings", {"model": "embed", "prompt": "a"}),
                       ("/api/generate", {"model": "weather", "prompt": "a", "stream": False}),
                       ("/api/chat", {"model": "weather", "messages": HELLO, "stream": False, "tools": [TOOL]}),
                       ("/api/generate", {"model": "weather"})]:
        check_request(document, path, body)
        answer = server.post(path, body)
        assert answer.status_code == 200, answer.text
        check_answer(document, "POST", path, answer.json())
    assert models["embed"].details.quantization_level == "F32" and models["embed"].details.format == "safetensors"
    missing = server.post("/api/show", {"model": "gone"})
    check_answer(document, "POST", "/api/show", missing.json(), missing.status_code)


def test_a_gguf_file_has_its_own_level_and_a_tensor_model_its_format(start):
    server = start("--model", f"chat={GGUF}", "--model", "add=builtin:add", "--preload")
    tags = {model["name"]: model["details"] for model in server.get("/api/tags").json()["models"]}
    assert tags["chat"]["quantization_level"] == "Q8_0" and tags["chat"]["format"] == "gguf"
    assert set(tags) == {"chat"}  # no client of Ollama can use tensors
    assert server.post("/api/show", {"model": "add"}).json()["details"]["format"] == "builtin"
    for path, model in (("/api/chat", "add"), ("/api/generate", "add"), ("/api/embed", "add"), ("/api/embed", "chat"),
                        ("/api/embeddings", "chat")):
        answer = server.post(path, {"model": model})
        assert answer.status_code == 400 and "is for " in answer.json()["error"], (path, answer.text)


PLAIN = "{% for message in messages %}{{ message.content }}<|end|>{% endfor %}<|chat|>"


def test_every_name_of_a_model_is_listed(start, tmp_path):
    """As ChatOllama(validate_model_on_init=True) looks for the name it was given."""
    folder = scripted_model.write_weather(tmp_path / "acme--weather")
    server = start("--model", folder, "--model", f"embed,vectors={GOLDEN / EMBED}",
                   "--model", f"rank={GOLDEN / 'bert_rerank_identity'}")
    names = [model.model for model in ollama.Client(server.url).list().models]
    assert names == ["acme--weather", "acme/weather", "weather", "embed", "vectors"]
    assert all(server.post("/api/show", {"model": name}).status_code == 200 for name in names)


def test_a_template_without_a_place_for_tools_or_thinking(start, tmp_path):
    plain = scripted_model.write(tmp_path / "plain", {"<|chat|>": ["Good ", "day."]}, PLAIN)
    weather = scripted_model.write_weather(tmp_path / "weather")
    server = start("--model", plain, "--model", weather)
    client = ollama.Client(server.url)
    assert client.chat("plain", HELLO, think=False).message.content == "Good day."
    for more, word in (({"tools": [TOOL]}, "tools"), ({"think": True}, "thinking"), ({"think": "low"}, "thinking")):
        with pytest.raises(ollama.ResponseError) as told:
            client.chat("plain", HELLO, **more)
        assert told.value.status_code == 400
        assert f"model 'plain' does not support {word}" in told.value.error, told.value.error
        assert client.chat("weather", HELLO, **more).done
    kwargs = {"chat_template_kwargs": {"enable_thinking": True}}
    for path, more, field in (("/v1/chat/completions", {"tools": [TOOL]}, "tools"),
                              ("/v1/chat/completions", kwargs, "chat_template_kwargs.enable_thinking"),
                              ("/apply-template", {"tools": [TOOL]}, "tools"),
                              ("/v2/chat", {"tools": [TOOL]}, "tools"),
                              ("/v2/chat", {"thinking": {"type": "enabled"}}, "thinking")):
        body = {"model": "plain", "messages": HELLO, **more}
        answer = server.post(path, body)
        assert answer.status_code == 400 and "does not support" in answer.text, (path, answer.text)
        error = answer.json()
        assert (error["error"]["param"] if "error" in error else error["field"]) == field
        assert server.post(path, {**body, "model": "weather"}).status_code == 200
    # A request with tools that the model is not to see is not refused.
    answer = server.post("/v1/chat/completions", {"model": "plain", "messages": HELLO, "tools": [TOOL],
                                                  "tool_choice": "none"})
    assert answer.json()["choices"][0]["message"]["content"] == "Good day."


@pytest.mark.parametrize("stream", [False, True])
def test_options_that_are_none_are_told(server, stream):
    body = {"model": "weather", "messages": HELLO, "stream": stream}
    told = server.post("/api/chat", {**body, "options": {"temprature": 0, "num_ctx": 64}})
    assert told.status_code == 200 and told.headers["X-Penstock-Ignored-Options"] == "temprature"
    right = server.post("/api/chat", {**body, "options": {"temperature": 0, "num_ctx": 64}})
    assert "X-Penstock-Ignored-Options" not in right.headers


def test_wrong_values_are_named_as_the_client_wrote_them(server):
    for path, body, says in [("/api/embed", {"model": "embed", "input": 5}, "'input' must be a text or an array"),
                             ("/api/generate", {"model": "bare", "prompt": "a", "options": {"top_k": -5}},
                              "'options.top_k'"),
                             ("/api/generate", {"model": "bare", "prompt": "a", "options": {"top_p": 5}},
                              "'options.top_p'")]:
        answer = server.post(path, body)
        assert answer.status_code == 400 and says in answer.json()["error"], answer.text


@pytest.mark.client("ollama", "errors")
def test_errors_are_as_the_client_wants_them(server, client):
    for ask in (lambda: client.chat("gone", HELLO), lambda: client.embed("gone", "a"), lambda: client.show("gone"),
                lambda: list(client.generate("gone", "a", stream=True))):
        with pytest.raises(ollama.ResponseError) as told:
            ask()
        assert told.value.status_code == 404 and "gone" in told.value.error
    with pytest.raises(ollama.ResponseError) as told:
        client.chat("weather", HELLO, format={"type": "array", "uniqueItems": True})
    assert told.value.status_code == 400 and "format" in told.value.error
    with pytest.raises(ollama.ResponseError) as told:
        client.chat("embed", HELLO)
    assert told.value.status_code == 400
    # What the Service refuses has the client's names.
    with pytest.raises(ollama.ResponseError) as told:
        client.embed("embed", "a", dimensions=10**4)
    assert "dimensions" in told.value.error
    assert set(server.post("/api/nope", {}).json()) == {"error"}


# --- Pull and delete ---------------------------------------------------------------------------


def files(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*"))
            if file.is_file() and file.name != "expected.json"}


@pytest.fixture
def hub():
    hub = FakeHub({"acme/embedder": files(GOLDEN / EMBED), "acme/other": files(GOLDEN / EMBED)})
    yield hub
    hub.close()


@pytest.fixture
def hub_env(tmp_path, hub):
    kept = {k: v for k, v in clean_environment().items() if not k.startswith(("HF_", "XDG_", "HUGGING"))}
    return {**kept, "HOME": str(tmp_path), "HF_ENDPOINT": hub.url}


@pytest.mark.client("ollama", "pull, whole and streamed; delete")
def test_pulls_serves_and_deletes(start, tmp_path, hub_env):
    server = start("--allow-pull", env=hub_env)
    client = ollama.Client(server.url)
    parts = list(client.pull("acme/embedder", stream=True))
    assert parts[0].status == "pulling manifest" and parts[-1].status == "success"
    assert any(part.completed == part.total > 0 for part in parts if part.total)
    assert close(client.embed("acme/embedder", CASES[0]["text"]).embeddings[0], CASES[0]["embedding"])
    assert client.pull("hf.co/acme/other").status == "success"
    assert client.embed("hf.co/acme/other", "a").embeddings and client.embed("other", "a").embeddings
    snapshot = tmp_path / ".cache/huggingface/hub/models--acme--embedder"
    assert snapshot.is_dir()
    assert client.delete("acme/embedder").status == "success"
    assert not snapshot.is_dir() and "acme/embedder" not in [model.model for model in client.list().models]
    for ask, code in ((lambda: client.delete("acme/embedder"), 404), (lambda: client.delete("embed"), 422),
                      (lambda: client.embed("acme/embedder", "a"), 404), (lambda: client.pull(str(GOLDEN / EMBED)), 400),
                      (lambda: client.pull("llama3.2"), 400), (lambda: client.pull("acme/gone"), 404)):
        with pytest.raises(ollama.ResponseError) as told:
            ask()
        assert told.value.status_code == code, told.value
    with pytest.raises(ollama.ResponseError):
        list(client.pull("acme/gone", stream=True))
    assert (GOLDEN / EMBED).is_dir()


def test_models_of_one_repository_keep_their_files(start, tmp_path, hub, hub_env):
    hub.repositories["acme/llama-GGUF"] = {"llama-Q8_0.gguf": GGUF.read_bytes(), "llama-F16.gguf":
                                           (GGUF.parent / "llama-f16.gguf").read_bytes()}
    server = start("--allow-pull", env=hub_env)
    client = ollama.Client(server.url)
    for name in ("acme/llama-GGUF:Q8_0", "hf.co/acme/llama-GGUF:q8_0", "acme/llama-GGUF:F16"):
        assert client.pull(name).status == "success"
        assert client.generate(name, "a", raw=True, options={"num_predict": 1}).done
    listed = client.list().models
    # With the start's own; the second is another name of the first.
    assert len({model.digest for model in listed}) == 3
    assert {"acme/llama-GGUF:Q8_0", "hf.co/acme/llama-GGUF:q8_0", "acme/llama-GGUF:F16"} <= {
        model.model for model in listed}
    snapshot = next((tmp_path / ".cache/huggingface/hub/models--acme--llama-GGUF/snapshots").iterdir())
    assert client.delete("acme/llama-GGUF:F16").status == "success"
    assert [file.name for file in snapshot.iterdir()] == ["llama-Q8_0.gguf"]
    assert client.pull("acme/llama-GGUF").status == "success"  # stands for the same file
    assert client.delete("acme/llama-GGUF").status == "success"
    assert [file.name for file in snapshot.iterdir()] == ["llama-Q8_0.gguf"]
    assert client.delete("hf.co/acme/llama-GGUF:q8_0").status == "success" and not snapshot.exists()


def test_what_could_not_be_served_is_not_downloaded(start, hub, hub_env):
    server = start("--allow-pull", "--model", f"acme/other={GOLDEN / EMBED}", env=hub_env)
    answer = server.post("/api/pull", {"model": "acme/other", "stream": False})
    assert answer.status_code == 400 and "belongs to a model" in answer.json()["error"]
    assert not any("acme/other" in entry[2] for entry in hub.asked("cdn"))


def test_any_name_is_the_model_of_the_route(start):
    server = start("--model", f"embed={GOLDEN / EMBED}", "--model", f"chat={GGUF}", "--accept-any-model",
                   preload=False)
    raw = {"raw": True, "stream": False, "options": {"num_predict": 2, "temperature": 0}, "prompt": "a"}
    for _ in range(2):  # cold, warm
        assert server.post("/api/embed", {"model": "nomic", "input": "a"}).json()["embeddings"]
        got = server.post("/api/generate", {"model": "llama3", **raw})
        assert got.status_code == 200 and got.json()["response"] == \
            server.post("/api/generate", {"model": "chat", **raw}).json()["response"], got.text
        assert server.post("/api/chat", {"model": "llama3:latest"}).json()["done_reason"] == "load"


def test_a_pull_is_admitted_and_bounded(start, hub, hub_env):
    closed = start(env=hub_env)
    for method, path in (("POST", "/api/pull"), ("DELETE", "/api/delete")):
        answer = requests.request(method, closed.url + path, json={"model": "acme/embedder"}, timeout=10)
        assert answer.status_code == 403 and "--allow-pull" in answer.json()["error"]
    keyed = start("--api-key", "user", "--admin-api-key", "admin", env=hub_env)
    body = {"model": "acme/embedder", "stream": False}
    for key, code in (("user", 403), ("admin", 200)):
        answer = keyed.post("/api/pull", body, headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == code, answer.text
    small = start("--allow-pull", "--max-pull-bytes", "1000", env=hub_env)
    answer = small.post("/api/pull", {"model": "acme/other", "stream": False})
    assert answer.status_code == 413 and "--max-pull-bytes" in answer.json()["error"]
    assert not hub.asked("cdn") or all("other" not in entry[2] for entry in hub.asked("cdn"))


@pytest.mark.parametrize("says_sizes", [True, False])
def test_a_pull_is_bounded_by_what_comes(start, tmp_path, hub, hub_env, says_sizes):
    """Whatever the hub's list says; and what came is removed."""
    hub.listed_size, hub.says_sizes = 10, says_sizes
    cache = tmp_path / ".cache/huggingface/hub"
    sizes = [len(data) for data in hub.repositories["acme/other"].values()]
    small = start("--allow-pull", "--max-pull-bytes", str(max(sizes) - 1), env=hub_env)
    answer = small.post("/api/pull", {"model": "acme/other", "stream": False})
    assert answer.status_code == 413 and "--max-pull-bytes" in answer.json()["error"], answer.text
    assert not (cache / "models--acme--other").exists()
    assert small.stop() == 0
    enough = start("--allow-pull", "--max-pull-bytes", str(sum(sizes)), env=hub_env)
    assert enough.post("/api/pull", {"model": "acme/other", "stream": False}).status_code == 200


def test_one_pull_at_a_time_and_a_client_that_leaves_ends_it(start, hub, hub_env):
    hub.rate = 2000  # bytes a second, so that a pull takes far longer than this test
    server = start("--allow-pull", "--shutdown-timeout-s", "1", env=hub_env)
    first = requests.post(server.url + "/api/pull", json={"model": "acme/embedder"}, stream=True, timeout=30)
    lines = first.iter_lines()
    assert json.loads(next(lines)) == {"status": "pulling manifest"}
    second = server.post("/api/pull", {"model": "acme/other"})
    assert second.status_code == 429 and "one at a time" in second.json()["error"]
    first.close()

    def taken():
        answer = server.post("/api/pull", {"model": "acme/gone", "stream": False})
        return answer.status_code == 404

    assert wait_for(taken, 20)
    # As any request, a pull under way keeps the server from ending for that time at most.
    again = requests.post(server.url + "/api/pull", json={"model": "acme/other"}, stream=True, timeout=30)
    lines = again.iter_lines()  # the connection is closed with it
    assert json.loads(next(lines)) == {"status": "pulling manifest"}
    assert server.post("/api/pull", {"model": "acme/embedder"}).status_code == 429
    assert server.stop(60) == 0
    again.close()


def test_facts_of_models_that_are_not_loaded_are_those_of_their_files(start, tmp_path):
    folder = scripted_model.write_weather(tmp_path / "weather")
    server = start("--model", f"weather={folder}", "--model", f"gguf={GGUF}", "--model", f"embed={GOLDEN / EMBED}",
                   preload=False)

    def told(name):
        show = server.post("/api/show", {"model": name}).json()
        listed = next(model for model in server.get("/v1/models").json()["data"] if model["id"] == name)
        return listed["lifecycle"]["state"], show, {key: listed.get(key) for key in ("max_tokens", "context_length", "chat")}

    absent = {name: told(name) for name in ("weather", "gguf", "embed")}
    assert {state for state, _, _ in absent.values()} == {"absent"}
    assert absent["gguf"][1]["details"]["format"] == "gguf"
    assert absent["gguf"][1]["details"]["quantization_level"] == "Q8_0"
    assert absent["weather"][1]["template"] and "tools" in absent["weather"][1]["capabilities"]
    assert absent["embed"][2]["max_tokens"] > 0
    assert absent["embed"][1]["model_info"]["general.parameter_count"] > 0
    for name in ("weather", "gguf"):
        assert server.post("/api/generate", {"model": name}).status_code == 200  # loads it
        state, show, listed = told(name)
        assert state == "ready"
        assert (show["template"], show["model_info"], show["capabilities"]) == (
            absent[name][1]["template"], absent[name][1]["model_info"], absent[name][1]["capabilities"]), name
        assert listed == absent[name][2]
    assert told("gguf")[1]["details"] == absent["gguf"][1]["details"]


def test_the_load_of_a_model_is_told_as_load(start, tmp_path):
    folder = scripted_model.write_weather(tmp_path / "weather")
    server = start("--model", f"weather={folder}", preload=False)
    assert server.post("/api/generate", {"model": "weather", "prompt": "hi", "stream": False}).status_code == 200

    def stages():
        return {stage["stage"]: stage for stage in server.get("/v1/stats").json()["stages"]}

    assert wait_for(lambda: stages()["send"]["count"] == 1)
    assert stages()["load"]["count"] == 1
    assert stages()["load"]["total_s"] > stages()["parse"]["total_s"]
