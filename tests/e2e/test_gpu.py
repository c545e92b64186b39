"""--device cuda, with a driver library whose GPU is an emulator (tests/cuda/fake_driver.cc)."""

import json
import pathlib
import subprocess

import numpy
import pytest

from conftest import CLASSIFY, EMBED, GOLDEN, RERANK, ROOT, Server, binary, clean_environment

FAKE = pathlib.Path(binary()).resolve().parent / "libfake_cuda_driver.so"
DECODER = GOLDEN.parent / "decoders" / "llama"
TEXTS = ["hello world", "a dog in the park", "Voith builds water turbines"]


def environment(**more):
    return clean_environment() | {"PENSTOCK_CUDA_DRIVER": str(FAKE)} | more


def penstock(*arguments, env):
    return subprocess.run(
        [binary(), *map(str, arguments)], input="\n".join(TEXTS).encode(), capture_output=True, env=env, timeout=120
    )


@pytest.fixture(scope="module")
def gpu():
    if not FAKE.is_file():
        pytest.skip(f"{FAKE} IS NOT BUILT")
    probe = penstock("embed", "--device", "cuda", "--model", GOLDEN / EMBED, env=environment())
    if b"without kernels" in probe.stderr:
        pytest.skip("THE PROGRAM WAS BUILT WITHOUT NVCC: it has no kernels")
    assert probe.returncode == 0, probe.stderr


def vectors(*arguments):
    done = penstock("embed", "--model", GOLDEN / EMBED, *arguments, env=environment())
    assert done.returncode == 0, done.stderr
    return numpy.array([json.loads(line)["embedding"] for line in done.stdout.splitlines()])


@pytest.mark.parametrize("dtype, error", [("auto", 5e-3), ("bf16", 5e-2), ("f32", 1e-5)])
def test_vectors_are_those_of_the_cpu(gpu, dtype, error):
    ours = vectors("--device", "cuda", "--dtype", dtype)
    want = vectors("--device=cpu", "--dtype", "f32")
    assert numpy.abs(ours - want).max() <= error * numpy.abs(want).max()


def test_a_server_has_models_on_both(gpu):
    server = Server(
        "--model",
        f"a={GOLDEN / EMBED}",
        "--model",
        f"b={GOLDEN / EMBED}",
        "--model",
        f"rerank={GOLDEN / RERANK}",
        "--model",
        f"classify={GOLDEN / CLASSIFY}",
        "--device",
        "a=cuda",
        "--device",
        "rerank=cuda",
        "--device",
        "classify=cuda",
        env=environment(),
    )
    try:
        answers = [server.post("/v1/embeddings", {"model": name, "input": TEXTS}).json() for name in "ab"]
        a, b = (numpy.array([row["embedding"] for row in answer["data"]]) for answer in answers)
        assert ((a * b).sum(1) / numpy.linalg.norm(a, axis=1) / numpy.linalg.norm(b, axis=1)).min() > 0.9999
        assert server.post("/v1/rerank", {"model": "rerank", "query": "dog", "documents": TEXTS}).status_code == 200
        assert server.post("/predict", {"model": "classify", "inputs": "dog"}).status_code == 200
        stats = server.get("/v1/stats").json()
        assert [device["device"] for device in stats["devices"]] == ["cpu", "cuda"]
        assert {model["model"]: model["device"] for model in stats["models"]} == {
            "a": "cuda",
            "b": "cpu",
            "rerank": "cuda",
            "classify": "cuda",
        }
        metrics = server.metrics()
        assert metrics['penstock_device_memory_used_bytes{device="cuda"}'] > 0
        assert metrics['penstock_device_up{device="cuda"}'] == 1
        cuda = stats["devices"][1]
        assert cuda["busy_s"] > 0 and cuda["copied_in_bytes"] > cuda["copied_out_bytes"] > 0
        assert cuda["graph_captures"] >= cuda["graphs"] > 0
        assert (
            metrics['penstock_device_copied_bytes_total{device="cuda",direction="host_to_device"}']
            == cuda["copied_in_bytes"]
        )
    finally:
        server.stop()


def test_a_lost_gpu_takes_its_models_along_and_no_others(gpu):
    server = Server(
        *("--model", f"a={GOLDEN / EMBED}", "--model", f"b={GOLDEN / EMBED}", "--device", "a=cuda"),
        env=environment(PENSTOCK_FAKE_LOST="1500"),
    )
    try:
        for _ in range(1000):
            answer = server.post("/v1/embeddings", {"model": "a", "input": TEXTS})
            if answer.status_code != 200:
                break
        assert answer.status_code == 503 and "the GPU is lost: cu" in answer.json()["error"]["message"]
        ready = server.get("/readyz")
        assert ready.status_code == 503 and "device 'cuda': the GPU is lost" in ready.text
        assert server.get("/livez").status_code == 200
        assert server.metrics()['penstock_device_up{device="cuda"}'] == 0
        again = server.post("/v1/embeddings", {"model": "a", "input": TEXTS})
        assert again.status_code == 503 and "the GPU is lost" in again.json()["error"]["message"]
        assert server.post("/v1/embeddings", {"model": "b", "input": TEXTS}).status_code == 200
    finally:
        server.stop()


