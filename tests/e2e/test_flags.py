"""Where a flag stands, which model is taken, what a tokenizer needs."""
import json
import os
import shutil

import pytest

from conftest import CLASSIFY, EMBED, GOLDEN, RERANK, clean_environment, run

DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("dog\ncat\n")
    return path


def environment(tmp_path, **more):
    """Without anything that names or holds a model."""
    kept = {k: v for k, v in clean_environment().items() if not k.startswith(("HF_", "XDG_"))}
    return {**kept, "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", **more}


# Each command with what it needs besides its file, and the flags that may be given again.
COMMANDS = [("embed", EMBED, []), ("rerank", RERANK, ["--query", "pet"]), ("classify", CLASSIFY, []),
            ("tokenize", EMBED, [])]


@pytest.mark.parametrize("command,model,more", COMMANDS)
def test_a_flag_takes_one_value_wherever_it_stands(command, model, more, texts):
    base = [command, "--model", GOLDEN / model, *more]
    wanted = run(*base, texts).stdout
    assert wanted
    for args in (["--dtype", "f32", texts], ["--dtype=f32", texts], [texts, "--dtype", "f32"],
                 [texts, "--dtype=f32"], ["--dtype", "f32", "--", texts], ["--dtype", "f32", "--int8-keep", "0", texts],
                 ["--int8-keep", "0", texts], ["--int8-keep=0", texts]):
        assert run(*base, *args).stdout == wanted, args
    first = [command, "-m", GOLDEN / model, texts, *more]
    assert run(*first).stdout == wanted
    for args, said in ((["--dtype"], b"--dtype"), (["--dtype", "--quiet", texts], b"--dtype"),
                       (["--dtype", "f32", "--dtype", "f32", texts], b"twice"),
                       (["--model", GOLDEN / model, texts], b"--model")):
        refused = run(*base, *args, check=False)
        assert refused.returncode in (1, 2) and said in refused.stderr, (args, refused.stderr)


@pytest.mark.parametrize("args", [
    ["serve", "--model", "a=x/y", "stray"], ["serve", "--api-key", "k", "stray"],
    ["serve", "--served-model-name", "n", "stray"], ["serve", "--cors-allow-origin", "*", "stray"],
    ["serve", "--bulk-route", "/embed", "stray"], ["inspect", "--dtype", "f32", "stray"],
    ["doctor", "--dtype", "f32", "stray"], ["bench", "http", "--server-flag", "x", "stray"],
    ["bench", "http", "--concurrency", "1", "stray"], ["bench", "http", "--rate", "1", "2"],
    ["lab", "kernels", "--tokens", "16", "32"], ["lab", "batcher", "--producers", "1", "2"],
])
def test_nothing_is_swallowed(args):
    refused = run(*args, check=False)
    assert refused.returncode == 2 and args[-1].encode() in refused.stderr, refused.stderr
    assert b"not expected" in refused.stderr, refused.stderr


@pytest.fixture
def cached(tmp_path):
    """A small model in the place of the default one in the hub's cache."""
    root = tmp_path / ".cache/huggingface/hub" / ("models--" + DEFAULT.replace("/", "--"))
    shutil.copytree(GOLDEN / EMBED, root / "snapshots" / COMMIT)
    (root / "refs").mkdir()
    (root / "refs/main").write_text(COMMIT)
    return root / "snapshots" / COMMIT


def test_the_default_model_in_the_cache(tmp_path, cached, texts):
    env = environment(tmp_path)
    wanted = run("embed", "--model", GOLDEN / EMBED, texts).stdout
    done = run("embed", texts, env=env)
    assert done.stdout == wanted and f"the default, {DEFAULT}".encode() in done.stderr
    assert run("tokenize", texts, env=env).stdout == run("tokenize", "-m", GOLDEN / EMBED, texts).stdout
    shown = json.loads(run("inspect", "--json", env=env).stdout)
    assert shown["name"] == DEFAULT and shown["path"] == str(cached)
    assert run("doctor", "--accuracy-texts", 0, env=env).stderr.count(b"the default,") == 1


def test_the_default_model_where_the_script_puts_it(tmp_path, texts):
    folder = tmp_path / ".cache/penstock/models" / DEFAULT.replace("/", "--")
    shutil.copytree(GOLDEN / EMBED, folder)
    env = environment(tmp_path)
    shown = json.loads(run("inspect", "--json", env=env).stdout)
    assert shown["name"] == DEFAULT and shown["path"] == str(folder)
    other = environment(tmp_path, PENSTOCK_DEFAULT_MODEL=str(GOLDEN / EMBED))
    assert json.loads(run("inspect", "--json", env=other).stdout)["name"] == EMBED
    named = environment(tmp_path, PENSTOCK_MODEL=str(GOLDEN / RERANK))
    assert json.loads(run("inspect", "--json", env=named).stdout)["name"] == RERANK


