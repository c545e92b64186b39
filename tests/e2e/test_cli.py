"""The commands, from the command line."""
import json
import os
import re
import subprocess

import numpy as np
import pytest

from conftest import CLASSIFY, EMBED, GOLDEN, RERANK, binary, clean_environment, expected, run

TEXTS = [case["text"] for case in expected(EMBED)["texts"]
         if not case.get("prompt_name") and case["text"].strip() and "\n" not in case["text"]]
WANTED = {case["text"]: case["embedding"] for case in expected(EMBED)["texts"]
          if not case.get("prompt_name")}


def lines(done):
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def test_embed_keeps_the_order(tmp_path):
    texts = TEXTS * 60  # many batches
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(texts) + "\n")
    rows = lines(run("embed", "--model", GOLDEN / EMBED, "--batch", 7, path))
    assert [row["index"] for row in rows] == list(range(len(texts)))
    for row, text in zip(rows, texts):
        assert np.abs(np.array(row["embedding"]) - WANTED[text]).max() < 1e-5


def test_embed_reads_stdin_and_jsonl_and_writes_npy(tmp_path):
    jsonl = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()
    out = tmp_path / "vectors.npy"
    run("embed", "--model", GOLDEN / EMBED, "-o", out, stdin=jsonl)
    matrix = np.load(out)
    assert matrix.dtype == np.float32 and matrix.shape == (len(TEXTS), 32)
    assert np.abs(matrix - [WANTED[text] for text in TEXTS]).max() < 1e-5
    rows = lines(run("embed", "--model", GOLDEN / EMBED, stdin=jsonl))
    assert np.array_equal(np.array([r["embedding"] for r in rows], np.float32), matrix)


def test_embed_options():
    done = run("embed", "--model", GOLDEN / EMBED, "--prompt-name", "query", "--dimensions", 8,
               stdin=b"dog\n")
    assert len(lines(done)[0]["embedding"]) == 8
    cut = run("embed", "--model", GOLDEN / EMBED, stdin=b"dog " * 100 + b"\n")
    assert b"cut" in cut.stderr
    refused = run("embed", "--model", GOLDEN / EMBED, "--no-auto-truncate", stdin=b"dog " * 100,
                  check=False)
    assert refused.returncode == 1 and b"48" in refused.stderr


def test_rerank():
    case = next(case for case in expected(RERANK)["texts"] if case.get("text_pair"))
    done = run("rerank", "--model", GOLDEN / RERANK, "--query", case["text"],
               stdin=(case["text_pair"] + "\nsomething else\n").encode())
    results = lines(done)[0]["results"]
    assert sorted(r["index"] for r in results) == [0, 1]
    assert results[0]["score"] >= results[1]["score"]
    mine = next(r for r in results if r["index"] == 0)
    assert mine["score"] == pytest.approx(case["logits"][0], abs=1e-4)


def test_classify():
    case = next(case for case in expected(CLASSIFY)["texts"] if not case.get("text_pair"))
    row = lines(run("classify", "--model", GOLDEN / CLASSIFY, stdin=case["text"].encode()))[0]
    assert str(max(case["scores"]))[:5] in json.dumps(row)


def test_tokenize():
    case = next(case for case in expected(EMBED)["texts"] if not case.get("prompt_name"))
    row = lines(run("tokenize", "--model", GOLDEN / EMBED, stdin=case["text"].encode()))[0]
    assert row["ids"] == case["ids"]


def test_inspect_and_doctor():
    inspected = json.loads(run("inspect", "--json", "--model", GOLDEN / EMBED).stdout)
    assert inspected["task"] == "embedding" and inspected["dimensions"] == 32
    text = run("inspect", "--model", GOLDEN / EMBED).stdout.decode()
    assert "WordPiece" in text
    # 32 x 32 and 32 of the pooler.
    assert re.search(r"^left out +1056 of the stored parameters, .*: pooler.dense.bias, pooler.dense.weight$", text, re.M)


def test_doctor_tries_threads():
    done = run("doctor", "--model", GOLDEN / EMBED, "--accuracy-texts", "0", "--threads", "1", "--try-threads")
    tried = re.findall(r"^-     threads    --threads (\d+): ([0-9.e+]+) texts of 60 words/s, [0-9.e+]+ single", done.stdout.decode(), re.M)
    counts = [int(count) for count, _ in tried]
    assert counts[0] == 1 and counts == sorted(set(counts))
    assert counts[-1] <= len(os.sched_getaffinity(0)) and all(float(rate) > 0 for _, rate in tried)
    verdict = done.stdout.decode().splitlines()[-1]
    assert re.match(r"ok    threads    1 thread is used|WARN  threads    --threads \d+ does", verdict), verdict


