"""penstock embed --shard, --take and --verify; penstock merge."""

import gzip
import hashlib
import json
import os
import random
import signal
import subprocess
import time

import numpy as np
import pytest

from conftest import CLASSIFY, EMBED, GOLDEN, RERANK, binary, clean_environment, run, wait_for

MODEL = ("--model", GOLDEN / EMBED)
COUNT = 7


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Files of several kinds, with ids; one that is packed and one that is empty."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(3)
    rows = [
        {"text": " ".join(rng.choice(["dog", "cat", "Straße", "水力"]) for _ in range(rng.randrange(1, 40))), "id": i}
        for i in range(600)
    ]
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    (folder / "a.jsonl").write_text("".join(lines[:400]))
    (folder / "empty.jsonl").write_text("")
    (folder / "b.jsonl.gz").write_bytes(gzip.compress("".join(lines[400:450]).encode()))
    (folder / "c.jsonl").write_text("".join(lines[450:]))
    return [folder / name for name in ("a.jsonl", "empty.jsonl", "b.jsonl.gz", "c.jsonl")]


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """The matrix of one undisturbed run."""
    path = tmp_path_factory.mktemp("whole") / "x.npy"
    run("embed", *MODEL, *corpus, "--id-field", "id", "-q", "-o", path)
    return path


def shards(files, out, *more, **options):
    return run("embed", *MODEL, *files, "--id-field", "id", "-o", out, *more, **options)


def same(a, b):
    return a.read_bytes() == b.read_bytes()


def test_parts_put_together_are_the_whole(corpus, whole, tmp_path):
    out = tmp_path / "parts"
    for shard in reversed(range(COUNT)):
        done = shards(corpus, out, "--shard", f"{shard}/{COUNT}")
        assert f"shard {shard} of {COUNT} is done" in done.stderr.decode()
    run("merge", out, "-o", tmp_path / "x.npy")
    assert same(tmp_path / "x.npy", whole) and same(tmp_path / "x.npy.ids", whole.parent / "x.npy.ids")
    assert np.load(tmp_path / "x.npy").shape == (600, 32)
    run("merge", "-o", tmp_path / "x.safetensors", out)
    assert (tmp_path / "x.safetensors").read_bytes()[256:] == whole.read_bytes()[256:]
    manifest = run("merge", out, "--output=" + str(tmp_path / "x.json"))
    assert "7 parts, 600 rows of 32 numbers" in manifest.stderr.decode()
    parts = json.loads((tmp_path / "x.json").read_text())["parts"]
    assert len(parts) == COUNT and parts[3]["first_row"] == sum(part["rows"] for part in parts[:3])
    rows = np.load(whole)
    for part in parts:
        assert np.array_equal(np.load(part["file"]), rows[part["first_row"] :][: part["rows"]])
    # A second time nothing is computed, and no model is needed.
    done = run("embed", "--model", tmp_path / "gone", *corpus, "--id-field", "id", "-o", out, "--shard", "3/7")
    assert "shard 3 of 7 is done" in done.stderr.decode()
    assert not list(out.glob("claim-*")) and not list(out.glob("*.part"))


def test_processes_take_what_is_free(corpus, whole, tmp_path):
    out = tmp_path / "parts"
    command = [binary(), "embed", *MODEL, *corpus, "--id-field", "id", "-o", out, "--shards", "40", "--take"]
    workers = [
        subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, env=clean_environment()) for _ in range(2)
    ]
    told = [worker.communicate(timeout=60)[1].decode() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], told
    assert len(list(out.glob("part-*.json"))) == 40 and not list(out.glob("claim-*"))
    run("merge", out, "-o", tmp_path / "x.npy")
    assert same(tmp_path / "x.npy", whole)


def test_a_killed_process_loses_no_row_and_makes_none_twice(tmp_path):
    lines = tmp_path / "a.txt"
    lines.write_text("".join(f"dog {'cat ' * (i % 90)}{i}\n" for i in range(60000)))
    once = tmp_path / "x.npy"
    run("embed", *MODEL, lines, "-q", "-o", once)
    out = tmp_path / "parts"
    command = [str(word) for word in (binary(), "embed", *MODEL, lines, "-o", out, "--shards", 3, "--take")]
    rng = random.Random(5)
    for _ in range(6):
        worker = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=clean_environment())
        time.sleep(rng.uniform(0.3, 0.9))  # a kill comes at any moment
        worker.kill()
        worker.wait()
    begin = time.monotonic()
    run(*command[1:])
    # The claim of the dead is taken over at once, as its process was on this machine.
    assert time.monotonic() - begin < 40
    run("merge", out, "-o", tmp_path / "y.npy")
    assert hashlib.sha256((tmp_path / "y.npy").read_bytes()).digest() == hashlib.sha256(once.read_bytes()).digest()


