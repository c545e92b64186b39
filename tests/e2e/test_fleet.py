"""What a fleet relies on: leaving behind proxies, gauges for routers, demand for scalers."""
import gzip
import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

import scripted_model
from conftest import EMBED, GOLDEN, wait_for

pytestmark = pytest.mark.alone


def test_a_delay_before_the_end(start):
    server = start("--shutdown-delay-s", "4")
    with requests.Session() as kept:
        assert kept.get(server.url + "/livez", timeout=10).headers.get("Connection") != "close"
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert wait_for(lambda: server.get("/readyz").status_code == 503, 3)
        ready = server.get("/readyz")
        assert "shutting down" in ready.json()["reason"]
        # A client that comes all the same is served, on old connections and new ones, and is told to go.
        for answer in (kept.get(server.url + "/livez", timeout=10), server.post("/embed", {"inputs": "a dog"})):
            assert answer.status_code == 200 and answer.headers["Connection"] == "close"
        assert server.get("/v2/health/ready").status_code != 200
        assert time.monotonic() - begin < 4, "too slow a machine to see the delay"
    assert server.process.wait(30) == 0
    assert time.monotonic() - begin >= 4


def test_a_second_signal_ends_the_delay(start):
    server = start("--shutdown-delay-s", "600")
    server.process.send_signal(signal.SIGTERM)
    assert wait_for(lambda: server.get("/readyz").status_code == 503)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(10) == 128 + signal.SIGTERM


def test_without_a_delay_it_ends_at_once(start):
    server = start()
    begin = time.monotonic()
    assert server.stop() == 0 and time.monotonic() - begin < 10
    # The last line of the log is not lost.
    assert wait_for(lambda: any(line.endswith(" info stopped\n") for line in server.log)), server.log


def raw(server, path, **headers):
    with requests.get(server.url + path, headers=headers, stream=True, timeout=30) as answer:
        return answer.headers, answer.raw.read(decode_content=False)


