"""Models that come and go: loaded by the first request, unloaded when idle, within one budget."""
import concurrent.futures
import json
import re
import time

import pytest
import requests

from conftest import ALL_MODELS, EMBED, GOLDEN, RERANK, Server, clean_environment, model_args, run, wait_for


def models(server):
    return {model["id"]: {**model, **model["lifecycle"]} for model in server.get("/v1/models").json()["data"]}


def wait_for_state(server, name, state, timeout=10):
    assert wait_for(lambda: models(server)[name]["state"] == state, timeout), models(server)[name]


def embed(server, model="embed", **more):
    return server.post("/v1/embeddings", {"model": model, "input": "hello", **more})


def test_nothing_is_loaded_before_it_is_needed(start):
    server = start(*model_args(*ALL_MODELS), preload=False)
    assert server.get("/readyz").status_code == 200
    assert {model["state"] for model in models(server).values()} == {"absent"}
    assert {model["task"] for model in models(server).values()} == {"embedding", "reranking", "classification"}
    assert server.get("/api/ps").json() == {"models": []}
    answer = embed(server)
    assert answer.status_code == 200, answer.text
    assert {name: model["state"] for name, model in models(server).items()} == {
        "embed": "ready", "rerank": "absent", "classify": "absent"}
    assert [model["name"] for model in server.get("/api/ps").json()["models"]] == ["embed"]
    # Without a name the model that does it.
    assert server.post("/rerank", {"query": "a", "texts": ["b"]}).status_code == 200
    assert models(server)["rerank"]["state"] == "ready"
    # What a model does not do is told without loading it.
    refused = server.post("/v1/chat/completions", {"model": "classify", "messages": [{"role": "user", "content": "a"}]})
    assert refused.status_code == 400 and "generates no text" in refused.text
    assert models(server)["classify"]["state"] == "absent"


def test_many_callers_share_one_load(start):
    server = start(preload=False)
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda _: embed(server), range(32)))
    assert [answer.status_code for answer in answers] == [200] * 32
    assert models(server)["embed"]["loads"] == 1


def test_two_names_of_one_model_are_one_load(start, tmp_path):
    link = tmp_path / "elsewhere"
    link.symlink_to(GOLDEN / EMBED)
    server = start("--model", f"a={GOLDEN / EMBED}", "--model", f"b={link}",
                   "--model", f"c={link}", "--dtype", "c=f32", "--dtype", "bf16", preload=False)
    vectors = [embed(server, name).json()["data"] for name in ("a", "b")]
    assert vectors[0] == vectors[1]
    assert embed(server, "c").status_code == 200
    assert {name: (model["aliases"], model["loads"]) for name, model in models(server).items()} == {
        "a": (["b"], 1), "c": ([], 1)}


def test_the_task_of_a_model_is_said_or_refused(start):
    # Not on this machine: what it does is known all the same, and it is not asked for.
    server = start(*model_args(("embed", EMBED)), "--model", "far=nobody/reranker", "--task", "far=rerank", "--no-auto-pull",
                   preload=False)
    assert models(server)["far"]["task"] == "reranking"
    assert server.post("/v1/embeddings", {"input": "a"}).status_code == 200
    assert models(server)["far"]["state"] == "absent"
    refused = server.post("/v1/embeddings", {"model": "far", "input": "a"})
    assert refused.status_code == 422 and "'far' is for reranking" in refused.text, refused.text
    refused = server.post("/v1/chat/completions", {"model": "far", "messages": [{"role": "user", "content": "a"}]})
    assert refused.status_code == 400 and "generates no text" in refused.text, refused.text
    assert models(server)["far"]["state"] == "absent"
    for task, message in (("rerank", b"its task is embedding, not reranking"),
                          ("sing", b"known: embedding, reranking")):
        wrong = run("serve", *model_args(("embed", EMBED)), "--task", task, check=False)
        assert wrong.returncode != 0 and message in wrong.stderr, wrong.stderr