def test_a_claim_of_another_machine_is_waited_for(corpus, whole, tmp_path):
    out = tmp_path / "parts"
    shards(corpus, out, "--shard", "0/2")
    claim = out / "claim-00001"
    claim.write_text("elsewhere 0 pid:[1]\n1\n1\n")
    command = [
        str(word)
        for word in (binary(), "embed", *MODEL, *corpus, "--id-field", "id", "-o", out, "--shards", 2, "--take")
    ]
    waiting = subprocess.Popen(command, stderr=subprocess.PIPE, env=clean_environment())
    line = waiting.stderr.readline().decode()
    assert "the last 1 shards are at work elsewhere" in line
    os.utime(claim, (time.time() - 90,) * 2)
    assert waiting.wait(timeout=30) == 0
    run("merge", out, "-o", tmp_path / "x.npy")
    assert same(tmp_path / "x.npy", whole)


def test_interrupted_and_gone_on_with(tmp_path):
    lines = tmp_path / "a.txt"
    lines.write_text("".join(f"dog {'cat ' * (i % 90)}{i}\n" for i in range(60000)))
    out = tmp_path / "parts"
    command = [str(word) for word in (binary(), "embed", *MODEL, lines, "-o", out, "--shards", 2, "--take")]
    worker = subprocess.Popen(command, stderr=subprocess.PIPE, env=clean_environment())
    wait_for(lambda: list(out.glob("*.checkpoint")))
    worker.send_signal(signal.SIGINT)
    told = worker.communicate(timeout=30)[1].decode()
    assert worker.returncode == 130 and "the same command goes on" in told
    assert not list(out.glob("claim-*"))
    assert "going on after the" in run(*command[1:]).stderr.decode()


@pytest.mark.parametrize(
    "variables",
    [
        {"JOB_COMPLETION_INDEX": "2"},
        {"SLURM_ARRAY_TASK_ID": "12", "SLURM_ARRAY_TASK_MIN": "10", "SLURM_ARRAY_TASK_COUNT": "4"},
        {"SLURM_PROCID": "2", "SLURM_NTASKS": "4"},
        {"AWS_BATCH_JOB_ARRAY_INDEX": "2", "AWS_BATCH_JOB_ARRAY_SIZE": "4"},
    ],
)
def test_engines_number_their_processes(corpus, tmp_path, variables):
    done = shards(corpus, tmp_path / "parts", "--shards", 4, env=clean_environment(**variables))
    assert "shard 2 of 4 is done" in done.stderr.decode()


@pytest.mark.parametrize(
    "words, why",
    [
        (["--shard", "4/4"], "'4/4' is not I/N"),
        (["--shard", "x"], "'x' is not I/N"),
        (["--shards", "4"], "Give --shard I/N or --take"),
        (["--take"], "--take: needs --shards N"),
        (["--verify", "3"], "--verify: needs --shards N"),
        (["--mixed"], "--mixed: goes with --shard or --shards"),
        (["--shard", "0/4", "--shards", "5"], "--shards: 5 is not the 4 of --shard"),
        (["--shard", "0/4", "--take"], "--take: is for any shard"),
        (["--shards", "0", "--take"], "--shards"),
        (["--shards", "2", "--take", "--plot", "x.svg"], "--plot is for one output"),
        (["--shards", "2", "--take", "--restart"], "--restart does not go with shards"),
        (["--shards", "2", "--take", "--parts", "jsonl", "--precision", "int8"], "--precision is of .npy"),
    ],
)
def test_what_does_not_go_together(corpus, tmp_path, words, why):
    done = shards(corpus, tmp_path / "parts", *words, check=False)
    assert done.returncode == 2 and why in done.stderr.decode(), done.stderr


def test_standard_input_and_files_in_the_way_are_refused(corpus, tmp_path):
    done = run("embed", *MODEL, "--shards", 2, "--take", "-o", tmp_path / "parts", stdin=b"dog\n", check=False)
    assert done.returncode == 1 and b"stdin cannot be cut into shards" in done.stderr
    done = run("embed", *MODEL, corpus[0], "--shards", 2, "--take", check=False)
    assert done.returncode == 2 and b"--output FOLDER" in done.stderr
    (tmp_path / "file").write_text("")
    done = run("embed", *MODEL, corpus[0], "--shards", 2, "--take", "-o", tmp_path / "file", check=False)
    assert done.returncode == 2 and b"is a file" in done.stderr
    done = run("embed", *MODEL, corpus[0], "--shards", 2, "--take", "-o", tmp_path / "x.npy", check=False)
    assert done.returncode == 2 and b"--output is the folder" in done.stderr


