"""Input files as people have them: formats, packing, fields, encodings, and what is refused."""
import csv
import gzip
import io
import json
import shutil
import subprocess

import numpy as np
import pytest

from conftest import CLASSIFY, EMBED, GOLDEN, RERANK, binary, clean_environment, run

TEXTS = ["A happy dog.", "Rain, all \"day\"", "two\nlines", "café at noon"]
MODEL = ("--model", GOLDEN / EMBED)


def ids(*args, stdin=None, **more):
    """What tokenize makes of an input: the rows, as token ids, and the ids of the rows."""
    done = run("tokenize", *MODEL, *args, stdin=stdin, **more)
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    return [row["ids"] for row in rows], [row.get("id") for row in rows]


def refused(*args, stdin=None, command="tokenize"):
    done = run(command, *MODEL, *args, stdin=stdin, check=False)
    assert done.returncode in (1, 2), done
    assert done.stderr.count(b"\n") == 1 and len(done.stderr) < 1000, done.stderr
    return done.stderr.decode()


def table(delimiter, texts=TEXTS):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(["id", "text", "rest"])
    for i, text in enumerate(texts):
        writer.writerow([f"k{i}", text, "x,y\tz"])
    return out.getvalue().encode()


def objects():
    return [{"id": f"k{i}", "text": text, "rest": [1, {"a": "]"}]} for i, text in enumerate(TEXTS)]


FORMS = {
    "jsonl": "".join(json.dumps(o) + "\n" for o in objects()).encode(),
    "json": json.dumps(objects(), ensure_ascii=False).encode(),
    "pretty.json": json.dumps(objects(), indent=2).encode(),
    "csv": table(","),
    "tsv": table("\t"),
    "semicolons.csv": table(";"),
}


@pytest.fixture(scope="module")
def wanted():
    rows, none = ids(stdin="".join(json.dumps(text) + "\n" for text in TEXTS).encode())
    assert len(rows) == len(TEXTS) and none == [None] * len(TEXTS)
    return rows


def gzipped(data):
    """Without the time, so that all processes collect tests of the same names."""
    return gzip.compress(data, mtime=0)


def zstd(data):
    if shutil.which("zstd") is None:
        pytest.skip("zstd IS NOT HERE: tools/install_deps.sh test installs it")
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd], ids=["plain", "gzip", "zstd"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form(form, pack, wanted, tmp_path):
    data = pack(FORMS[form])
    path = tmp_path / f"texts.{form}"
    path.write_bytes(data)
    keys = [f"k{i}" for i in range(len(TEXTS))]
    assert ids(path, "--id-field", "id") == (wanted, keys)
    # By its content alone, on standard input.
    assert ids("--id-field", "id", stdin=data) == (wanted, keys)
    forced = form.split(".")[-1]
    assert ids("--format", forced, stdin=data)[0] == wanted


def test_several_files_of_several_forms(wanted, tmp_path):
    paths = []
    for form, data in FORMS.items():
        paths.append(tmp_path / f"texts.{form}.gz")
        paths[-1].write_bytes(gzip.compress(data[:20]) + gzip.compress(data[20:]))
    assert ids(*paths)[0] == wanted * len(FORMS)


def test_embed_reads_the_same(tmp_path):
    plain = run("embed", *MODEL, stdin="".join(json.dumps(t) + "\n" for t in TEXTS).encode()).stdout
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(FORMS["csv"]))
    for more in ((), ("--bulk", "-q")):
        out = tmp_path / "v.npy"
        run("embed", *MODEL, path, "-o", out, *more)
        rows = [json.loads(line)["embedding"] for line in plain.decode().splitlines()]
        assert np.abs(np.load(out) - np.array(rows, np.float32)).max() < 1e-6


def test_fields(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"title": "A dog", "body": "runs.", "key": 7}\n{"body": "A cat", "key": 8}\n')
    wanted, _ = ids(stdin=b"A dog runs.\nA cat\n")
    assert ids("--text-field", "title", "--text-field", "body", "--id-field", "key", path) == (
        wanted, ["7", "8"])
    assert ids(path, "--text-field", "title", "--text-field", "body", "--join", "\\n")[0] == ids(
        stdin=b'"A dog\\nruns."\n"A cat"\n')[0]
    said = refused(path)
    assert f'{path}:1: the object has no field "text", "input" or "content"; it has "title", ' \
           '"body" and "key"; --text-field names another' in said
    path = tmp_path / "t.csv"
    path.write_text("title,body\nA dog,runs.\n")
    assert ids(path, "--text-field", "body")[0] == ids(stdin=b"runs.")[0]
    assert 'its columns are "title" and "body"' in refused(path)
    assert 'no column "text2"; its columns are' in refused(path, "--text-field", "text2")
    path.write_text("anything\nA dog runs.\n")
    assert ids(path)[0] == ids(stdin=b"A dog runs.")[0]
    assert "stdin: looks like lines of text, which have no fields" in refused(
        "--text-field", "body", stdin=b"one\ntwo\n")


