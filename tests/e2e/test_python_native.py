"""The Python package with models in the process: bits, memory, threads, signals, forks, event loops."""

import asyncio
import concurrent.futures
import gc
import json
import os
import pathlib
import pickle
import re
import sys
import threading
import time

import numpy as np
import pytest

from conftest import CLASSIFY, EMBED, GOLDEN, RERANK, ROOT, binary, find_minilm, serving

sys.path.insert(0, str(ROOT / "python"))

import penstock

import test_python_package

LIBRARY = pathlib.Path(os.environ.get("PENSTOCK_LIBRARY", ROOT / "build" / "libpenstock.so.1"))
TEXTS = ["hello world", "a penstock is a pipe", "", "naïve café — déjà vu", "日本語のテキスト"]
LLAMA = ROOT / "tests" / "golden" / "decoders" / "llama"
HELLO = [{"role": "user", "content": "Hello"}]
SAME = {"dtype": "f32", "threads": 2}

pytestmark = pytest.mark.skipif(
    not LIBRARY.exists(), reason=f"{LIBRARY} IS NOT HERE: build it, or set PENSTOCK_LIBRARY"
)


@pytest.fixture(scope="module", autouse=True)
def library():
    os.environ["PENSTOCK_LIBRARY"] = str(LIBRARY)


@pytest.fixture(scope="module")
def server_args(weather):
    models = {"embed": GOLDEN / EMBED, "rerank": GOLDEN / RERANK, "classify": GOLDEN / CLASSIFY, "weather": weather}
    models.update(llama=LLAMA, add="builtin:add?shape=2")
    words = [word for name, path in models.items() for word in ("--model", f"{name}={path}")]
    return (*words, "--keep-alive=-1")


@pytest.fixture(scope="module")
def embedder():
    with penstock.Embedder(str(GOLDEN / EMBED), **SAME) as one:
        yield one


@pytest.fixture(scope="module")
def llm(weather):
    with penstock.LLM(str(weather), **SAME) as one:
        yield one


def python(script, **more):
    """What a Python process with the package and the library prints."""
    names = f"EMBED = {str(GOLDEN / EMBED)!r}\nLLAMA = {str(LLAMA)!r}\nSAME = {SAME!r}\n"
    return test_python_package.python(names + script, **{"PENSTOCK_LIBRARY": str(LIBRARY), **more})


# --- the server's answers ----------------------------------------------------------------------


def test_vectors_have_the_bits_of_the_server(server, embedder):
    remote = penstock.Embedder("embed", url=server.url)
    many = [f"text {i % 997}" for i in range(5000)]
    for texts in (TEXTS, many, TEXTS[0], []):
        for more in ({}, {"prompt_name": "query"}, {"truncate_dim": 8, "normalize_embeddings": True}):
            assert np.array_equal(embedder.encode(texts, **more), remote.encode(texts, **more))
    assert np.array_equal(embedder.encode_query(TEXTS), remote.encode_query(TEXTS))
    assert np.array_equal(embedder.encode_document(TEXTS), remote.encode_document(TEXTS))
    assert np.array_equal(np.stack(list(embedder.embed(iter(many)))), remote.encode(many))
    assert embedder.tokenize(TEXTS) == remote.tokenize(TEXTS)
    assert embedder.max_seq_length == remote.max_seq_length == 48
    assert embedder.get_sentence_embedding_dimension() == 32


def test_scores_and_labels_are_those_of_the_server(server):
    pairs = [(f"query {i % 3}", f"text {i}") for i in range(50)]
    remote = penstock.Reranker("rerank", url=server.url)
    with penstock.Reranker(str(GOLDEN / RERANK), **SAME) as native:
        assert np.array_equal(native.predict(pairs), remote.predict(pairs))
        assert native.compute_score(pairs) == remote.compute_score(pairs)
        assert native.rank("a", ["b", "c"], return_documents=True) == remote.rank(
            "a", ["b", "c"], return_documents=True
        )
    with penstock.Classifier(str(GOLDEN / CLASSIFY), **SAME) as native:
        assert native(TEXTS, top_k=None) == penstock.Classifier(url=server.url)(TEXTS, top_k=None)


