"""penstock.ray with real Ray: shards as tasks, datasets, and what happens when workers are killed."""

import json
import os
import pathlib
import signal
import sys
import threading

import numpy as np
import pytest

from conftest import EMBED, GOLDEN, ROOT, binary, run

ray = pytest.importorskip("ray", reason="RAY IS NOT HERE (tests/e2e/requirements-ray.txt)")

import pyarrow as pa
import pyarrow.parquet

sys.path.insert(0, str(ROOT / "python"))

import penstock
import penstock.ray

LIBRARY = pathlib.Path(os.environ.get("PENSTOCK_LIBRARY", ROOT / "build" / "libpenstock.so.1"))
MODEL = str(GOLDEN / EMBED)
SAME = {"dtype": "f32"}
ROWS = 3000

pytestmark = pytest.mark.skipif(
    not LIBRARY.exists(), reason=f"{LIBRARY} IS NOT HERE: build it, or set PENSTOCK_LIBRARY"
)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    variables = {"PENSTOCK_LIBRARY": str(LIBRARY), "PENSTOCK_PROGRAM": binary(), "PYTHONPATH": str(ROOT / "python")}
    os.environ.update(variables)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100 << 20,
        runtime_env={"env_vars": variables},
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "a.jsonl"
    path.write_text("".join(json.dumps({"text": f"dog {'cat ' * (i % 37)}{i}"}) + "\n" for i in range(ROWS)))
    return path


@pytest.fixture(scope="module")
def whole(corpus):
    path = corpus.parent / "whole.npy"
    run("embed", "--model", MODEL, "--dtype", "f32", corpus, "-q", "-o", path)
    return path


def test_files_in_shards(corpus, whole, tmp_path):
    out, merged = tmp_path / "parts", tmp_path / "x.npy"
    made = penstock.ray.embed_files(
        str(corpus), str(out), model=MODEL, **SAME, shards=6, merge=str(merged), text_field="text"
    )
    assert made == {"shards": 6, "made": 6}
    assert merged.read_bytes() == whole.read_bytes()
    # Again: only what is missing is made.
    (out / "part-00003-of-00006.json").unlink()
    assert (
        penstock.ray.embed_files([str(corpus)], str(out), model=MODEL, **SAME, shards=6, text_field="text")["made"] == 1
    )


def test_a_bad_flag_ends_it_with_what_the_program_says(corpus, tmp_path):
    with pytest.raises(penstock.Error, match="--no-such-flag"):
        penstock.ray.embed_files(str(corpus), str(tmp_path / "parts"), model=MODEL, **SAME, shards=3, no_such_flag=1)
    with pytest.raises(penstock.Error, match="has no field"):
        penstock.ray.embed_files(str(corpus), str(tmp_path / "parts"), model=MODEL, **SAME, shards=3, text_field="body")


def kill_workers(name, stop, kills):
    """Kills processes of Ray's whose title has `name`, two, half a second apart or more."""
    while not stop.wait(0.5) and len(kills) < 2:
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                title = path.read_bytes()
                if title.startswith(b"ray::") and name in title:
                    os.kill(int(path.parent.name), signal.SIGKILL)
                    kills.append(title)
                    break
            except (OSError, ValueError):
                continue


def test_tasks_whose_workers_are_killed_go_on(tmp_path):
    lines = tmp_path / "a.txt"
    lines.write_text("".join(f"dog {'cat ' * (i % 90)}{i}\n" for i in range(40000)))
    run("embed", "--model", MODEL, "--dtype", "f32", lines, "-q", "-o", tmp_path / "whole.npy")
    stop, kills = threading.Event(), []
    killer = threading.Thread(target=kill_workers, args=(b"_make_shard", stop, kills))
    killer.start()
    try:
        penstock.ray.embed_files(
            str(lines), str(tmp_path / "parts"), model=MODEL, **SAME, shards=8, merge=str(tmp_path / "x.npy")
        )
    finally:
        stop.set()
        killer.join()
    assert kills, "no worker was killed"
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


def dataset(corpus):
    return ray.data.read_json(str(corpus))


def vectors_of(found):
    rows = sorted(found.take_all(), key=lambda row: row["id"])
    return np.stack([np.asarray(row["embedding"], dtype=np.float32) for row in rows])


def with_ids(corpus, tmp_path):
    rows = [json.loads(line) for line in corpus.read_text().splitlines()]
    table = pa.table({"id": list(range(len(rows))), "text": [row["text"] for row in rows]})
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    return ray.data.read_parquet(str(tmp_path / "in.parquet"))


def test_a_dataset_in_a_dataset_out(corpus, whole, tmp_path):
    found = penstock.ray.embed_dataset(with_ids(corpus, tmp_path), model=MODEL, **SAME, block_rows=500)
    assert np.array_equal(vectors_of(found), np.load(whole))
    found.write_parquet(str(tmp_path / "out"))
    table = pa.parquet.read_table(tmp_path / "out").sort_by("id")
    assert table.schema.field("embedding").type.value_type == pa.float32()
    assert table.num_rows == ROWS and table.column("embedding")[7].as_py() == np.load(whole)[7].tolist()


def test_actors_that_are_killed_are_replaced(corpus, whole, tmp_path):
    stop, kills = threading.Event(), []
    killer = threading.Thread(target=kill_workers, args=(b"MapWorker", stop, kills))
    killer.start()
    try:
        found = penstock.ray.embed_dataset(
            with_ids(corpus, tmp_path), model=MODEL, **SAME, actors=(1, 2), block_rows=100
        )
        vectors = vectors_of(found)
    finally:
        stop.set()
        killer.join()
    assert np.array_equal(vectors, np.load(whole))


def test_columns_and_arguments(corpus):
    embedder = penstock.ray.Embedder(MODEL, text="body", output="vector", encode={"truncate_dim": 8}, threads=1)
    table = embedder(pa.table({"body": ["dog", "cat"], "vector": [1, 2]}))
    assert table.column_names == ["body", "vector"] and table.schema.field("vector").type == pa.list_(pa.float32(), 8)
    # In a driver, to which Ray gives no processors.
    assert penstock.ray.Embedder(MODEL, text="body", output="vector", encode={"truncate_dim": 8})(table).num_rows == 2
    with pytest.raises(penstock.InvalidArgument, match="no column 'body'; there are text"):
        embedder(pa.table({"text": ["dog"]}))
    with pytest.raises(penstock.InvalidArgument, match="row 1 is null"):
        embedder(pa.table({"body": ["dog", None]}))
    with pytest.raises(penstock.InvalidArgument, match="no rows with a column 'body'"):
        penstock.ray.embed_dataset(dataset(corpus), model=MODEL, **SAME, text="body")
