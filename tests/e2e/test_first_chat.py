"""What a stranger reads first: the README's chats with the demonstration model, ten times each, as they are printed."""
import concurrent.futures
import json
import os
import re
import shlex

import pytest
import requests

from conftest import ROOT, clean_environment, run

pytestmark = pytest.mark.skipif("PENSTOCK_SMOLLM2" not in os.environ, reason="NO SMOLLM2: set PENSTOCK_SMOLLM2")
README = (ROOT / "README.md").read_text()
NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
SEEDS = range(10)
# A seed may draw an odd answer, but nearly all are to be right, and every one is to end.
RIGHT_MIN = 9


def environment():
    kept = clean_environment()
    kept.pop("PENSTOCK_DTYPE", None)
    return kept


def model():
    return os.environ["PENSTOCK_SMOLLM2"]


@pytest.fixture(scope="module")
def server_args():
    return "--model", f"{NAME},{NAME.split('/')[1]}={model()}"


@pytest.fixture(scope="module")
def server_env():
    return environment()


def readme_request():
    """The body of the README's request for a chat."""
    block = next(body for body in re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
                 if "/v1/chat/completions" in body)
    words = shlex.split(block.replace("\\\n", " "))
    return json.loads(words[words.index("-d") + 1])


def is_sense(text):
    return bool(re.match(r"Gravity is ", text)) and bool(re.search(r"force|mass|attract|spacetime", text))


def test_the_readmes_chat(server):
    body = readme_request()
    assert not {"temperature", "max_tokens", "max_completion_tokens", "top_p"} & set(body), "as few words as that"

    def ask(seed):
        answer = requests.post(server.url + "/v1/chat/completions", json={**body, "stream": False, "seed": seed}, timeout=300)
        assert answer.status_code == 200, answer.text
        return answer.json()

    with concurrent.futures.ThreadPoolExecutor(len(SEEDS)) as pool:
        answers = list(pool.map(ask, SEEDS))
    texts = [answer["choices"][0]["message"]["content"] for answer in answers]
    assert sum(map(is_sense, texts)) >= RIGHT_MIN, texts
    # None goes on for ever, and where one is cut it says so.
    for answer in answers:
        ended, tokens = answer["choices"][0]["finish_reason"], answer["usage"]["completion_tokens"]
        assert (ended == "stop" and tokens <= 512) or (ended == "length" and tokens == 512)
    assert sum(answer["choices"][0]["finish_reason"] == "stop" for answer in answers) >= RIGHT_MIN, texts


def test_a_chat_through_a_pipe_ends():
    """echo hi | penstock chat"""
    for seed in SEEDS:
        done = run("chat", "-m", model(), "--seed", str(seed), "--verbose", stdin=b"hi\n", env=environment(), timeout=300)
        tokens = int(re.search(rb"\[(\d+) token", done.stderr)[1])
        assert 1 <= tokens <= 512
        assert re.search(rb"(?i)hello|hi|help|assist", done.stdout), done.stdout


def test_the_readmes_run():
    """penstock run, with the question behind it."""
    question = re.search(r"^build/penstock run \./model\.gguf '([^']*)'", README, re.MULTILINE)[1]
    texts = [run("run", model(), question, "--seed", str(seed), env=environment(), timeout=300).stdout.decode()
             for seed in SEEDS]
    assert sum(map(is_sense, texts)) >= RIGHT_MIN, texts


def test_the_readmes_text():
    """penstock generate -p 'The capital of France is' -n 32"""
    assert "-p 'The capital of France is' -n 32" in README
    texts = [run("generate", "-m", model(), "-p", "The capital of France is", "-n", "32", "-q", "--seed", str(seed),
                 env=environment()).stdout for seed in SEEDS]
    assert sum(b"Paris" in text for text in texts) >= RIGHT_MIN, texts


def test_the_page_and_ollama_have_the_same(server):
    """They give what the server takes by itself."""
    for seed in (0, 1):
        ask = {"messages": [{"role": "user", "content": "What is gravity?"}]}
        plain = server.post("/v1/chat/completions", {**ask, "seed": seed, "max_tokens": 12}).json()["choices"][0]["message"]["content"]
        given = server.post("/v1/chat/completions", {**ask, "seed": seed, "temperature": 0.2, "top_p": 0.9,
                                                     "max_tokens": 12}).json()
        assert given["choices"][0]["message"]["content"] == plain
        other = server.post("/api/chat", {**ask, "model": NAME, "stream": False, "options": {"seed": seed, "num_predict": 12}}).json()
        assert other["message"]["content"] == plain