def test_every_route_waits_for_its_model(start):
    server = start(*model_args(*ALL_MODELS), "--keep-alive", "0", "--check-interval-s", "1", preload=False)
    calls = [
        ("/v1/embeddings", {"model": "embed", "input": "a"}), ("/embed_all", {"inputs": "a"}),
        ("/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b"]}}),
        ("/tokenize", {"inputs": "a"}), ("/decode", {"ids": [5]}),
        ("/v1/rerank", {"model": "rerank", "query": "a", "documents": ["b"]}),
        ("/v1/classify", {"model": "classify", "input": "a"}),
    ]
    for path, body in calls:
        answer = server.post(path, body)
        assert answer.status_code == 200, (path, answer.text)
    lines = server.post("/v1/embeddings", {"model": "embed", "input": ["a", "b"]},
                        headers={"Accept": "application/x-ndjson"})
    assert lines.status_code == 200 and len(lines.text.splitlines()) == 3
    wait_for_state(server, "embed", "absent")


def test_idle_models_leave_and_come_again(start):
    server = start(*model_args(*ALL_MODELS), "--keep-alive", "1", "--keep-alive", "rerank=-1", "--pin-model",
                   "classify", "--check-interval-s", "1")
    first = embed(server).json()["data"]
    wait_for_state(server, "embed", "absent")
    assert models(server)["rerank"]["state"] == "ready"
    assert models(server)["classify"]["state"] == "ready" and models(server)["classify"]["pinned"]
    assert embed(server).json()["data"] == first  # to the bit
    assert models(server)["embed"]["loads"] == 2
    log = "".join(server.log)
    assert re.search(r"unloaded embed: idle for \d+ s; [\d.]+ MB freed", log), log


def test_a_request_says_how_long_its_model_stays(start):
    server = start(preload=False)
    for how in ({"keep_alive": 0}, {"keep_alive": "0s"}):
        assert embed(server, **how).status_code == 200
        wait_for_state(server, "embed", "absent")
    answer = server.post("/embed", {"inputs": "a"}, headers={"X-Penstock-Keep-Alive": "0"})
    assert answer.status_code == 200
    wait_for_state(server, "embed", "absent")
    assert embed(server, keep_alive="10m").status_code == 200
    assert models(server)["embed"]["keep_alive_s"] == 600
    assert 590 < models(server)["embed"]["unload_in_s"] <= 600
    assert embed(server, keep_alive=-1).status_code == 200
    assert models(server)["embed"]["keep_alive_s"] == -1
    refused = embed(server, keep_alive="soon")
    assert refused.status_code == 400 and "keep_alive" in refused.text
    refused = server.post("/embed", {"inputs": "a"}, headers={"X-Penstock-Keep-Alive": "soon"})
    assert refused.status_code == 400 and "X-Penstock-Keep-Alive" in refused.text


def test_others_than_administrators_keep_a_model_within_bounds(start):
    """Where administrators have keys; else each request of others would wait for a load."""
    server = start("--api-key", "user", "--admin-api-key", "admin")
    bearer = lambda key: {"Authorization": f"Bearer {key}"}

    def kept(key, headers=None, **more):
        if headers is None:
            headers = {}
        answer = server.post("/embed", {"inputs": "a", **more}, headers={**bearer(key), **headers})
        assert answer.status_code == 200
        lifecycle = server.get("/v1/models", headers=bearer(key)).json()["data"][0]["lifecycle"]
        return lifecycle["state"], lifecycle["keep_alive_s"]
    assert kept("user", keep_alive=0) == ("ready", 60)
    assert kept("user", {"X-Penstock-Keep-Alive": "0"}) == ("ready", 60)
    assert kept("user", keep_alive=-1) == ("ready", 300)
    assert kept("user", keep_alive="2m") == ("ready", 120)
    time.sleep(0.2)  # longer than a model stays that is not kept
    assert kept("user") == ("ready", 120)
    assert kept("admin", keep_alive=-1) == ("ready", -1)
    for path, body in (("/api/embed", {"model": "embed", "input": [], "keep_alive": 0}),
                       ("/api/generate", {"model": "embed", "keep_alive": 0})):
        refused = server.post(path, body, headers=bearer("user"))
        assert refused.status_code in (400, 403), refused.text
    refused = server.post("/api/embed", {"model": "embed", "input": [], "keep_alive": 0}, headers=bearer("user"))
    assert refused.status_code == 403 and "key of an administrator" in refused.text
    assert kept("user") == ("ready", -1)
    answer = server.post("/api/embed", {"model": "embed", "input": [], "keep_alive": 0}, headers=bearer("admin"))
    assert answer.status_code == 200
    assert server.get("/api/ps", headers=bearer("user")).json()["models"] == []


