"""Model folders of known shapes with random weights, as transformers writes them.

A folder's weights carry a classification head of one output, so that the same file serves as an
encoder of sentences and as a reranker: `write` makes FOLDER and FOLDER-rerank, which share it. Both
rows of token types are alike, so that every runtime computes the same for pairs.
"""
import dataclasses
import json
import os
import pathlib
import shutil

import numpy as np
from safetensors.numpy import load_file, save_file

SEED = 20260101
VOCABULARY = 30522  # that of BERT, and of the tokenizer the folders are given


@dataclasses.dataclass(frozen=True)
class Shape:
    hidden: int
    inner: int
    layers: int
    heads: int
    kind: str = "bert"


# As published: BAAI/bge-base-en-v1.5, BAAI/bge-large-en-v1.5, answerdotai/ModernBERT-base (whose
# own vocabulary is 50,368; only the table of words knows).
SHAPES = {
    "bge-base": Shape(768, 3072, 12, 12),
    "bge-large": Shape(1024, 4096, 24, 16),
    "modernbert-base": Shape(768, 1152, 22, 12, "modernbert"),
}


class Weights:
    def __init__(self):
        self.rng = np.random.default_rng(SEED)
        self.tensors = {}

    def matrix(self, name, rows, cols, bias=True, scale=0.02):
        self.tensors[name + ".weight"] = self.rng.standard_normal((rows, cols), np.float32) * np.float32(scale)
        if bias:
            self.tensors[name + ".bias"] = self.rng.standard_normal(rows, np.float32) * np.float32(scale)

    def norm(self, name, width, bias=True):
        self.tensors[name + ".weight"] = np.ones(width, np.float32)
        if bias:
            self.tensors[name + ".bias"] = np.zeros(width, np.float32)


def bert_weights(shape):
    w, hidden = Weights(), shape.hidden
    for name, rows in (("word", VOCABULARY), ("position", 512), ("token_type", 2)):
        w.matrix(f"bert.embeddings.{name}_embeddings", rows, hidden, bias=False)
    w.norm("bert.embeddings.LayerNorm", hidden)
    for i in range(shape.layers):
        p = f"bert.encoder.layer.{i}."
        for name in ("query", "key", "value"):
            w.matrix(p + "attention.self." + name, hidden, hidden)
        w.matrix(p + "attention.output.dense", hidden, hidden)
        w.norm(p + "attention.output.LayerNorm", hidden)
        w.matrix(p + "intermediate.dense", shape.inner, hidden)
        w.matrix(p + "output.dense", hidden, shape.inner)
        w.norm(p + "output.LayerNorm", hidden)
    w.matrix("bert.pooler.dense", hidden, hidden)
    w.matrix("classifier", 1, hidden)
    return w.tensors


def modernbert_weights(shape):
    w, hidden = Weights(), shape.hidden
    w.matrix("model.embeddings.tok_embeddings", VOCABULARY, hidden, bias=False)
    w.norm("model.embeddings.norm", hidden, bias=False)
    for i in range(shape.layers):
        p = f"model.layers.{i}."
        if i:
            w.norm(p + "attn_norm", hidden, bias=False)
        w.matrix(p + "attn.Wqkv", 3 * hidden, hidden, bias=False)
        w.matrix(p + "attn.Wo", hidden, hidden, bias=False)
        w.norm(p + "mlp_norm", hidden, bias=False)
        w.matrix(p + "mlp.Wi", 2 * shape.inner, hidden, bias=False)
        w.matrix(p + "mlp.Wo", hidden, shape.inner, bias=False)
    w.norm("model.final_norm", hidden, bias=False)
    w.matrix("head.dense", hidden, hidden, bias=False)
    w.norm("head.norm", hidden, bias=False)
    w.matrix("classifier", 1, hidden)
    return w.tensors


