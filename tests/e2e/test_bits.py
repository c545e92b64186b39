"""Every golden encoder gives the bits it has always given, with every instruction set and type, and so does every
decoder that embeds or reranks. (src/generate/golden_test.cc has those that generate.)

tests/golden/bits.json holds a SHA-256 over the numbers of each. A change of the structure of the code leaves
it as it is; a change of arithmetic writes it anew and says so:

    PENSTOCK_BIN=build/penstock build/venv/bin/python tests/e2e/test_bits.py
"""
import hashlib
import json
import pathlib
import random
import re
import struct

import pytest
import requests

from conftest import GOLDEN, Server, clean_environment, run

BITS = pathlib.Path(__file__).resolve().parents[1] / "golden" / "bits.json"
EMBEDDERS = GOLDEN.parent / "embedders"
DTYPES = ("f32", "bf16", "int8")
WORDS = ["a", "the", "dog", "cat", "water", "river", "pipe", "of", "is", "was", "not", "happy", "person", "very", "turbine", "7", "1999", ",", ".", "!", "word", "hello", "world"]


def texts():
    """Of 1 to 90 words: short and long ones share batches, and one is longer than most models take."""
    rng = random.Random(20261122)
    return [" ".join(rng.choice(WORDS) for _ in range(length))
            for length in (1, 2, 3, 5, 8, 13, 21, 34, 55, 90, 4, 4, 17, 2, 40, 1, 28, 9, 3, 66)]


def isas():
    """The instruction sets that this processor has."""
    refused = run("inspect", "--model", GOLDEN / "bert_mean_normalize", check=False,
                  env=clean_environment(PENSTOCK_CPU_ISA="none")).stderr.decode()
    return re.search(r"this processor offers ([\w, ]+)", refused)[1].split(", ")


def numbers_of(value):
    """All numbers of an answer, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from numbers_of(one)
    elif isinstance(value, (float, int)):
        yield float(value)


def bits_of(url, name, task):
    asked = texts()
    if task == "embedding":
        bodies = [("/embed", {"inputs": asked}), ("/embed", {"inputs": asked[9], "normalize": False}),
                  ("/embed_all", {"inputs": asked[:6]})]
    elif task == "reranking":
        bodies = [("/rerank", {"query": asked[4], "texts": asked, "raw_scores": True})]
    else:
        bodies = [("/predict", {"inputs": [[text] for text in asked], "raw_scores": True})]
    digest = hashlib.sha256()
    for path, body in bodies:
        answer = requests.post(url + path, json={"model": name, "truncate": True, **body}, timeout=60)
        assert answer.status_code == 200, (name, path, answer.text)
        value = answer.json()
        if task == "reranking":
            value = [one["score"] for one in sorted(value, key=lambda one: one["index"])]
        if task == "classification":
            value = [[one["score"] for one in sorted(row, key=lambda one: one["label"])] for row in value]
        # The server prints the shortest decimal that is the float.
        digest.update(b"".join(struct.pack("<f", number) for number in numbers_of(value)))
    return digest.hexdigest()


def measure(isa, dtype):
    """{model: SHA-256}"""
    kinds = [GOLDEN] if dtype == "int8" else [GOLDEN, EMBEDDERS]  # decoders take int8 from quantised files alone
    folders = sorted((path for kind in kinds for path in kind.iterdir() if (path / "config.json").is_file()),
                     key=lambda path: path.name)
    models = [flag for path in folders for flag in ("--model", f"{path.name}={path}")]
    server = Server(*models, "--auto-truncate", "--threads", "2",
                    env=clean_environment(PENSTOCK_DTYPE=dtype, PENSTOCK_CPU_ISA=isa))
    try:
        assert server.url, "".join(server.log)
        info = {one["id"]: one for one in requests.get(server.url + "/v1/models", timeout=60).json()["data"]}
        return {path.name: bits_of(server.url, path.name, info[path.name]["task"]) for path in folders}
    finally:
        assert server.stop() == 0, "".join(server.log)


def measured_by(isa, offered):
    """Which of the offered sets gives an instruction set's bits: itself, or else its emulation; None: neither."""
    return next((one for one in (isa, isa + "_emulated") if one in offered), None)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("isa", json.loads(BITS.read_text()) if BITS.is_file() else [])
def test_bits(isa, dtype):
    measured = measured_by(isa, isas())
    if measured is None:
        pytest.skip(f"this processor has no {isa}")
    assert measure(measured, dtype) == json.loads(BITS.read_text())[isa][dtype]


if __name__ == "__main__":
    known = json.loads(BITS.read_text()) if BITS.is_file() else {}
    offered = isas()
    for isa in sorted({one.removesuffix("_emulated") for one in offered}):
        known[isa] = {dtype: measure(measured_by(isa, offered), dtype) for dtype in DTYPES}
    BITS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    print(f"wrote {BITS}: {', '.join(sorted(known))}")