def test_tensor_models_are_inspected_and_take_no_texts():
    model = "builtin:add?type=INT32&shape=2x-1"
    inspected = json.loads(run("inspect", "--json", "--model", model).stdout)
    assert inspected["name"] == "add" and inspected["task"] == "tensors"
    assert inspected["platform"] == "builtin" and inspected["max_batch_size"] == 256
    assert inspected["inputs"][1] == {"name": "INPUT1", "datatype": "INT32", "shape": "[1..,2,-1]"}
    assert [output["name"] for output in inspected["outputs"]] == ["OUTPUT0", "OUTPUT1"]
    text = run("inspect", "--model", model).stdout.decode()
    assert re.search(r"^input +INPUT0: INT32 \[1..,2,-1\]$", text, re.M)
    wrong = run("inspect", "--model", "builtin:add?type=FP16", check=False)
    assert wrong.returncode != 0 and b"option 'type' is FP16, not one of FP32, INT32" in wrong.stderr
    for command in ("embed", "tokenize"):
        refused = run(command, "--model", model, stdin=b"text\n", check=False)
        assert refused.returncode != 0 and b"takes and gives tensors" in refused.stderr


@pytest.mark.parametrize("model", [EMBED, RERANK, CLASSIFY])
def test_inspect_prints_the_program(model):
    args = ("inspect", "--model", GOLDEN / model, "--dtype", "f32", "--program")
    shown = json.loads(run(*args, "--json", "--sequences", 3, "--length", 20).stdout)
    program, hidden, heads = shown["program"], shown["hidden_size"], shown["heads"]
    assert program["sequences"] == 3 and program["length"] == 20
    ops = program["ops"]
    assert ops[0]["op"] == "embed" and [op["op"] for op in ops].count("attention") == shown["layers"]
    qkv = next(op for op in ops if op["op"] == "linear")
    assert qkv["operations"] == 2 * 60 * 3 * hidden * hidden
    assert f"[{3 * hidden}, {hidden}] f32" in qkv["text"]
    first = next(op for op in ops if op["op"] == "attention")
    assert first["text"].endswith(f"{heads} heads of {hidden // heads})")
    assert first["operations"] == 4 * 3 * 20 * 20 * hidden
    for key in ("operations", "weight_bytes", "activation_bytes"):
        assert program[key] == sum(op[key] for op in ops)
    # Where the first token is the result, the last layer is done for that token of each sequence alone.
    last = [op for op in ops if op["op"] == "attention"][-1]
    assert last["operations"] == first["operations"] // (1 if model == EMBED else 20), last
    text = run(*args).stdout.decode()
    for op in ops:
        assert op["text"] in text
    too_long = run(*args, "--length", 99999, check=False)
    assert too_long.returncode == 2 and b"--length" in too_long.stderr
    assert run("inspect", "--model", GOLDEN / model, "--length", 20, check=False).returncode == 2


@pytest.mark.parametrize("model", [EMBED, RERANK, CLASSIFY])
def test_doctor_compares_the_types(model, tmp_path):
    args = ("doctor", "--model", GOLDEN / model, "--accuracy-texts", 120)
    records = tmp_path / "records.jsonl"
    done = run(*args, "--json", records)
    assert b"FAIL" not in done.stdout
    said = [line for line in done.stdout.decode().splitlines() if "  accuracy " in line]
    assert any("bf16: " in line for line in said) and any("int8: " in line for line in said)
    assert b"inputs in bf16" in done.stderr and b"in bf16" not in run(*args, "--quiet").stderr
    values = {r["name"]: r["value"] for r in map(json.loads, records.read_text().splitlines())}
    for dtype in ("bf16", "int8"):
        assert 0 <= values[f"accuracy.{dtype}.spearman_difference"] < 0.1
        assert 50 < values[f"accuracy.{dtype}.top10_overlap_percent"] <= 100
        if model == EMBED:
            mean, least = (values[f"accuracy.{dtype}.cosine_{x}"] for x in ("mean", "min"))
            assert 0.9 < least <= mean <= 1 + 1e-9
        else:
            mean, most = (values[f"accuracy.{dtype}.score_difference_{x}"] for x in ("mean", "max"))
            assert 0 < mean <= most < 1
    difference = "accuracy.{}.spearman_difference"
    assert values[difference.format("bf16")] < values[difference.format("int8")]


def test_doctor_on_own_texts_and_kept_parts(tmp_path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": f"{text} {i}"}) + "\n"
                             for i in range(10) for text in TEXTS[:8]))
    def mean(*more):
        records = tmp_path / "records.jsonl"
        run("doctor", "--model", GOLDEN / EMBED, "--texts", texts, "--json", records, *more)
        values = {r["name"]: r["value"] for r in map(json.loads, records.read_text().splitlines())}
        return values["accuracy.int8.cosine_mean"]
    plain, kept = mean(), mean("--int8-keep", "qkv,attention-out,ff-in,ff-out")
    assert 1 - kept < (1 - plain) / 3, (plain, kept)
    tried = run("doctor", "--model", GOLDEN / EMBED, "--texts", texts, "--try-keep").stdout
    line = next(line for line in tried.decode().splitlines() if "one part kept" in line)
    for part in ("qkv", "attention-out", "ff-in", "ff-out", " 0 ", " 1 "):
        assert part in line, line
    wrong = run("doctor", "--model", GOLDEN / EMBED, "--texts", tmp_path / "none", check=False)
    assert wrong.returncode == 1 and b"none: No such file" in wrong.stdout
    wrong = run("doctor", "--model", GOLDEN / EMBED, "--dtype", "int8", "--int8-keep", "9",
                "--accuracy-texts", 0, check=False)
    assert wrong.returncode == 1 and b"--int8-keep '9': the model has" in wrong.stdout