def test_texts_are_those_of_the_server(server, llm):
    remote = penstock.LLM("weather", url=server.url)
    for more in ({"temperature": 0}, {"temperature": 1, "seed": 5, "n": 2}):
        assert llm.chat(HELLO, **more)["choices"] == remote.chat(HELLO, **more)["choices"]
    assert "".join(llm.chat(HELLO, temperature=0, stream=True)) == "Good day."
    with penstock.LLM(str(LLAMA), **SAME) as native:
        prompts, params = ["Once", "Twice", [65, 66]], penstock.SamplingParams(seed=1, max_tokens=8, logprobs=1)
        found = native.generate(prompts, params)
        assert found == penstock.LLM("llama", url=server.url).generate(prompts, params)
        stream = native.generate("Once", seed=1, max_tokens=8, stream=True)
        assert "".join(stream) == found[0].text
        assert stream.usage["completion_tokens"] == found[0].completion_tokens


def test_tensors():
    with penstock.TensorModel("builtin:add?shape=2") as model:
        one, two = np.array([[1, 2]], dtype=np.float32), np.array([[3, 5]], dtype=np.float32)
        assert np.array_equal(model(INPUT0=one, INPUT1=two)["OUTPUT0"], one + two)
        large = np.random.default_rng(0).random((200, 2), dtype=np.float32)
        assert np.array_equal(model(INPUT0=large, INPUT1=large)["OUTPUT1"], large - large)


# --- memory ------------------------------------------------------------------------------------


def test_vectors_are_not_copied(embedder):
    from penstock._native import VectorMemory

    vectors = embedder.encode(TEXTS)
    base = vectors
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, VectorMemory)
    assert vectors.flags.writeable and vectors.flags.aligned and vectors.flags.c_contiguous
    first = vectors[0]
    assert np.shares_memory(first, vectors)
    kept = vectors.copy()
    del vectors, base
    gc.collect()
    embedder.encode([f"text {i}" for i in range(2000)])
    assert np.array_equal(first, kept[0])


def test_vectors_outlive_their_model():
    one = penstock.Embedder(str(GOLDEN / EMBED), **SAME, max_batch_rows=17)
    vectors = one.encode(TEXTS)
    kept = vectors.copy()
    one.close()
    del one
    gc.collect()
    assert np.array_equal(vectors, kept)


def test_memory_is_flat():
    script = """
import gc, os, penstock
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
texts = [f"text {i}" for i in range(2000)]
sizes = []
for cycle in range(30):
    with penstock.Embedder(EMBED, **SAME) as one:
        one.encode(texts)
    gc.collect()
    sizes.append(resident())
print(sizes[-1] - sizes[9])
one = penstock.Embedder(EMBED, **SAME)
one.encode(texts)
before = resident()
for _ in range(100):
    one.encode(texts)
print(resident() - before)
print(len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")))
one.close()
print(len(os.listdir("/proc/self/task")))
"""
    cycles, calls, more = python(script).split("\n", 2)
    assert int(cycles) < 8 << 20 and int(calls) < 8 << 20, (cycles, calls)
    counts = more.split()
    assert int(counts[0]) < 60 and int(counts[2]) <= int(counts[1])


def test_equal_arguments_share_a_model():
    script = """
import penstock
from penstock import _handle
one, two = penstock.Embedder(EMBED, **SAME), penstock.Embedder(EMBED, **SAME)
other = penstock.Embedder(EMBED, **{**SAME, "threads": 1})
assert len(_handle._open) == 2
one.close()
two.encode("a")
del other
assert len(_handle._open) == 1
two.close()
assert len(_handle._open) == 0
print("well")
"""
    assert python(script) == "well"


# --- threads, signals, processes ---------------------------------------------------------------


def test_threads_share_an_object(embedder):
    whole = embedder.encode(TEXTS)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for vectors in pool.map(lambda _: embedder.encode(TEXTS), range(200)):
            assert np.array_equal(vectors, whole)


LONG = """
import penstock, penstock._native, penstock.embedder, os, signal, threading, time
penstock.embedder.windows = lambda strings: iter([strings])  # one call, which takes long
waits, begun = penstock._native.Call.wait, threading.Event()
def wait(call):
    if loaded:
        begun.set()
    waits(call)
loaded = False
penstock._native.Call.wait = wait
one = penstock.Embedder(EMBED, **SAME)
loaded = True
texts = [f"text {i} " * 8 for i in range(60_000)]
def in_the_middle(stop):
    begun.wait()
    time.sleep(0.1)  # some of the work is done
    stop()
"""


