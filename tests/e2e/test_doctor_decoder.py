"""penstock doctor of models that generate text."""
import json
import os
import pathlib
import struct

import pytest

from conftest import ROOT, clean_environment, run

DATA = pathlib.Path(os.environ.get("PENSTOCK_TESTDATA", ROOT / ".." / "shared" / "testdata"))
STORIES = DATA / "vespa-engine__vespa" / "tinyllm.gguf"
VARIANTS = ("default", "bf16", "cache_f16", "cache_int8")
CHECKS = ("load", "tokenizer", "finite", "batch", "threads", "kernels")


@pytest.fixture(scope="module")
def stories():
    if not STORIES.is_file():
        pytest.skip(f"NO TEST DATA at {DATA}: set PENSTOCK_TESTDATA")
    return STORIES


def doctor(*args, **more):
    environment = clean_environment()
    del environment["PENSTOCK_DTYPE"]
    return run("doctor", "-m", *args, env=environment, **more)


def verdicts(done):
    """The verdict of each check but accuracy, and the lines of accuracy."""
    rows = [line.split(None, 2) for line in done.stdout.decode().splitlines()]
    return {check: verdict for verdict, check, _ in rows if check != "accuracy"}, \
        [(verdict, text) for verdict, check, text in rows if check == "accuracy"]


def values(path):
    return {r["name"]: r["value"] for r in map(json.loads, path.read_text().splitlines())}


def test_a_trained_model_is_well(stories, tmp_path):
    records = tmp_path / "records.jsonl"
    done = doctor(stories, "--json", records)
    checks, accuracy = verdicts(done)
    assert checks == dict.fromkeys(CHECKS, "ok")
    assert "generation, llama, 292800 parameters stored as F32" in done.stdout.decode()
    assert accuracy[0][0] == "ok" and accuracy[0][1].startswith("the default type")
    assert any("cache in f16" in text for _, text in accuracy)
    found = values(records)
    for variant in VARIANTS:
        assert 0 < found[f"generate.kl.{variant}"] <= found[f"generate.kl_max.{variant}"] < 2
        assert 80 < found[f"generate.agreement.{variant}"] <= 100
        assert abs(found[f"generate.perplexity_difference.{variant}"]) < 5
    assert found["generate.kl.default"] <= 2e-3
    # The coarser cache is the further one.
    assert found["generate.kl.cache_f16"] < found["generate.kl.cache_int8"]


def test_a_warning_names_the_number(stories, tmp_path):
    """The cache of eight numbers a head in int8 is beyond the limit for this model."""
    records = tmp_path / "records.jsonl"
    done = doctor(stories, "--json", records, "-q")
    assert done.stderr == b""
    kl = values(records)["generate.kl.cache_int8"]
    warned = [text for verdict, text in verdicts(done)[1] if verdict == "WARN"]
    assert (kl > 2e-3) == any(f"mean KL {kl:.6f} (limit 0.002)" in text for text in warned)
    assert kl > 2e-3, "take another variant for this test"


def test_types_and_threads(stories):
    for flags in (("--dtype", "f32", "--threads", "1"), ("--dtype", "bf16", "--threads", "3")):
        done = doctor(stories, "--accuracy-texts", "0", *flags)
        checks, accuracy = verdicts(done)
        assert checks == dict.fromkeys(CHECKS, "ok"), done.stdout
        assert f"computed in {flags[1]}, " in done.stdout.decode()
        assert accuracy == [("-", "--accuracy-texts is 0")]
    refused = doctor(stories, "--dtype", "int8", check=False)
    assert refused.returncode == 1
    assert refused.stdout.startswith(b"FAIL  load") and b"int8 products of F32" in refused.stdout


def test_texts_of_ones_own(stories, tmp_path):
    """Text that the model was made for: the same numbers for the same text, others for others."""
    def perplexity(text):
        file = tmp_path / "text.txt"
        file.write_text(text + "\n")
        line = verdicts(doctor(stories, "--texts", file, "-q"))[1][0][1]
        return float(line.split("of f32 ")[1].split()[0])
    story = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
    assert perplexity(story) == perplexity(story) < 3
    assert perplexity("Interest rates rose by 0.25 % in Q3.") > 20
    file = tmp_path / "empty.txt"
    file.write_text("")
    wrong = doctor(stories, "--texts", file, check=False)
    assert wrong.returncode == 1 and b"FAIL  accuracy" in wrong.stdout
    wrong = doctor(stories, "--texts", tmp_path / "none", check=False)
    assert wrong.returncode == 1 and b"No such file" in wrong.stdout


def test_weights_that_are_not_finite_fail(stories, tmp_path):
    broken = tmp_path / "broken.gguf"
    raw = bytearray(stories.read_bytes())
    raw[-256:] = struct.pack("<f", float("nan")) * 64
    broken.write_bytes(raw)
    records = tmp_path / "records.jsonl"
    done = doctor(broken, "--json", records, check=False)
    assert done.returncode == 1
    checks, accuracy = verdicts(done)
    assert checks["load"] == "ok" and checks["finite"] == "FAIL"
    assert {verdict for verdict, _ in accuracy} == {"FAIL"} and "mean KL nan" in accuracy[0][1]
    assert values(records)["generate.kl.default"] is None


def test_a_model_that_cannot_be_loaded_fails(stories, tmp_path):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(stories.read_bytes()[:100_000])
    for model in (cut, tmp_path / "none.gguf"):
        done = doctor(model, check=False)
        assert done.returncode == 1
        assert done.stdout.startswith(b"FAIL  load       cannot load model"), done.stdout


def test_flags_of_encoders_are_refused(stories):
    for flags in (("--try-keep",), ("--int8-keep", "qkv"), ("--pooling", "cls")):
        done = doctor(stories, *flags, check=False)
        assert done.returncode == 2
        assert flags[0].encode() + b": for encoders only" in done.stderr


def test_threads_are_tried(stories):
    told = doctor(stories, "--accuracy-texts", "0", "--try-threads").stdout.decode()
    assert "--threads 1: " in told and "tokens of prompts/s, " in told and " tokens decoded/s" in told
    assert told.splitlines()[-1].split()[1] == "threads"