def test_administrators_load_unload_and_pin(start):
    server = start("--admin-api-key", "boss", "--api-key", "user", preload=False)
    boss = {"Authorization": "Bearer boss"}
    assert server.post("/admin/models/load", {"model": "embed"},
                       headers={"Authorization": "Bearer user"}).status_code == 403

    def act(what, **body):
        answer = server.post(f"/admin/models/{what}", {"model": "embed", **body}, headers=boss)
        assert answer.status_code == 200, answer.text
        return answer.json()["lifecycle"]

    assert act("load", keep_alive="1h")["state"] == "ready"
    assert act("pin")["pinned"] is True
    assert act("unpin")["pinned"] is False
    assert act("unload")["state"] in ("draining", "absent")
    assert wait_for(lambda: act("preload")["state"] == "ready")
    missing = server.post("/admin/models/load", {"model": "other"}, headers=boss)
    assert missing.status_code == 404 and "other" in missing.text
    assert server.post("/admin/models/load", {}, headers=boss).status_code == 400


def test_a_server_is_listed(start):
    server = start(*model_args(*ALL_MODELS), "--pin-model", "rerank", "--api-key", "k", preload=False)
    for model, path, body in (("embed", "/v1/embeddings", {"input": "a"}),
                              ("rerank", "/v1/rerank", {"query": "a", "documents": ["b"]})):
        assert server.post(path, {"model": model, **body}, headers={"X-API-Key": "k"}).status_code == 200
    rows = [re.split(r"  +", row.strip()) for row in
            run("list", "--url", server.url, "--api-key", "k").stdout.decode().splitlines()]
    assert rows[0][:4] == ["MODEL", "STATE", "TASK", "MEMORY"]
    assert [row[:3] for row in rows[1:]] == [["embed", "ready", "embedding"], ["rerank", "ready", "reranking"],
                                             ["classify", "absent", "classification"]]
    assert rows[1][5] in ("5 min", "299 s", "300 s") and rows[2][5] == "pinned" and re.search("[kM]B$", rows[1][3])
    listed = json.loads(run("list", "--json", f"--url={server.url}", "--api-key", "k").stdout)
    assert [model["id"] for model in listed["data"]] == ["embed", "rerank", "classify"]
    refused = run("list", "--url", server.url, check=False)
    assert refused.returncode == 1 and "API key" in refused.stderr.decode()


def test_two_models_that_do_not_fit_together(start):
    """Each in turn takes the other's place; the figures are in the log and in the metrics."""
    server = start(*model_args(("a", EMBED), ("b", RERANK)), "--memory", "135MB",
                   "--max-batch-tokens", "8192", preload=False)
    for _ in range(3):
        assert embed(server, "a").status_code == 200
        assert server.post("/v1/rerank", {"model": "b", "query": "a", "documents": ["b"]}).status_code == 200
    assert server.metrics()['penstock_model_loads_total{model="a"}'] >= 1


def test_memory_is_told(start):
    server = start("--memory", "1GB", preload=False)
    assert embed(server).status_code == 200
    memory = models(server)["embed"]["memory"]
    assert memory["weights_bytes"] > 0 and memory["activations_bytes"] > 0
    metrics = server.metrics()
    assert metrics['penstock_model_bytes{model="embed",class="weights"}'] == memory["weights_bytes"]
    assert metrics['penstock_model_loaded{model="embed"}'] == 1
    assert "1000 MB" in "".join(server.log)


