"""Chat templates that a server is told to use, the special tokens that they know, markers of tool calls, and the
least number of tokens; as a client sees them. The model has random weights, and each byte is a token.
"""
import json
import shutil

import pytest

from conftest import run, wait_for
from test_chat import HELLO, TINY, whole

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]


def copy(folder, **tokenizer_config):
    """The tiny model with this tokenizer_config.json."""
    shutil.copytree(TINY, folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = 2048
    (folder / "config.json").write_text(json.dumps(config))
    if tokenizer_config:
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    return folder


def named(**templates):
    return [{"name": name, "template": text} for name, text in templates.items()]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    copy(folder / "several", chat_template=named(default="D", tool_use="T{{ tools | length }}", rag="R{# tools #}"))
    copy(folder / "bare")
    (folder / "own.jinja").write_text("O {{ messages[-1].content }}")
    return folder


def rendered(server, model, tools=None):
    answer = server.post("/apply-template", {"messages": HELLO, "model": model, "tools": tools or []})
    assert answer.status_code == 200, answer.text
    return answer.json()["prompt"]


def test_each_model_has_the_template_it_was_given(models, start):
    server = start("--model", f"one={models / 'several'}", "--model", f"two={models / 'several'}", "--model",
                   f"three={models / 'bare'}", "--chat-template", "two=rag", "--chat-template",
                   f"three={models / 'own.jinja'}")
    assert rendered(server, "one") == "D"
    assert rendered(server, "one", TOOLS) == "T1"
    assert rendered(server, "two") == rendered(server, "two", TOOLS) == "R"
    assert rendered(server, "three") == "O Say hello."
    # Tools do not choose another template: without a place for them they are refused.
    refused = server.post("/apply-template", {"messages": HELLO, "model": "three", "tools": TOOLS})
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "tools"
    reply = whole(server, model="three", messages=HELLO, max_tokens=3, ignore_eos=True)
    assert reply["usage"]["prompt_tokens"] == len("O Say hello.")
    assert {model["id"]: model["chat"] for model in server.get("/v1/models").json()["data"]}["three"] is True


def test_a_template_for_all_from_the_file_of_settings(models, start, tmp_path):
    file = tmp_path / "penstock.toml"
    file.write_text(f"""chat-template = "{models / 'own.jinja'}"
[models.a]
model = "{models / 'several'}"
chat-template = "rag"
[models.b]
model = "{models / 'several'}"
""")
    server = start("--config", file, model=False)
    assert rendered(server, "a") == "R" and rendered(server, "b") == "O Say hello."


def test_mistakes_with_templates_are_named(models, start, tmp_path):
    server = start("--model", f"bare={models / 'bare'}")
    refused = server.post("/v1/chat/completions", {"messages": HELLO})
    assert refused.status_code == 400 and "--chat-template" in refused.json()["error"]["message"]
    broken = tmp_path / "broken.jinja"
    broken.write_text("{% if %}")
    for given, words in (("rga", ["--chat-template rga", "default, rag, tool_use"]), (broken, ["broken.jinja", "line 1"]),
                         ("other=rag", ["--chat-template names 'other'"])):
        done = run("serve", "--preload", "--model", f"m={models / 'several'}", "--port", "0", "--chat-template", given,
                   check=False, timeout=60)
        assert done.returncode != 0
        for word in words:
            assert word in done.stderr.decode(), (given, done.stderr)


def test_special_tokens_are_those_of_the_tokenizers_files(start, tmp_path):
    template = "[{{ bos_token }}|{{ eos_token }}|{{ unk_token }}]"
    said = copy(tmp_path / "said", chat_template=template, bos_token={"content": "<|turn|>"}, eos_token="<|other|>")
    without = copy(tmp_path / "without", chat_template=template, bos_token=None)
    mapped = copy(tmp_path / "mapped", chat_template=template)
    (mapped / "special_tokens_map.json").write_text(json.dumps({"bos_token": "B", "unk_token": {"content": "U"}}))
    server = start("--model", f"said={said}", "--model", f"without={without}", "--model", f"mapped={mapped}")
    assert rendered(server, "said") == "[<|turn|>|<|other|>|]"
    assert rendered(server, "without") == "[|<|end|>|]", "by the ids what the files do not say"
    assert rendered(server, "mapped") == "[B|<|end|>|U]"


def test_a_marker_is_text_at_its_place(start, tmp_path):
    folder = copy(tmp_path / "tools", chat_template='{# <tool_call> "arguments" #}Say')
    text = (folder / "tokenizer.json").read_text()
    assert "<|turn|>" in text
    (folder / "tokenizer.json").write_text(text.replace("<|turn|>", "</tool_call>"))
    server = start("--model", f"tools={folder}")
    marker = server.post("/tokenize", {"inputs": "</tool_call>", "add_special_tokens": False}).json()[0][0]
    assert marker["special"] is True
    # The ends of calls and nothing else: text. (What begins as a call would be held to be one.)
    body = {"messages": HELLO, "tools": TOOLS, "temperature": 0, "max_tokens": 3, "logit_bias": {str(marker["id"]): 100}}
    def content(**more):
        return whole(server, **body, **more)["choices"][0]["message"]["content"]
    assert content() == "</tool_call>" * 3
    assert content(stop="call></tool") == "</tool_"
    assert content(stop="l></tool_call></t") == "</tool_cal"
    # Where a reply is not read for calls, special tokens stay out of it.
    plain = whole(server, "/v1/completions", prompt="x", max_tokens=3, temperature=0, logit_bias=body["logit_bias"])
    assert plain["choices"][0]["text"] == ""


def test_the_first_tokens_end_nothing(start, models):
    server = start("--model", f"bare={models / 'bare'}", "--chat-template", models / "own.jinja")
    end = server.post("/tokenize", {"inputs": "<|end|>", "add_special_tokens": False}).json()[0][0]["id"]
    ends = {"temperature": 0, "logit_bias": {str(end): 100}}
    for path, asked in (("/v1/completions", {"prompt": "x"}), ("/v1/chat/completions", {"messages": HELLO})):
        at_once = whole(server, path, **asked, **ends)
        assert at_once["usage"]["completion_tokens"] == 1
        later = whole(server, path, **asked, **ends, min_tokens=7)
        assert later["usage"]["completion_tokens"] == 8 and later["choices"][0]["finish_reason"] == "stop"
    letters = {"prompt": "x", "temperature": 0, "logit_bias": {"97": 100}, "stop": "aa", "max_tokens": 12}
    assert whole(server, "/v1/completions", **letters)["choices"][0]["text"] == ""
    assert whole(server, "/v1/completions", **letters, min_tokens=5)["choices"][0]["text"] == "aaaa"
    told = server.post("/v1/completions", {"prompt": "x", "min_tokens": 20})
    assert told.status_code == 400 and told.json()["error"]["param"] == "min_tokens"


def test_the_first_tokens_end_nothing_on_the_command_line():
    args = ("generate", "-m", TINY, "-p", "x", "--temperature", "0", "--logit-bias", "97=100", "--stop", "a", "--json",
            "-n", "9")
    assert json.loads(run(*args).stdout)["text"] == ""
    assert json.loads(run(*args, "--min-tokens", "4").stdout)["text"] == "aaaa"


def test_statistics_of_a_model_that_writes(start, models):
    # Guesses are tried where measured times say that they pay, and their rows count as tokens.
    server = start("--model", f"bare={models / 'bare'}", "--no-speculation")
    for _ in range(2):
        whole(server, "/v1/completions", prompt="a" * 99, max_tokens=9, ignore_eos=True, add_special_tokens=False)
    assert wait_for(lambda: server.get("/v1/stats").json()["requests"]["count"] == 2)
    stats = server.get("/v1/stats").json()
    model = stats["models"][0]
    text = model["text"]
    assert text["running"] == text["waiting"] == 0
    assert text["generated_tokens"] == model["rows"] == 18 and text["cached_tokens"] == 96
    assert text["prompt_tokens"] == 99 + 3 and model["tokens"] == 99 + 3 + 2 * 8
    # A step for each token; a prompt takes more than one where the machine is busy.
    assert 18 <= model["batches"] <= 24 and model["busy_percent"] > 0
    assert text["generated_tokens_per_s"] == pytest.approx(18 / stats["window_s"], rel=1e-3)
    assert 0 < text["inter_token_mean_ms"] < text["first_token_mean_ms"] * 1000
    kv = text["kv"]
    assert kv["blocks_used"] == 0 and 3 <= kv["blocks_cached"] < kv["blocks"]
    assert kv["bytes_cached"] * kv["blocks"] == kv["bytes"] * kv["blocks_cached"]
    assert server.post("/v1/stats/reset").status_code == 200
    assert server.get("/v1/stats").json()["models"][0]["text"]["generated_tokens"] == 0
