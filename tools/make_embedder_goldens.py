#!/usr/bin/env python3
"""Writes tests/golden/embedders: tiny random decoders that embed or rerank, and what they must give.

Each folder is a complete model (config, weights, tokenizer, modules) as the published ones are laid
out, plus expected.json with results of texts in float64. Weights are F32. Pooling, dense layers and
scores are computed here from the hidden states and logits of transformers, by the formulas of the
models' authors. tests/golden/README.md describes expected.json.

Usage:   python tools/make_embedder_goldens.py [--out tests/golden/embedders] [NAME...]
Without names every model is written. Deterministic: the seed is derived from the name.

Written with torch 2.15.0, transformers 5.23.0, tokenizers 0.23.3, safetensors 0.8.0, jinja2 3.1.6
(Python 3.11).
"""

import argparse
import math
import shutil
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import torch
import transformers
from safetensors.torch import save_file

import gguf_shapes
import make_gguf
from make_decoder_goldens import GGUF_NAMES, dump_expected, float64_everywhere, numbers, write_json

TOKENS = ["<|begin|>", "<|end|>", "<|pad|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
MERGES = [("y", "e"), ("ye", "s"), ("n", "o")]
BASE = 256 + len(MERGES)
BEGIN, END, PAD = BASE, BASE + 1, BASE + 2
VOCABULARY = 272

SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024, "rms_norm_eps": 1e-6,
    "bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": PAD, "torch_dtype": "float32",
}
LONG = "A penstock is the pipe that brings water to a turbine. " * 13
TEXTS = ["a", "What is the capital of France?", "Die Turbine läuft unter vollem Druck.", LONG]
PAIRS = [("What is a penstock?", "A pipe that feeds a turbine."), ("What is a penstock?", "The dog runs."),
         ("capital of France", "Paris"), ("What is a penstock?", LONG)]

SYSTEM = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct '
          'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
INSTRUCT = "Given a web search query, retrieve relevant passages that answer the query"
ASSISTANT = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
# With the roles of sentence-transformers 5.4, and an instruction of its own.
PAIR_TEMPLATE = (
    "{%- set instruction = messages | selectattr('role', 'eq', 'system') | map(attribute='content') | first "
    "| default('Find passages') -%}\n"
    "{%- set query = messages | selectattr('role', 'eq', 'query') | map(attribute='content') | first -%}\n"
    "{%- set document = messages | selectattr('role', 'eq', 'document') | map(attribute='content') | first -%}\n"
    "<|im_start|>user\n<Instruct>: {{ instruction }}\n<Query>: {{ query }}\n"
    "<Document>: {{ document }}<|im_end|>\n{%- if add_generation_prompt %}\n<|im_start|>assistant\n{% endif %}\n")


def qwen3(classes, **config):
    return {"architectures": [classes], "model_type": "qwen3", "hidden_act": "silu", "rope_theta": 1e6, "head_dim": 16,
            "attention_bias": False, "use_sliding_window": False, **config}