def test_serve_without_a_model(tmp_path, cached, start):
    server = start("--threads", 1, env=environment(tmp_path, PENSTOCK_MODEL=""), model=False)
    assert next(m["id"] for m in server.get("/v1/models").json()["data"]) == DEFAULT
    for name in (DEFAULT, DEFAULT.split("/")[1]):
        answer = server.post("/v1/embeddings", {"model": name, "input": "dog"})
        assert answer.status_code == 200
    assert any("the default, " + DEFAULT in line for line in server.log)


def test_without_a_model_there_is_an_error_that_says_so(tmp_path, texts):
    env = environment(tmp_path)
    done = run("embed", texts, env=env, check=False)
    assert done.returncode == 1 and DEFAULT.encode() in done.stderr and b"HF_HUB_OFFLINE" in done.stderr
    for command, what in (("rerank", b"reranker"), ("classify", b"classifier")):
        done = run(command, texts, env=env, check=False)
        assert done.returncode == 2 and b"--model is required" in done.stderr and what in done.stderr


def test_tokenize_needs_a_tokenizer_and_nothing_else(tmp_path, texts):
    source = GOLDEN / EMBED
    wanted = run("tokenize", "--model", source, texts).stdout
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(source / "tokenizer.json", alone)
    assert run("tokenize", "--model", alone, texts).stdout == wanted
    assert run("tokenize", "--model", alone / "tokenizer.json", texts).stdout == wanted
    # What would not load is not looked at.
    for name in ("config.json", "modules.json", "model.safetensors"):
        (alone / name).write_text("broken")
    assert run("tokenize", "--model", alone, texts).stdout == wanted
    (alone / "sentence_bert_config.json").write_text('{"do_lower_case": true, "max_seq_length": 4}')
    upper = run("tokenize", "--model", alone, stdin=b"DOG " * 10).stdout
    assert json.loads(upper)["ids"] == json.loads(run("tokenize", "--model", source, stdin=b"dog " * 10).stdout)["ids"]
    prompted = run("tokenize", "--model", source, "--prompt-name", "query", texts).stdout
    shutil.copy(source / "config_sentence_transformers.json", alone)
    assert run("tokenize", "--model", alone, "--prompt-name", "query", texts).stdout == prompted
    (alone / "tokenizer.json").unlink()
    done = run("tokenize", "--model", alone, texts, check=False)
    assert done.returncode == 1 and b"has no tokenizer.json" in done.stderr


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "modules.json",
                                  "sentence_bert_config.json", "1_Pooling/config.json"])
def test_a_fifo_in_the_place_of_a_model_file(name, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / EMBED, folder)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    done = run("embed", "--model", folder, stdin=b"dog", check=False, timeout=10)
    assert done.returncode == 1 and b"is a FIFO, not a regular file" in done.stderr, done.stderr


def test_redis_key(tmp_path, start):
    short = run("serve", "--model", GOLDEN / EMBED, "--redis-key", "short", check=False)
    assert short.returncode == 2 and b"it must have 16 to" in short.stderr
    empty = run("embed", "--model", GOLDEN / EMBED, stdin=b"dog", check=False,
                env=clean_environment(PENSTOCK_REDIS_KEY=""))
    assert empty.returncode == 1 and b"PENSTOCK_REDIS_KEY is set, but empty" in empty.stderr
    file = tmp_path / "key"
    file.write_text("0123456789abcdef\n")
    both = run("embed", "--model", GOLDEN / EMBED, "--redis-key", "x" * 16, "--redis-key-file", file,
               stdin=b"dog", check=False)
    assert both.returncode == 1 and b"either" in both.stderr
    remote = ["--redis-url", "redis://redis.invalid:1"]
    without = run("embed", "--model", GOLDEN / EMBED, *remote, stdin=b"dog")
    assert b"whoever can write there" in without.stderr
    for args in (["--redis-key-file", file], ["--redis-key", "x" * 16]):
        assert b"whoever" not in run("embed", "--model", GOLDEN / EMBED, *remote, *args, stdin=b"dog").stderr
    local = run("embed", "--model", GOLDEN / EMBED, "--redis-url", "redis://127.0.0.1:1", stdin=b"dog")
    assert b"whoever" not in local.stderr
