"""penstock embed that ends early and goes on: signals, kill -9, a full disk, a server that dies."""
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from conftest import EMBED, GOLDEN, ROOT, binary, clean_environment, run

MODEL = ("--model", GOLDEN / EMBED)
OTHER = "bert_max_bf16_odd"
ROWS = 4000


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "in.txt"
    path.write_text("".join("dog " * (1 + 31 * i % 97) + f"{i}\n" for i in range(ROWS)))
    return path


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """What an undisturbed run writes."""
    out = tmp_path_factory.mktemp("whole") / "x.npy"
    run("embed", *MODEL, corpus, "-o", out)
    assert np.load(out).shape == (ROWS, 32)
    return out.read_bytes()


def begin(*args, stdin=None, **more):
    return subprocess.Popen([binary(), "embed", *map(str, args)], stdin=stdin, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=clean_environment(), **more)


def wait_for(path, process):
    """Until the run has written it, or has ended."""
    for _ in range(2000):
        if path.exists() or process.poll() is not None:
            return
        time.sleep(0.005)  # polls
    raise AssertionError(f"{path} was not written")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_goes_on_after_a_signal(corpus, whole, tmp_path, number):
    out = tmp_path / "x.npy"
    checkpoint = tmp_path / "x.npy.checkpoint"
    out.write_bytes(b"of yesterday")
    # Rows that come as they are sent: the run cannot be over before the signal.
    process = begin(*MODEL, "-o", out, stdin=subprocess.PIPE)
    lines = corpus.read_bytes().splitlines(keepends=True)
    for line in lines[:ROWS // 2]:
        process.stdin.write(line)
    process.stdin.flush()
    wait_for(checkpoint, process)
    process.send_signal(number)
    code = process.wait(20)
    errors = process.stderr.read().decode()
    assert out.read_bytes() == b"of yesterday"
    with pytest.raises(ValueError):
        np.load(tmp_path / "x.npy.part")
    if number == signal.SIGKILL:
        assert code == -number
    else:
        assert code == 128 + number, errors
        assert "interrupted" in errors and "the same command with --resume goes on" in errors
    refused = run("embed", *MODEL, corpus, "-o", out, check=False)
    assert refused.returncode == 2 and b"--resume goes on with it, --restart begins anew" in refused.stderr
    run("embed", *MODEL, corpus, "-o", out, "--resume")
    assert out.read_bytes() == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npy"]


def test_a_second_signal_ends_at_once(tmp_path):
    process = begin(*MODEL, "-o", tmp_path / "x.npy", stdin=subprocess.PIPE)
    time.sleep(0.5)  # until it handles signals
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) in (130, -signal.SIGINT)


def test_a_full_disk_is_named_and_gone_on_with(corpus, whole, tmp_path):
    import resource
    out = tmp_path / "x.npy"
    limit = len(whole) // 2
    # SIGXFSZ stays ignored, as Python has it: the write fails.
    process = begin(*MODEL, corpus, "-o", out, restore_signals=False,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    errors = process.communicate(timeout=30)[1].decode()
    assert process.returncode == 1
    assert f"cannot write {out}.part: File too large" in errors, errors
    assert not out.exists()
    run("embed", *MODEL, corpus, "-o", out, "--resume")
    assert out.read_bytes() == whole


def test_a_server_that_dies(corpus, whole, start, tmp_path):
    server = start()
    out = tmp_path / "x.npy"
    process = begin("--url", server.url, corpus, "-o", out, "--bulk-window", 200)
    wait_for(tmp_path / "x.npy.checkpoint", process)
    server.process.kill()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) in (0, 130)
    again = start()
    run("embed", "--url", again.url, corpus, "-o", out, "--resume")
    assert out.read_bytes() == whole


