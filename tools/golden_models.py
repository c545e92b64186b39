"""The tiny models that make_model_goldens.py writes: one entry a folder.

Fields of an entry: task, about, config (config.json as published checkpoints write it),
tokenizer (kind in golden_tokenizers.py), lengths and pairs (token id cases), max_seq_length
(where text is cut), max_tokens (rows of the position table that a text can use).
"""

import torch

import golden_tokenizers

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
    "bert_rerank_identity": bert(
        "rerank", "one label; sbert_ce_default_activation_function Identity, so the score is the logit; type ids matter",
        bert_config("BertForSequenceClassification", **labels(["LABEL_0"]),
                    sbert_ce_default_activation_function="torch.nn.modules.linear.Identity"),
        scores="none", texts=PAIR_TEXTS),
    "bert_classify_softmax": bert(
        "classify", "4 labels, softmax, F16",
        bert_config("BertForSequenceClassification", layers=3, **labels(["anger", "joy", "sadness", "other"])),
        dtype="F16", scores="softmax", texts=SINGLE_TEXTS + [("happy dog", "sad cat")]),
    "bert_regression": bert(
        "classify", "problem_type regression with two outputs: raw values; BF16",
        bert_config("BertForSequenceClassification", problem_type="regression", **labels(["valence", "arousal"])),
        dtype="BF16", scores="none", texts=SINGLE_TEXTS),
}

# --- DistilBERT ------------------------------------------------------------------------


def distilbert_config(arch, **extra):
    return {"architectures": [arch], "model_type": "distilbert", "vocab_size": 180, "dim": 32, "n_heads": 2,
            "n_layers": 2, "hidden_dim": 64, "activation": "gelu", "max_position_embeddings": 72,
            "sinusoidal_pos_embds": False, "tie_weights_": True, "pad_token_id": 0, "dropout": 0.1,
            "attention_dropout": 0.1, "qa_dropout": 0.1, "seq_classif_dropout": 0.2, **extra}


def distilbert(task, about, config, **fields):
    fields.setdefault("lengths", [1, 2, 5, 17, 33, 72])
    fields.setdefault("pairs", [(2, 1), (9, 21)])
    return common(task, "distilbert", about, config, max_tokens=72, **fields)


MODELS.update({
    "distilbert_dense_tanh": distilbert(
        "embed", "no token types, no pooler; head size 16; mean, Dense 32->24 with bias and Tanh, Normalize",
        distilbert_config("DistilBertModel"), pooling="mean",
        dense=[(24, "activation.Tanh", True)], normalize=True),
    "distilbert_sinusoidal_relu": distilbert(
        "embed", "sinusoidal_pos_embds true and activation relu: the table still comes from the file; names distilbert.*",
        distilbert_config("DistilBertModel", sinusoidal_pos_embds=True, activation="relu"), pooling="mean",
        rename=lambda state, draw: {"distilbert." + n: t for n, t in state.items()}, texts=TEXTS[:1],
        dtype="F16"),
    "distilbert_rerank": distilbert(
        "rerank", "pre_classifier, relu, classifier with one label; sigmoid",
        distilbert_config("DistilBertForSequenceClassification", **labels(["LABEL_0"])),
        scores="sigmoid", texts=PAIR_TEXTS),
    "distilbert_classify_softmax": distilbert(
        "classify", "3 labels, problem_type single_label_classification, F16",
        distilbert_config("DistilBertForSequenceClassification", problem_type="single_label_classification",
                          **labels(["negative", "neutral", "positive"])),
        dtype="F16", scores="softmax", texts=SINGLE_TEXTS),
})

# --- RoBERTa, XLM-RoBERTa --------------------------------------------------------------