@pytest.mark.parametrize("given, said", [
    (["--memory", "10MB"], "--memory: 10 MB are too little"), (["--memory", "200%"], "--memory"),
    (["--memory", "lots"], "--memory"), (["--keep-alive", "soon"], "'soon' is not a duration"),
    (["--keep-alive", "x=5m"], "keep-alive"), (["--pin-model", "x"], "no model is served as 'x'"),
    (["--preload-model", "x"], "no model is served as 'x'"),
])
def test_settings_that_are_refused(given, said):
    done = run("serve", "--model", f"m={GOLDEN / EMBED}", *given, check=False)
    assert done.returncode == 2 and said in done.stderr.decode(), done.stderr.decode()


def test_a_model_that_is_broken_is_refused_at_the_start(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "nonsense"}')
    done = run("serve", "--model", f"m={tmp_path}", check=False)
    assert done.returncode != 0 and "nonsense" in done.stderr.decode()


def test_variables_of_other_servers(tmp_path):
    env = clean_environment(MODEL_UNLOAD_TIMEOUT="7m", CLEANUP_CHECK_INTERVAL="11")
    done = run("serve", "--model", f"m={GOLDEN / EMBED}", "--print-config", env=env)
    text = done.stdout.decode()
    assert re.search(r'keep-alive = .*7m', text) and re.search(r"check-interval-s = 11\b", text), text


def test_tables_of_models(start, tmp_path):
    config = tmp_path / "penstock.toml"
    config.write_text(f"[models.a]\nmodel = '{GOLDEN / EMBED}'\nkeep-alive = '1h'\npreload = true\n"
                      f"[models.b]\nmodel = '{GOLDEN / RERANK}'\npin = true\npreload = false\n")
    server = start("--config", config, model=False, preload=False)
    seen = models(server)
    assert seen["a"]["state"] == "ready" and seen["a"]["keep_alive_s"] == 3600 and not seen["a"]["pinned"]
    assert seen["b"]["state"] == "absent" and seen["b"]["pinned"] and seen["b"]["keep_alive_s"] == 300


def test_accepted_work_is_finished_at_the_end():
    server = Server(*model_args(("embed", EMBED)), preload=False)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(embed, server) for _ in range(8)]
        time.sleep(0.01)  # until some requests are accepted
        assert server.stop() == 0
        codes = set()
        for answer in answers:
            try:
                codes.add(answer.result().status_code)
            except requests.ConnectionError:
                codes.add(None)  # came too late
    assert codes <= {200, 503, None}, codes


def test_the_benchmark_measures_each_figure(tmp_path):
    """A few cycles; the figures of a real model are for `penstock-lab lifecycle` alone."""
    records = tmp_path / "records.jsonl"
    done = run("lab", "lifecycle", "-m", GOLDEN / EMBED, f"--reranker={GOLDEN / RERANK}", "--rounds", "1",
               "--cycles", "6", "--callers", "8", "--json", records)
    values = {record["name"]: record["value"] for record in map(json.loads, records.read_text().splitlines())}
    assert set(values) == {"lifecycle." + name for name in (
        "ready_ms", "cold_first_embedding_ms", "reload_ms", "loads_for_8_callers", "cycles", "cycles_per_s",
        "cycles_rss_percent", "cycles_rss_mb", "answered_requests", "failed_requests")}
    assert values["lifecycle.loads_for_8_callers"] == 1 and values["lifecycle.failed_requests"] == 0
    assert values["lifecycle.cycles"] == 6 and values["lifecycle.answered_requests"] > 0
    assert 0 < values["lifecycle.ready_ms"] < values["lifecycle.cold_first_embedding_ms"]
    assert b"cold_first_embedding_ms" in done.stdout
    assert run("lab", "lifecycle", "--rounds", "0", check=False).returncode == 2