def test_parts_of_something_else_are_told_apart(corpus, tmp_path):
    out = tmp_path / "parts"
    shards(corpus, out, "--shard", "0/3")
    for files, more, why in (
        (corpus[:1], ["--shard", "1/3"], "the number of files is 1, and was 4"),
        (corpus, ["--shard", "1/4"], "the number of shards is 4, and was 3"),
        (corpus, ["--shard", "1/3", "--dimensions", "8"], "what was asked for is"),
        (corpus, ["--shard", "1/3", "--parts", "jsonl"], "the form of the parts is .jsonl, and was .npy"),
    ):
        done = shards(files, out, *more, check=False)
        assert done.returncode == 2 and why in done.stderr.decode(), done.stderr
    # The same files by other names are the same input.
    links = []
    for path in corpus:
        links.append(tmp_path / path.name)
        links[-1].symlink_to(path)
    shards(links, out, "--shard", "1/3")
    changed = tmp_path / "changed.jsonl"
    changed.write_text(corpus[0].read_text().replace("dog", "dig", 1))
    done = shards([changed, *corpus[1:]], out, "--shard", "2/3", check=False)
    assert done.returncode == 2 and b"its contents are not those of" in done.stderr


def test_another_processor_does_not_take_part_unasked(corpus, tmp_path):
    out = tmp_path / "parts"
    shards(corpus, out, "--shard", "0/2")
    other = clean_environment(PENSTOCK_CPU_ISA="scalar")
    done = shards(corpus, out, "--shard", "1/2", env=other, check=False)
    told = done.stderr.decode()
    assert done.returncode == 2 and "--mixed takes part all the same" in told and "scalar kernels" in told
    shards(corpus, out, "--shard", "1/2", "--mixed", env=other)
    done = run("merge", out, "-o", tmp_path / "x.npy", check=False)
    assert done.returncode == 1 and b"was made by what gives other results" in done.stderr
    assert b"made by more than one" in run("merge", out, "--mixed", "-o", tmp_path / "x.npy").stderr
    assert np.load(tmp_path / "x.npy").shape == (600, 32)


def test_merge_looks_at_every_byte(corpus, tmp_path):
    out = tmp_path / "parts"
    shards(corpus, out, "--shards", 5, "--take")
    assert b"every digest" in run("merge", out, "--check").stderr
    part = out / "part-00002-of-00005.npy"
    bytes_before = part.read_bytes()
    part.write_bytes(bytes_before[:-1] + bytes([bytes_before[-1] ^ 1]))
    for words in (["--check"], ["-o", tmp_path / "x.npy"], ["-o", tmp_path / "x.json"]):
        done = run("merge", out, *words, check=False)
        assert done.returncode == 1 and b"part-00002-of-00005.npy is not the file that was written" in done.stderr
    assert not list(tmp_path.glob("x.*"))
    record = part.with_suffix(".json")
    true = record.read_text()
    for lie, why in (
        ('"rows":', '"rows":1'),
        ('"rows":', '"rows":1125899906842624,"x":'),
        ('"rows":', '"rows":-'),
        ('"dimensions":32', '"dimensions":1048576'),
        ("{", "["),
    ):
        record.write_text(true.replace(lie, why, 1))
        done = run("merge", out, "-o", tmp_path / "x.npy", check=False)
        assert done.returncode == 1 and b"part-00002-of-00005" in done.stderr, done.stderr
    record.write_text(true)
    part.unlink()
    assert run("merge", out, "--check", check=False).returncode == 1
    (out / "part-00002-of-00005.json").unlink()
    done = run("merge", out, "--check", check=False)
    assert done.returncode == 1 and b"1 of 5 shards are missing: 2" in done.stderr
    for words, why in (
        ([], b"--output FILE or --check"),
        (["--check", "-o", "x"], b"writes no --output"),
        (["-o", "-"], b"not stdout"),
    ):
        done = run("merge", out, *words, check=False)
        assert done.returncode == 2 and why in done.stderr
    done = run("merge", tmp_path, "-o", "x.npy", check=False)
    assert done.returncode == 1 and b"there is no plan of shards" in done.stderr


