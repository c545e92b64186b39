"""penstock embed --on-error: rows that cannot be read or are refused, skipped and named, or the end."""
import http.server
import json
import signal
import subprocess
import threading

import numpy as np
import pytest

from conftest import EMBED, GOLDEN, binary, clean_environment, run, serving
from test_resume import begin, safetensors, wait_for

MODEL = ("--model", GOLDEN / EMBED)
SKIP = ("--on-error", "skip")
LONG = "dog " * 300  # more tokens than the model takes
# What cannot be read, and what the model or the server refuses.
BAD = {"number": b'{"id": 1, "text": 7}', "absent": b'{"id": 2, "other": "a"}', "broken": b'{"id": 3, "text": "a"',
       "latin1": b'{"id": 4, "text": "caf\xe9"}', "long": json.dumps({"id": 5, "text": LONG}).encode()}
ROWS = 60


def rows_with(bad):
    """Lines of JSON with these rows in the places given."""
    lines = [json.dumps({"id": f"k{i}", "text": "dog " * (1 + 7 * i % 23) + str(i)}).encode() for i in range(ROWS)]
    for place, row in bad.items():
        lines[place] = row
    return lines


def errors_of(out):
    path = out.parent / (out.name + ".errors.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(params=["local", "url"])
def way(request, server_without_cut):
    return (*MODEL, "--no-auto-truncate") if request.param == "local" else ("--url", server_without_cut.url)


@pytest.fixture(scope="module")
def server_without_cut():
    with serving(*MODEL, "--no-auto-truncate") as server:
        yield server


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """The vectors of the rows without bad ones."""
    out = tmp_path_factory.mktemp("good") / "good.npy"
    run("embed", *MODEL, "--format", "jsonl", "-o", out, stdin=b"\n".join(rows_with({})))
    return np.load(out)


@pytest.mark.parametrize("places", [{0: "number"}, {30: "long"}, {59: "latin1"},
                                    {0: "long", 29: "broken", 30: "absent", 59: "long"},
                                    {i: list(BAD)[i % 5] for i in range(0, ROWS, 2)}],
                         ids=["first", "middle", "last", "some", "half"])
def test_bad_rows_are_skipped_and_named(way, places, vectors, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"\n".join(rows_with({i: BAD[kind] for i, kind in places.items()})) + b"\n")
    wanted = vectors.copy()
    wanted[list(places)] = 0
    for name, load in (("x.npy", np.load), ("x.safetensors", safetensors)):
        out = tmp_path / name
        done = run("embed", *way, *SKIP, "--id-field", "id", "--batch", 16, source, "-o", out, check=False)
        assert done.returncode == 3, done
        were = "1 row was" if len(places) == 1 else f"{len(places)} rows were"
        assert f"{were} skipped; {out}.errors.jsonl names" in done.stderr.decode()
        assert np.array_equal(load(out), wanted)
        errors = errors_of(out)
        assert [error["index"] for error in errors] == sorted(places)
        for error in errors:
            kind = places[error["index"]]
            assert error["file"] == str(source) and error["line"] == error["index"] + 1 and error["error"]
            # The id where it could be read.
            assert error.get("id") == (None if kind in ("broken", "latin1") else str(list(BAD).index(kind) + 1))
        ids = [json.loads(line) for line in (tmp_path / (name + ".ids")).read_text().splitlines()]
        assert [i for i, row in enumerate(ids) if row == f"k{i}"] == [i for i in range(ROWS) if i not in places]
    out = tmp_path / "x.jsonl"
    assert run("embed", *way, *SKIP, "--id-field", "id", source, "-o", out, check=False).returncode == 3
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["index"] for line in lines] == list(range(ROWS))
    for i, line in enumerate(lines):
        if i in places:
            assert line["embedding"] is None and line["error"]
        else:
            assert np.array_equal(np.array(line["embedding"], np.float32), vectors[i]) and "error" not in line
    assert [error["error"] for error in errors_of(out)] == [lines[i]["error"] for i in sorted(places)]


def test_all_rows_may_be_bad(way, tmp_path):
    source = tmp_path / "in.jsonl"
    for row in (BAD["number"], BAD["long"]):
        source.write_bytes((row + b"\n") * 10)
        for precision, width in (("float32", 32), ("int8", 32), ("binary", 4)):
            out = tmp_path / "x.npy"
            done = run("embed", *way, *SKIP, "--precision", precision, source, "-o", out, check=False)
            assert done.returncode == 3 and b"10 rows were skipped" in done.stderr
            matrix = np.load(out)
            assert matrix.shape == (10, width) and not matrix.any()
            assert len(errors_of(out)) == 10


