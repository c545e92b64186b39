"""How a text is sampled, and how long it may be, where a request does not say: by the model's makers, by what they
left out, by flags and files of the server. The model has random weights, each byte is a token."""
import json
import shutil

import pytest

from conftest import ROOT, Server, run

TINY = ROOT / "tests" / "golden" / "decoders" / "llama"
CONTEXT = 2048
TEMPLATE = "{% for message in messages %}<|turn|>{{ message.content }}{% endfor %}"
HELLO = [{"role": "user", "content": "Say hello."}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    shutil.copytree(TINY, folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = CONTEXT
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture
def serve(folder):
    servers = []

    def start(*args, env=None):
        servers.append(Server(*(args or ("--model", f"tiny={folder}")), env=env))
        return servers[-1]

    yield start
    for server in servers:
        assert server.stop() == 0, "".join(server.log)


def chat(server, **body):
    answer = server.post("/v1/chat/completions", {"messages": HELLO, "max_tokens": 20, "ignore_eos": True, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


def text(server, **body):
    return chat(server, **body)["message"]["content"]


def ollama(server, **options):
    answer = server.post("/api/chat", {"model": "tiny", "messages": HELLO, "stream": False, "options": options})
    assert answer.status_code == 200, answer.text
    return answer.json()


# What a model has that says nothing.
STANDARD = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}


def test_a_model_that_says_nothing_has_the_standard_sampling(serve):
    server = serve()
    texts = {seed: text(server, seed=seed) for seed in range(4)}
    assert texts == {seed: text(server, seed=seed, **STANDARD) for seed in texts}
    assert len(set(texts.values())) > 1
    raw = {seed: text(server, seed=seed, temperature=1, top_k=-1, top_p=1, min_p=0) for seed in texts}
    assert raw != texts
    assert ollama(server, seed=3, num_predict=20)["message"]["content"] == ollama(
        server, seed=3, num_predict=20, **STANDARD)["message"]["content"]


def test_the_commands_have_the_same(folder):
    def made(command, seed, *flags):
        return run(command, "-m", folder, "-p", "Say hello.", "-n", "20", "--seed", str(seed), "--ignore-eos", *flags).stdout

    given = [word for key, value in STANDARD.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    for command in ("generate", "chat"):
        texts = [made(command, seed) for seed in range(3)]
        assert texts == [made(command, seed, *given) for seed in range(3)] and len(set(texts)) > 1


def test_makers_who_recommend_something_are_taken_at_their_word(folder, tmp_path, serve):
    shutil.copytree(folder, tmp_path / "made")
    (tmp_path / "made" / "generation_config.json").write_text('{"temperature": 1.5, "max_new_tokens": 9}')
    server = serve("--model", f"tiny={tmp_path / 'made'}")
    for seed in range(3):
        assert text(server, seed=seed) == text(server, seed=seed, temperature=1.5, top_k=-1, top_p=1, min_p=0)
    choice = chat(server, max_tokens=None)
    assert choice["finish_reason"] == "length" and len(choice["message"]["content"].encode()) <= 9 * 3


def greedy(server):
    """The text of temperature 0, which no seed changes."""
    wanted = text(server, temperature=0)
    return all(text(server, seed=seed) == wanted for seed in range(3))


@pytest.mark.parametrize("args, env", [
    (["--temperature", "0"], {}), (["--temperature=tiny=0"], {}), ([], {"PENSTOCK_TEMPERATURE": "0"}),
    (["--temperature", "1.5", "--temperature", "tiny=0"], {}), (["--top-k", "1"], {})])
def test_a_flag_goes_before_the_model_and_a_request_before_the_flag(serve, folder, args, env):
    from conftest import clean_environment
    server = serve("--model", f"tiny={folder}", *args, env=clean_environment(**env))
    assert greedy(server)
    assert ollama(server, seed=1, num_predict=20)["message"]["content"] == ollama(
        server, seed=2, num_predict=20)["message"]["content"]
    assert len({text(server, seed=seed, temperature=1.5, top_k=-1) for seed in range(4)}) > 1


def test_the_file_has_them_by_model(serve, folder, tmp_path):
    (tmp_path / "penstock.toml").write_text(
        f"[models.plain]\nmodel = '{folder}'\n[models.tiny]\nmodel = '{folder}'\ntemperature = 0\n"
        "max-tokens-default = 7\n")
    server = serve("--config", tmp_path / "penstock.toml")
    assert text(server, model="tiny", seed=1) == text(server, model="tiny", seed=2)
    assert len({text(server, model="plain", seed=seed) for seed in range(4)}) > 1
    bounded = server.post("/v1/chat/completions", {"model": "tiny", "messages": HELLO, "ignore_eos": True}).json()
    assert bounded["choices"][0]["finish_reason"] == "length" and bounded["usage"]["completion_tokens"] == 7
    more = server.post("/v1/chat/completions", {"model": "tiny", "messages": HELLO, "ignore_eos": True, "max_tokens": 11})
    assert more.json()["usage"]["completion_tokens"] == 11


def test_a_repository_has_them_too(serve, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "models" / "tiny" / "1")
    (tmp_path / "models" / "tiny" / "model.toml").write_text("temperature = 0\n")
    assert greedy(serve("--repository", tmp_path / "models"))


def test_a_text_that_nobody_bounds_ends(serve, folder):
    server = serve("--model", f"tiny={folder}", "--max-tokens-default", "5", "--context", "128")
    ask = lambda **body: server.post("/v1/chat/completions", {"messages": HELLO, "ignore_eos": True, **body}).json()
    assert ask()["usage"]["completion_tokens"] == 5 and ask()["choices"][0]["finish_reason"] == "length"
    assert ask(max_completion_tokens=12)["usage"]["completion_tokens"] == 12
    assert ask(min_tokens=8)["usage"]["completion_tokens"] == 8
    assert ollama(server, ignore_eos=True)["eval_count"] == 5
    assert ollama(server, ignore_eos=True, num_predict=9)["eval_count"] == 9
    # As many as the context leaves, which the client asks for by this.
    assert ollama(server, ignore_eos=True, num_predict=-1)["eval_count"] > 64


@pytest.mark.parametrize("args, said", [
    (["--temperature", "3"], "'3' is not a number from 0 to 2"), (["--top-p", "tiny=1.5"], "'1.5' is not a number from 0 to 1"),
    (["--top-k", "many"], "'many' is not a number"), (["--max-tokens-default", "-1"], "'-1' is not a number from 0"),
    (["--min-p", "other=0.1"], "names 'other', which is not served")])
def test_what_is_no_setting_is_refused(folder, args, said):
    done = run("serve", "--model", f"tiny={folder}", "--port", "0", *args, check=False)
    assert done.returncode == 2 and said in done.stderr.decode(), done.stderr