def test_ctrl_c_ends_a_call():
    script = """
told = []
def stop():
    told.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=in_the_middle, args=(stop,)).start()
try:
    one.encode(texts)
    print("whole")
except KeyboardInterrupt:
    print(time.monotonic() - told[0])
    one.encode("a")
"""
    # The machine may be busy with something else at one of these moments.
    assert min(float(python(LONG + script)) for _ in range(3)) < 0.2


def test_closing_ends_the_calls_of_other_threads():
    script = """
threading.Thread(target=in_the_middle, args=(one.close,)).start()
try:
    one.encode(texts)
    print("whole")
except penstock.Cancelled as error:
    print(error.code)
"""
    assert python(LONG + script) == "cancelled"


def test_a_process_can_end_in_the_middle_of_a_call():
    script = """
threading.Thread(target=one.encode, args=(texts,), daemon=True).start()
in_the_middle(lambda: print("ends"))
"""
    done = python(LONG + script, check=False)
    assert done.stdout == "ends\n" and done.returncode == 0, done.stderr


def test_a_forked_child_is_refused_at_once():
    script = """
import os, penstock, time
one = penstock.Embedder(EMBED, **SAME)
llm = penstock.LLM(LLAMA, **SAME)
vectors = one.encode(["a", "b"])
copy = vectors.copy()
child = os.fork()
if child == 0:
    began = time.monotonic()
    wrong = 0
    for ask in (lambda: one.encode("a"), lambda: one.tokenize("a"), lambda: llm.chat([{"role": "user", "content": "a"}]),
                lambda: next(llm.generate("a", stream=True))):
        try:
            ask()
            wrong = 1
        except penstock.Error as error:
            wrong |= "fork" not in str(error)
    wrong |= not (vectors == copy).all()
    wrong |= time.monotonic() - began > 0.1
    one.close()
    two = penstock.Embedder(EMBED, **SAME)  # the child's own
    wrong |= not (two.encode(["a", "b"]) == copy).all()
    raise SystemExit(wrong)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert (one.encode(["a", "b"]) == copy).all()
print("well")
"""
    assert python(script) == "well"


def test_pickled_it_opens_in_another_process(embedder, tmp_path):
    (tmp_path / "one").write_bytes(pickle.dumps(embedder))
    script = f"""
import pickle, sys
one = pickle.load(open({str(tmp_path / "one")!r}, "rb"))
assert "numpy" not in sys.modules and one._backend is None
sys.stdout.write(one.encode("hello world").tobytes().hex())
"""
    assert python(script) == embedder.encode("hello world").tobytes().hex()
    copy = pickle.loads(pickle.dumps(embedder))
    assert np.array_equal(copy.encode(TEXTS), embedder.encode(TEXTS)) and repr(copy) == repr(embedder)


# --- event loops -------------------------------------------------------------------------------


def test_calls_of_an_event_loop(embedder, llm):
    many = [f"text {i}" for i in range(5000)]

    async def main():
        single = await asyncio.gather(*(embedder.aencode([text]) for text in TEXTS * 20))
        pieces = [piece async for piece in await llm.achat(HELLO, temperature=0, stream=True)]
        texts = [each.text for each in await llm.agenerate(["<|chat|>"] * 50, temperature=0)]
        return np.concatenate(single), await embedder.aencode(many), pieces, texts

    for _ in range(3):  # a new loop each time
        single, vectors, pieces, texts = asyncio.run(main())
        assert np.array_equal(single, np.tile(embedder.encode(TEXTS), (20, 1)))
        assert np.array_equal(vectors, embedder.encode(many))
        assert "".join(pieces) == "Good day." and len(pieces) > 1
        assert set(texts) == {"Good day."}


def test_more_than_the_queues_hold_waits(embedder):
    texts = [f"text {i} " * 8 for i in range(4096)]  # 0.2 million tokens; 0.8 million may wait

    async def main():
        return await asyncio.gather(*(embedder.aencode(texts) for _ in range(8)))

    whole = embedder.encode(texts)
    assert all(np.array_equal(vectors, whole) for vectors in asyncio.run(main()))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(np.array_equal(vectors, whole) for vectors in pool.map(embedder.encode, [texts] * 8))


