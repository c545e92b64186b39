"""Where the time of requests goes: /v1/stats, its reset, the stage series of /metrics, the log of
slow requests."""
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from conftest import ALL_MODELS, model_args, wait_for

STAGES = ["receive", "parse", "load", "tokenize", "queue", "form", "forward", "prefill", "decode", "complete", "serialise",
          "send"]
SLOW_TEXTS = ["dog " * 46] * 512
TIMES = ["mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms"]


def stats_after(server, requests_done):
    """A request is recorded after its last byte has gone, so maybe after the client has it."""
    assert wait_for(lambda: server.get("/v1/stats").json()["requests"]["count"] >= requests_done)
    return server.get("/v1/stats").json()


def ask_for_everything(server):
    """One request of each behaviour; how many, and the time they took as their client sees it."""
    bodies = [("/embed", {"inputs": ["a dog", "two dogs"]}), ("/embed_all", {"inputs": "a dog"}),
              ("/v1/embeddings", {"input": "a dog", "model": "embed"}),
              ("/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b", "c"]}}),
              ("/rerank", {"query": "a dog", "texts": ["a cat", "a dog"]}),
              ("/predict", {"inputs": "a dog"}),
              ("/embed", {"inputs": SLOW_TEXTS}),  # of several batches
              ("/tokenize", {"inputs": "a dog"}), ("/decode", {"ids": [5, 6]})]
    begin = time.monotonic()
    for path, body in bodies:
        answer = server.post(path, body)
        assert answer.status_code == 200, (path, answer.text)
    return len(bodies), time.monotonic() - begin


def test_every_microsecond_of_a_request_is_in_one_stage(start):
    server = start(*model_args(*ALL_MODELS))
    count, elapsed_s = ask_for_everything(server)
    for path in ("/health", "/nowhere", "/metrics"):
        server.get(path)
    server.post("/embed", {"inputs": 1})  # refused before it reached anything
    stats = stats_after(server, count)
    assert stats["stage_timers"] is True
    total = stats["requests"]
    assert total["count"] == count
    assert 0 < total["total_s"] <= elapsed_s
    stages = stats["stages"]
    assert [stage["stage"] for stage in stages] == STAGES
    assert sum(stage["total_s"] for stage in stages) == pytest.approx(total["total_s"], abs=2e-8)
    assert sum(stage["percent"] for stage in stages) == pytest.approx(100, abs=1e-3)
    by_name = {stage["stage"]: stage for stage in stages}
    for name in ("receive", "parse", "tokenize", "complete", "serialise", "send"):
        assert by_name[name]["count"] == count, name
    for name in ("queue", "form", "forward"):  # all but tokenize and decode
        assert by_name[name]["count"] == count - 2, name
    for name in ("load", "prefill", "decode"):  # of models that are not loaded, and of generated text
        assert by_name.pop(name)["count"] == 0, name
    for times in [total, *by_name.values()]:
        assert times["p50_ms"] <= times["p90_ms"] <= times["p99_ms"] <= times["max_ms"]
        assert times["mean_ms"] == pytest.approx(times["total_s"] * 1e3 / times["count"], rel=1e-2)
        assert set(times) >= {"count", "total_s", *TIMES}
    # The HTTP server's own measure of the same requests.
    metrics = server.metrics()
    routes = re.compile(r'penstock_http_request_duration_seconds_sum\{route="([^"]+)",method="POST"\}')
    refused_s = 0.1
    http_s = sum(value for name, value in metrics.items() if routes.match(name))
    assert total["total_s"] <= http_s + 1e-6 <= total["total_s"] + refused_s


def test_models_and_process_are_told(start):
    server = start(*model_args(*ALL_MODELS))
    for _ in range(5):
        server.post("/embed", {"inputs": ["a dog", "a cat"]})
    stats = stats_after(server, 5)
    models = {model["model"]: model for model in stats["models"]}
    assert list(models) == [name for name, _ in ALL_MODELS]
    embed = models["embed"]
    assert embed["ready"] and embed["batches"] == 5 and embed["rows"] == 10
    assert embed["tokens"] == 40 and embed["tokens_per_batch"] == 8
    assert embed["tokens_per_s"] > 0 and 0 < embed["busy_percent"] <= 100
    assert embed["queued_requests"] == embed["queued_tokens"] == 0
    assert models["rerank"]["batches"] == 0
    assert {model["device"] for model in stats["models"]} == {"cpu"}
    (device,) = stats["devices"]
    metrics = server.metrics()
    for what in ("memory_budget_bytes", "memory_used_bytes"):
        assert device[what] == metrics[f'penstock_device_{what}{{device="cpu"}}'], what
    assert device["memory_used_bytes"] > 0
    assert stats["tokenization"]["workers"] >= 1
    assert stats["process"]["resident_bytes"] > 1 << 20
    assert stats["process"]["processors_busy"] > 0
    assert 0 < stats["window_s"] <= stats["uptime_s"]


def test_the_bottleneck_is_named(start):
    server = start()
    assert server.get("/v1/stats").json()["bottleneck"]["name"] == "none"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: server.post("/embed", {"inputs": SLOW_TEXTS}), range(24)))
    bottleneck = stats_after(server, 24)["bottleneck"]
    assert bottleneck["name"] in [*STAGES, "processor"]
    assert bottleneck["why"] and bottleneck["window_s"] > 0
    assert isinstance(bottleneck["saturated"], bool)


