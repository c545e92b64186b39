"""Encoders of unknown architectures, from their ONNX files: vectors, scores and labels beside numpy.

The models are those of tools/make_tensor_goldens.py (encoder_models): the hidden state of a token is a row of one
table plus a row of another plus the sum of all tokens of the text.
"""
import json
import shutil

import numpy as np
import pytest

from conftest import EMBED, GOLDEN, run

TENSORS = GOLDEN.parent / "tensors"
WORDS = ["a", "cat", "sat", "on", "the", "mat", "and", "dog", "ran", "to", "house", "in", "sun", "rain", "who", "what", "is", "this", "that", "green", "red", "blue", "one", "two"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TABLE = ((np.arange(32)[:, None] * 7 + np.arange(4) * 3) % 11 - 5) / 8
TYPES = (np.arange(2)[:, None] * (np.arange(4) + 1)) / 4
HEADS = (np.arange(12).reshape(4, 3) % 5 - 2) / 4
TEXTS = ["a cat sat on the mat", "the dog ran", "who", "what is this green house in the sun and the rain",
         "one two " * 20, "red blue green"]


def ids(*texts):
    """[CLS] a [SEP], or [CLS] a [SEP] b [SEP], and the types."""
    tokens, types = [2], [0]
    for i, text in enumerate(texts):
        words = [VOCABULARY.index(word) for word in text.split()] + [3]
        tokens += words
        types += [i] * len(words)
    return np.array(tokens), np.array(types)


def states(*texts):
    tokens, types = ids(*texts)
    x = TABLE[tokens] + TYPES[types]
    return x + x.sum(axis=0)


def logits(*texts):
    tokens, types = ids(*texts)
    return (TABLE[tokens] + TYPES[types]).sum(axis=0) @ HEADS


def unit(vector):
    return vector / np.linalg.norm(vector)


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def make(folder, onnx, architecture, place="model.onnx", modules=True, **config):
    folder.mkdir()
    (folder / place).parent.mkdir(exist_ok=True)
    shutil.copy(TENSORS / onnx, folder / place)
    tokenizer = json.loads((GOLDEN / EMBED / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] = {word: i for i, word in enumerate(VOCABULARY)}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "config.json").write_text(json.dumps({
        "model_type": "unheard-of", "architectures": [architecture], "vocab_size": 32, "hidden_size": 4,
        "type_vocab_size": 2, "max_position_embeddings": 64, **config}))
    if modules:
        shutil.copy(GOLDEN / EMBED / "modules.json", folder)
        shutil.copytree(GOLDEN / EMBED / "1_Pooling", folder / "1_Pooling")
        pooling = folder / "1_Pooling" / "config.json"
        pooling.write_text(json.dumps({**json.loads(pooling.read_text()), "word_embedding_dimension": 4}))
    return folder


LABELS = {"0": "low", "1": "middle", "2": "high"}


@pytest.fixture
def models(tmp_path):
    return {"embed": make(tmp_path / "embed", "encoder.onnx", "UnheardModel", "onnx/model.onnx"),
            "label": make(tmp_path / "label", "encoder_logits.onnx", "UnheardForSequenceClassification",
                          modules=False, id2label=LABELS)}


def serve(start, **models):
    server = start(*(part for name, folder in models.items() for part in ("--model", f"{name}={folder}")),
                   preload=False)
    first = next(iter(models))
    loaded = server.post("/admin/models/load", {"model": first})
    if "tensor models need OpenVINO" in loaded.text:
        pytest.skip("NOT TESTED: OpenVINO is not installed")
    assert loaded.status_code == 200, (loaded.text, server.log[-5:])
    return server


def test_vectors(models, start):
    server = serve(start, embed=models["embed"])
    answer = server.post("/v1/embeddings", {"model": "embed", "input": TEXTS * 20})
    assert answer.status_code == 200, answer.text
    for i, one in enumerate(answer.json()["data"]):
        assert np.allclose(one["embedding"], unit(states(TEXTS[i % len(TEXTS)]).mean(axis=0)), atol=1e-5), i
    every = server.post("/embed_all", {"inputs": TEXTS}).json()
    for text, given in zip(TEXTS, every):
        assert np.allclose(given, states(text), atol=1e-5)
    long = server.post("/embed", {"inputs": "a " * 63, "truncate": False})
    assert long.status_code == 413 and "64" in long.text
    model = server.get("/v1/models/embed").json()
    assert model["dtype"] == "float32" and model["task"] == "embedding"
    assert "runs through its ONNX file" in "".join(server.log)


def test_labels_of_texts_and_pairs(models, start):
    server = serve(start, label=models["label"])
    answer = server.post("/v1/classify", {"model": "label", "input": TEXTS})
    assert answer.status_code == 200, answer.text
    for text, one in zip(TEXTS, answer.json()["data"]):
        assert np.allclose(one["probs"], softmax(logits(text)), atol=1e-5)
    # The types of a pair's texts reach the model.
    given = server.post("/predict", {"inputs": [["the cat", "the mat"]], "raw_scores": True}).json()
    scores = {one["label"]: one["score"] for one in given[0]}
    assert np.allclose([scores[name] for name in LABELS.values()], logits("the cat", "the mat"), atol=1e-4)


def test_what_is_refused(models, tmp_path, start):
    serve(start, embed=models["embed"])  # or skips

    def refused(folder, *more):
        done = run("embed", "--model", folder, *more, stdin=b"a", check=False)
        assert done.returncode != 0
        return done.stderr.decode()

    no_pooling = make(tmp_path / "no_pooling", "encoder.onnx", "UnheardModel", modules=False)
    assert "--pooling" in refused(no_pooling)
    assert run("embed", "--model", no_pooling, "--pooling", "cls", stdin=b"a").returncode == 0
    config = json.loads((no_pooling / "config.json").read_text())
    (no_pooling / "config.json").write_text(json.dumps({**config, "hidden_size": 5}))
    assert "config.json says 5 hidden_size" in refused(no_pooling, "--pooling", "cls")
    other = make(tmp_path / "other", "matmul.onnx", "UnheardModel")
    assert "this one takes x [-1,4]" in refused(other)
    (no_pooling / "model.onnx").unlink()
    assert "'unheard-of' is not supported" in refused(no_pooling)
