"""Real models within tight limits: two that do not fit together, and a control group of 1 GiB.

PENSTOCK_MINILM, PENSTOCK_SMOLLM2: an encoder's folder and a decoder's .gguf file; skipped without.
"""
import concurrent.futures
import os
import pathlib
import time
import uuid

import pytest

from conftest import GOLDEN, RERANK, Server, find_minilm

MIB = 1 << 20
GROUPS = [  # mount, file of the limit, file of what is taken
    (pathlib.Path("/sys/fs/cgroup"), "memory.max", "memory.current"),
    (pathlib.Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
]


@pytest.fixture(scope="module")
def two_models():
    encoder, decoder = find_minilm(), os.environ.get("PENSTOCK_SMOLLM2")
    if encoder is None or not decoder:
        pytest.skip("NO REAL MODELS: set PENSTOCK_MINILM and PENSTOCK_SMOLLM2")
    return ["--model", f"embed={encoder}", "--model", f"text={decoder}"]


def embed(server, texts=("Water falls.",), **more):
    return server.post("/v1/embeddings", {"model": "embed", "input": list(texts)}, **more)


def complete(server, tokens=4):
    return server.post("/v1/completions", {"model": "text", "prompt": "Water falls", "max_tokens": tokens,
                                           "temperature": 0})


def lifecycle(server, name):
    return server.get(f"/v1/models/{name}").json()["lifecycle"]


@pytest.fixture
def tight(two_models, start):
    """A server whose models do not fit together."""
    alone = start(*two_models, "--context", "2048", model=False, preload=False)
    assert complete(alone).status_code == 200
    # All of the decoder's weights, activations and a cache; then there is no room for the encoder.
    memory = lifecycle(alone, "text")["memory"]
    alone.stop()
    least = memory["weights_bytes"] + memory["activations_bytes"] + memory["cache_bytes"] / 8
    total = int((least + 20 * MIB + 67e6) / (1 - 1 / 8 - 1 / 32))
    return start(*two_models, "--context", "2048", "--memory", str(total), model=False, preload=False)


def test_two_models_that_do_not_fit_answer_in_turn(tight):
    vectors, texts = [], []
    for _ in range(3):
        vector, text = embed(tight), complete(tight)
        assert vector.status_code == 200 and text.status_code == 200, vector.text + text.text
        vectors.append(vector.json()["data"])
        texts.append(text.json()["choices"])
    assert all(vector == vectors[0] for vector in vectors) and all(text == texts[0] for text in texts)
    assert lifecycle(tight, "embed")["loads"] + lifecycle(tight, "text")["loads"] >= 5
    assert tight.process.poll() is None


def test_a_model_beside_one_in_use_is_refused_with_the_numbers(tight):
    assert complete(tight).status_code == 200
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        long_text = pool.submit(complete, tight, 400)
        time.sleep(0.2)  # until the text is under way
        refused = embed(tight)
        assert long_text.result().status_code == 200
    if refused.status_code == 200:
        pytest.skip("the text was over before the second model gave up waiting")
    assert refused.status_code == 503 and refused.headers["Retry-After"], refused.text
    for said in ("'embed' needs", "weights", "--memory", "text (", "in use"):
        assert said in refused.text, refused.text
    assert embed(tight).status_code == 200


@pytest.fixture
def group():
    """A control group of 1 GiB: the file to write a process to."""
    for mount, limit, _ in GROUPS:
        folder = mount / f"penstock-{uuid.uuid4().hex[:8]}"
        try:
            folder.mkdir()
        except OSError:
            continue
        # In a plain folder, as below the mounts of the first version, the file would be one without effect.
        try:
            if not (folder / limit).exists():
                raise OSError("no memory controller")
            (folder / limit).write_text(str(1024 * MIB))
        except OSError:
            folder.rmdir()
            continue
        yield folder
        for _ in range(100):
            try:
                return folder.rmdir()
            except OSError:
                time.sleep(0.05)  # until its last process has ended
        return
    pytest.skip("NO CONTROL GROUP: this user may not make one")


def test_a_group_of_one_gibibyte_is_enough(two_models, group):
    """Bulk embeddings, a rerank of 1,000 documents and text at once: the process is never killed."""
    models = [*two_models, "--model", f"rank={GOLDEN / RERANK}"]
    server = Server(*models, "--max-client-batch-size", "4096", preload=False,
                    before=lambda: (group / "cgroup.procs").write_text(str(os.getpid())))
    try:
        end = time.monotonic() + 15
        counts = {}

        def work(name, call):
            while time.monotonic() < end:
                status = call().status_code
                counts[name, status] = counts.get((name, status), 0) + 1

        texts = ["A penstock is the pipe that feeds a turbine at full pressure. " * 8] * 256
        documents = ["A pipe that feeds a turbine. " * 4] * 1000
        bulk = {"headers": {"X-Penstock-Priority": "bulk"}}
        calls = [
            ("bulk", lambda: embed(server, texts, **bulk)), ("bulk", lambda: embed(server, texts, **bulk)),
            ("rank", lambda: server.post("/v1/rerank", {"model": "rank", "query": "pipe", "documents": documents})),
            ("text", lambda: complete(server, 32)), ("text", lambda: complete(server, 32)),
        ]
        with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
            for task in [pool.submit(work, *call) for call in calls]:
                task.result()
        assert server.process.poll() is None, "".join(server.log)
        for name in ("bulk", "rank", "text"):
            assert counts.get((name, 200), 0) > 0, counts
        assert {status for _, status in counts} <= {200, 429, 503}, counts
    finally:
        assert server.stop() == 0, "".join(server.log)


def anonymous_bytes(server):
    """What the process holds beside pages of files, as the system counts it."""
    rollup = pathlib.Path(f"/proc/{server.process.pid}/smaps_rollup").read_text()
    return 1024 * sum(int(line.split()[1]) for line in rollup.splitlines()
                      if line.startswith(("Anonymous:", "Swap:")))


@pytest.mark.parametrize("name, work", [
    ("embed", lambda server: embed(server, ["A penstock feeds a turbine at full pressure. " * 20] * 256)),
    ("text", lambda server: complete(server, 64)),
])
def test_memory_that_is_told_is_what_the_system_counts(two_models, start, name, work):
    server = start(*two_models, "--context", "2048", "--idle-release-s", "0", model=False, preload=False)
    assert server.get("/v1/models").status_code == 200
    before = anonymous_bytes(server)
    assert work(server).status_code == 200
    taken = anonymous_bytes(server) - before
    memory = lifecycle(server, name)["memory"]
    told = sum(memory.values())
    print(name, "told", told, memory, "taken", taken)
    # Weights once: not as pages of the file and packed besides. The caches of keys and values, and
    # batches, need not be full.
    assert taken <= 1.2 * told + 24 * MIB
    assert taken >= 0.8 * memory["weights_bytes"]