def test_reset_begins_a_new_window_and_leaves_the_metrics(start):
    server = start()
    server.post("/embed", {"inputs": "a"})
    stats_after(server, 1)
    assert server.post("/v1/stats/reset").json() == {"status": "ok"}
    stats = server.get("/v1/stats").json()
    assert stats["requests"]["count"] == 0 and stats["requests"]["max_ms"] == 0
    assert stats["window_s"] < stats["uptime_s"]
    assert all(stage["count"] == 0 for stage in stats["stages"])
    assert stats["models"][0]["batches"] == 0
    server.post("/embed", {"inputs": "a"})
    assert stats_after(server, 1)["requests"]["count"] == 1
    assert server.metrics()['penstock_stage_duration_seconds_count{stage="send"}'] == 2


def test_no_request_is_lost_by_resets(start):
    """Windows cut while requests end: the metrics count each of them once."""
    server = start()
    with ThreadPoolExecutor(5) as pool:
        work = [pool.submit(server.post, "/embed", {"inputs": "a"}) for _ in range(300)]
        while not all(one.done() for one in work):
            assert server.post("/v1/stats/reset").status_code == 200
            server.get("/v1/stats").json()
    series = 'penstock_stage_duration_seconds_count{stage="serialise"}'
    assert wait_for(lambda: server.metrics()[series] == 300), server.metrics()[series]


def test_stages_are_series_from_the_start(start):
    server = start()
    before = server.metrics()
    for stage in STAGES:
        label = f'{{stage="{stage}"}}'
        assert before[f"penstock_stage_duration_seconds_count{label}"] == 0
        assert before[f'penstock_stage_duration_seconds_bucket{{stage="{stage}",le="+Inf"}}'] == 0
    server.post("/embed", {"inputs": ["a"] * 50})
    stats_after(server, 1)
    after = server.metrics()
    assert {name for name in after if not name.startswith("penstock_http_request")} == set(before)
    buckets = [value for name, value in after.items()
               if name.startswith('penstock_stage_duration_seconds_bucket{stage="forward"')]
    assert buckets == sorted(buckets) and buckets[-1] == 1
    assert after['penstock_stage_duration_seconds_sum{stage="forward"}'] > 0
    for gauge in ("penstock_uptime_seconds", "process_cpu_seconds_total",
                  "penstock_tokenize_busy_seconds_total"):
        assert after[gauge] > before[gauge], gauge
    assert after["process_resident_memory_bytes"] > 1 << 20
    assert after["process_open_fds"] > 3
    assert after["penstock_tokenize_waiting_tasks"] == 0


def test_timers_can_be_off(start):
    server = start("--stage-timers", "off", "--slow-request-ms", "1")
    server.post("/embed", {"inputs": SLOW_TEXTS})
    stats = server.get("/v1/stats").json()
    assert stats["stage_timers"] is False
    assert "stages" not in stats and "requests" not in stats
    assert stats["models"][0]["rows"] == len(SLOW_TEXTS)
    assert server.metrics()['penstock_stage_duration_seconds_count{stage="send"}'] == 0
    assert wait_for(lambda: any("slow request" in line for line in server.log))


def test_slow_requests_are_logged_with_their_stages(start):
    server = start("--slow-request-ms", "2")
    answer = server.post("/embed", {"inputs": SLOW_TEXTS})
    assert wait_for(lambda: any("slow request" in line for line in server.log))
    line = next(line for line in server.log if "slow request" in line)
    assert f"id {answer.headers['X-Request-Id']}" in line
    told = re.search(r"slow request: ([\d.]+) ms, POST /embed, status 200, model 'embed', "
                     r"512 rows, (\d+) tokens; (.*) ms; id", line)
    assert told, line
    assert int(told.group(2)) == 512 * 48
    words = told.group(3).split()
    assert words[::2] == STAGES
    assert sum(map(float, words[1::2])) == pytest.approx(float(told.group(1)), abs=0.06)


def test_slow_requests_do_not_flood_the_log(start):
    server = start("--slow-request-ms", "1")
    slow = lambda: server.metrics()["penstock_slow_requests_total"]
    body = {"inputs": SLOW_TEXTS[:64]}
    begin = time.monotonic()
    while slow() < 30 and time.monotonic() - begin < 20:
        server.post("/embed", body)
    seconds = time.monotonic() - begin
    assert slow() >= 30
    lines = sum("slow request" in line for line in server.log)
    assert lines <= 5 * (seconds + 1)
    if lines < slow():
        time.sleep(1)  # lines are held back for a second at most
        server.post("/embed", body)
        assert wait_for(lambda: any("more were slow" in line for line in server.log))


def test_statistics_want_the_key_and_the_method(start):
    server = start("--api-key", "secret")
    assert server.get("/v1/stats").status_code == 401
    assert server.post("/v1/stats/reset").status_code == 401
    key = {"Authorization": "Bearer secret"}
    assert server.get("/v1/stats", headers=key).status_code == 200
    assert server.post("/v1/stats/reset", headers=key).status_code == 200
    assert requests.get(server.url + "/v1/stats/reset", headers=key, timeout=9).status_code == 405


def test_sums_of_a_model_stay_while_it_is_away(start):
    server = start("--model", "same=builtin:identity?shape=1", model=False)
    body = {"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}

    def sums():
        model, = server.get("/v1/stats").json()["models"]
        return model["batches"], model["rows"]

    for _ in range(3):
        assert server.post("/v2/models/same/infer", body).status_code == 200
    assert wait_for(lambda: sums() == (3, 3)), sums()
    assert server.post("/v2/repository/models/same/unload").status_code == 200
    assert wait_for(lambda: server.get("/v1/models").json()["data"][0]["lifecycle"]["state"] == "absent")
    assert sums() == (3, 3)
    assert server.get("/v1/stats").json()["bottleneck"]["saturated"] is False
