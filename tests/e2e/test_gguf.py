"""Models in GGUF files, as a person names them: a file, or a folder with one."""
import json

import numpy as np
import pytest

import gguf_file
from conftest import EMBED, GOLDEN, expected, run

NOMIC = "nomic_published_config"
TEXTS = ["a text", "Another one, with accents: é à.", "x"]


def lines(done):
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def embeddings(model, *args):
    rows = lines(run("embed", "--model", model, *args, stdin="\n".join(TEXTS).encode()))
    return np.array([row["embedding"] for row in rows])


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("name", [EMBED, NOMIC])
def test_an_encoder_gives_what_its_folder_gives(name, tmp_path):
    model = gguf_file.encoder(GOLDEN / name, tmp_path / "model.gguf", pooling=1)
    wanted = embeddings(GOLDEN / name)
    assert np.abs(embeddings(model) - unit(wanted)).max() < 1e-6
    assert np.abs(embeddings(tmp_path) - unit(wanted)).max() < 1e-6  # the folder it lies in
    described = json.loads(run("inspect", "--json", "--model", model).stdout)
    assert described["tokenizer"] == "WordPiece" and described["pooling"] == "mean"
    assert described["normalize"] and described["path"] == str(model)


def test_pooling_that_the_file_does_not_say_must_be_said(tmp_path):
    model = gguf_file.encoder(GOLDEN / EMBED, tmp_path / "model.gguf", pooling=0)
    done = run("embed", "--model", model, stdin=b"x", check=False)
    assert done.returncode == 1 and b"pass --pooling" in done.stderr
    assert embeddings(model, "--pooling", "mean").shape == (3, 32)


def test_a_server_answers_with_it(start, tmp_path):
    model = gguf_file.encoder(GOLDEN / EMBED, tmp_path / "model.gguf", pooling=1)
    server = start("--model", f"tiny={model}")
    answer = server.post("/v1/embeddings", {"model": "tiny", "input": TEXTS})
    rows = np.array([row["embedding"] for row in answer.json()["data"]])
    assert np.abs(rows - embeddings(model)).max() < 1e-6


def test_tokenize_reads_a_gguf_file(tmp_path):
    model = gguf_file.encoder(GOLDEN / EMBED, tmp_path / "model.gguf", pooling=1)
    cases = [case for case in expected(EMBED)["texts"] if not case.get("prompt_name") and "\n" not in case["text"]]
    texts = "\n".join(case["text"] for case in cases if case["text"].strip()).encode()
    wanted = [row["ids"] for row in lines(run("tokenize", "--model", GOLDEN / EMBED, stdin=texts))]
    for given in (model, tmp_path):
        assert [row["ids"] for row in lines(run("tokenize", "--model", given, stdin=texts))] == wanted


def test_tokenize_reads_one_of_a_generating_model(tmp_path):
    model = gguf_file.write(tmp_path / "model.gguf", {
        "general.architecture": "llama", "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "\u2581a", "\u2581", "a", "b", "ab"],
        "tokenizer.ggml.token_type": [2, 3, 3, 1, 1, 1, 1, 1],
        "tokenizer.ggml.scores": [0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0, -0.5]})
    rows = lines(run("tokenize", "--model", model, stdin=b"a ab\nb"))
    assert [row["ids"] for row in rows] == [[1, 3, 4, 7], [1, 4, 6]]
    assert rows[0]["tokens"] == ["<s>", "\u2581a", "\u2581", "ab"]


def test_what_a_file_lacks_is_told_by_its_key(tmp_path):
    keys = {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "martian",
            "tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.merges": ["a a"]}
    model = gguf_file.write(tmp_path / "model.gguf", keys)
    done = run("tokenize", "--model", model, stdin=b"x", check=False)
    assert done.returncode == 1 and b'pre-tokenizer "martian" is not supported; supported are' in done.stderr
    gguf_file.write(model, {**keys, "tokenizer.ggml.pre": "gpt-2"})
    done = run("tokenize", "--model", model, stdin=b"x", check=False)
    assert done.returncode == 1 and b'tokenizer.ggml.merges[0] needs "aa"' in done.stderr
    done = run("embed", "--model", model, stdin=b"x", check=False)
    assert done.returncode == 1 and b"it generates text; it gives no vectors and no scores" in done.stderr
    gguf_file.write(tmp_path / "second.gguf", keys)
    done = run("embed", "--model", tmp_path, stdin=b"x", check=False)
    assert done.returncode == 1 and b"2 GGUF models (model.gguf, second.gguf); name the file of one" in done.stderr
