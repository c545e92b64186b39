"""Models are checked before they serve: by what must hold for each, and by the answers they come with."""
import json
import re
import shutil
import time

import pytest

from conftest import EMBED, GOLDEN, RERANK, Server, clean_environment, expected, run

LLAMA = GOLDEN.parent / "decoders" / "llama"


def copy(model, folder, answers=None):
    shutil.copytree(GOLDEN / model, folder)
    if answers is not None:
        (folder / "known_answers.json").write_text(json.dumps(answers))
    return folder


def embeddings(turned=False):
    """What the model must give, and the same with two texts in each other's place."""
    texts = [text for text in expected(EMBED)["texts"] if text["prompt_name"] is None][:2]
    vectors = [text["embedding"] for text in texts]
    return {"inputs": [text["text"] for text in texts], "embeddings": vectors[::-1] if turned else vectors}


def scores(off=0.0):
    pairs = expected(RERANK)["texts"]
    query = pairs[0]["text"]
    return {"query": query, "documents": [pair["text_pair"] for pair in pairs if pair["text"] == query],
            "scores": [pair["logits"][0] + off for pair in pairs if pair["text"] == query]}


@pytest.fixture
def environment(tmp_path):
    return clean_environment(XDG_CACHE_HOME=str(tmp_path / "cache"))


def records(tmp_path):
    folder = tmp_path / "cache" / "penstock" / "checked"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def refusal(model, environment, *args):
    """What a server says that does not start."""
    server = Server("--model", model, *args, env=environment, ready=False)
    assert server.process.wait(30) != 0
    time.sleep(0.1)  # until its last lines are read
    return "".join(server.log)


@pytest.mark.parametrize("model, answers", [(EMBED, embeddings()), (RERANK, scores())])
def test_a_model_that_gives_its_answers_serves(model, answers, tmp_path, environment, start):
    server = start("--model", copy(model, tmp_path / "model", answers), "--log-level", "debug", model=False,
                   env=environment)
    assert server.get("/readyz").status_code == 200
    assert "gives the answers of known_answers.json" in "".join(server.log)


@pytest.mark.parametrize("model, answers, says", [
    (EMBED, embeddings(turned=True), r"inputs\[0\]: the cosine with the vector it must give is 0\.\d+"),
    (RERANK, scores(off=0.5), r"documents\[0\]: the score is .*, it must be .* \(tolerance 0.001\)"),
    (EMBED, {**embeddings(), "tolerence": 1}, r"known_answers.json: 'tolerence' is not a field"),
    (EMBED, scores(), r"'inputs' is missing"),
])
def test_a_model_that_does_not_is_refused(model, answers, says, tmp_path, environment):
    folder = copy(model, tmp_path / "model", answers)
    log = refusal(folder, environment)
    assert re.search(says, log) and "known_answers.json" in log, log
    assert not records(tmp_path)
    command = "rerank" if model == RERANK else "embed"
    args = ("--query", "a") if model == RERANK else ()
    assert run(command, "--model", folder, *args, stdin=b"b\n", env=environment, check=False).returncode != 0
    run(command, "--model", folder, "--no-check-models", *args, stdin=b"b\n", env=environment)


def test_the_request_is_told_where_models_are_loaded_by_requests(tmp_path, environment, start):
    folder = copy(EMBED, tmp_path / "bad", embeddings(turned=True))
    server = start("--model", f"good={GOLDEN / EMBED}", "--model", f"bad={folder}", model=False, preload=False,
                   env=environment)
    answer = server.post("/v1/embeddings", {"model": "bad", "input": "a"})
    assert answer.status_code in (500, 503) and "the cosine" in answer.text, answer.text
    assert server.post("/v1/embeddings", {"model": "good", "input": "a"}).status_code == 200


def test_a_model_is_checked_once(tmp_path, environment):
    folder = copy(EMBED, tmp_path / "model")
    lines = []
    for _ in range(2):
        done = run("embed", "--model", folder, "--log-level", "debug", stdin=b"a\n", env=environment)
        lines.append(re.findall(r"checked in [\d.]+ ms", done.stderr.decode()))
    assert [len(line) for line in lines] == [1, 0], lines
    record, = records(tmp_path)
    assert str(folder) in record.read_text()
    # A file of the model changed.
    (folder / "config.json").write_text((folder / "config.json").read_text() + "\n")
    run("embed", "--model", folder, stdin=b"a\n", env=environment)
    assert len(records(tmp_path)) == 2


def test_weights_that_are_no_numbers_are_refused(tmp_path, environment):
    folder = copy(EMBED, tmp_path / "model")
    file = folder / "model.safetensors"
    data = bytearray(file.read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    data[begin:] = b"\xff" * (len(data) - begin)
    file.write_bytes(data)
    log = refusal(folder, environment)
    assert "is nan" in log and "penstock doctor" in log, log
    done = run("doctor", "--model", folder, "--accuracy-texts", "0", env=environment, check=False)
    assert b"FAIL finite" in done.stdout.replace(b"  ", b" "), done.stdout


def test_a_decoder(tmp_path, environment, start):
    folder = tmp_path / "llama"
    shutil.copytree(LLAMA, folder)
    ask = {"prompt": "The quick brown fox", "max_tokens": 8, "temperature": 0}
    server = start("--model", folder, model=False, env=environment)
    text = server.post("/v1/completions", ask).json()["choices"][0]["text"]
    assert len(records(tmp_path)) == 1
    server.stop()
    answers = folder / "known_answers.json"
    answers.write_text(json.dumps({"prompt": ask["prompt"], "greedy": text}))
    server = start("--model", folder, model=False, env=environment)
    assert server.post("/v1/completions", ask).status_code == 200
    server.stop()
    answers.write_text(json.dumps({"prompt": ask["prompt"], "greedy": "x" + text}))
    log = refusal(folder, environment)
    assert "after 'prompt' comes" in log, log