MODELS = {
    "qwen3_lasttoken": {
        "about": "as Qwen3-Embedding: names without a prefix, the tokenizer ends texts, prompts, last token",
        "config": qwen3("Qwen3ForCausalLM", tie_word_embeddings=True), "no_prefix": True, "ends": "tokenizer",
        "pooling": "lasttoken", "prompts": {"query": "Instruct: Find passages\nQuery:", "document": ""}, "gguf": True},
    "qwen2_both_directions": {
        "about": "as gte-Qwen2: attention in both directions by the model's own code, add_eos_token, last token",
        "config": {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "rope_theta": 1e6,
                   "tie_word_embeddings": False, "use_sliding_window": False,
                   "auto_map": {"AutoModel": "modeling_qwen.Qwen2Model"}},
        "both_directions": True, "ends": "config", "pooling": "lasttoken",
        "prompts": {"query": "Instruct: Given a question, retrieve passages\nQuery: "}},
    "mistral_window": {
        "about": "as E5-Mistral: MistralModel, <s> and </s>, a window of 40 tokens, last token",
        "config": {"architectures": ["MistralModel"], "model_type": "mistral", "hidden_act": "silu", "rope_theta": 1e4,
                   "head_dim": 8, "sliding_window": 40, "tie_word_embeddings": False},
        "no_prefix": True, "begins": True, "ends": "tokenizer", "pooling": "lasttoken"},
    "gemma3_mean_dense": {
        "about": "as EmbeddingGemma: both directions, half the window of 32 on either side, mean, two dense layers",
        "config": {"architectures": ["Gemma3TextModel"], "model_type": "gemma3_text",
                   "hidden_activation": "gelu_pytorch_tanh", "rope_theta": 1e5, "rope_local_base_freq": 1e3,
                   "head_dim": 16, "sliding_window": 32, "sliding_window_pattern": 2, "query_pre_attn_scalar": 16,
                   "use_bidirectional_attention": True},
        "no_prefix": True, "begins": True, "ends": "tokenizer", "pooling": "mean", "dense": [48, 24],
        "norms": 0.0, "prompts": {"query": "task: search result | query: ", "document": "title: none | text: "}},
    "llama_mean_causal": {
        "about": "causal, mean over all tokens, so that long texts go through in pieces; not normalised",
        "config": {"architectures": ["LlamaModel"], "model_type": "llama", "hidden_act": "silu", "rope_theta": 1e4,
                   "tie_word_embeddings": False},
        "no_prefix": True, "begins": True, "ends": "none", "pooling": "mean", "normalize": False},
    "qwen3_reranker": {
        "about": "as Qwen3-Reranker: known by its name; logits of yes and no after its authors' prompt",
        "config": qwen3("Qwen3ForCausalLM", tie_word_embeddings=True), "ends": "none", "rerank": "name"},
    "qwen3_logit_score": {
        "about": "sentence-transformers' LogitScore, a chat template with query and document, an output of its own",
        "config": qwen3("Qwen3ForCausalLM", tie_word_embeddings=False), "ends": "none", "rerank": "template"},
    "llama_seq_cls": {
        "about": "LlamaForSequenceClassification with one label: the last token of the pair",
        "config": {"architectures": ["LlamaForSequenceClassification"], "model_type": "llama", "hidden_act": "silu",
                   "rope_theta": 1e4, "tie_word_embeddings": False, "num_labels": 1,
                   "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}},
        "begins": True, "ends": "none", "rerank": "head"},
}


def random_value(name, shape, gen, spec):
    noise = torch.randn(shape, generator=gen, dtype=torch.float64)
    if name.endswith("bias"):
        return 0.4 * noise
    if "norm" in name:
        return spec.get("norms", 1.0) + 0.25 * noise
    if "embed_tokens" in name:
        return (0.05 if "norms" in spec else 0.5) * noise
    gain = {"q_proj": 1.6, "k_proj": 1.6}
    return noise * (gain.get(name.split(".")[-2], 1.2) / math.sqrt(shape[-1]))


def write_tokenizer(folder, spec):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    letters = gguf_shapes.byte_letters() + [a + b for a, b in MERGES]
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in TOKENS])
    begin = "<|begin|> " if spec.get("begins") else ""
    end = " <|end|>" if spec["ends"] == "tokenizer" else ""
    if begin or end:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{begin}$A{end}", pair=f"{begin}$A $B{end}",
            special_tokens=[("<|begin|>", BEGIN), ("<|end|>", END)])
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin|>", "eos_token": "<|end|>",
              "pad_token": "<|pad|>", "model_max_length": spec.get("limit", 1000)}
    if spec["ends"] == "config":
        config["add_eos_token"] = True
    write_json(folder / "tokenizer_config.json", config)
    return tokenizer


def write_modules(folder, spec, gen):
    """Returns the dense layers' matrices."""
    modules = [("sentence_transformers.models.Transformer", "")]
    dense = []
    if "pooling" in spec:
        modules.append(("sentence_transformers.models.Pooling", "1_Pooling"))
        (folder / "1_Pooling").mkdir()
        write_json(folder / "1_Pooling" / "config.json",
                   {"word_embedding_dimension": SIZES["hidden_size"], "pooling_mode_cls_token": False,
                    "pooling_mode_mean_tokens": spec["pooling"] == "mean",
                    "pooling_mode_lasttoken": spec["pooling"] == "lasttoken", "include_prompt": True})
        width = SIZES["hidden_size"]
        for out in spec.get("dense", []):
            place = f"{len(modules)}_Dense"
            (folder / place).mkdir()
            write_json(folder / place / "config.json", {
                "in_features": width, "out_features": out, "bias": False,
                "activation_function": "torch.nn.modules.linear.Identity"})
            matrix = (torch.randn((out, width), generator=gen, dtype=torch.float64) / math.sqrt(width)).float()
            save_file({"linear.weight": matrix}, folder / place / "model.safetensors", metadata={"format": "pt"})
            dense.append(matrix.double())
            modules.append(("sentence_transformers.models.Dense", place))
            width = out
        if spec.get("normalize", True):
            modules.append(("sentence_transformers.models.Normalize", f"{len(modules)}_Normalize"))
        write_json(folder / "config_sentence_transformers.json",
                   {"prompts": spec.get("prompts", {}), "default_prompt_name": None, "similarity_fn_name": "cosine"})
    elif spec["rerank"] == "template":
        modules.append(("sentence_transformers.cross_encoder.modules.logit_score.LogitScore", "1_LogitScore"))
        (folder / "1_LogitScore").mkdir()
        write_json(folder / "1_LogitScore" / "config.json", {"true_token_id": 257, "false_token_id": 258})
        write_json(folder / "config_sentence_transformers.json",
                   {"model_type": "CrossEncoder", "prompts": {"faq": "Find the answer"}, "default_prompt_name": "faq",
                    "activation_fn": "torch.nn.modules.activation.Sigmoid"})
        write_json(folder / "sentence_bert_config.json", {
            "transformer_task": "text-generation", "module_output_name": "causal_logits",
            "modality_config": {"text": {"method": "forward", "method_output_name": "logits"},
                                "message": {"method": "forward", "method_output_name": "logits", "format": "flat"}}})
        (folder / "chat_template.jinja").write_text(PAIR_TEMPLATE, encoding="utf-8")
    else:
        return dense
    write_json(folder / "modules.json", [{"idx": i, "name": str(i), "path": path, "type": kind}
                                         for i, (kind, path) in enumerate(modules)])
    return dense