def test_another_input_or_setting_is_refused(corpus, tmp_path):
    out = tmp_path / "x.jsonl"
    process = begin(*MODEL, "-o", out, stdin=subprocess.PIPE)
    process.stdin.write(corpus.read_bytes()[:50_000])
    process.stdin.flush()
    wait_for(tmp_path / "x.jsonl.checkpoint", process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 143
    other = tmp_path / "other.txt"
    other.write_text("cat\n" + corpus.read_text())
    for args, reason in (((*MODEL, "--dimensions", 8, corpus), "was made with"),
                         ((*MODEL, other), "are not those that were done"),
                         (("--model", GOLDEN / OTHER, corpus), "another vector for the first row")):
        done = run("embed", *args, "-o", out, "--resume", check=False)
        assert done.returncode == 2 and reason in done.stderr.decode(), done.stderr
    run("embed", *MODEL, corpus, "-o", out, "--restart")
    assert len(out.read_text().splitlines()) == ROWS


def test_a_failed_run_leaves_yesterdays_file(corpus, start, tmp_path):
    out = tmp_path / "keep.npy"
    run("embed", *MODEL, "-o", out, stdin=b"a dog\n")
    before = out.read_bytes()
    server = start()
    bad = tmp_path / "bad.jsonl"
    bad.write_text('"a dog"\n{"nothing": 1}\n')
    for args in ((*MODEL, tmp_path / "mistyped.txt"), (*MODEL, bad),
                 ("--url", server.url, "--model", "unknown", corpus),
                 ("--url", "http://127.0.0.1:9", "--connect-timeout", 1, corpus)):
        done = run("embed", *args, "-o", out, check=False)
        assert done.returncode != 0 and out.read_bytes() == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl", "keep.npy"], args


def test_no_server_is_told_at_once_and_given_up_soon(corpus, server):
    begun = time.monotonic()
    process = begin("--url", "http://127.0.0.1:9", "--connect-timeout", 2, corpus)
    first = process.stderr.readline().decode()
    assert process.poll() is None and "127.0.0.1" in first and "--connect-timeout" in first
    assert process.wait(20) == 1 and time.monotonic() - begun > 1.5
    # What will not pass is not tried again.
    begun = time.monotonic()
    done = run("embed", "--url", server.url.replace("http:", "https:"), "--connect-timeout", 60, corpus, check=False)
    assert done.returncode == 1 and time.monotonic() - begun < 20, done.stderr


def test_ids_go_on_too(tmp_path):
    rows = [{"id": f"n{i}", "text": "dog " * (1 + i % 50)} for i in range(ROWS)]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    args = (*MODEL, "--id-field", "id")
    lines = run("embed", *args, source).stdout.splitlines()
    assert [json.loads(line).get("id") for line in lines] == [row["id"] for row in rows]
    out = tmp_path / "x.npy"
    process = begin(*args, "-o", out, "--format", "jsonl", stdin=subprocess.PIPE)
    process.stdin.write(source.read_bytes()[:200_000])
    process.stdin.flush()
    wait_for(tmp_path / "x.npy.checkpoint", process)
    process.kill()
    process.wait(20)
    run("embed", *args, source, "-o", out, "--resume")
    assert [json.loads(line) for line in open(f"{out}.ids")] == [row["id"] for row in rows]
    assert np.array_equal(np.load(out), np.array([json.loads(line)["embedding"] for line in lines], np.float32))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "x.npy", "x.npy.ids"]


def safetensors(path):
    """The one tensor of a file, as numpy reads it."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    (name, tensor), = header.items()
    assert name == "embeddings" and tensor["data_offsets"] == [0, len(data) - 8 - length]
    dtype = {"F32": "<f4", "F16": "<f2", "I8": "i1", "U8": "u1"}[tensor["dtype"]]
    return np.frombuffer(data[8 + length:], dtype).reshape(tensor["shape"])


def test_precisions(corpus, whole, tmp_path):
    (tmp_path / "whole.npy").write_bytes(whole)
    exact = np.load(tmp_path / "whole.npy")
    scaled = exact * (127 / np.abs(exact).max(axis=1, keepdims=True))
    expected = {"float32": exact, "float16": exact.astype(np.float16), "int8": np.rint(scaled),
                "binary": np.packbits(exact > 0, axis=1)}
    for precision, wanted in expected.items():
        for name, load in (("x.npy", np.load), ("x.safetensors", safetensors)):
            out = tmp_path / name
            run("embed", *MODEL, corpus, "-o", out, "--precision", precision)
            got = load(out)
            # A scaled number may lie just beside a half.
            assert got.shape == wanted.shape and np.abs(got.astype(float) - wanted).max() <= (precision == "int8")
            assert (got != wanted).mean() < 1e-3
    refused = run("embed", *MODEL, corpus, "-o", tmp_path / "x.jsonl", "--precision=int8", check=False)
    assert refused.returncode == 2 and b"--precision" in refused.stderr


def test_random_ends(corpus, tmp_path):
    """bench/reindex_faults.py, in short."""
    for more in ((), ("--url",)):
        done = subprocess.run([sys.executable, ROOT / "bench" / "reindex_faults.py", "--program", binary(),
                               "--input", corpus, "--rows", str(ROWS), "--runs", "4", "--folder", tmp_path, *more],
                              capture_output=True, timeout=120, env={**os.environ})
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        assert "reindex.differing_bits" in done.stdout.decode()