def test_elements_and_several_files(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(["a dog", 7, "a cat"]))
    (tmp_path / "b.csv").write_text("id,text\n1,a dog\n2\n3,a cat\n")
    out = tmp_path / "x.npy"
    done = run("embed", *MODEL, *SKIP, "a.json", "b.csv", "-o", out, check=False, cwd=tmp_path)
    assert done.returncode == 3
    assert [(e["index"], e["file"], e.get("element"), e.get("line")) for e in errors_of(out)] == \
        [(1, "a.json", 1, None), (4, "b.csv", None, 3)]


def test_errors_go_to_stderr_where_no_file_is_written():
    done = run("embed", *MODEL, *SKIP, "--format", "jsonl", stdin=b"\n".join(rows_with({3: BAD["number"]})), check=False)
    assert done.returncode == 3 and len(done.stdout.splitlines()) == ROWS
    assert b"row 3 is skipped: stdin:4: 'text' must be a string" in done.stderr
    assert done.stderr.rstrip().endswith(b"1 row was skipped")


def test_without_a_bad_row_nothing_is_left(way, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"\n".join(rows_with({5: BAD["long"]})))
    out = tmp_path / "x.npy"
    assert run("embed", *way, *SKIP, source, "-o", out, check=False).returncode == 3
    assert errors_of(out)
    source.write_bytes(b"\n".join(rows_with({})))
    for more in (SKIP, ()):
        (tmp_path / "x.npy.errors.jsonl").write_text("of an earlier run")
        run("embed", *way, *more, source, "-o", out)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "x.npy"]


def test_stop_names_the_line_before_any_work(way, tmp_path):
    out = tmp_path / "x.npy"
    source = tmp_path / "in.jsonl"
    for kind in ("number", "absent", "broken", "latin1"):
        source.write_bytes(b"\n".join(rows_with({59: BAD[kind]})))
        for more in ((), ("--on-error", "stop")):
            done = run("embed", *way, *more, source, "-o", out, check=False)
            assert done.returncode == 1 and f"{source}:60: " in done.stderr.decode(), done.stderr
            assert done.stderr.count(b"\n") == 1
            assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl"]
    source.write_bytes(b"\n".join(rows_with({59: BAD["long"]})))
    done = run("embed", *way, source, "-o", out, check=False)
    assert done.returncode == 1 and f"{source}:60: " in done.stderr.decode(), done.stderr


def test_failures_of_the_whole_run_stop_it(server_without_cut, start, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"\n".join(rows_with({0: BAD["number"]})))
    out = tmp_path / "x.npy"
    guarded = start("--api-key", "k")
    for args, said in (((*MODEL, "--dimensions", 999), "dimensions"),
                       ((*MODEL, "--prompt-name", "nonsense"), "nonsense"),
                       (("--url", server_without_cut.url, "--dimensions", 999), "dimensions"),
                       (("--url", server_without_cut.url, "--model", "unknown"), "404"),
                       (("--url", guarded.url, "--api-key", "wrong"), "401"),
                       (("--url", "http://127.0.0.1:9", "--connect-timeout", 1), "127.0.0.1")):
        done = run("embed", *args, *SKIP, source, "-o", out, check=False)
        assert done.returncode == 1 and said in done.stderr.decode(), done
        assert f"{source}:" not in done.stderr.decode()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl"], args