@pytest.mark.parametrize("form", ["npy", "jsonl"])
def test_rows_are_computed_again_and_compared(corpus, tmp_path, form):
    out = tmp_path / "parts"
    shards(corpus, out, "--parts", form, "--shards", 3, "--take")
    again = ["--parts", form, "--shards", 3]
    assert b"100 of 600 rows computed again: every bit is equal" in shards(corpus, out, *again, "--verify", 100).stderr
    assert b"600 of 600 rows" in shards(corpus, out, *again, "--verify", 1000).stderr
    part = out / f"part-00001-of-00003.{form}"
    data = bytearray(part.read_bytes())
    at = data.index(b"0.") + 2 if form == "jsonl" else 256 + 32 * 4 * 5
    data[at] = data[at] ^ 1
    part.write_bytes(data)
    done = shards(corpus, out, *again, "--verify", 600, check=False)
    assert done.returncode == 1 and b"is not what the model makes of" in done.stderr


def test_json_lines_and_rows_that_are_skipped(corpus, tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text(corpus[0].read_text() + '{"text": 3, "id": "bad"}\n' + corpus[3].read_text())
    plain = tmp_path / "plain.jsonl"
    skip = ["--on-error", "skip"]
    assert shards([bad], plain, *skip, check=False).returncode == 3
    out = tmp_path / "parts"
    done = shards([bad], out, *skip, "--parts", "jsonl", "--shards", 6, "--take", check=False)
    assert done.returncode == 3 and b"1 row was skipped" in done.stderr
    merged = tmp_path / "merged.jsonl"
    assert b"1 rows were skipped" in run("merge", out, "-o", merged).stderr
    assert same(merged, plain)
    (error,) = [json.loads(line) for line in (tmp_path / "merged.jsonl.errors.jsonl").read_text().splitlines()]
    (before,) = [json.loads(line) for line in (tmp_path / "plain.jsonl.errors.jsonl").read_text().splitlines()]
    assert error["index"] == before["index"] == 400 and error["id"] == "bad" and error["error"] == before["error"]
    assert error["byte"] == len(corpus[0].read_bytes())


def test_by_a_server(start, corpus, whole, tmp_path):
    server = start()
    out = tmp_path / "parts"
    run("embed", "--url", server.url, *corpus, "--id-field", "id", "-o", out, "--shards", 3, "--take")
    run("merge", out, "-o", tmp_path / "x.npy")
    assert same(tmp_path / "x.npy", whole)


@pytest.mark.parametrize(
    "command, model, more", [("classify", CLASSIFY, ["--top-k", 1]), ("rerank", RERANK, ["--top-n", 2])]
)
def test_labels_and_ranks_in_shards(tmp_path, command, model, more):
    lines = tmp_path / "a.jsonl"
    rng = random.Random(4)
    texts = [" ".join(rng.choice(["dog", "cat", "happy"]) for _ in range(rng.randrange(1, 20))) for _ in range(90)]
    if command == "rerank":
        lines.write_text(
            "".join(json.dumps({"query": text, "documents": ["dog", text, "cat"]}) + "\n" for text in texts)
        )
    else:
        lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    words = ["--model", GOLDEN / model, lines, *more]
    run(command, *words, "-o", tmp_path / "whole.jsonl")
    out = tmp_path / "parts"
    run(command, *words, "--shard", "1/4", "-o", out)
    done = run(command, *words, "--shards", 4, "--take", "-o", out)
    assert b"shard 3 of 4 is done" in done.stderr and b"shard 1 of 4" not in done.stderr
    assert b"4 parts, 90 rows; every digest" in run("merge", out, "-o", tmp_path / "merged.jsonl").stderr
    assert same(tmp_path / "merged.jsonl", tmp_path / "whole.jsonl")
    other = run(command, *words, "--raw-scores", "--shards", 4, "--take", "-o", out, check=False)
    assert other.returncode == 2 and b"what was asked for is" in other.stderr
    matrix = run("merge", out, "-o", tmp_path / "x.npy", check=False)
    assert matrix.returncode == 2 and b"do not go to a matrix" in matrix.stderr
    alien = run(
        "embed",
        *MODEL,
        lines,
        "--text-field",
        "query" if command == "rerank" else "text",
        "--parts",
        "jsonl",
        "--shards",
        4,
        "--take",
        "-o",
        out,
        check=False,
    )
    assert alien.returncode == 2 and b"the command is embed" in alien.stderr


def test_documents_of_one_query_are_not_cut(tmp_path):
    done = run(
        "rerank",
        "--model",
        GOLDEN / RERANK,
        "--query",
        "dog",
        "x.txt",
        "--shards",
        2,
        "--take",
        "-o",
        tmp_path / "p",
        check=False,
    )
    assert done.returncode == 2 and b"ranked together, and cannot be cut" in done.stderr