def build(spec, config):
    loaded = transformers.AutoConfig.for_model(**config)
    loaded._attn_implementation = "eager"
    cls = config["architectures"][0]
    return getattr(transformers, cls)(loaded).eval()


def state_of(model, ids, spec):
    """[tokens, hidden], normed; or logits of the last token."""
    body = model.model if hasattr(model, "model") else model
    arguments = {}
    if spec.get("both_directions"):  # every token sees every other
        arguments["attention_mask"] = torch.zeros((1, 1, len(ids), len(ids)), dtype=torch.float64)
    with torch.no_grad():
        return body(torch.tensor([ids]), use_cache=False, **arguments).last_hidden_state[0].double()


def embed(model, ids, spec, dense):
    states = state_of(model, ids, spec)
    vector = states[-1] if spec["pooling"] == "lasttoken" else states.mean(dim=0)
    for matrix in dense:
        vector = matrix @ vector
    return torch.nn.functional.normalize(vector, dim=0) if spec.get("normalize", True) else vector


def pair_ids(tokenizer, spec, query, document):
    limit = spec.get("limit", 1000)
    if spec["rerank"] == "head":
        tokenizer.enable_truncation(limit, strategy="longest_first")
        ids = tokenizer.encode(query, document).ids
        tokenizer.no_truncation()
        return ids
    if spec["rerank"] == "template":
        from jinja2.sandbox import ImmutableSandboxedEnvironment
        template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(PAIR_TEMPLATE)
        messages = [{"role": "system", "content": "Find the answer"}, {"role": "query", "content": query},
                    {"role": "document", "content": document}]
        ids = tokenizer.encode(template.render(messages=messages, add_generation_prompt=True)).ids
        assert len(ids) <= limit, "cut texts are not compared here"
        return ids
    # As the model's authors do it: prefix, what is cut, suffix.
    prefix, suffix = tokenizer.encode(SYSTEM).ids, tokenizer.encode(ASSISTANT).ids
    middle = tokenizer.encode(f"<Instruct>: {INSTRUCT}\n<Query>: {query}\n<Document>: {document}").ids
    return prefix + middle[:limit - len(prefix) - len(suffix)] + suffix


def score(model, ids, spec):
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0].double()
    return logits[0] if spec["rerank"] == "head" else logits[-1][257] - logits[-1][258]


def texts_of(model, tokenizer, spec, dense):
    out = []
    if "pooling" in spec:
        for name in [None, *spec.get("prompts", {})]:
            for text in TEXTS:
                prompt = spec["prompts"][name] if name else ""
                ids = tokenizer.encode(prompt + text).ids[:spec.get("limit", 1000)]
                if spec["ends"] == "config":
                    ids = ids + [END]
                entry = {"text": text, "prompt_name": name, "ids": ids,
                         "embedding": numbers(embed(model, ids, spec, dense))}
                out.append(entry)
        return out
    for query, document in PAIRS:
        ids = pair_ids(tokenizer, spec, query, document)
        logit = score(model, ids, spec)
        out.append({"text": query, "text_pair": document, "ids": ids, "logits": [float(f"{logit.item():.9g}")],
                    "scores": [float(f"{torch.sigmoid(logit).item():.9g}")]})
    return out