def test_encodings(tmp_path):
    wanted, _ = ids(stdin="café\n“naïve”\n".encode())
    for encoding, python in (("latin1", None), ("windows-1252", "cp1252"), ("utf-16", "utf-16")):
        text = "café\n“naïve”\n" if python else "café\n\"naïve\"\n"
        data = text.encode(python or "latin1")
        rows = wanted if python else ids(stdin=text.encode())[0]
        assert ids("--encoding", encoding, stdin=data)[0] == rows
        assert ids("--encoding", encoding, stdin=gzip.compress(data))[0] == rows
    path = tmp_path / "t.txt"
    path.write_bytes(b"one\ncaf\xe9 latin1\n")
    said = refused(path)
    assert f"{path}:2: not UTF-8: byte 0xe9 at byte 3 of the row, 7 of the text; --encoding" in said
    assert "--encoding utf-16" in refused(stdin="text".encode("utf-16"))


@pytest.mark.parametrize("name, data, said", [
    ("t.parquet", b"PAR1\x15\x04\x15" + bytes(50), "looks like Parquet"),
    ("t.zip", b"PK\x03\x04\x14\x00", "looks like a zip archive"),
    ("t.pdf", b"%PDF-1.7\n%\xe2\xe3\n", "looks like PDF"),
    ("t.txt", b"some\x00bytes\n", "binary data, a NUL at byte 4"),
    ("v.npy", b"\x93NUMPY\x01\x00v\x00{'descr'", "looks like a NumPy matrix"),
    ("t.json", b'{\n  "data": ["a"]\n}\n', "JSON objects that are neither in an array nor a line each"),
    ("t.json", b'["a", "b"', "the file ends inside of the array"),
    ("t.csv", b'id,text\n1,"never closed\n2,x\n', "line 2: a quote in the record that begins here"),
    ("t.gz", gzipped(b"one\n" * 500)[:-9], "the gzip data are cut off"),
    ("t.gz", gzipped(b"one\n") + b"more", "bytes that are not gzip"),
    ("t.gz", gzipped(gzipped(b"one\n")), "gzip inside of what was unpacked"),
    ("t.gz", gzipped(b"one\n")[:-8] + b"12345678", "the gzip data are damaged"),
    ("none.txt", None, "No such file or directory"),
])
@pytest.mark.parametrize("command", ["tokenize", "embed"])
def test_what_cannot_be_read_is_named(command, name, data, said, tmp_path):
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    message = refused(path, command=command)
    assert str(path) in message and said in message, message


def test_zstd_that_is_cut_or_followed_by_something(tmp_path):
    path = tmp_path / "t.zst"
    whole = zstd(b"one\n" * 5000)
    for data, said in ((whole[:-3], "the zstd data are cut off"),
                       (whole + b"more", "bytes that are not zstd")):
        path.write_bytes(data)
        message = refused(path)
        assert str(path) in message and said in message, message


def test_hostile_inputs_stay_small(tmp_path):
    """Under a limit of memory: what is unpacked or parsed is never held as a whole."""
    bomb = tmp_path / "bomb.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as out:
        for _ in range(64):
            out.write(b"x" * (8 << 20))
    deep = tmp_path / "deep.json"
    deep.write_bytes(b'["a", ' + b"[" * (32 << 20))
    for path, said in ((bomb, ":1: the line is over 67108864 bytes"),
                       (deep, "the file ends inside of the array")):
        command = ["/usr/bin/env", "bash", "-c", 'ulimit -v 1500000; exec "$@"', "-", binary(),
                   "tokenize", *map(str, MODEL), "--threads", "1", str(path)]
        done = subprocess.run(command, capture_output=True, timeout=60, env=clean_environment())
        assert done.returncode == 1 and f"{path}" in done.stderr.decode(), done.stderr
        assert said in done.stderr.decode()


def test_the_other_commands(tmp_path):
    path = tmp_path / "docs.csv"
    path.write_text("key,content\na,A dog runs.\nb,Rain all day\n")
    done = run("rerank", "--model", GOLDEN / RERANK, "--query", "dog", "--id-field", "key", path)
    results = json.loads(done.stdout)["results"]
    assert {(r["index"], r["id"]) for r in results} == {(0, "a"), (1, "b")}
    queries = tmp_path / "q.json"
    queries.write_text(json.dumps([{"query": "dog", "documents": ["a", {"text": "b"}], "n": 5}], indent=1))
    done = run("rerank", "--model", GOLDEN / RERANK, "--id-field", "n", queries)
    answer = json.loads(done.stdout)
    assert answer["id"] == "5" and len(answer["results"]) == 2
    done = run("rerank", "--model", GOLDEN / RERANK, stdin=b"some text\n", check=False)
    assert b"stdin:1: without --query a row is an object" in done.stderr
    done = run("classify", "--model", GOLDEN / CLASSIFY, "--id-field", "key", path)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["a", "b"]
    pairs = tmp_path / "p.tsv"
    pairs.write_text("text\ttext_pair\nA dog\truns\n")
    one = run("classify", "--model", GOLDEN / CLASSIFY, pairs).stdout
    assert one == run("classify", "--model", GOLDEN / CLASSIFY,
                      stdin=b'{"text": "A dog", "text_pair": "runs"}').stdout
    done = run("doctor", *MODEL, "--texts", path, "--text-field", "key", "--quiet", check=False)
    assert b"accuracy" in done.stdout and b"No such" not in done.stdout