def test_loops_and_threads_side_by_side(embedder):
    whole = embedder.encode(TEXTS)

    async def calls():
        for _ in range(100):
            assert np.array_equal(await embedder.aencode(TEXTS), whole)

    def threads():
        for _ in range(100):
            assert np.array_equal(embedder.encode(TEXTS), whole)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(asyncio.run, calls()) for _ in range(4)] + [pool.submit(threads) for _ in range(4)]
        for job in jobs:
            job.result(60)


def test_a_loop_goes_on_while_a_model_works(embedder):
    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)  # a tick
                ticks += 1

        task = asyncio.create_task(tick())
        began = time.monotonic()
        await embedder.aencode([f"text {i} " * 8 for i in range(20000)])
        task.cancel()
        return ticks, time.monotonic() - began

    ticks, seconds = asyncio.run(main())
    assert ticks >= seconds / 0.005 * 0.1


def test_a_cancelled_task_cancels_its_call(embedder):
    async def main():
        task = asyncio.create_task(embedder.aencode([f"text {i} " * 8 for i in range(200_000)]))
        await asyncio.sleep(0.3)  # calls are under way
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    assert asyncio.run(main()) < 0.5
    assert embedder.encode("a").shape == (32,)


def test_a_stream_that_is_left(llm):
    with llm.chat(HELLO, temperature=0, stream=True) as stream:
        assert next(stream)
    with pytest.raises((penstock.Cancelled, StopIteration)):
        while True:
            next(stream)
    assert llm.chat(HELLO, temperature=0).text == "Good day."


# --- errors ------------------------------------------------------------------------------------


def test_models_that_are_not_there(tmp_path):
    for reference in (tmp_path / "nowhere", tmp_path, "builtin:nope"):
        with pytest.raises(penstock.ModelNotFound) as caught:
            penstock.Embedder(reference)
        assert caught.value.field == "model" and str(reference).split(":")[-1] in str(caught.value)
    with pytest.raises(penstock.InvalidArgument, match="reranking") as caught:
        penstock.Embedder(str(GOLDEN / RERANK))
    assert caught.value.field == "model"


def test_flags_that_are_none():
    for flags, field in (
        ({"tredds": 2}, "tredds"),
        ({"dtype": "f8"}, "dtype"),
        ({"threads": -1}, "threads"),
        ({"log_level": 5}, "log_level"),
        ({"port": 80}, "port"),
    ):
        with pytest.raises(penstock.InvalidArgument) as caught:
            penstock.Embedder(str(GOLDEN / EMBED), **flags)
        assert caught.value.field == field, str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"prompt_name": "nope"}, "prompt_name"), ({"truncate_dim": 33}, "truncate_dim"), ({"pool": 1}, "pool")],
)
def test_arguments_at_fault_are_named(embedder, arguments, field):
    with pytest.raises(penstock.InvalidArgument) as caught:
        embedder.encode(TEXTS, **arguments)
    assert caught.value.field == field and caught.value.code == "invalid_argument"


def test_errors_name_the_row_of_the_whole(embedder):
    texts = ["a"] * 5000
    texts[4500] = "half \ud800"
    with pytest.raises(penstock.InvalidArgument) as caught:
        embedder.encode(texts)
    assert caught.value.field == "sentences[4500]"
    texts[4500] = "b" * ((1 << 20) + 1)
    with pytest.raises(penstock.PayloadTooLarge) as caught:
        embedder.encode(texts)
    assert caught.value.field == "sentences[4500]"


def test_a_chat_refuses_by_name(llm):
    for stream in (False, True):
        with pytest.raises(penstock.InvalidArgument) as caught:
            llm.chat(HELLO, temperature=9, stream=stream)
        assert caught.value.field == "temperature"


def test_the_library_is_not_there():
    done = python("import penstock; penstock.Embedder('x')", check=False, PENSTOCK_LIBRARY="/nowhere.so")
    assert "PENSTOCK_LIBRARY" in done.stderr and "/nowhere.so" in done.stderr and "penstock.errors.Error" in done.stderr


# --- Arrow, and the page -----------------------------------------------------------------------