def test_dtype_of_one_model():
    def inspect(*args, env=None):
        return json.loads(run("inspect", "--json", "--model", GOLDEN / EMBED, *args, env=env).stdout)
    name = inspect()["name"]
    assert inspect("--dtype", "f32", "--dtype", f"{name}=int8")["dtype"] == "int8"
    env = clean_environment(PENSTOCK_DTYPE=f"{name}=int8", PENSTOCK_INT8_KEEP="ff-out,-1")
    shown = inspect(env=env)
    assert shown["dtype"] == "int8" and shown["int8_keep"] == "ff-out,-1"
    assert shown["weight_bytes"] > inspect("--dtype", "int8")["weight_bytes"]
    for args, said in ((["--dtype", "other=int8"], b"--dtype names 'other', which is not served"),
                       (["--dtype", f"{name}=int4"], b"unknown dtype 'int4'"),
                       (["--dtype", "int8", "--int8-keep", "ff"], b"'ff' is not a layer"),
                       (["--dtype", "int8", "--int8-keep", "7"], b"--int8-keep '7': the model has")):
        done = run("inspect", "--model", GOLDEN / EMBED, *args, check=False)
        assert done.returncode in (1, 2) and said in done.stderr, done.stderr


def test_help_and_version():
    assert b"serve" in run("--help").stdout
    assert run("--version").stdout.startswith(b"penstock ")
    for command in ("serve", "embed", "rerank", "classify", "tokenize", "inspect", "doctor"):
        assert b"--model" in run(command, "--help").stdout, command


def test_each_flag_has_one_default():
    commands = re.findall(r"^  (\w+) +[A-Z][a-z]", run("--help").stdout.decode(), re.MULTILINE)
    assert {"serve", "inspect", "chat"} <= set(commands)
    for command in commands:
        text = run(command, "--help-all" if command != "bench" else "--help").stdout.decode()
        for flag in re.split(r"\n(?=  -)", text):
            assert not re.search(r"\]\s+\[[^\]\n]*\]\s*$", flag.split("\n\n")[0]), (command, flag)


@pytest.mark.parametrize("args", [
    ["nonsense"], ["rerank"], ["embed", "--model", "/no/such/folder"], ["embed", "--no-such-flag"],
    ["serve", "--model", "x", "--port", "99999"], ["serve", "--config", "/no/such/file"],
])
def test_mistakes_are_said(args):
    done = run(*args, check=False, stdin=b"")
    assert done.returncode in (1, 2) and b"penstock" in done.stderr, done.stderr
    assert b"terminate called" not in done.stderr


def test_flag_then_environment_then_file(tmp_path):
    config = tmp_path / "penstock.toml"
    config.write_text(f'model = "{GOLDEN / EMBED}"\ndimensions = 4\n')
    length = lambda done: len(lines(done)[0]["embedding"])
    assert length(run("embed", "--config", config, stdin=b"a")) == 4
    env = clean_environment(PENSTOCK_DIMENSIONS="8")
    assert length(run("embed", "--config", config, stdin=b"a", env=env)) == 8
    assert length(run("embed", "--config", config, "--dimensions", 16, stdin=b"a", env=env)) == 16
    config.write_text(config.read_text() + "no-such-setting = 1\n")
    done = run("embed", "--config", config, stdin=b"a", check=False)
    assert done.returncode == 2 and b"no-such-setting" in done.stderr


def test_dtypes():
    wanted = None
    for dtype, cosine_min in (("f32", 1 - 1e-6), ("bf16", 0.999), ("int8", 0.99)):
        done = run("embed", "--model", GOLDEN / EMBED, "--dtype", dtype,
                   stdin="".join(json.dumps(text) + "\n" for text in TEXTS).encode())
        rows = np.array([json.loads(line)["embedding"] for line in done.stdout.splitlines()])
        wanted = rows if wanted is None else wanted
        cosines = (rows * wanted).sum(1) / np.linalg.norm(rows, axis=1)
        assert (cosines / np.linalg.norm(wanted, axis=1) > cosine_min).all(), dtype
    refused = run("embed", "--model", GOLDEN / EMBED, "--dtype", "int4", check=False)
    assert refused.returncode == 2 and b"--dtype" in refused.stderr


def test_a_terminal_that_is_waited_for_is_told():
    for command, model in (("embed", EMBED), ("tokenize", EMBED)):
        ours, theirs = os.openpty()
        process = subprocess.Popen([binary(), command, "--model", GOLDEN / model], stdin=theirs,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
        os.close(theirs)
        assert process.stderr.readline() == b"reading texts from the terminal, one a line; Ctrl-D ends them\n"
        os.write(ours, b"dog\n\x04")
        assert len(process.communicate(timeout=30)[0].splitlines()) == 1 and process.returncode == 0
        os.close(ours)
