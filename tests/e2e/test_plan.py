"""penstock plan: costs of a server, fleets simulated by them, and a server beside its simulation.

How near the simulation is to a server is not tested here: that needs a quiet machine. docs/FLEET.md has
the command and what was measured.
"""

import json

import pytest

import scripted_model
from conftest import CLASSIFY, EMBED, GOLDEN, RERANK, run

COSTS = {
    "format": 1,
    "model": "small",
    "machine": "a machine",
    "version": "1",
    "encoder": {
        "fixed_s": 2e-4,
        "token_s": 5e-5,
        "work_s": 3e-8,
        "gap_s": 0,
        "cold_s": 0,
        "cold_token_s": 0,
        "noise": 0,
        "request_s": 0,
        "outside_s": 2e-4,
        "outside_busy_s": 3e-4,
        "outside_token_s": 1e-6,
        "added_tokens": 2,
        "word_tokens": 1,
        "batch_tokens": 384,
        "length_max": 256,
    },
}
CHAT = {
    "format": 1,
    "model": "chat",
    "machine": "a machine",
    "version": "1",
    "decoder": {
        "one_s": 0.01,
        "few_s": 0.014,
        "fixed_s": 0.008,
        "row_s": 0.001,
        "work_s": 1e-8,
        "outside_s": 0.001,
        "template_tokens": 0,
        "pick_s": 0,
        "context": 4096,
        "sequences": 32,
        "cache_blocks": 1024,
    },
}


@pytest.fixture
def costs(tmp_path):
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(COSTS))
    return path


@pytest.fixture
def chat(tmp_path):
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(CHAT))
    return path


def planned(*args, expected=0):
    done = run("plan", *args, check=False, timeout=120)
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    assert expected is None or done.returncode == expected, done.stderr
    return done


def test_the_smallest_fleet(costs, tmp_path):
    out = tmp_path / "plan.json"
    done = planned(
        "--costs",
        costs,
        "--rate",
        "1000",
        "--lengths=lognormal:64,0.8",
        "--slo",
        "p95=50ms",
        "--lose",
        "2",
        "--seeds",
        "5",
        "--json",
        out,
    )
    plan = json.loads(out.read_text())
    n = plan["replicas"]
    assert plan["keeps"] and plan["perfect"] <= n <= plan["perfect"] + 3 and plan["headroom"] >= 0
    assert [point["replicas"] for point in plan["lost"]] == [n - 1, n - 2]
    assert plan["planned"]["objectives"][0]["p95_ms"] <= 50 < 1000
    assert plan["over"]["kept"] < 0.95 and plan["over"]["rate"] > 1000
    assert 0.3 < plan["autoscaler_demand"] < 1
    for line in (
        f"replicas       {n}; {n + 2} keep the objective with 2 lost",
        "headroom ",
        "breaks first   p95 within 50 ms",
        "a replica ",
        "autoscaler     demand 0.",
        "not modelled   the network",
    ):
        assert line in done.stdout, done.stdout
    # The same by a number that is given, and by one that is too small.
    same = planned(
        "--costs",
        costs,
        "--rate",
        "1000",
        "--lengths=lognormal:64,0.8",
        "--slo",
        "p95=50ms",
        "--replicas",
        str(n),
        "--seeds",
        "5",
    )
    assert f"replicas       {n};" in same.stdout
    small = planned(
        "--costs", costs, "--rate", "1000", "--slo", "p95=50ms", "--replicas", "2", "--seeds", "2", expected=1
    )
    assert "2 miss the objective; they keep it up to" in small.stdout


def test_chats(chat):
    flags = (
        "--costs",
        chat,
        "--rate",
        "3",
        "--prompts",
        "uniform:50,300",
        "--outputs",
        "fixed:80",
        "--seeds",
        "2",
        "--simulated-s",
        "100",
    )
    done = planned(
        *flags, "--slo", "ttft.p95=1s,itl.p95=100ms", "--turns", "4", "--shared-prompt", "100", "--routing", "affinity"
    )
    assert "ttft p50 ms" in done.stdout and "itl p50 ms" in done.stdout and "guessed tokens" in done.stdout
    assert "autoscaler" not in done.stdout