def gguf_name(name):
    names = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", **GGUF_NAMES}
    base = name.removesuffix(".weight").removeprefix("model.")
    if not base.startswith("layers."):
        return names["model." + base] + ".weight"
    _, number, part = base.split(".", 2)
    return f"blk.{number}.{names[part]}.weight"


def write_gguf(folder, state, config):
    def whole(type_name, values):
        return {"type": type_name, "array": values}

    folder.mkdir()
    letters = gguf_shapes.byte_letters() + [a + b for a, b in MERGES]
    metadata = {
        "general.architecture": "qwen3", "general.name": "qwen3", "general.file_type": 0,
        "qwen3.block_count": config["num_hidden_layers"], "qwen3.context_length": 1000,
        "qwen3.embedding_length": config["hidden_size"], "qwen3.feed_forward_length": config["intermediate_size"],
        "qwen3.attention.head_count": config["num_attention_heads"],
        "qwen3.attention.head_count_kv": config["num_key_value_heads"],
        "qwen3.attention.key_length": config["head_dim"], "qwen3.attention.value_length": config["head_dim"],
        "qwen3.attention.layer_norm_rms_epsilon": config["rms_norm_eps"], "qwen3.rope.freq_base": config["rope_theta"],
        "qwen3.pooling_type": 3, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": whole("string", letters + TOKENS),
        "tokenizer.ggml.token_type": whole("int32", [1] * len(letters) + [3] * len(TOKENS)),
        "tokenizer.ggml.merges": whole("string", [f"{a} {b}" for a, b in MERGES]),
        "tokenizer.ggml.eos_token_id": END, "tokenizer.ggml.add_bos_token": False, "tokenizer.ggml.add_eos_token": True,
    }
    config = dict(config)
    tensors = [make_gguf.Tensor(gguf_name(name), "F32", value.shape, make_gguf.encode_floats("F32", value.numpy()))
               for name, value in state.items()]
    # The vocabulary of the file is that of its tokens.
    make_gguf.write(folder / "qwen3.gguf", metadata, tensors)


def make(out, name, spec):
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    gen = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    config = {**SIZES, **spec["config"]}
    write_json(folder / "config.json", config)
    tokenizer = write_tokenizer(folder, spec)
    model = build(spec, config)
    tied = config.get("tie_word_embeddings", True)
    state = {}
    for key, tensor in sorted(model.state_dict().items()):
        if tensor.is_floating_point() and not (tied and key == "lm_head.weight"):
            state[key] = random_value(key, tuple(tensor.shape), gen, spec).float().contiguous()
    dense = write_modules(folder, spec, gen)
    stored = {key.removeprefix("model.") if spec.get("no_prefix") else key: value for key, value in state.items()
              if not (spec.get("no_prefix") and key == "lm_head.weight")}
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    with float64_everywhere():
        exact = build(spec, config).double()
        missing, unexpected = exact.load_state_dict({k: v.double() for k, v in state.items()}, strict=False)
        assert set(missing) <= {"lm_head.weight"} and not unexpected, (missing, unexpected)
        exact.tie_weights()
        texts = texts_of(exact, tokenizer, spec, dense)
    plain = build(spec, config)
    plain.load_state_dict(state, strict=False)
    plain.tie_weights()
    again = texts_of(plain, tokenizer, spec, dense)
    key = "embedding" if "pooling" in spec else "logits"
    worst = max(max(abs(a - b) for a, b in zip(x[key], y[key])) / max(map(abs, x[key])) for x, y in zip(texts, again))
    assert worst < 1e-3, (name, "the unpatched library in float32 differs", worst)
    head = {"about": spec["about"], "task": "embed" if "pooling" in spec else "rerank", "dtype": "F32",
            "transformers": transformers.__version__}
    dump_expected(folder / "expected.json", {**head, "texts": texts})
    if spec.get("gguf"):
        shutil.rmtree(out / (name + "_gguf"), ignore_errors=True)
        write_gguf(out / (name + "_gguf"), state, config)
        dump_expected(out / (name + "_gguf") / "expected.json",
                      {**head, "about": "the same in a GGUF file", "texts": [t for t in texts if not t["prompt_name"]]})
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    assert size < 250_000, (name, size)
    print(f"{name:24} {size / 1000:7.1f} kB  float32 {worst:.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    default = Path(__file__).resolve().parent.parent / "tests" / "golden" / "embedders"
    parser.add_argument("--out", type=Path, default=default)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    unknown = set(args.names) - set(MODELS)
    if unknown:
        parser.error(f"unknown models: {sorted(unknown)}")
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for name, spec in MODELS.items():
        if not args.names or name in args.names:
            make(args.out, name, spec)


if __name__ == "__main__":
    main()