def bert_config(shape):
    return {
        "model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu",
        "hidden_size": shape.hidden, "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
        "max_position_embeddings": 512, "type_vocab_size": 2, "vocab_size": VOCABULARY,
        "layer_norm_eps": 1e-12, "pad_token_id": 0, "position_embedding_type": "absolute",
        "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "torch_dtype": "float32"}


def modernbert_config(shape):
    return {
        "model_type": "modernbert", "architectures": ["ModernBertModel"], "hidden_activation": "gelu",
        "hidden_size": shape.hidden, "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
        "max_position_embeddings": 8192, "vocab_size": VOCABULARY, "norm_eps": 1e-5,
        "norm_bias": False, "attention_bias": False, "mlp_bias": False, "classifier_bias": False,
        "classifier_pooling": "cls", "classifier_activation": "gelu",
        "global_attn_every_n_layers": 3, "local_attention": 128, "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0, "pad_token_id": 0, "cls_token_id": 101, "sep_token_id": 102,
        "bos_token_id": 101, "eos_token_id": 102, "torch_dtype": "float32"}


def write(path, config, tensors, tokenizer_folder=None):
    """`path` for sentences (mean pooling, 512 tokens), `path`-rerank with the head."""
    path = pathlib.Path(path)
    rerank = path.with_name(path.name + "-rerank")
    for folder in (path, rerank):
        folder.mkdir(parents=True, exist_ok=True)
        if tokenizer_folder is None:
            (folder / "tokenizer.json").write_text("{}")
            continue
        for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
            if (pathlib.Path(tokenizer_folder) / name).exists():
                shutil.copy(pathlib.Path(tokenizer_folder) / name, folder / name)
        limit_tokenizer(folder / "tokenizer.json")
    types = tensors.get("bert.embeddings.token_type_embeddings.weight")
    if types is not None:
        types[1:] = types[0]  # llama.cpp knows only the first
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    (rerank / "model.safetensors").unlink(missing_ok=True)
    os.link(path / "model.safetensors", rerank / "model.safetensors")
    (path / "config.json").write_text(json.dumps(config))
    (path / "1_Pooling").mkdir(exist_ok=True)
    (path / "1_Pooling/config.json").write_text(json.dumps(
        {"word_embedding_dimension": config["hidden_size"], "pooling_mode_cls_token": False,
         "pooling_mode_mean_tokens": True}))
    (path / "sentence_bert_config.json").write_text(json.dumps(
        {"max_seq_length": 512, "do_lower_case": False}))
    (path / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))
    head = dict(config, id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0}, num_labels=1,
                architectures=[config["architectures"][0].replace("Model", "ForSequenceClassification")])
    (rerank / "config.json").write_text(json.dumps(head))
    return path


def limit_tokenizer(path):
    """512 tokens and no padding, whatever the tokenizer's own folder had."""
    tokenizer = json.loads(path.read_text())
    tokenizer["padding"] = None
    tokenizer["truncation"] = {"direction": "Right", "max_length": 512, "strategy": "LongestFirst", "stride": 0}
    path.write_text(json.dumps(tokenizer, ensure_ascii=False))
    config_path = path.with_name("tokenizer_config.json")
    if config_path.exists():
        config = json.loads(config_path.read_text())
        config.update(model_max_length=512)
        config_path.write_text(json.dumps(config))


def random_folder(name, path, tokenizer_folder=None):
    shape = SHAPES[name]
    if shape.kind == "bert":
        return write(path, bert_config(shape), bert_weights(shape), tokenizer_folder)
    return write(path, modernbert_config(shape), modernbert_weights(shape), tokenizer_folder)


def with_head(folder, path):
    """The real encoder of `folder`, and as a reranker with a random head.

    Positions up to 512: the table has that number, whatever limit the folder gives.
    """
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    hidden = config["hidden_size"]
    tensors = {"bert." + name: array.copy() for name, array in load_file(folder / "model.safetensors").items()
               if "position_ids" not in name}
    head = Weights()
    if "bert.pooler.dense.weight" not in tensors:
        head.matrix("bert.pooler.dense", hidden, hidden)
    head.matrix("classifier", 1, hidden, scale=0.1)
    config.pop("_name_or_path", None)
    return write(path, dict(config, max_position_embeddings=512), {**tensors, **head.tensors}, folder)