def test_arrow(embedder):
    pyarrow = pytest.importorskip("pyarrow", reason="PYARROW IS NOT HERE")
    many = [f"text {i}" for i in range(5000)]
    whole = embedder.encode(TEXTS + many)
    columns = {
        "array": pyarrow.array(TEXTS + many),
        "large": pyarrow.array(TEXTS + many, type=pyarrow.large_string()),
        "slice": pyarrow.array(["x", *TEXTS, *many, "y"])[1:-1],
        "chunks": pyarrow.chunked_array([TEXTS, [], many[:100], many[100:]], type=pyarrow.string()),
    }
    for name, column in columns.items():
        found = embedder.embed_arrow(column)
        assert isinstance(found, pyarrow.FixedSizeListArray) and len(found) == len(whole), name
        assert np.array_equal(found.flatten().to_numpy().reshape(-1, 32), whole), name
    query = embedder.embed_arrow(pyarrow.array(TEXTS), prompt_name="query", truncate_dim=8)
    assert np.array_equal(query.flatten().to_numpy().reshape(-1, 8), embedder.encode_query(TEXTS, truncate_dim=8))
    assert len(embedder.embed_arrow(pyarrow.array([], type=pyarrow.string()))) == 0
    for column, field in (
        (pyarrow.array(["a", None, "b", None]), "column[1]"),
        (pyarrow.array([1]), "column"),
        ("a", "column"),
    ):
        with pytest.raises(penstock.InvalidArgument) as caught:
            embedder.embed_arrow(column)
        assert caught.value.field == field
    with pytest.raises(penstock.UnknownArgument):
        embedder.embed_arrow(columns["array"], precision="int8")


def test_arrow_texts_are_not_copied():
    pyarrow = pytest.importorskip("pyarrow", reason="PYARROW IS NOT HERE")
    from penstock._arrow import column_windows

    column = pyarrow.array([f"text {i}" for i in range(5000)])
    offsets, data = column.buffers()[1:]
    for number, window in enumerate(column_windows(column)):
        packed = window.packed()
        assert packed.bytes_address == data.address
        assert packed.offsets_address == offsets.address + 4 * number * 2048


def test_the_default_model_gives_what_sentence_transformers_gives():
    """expected.json has what sentence-transformers 6.2 makes of these texts in float64 (tools/make_minilm_goldens.py)."""
    folder = find_minilm()
    if folder is None:
        pytest.skip("all-MiniLM-L6-v2 IS NOT HERE: set PENSTOCK_MINILM to its folder")
    reference = json.loads((ROOT / "tests/golden/minilm/expected.json").read_text())
    cases = [case for case in reference["texts"] if "embedding" in case]
    wanted = np.array([case["embedding"] for case in cases])
    with penstock.Embedder(str(folder), dtype="f32") as model:
        found = model.encode([case["text"] for case in cases])
        assert np.abs(found - wanted).max() < 1e-5
        cosines = wanted @ wanted.T / np.outer(np.linalg.norm(wanted, axis=1), np.linalg.norm(wanted, axis=1))
        assert np.abs(model.similarity(found, found) - cosines).max() < 1e-5
        assert model.get_sentence_embedding_dimension() == 384 and model.max_seq_length == 256


def page():
    """The blocks of the page: what Python runs, and what it prints."""
    text = (ROOT / "docs" / "PYTHON.md").read_text()
    return re.findall(r"```python\n(.*?)```\s*(?:```text\n(.*?)```)?", text, re.DOTALL)


def test_the_page_runs_as_printed(tmp_path, weather, monkeypatch):
    folders = {"./reranker": GOLDEN / RERANK, "./classifier": GOLDEN / CLASSIFY}
    chat = tmp_path / "chat"
    chat.mkdir()
    for each in LLAMA.iterdir():
        (chat / each.name).symlink_to(each)
    (chat / "chat_template.jinja").write_text("{% for message in messages %}{{ message.content }}{% endfor %}")
    folders["./chat"] = chat
    folders["sentence-transformers/all-MiniLM-L6-v2"] = GOLDEN / EMBED
    code = "".join(block for block, _ in page())
    assert all(kind in code for kind in ("Embedder", "Reranker", "Classifier", "LLM", "TensorModel", "serve"))
    for name, folder in folders.items():
        code = code.replace(name, str(folder))
    told = "".join(text for _, text in page()).replace("384", "32")
    printed = python(code, PENSTOCK_PROGRAM=binary(), PENSTOCK_DTYPE="auto")
    assert printed == told.strip()


def test_a_server_and_the_library_share_nothing(embedder):
    with serving("--model", f"embed={GOLDEN / EMBED}") as server:
        remote = penstock.Embedder(url=server.url)
        assert np.array_equal(remote.encode(TEXTS), embedder.encode(TEXTS))
    assert threading.active_count() < 50
