#!/usr/bin/env python3
"""Writes tests/golden/models: tiny random encoder models and what they must compute.

Each folder is a complete Hugging Face / sentence-transformers model (config, weights,
tokenizer, modules) with random weights, plus expected.json with outputs in float64. The
weights are rounded to the stored type first, so the reference sees exactly the stored
values. tests/golden/README.md describes the fields of expected.json.

Usage:   python tools/make_model_goldens.py [--out tests/golden/models] [NAME...]
Without names every model is written. Deterministic: the seed is derived from the name.

Written with torch 2.15.0, transformers 5.23.0, sentence-transformers 6.2.0,
tokenizers 0.23.3, safetensors 0.8.0, numpy 2.4.6 (Python 3.11). Other versions should
agree to about 12 digits; the printed 9 digits may differ in the last place.

transformers rounds parts of ModernBERT and NomicBERT to float32 even in a float64 model
(rotary tables, ModernBERT's softmax). `use_float64_everywhere` replaces these parts by the
same formulas in float64; `self_check` compares with the unpatched library.
"""

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
import transformers
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent))
import golden_tokenizers
from golden_models import MODELS

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
POOLING_MODES = ("cls", "mean", "max", "lasttoken", "mean_sqrt_len_tokens", "weightedmean")
# A few rows of hidden states are enough to find a wrong layer; pooled outputs cover the rest.
MAX_TOKENS_WITH_HIDDEN_STATES = 5


# --- float64 ---------------------------------------------------------------------------