def roberta_config(arch, model_type="roberta", vocab=300, **extra):
    return {"architectures": [arch], "model_type": model_type, "vocab_size": vocab, "hidden_size": 32,
            "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "hidden_act": "gelu",
            "max_position_embeddings": 74, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1,
            "bos_token_id": 0, "eos_token_id": 2, "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.1, **extra}


def roberta(kind, task, about, config, **fields):
    fields.setdefault("lengths", [1, 2, 5, 17, 33, 72])
    fields.setdefault("pairs", [(2, 1), (9, 21)])
    return common(task, kind, about, config, max_tokens=72, type_vocab=1, separators=2, pad_inside=True, **fields)


def with_prefix(prefix):
    """Embedding models saved from a pre-training checkpoint keep its prefix and an unused buffer."""
    def rename(state, draw):
        out = {prefix + name: tensor for name, tensor in state.items()}
        out[prefix + "embeddings.position_ids"] = torch.arange(74).unsqueeze(0)
        return out
    return rename


MODELS.update({
    "roberta_concat_dense_identity": roberta(
        "roberta", "embed", "positions start at pad_token_id + 1; byte-level BPE; names roberta.*; cls and mean concatenated, "
        "Dense 64->40 without bias and Identity; not normalized",
        roberta_config("RobertaModel"), no_pooler=True, pooling=["cls", "mean"], rename=with_prefix("roberta."),
        dense=[(40, "linear.Identity", False)]),
    "roberta_rerank": roberta(
        "roberta", "rerank", "head dense, tanh, out_proj with one label; sigmoid named by sentence_transformers.activation_fn",
        roberta_config("RobertaForSequenceClassification", **labels(["LABEL_0"]), sentence_transformers={
            "activation_fn": "torch.nn.modules.activation.Sigmoid", "version": "5.0.0"}),
        scores="sigmoid", texts=PAIR_TEXTS),
    "roberta_multi_label_sigmoid": roberta(
        "roberta", "classify", "problem_type multi_label_classification with 5 labels: sigmoid of each; BF16",
        roberta_config("RobertaForSequenceClassification", problem_type="multi_label_classification",
                       **labels(["toxic", "insult", "threat", "spam", "fine"])),
        dtype="BF16", scores="sigmoid", texts=SINGLE_TEXTS),
    "xlm_roberta_mean_normalize": roberta(
        "xlm_roberta", "embed", "XLM-RoBERTa with a unigram tokenizer; prompts; mean, normalize; every pooling mode",
        roberta_config("XLMRobertaModel", "xlm-roberta", 150), pooling="mean", normalize=True, all_poolings=True,
        prompts=PROMPTS, max_seq_length=60, texts=TEXTS + [("Where is Paris?", "query"), ("happy dog", "passage")]),
    "xlm_roberta_rerank": roberta(
        "xlm_roberta", "rerank", "XLM-RoBERTa, one label, sigmoid; F16",
        roberta_config("XLMRobertaForSequenceClassification", "xlm-roberta", 150, **labels(["LABEL_0"])),
        dtype="F16", scores="sigmoid", texts=PAIR_TEXTS),
})

# --- MPNet -----------------------------------------------------------------------------


def mpnet_config(arch, **extra):
    return {"architectures": [arch], "model_type": "mpnet", "vocab_size": 180, "hidden_size": 32,
            "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "hidden_act": "gelu",
            "max_position_embeddings": 162, "layer_norm_eps": 1e-5, "relative_attention_num_buckets": 32,
            "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.1, **extra}


def mpnet(task, about, config, **fields):
    return common(task, "mpnet", about, config, max_tokens=160, separators=2, pad_inside=True,
                  lengths=[1, 2, 5, 17, 33, 100, 160], pairs=[(2, 1), (9, 21)], **fields)


MODELS.update({
    "mpnet_mean_normalize": mpnet(
        "embed", "relative attention bias shared by the layers, long enough (160) to fill the last bucket; mean, normalize",
        mpnet_config("MPNetModel"), pooling="mean", normalize=True, max_seq_length=64),
    "mpnet_rerank": mpnet(
        "rerank", "head dense, tanh, out_proj; no token types; one label, sigmoid; F16",
        mpnet_config("MPNetForSequenceClassification", **labels(["LABEL_0"])), dtype="F16",
        scores="sigmoid", texts=PAIR_TEXTS),
})

# --- NomicBERT -------------------------------------------------------------------------


def nomic_native_config(heads, theta):
    return {"architectures": ["NomicBertModel"], "model_type": "nomic_bert", "vocab_size": 176, "hidden_size": 32,
            "num_hidden_layers": 2, "num_attention_heads": heads, "intermediate_size": 64, "hidden_act": "silu",
            "max_position_embeddings": 128, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
            "rope_parameters": {"rope_type": "default", "rope_theta": theta}}


def nomic_published_config(heads, theta):
    """Field names of nomic-embed-text-v1.5's config.json."""
    return {"architectures": ["NomicBertModel"], "model_type": "nomic_bert", "activation_function": "swiglu",
            "attn_pdrop": 0.0, "causal": False, "embd_pdrop": 0.0, "fused_bias_fc": True,
            "fused_dropout_add_ln": True, "layer_norm_epsilon": 1e-12, "max_trained_positions": 2048,
            "mlp_fc1_bias": False, "mlp_fc2_bias": False, "n_embd": 32, "n_head": heads, "n_inner": 64, "n_layer": 2,
            "n_positions": 128, "pad_vocab_size_multiple": 16, "parallel_block": False, "prenorm": False,
            "qkv_proj_bias": False, "resid_pdrop": 0.0, "rotary_emb_base": theta, "rotary_emb_fraction": 1.0,
            "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None,
            "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True, "type_vocab_size": 2,
            "use_flash_attn": True, "use_rms_norm": False, "use_xentropy": True, "vocab_size": 176}


def nomic_published_names(state, draw):
    """nomic-embed-text-v1.5 keeps query, key and value in one matrix and has no pooler."""
    replace = [("self_attn.o_proj", "attn.out_proj"), ("mlp.up_proj", "mlp.fc11"), ("mlp.gate_proj", "mlp.fc12"),
               ("mlp.down_proj", "mlp.fc2"), ("post_attention_layernorm", "norm1"), ("post_mlp_layernorm", "norm2"),
               ("embeddings.LayerNorm", "emb_ln")]
    out = {}
    for name, tensor in state.items():
        if ".k_proj." in name or ".v_proj." in name or name.startswith("pooler"):
            continue
        if ".q_proj." in name:
            tensor = torch.cat([state[name.replace("q_proj", p)] for p in ("q_proj", "k_proj", "v_proj")])
            name = name.replace("self_attn.q_proj", "attn.Wqkv")
        for new, published in replace:
            name = name.replace(new, published)
        out["encoder." + name if name.startswith("layers.") else name] = tensor
    return out


def nomic(about, config, **fields):
    return common("embed", "bert", about, config, max_tokens=128, type_vocab=2, lengths=[1, 2, 5, 17, 33, 128],
                  pairs=[(2, 1), (9, 21)], pooling="mean", rename=nomic_published_names, **fields)


MODELS.update({
    "nomic_published_config": nomic(
        "rotary base 1000, SwiGLU, fused Wqkv, names and config of the published model; prompts, Matryoshka; head size 8",
        nomic_published_config(4, 1000), loadable_config=nomic_native_config(4, 1000.0), no_pooler=True,
        truncate=[8, 16, 24], prompts={"search_query": "search query: ", "search_document": "search document: "},
        texts=TEXTS + [("happy dog", "search_query"), ("happy dog", "search_document")]),
    "nomic_native_config": nomic(
        "config.json, modules.json and weights as transformers 5 and sentence-transformers 6 save them; theta 10000, "
        "head size 16; normalize", nomic_native_config(2, 10000.0), no_pooler=True, normalize=True, resave=True,
        new_pooling_config=True),
})

# --- ModernBERT ------------------------------------------------------------------------


def modernbert_config(arch, layers=4, **extra):
    """Field names of ModernBERT-base's config.json."""
    return {"architectures": [arch], "model_type": "modernbert", "vocab_size": 300, "hidden_size": 32,
            "num_hidden_layers": layers, "num_attention_heads": 4, "intermediate_size": 48,
            "hidden_activation": "gelu", "max_position_embeddings": 160, "norm_eps": 1e-5, "norm_bias": False,
            "attention_bias": False, "mlp_bias": False, "global_attn_every_n_layers": 3, "local_attention": 16,
            "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "attention_dropout": 0.0,
            "embedding_dropout": 0.0, "mlp_dropout": 0.0, "pad_token_id": 0, "bos_token_id": 2, "cls_token_id": 2,
            "eos_token_id": 3, "sep_token_id": 3, "classifier_activation": "gelu", "classifier_bias": False,
            "classifier_pooling": "cls", "decoder_bias": True, "deterministic_flash_attn": False,
            "position_embedding_type": "absolute", "tie_word_embeddings": True, **extra}


def modernbert(task, about, config, **fields):
    return common(task, "modernbert", about, config, max_tokens=160,
                  **{"lengths": [1, 2, 5, 9, 10, 18, 33, 70, 150], "pairs": [(2, 1), (9, 21)], **fields})


MODELS.update({
    "modernbert_mean_normalize": modernbert(
        "embed", "4 layers: global, local, local, global; window of 8 tokens on each side; thetas 80000 and "
        "5000; no biases; mean, normalize",
        modernbert_config("ModernBertModel", global_rope_theta=80000.0, local_rope_theta=5000.0), pooling="mean", normalize=True, truncate=[8]),
    "modernbert_cls_saved_by_library": modernbert(
        "embed", "files as transformers 5 and sentence-transformers 6 save them (layer_types, rope_parameters); "
        "local_attention 7 is 3 tokens on each side; head size 16; cls",
        modernbert_config("ModernBertModel", 3, num_attention_heads=2, local_attention=7, global_attn_every_n_layers=2),
        pooling="cls", resave=True, lengths=[1, 5, 8, 9, 40], texts=TEXTS[:2]),
    "modernbert_biases_bf16": modernbert(
        "embed", "attention_bias, mlp_bias and norm_bias true; names model.* as in a masked-LM checkpoint; BF16",
        modernbert_config("ModernBertModel", 3, attention_bias=True, mlp_bias=True, norm_bias=True), pooling="mean",
        rename=lambda state, draw: {"model." + n: t for n, t in state.items()}, dtype="BF16", texts=TEXTS[:1]),
    "modernbert_rerank_cls": modernbert(
        "rerank", "classifier_pooling cls, classifier_bias true, one label, sigmoid; BF16",
        modernbert_config("ModernBertForSequenceClassification", 3, classifier_bias=True, **labels(["LABEL_0"])),
        dtype="BF16", scores="sigmoid", texts=PAIR_TEXTS),
    "modernbert_classify_mean": modernbert(
        "classify", "classifier_pooling mean, 3 labels, softmax",
        modernbert_config("ModernBertForSequenceClassification", 3, classifier_pooling="mean",
                          **labels(["contradiction", "neutral", "entailment"])),
        scores="softmax", texts=SINGLE_TEXTS + [("happy dog", "sad cat")]),
})
