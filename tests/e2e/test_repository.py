"""Folders of models with versions: the highest good one serves, and changes without a request lost."""
import json
import os
import shutil
import threading
import time

import pytest
import requests

from conftest import EMBED, GOLDEN, RERANK, Server, clean_environment, model_args, run, wait_for

OTHER = "mpnet_mean_normalize"
DECODERS = GOLDEN.parent / "decoders"
POLL = ("--repository-poll-s", "1")


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


def put(repository, name, version, model=EMBED, **files):
    """Copies a golden model there; `files` replace or add some."""
    folder = repository / name / str(version)
    source = model if os.path.isabs(model) else GOLDEN / model
    shutil.copytree(source, folder)
    for file, content in files.items():
        (folder / file.replace("__", ".")).write_text(content)
    return folder


def cut(folder):
    """As a copy that was broken off."""
    file = folder / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[:len(data) // 2])


def turn_weights(folder):
    """Turns the sign of every fourth weight: the same architecture, and other texts."""
    file = folder / "model.safetensors"
    data = bytearray(file.read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    for at in range(begin + 3, len(data), 8):  # they are f16
        data[at] ^= 0x80
    file.write_bytes(data)


def lifecycle(server, name="a"):
    models = server.get("/v1/models").json()["data"]
    return next((model["lifecycle"] for model in models if model["id"] == name), None)


def wait_until(condition, what, timeout=30):
    assert wait_for(condition, timeout), what()


def wait_for_version(server, version, name="a"):
    wait_until(lambda: (lifecycle(server, name) or {}).get("version") == version,
               lambda: (lifecycle(server, name), server.log[-20:]))


def wait_for_refusal(server, version, name="a"):
    wait_until(lambda: (lifecycle(server, name) or {}).get("refused_version", {}).get("version") == version,
               lambda: (lifecycle(server, name), server.log[-20:]))
    return lifecycle(server, name)["refused_version"]["error"]


def vector(server, model="a", post=requests.post):
    answer = post(server.url + "/v1/embeddings", json={"model": model, "input": "hello"}, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"][0]["embedding"]


@pytest.fixture(scope="module")
def vectors():
    """What each model gives."""
    server = Server(*model_args(("one", EMBED), ("two", OTHER)))
    yield {name: vector(server, name) for name in ("one", "two")}
    server.stop()


class Clients:
    """Ask without pause, each on a connection of its own, until told to stop."""

    def __init__(self, ask, count=6):
        self.ask, self.over = ask, threading.Event()
        self.answers = [[] for _ in range(count)]
        self.failed = []
        self.threads = [threading.Thread(target=self._run, args=(answers,), daemon=True)
                        for answers in self.answers]
        for thread in self.threads:
            thread.start()

    def _run(self, answers):
        with requests.Session() as session:
            while not self.over.is_set():
                try:
                    answers.append(self.ask(session.post))
                except Exception as error:  # any of them is a request lost
                    self.failed.append(repr(error))
                    return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()

    def go_on(self):
        """Until each has had two more answers."""
        counts = [len(answers) for answers in self.answers]
        wait_until(lambda: self.failed or all(len(answers) > count + 2
                                              for answers, count in zip(self.answers, counts)),
                   lambda: (counts, self.answers))

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        assert not self.failed, self.failed[:3]
        return self.answers


def changes(answers):
    """The answers of one client, without repetitions."""
    return [answer for i, answer in enumerate(answers) if i == 0 or answer != answers[i - 1]]


def test_versions_change_and_no_request_is_lost(repository, start, vectors):
    put(repository, "a", 1)
    server = start("--repository", repository, *POLL, model=False)
    assert lifecycle(server)["version"] == 1
    with Clients(lambda post: vector(server, post=post)) as clients:
        put(repository, "a", 2, OTHER)
        wait_for_version(server, 2)
        shutil.rmtree(repository / "a" / "2")
        wait_for_version(server, 1)
        clients.go_on()
    for answers in clients.stop():
        # At one moment a client, and back.
        assert changes(answers) == [vectors["one"], vectors["two"], vectors["one"]]
    log = "".join(server.log)
    assert "model 'a': version 2 serves in place of version 1" in log
    assert "model 'a': version 1 serves in place of version 2" in log
    metrics = server.metrics()
    assert metrics['penstock_model_loads_total{model="a"}'] == 3
    assert metrics['penstock_model_loaded{model="a"}'] == 1


def test_texts_end_with_the_version_they_began_with(repository, start):
    put(repository, "a", 1, str(DECODERS / "llama"))
    server = start("--repository", repository, *POLL, model=False)
    ask = {"model": "a", "prompt": "The quick brown fox", "max_tokens": 24, "temperature": 0}

    def text(post):
        answer = post(server.url + "/v1/completions", json=ask, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"][0]["text"]

    with Clients(text, count=3) as clients:
        other = put(repository, "a", 2, str(DECODERS / "llama"))
        turn_weights(other)
        wait_for_version(server, 2)
        clients.go_on()
    old = new = None
    for answers in clients.stop():
        seen = changes(answers)
        assert len(seen) == 2
        assert (old, new) in ((None, None), tuple(seen))
        old, new = seen


def test_broken_versions_are_reported_and_the_old_one_stays(repository, start, vectors):
    put(repository, "a", 1)
    server = start("--repository", repository, *POLL, model=False)
    clients = Clients(lambda post: vector(server, post=post), count=2)
    with clients:
        check_broken_versions(repository, server, vectors)
        clients.go_on()
    for answers in clients.stop():
        assert changes(answers) == [vectors["one"], vectors["two"]]


def check_broken_versions(repository, server, vectors):
    cut(put(repository, "a", 2, OTHER))
    assert "model.safetensors" in wait_for_refusal(server, 2)
    # A model that does not give its known answers.
    wrong = json.dumps({"inputs": ["hello"], "embeddings": [vectors["one"]]})
    put(repository, "a", 3, OTHER, known_answers__json=wrong)
    assert "the cosine" in wait_for_refusal(server, 3)
    time.sleep(2.5)  # polls that try neither again
    assert lifecycle(server)["version"] == 1 and lifecycle(server)["loads"] == 1
    assert server.get("/readyz").status_code == 200
    log = "".join(server.log)
    assert log.count("version 2 is not taken") == 1 and log.count("version 3 is not taken") == 1, log
    # It is repaired.
    right = json.dumps({"inputs": ["hello"], "embeddings": [vectors["two"]]})
    (repository / "a" / "3" / "known_answers.json").write_text(right)
    wait_for_version(server, 3)
    assert "refused_version" not in lifecycle(server)


def test_after_a_restart_the_last_good_version_serves(repository, start, vectors):
    put(repository, "a", 1)
    cut(put(repository, "a", 2, OTHER))
    put(repository, "broken", 1, config__json='{"model_type": "nonsense"}')
    for preload in (True, False):
        server = start("--repository", repository, *POLL, model=False, preload=preload)
        assert vector(server) == vectors["one"]
        assert lifecycle(server)["version"] == 1
        assert "model.safetensors" in wait_for_refusal(server, 2)
        assert server.get("/readyz").status_code == 200
        assert "model 'broken': version 1 is not taken" in "".join(server.log)
        server.stop()


def test_models_come_and_go(repository, start, vectors):
    server = start("--repository", repository, *POLL, model=False, preload=False)
    assert server.get("/readyz").status_code == 503
    assert server.post("/v1/embeddings", {"model": "a", "input": "x"}).status_code == 404
    put(repository, "a", 1)
    put(repository, "b", 7, RERANK)
    wait_for_version(server, 7, "b")
    wait_until(lambda: lifecycle(server), lambda: server.log)
    assert server.get("/readyz").status_code == 200
    assert vector(server) == vectors["one"]
    assert lifecycle(server, "b")["state"] == "absent"
    # A version of a model that is not loaded is checked, and unloaded again.
    put(repository, "b", 8, RERANK)
    wait_for_version(server, 8, "b")
    wait_until(lambda: lifecycle(server, "b")["state"] == "absent", lambda: lifecycle(server, "b"))
    assert server.post("/v1/rerank", {"query": "a", "documents": ["b"]}).status_code == 200
    shutil.rmtree(repository / "a")
    wait_until(lambda: lifecycle(server) is None, lambda: server.log)
    refused = server.post("/v1/embeddings", {"model": "a", "input": "x"})
    assert refused.status_code == 404 and "served: b" in refused.text


def test_a_file_of_settings(repository, start):
    put(repository, "a", 1)
    settings = repository / "a" / "model.toml"
    settings.write_text('dtype = "int8"\nint8-keep = ["0", "ff-out"]\nkeep-alive = "1h"\n'
                        'aliases = ["also"]\npin = true\npreload = true\n')
    server = start("--repository", repository, *POLL, model=False, preload=False)
    model = server.get("/v1/models/also").json()
    assert model["dtype"] == "int8" and model["lifecycle"]["state"] == "ready"
    assert model["lifecycle"]["keep_alive_s"] == 3600 and model["lifecycle"]["pinned"]
    # Other settings are taken as another version is.
    settings.write_text('dtype = "f32"\npreload = true\n')
    wait_until(lambda: server.get("/v1/models/a").json()["dtype"] == "float32", lambda: server.log)
    assert server.get("/v1/models/also").status_code == 404
    for text, says in (("dtyp = 'f32'", "model.toml:1: unknown key 'dtyp'; known: task, context, max-batch-size, dtype, "),
                       ("dtype = 'f23'", "'f23'"), ("[a]\nb = 1", "has keys and no tables"),
                       ("pin = 'perhaps'", "true or false"), ("=", "model.toml:1"),
                       ("# " + "x" * 70000, "model.toml")):
        settings.write_text(text)
        wait_until(lambda: says in (lifecycle(server).get("refused_version") or {"error": ""})["error"],
                   lambda: (says, lifecycle(server)))
    assert lifecycle(server)["version"] == 1


def test_what_is_no_model_keeps_no_other_out(repository, tmp_path, start):
    put(repository, "good", 1)
    for name in ("a\x1b[31mb", "x" * 201, "a,b", "a=b"):
        put(repository, name, 1)
    put(repository, "old", "01")
    outside = tmp_path / "outside"
    shutil.copytree(GOLDEN / EMBED, outside)
    (repository / "good" / "2").symlink_to(outside)
    (repository / "linked").symlink_to(tmp_path)
    server = start("--repository", repository, *POLL, model=False)
    assert [model["id"] for model in server.get("/v1/models").json()["data"]] == ["good"]
    assert lifecycle(server, "good")["version"] == 1
    log = "".join(server.log)
    assert log.count("is left out") == 7 and "\x1b[31m" not in log, log
    assert "the link leads out of the repository" in wait_for_refusal(server, 2, "good")
    time.sleep(2)  # polls that do not say it again
    assert "".join(server.log).count("is left out") == 7


def test_beside_other_models(repository, tmp_path, start):
    put(repository, "a", 1)
    server = start("--model", f"b={GOLDEN / EMBED}", "--repository", repository, model=False)
    assert [model["id"] for model in server.get("/v1/models").json()["data"]] == ["b", "a"]
    assert "version" not in lifecycle(server, "b")
    assert vector(server, "a") == vector(server, "b")
    clash = run("serve", "--port", "0", "--model", f"a={GOLDEN / EMBED}", "--repository", repository, check=False)
    said = clash.stderr.decode()
    assert clash.returncode == 2 and "two models are named 'a'" in said
    assert str(GOLDEN / EMBED) in said and str(repository / "a" / "1") in said
    second = tmp_path / "second"
    put(second, "a", 1)
    both = run("serve", "--port", "0", "--repository", repository, "--repository", second, check=False)
    said = both.stderr.decode()
    assert both.returncode == 2 and f"two models are named 'a': in {repository} and {second}" in said
    missing = run("serve", "--port", "0", "--repository", tmp_path / "none", check=False)
    assert missing.returncode == 2 and "none is not a folder" in missing.stderr.decode()


def test_as_a_key_of_the_file(repository, tmp_path, start):
    put(repository, "a", 1)
    config = tmp_path / "penstock.toml"
    config.write_text(f"[serve]\nrepository = ['{repository}']\nrepository-poll-s = 0\n")
    server = start("--config", config, model=False)
    put(repository, "a", 2)
    time.sleep(2.5)  # longer than a poll would take to find it
    assert lifecycle(server)["version"] == 1
    shown = run("serve", "--config", config, "--print-config").stdout.decode()
    assert "repository-poll-s = 0" in shown and str(repository) in shown


def test_the_end_in_the_middle_of_a_load(repository):
    put(repository, "a", 1)
    server = Server("--repository", repository, *POLL, env=clean_environment())
    put(repository, "a", 2, OTHER)
    time.sleep(1.5)  # until a poll has begun the load
    assert server.stop() == 0, "".join(server.log)
