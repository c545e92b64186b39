"""Files and batches, by OpenAI's client: results, errors, cancelling, a restart, bounds, owners."""
import hashlib
import json
import time

import numpy
import openai
import pytest
import requests

from conftest import EMBED, GOLDEN, expected, raw_post, read_response, wait_for
from test_openapi import check_answer

CASES = [case for case in expected(EMBED)["texts"] if not case.get("prompt_name")][:4]
OVER = ("completed", "failed", "expired", "cancelled")


def line(number, body, url="/v1/embeddings"):
    return {"custom_id": f"r-{number}", "method": "POST", "url": url, "body": body}


def jsonl(lines):
    return "".join(json.dumps(each) + "\n" for each in lines).encode()


@pytest.fixture(scope="module")
def models(weather):
    return "--model", f"embed={GOLDEN / EMBED}", "--model", f"weather={weather}"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "batches"


@pytest.fixture
def server(start, models, folder):
    return start(*models, "--batch-folder", folder, model=False)


def client_of(server, key="none"):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)


def submit(client, lines, endpoint="/v1/embeddings", **more):
    file = client.files.create(file=("in.jsonl", jsonl(lines)), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h", **more)


def finished(client, batch, timeout=30):
    assert wait_for(lambda: client.batches.retrieve(batch.id).status in OVER, timeout)
    return client.batches.retrieve(batch.id)


def results(client, file_id):
    return {each["custom_id"]: each for each in map(json.loads, client.files.content(file_id).text.splitlines())}


@pytest.mark.client("openai", "files.create, content; batches.create, retrieve, list")
def test_a_batch_of_embeddings(server):
    client = client_of(server)
    lines = [line(i, {"model": "embed", "input": CASES[i % 4]["text"]}) for i in range(50)]
    lines[7] = line(7, {"model": "gone", "input": "a"})
    batch = finished(client, submit(client, lines, metadata={"job": "x"}))
    assert batch.status == "completed" and batch.metadata == {"job": "x"}, batch
    assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (50, 49, 1)
    good, bad = results(client, batch.output_file_id), results(client, batch.error_file_id)
    assert set(bad) == {"r-7"} and len(good) == 49
    assert bad["r-7"]["response"]["status_code"] == 404 and "gone" in str(bad["r-7"]["response"]["body"])
    for i in (0, 1, 49):
        response = good[f"r-{i}"]["response"]
        got = response["body"]["data"][0]["embedding"]
        assert response["status_code"] == 200
        assert max(abs(a - b) for a, b in zip(got, CASES[i % 4]["embedding"])) < 1e-5
    assert [each.id for each in client.batches.list()] == [batch.id]
    document = server.get("/openapi.json").json()
    check_answer(document, "GET", "/v1/batches/{id}", server.get(f"/v1/batches/{batch.id}").json())
    check_answer(document, "GET", "/v1/batches", server.get("/v1/batches").json())
    check_answer(document, "GET", "/v1/files", server.get("/v1/files").json())
    check_answer(document, "GET", "/v1/files/{id}", server.get(f"/v1/files/{batch.output_file_id}").json())


@pytest.mark.client("openai", "batches of chat completions")
def test_a_batch_of_chats(server):
    client = client_of(server)
    lines = [line(i, {"model": "weather", "messages": [{"role": "user", "content": "Hello"}]}, "/v1/chat/completions")
             for i in range(5)]
    batch = finished(client, submit(client, lines, "/v1/chat/completions"))
    assert batch.status == "completed" and batch.error_file_id is None
    texts = {each["response"]["body"]["choices"][0]["message"]["content"]
             for each in results(client, batch.output_file_id).values()}
    assert texts == {"Good day."}


def test_what_is_wrong_with_the_input_is_told(server):
    client = client_of(server)
    lines = [line(1, {"input": "a"}), line(1, {"input": "a"}), line(2, {}, "/v1/completions"),
             line(3, {"input": "a", "stream": True})]
    batch = finished(client, submit(client, lines))
    assert batch.status == "failed" and batch.output_file_id is None
    assert [(error.code, error.line) for error in batch.errors.data] == [
        ("duplicate_custom_id", 2), ("invalid_request", 3), ("invalid_request", 4)]
    for more in ({"endpoint": "/v1/rerank"}, {"completion_window": "1h"}, {"input_file_id": "file-gone"}):
        with pytest.raises((openai.BadRequestError, openai.NotFoundError)):
            client.batches.create(**{"input_file_id": batch.input_file_id, "endpoint": "/v1/embeddings",
                                     "completion_window": "24h", **more})
    with pytest.raises(openai.BadRequestError):
        client.files.create(file=("a", b"x"), purpose="fine-tune")
    with pytest.raises(openai.NotFoundError):
        client.batches.retrieve("batch_gone")


def test_a_batch_of_responses(server):
    client = client_of(server)
    lines = [line(0, {"model": "weather", "input": "Hello"}, "/v1/responses")]
    batch = finished(client, submit(client, lines, "/v1/responses"))
    answer = results(client, batch.output_file_id)["r-0"]["response"]["body"]
    assert answer["object"] == "response" and answer["output"][0]["content"][0]["text"] == "Good day."


def test_a_part_of_a_file(server):
    client = client_of(server)
    data = bytes(range(256)) * 12000  # some pieces
    file = client.files.create(file=("a.bin", data), purpose="batch")
    url = f"{server.url}/v1/files/{file.id}/content"
    whole = requests.get(url, timeout=30)
    assert whole.status_code == 200 and whole.content == data and whole.headers["accept-ranges"] == "bytes"
    for asked, begin, end in (("bytes=0-9", 0, 10), ("bytes=3000000-", 3000000, len(data)),
                              ("bytes=-7", len(data) - 7, len(data))):
        part = requests.get(url, headers={"range": asked}, timeout=30)
        assert part.status_code == 206 and part.content == data[begin:end]
        assert part.headers["content-range"] == f"bytes {begin}-{end - 1}/{len(data)}"
    outside = requests.get(url, headers={"range": f"bytes={len(data)}-"}, timeout=30)
    assert outside.status_code == 416 and outside.headers["content-range"] == f"bytes */{len(data)}"
    # A client that leaves in its midst.
    with requests.get(url, stream=True, timeout=30) as answer:
        next(answer.iter_content(1000))
    client.files.delete(file.id)
    assert requests.get(url, timeout=30).status_code == 404


@pytest.mark.client("openai", "files.create, retrieve, list, content, delete")
def test_files(server, folder):
    client = client_of(server)
    file = client.files.create(file=("a b.jsonl", b"one\ntwo\n"), purpose="batch")
    assert (file.filename, file.bytes, file.purpose) == ("a b.jsonl", 8, "batch")
    assert client.files.content(file.id).read() == b"one\ntwo\n"
    assert client.files.retrieve(file.id) == file
    second = client.files.create(file=("b", b"x"), purpose="batch")
    assert {each.id for each in client.files.list(purpose="batch")} == {file.id, second.id}
    for order in ("asc", "desc"):
        listed = [each.id for each in client.files.list(order=order)]
        assert listed == [each.id for each in client.files.list()][:: 1 if order == "desc" else -1]
        assert client.files.list(order=order, limit=1).data[0].id == listed[0]
        assert [each.id for each in client.files.list(order=order, limit=1)] == listed
    assert server.get("/v1/files?order=up").json()["error"]["param"] == "order"
    assert len(client.files.list(limit=1).data) == 1 and len(list(client.files.list(limit=1))) == 2
    assert client.files.delete(file.id).deleted
    for ask in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(openai.NotFoundError):
            ask(file.id)
    assert not (folder / "files" / file.id).exists()
    for path in ("..%2F..%2Fetc%2Fpasswd", "..%2Fbatches%2Fx/content", f"{second.id}.json", f"{second.id}.json/content"):
        assert server.get(f"/v1/files/{path}").status_code == 404


def long_lines(count, tokens=900):
    body = {"model": "weather", "prompt": "a", "max_tokens": tokens, "ignore_eos": True}
    return [line(i, body, "/v1/completions") for i in range(count)]


@pytest.mark.client("openai", "batches.cancel")
def test_cancel(server):
    client = client_of(server)
    batch = submit(client, long_lines(2000), "/v1/completions")
    assert wait_for(lambda: client.batches.retrieve(batch.id).request_counts.completed > 0, 30)
    waiting = submit(client, long_lines(1), "/v1/completions")
    assert client.batches.cancel(waiting.id).status == "cancelled"
    assert client.batches.cancel(batch.id).status == "cancelling"
    done = finished(client, batch)
    assert done.status == "cancelled" and 0 < done.request_counts.completed < 2000
    assert len(results(client, done.output_file_id)) == done.request_counts.completed
    assert client.batches.cancel(batch.id).status == "cancelled"


@pytest.mark.parametrize("kill", [False, True])
def test_a_restart_goes_on(start, models, folder, kill):
    args = (*models, "--batch-folder", folder)
    server = start(*args, model=False)
    client = client_of(server)
    batch = submit(client, long_lines(300, tokens=200), "/v1/completions")
    assert wait_for(lambda: client.batches.retrieve(batch.id).request_counts.completed > 20, 60)
    assert client.batches.retrieve(batch.id).status == "in_progress"
    if kill:
        server.process.kill()
        server.process.wait()
        # A line that the crash has cut.
        output = output_of(folder, batch.id)
        with open(folder / "files" / output, "ab") as file:
            file.write(b'{"id":"batch_req_299","custom_id":"r')
    else:
        assert server.stop() == 0, "".join(server.log)
    again = start(*args, model=False)
    client = client_of(again)
    done = finished(client, batch, 120)
    assert done.status == "completed"
    assert (done.request_counts.completed, done.request_counts.failed) == (300, 0)
    text = client.files.content(done.output_file_id).text.splitlines()
    assert sorted(json.loads(each)["custom_id"] for each in text) == sorted(f"r-{i}" for i in range(300))


def test_a_line_that_ended_the_server_twice_is_not_run_again(start, models, folder):
    args = (*models, "--batch-folder", folder)
    server = start(*args, model=False)
    client = client_of(server)
    batch = submit(client, long_lines(300, tokens=200), "/v1/completions")
    assert wait_for(lambda: client.batches.retrieve(batch.id).request_counts.completed > 0, 60)
    server.process.kill()
    server.process.wait()
    record = folder / "batches" / f"{batch.id}.starts"
    begun = [int(each) for each in record.read_text().split()]
    assert begun and all(each > 0 for each in begun), "what was under way is known"
    # Lines that are certainly not answered: one that was under way at two crashes, one at one.
    record.write_text("299\n299\n300\n")
    again = start(*args, model=False)
    client = client_of(again)
    done = finished(client, batch, 120)
    assert done.status == "completed"
    assert (done.request_counts.completed, done.request_counts.failed) == (299, 1)
    bad = results(client, done.error_file_id)
    assert set(bad) == {"r-298"} and bad["r-298"]["response"] is None
    assert "ended 2 times" in bad["r-298"]["error"]["message"]
    assert not record.exists()


def texts_of_one_hash(count):
    """ASCII texts for which libstdc++'s std::hash is one number: its seed is fixed, and each step can be undone."""
    word, times = numpy.uint64, numpy.uint64(0xC6A4A7935BD1E995)
    inverse = word(pow(0xC6A4A7935BD1E995, -1, 1 << 64))
    mix = lambda words: words ^ (words >> word(47))
    with numpy.errstate(over="ignore"):
        index = numpy.arange(count * 300, dtype=word)
        first = numpy.full_like(index, 0x6060606060606060)
        for digit in range(8):
            first |= (index >> word(4 * digit) & word(15)) << word(8 * digit)
        state = ((word(0xC70F6907) ^ word(16) * times) ^ (mix(first * times) * times)) * times
        second = mix((state ^ word(12345)) * inverse) * inverse
    good = second & word(0x8080808080808080) == 0
    pairs = numpy.stack([first[good], second[good]], axis=1)[:count]
    assert len(pairs) == count
    return [row.tobytes().decode("ascii") for row in pairs]


def test_a_line_that_is_read_does_not_hold_up_the_end(start, models, folder):
    keys = texts_of_one_hash(60_000)
    server = start(*models, "--batch-folder", folder, "--shutdown-timeout-s", 5, model=False)
    client = client_of(server)
    body = {"model": "weather", "messages": [{"role": "user", "content": "a"}],
            "chat_template_kwargs": dict.fromkeys(keys, 0)}
    values = {"model": "weather", "messages": [{"role": "user", "content": "a"}],
              "chat_template_kwargs": {"v": [[0]] * 400_000}}
    batch = submit(client, [line(i, each, "/v1/chat/completions") for i, each in enumerate((body, values))],
                   "/v1/chat/completions")
    assert wait_for(lambda: client.batches.retrieve(batch.id).status == "in_progress", 30)
    begin = time.monotonic()
    server.process.terminate()
    server.process.wait(60)
    assert time.monotonic() - begin < 15, "of which 5 s are for requests"


def test_an_end_that_cannot_be_saved_is_saved_later(start, models, folder):
    args = (*models, "--batch-folder", folder)
    server = start(*args, model=False)
    client = client_of(server)
    batch = submit(client, long_lines(20), "/v1/completions")
    assert wait_for(lambda: client.batches.retrieve(batch.id).status == "in_progress", 30)
    # Where the next state is written there is a folder: EISDIR.
    obstacle = folder / "batches" / f"{batch.id}.json.part"
    obstacle.mkdir()
    told = f"batch {batch.id} waits: "
    assert wait_for(lambda: any(told in line and ".json.part" in line for line in server.log), 60), server.log
    held = client.batches.retrieve(batch.id)
    assert held.status == "in_progress" and held.request_counts.completed == 20
    with pytest.raises(openai.UnprocessableEntityError):
        client.files.delete(batch.input_file_id)
    with pytest.raises(openai.InternalServerError, match="cannot open"):
        client.batches.cancel(batch.id)
    obstacle.rmdir()
    done = finished(client, batch)
    assert done.status == "completed" and len(results(client, done.output_file_id)) == 20
    assert server.stop() == 0
    again = client_of(start(*args, model=False))
    assert again.batches.retrieve(batch.id).status == "completed"


def test_empty_files_that_a_crash_has_left_are_removed(start, models, folder):
    args = (*models, "--batch-folder", folder)
    server = start(*args, model=False)
    client = client_of(server)
    batch = finished(client, submit(client, [line(1, {"model": "embed", "input": "a"})]))
    assert server.stop() == 0
    # As it is between the making of a batch's files and the saving of their names.
    known = json.loads((folder / "files" / f"{batch.output_file_id}.json").read_text())
    orphan = "file-" + "0" * 32
    (folder / "files" / orphan).write_bytes(b"")
    (folder / "files" / f"{orphan}.json").write_text(json.dumps(known))
    client = client_of(start(*args, model=False))
    assert {each.id for each in client.files.list()} == {batch.input_file_id, batch.output_file_id}
    assert not (folder / "files" / orphan).exists()


def test_batches_end_before_the_drain(start, models, folder):
    server = start(*models, "--batch-folder", folder, "--shutdown-timeout-s", "20", model=False)
    client = client_of(server)
    batch = submit(client, long_lines(5000, tokens=20), "/v1/completions")
    assert wait_for(lambda: client.batches.retrieve(batch.id).request_counts.completed > 0, 30)
    # A request that the drain waits for.
    with server.connect(30) as half_sent:
        body = b'{"model":"weather","prompt":"a","max_tokens":1}'
        half_sent.sendall(raw_post("/v1/completions", body)[:-1])
        assert wait_for(lambda: server.metrics()["penstock_http_connections"] > 1)
        server.process.terminate()
        assert wait_for(lambda: any("shutting down" in line for line in server.log), 10)
        time.sleep(1)  # until the requests under way are written
        output = folder / "files" / output_of(folder, batch.id)
        before = output.stat().st_size
        time.sleep(2)  # more could be written meanwhile
        assert server.process.poll() is None and output.stat().st_size == before
        half_sent.sendall(body[-1:])
        assert read_response(half_sent)[0] == 200
    assert server.process.wait(30) == 0


def test_a_file_that_a_batch_needs_stays(server):
    client = client_of(server)
    batch = submit(client, long_lines(2000), "/v1/completions")
    assert wait_for(lambda: client.batches.retrieve(batch.id).request_counts.completed > 0, 30)
    output = client.batches.retrieve(batch.id).output_file_id
    for file in (batch.input_file_id, output):
        with pytest.raises(openai.UnprocessableEntityError, match="a batch that waits or runs"):
            client.files.delete(file)
    client.batches.cancel(batch.id)
    assert finished(client, batch).status == "cancelled"
    assert client.files.delete(batch.input_file_id).deleted


def test_a_folder_is_for_one_server(start, server, folder):
    second = start("--batch-folder", folder, ready=False)
    assert second.process.wait(30) != 0
    assert wait_for(lambda: any("another server has the folder" in line for line in second.log)), second.log


def change_state(folder, batch, **changes):
    path = folder / "batches" / f"{batch.id}.json"
    state = json.loads(path.read_text())
    state["batch"].update(output_file_id=None, error_file_id=None, completed_at=None, **changes)
    path.write_text(json.dumps(state))


def test_a_cancel_before_there_were_files_is_finished(start, folder):
    server = start("--batch-folder", folder)
    client = client_of(server)
    batch = finished(client, submit(client, [line(1, {"input": "a"})]))
    assert server.stop() == 0
    # As a crash leaves it that comes while the input is being checked.
    change_state(folder, batch, status="cancelling", cancelling_at=batch.created_at)
    client = client_of(start("--batch-folder", folder))
    done = finished(client, batch)
    assert done.status == "cancelled" and done.cancelled_at and not done.errors, done


def test_a_removed_input_is_told(start, folder):
    server = start("--batch-folder", folder)
    client = client_of(server)
    batch = finished(client, submit(client, [line(1, {"input": "a"})]))
    assert server.stop() == 0
    change_state(folder, batch, status="validating")
    for each in ("", ".json"):
        (folder / "files" / (batch.input_file_id + each)).unlink()
    client = client_of(start("--batch-folder", folder))
    done = finished(client, batch)
    assert done.status == "failed" and [error.code for error in done.errors.data] == ["missing_file"]


def output_of(folder, batch_id):
    state = json.loads((folder / "batches" / f"{batch_id}.json").read_text())
    return state["batch"]["output_file_id"]


def test_the_folder_is_bounded(start, folder):
    server = start("--batch-folder", folder, "--batch-folder-bytes", "2000")
    client = client_of(server)
    with pytest.raises(openai.APIStatusError) as told:
        client.files.create(file=("a", b"x" * 2001), purpose="batch")
    for body in (b"", b"--x", b"{}"):
        refused = requests.post(server.url + "/v1/files", body, headers={"Content-Type": "multipart/form-data; boundary=x"})
        assert refused.status_code == 400 and "form" in refused.json()["error"]["message"]
    assert told.value.status_code == 413 and "--batch-folder-bytes" in str(told.value)
    lines = [line(i, {"input": "a"}) for i in range(10)]
    batch = finished(client, submit(client, lines))
    assert batch.status == "failed" and "--batch-folder-bytes" in batch.errors.data[0].message


def test_files_and_batches_belong_to_a_key(start, folder):
    server = start("--batch-folder", folder, "--api-key", "one", "--api-key", "two")
    one, two = client_of(server, "one"), client_of(server, "two")
    batch = finished(one, submit(one, [line(1, {"input": "a"})]))
    assert batch.status == "completed"
    assert list(two.batches.list()) == [] and list(two.files.list()) == []
    for ask in (lambda: two.batches.retrieve(batch.id), lambda: two.batches.cancel(batch.id),
                lambda: two.files.content(batch.output_file_id), lambda: two.files.delete(batch.input_file_id)):
        with pytest.raises(openai.NotFoundError):
            ask()
    assert one.files.content(batch.output_file_id).text


def test_a_long_batch_of_one_key_does_not_delay_another(start, models, folder):
    server = start(*models, "--batch-folder", folder, "--api-key", "one", "--api-key", "two", model=False)
    one, two = client_of(server, "one"), client_of(server, "two")
    long = submit(one, long_lines(5000), "/v1/completions")
    next_of_one = submit(one, long_lines(1), "/v1/completions")
    assert wait_for(lambda: one.batches.retrieve(long.id).request_counts.completed > 0, 30)
    assert finished(two, submit(two, [line(1, {"model": "embed", "input": "a"})])).status == "completed"
    assert one.batches.retrieve(long.id).status == "in_progress"
    assert one.batches.retrieve(next_of_one.id).status == "validating"
    one.batches.cancel(long.id)
    assert finished(one, long).status == "cancelled"
    assert finished(one, next_of_one).status == "completed"


def test_long_batches_of_four_keys_do_not_keep_a_fifth_waiting(start, models, folder):
    """As many batches run at once: they take turns with those of others."""
    keys = ["one", "two", "three", "four", "five"]
    server = start(*models, "--batch-folder", folder, *(arg for key in keys for arg in ("--api-key", key)), model=False)
    clients = [client_of(server, key) for key in keys]
    long = [submit(client, long_lines(5000), "/v1/completions") for client in clients[:4]]
    status = lambda: [client.batches.retrieve(batch.id).status for client, batch in zip(clients, long)]
    assert wait_for(lambda: status() == ["in_progress"] * 4, 30)
    short = submit(clients[4], [line(1, {"model": "embed", "input": "a"})])
    assert finished(clients[4], short, 60).status == "completed"
    assert status() == ["in_progress"] * 4
    # One that waits for its next turn goes on; a cancel ends it.
    counts = lambda: [client.batches.retrieve(batch.id).request_counts.completed for client, batch in zip(clients, long)]
    before = counts()
    assert wait_for(lambda: all(now > then for now, then in zip(counts(), before)), 60)
    for client, batch in zip(clients, long):
        client.batches.cancel(batch.id)
    for client, batch in zip(clients, long):
        done = finished(client, batch, 60)
        assert done.status == "cancelled"
        assert len(results(client, done.output_file_id)) == done.request_counts.completed > 0


def test_owners_are_told_by_a_key_of_the_folder(start, folder):
    """Which also reads what earlier versions kept by a hash without a key."""
    args = ("--batch-folder", folder, "--api-key")
    server = start(*args, "one")
    batch = finished(client_of(server, "one"), submit(client_of(server, "one"), [line(1, {"input": "a"})]))
    assert server.stop() == 0
    assert (folder.stat().st_mode & 0o777, (folder / "owner-key").stat().st_mode & 0o777) == (0o700, 0o600)
    old = hashlib.sha256(b"owner:one").hexdigest()
    states = [*folder.glob("files/*.json"), *folder.glob("batches/*.json")]
    assert len(states) == 3
    for state in states:
        kept = json.loads(state.read_text())
        assert kept["owner"].startswith("owner-") and old not in kept["owner"]
        state.write_text(json.dumps({**kept, "owner": old}))
    one = client_of(start(*args, "one"), "one")
    assert [each.id for each in one.batches.list()] == [batch.id]
    assert one.files.content(batch.output_file_id).text
    assert not any(old in state.read_text() for state in states)


def test_files_of_keys_that_are_gone_are_for_administrators(start, folder):
    args = ("--batch-folder", folder, "--admin-api-key", "admin", "--api-key", "two")
    server = start(*args, "--api-key", "one")
    file = client_of(server, "one").files.create(file=("in.jsonl", b"12345"), purpose="batch")
    kept = client_of(server, "two").files.create(file=("in.jsonl", b"1"), purpose="batch")
    gone = lambda server, key: server.get("/v1/files?owner=gone", headers={"Authorization": f"Bearer {key}"})
    assert gone(server, "admin").json()["data"] == []
    assert server.stop() == 0 and "keys that are gone" not in "".join(server.log)
    server = start(*args)
    assert any("1 files with 5 bytes" in entry and "keys that are gone" in entry for entry in server.log), server.log
    assert gone(server, "two").status_code == 400
    assert [each["id"] for each in gone(server, "admin").json()["data"]] == [file.id]
    delete = lambda id, key: requests.delete(f"{server.url}/v1/files/{id}?owner=gone",
                                             headers={"Authorization": f"Bearer {key}"}).status_code
    assert delete(file.id, "two") == 400 and delete(kept.id, "admin") == 404
    assert delete(file.id, "admin") == 200
    assert gone(server, "admin").json()["data"] == []
    assert [each.id for each in client_of(server, "two").files.list()] == [kept.id]


def test_without_a_folder_there_are_none(start):
    server = start()
    assert "--batch-folder" in server.post("/v1/batches", {}).json()["error"]["message"]
    for path in ("/v1/files", "/v1/batches", "/v1/files/x"):
        answer = server.get(path)
        assert answer.status_code == 404 and "--batch-folder" in answer.json()["error"]["message"]


def test_interactive_work_goes_first(server):
    client = client_of(server)
    batch = submit(client, [line(i, {"model": "embed", "input": ["dog " * 100] * 16}) for i in range(400)])
    assert wait_for(lambda: client.batches.retrieve(batch.id).status == "in_progress")
    begin = time.monotonic()
    for _ in range(5):
        client.embeddings.create(model="embed", input="a")
    assert time.monotonic() - begin < 5
    client.batches.cancel(batch.id)
    assert finished(client, batch).status in ("cancelled", "completed")
