"""Commands that a running server does the work for, and those a person who comes from Ollama looks for: run, ps, stop,
ls. The model has random weights, each byte is a token."""
import json
import shutil
import signal
import subprocess

import pytest

from conftest import EMBED, GOLDEN, ROOT, Server, binary, clean_environment, run

TINY = ROOT / "tests" / "golden" / "decoders" / "llama"
CHATML = ("{% for message in messages %}<|turn|>{{ message.role }}\n{{ message.content }}<|end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}")
# Letters and a space alone.
LETTERS = [word for token in range(260) if not (97 <= token <= 122 or token == 32)
           for word in ("--logit-bias", f"{token}=-100")]
PLAIN = ("--temperature", "0", "-n", "12", "--ignore-eos", *LETTERS)


def environment():
    kept = clean_environment()
    kept.pop("PENSTOCK_DTYPE", None)
    return kept


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    shutil.copytree(TINY, folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = 2048
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(CHATML)
    return folder


@pytest.fixture(scope="module")
def server_args(folder):
    return "--model", f"tiny={folder}", "--model", f"embed={GOLDEN / EMBED}", "--api-key", "k"


@pytest.fixture(scope="module")
def server_env():
    return environment()


def at(server, command, *args, **more):
    return run(command, "--url", server.url, "--api-key", "k", *args, env=environment(), **more)


def test_a_chat_by_a_server_is_the_one_made_here(server, folder):
    here = run("chat", "-m", folder, *PLAIN, stdin=b"Hi\nAnd then?\n/retry\n", env=environment()).stdout
    there = at(server, "chat", "-m", "tiny", *PLAIN, stdin=b"Hi\nAnd then?\n/retry\n").stdout
    assert there == here and len(here.split(b"\n")) == 4
    assert at(server, "chat", *PLAIN, "-p", "Hi").stdout == here.split(b"\n")[0] + b"\n", "the server's own model"
    system = run("chat", "-m", folder, *PLAIN, "--system", "Be brief.", "-p", "Hi", env=environment()).stdout
    assert at(server, "chat", *PLAIN, "--system", "Be brief.", "-p", "Hi").stdout == system != here


def test_settings_that_are_not_given_are_the_servers(folder):
    """A greedy server: /set goes before it, and what was never set is not sent."""
    greedy = Server("--model", f"tiny={folder}", "--top-k", "1", env=environment())
    try:
        ask = lambda *more: run("chat", "--url", greedy.url, "-n", "12", "--ignore-eos", *more, stdin=b"Hi\n", env=environment())
        assert ask("--seed", "1").stdout == ask("--seed", "2").stdout
        drawn = [run("chat", "--url", greedy.url, "-n", "12", "--ignore-eos", "--seed", seed, env=environment(),
                     stdin=b"/set temperature 2\n/set top-k -1\nHi\n/set\n") for seed in ("1", "2")]
        assert drawn[0].stdout != drawn[1].stdout
        assert b'"temperature":2' in drawn[0].stderr and b"server's" in drawn[0].stderr
        wrong = run("chat", "--url", greedy.url, stdin=b"/set temperature 9\n", env=environment(), check=False)
        assert wrong.returncode == 1 and b"temperature" in wrong.stderr
    finally:
        assert greedy.stop() == 0


def test_a_text_by_a_server_is_the_one_made_here(server, folder):
    here = run("generate", "-m", folder, "-q", *PLAIN, "-p", "Once upon a time", env=environment()).stdout
    there = at(server, "generate", "-m", "tiny", *PLAIN, "-p", "Once upon a time")
    assert there.stdout == here and b"12 of text\n" in there.stderr
    assert at(server, "generate", "-q", "--echo", *PLAIN, stdin=b"Once upon a time\n").stdout == b"Once upon a time" + here
    answer = json.loads(at(server, "generate", "--json", *PLAIN, "-p", "Once upon a time").stdout)
    assert answer["choices"][0]["text"].encode() + b"\n" == here and answer["usage"]["completion_tokens"] == 12
    unbounded = json.loads(at(server, "generate", "--json", "--ignore-eos", "-p", "Once").stdout)
    assert unbounded["usage"]["completion_tokens"] == 256


def test_what_only_a_model_here_takes_is_refused(server):
    for command, flag in (("chat", "--context"), ("generate", "--threads"), ("run", "--cache-type")):
        value = "bf16" if flag == "--cache-type" else "2"
        done = at(server, command, flag, value, check=False)
        assert done.returncode == 2 and flag.encode() in done.stderr and b"with --url" in done.stderr


def test_failures_of_a_server_are_told(server):
    nobody = run("chat", "--url", "http://127.0.0.1:9", "-p", "Hi", env=environment(), check=False)
    assert nobody.returncode == 1 and b"127.0.0.1:9" in nobody.stderr
    unknown = at(server, "chat", "-m", "nope", "-p", "Hi", check=False)
    assert unknown.returncode == 1 and b"nope" in unknown.stderr and b"tiny" in unknown.stderr
    keyless = run("generate", "--url", server.url, "-p", "Hi", env=environment(), check=False)
    assert keyless.returncode == 1 and b"401" in keyless.stderr
    embedder = at(server, "chat", "-m", "embed", "-p", "Hi", check=False)
    assert embedder.returncode == 1 and b"'tiny' does" in embedder.stderr


def test_a_server_that_speaks_tls(folder, tmp_path):
    """A chat comes as a stream, the rest as whole answers; the certificate is checked before anything is sent."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
    secure = Server("--model", f"tiny={folder}", "--tls-cert", cert, "--tls-key", key, "--api-key", "k", env=environment())
    try:
        assert secure.url.startswith("https://")
        here = run("chat", "-m", folder, *PLAIN, stdin=b"Hi\nAnd then?\n", env=environment()).stdout
        for more in (("--ca-cert", cert), ("--insecure",)):
            assert at(secure, "chat", *more, *PLAIN, stdin=b"Hi\nAnd then?\n").stdout == here
            assert at(secure, "generate", "-q", *more, *PLAIN, "-p", "Hi").stdout
            assert names(at(secure, "ps", *more)) == ["tiny"]
        # The certificate is for the address alone.
        by_name = secure.url.replace("127.0.0.1", "localhost")
        for url, more, said in ((secure.url, (), b"certificate"), (by_name, ("--ca-cert", cert), b"ostname mismatch")):
            for command in (("chat", "-p", "Hi"), ("ps",)):
                done = run(*command, "--url", url, "--api-key", "k", *more, env=environment(), check=False)
                assert done.returncode == 1 and said in done.stderr and not done.stdout, done.stderr
    finally:
        assert secure.stop() == 0


def test_ctrl_c_stops_a_reply_of_a_server(server):
    process = subprocess.Popen([binary(), "chat", "--url", server.url, "--api-key", "k", "--ignore-eos", "-n", "1900",
                                "--temperature", "0", *LETTERS, "-p", "Hi"], env=environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    assert process.stdout.read(5)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130


def test_run_is_a_chat_with_the_name_in_front(server, folder):
    here = run("chat", "-m", folder, *PLAIN, "-p", "Hi", env=environment()).stdout
    assert run("run", folder, "Hi", *PLAIN, env=environment()).stdout == here
    assert run("run", *PLAIN, folder, "Hi", env=environment()).stdout == here
    assert run("run", folder, *PLAIN, stdin=b"Hi\n", env=environment()).stdout == here
    assert at(server, "run", "tiny", "Hi", *PLAIN).stdout == here
    twice = run("run", folder, "-m", folder, "Hi", env=environment(), check=False)
    assert twice.returncode == 2 and b"named twice" in twice.stderr
    spare = run("run", folder, "Hi", "there", env=environment(), check=False)
    assert spare.returncode == 2 and b"'there' was not expected" in spare.stderr


def names(done):
    return [line.split()[0] for line in done.stdout.decode().splitlines()[1:]]


def test_ps_lists_what_is_loaded_and_stop_unloads(folder):
    server = Server("--model", f"tiny={folder}", "--model", f"embed={GOLDEN / EMBED}", env=environment())
    try:
        ask = lambda command, *args, **more: run(command, "--url", server.url, *args, env=environment(), **more)
        assert names(ask("ps")) == ["tiny", "embed"]
        assert ask("stop", "tiny").stdout == b"unloaded tiny\n"
        assert names(ask("ps")) == ["embed"] and names(ask("list")) == ["tiny", "embed"]
        assert ask("stop", "embed", "tiny").returncode == 0
        assert names(ask("ps")) == []
        unknown = ask("stop", "nope", check=False)
        assert unknown.returncode == 1 and b"nope" in unknown.stderr
        assert ask("chat", "-m", "tiny", "-n", "2", "-p", "Hi").returncode == 0
        assert names(ask("ps")) == ["tiny"]
    finally:
        assert server.stop() == 0
    assert run("stop", env=environment(), check=False).returncode == 2


def test_stop_without_the_key_of_an_administrator(folder):
    """A model is unloaded by administrators, where they have keys; a user is told so, and it stays."""
    server = Server("--model", f"tiny={folder}", "--admin-api-key", "a", "--api-key", "k", env=environment())
    try:
        ask = lambda command, key, *args, **more: run(command, "--url", server.url, "--api-key", key, *args,
                                                      env=environment(), **more)
        refused = ask("stop", "k", "tiny", check=False)
        assert refused.returncode == 1 and b"key of an administrator" in refused.stderr, refused.stderr
        assert "tiny" in names(ask("ps", "k"))
        refused = ask("stop", "wrong", "tiny", check=False)
        assert refused.returncode == 1 and b"401" in refused.stderr
        ask("stop", "a", "tiny")
        assert names(ask("ps", "k")) == []
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize("typed, meant", [("remove", "rm"), ("download", "pull"), ("status", "ps"), ("rnu", "run"),
                                          ("encode", "embed"), ("serv", "serve")])
def test_a_command_of_another_program_is_told_what_it_is_here(typed, meant):
    done = run(typed, check=False)
    assert done.returncode == 2 and f"did you mean {meant}?".encode() in done.stderr


def test_ls_is_list(tmp_path):
    env = {**environment(), "HF_HUB_CACHE": str(tmp_path)}
    assert run("ls", "--json", env=env).stdout == run("list", "--json", env=env).stdout


@pytest.mark.parametrize("command, name, said", [
    ("embed", "out.parquet", b".parquet files are not written; what is written: JSON lines (.jsonl), .npy and .safetensors"),
    ("embed", "out.npz", b".npz"), ("embed", "out.csv", b".csv"), ("embed", "out.jsonl.gz", b".gz"),
    ("classify", "out.csv", b".csv"), ("rerank", "out.npy", b".npy"), ("tokenize", "out.safetensors", b".safetensors")])
def test_a_format_that_is_not_written_is_refused_by_name(tmp_path, command, name, said):
    more = ["--query", "x"] if command == "rerank" else []
    done = run(command, "--model", GOLDEN / EMBED, "-o", tmp_path / name, *more, stdin=b"x\n", check=False)
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


def test_resume_with_nothing_to_go_on_with_says_so(tmp_path):
    done = run("embed", "--model", GOLDEN / EMBED, "-o", tmp_path / "out.npy", "--resume", stdin=b"x\n")
    assert b"nothing to go on with" in done.stderr and (tmp_path / "out.npy").exists()