def test_metrics_are_packed_for_those_who_ask(start):
    server = start()
    headers, plain = raw(server, "/metrics", **{"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in headers and headers["Vary"] == "Accept-Encoding"
    headers, packed = raw(server, "/metrics", **{"Accept-Encoding": "gzip"})
    assert headers["Content-Encoding"] == "gzip" and int(headers["Content-Length"]) == len(packed)
    assert len(packed) < len(plain) / 4
    names = [{line.split("{")[0] for line in text.decode().splitlines() if line.startswith("# TYPE")}
             for text in (plain, gzip.decompress(packed))]
    assert names[0] - names[1] == set()  # those of requests come with the first one
    assert "Content-Encoding" not in raw(server, "/metrics", **{"Accept-Encoding": "gzip;q=0"})[0]


@pytest.fixture
def with_text(start, tmp_path):
    folder = scripted_model.write_weather(tmp_path / "weather")
    return start("--model", f"embed={GOLDEN / EMBED}", "--model", f"weather={folder}", model=False)


def samples(text):
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_gauges_for_routers(with_text):
    text = with_text.get("/metrics/router").text
    assert len(text) <= 2048
    values = samples(text)
    for name in ("generate_waiting", "generate_running", "kv_usage_ratio", "kv_block_size", "kv_blocks"):
        assert f'penstock_{name}{{model="weather"}}' in values
        assert f"# TYPE penstock_{name} gauge\n" in text
    for model in ("embed", "weather"):
        for kind in ("interactive", "bulk"):
            assert f'penstock_queue_seconds{{model="{model}",class="{kind}"}}' in values
    assert values['penstock_kv_block_size{model="weather"}'] == "32"
    assert int(values['penstock_kv_blocks{model="weather"}']) > 0
    # The same values as /metrics has.
    everything = with_text.metrics()
    at_rest = {name: value for name, value in values.items() if name != "penstock_requests_in_flight"}
    assert {name: float(value) for name, value in at_rest.items()} == {name: everything[name] for name in at_rest}
    body = {"model": "weather", "prompt": ["a"] * 4, "max_tokens": 900, "ignore_eos": True, "stream": True}
    with requests.post(with_text.url + "/v1/completions", json=body, stream=True, timeout=60) as stream:
        next(stream.iter_lines())
        # The values of one answer are of moments apart: a text may end between two of them.
        seen = []
        while not seen or (int(seen[-1]['penstock_generate_running{model="weather"}']) > 0 and len(seen) < 20):
            seen.append(samples(with_text.get("/metrics/router").text))
        if len(seen) > 3:  # else it was faster
            for name in ('penstock_kv_usage_ratio{model="weather"}',
                         'penstock_queue_seconds{model="weather",class="interactive"}'):
                assert max(float(values[name]) for values in seen) > 0, name


def test_gauges_for_routers_ask_for_the_key_of_metrics(start):
    server = start("--api-key", "one")
    assert server.get("/metrics/router").status_code == 401
    assert server.get("/metrics/router", headers={"Authorization": "Bearer one"}).status_code == 200


def test_aliases_of_vllm(start, tmp_path):
    folder = scripted_model.write_weather(tmp_path / "weather")
    server = start("--model", f"weather={folder}", "--metrics-aliases=vllm", model=False)
    body = {"model": "weather", "prompt": "a cat " * 40, "max_tokens": 3, "ignore_eos": True}
    for _ in range(2):
        assert server.post("/v1/completions", body).status_code == 200
    text = server.get("/metrics").text
    values = {name: float(value) for name, value in samples(text).items()}
    label, ours = '{model_name="weather"}', '{model="weather"}'
    assert values["vllm:generation_tokens_total" + label] == values["penstock_generate_tokens_total" + ours] == 6
    computed, cached = (values[f"penstock_generate_{kind}_tokens_total{ours}"] for kind in ("prompt", "cached"))
    assert cached > 0 and values["vllm:prompt_tokens_total" + label] == computed + cached
    assert values["vllm:prefix_cache_hits_total" + label] == cached
    assert values["vllm:time_to_first_token_seconds_count" + label] == 2
    assert 'vllm:cache_config_info{block_size="32",' in text and "# TYPE vllm:num_requests_waiting gauge\n" in text
    router = server.get("/metrics/router").text
    assert f"vllm:kv_cache_usage_perc{label}" in router and f"vllm:num_requests_running{label}" in router
    assert "vllm:generation" not in router and len(router) < 4096
    server.stop()
    assert "vllm:" not in start("--model", f"weather={folder}", model=False).get("/metrics").text


@pytest.mark.parametrize("form", ["TEXT", "text", "JSON"])
def test_answers_tell_the_load_to_those_who_ask(with_text, form):
    answer = with_text.post("/embed", {"inputs": "a dog"}, headers={"endpoint-load-metrics-format": form})
    kind, report = answer.headers["endpoint-load-metrics"].split(" ", 1)
    assert kind == form.upper()
    if kind == "JSON":
        named = json.loads(report)["named_metrics"]
    else:
        pairs = dict(pair.split("=") for pair in report.split(", "))
        named = {name.removeprefix("named_metrics."): float(value) for name, value in pairs.items()}
    assert set(named) == {"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "queue_seconds",
                          "requests_in_flight"}
    assert all(value >= 0 for value in named.values())


def test_answers_tell_no_load_unasked(with_text):
    for headers in ({}, {"endpoint-load-metrics-format": "BIN"}, {"endpoint-load-metrics-format": ""}):
        assert "endpoint-load-metrics" not in with_text.post("/embed", {"inputs": "a dog"}, headers=headers).headers


def test_a_session_is_no_prefix(with_text):
    """What names a conversation to a router changes neither the text nor what the cache may give."""
    def ask(prompt, session, key):
        body = {"model": "weather", "messages": [{"role": "user", "content": prompt}], "max_tokens": 4,
                "prompt_cache_key": key}
        answer = with_text.post("/v1/chat/completions", body, headers={"x-session-id": session}).json()
        return answer["choices"][0]["message"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    one, two = "a cat " * 60, "the dog " * 60
    first, cached = ask(one, "s1", "k1")
    assert cached == 0
    assert ask(two, "s1", "k1")[1] < 32, "the same names, another beginning: nothing of it is known"
    again, known = ask(one, "s2", "k2")
    assert again == first and known > 32, "other names, the same beginning"


def test_demand_counts_refused_work_too(start):
    server = start("--threads", "1", "--max-concurrent-requests", "1", "--max-queued-tokens", "60000")
    labels = '{model="embed",class="interactive"}'
    demand, jobs, queue = (f"penstock_{name}{labels}" for name in ("demand_seconds_total", "jobs_total", "queue_seconds"))
    body = {"inputs": ["dog " * 40] * 256}

    def ask(_):
        return server.post("/embed", body).status_code

    assert ask(0) == 200
    one = server.metrics()
    assert one[jobs] == 1 and one[demand] > 0
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(ask, range(60)))
    assert set(codes) == {200, 429}
    # The last answer may come before its tokens leave the queue.
    assert wait_for(lambda: server.metrics()[queue] == 0)
    after = server.metrics()
    # Each request is as much as the first, served or not.
    assert after[jobs] == 61
    assert after[demand] == pytest.approx(61 * one[demand], rel=1e-3)
    # Over the queue's bound in tokens: refused by the model's scheduler, and asked for all the same.
    other = start("--threads", "1", "--max-queued-tokens", "12000")
    with ThreadPoolExecutor(8) as pool:
        codes = [answer.status_code for answer in pool.map(lambda _: other.post("/embed", body), range(40))]
    assert set(codes) == {200, 429}
    assert other.metrics()[jobs] == 40