def use_float64_everywhere():
    from transformers.models.modernbert import modeling_modernbert as modern
    from transformers.models.nomic_bert import modeling_nomic_bert as nomic

    def rotate(q, k, cos, sin, unsqueeze_dim=1):
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        half = modern.rotate_half
        return q * cos + half(q) * sin, k * cos + half(k) * sin

    def attention(module, query, key, value, attention_mask, scaling, dropout=0.0, **_):
        scores = query @ key.transpose(2, 3) * scaling
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = torch.softmax(scores, dim=-1)
        return (weights @ value).transpose(1, 2).contiguous(), weights

    def tables(theta, head_dim, position_ids):
        exponent = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        freqs = position_ids[..., None].double() * theta ** -exponent
        both = torch.cat((freqs, freqs), dim=-1)
        return both.cos(), both.sin()

    def modern_rotary(self, x, position_ids, layer_type):
        config = self.config
        theta = config.rope_parameters[layer_type]["rope_theta"]
        return tables(theta, config.hidden_size // config.num_attention_heads, position_ids)

    def nomic_rotary(self, x, position_ids):
        return tables(self.config.rope_parameters["rope_theta"], self.config.head_dim, position_ids)

    patches = [
        (modern, "apply_rotary_pos_emb", rotate),
        (modern, "eager_attention_forward", attention),
        (modern.ModernBertRotaryEmbedding, "forward", modern_rotary),
        (nomic.NomicBertRotaryEmbedding, "forward", nomic_rotary),
    ]
    saved = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
    for owner, name, value in patches:
        setattr(owner, name, value)
    return saved


def undo(saved):
    for owner, name, value in saved:
        setattr(owner, name, value)


# --- weights ---------------------------------------------------------------------------

def generator_for(name):
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def random_value(name, shape, gen):
    """Large enough that attention is far from uniform and no bias can be forgotten unseen."""
    noise = torch.randn(shape, generator=gen, dtype=torch.float64)
    is_norm = "norm" in name.lower() or "emb_ln" in name
    if name.endswith("bias") and "relative_attention_bias" not in name:
        return 0.2 * noise
    if is_norm:
        return 1.0 + 0.25 * noise
    if "embeddings" in name:
        return 0.6 * noise
    if "relative_attention_bias" in name:
        return 0.8 * noise
    # Sharp attention and modest value projections keep the tokens of a sequence different.
    sharp = any(part in name for part in ("query", "key", ".q.", ".k.", "q_lin", "k_lin", "q_proj", "k_proj"))
    if "Wqkv" in name:
        gains = torch.tensor([2.0, 2.0, 0.6], dtype=torch.float64).repeat_interleave(shape[0] // 3)
        return noise * gains.unsqueeze(1) / math.sqrt(shape[-1])
    value = any(part in name for part in ("value", ".v.", "v_lin", "v_proj"))
    gain = 2.0 if sharp else 0.6 if value else 1.0
    return noise * (gain / math.sqrt(shape[-1]))


def random_weights(model, gen, dtype):
    """Fills the model and returns its state rounded to the stored type."""
    state = {}
    for name, tensor in sorted(model.state_dict().items()):
        if not tensor.is_floating_point():
            continue
        state[name] = random_value(name, tuple(tensor.shape), gen).to(dtype).contiguous()
    return state


def write_weights(folder, state, shards):
    if shards == 1:
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(state)
    per_shard = math.ceil(len(names) / shards)
    index = {"metadata": {"total_size": sum(t.numel() * t.element_size() for t in state.values())},
             "weight_map": {}}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = {n: state[n] for n in names[i * per_shard:(i + 1) * per_shard]}
        save_file(part, folder / file, metadata={"format": "pt"})
        index["weight_map"].update(dict.fromkeys(part, file))
    write_json(folder / "model.safetensors.index.json", index)


# --- files -----------------------------------------------------------------------------

def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_sentence_transformers_files(folder, spec, gen):
    pipeline = [("sentence_transformers.models.Transformer", ""),
                ("sentence_transformers.models.Pooling", "1_Pooling")]
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": spec["hidden"]}
    legacy = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens",
              "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
              "weightedmean": "weightedmean_tokens", "lasttoken": "lasttoken"}
    wanted = spec["pooling"] if isinstance(spec["pooling"], list) else [spec["pooling"]]
    if spec.get("new_pooling_config"):
        pooling = {"embedding_dimension": spec["hidden"], "pooling_mode": spec["pooling"]}
    else:
        pooling.update({"pooling_mode_" + key: mode in wanted for mode, key in legacy.items()})
    pooling["include_prompt"] = spec.get("include_prompt", True)
    write_json(folder / "1_Pooling" / "config.json", pooling)
    for out_features, activation, bias in spec.get("dense", []):
        sub = f"{len(pipeline)}_Dense"
        (folder / sub).mkdir()
        in_features = spec["hidden"] * len(wanted)
        write_json(folder / sub / "config.json", {
            "in_features": in_features, "out_features": out_features, "bias": bias,
            "activation_function": "torch.nn.modules." + activation})
        state = {"linear.weight": random_value("w", (out_features, in_features), gen).float()}
        if bias:
            state["linear.bias"] = random_value("bias", (out_features,), gen).float()
        save_file(state, folder / sub / "model.safetensors", metadata={"format": "pt"})
        pipeline.append(("sentence_transformers.models.Dense", sub))
    if spec.get("normalize"):
        sub = f"{len(pipeline)}_Normalize"
        # Published models have this folder empty or absent; git keeps neither, so it is absent.
        pipeline.append(("sentence_transformers.models.Normalize", sub))
    write_json(folder / "modules.json", [
        {"idx": i, "name": str(i), "path": path, "type": kind} for i, (kind, path) in enumerate(pipeline)])
    write_json(folder / "sentence_bert_config.json",
               {"max_seq_length": spec["max_seq_length"], "do_lower_case": False})
    write_json(folder / "config_sentence_transformers.json", {
        "__version__": {"sentence_transformers": "3.0.0"},
        "prompts": spec.get("prompts", {}),
        "default_prompt_name": spec.get("default_prompt_name"),
        "similarity_fn_name": "cosine"})


def build_folder(folder, name, spec):
    """Writes the model folder and returns a folder that transformers can load."""
    from transformers import AutoConfig
    gen = generator_for(name)
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    golden_tokenizers.write(spec["tokenizer"], folder, spec["max_seq_length"])
    write_json(folder / "config.json", spec["config"])
    loadable = folder
    if "loadable_config" in spec:  # config.json is of a form that this transformers cannot read
        loadable = Path(tempfile.mkdtemp()) / name
        loadable.mkdir()
        write_json(loadable / "config.json", spec["loadable_config"])
    config = AutoConfig.from_pretrained(loadable)
    state = random_weights(make_model(config, spec), gen, DTYPES[spec.get("dtype", "F32")])
    if "rename" in spec:
        state = spec["rename"](state, lambda n, shape: random_value(n, shape, gen))
    write_weights(folder, state, spec.get("shards", 1))
    if spec["task"] == "embed":
        write_sentence_transformers_files(folder, spec, gen)
    if spec.get("resave"):
        save_by_library(folder)
    if loadable != folder:
        for entry in folder.iterdir():
            if entry.name != "config.json":
                (shutil.copytree if entry.is_dir() else shutil.copy)(entry, loadable / entry.name)
    return loadable


def save_by_library(folder):
    """Replaces the folder by what sentence-transformers itself writes today."""
    from sentence_transformers import SentenceTransformer
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
    shutil.rmtree(folder)
    model.save_pretrained(str(folder), create_model_card=False)
    for path in folder.rglob("*.json"):  # save_pretrained leaves the last newline out
        path.write_text(path.read_text(encoding="utf-8").rstrip() + "\n", encoding="utf-8")


def make_model(config, spec):
    cls = getattr(transformers, spec["config"]["architectures"][0])
    if spec.get("no_pooler"):
        return cls(config, add_pooling_layer=False)
    return cls(config)


# --- running ---------------------------------------------------------------------------

def numbers(tensor):
    if tensor.dim() > 1:
        return [numbers(row) for row in tensor]
    assert torch.isfinite(tensor).all()
    return [float(f"{v:.9g}") for v in tensor.tolist()]


def id_cases(name, spec):
    """Token id inputs: mixed lengths, the longest allowed last, and type ids where they exist."""
    gen = torch.Generator().manual_seed(zlib.crc32(name.encode()) ^ 0x5EED)
    special = spec["special_ids"]
    vocab = spec["vocab"]

    def draw(count):
        ids = torch.randint(0, vocab, (count,), generator=gen).tolist()
        return [i if i not in special.values() else special["unk"] for i in ids]

    cases = []
    for length in spec["lengths"]:
        ids = draw(length)
        if length >= 3:
            ids[0], ids[-1] = special["cls"], special["sep"]
        case = {"name": f"len{length}", "ids": ids, "type_ids": [0] * length}
        cases.append(case)
    for left, right in spec.get("pairs", []):
        middle = [special["sep"]] * spec.get("separators", 1)
        ids = [special["cls"]] + draw(left) + middle + draw(right) + [special["sep"]]
        first = 1 + left + 1
        kinds = spec.get("type_vocab", 0)
        type_ids = [0] * first + [1 if kinds > 1 else 0] * (len(ids) - first)
        cases.append({"name": f"pair{left}_{right}", "ids": ids, "type_ids": type_ids})
    if spec.get("pad_inside"):
        # Text may spell the padding token; position ids then stand still at that token.
        ids = [special["cls"], *draw(3), special["pad"], *draw(2), special["pad"], *draw(2), special["sep"]]
        cases.append({"name": "pad_id_inside", "ids": ids, "type_ids": [0] * len(ids)})
    return cases


def features_of(case, spec):
    ids = torch.tensor([case["ids"]])
    features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if spec.get("type_vocab", 0) > 0:
        features["token_type_ids"] = torch.tensor([case["type_ids"]])
    return features


def pooled_all_ways(token_embeddings):
    from sentence_transformers.sentence_transformer.modules import Pooling
    out = {}
    for mode in POOLING_MODES:
        pooling = Pooling(token_embeddings.shape[-1], pooling_mode=mode)
        mask = torch.ones(token_embeddings.shape[:2], dtype=torch.int64)
        got = pooling({"token_embeddings": token_embeddings, "attention_mask": mask})
        out[mode] = numbers(got["sentence_embedding"][0])
    return out


def truncated(embedding, dims):
    out = {}
    for dim in dims:
        cut = embedding[:dim]
        out[str(dim)] = {"raw": numbers(cut),
                         "normalized": numbers(torch.nn.functional.normalize(cut, dim=0))}
    return out


def run_embed(loadable, name, spec):
    from sentence_transformers import SentenceTransformer
    model = SentenceTransformer(str(loadable), device="cpu", model_kwargs={
        "attn_implementation": "eager", "dtype": torch.float64}).double().eval()
    cases = id_cases(name, spec)
    for case in cases:
        out = model(features_of(case, spec))
        hidden, embedding = out["token_embeddings"], out["sentence_embedding"][0]
        if len(case["ids"]) <= MAX_TOKENS_WITH_HIDDEN_STATES:
            case["last_hidden_state"] = numbers(hidden[0])
        if spec.get("all_poolings"):
            case["pooled"] = pooled_all_ways(hidden)
        case["embedding"] = numbers(embedding)
        if "truncate" in spec:
            case["truncated"] = truncated(embedding, spec["truncate"])
    texts = []
    for text, prompt_name in spec.get("texts", []):
        prompt = model._resolve_prompt(None, prompt_name)
        features = model.preprocess([text], prompt=prompt)
        embedding = model.encode([text], prompt_name=prompt_name, convert_to_tensor=True)[0]
        assert embedding.dtype == torch.float64
        entry = {"text": text, "prompt_name": prompt_name, "ids": features["input_ids"][0].tolist(),
                 "embedding": numbers(embedding)}
        if "prompt_length" in features:
            entry["prompt_tokens"] = int(features["prompt_length"])
        check_tokenizer_file(loadable, entry["ids"], spec, (prompt or "") + text)
        texts.append(entry)
    return cases, texts


def check_tokenizer_file(loadable, ids, spec, text, pair=None):
    """tokenizer.json alone gives the same ids: the library may rebuild tokenizers by its own rules."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(loadable / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(spec["max_seq_length"], strategy="longest_first")
    assert tokenizer.encode(text, pair).ids == ids, (str(loadable), text, tokenizer.encode(text, pair).ids, ids)


def probabilities(logits, spec):
    kind = spec["scores"]
    if kind == "sigmoid":
        return torch.sigmoid(logits)
    return torch.softmax(logits, dim=-1) if kind == "softmax" else logits  # "none"


def run_classify(loadable, name, spec):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    model = AutoModelForSequenceClassification.from_pretrained(
        loadable, attn_implementation="eager", dtype=torch.float64).eval()
    tokenizer = AutoTokenizer.from_pretrained(loadable)

    def fill(case, features):
        logits = model(**features).logits[0]
        case["logits"] = numbers(logits)
        case["scores"] = numbers(probabilities(logits, spec))

    cases = id_cases(name, spec)
    for case in cases:
        fill(case, features_of(case, spec))
    texts = []
    for text, pair in spec.get("texts", []):
        encoded = tokenizer(text, pair, truncation="longest_first",
                            max_length=spec["max_seq_length"], return_tensors="pt")
        entry = {"text": text, "text_pair": pair, "ids": encoded["input_ids"][0].tolist()}
        entry["type_ids"] = (encoded["token_type_ids"][0].tolist() if "token_type_ids" in encoded
                             else [0] * len(entry["ids"]))
        fill(entry, features_of(entry, spec))
        check_tokenizer_file(loadable, entry["ids"], spec, text, pair)
        texts.append(entry)
    if spec["task"] == "rerank":
        check_cross_encoder(loadable, texts)
    spread = torch.tensor([case["logits"] for case in cases]).std(dim=0).min().item()
    assert spread > 0.02, (name, "logits hardly differ", spread)
    return cases, texts


def check_cross_encoder(loadable, texts):
    """sentence-transformers' CrossEncoder cuts, pairs and scores these texts in the same way."""
    from sentence_transformers import CrossEncoder
    model = CrossEncoder(str(loadable), device="cpu", model_kwargs={
        "attn_implementation": "eager", "dtype": torch.float64})
    got = model.predict([(t["text"], t["text_pair"]) for t in texts], convert_to_numpy=True)
    wanted = [t["scores"][0] for t in texts]
    assert max(abs(a - b) for a, b in zip(got.tolist(), wanted)) < 1e-7, (str(loadable), got, wanted)


def self_check(loadable, name, spec, cases):
    """The unpatched library agrees within float32 rounding, and the tokens of a text differ."""
    cls = getattr(transformers, spec["config"]["architectures"][0])
    kwargs = {"add_pooling_layer": False} if spec.get("no_pooler") else {}
    model, report = cls.from_pretrained(loadable, dtype=torch.float64, attn_implementation="eager",
                                        output_loading_info=True, **kwargs)
    assert not report["missing_keys"], (name, report["missing_keys"])
    case = max(cases, key=lambda c: len(c["ids"]))
    with torch.no_grad():
        got = model.eval()(**features_of(case, spec))
    saved = use_float64_everywhere()
    with torch.no_grad():
        ours = model(**features_of(case, spec))
    undo(saved)
    a, b = (x.logits if spec["task"] != "embed" else x.last_hidden_state for x in (got, ours))
    difference = (a - b).abs().max().item()
    assert difference < 2e-4, (name, difference)
    spread = b.std(dim=-2).mean().item() if spec["task"] == "embed" else 1.0
    assert spread > 0.2, (name, "hidden states hardly differ between tokens", spread)
    return difference, spread


def dump_expected(path, head, cases, texts):
    """One case a line: small, and a diff names the case."""
    def line(value):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    lines = [f'"{key}":{line(value)}' for key, value in head.items()]
    for key, rows in (("cases", cases), ("texts", texts)):
        lines.append(f'"{key}":[\n' + ",\n".join(line(row) for row in rows) + "\n]")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def make(out, name, spec):
    folder = out / name
    loadable = build_folder(folder, name, spec)
    run = run_embed if spec["task"] == "embed" else run_classify
    saved = use_float64_everywhere()
    with torch.no_grad():
        cases, texts = run(loadable, name, spec)
    undo(saved)
    difference, spread = self_check(loadable, name, spec, cases)
    head = {"about": spec["about"], "task": spec["task"], "dtype": spec.get("dtype", "F32"),
            "max_tokens": spec["max_tokens"]}
    if spec["task"] == "embed":
        head["dimension"] = len(cases[0]["embedding"])
        head["normalized"] = bool(spec.get("normalize"))
    else:
        head["scores"] = spec["scores"]
    dump_expected(folder / "expected.json", head, cases, texts)
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    assert size < 250_000, (name, size)
    print(f"{name:32} {size / 1000:7.1f} kB  float32 parts of the library: {difference:.1e}  spread {spread:.2f}", flush=True)
    return size


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    default = Path(__file__).resolve().parent.parent / "tests" / "golden" / "models"
    parser.add_argument("--out", type=Path, default=default)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    unknown = set(args.names) - set(MODELS)
    if unknown:
        parser.error(f"unknown models: {sorted(unknown)}")
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    total = sum(make(args.out, name, spec) for name, spec in MODELS.items()
                if not args.names or name in args.names)
    print(f"{total / 1000:.1f} kB in all")


if __name__ == "__main__":
    main()