class Picky(http.server.BaseHTTPRequestHandler):
    """A server of embeddings that refuses requests with a bad text and does not say which it is."""
    protocol_version = "HTTP/1.1"
    seen = 0

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).seen += 1
        status, answer = 200, {}
        if self.path != "/v1/embeddings":
            status = 404
        elif any("bad" in text for text in body["input"]):
            status, answer = 400, {"error": {"message": "flagged"}}
        else:
            answer = {"data": [{"index": i, "embedding": [len(t), 1]} for i, t in enumerate(body["input"])]}
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def test_a_server_that_does_not_name_the_row(tmp_path):
    texts = ["x" * (1 + i % 50) for i in range(2000)]
    bad = [0, 777, 778, 1999]
    for i in bad:
        texts[i] = "bad " + texts[i]
    source = tmp_path / "in.txt"
    source.write_text("\n".join(texts) + "\n")
    out = tmp_path / "x.npy"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Picky) as picky:
        threading.Thread(target=picky.serve_forever, daemon=True).start()
        done = run("embed", "--url", f"http://127.0.0.1:{picky.server_port}", *SKIP, source, "-o", out, check=False)
        picky.shutdown()
    assert done.returncode == 3, done
    wanted = np.array([[len(text), 1] for text in texts], np.float32)
    wanted[bad] = 0
    assert np.array_equal(np.load(out), wanted)
    assert [(e["index"], e["error"]) for e in errors_of(out)] == [(i, "the server says 400: flagged") for i in bad]
    assert Picky.seen < 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_skipped_goes_on_with_a_run(way, number, tmp_path):
    many = 4000
    lines = [json.dumps({"id": i, "text": "dog " * (1 + 31 * i % 40) + str(i)}).encode() for i in range(many)]
    kinds = list(BAD.values())
    for turn, i in enumerate((0, 1, 5, 700, 1500, 1501, 2400, 3999)):
        lines[i] = kinds[turn % len(kinds)]
    (tmp_path / "stdin").write_bytes(b"\n".join(lines) + b"\n")
    args = (*way, *SKIP, "--id-field", "id", "--format", "jsonl")
    folders = [tmp_path / "whole", tmp_path / "ended"]
    for folder in folders:
        folder.mkdir()
    assert run("embed", *args, "stdin", "-o", folders[0] / "x.npy", check=False, cwd=tmp_path).returncode == 3
    out = folders[1] / "x.npy"
    process = begin(*args, "-o", out, stdin=subprocess.PIPE)
    process.stdin.write(b"\n".join(lines[:2000]) + b"\n")
    process.stdin.flush()
    wait_for(folders[1] / "x.npy.checkpoint", process)
    process.send_signal(number)
    assert process.wait(20) in (128 + number, -number)
    other = run("embed", *way, "--id-field", "id", "--format", "jsonl", "-o", out, "--resume",
                stdin=b"", check=False, cwd=tmp_path)
    assert other.returncode == 2 and b"on-error" in other.stderr
    done = run("embed", *args, "stdin", "-o", out, "--resume", check=False, cwd=tmp_path)
    assert done.returncode == 3 and b"8 rows were skipped" in done.stderr, done.stderr
    # The same bytes, under the same names.
    contents = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert sorted(contents[0]) == ["x.npy", "x.npy.errors.jsonl", "x.npy.ids"]
    assert contents[0] == contents[1]


def test_dimensions_and_length(way, tmp_path):
    """--dimensions and --normalize, by each way and in each form of output."""
    source = tmp_path / "in.txt"
    source.write_text("a dog\na cat\n" + "dog " * 20 + "\n")
    got = {}
    for name, load in (("x.npy", np.load), ("x.safetensors", safetensors), ("x.jsonl", None)):
        for more in (("--normalize",), ("--no-normalize",)):
            out = tmp_path / name
            run("embed", *way, "--dimensions", 8, *more, source, "-o", out)
            rows = load(out) if load else np.array([json.loads(line)["embedding"] for line in open(out)], np.float32)
            assert rows.shape == (3, 8)
            got.setdefault(more, rows)
            assert np.array_equal(got[more], rows)
    assert np.allclose(np.linalg.norm(got["--normalize",], axis=1), 1, atol=1e-6)
    assert not np.allclose(np.linalg.norm(got["--no-normalize",], axis=1), 1, atol=1e-2)


def mounted(tmp_path, size, command):
    """Runs a shell command with a file system of `size` at tmp_path/disk; nothing where that may not be."""
    (tmp_path / "disk").mkdir(exist_ok=True)
    done = subprocess.run(["unshare", "-rm", "sh", "-c",
                           f"mount -t tmpfs -o size={size} none disk || exit 99; {command}"],
                          cwd=tmp_path, env=clean_environment(), capture_output=True, timeout=60)
    if done.returncode == 99 or b"unshare" in done.stderr:
        pytest.skip("no file system may be mounted here")
    return done


def test_room_on_the_disk_is_looked_at_first(tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("".join(f"dog {i}\n" for i in range(4000)))
    embed = f"{binary()} embed {MODEL[0]} {MODEL[1]} in.txt"
    # 4000 rows of 32 numbers: 512,256 bytes.
    refused = mounted(tmp_path, "400k", f"echo kept > disk/x.npy; {embed} -o disk/x.npy; code=$?;"
                                        "cat disk/x.npy; ls disk; exit $code")
    message = refused.stderr.decode()
    assert refused.returncode == 1 and "4000 rows of 32 numbers take 512 kB, and the disk has room for 4" in message
    assert refused.stdout == b"kept\nx.npy\n"
    for more in ("--precision float16", "--dimensions 16"):
        fits = mounted(tmp_path, "400k", f"{embed} -o disk/x.npy {more}")
        assert fits.returncode == 0, fits.stderr
    # What an earlier run left counts as room.
    again = mounted(tmp_path, "600k", f"head -c 300000 /dev/zero > disk/x.npy.part; {embed} -o disk/x.npy")
    assert again.returncode == 0, again.stderr
    # Of JSON lines the size is not known before.
    told = mounted(tmp_path, "600k", f"{embed} -o disk/x.jsonl")
    message = told.stderr.decode()
    assert told.returncode == 1 and "x.jsonl will take about " in message and "No space left" in message, message