@pytest.mark.parametrize(
    "more, reason",
    [
        ({"PENSTOCK_CUDA_DRIVER": "libnot_here.so.1"}, "there is no NVIDIA driver: libnot_here.so.1"),
        ({"PENSTOCK_CUDA_DRIVER": "libc.so.6"}, "the NVIDIA driver is too old: it has no cu"),
        ({"PENSTOCK_FAKE_GPUS": "0"}, "the NVIDIA driver has no GPU"),
        ({"PENSTOCK_FAKE_CAPABILITY": "75"}, "Fake GPU (compute capability 7.5) is too old"),
    ],
)
def test_what_is_missing_is_said(gpu, more, reason):
    done = penstock("embed", "--device", "cuda", "--model", GOLDEN / EMBED, env=environment(**more))
    assert done.returncode != 0 and done.stdout == b""
    assert f"device 'cuda': {reason}" in done.stderr.decode()


def test_gpu_check_takes_all_its_steps_on_the_emulated_gpu(gpu, tmp_path):
    found = tmp_path / "found.json"
    done = subprocess.run(
        [
            ROOT / "tools/gpu_check.py",
            "--dry-run",
            "--build",
            FAKE.parent,
            "--json",
            found,
            "--table",
            tmp_path / "table.md",
        ],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(found.read_text())
    assert record["dry_run"] and not record["failed"]
    rows = {(row["step"], row["what"]): row["figure"] for row in record["rows"]}
    figures = [row["figure"] for row in record["rows"]]
    assert "ok: 52 kernels have the bits of the emulator" in figures
    assert rows["goldens", "a text alone and among others"] == "the same bits"
    assert rows["load", "memory after the model was unloaded, twice"] == "0, 0 MiB"
    assert any(what.startswith("reindex.") for _, what in rows)
    assert rows["text", "text in f32"] == "that of the CPU"
    assert {"generate.decode.small.tokens_per_s", "generate.decode.small.without_graphs"} <= {what for _, what in rows}
    assert any(what.startswith("gemm_wgmma_f16 qkv") for step, what in rows if step == "times")
    assert "dry run" in (tmp_path / "table.md").read_text().split("\n")[0]


def test_doctor_checks_every_kernel_and_the_types_of_a_gpu(gpu):
    done = penstock("doctor", "--device", "cuda", "--model", GOLDEN / EMBED, "--accuracy-texts", "4", env=environment())
    told = done.stdout.decode()
    assert done.returncode == 0, told
    assert "52 kernels have the bits of the emulator" in told
    assert "f16: cosine mean 0.9999" in told or "f16: cosine mean 1.0" in told
    assert "int8 is not for this model" in told


def test_bench_kernels_times_those_of_a_gpu(gpu, tmp_path):
    found = tmp_path / "times.json"
    some = ("--width=64", "--tokens", "20", "--launches", "1", "--rounds", "1", "--json", found)
    done = penstock("bench", "kernels", *some, "--device", "cuda", env=environment())
    assert done.returncode == 0, done.stderr
    assert "attention_64_f16" in done.stdout.decode() and "no rows: a node of a graph" in done.stdout.decode()
    names = {json.loads(line)["name"] for line in found.read_text().splitlines()}
    assert names == {"kernels.us", "kernels.floor_share"}
    done = penstock("bench", "kernels", env=environment())
    assert done.returncode != 0 and b"penstock-lab kernels" in done.stderr
    done = penstock("bench", "kernels", "--device", "cuda", "--width", "100", env=environment())
    assert done.returncode != 0 and b"--width: not a multiple of 64" in done.stderr


def test_what_it_does_not_run_is_refused_by_name(gpu):
    done = penstock("embed", "--device", "cuda", "--dtype", "int8", "--model", GOLDEN / EMBED, env=environment())
    assert done.returncode != 0 and b"the GPU does not multiply in int8" in done.stderr
    kept = ("--cache-type", "int8", "-m", DECODER, "-p", "hello", "-n", "4")
    done = penstock("generate", "--device", "cuda", *kept, env=environment())
    assert done.returncode != 0 and b"the GPU does not keep a cache in int8" in done.stderr


def written(*arguments):
    exact = ("--dtype", "f32", "--cache-type", "f32", "--temperature", "0", "-n", "24", "-p", "hello", "-q")
    done = penstock("generate", "-m", DECODER, *exact, *arguments, env=environment())
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_text_in_f32_is_that_of_the_cpu(gpu):
    assert written("--device", "cuda") == written("--device=cpu") != b""


def test_a_server_writes_and_embeds_on_one_gpu(gpu):
    embedder = GOLDEN.parent / "embedders" / "qwen3_lasttoken"
    server = Server(
        *("--model", f"text={DECODER}", "--model", f"embed={embedder}", "--model", f"bert={GOLDEN / EMBED}"),
        *("--device", "cuda"),
        env=environment(),
    )
    try:
        ask = {"model": "text", "prompt": "hello", "max_tokens": 8, "temperature": 1, "seed": 7, "logprobs": 3}
        first, second = (server.post("/v1/completions", ask).json()["choices"][0] for _ in range(2))
        assert first["text"] == second["text"] and first["logprobs"] == second["logprobs"]
        for model in ("embed", "bert"):
            assert server.post("/v1/embeddings", {"model": model, "input": TEXTS}).status_code == 200
        stats = server.get("/v1/stats").json()
        assert {model["device"] for model in stats["models"]} == {"cuda"}
        used = {device["device"]: device["memory_used_bytes"] for device in stats["devices"]}
        assert used["cuda"] > 0
    finally:
        server.stop()
