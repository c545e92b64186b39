"""The tiny models that make_model_goldens.py writes: one entry a folder.

Fields of an entry: task, about, config (config.json as published checkpoints write it),
tokenizer (kind in golden_tokenizers.py), lengths and pairs (token id cases), max_seq_length
(where text is cut), max_tokens (rows of the position table that a text can use).
"""

import golden_tokenizers
import torch

PROMPTS = {"query": "query: ", "passage": "passage: "}
TEXTS = [
    ("That is a happy person", None),
    ("Where is the capital of France?", None),
    ("", None),
    ("UPPER case, Café! 你好 12345 zzz", None),
    ("the quick brown fox jumps over the lazy dog " * 12, None),
]
PAIR_TEXTS = [
    ("where is paris", "Paris is the capital of France."),
    ("where is paris", "the dog runs"),
    ("happy", "that is a very happy person " * 14),
    ("is the movie good " * 20, "great film, very good movie " * 9),
]
SINGLE_TEXTS = [("what a great movie", None), ("the film was awful", None), ("", None)]


def common(task, kind, about, config, **fields):
    spec = {"task": task, "about": about, "config": config, "tokenizer": kind,
            "special_ids": golden_tokenizers.special_ids(kind), "vocab": config["vocab_size"]}
    spec.update(fields)
    spec.setdefault("max_seq_length", spec["max_tokens"])
    spec["hidden"] = config.get("hidden_size") or config.get("dim") or config.get("n_embd")
    if task == "embed":
        spec.setdefault("texts", TEXTS)
    return spec


def labels(names):
    return {"id2label": {str(i): n for i, n in enumerate(names)}, "label2id": {n: i for i, n in enumerate(names)}}


# --- BERT ------------------------------------------------------------------------------

BERT_LENGTHS = [1, 2, 3, 5, 8, 17, 33, 64, 70]


def bert_config(arch, hidden=32, heads=4, ff=64, layers=2, act="gelu", positions=72, **extra):
    return {"architectures": [arch], "model_type": "bert", "vocab_size": 200, "hidden_size": hidden,
            "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": ff,
            "hidden_act": act, "max_position_embeddings": positions, "type_vocab_size": 2,
            "layer_norm_eps": 1e-12, "position_embedding_type": "absolute", "pad_token_id": 0,
            "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
            "initializer_range": 0.02, **extra}


def bert(task, about, config, **fields):
    fields.setdefault("lengths", BERT_LENGTHS)
    fields.setdefault("pairs", [(2, 1), (9, 21)])
    return common(task, "bert", about, config, type_vocab=2,
                  max_tokens=config["max_position_embeddings"], **fields)


def old_checkpoint_names(state, draw):
    """bert.* names, LayerNorm gamma/beta and tensors of the pre-training heads, as old files have."""
    out = {}
    for name, tensor in state.items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        out["bert." + name] = tensor
    hidden = state["embeddings.word_embeddings.weight"].shape[1]
    dtype = state["embeddings.word_embeddings.weight"].dtype
    out["bert.embeddings.position_ids"] = torch.arange(40).unsqueeze(0)
    out["cls.predictions.bias"] = draw("cls.bias", (170,)).to(dtype)
    out["cls.seq_relationship.weight"] = draw("cls.weight", (2, hidden)).to(dtype)
    return out


MODELS = {
    "bert_mean_normalize": bert(
        "embed", "BERT with pooler, gelu, head size 8; mean, normalize; prompts; every pooling mode",
        bert_config("BertModel"), pooling="mean", normalize=True, all_poolings=True,
        truncate=[8, 16], prompts=PROMPTS, max_seq_length=48,
        texts=TEXTS + [("Where is the capital of France?", "query"), ("Paris is in France.", "passage")]),
    "bert_cls_sharded_old_names": bert(
        "embed", "BERT without pooler, names bert.* with gamma/beta, two shards with an index, gelu_new, head size 32; cls",
        {**bert_config("BertModel", hidden=64, heads=2, ff=24, act="gelu_new", positions=40), "vocab_size": 170},
        no_pooler=True, pooling="cls", shards=2, rename=old_checkpoint_names, lengths=[1, 4, 19, 40]),
    "bert_max_bf16_odd": bert(
        "embed", "BF16 weights, hidden 48, feed-forward 80, 3 layers, relu, head size 16; max, no normalize",
        bert_config("BertModel", hidden=48, heads=3, ff=80, layers=3, act="relu"), dtype="BF16", pooling="max"),
    "bert_lasttoken_f16": bert(
        "embed", "F16 weights, 4 layers, layer_norm_eps 1e-5, gelu_pytorch_tanh; last token, normalize",
        {**bert_config("BertModel", layers=4, act="gelu_pytorch_tanh"), "layer_norm_eps": 1e-5},
        dtype="F16", pooling="lasttoken", normalize=True, lengths=[1, 2, 7, 40]),
    "bert_weightedmean_hidden96_bf16": bert(
        "embed", "BF16, hidden 96 with 3 heads of 32, feed-forward 32, no pooler; weightedmean",
        {**bert_config("BertModel", hidden=96, heads=3, ff=32, positions=40), "vocab_size": 170},
        dtype="BF16", no_pooler=True, pooling="weightedmean", lengths=[1, 3, 12, 40], pairs=[(4, 5)], texts=TEXTS[:2]),
    "bert_sqrt_len_instructor": bert(
        "embed", "mean_sqrt_len_tokens; include_prompt false (prompt tokens are left out of the pooling); default prompt",
        bert_config("BertModel"), no_pooler=True, pooling="mean_sqrt_len_tokens", include_prompt=False,
        prompts={"query": "search query: ", "short": "the "}, default_prompt_name="query",
        lengths=[1, 6, 30], texts=TEXTS[:3] + [("the dog", "short"), ("the dog", "query")]),
}