def test_a_trace(costs, tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text(
        "".join(json.dumps({"at": i / 50 + (i % 7) / 400, "tokens": 20 + i % 90}) + "\n" for i in range(400))
    )
    slow = planned("--costs", costs, "--trace", trace, "--slo=p95=50ms", "--seeds", "3")
    assert "replicas       1;" in slow.stdout
    fast = planned("--costs", costs, "--trace", trace, "--rate", "1000", "--slo=p95=50ms", "--seeds", "3")
    assert "replicas       1;" not in fast.stdout
    trace.write_text('{"at": 0, "tokens": 5}\n{"at": 1, "tokens": "x"}\n')
    wrong = planned("--costs", costs, "--trace", trace, "--slo", "p95=50ms", expected=2)
    assert "line 2" in wrong.stderr and "tokens" in wrong.stderr


@pytest.mark.parametrize(
    "args, words",
    [
        ((), "either --model or --costs"),
        (("--model", "x", "--costs", "y"), "either --model or --costs"),
        (("--costs", "{}", "--slo", "p95=50"), "an objective is p95=50ms"),
        (("--costs", "{}", "--slo", "ttft.p95=50ms"), "an objective is p95=50ms"),
        (("--costs", "{}", "--slo", "p95=1ms"), "no number of replicas keeps p95 within 1 ms"),
        (("--costs", "{}", "--lengths", "x", "--slo", "p95=50ms"), "--lengths: lengths are fixed:N"),
        (("--costs", "{}", "--rate", "0", "--slo", "p95=50ms"), "--rate"),
        (("--costs", "{}", "--replicas", "3"), "need an objective"),
        (("--costs", "{}", "--verify", "ftp://x"), "--verify is http://"),
        (("--costs", "{}", "--verify", "https://x"), "http:// is needed"),
    ],
)
def test_mistakes(costs, args, words):
    done = planned(*(str(costs) if arg == "{}" else arg for arg in args), expected=2)
    assert words in done.stderr, done.stderr


def test_files_of_costs_that_are_wrong(tmp_path):
    assert "no.json" in planned("--costs", tmp_path / "no.json", "--slo", "p95=1s", expected=1).stderr
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({**COSTS, "encoder": {**COSTS["encoder"], "token_s": -1}}))
    assert "token_s" in planned("--costs", wrong, "--slo", "p95=1s", expected=1).stderr


@pytest.mark.parametrize("name", [EMBED, RERANK, CLASSIFY])
def test_costs_of_a_server(start, name, tmp_path):
    server = start("--model", f"small={GOLDEN / name}", model=False)
    saved = tmp_path / "costs.json"
    shown = planned("--costs", server.url, "--measure-s", "2", "--save-costs", saved)
    assert "small on http://127.0.0.1" in shown.stdout and "us a token" in shown.stdout
    made = json.loads(saved.read_text())["encoder"]
    assert made["token_s"] > 0 and made["batch_tokens"] > 0 and made["added_tokens"] >= 1
    # As if it were slow: the rates are then such that the machine of the tests keeps up.
    costs = json.loads(saved.read_text())
    costs["encoder"].update(token_s=1e-3, fixed_s=1e-3)
    saved.write_text(json.dumps(costs))
    done = planned(
        "--costs",
        saved,
        "--verify",
        server.url,
        "--verify-s=1",
        "--verify-rounds",
        "1",
        "--loads",
        "0.2,0.4",
        "--lengths",
        "uniform:2,6",
        expected=None,
    )
    # Whether it is near enough is the machine's.
    assert done.returncode in (0, 1) and "at its speed / measured" in done.stdout, done.stderr


def test_costs_of_a_chat_model(start, tmp_path):
    folder = scripted_model.write_weather(tmp_path / "weather")
    server = start("--model", f"weather={folder}", "--no-speculation", "--max-num-seqs", "16", model=False)
    saved = tmp_path / "costs.json"
    planned("--costs", server.url, "--measure-s", "4", "--save-costs", saved)
    made = json.loads(saved.read_text())["decoder"]
    assert made["sequences"] == 16 and made["cache_blocks"] > 0 and made["row_s"] > 0 and made["one_s"] > 0


def test_several_models_and_none(start):
    server = start("--model", f"one={GOLDEN / EMBED}", "--model", f"two={GOLDEN / RERANK}", model=False)
    several = planned("--costs", server.url, expected=1)
    assert "name one of one, two" in several.stderr
    assert "no model 'three'" in planned("--costs", server.url, "--model-name", "three", expected=1).stderr
    planned("--costs", server.url, "--model-name=two", "--measure-s", "1")
    server.stop()
    assert server.url.removeprefix("http://") in planned("--costs", server.url, expected=1).stderr
