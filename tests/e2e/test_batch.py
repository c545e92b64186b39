"""penstock batch: text for each row of files, by a model here and by a server."""

import json
import signal
import subprocess
import time

import pytest

import scripted_model
from conftest import EMBED, GOLDEN, binary, clean_environment, run, wait_for


@pytest.fixture(scope="module")
def weather(tmp_path_factory):
    return scripted_model.write_weather(tmp_path_factory.mktemp("models") / "weather")


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def batch(*args, expected=0, **more):
    done = run("batch", *args, check=False, timeout=120, **more)
    assert done.returncode == expected, done.stderr.decode()
    return lines(done.stdout.decode()), done.stderr.decode()


def test_prompts_of_every_form(weather, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "\n".join(
            json.dumps(row)
            for row in [
                {"id": "a", "prompt": "What is the weather?"},
                {"id": "b", "text": "What is the weather?"},
                "What is the weather?",
                {"id": "d", "messages": [{"role": "user", "content": "What is the weather?"}]},
            ]
        )
    )
    made, _ = batch("--model", weather, "--id-field", "id", "-n", "12", rows, expected=3)
    # A JSON string has no id; the others are the same conversation.
    assert made[2]["index"] == 2 and 'no field "id"' in made[2]["error"]["message"]
    made, told = batch("--model", weather, "-n", "12", rows)
    assert [line["index"] for line in made] == [0, 1, 2, 3] and told == ""
    assert len({line["text"] for line in made}) == 1 and made[0]["text"]
    assert all(line["finish_reason"] in ("stop", "length") for line in made)
    assert all(line["usage"]["completion_tokens"] <= 12 for line in made)
    plain, _ = batch("--model", weather, "-n", "12", "--format", "text", stdin=b"What is the weather?\n")
    assert plain[0]["text"] == made[0]["text"]
    table = tmp_path / "rows.csv"
    table.write_text('q,n\n"What is the weather?",1\n')
    assert batch("--model", weather, "-n", "12", "--text-field", "q", table)[0][0]["text"] == made[0]["text"]
    # Without the template the same prompt is another text.
    raw, _ = batch("--model", weather, "-n", "12", "--raw", rows)
    assert raw[0]["usage"]["prompt_tokens"] != made[0]["usage"]["prompt_tokens"]
    told = batch("--model", weather, "-n", "12", "--system", "Be short.", rows)[0]
    assert told[0]["usage"]["prompt_tokens"] > made[0]["usage"]["prompt_tokens"] == told[3]["usage"]["prompt_tokens"]


def test_requests_of_batches(weather, tmp_path):
    rows = tmp_path / "requests.jsonl"
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0}
    rows.write_text(
        "\n".join(
            json.dumps(row)
            for row in [
                {"custom_id": "one", "method": "POST", "url": "/v1/chat/completions", "body": {**body, "model": "w"}},
                {
                    "custom_id": "two",
                    "method": "POST",
                    "url": "/v1/completions",
                    "body": {"prompt": "Hi", "max_tokens": 2},
                },
                {
                    "custom_id": "three",
                    "method": "POST",
                    "url": "/v1/chat/completions",
                    "body": {**body, "max_tokens": -1},
                },
                {"custom_id": "four", "method": "POST", "url": "/v1/nothing", "body": body},
                {"custom_id": "five", "method": "GET", "url": "/v1/chat/completions", "body": body},
                {"custom_id": "six", "url": "/v1/chat/completions", "body": {**body, "stream": True}},
            ]
        )
    )
    made, told = batch("--model", f"w={weather}", rows, expected=3)
    assert [line["custom_id"] for line in made] == ["one", "two", "three", "four", "five", "six"]
    assert [line["response"] and line["response"]["status_code"] for line in made] == [200, 200, 400, 404, None, None]
    assert made[0]["response"]["body"]["choices"][0]["message"]["content"] and made[0]["error"] is None
    assert "max_tokens" in made[2]["response"]["body"]["error"]["message"]
    assert "POST" in made[4]["error"]["message"] and "stream" in made[5]["error"]["message"]
    assert "4 rows failed; their lines say why" in told


def test_failed_rows_do_not_end_the_rest(weather, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "a"}\n{"other": 1}\nnonsense\n{"prompt": "%s"}\n{"prompt": "b"}\n' % ("word " * 9000))
    made, told = batch("--model", weather, "-n", "2", rows, expected=3)
    assert ["error" in line for line in made] == [False, True, True, True, False]
    assert "3 rows failed" in told and "rows.jsonl:2" in made[1]["error"]["message"]


def test_by_a_server_it_is_the_same(weather, start, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"What is {i}?"}) + "\n" for i in range(40)))
    here = batch("--model", f"w={weather}", "-n", "6", rows)[0]
    server = start("--model", f"w={weather}", model=False)
    assert batch("--url", server.url, "-n", "6", "--concurrency", "8", rows)[0] == here
    assert batch("--url", server.url, "--model", "w", "-n", "6", rows)[0] == here
    nothing, _ = batch("--url", server.url, "--model", "other", "-n", "6", rows, expected=3)
    assert "other" in nothing[0]["error"]["message"]


def test_shards(weather, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"What is {i}?", "id": i}) + "\n" for i in range(60)))
    flags = ("--model", weather, "-n", "5", "--temperature", "0.9", "--id-field", "id", rows)
    whole = batch(*flags)[0]
    assert [line["id"] for line in whole] == [str(i) for i in range(60)]
    batch(*flags, "--shard", "1/3", "-o", tmp_path / "parts")
    batch(*flags, "--shards", "3", "--take", "-o", tmp_path / "parts")
    run("merge", tmp_path / "parts", "-o", tmp_path / "all.jsonl")
    assert lines((tmp_path / "all.jsonl").read_text()) == whole, "every row once, in its order"
    other = run("batch", *flags, "--shards", "3", "--take", "-n", "6", "-o", tmp_path / "parts", check=False)
    assert other.returncode == 2


def test_a_signal_ends_it(weather, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"What is {i}?"}) + "\n" for i in range(3000)))
    process = subprocess.Popen(
        [binary(), "batch", "--model", str(weather), "-n", "400", str(rows), "-o", str(tmp_path / "out.jsonl")],
        env=clean_environment(),
        stderr=subprocess.PIPE,
    )
    assert wait_for(lambda: list(tmp_path.glob("out.jsonl*")), 30)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 128 + signal.SIGINT and time.monotonic() - begin < 20


def test_mistakes(weather):
    for args, words in (
        (("x.jsonl",), "--model is required"),
        (("--model", str(weather), "no.jsonl"), "no.jsonl"),
        (("--url", "http://127.0.0.1:9", "--context", "100", "x"), "--context"),
    ):
        done = run("batch", *args, check=False)
        assert done.returncode in (1, 2) and words in done.stderr.decode()
    # A model that embeds.
    made, _ = batch("--model", GOLDEN / EMBED, stdin=b"a\n", expected=3)
    assert "generate" in made[0]["error"]["message"]
