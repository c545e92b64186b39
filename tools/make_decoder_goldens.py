#!/usr/bin/env python3
"""Writes tests/golden/decoders: tiny random decoders and what they must compute.

Each folder has config.json, model.safetensors and expected.json: logits of texts given as ids, and
the 128 tokens that greedy choice gives after a prompt. The weights are rounded to the stored type
first, so the reference sees exactly the stored values. llama has a tokenizer besides, and llama_gguf
has the same weights in GGUF files. tests/golden/README.md describes expected.json.

Usage:   python tools/make_decoder_goldens.py [--out tests/golden/decoders] [NAME...]
Without names every decoder is written. Deterministic: the seed is derived from the name.

Written with torch 2.15.0, transformers 5.23.0, tokenizers 0.23.3, safetensors 0.8.0, numpy 2.4.6
(Python 3.11).

transformers computes norms, rotary tables and softmax in float32 even in a float64 model. Here it
runs with float32 replaced by float64; `check_library` compares with the library as it is.
"""

import argparse
import contextlib
import json
import math
import os
import shutil
import sys
import zlib
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent))
import gguf_shapes
import make_gguf
from golden_decoders import DECODERS

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
SHORT_TEXT, LONG_TEXT, PROMPT, GREEDY = 24, 150, 8, 128
# Rows of logits kept of the long text; of the short one the last two.
LONG_ROWS = (40, LONG_TEXT - 2, LONG_TEXT - 1)
# Of the largest logit: what float32 may lose must not change which token is the best.
MARGIN_MIN = 3e-4
DISTINCT_MIN = 16
BLOCK = 32


@contextlib.contextmanager
def float64_everywhere():
    saved = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float, default = saved
        torch.set_default_dtype(default)


# --- weights ---------------------------------------------------------------------------

def random_value(name, shape, gen, spec):
    """Large enough that attention is far from uniform and no part can be forgotten unseen."""
    noise = torch.randn(shape, generator=gen, dtype=torch.float64)
    if name.endswith("bias"):
        return 0.4 * noise
    tied = spec["config"]["tie_word_embeddings"]
    if "norm" in name:  # the last one makes up for the small embedding
        return spec.get("norms", 1.0) + (8.0 if tied and name == "model.norm.weight" else 0.0) + 0.25 * noise
    if "embed_tokens" in name:  # small where it is the output too: else each token is followed by itself
        return spec.get("embedding", 0.1 if tied else 0.5) * noise
    gain = {"q_proj": 1.6, "k_proj": 1.6, "qkv_proj": 1.6, "lm_head": 2.0}
    return noise * (gain.get(name.split(".")[-2], 1.2) / math.sqrt(shape[-1]))


def in_blocks(matrix):
    """The matrix by codes of 8 bits and a factor a block of a row, each factor of three bits, so that
    F16 holds every product: (values, factors, codes).
    """
    blocks = matrix.numpy().reshape(matrix.shape[0], -1, BLOCK)
    least = np.abs(blocks).max(axis=2, keepdims=True) / 127
    power = 2.0 ** np.floor(np.log2(least))
    factors = np.ceil(least / power * 4) / 4 * power
    codes = np.rint(blocks / factors)
    values = (codes * factors).astype(np.float16).reshape(matrix.shape)
    assert (values == (codes * factors).reshape(matrix.shape)).all()
    return torch.from_numpy(values), factors.squeeze(2), codes.astype(np.int8)


def random_weights(model, gen, spec):
    """(the state in the stored type, blocks of the matrices where the values are whole codes)."""
    state, blocks = {}, {}
    tied = spec["config"]["tie_word_embeddings"]
    for name, tensor in sorted(model.state_dict().items()):
        if not tensor.is_floating_point() or (tied and name == "lm_head.weight"):
            continue
        value = random_value(name, tuple(tensor.shape), gen, spec)
        if spec.get("tokenizer") and value.dim() == 2:
            state[name], *blocks[name] = in_blocks(value)
        else:
            state[name] = value.to(DTYPES[spec.get("dtype", "BF16")]).contiguous()
    return state, blocks


# --- running ---------------------------------------------------------------------------

def build(folder, dtype):
    config = transformers.AutoConfig.from_pretrained(folder)
    config._attn_implementation = "eager"
    return getattr(transformers, config.architectures[0])(config).to(dtype).eval()


def load(folder, state, dtype):
    model = build(folder, dtype)
    weights = {name: tensor.to(dtype) for name, tensor in state.items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert set(missing) <= {"lm_head.weight"} and not unexpected, (missing, unexpected)
    model.tie_weights()
    return model


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].double()


def greedy_tokens(model, prompt):
    """(tokens, the smallest distance of the best from the second, over the largest logit)."""
    ids, margins, largest = list(prompt), [], 0.0
    for _ in range(GREEDY):
        row = logits_of(model, ids)[-1]
        best = torch.topk(row, 2)
        margins.append((best.values[0] - best.values[1]).item())
        largest = max(largest, row.abs().max().item())
        ids.append(int(best.indices[0]))
    return ids[len(prompt):], min(margins) / largest


def numbers(row):
    assert torch.isfinite(row).all()
    return [float(f"{value:.7g}") for value in row.tolist()]


def draw(spec, gen, count):
    vocabulary = spec["config"]["vocab_size"]
    return torch.randint(3, min(vocabulary, 256), (count,), generator=gen).tolist()


def attempt(folder, name, spec, salt):
    """Weights of one seed: (state, blocks, expected, quality), or nothing where the text is too plain or
    the choice of a token too close.
    """
    gen = torch.Generator().manual_seed(zlib.crc32(name.encode()) + salt)
    state, blocks = random_weights(build(folder, torch.float64), gen, spec)
    prompt = spec["prompt_ids"] if "prompt_ids" in spec else draw(spec, gen, spec.get("prompt", PROMPT))
    texts = [draw(spec, gen, SHORT_TEXT), draw(spec, gen, LONG_TEXT)]
    with float64_everywhere():
        model = load(folder, state, torch.float64)
        tokens, margin = greedy_tokens(model, prompt)
        distinct = len(set(tokens[-64:]))
        if margin < MARGIN_MIN or distinct < DISTINCT_MIN:
            return None
        found = [logits_of(model, text) for text in texts]
    difference = check_library(load(folder, state, torch.float32), name, texts, found)
    rows = [(SHORT_TEXT - 2, SHORT_TEXT - 1), LONG_ROWS]
    expected = {
        "about": spec["about"], "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
        "context": spec.get("context", 0), "prompt": prompt, "prompt_text": spec.get("prompt_text", ""),
        "greedy": tokens,
        "texts": [{"ids": text, "rows": list(picked), "logits": [numbers(logits[row]) for row in picked]}
                  for text, picked, logits in zip(texts, rows, found)],
    }
    return state, blocks, expected, f"salt {salt}  margin {margin:.1e}  distinct {distinct}  float32 {difference:.1e}"


def check_library(model, name, texts, found):
    """The unpatched library in float32 agrees."""
    worst = 0.0
    for text, wanted in zip(texts, found):
        got = logits_of(model, text)
        worst = max(worst, ((got - wanted).abs().max() / wanted.abs().max()).item())
    assert worst < 1e-4, (name, worst)
    return worst


# --- files -----------------------------------------------------------------------------

def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def dump_expected(path, expected):
    """A text a line: small, and a diff names the text."""
    def line(value):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    lines = [f'"{key}":{line(value)}' for key, value in expected.items() if key != "texts"]
    lines.append('"texts":[\n' + ",\n".join(line(text) for text in expected["texts"]) + "\n]")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


# Of the vocabulary of bytes: GPT-2's letters, then these.
SPECIALS = ["<|begin|>", "<|end|>", "<|pad|>", "<|turn|>"]


def write_tokenizer(folder):
    """Bytes without merges; <|begin|> goes before a text."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    letters = gguf_shapes.byte_letters()
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters + SPECIALS)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIALS])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A", pair="<|begin|> $A $B", special_tokens=[("<|begin|>", len(letters))])
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    return tokenizer


GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    base = name.removesuffix(".weight")
    if not base.startswith("model.layers."):
        return GGUF_NAMES[base] + ".weight"
    _, _, number, part = base.split(".", 3)
    return f"blk.{number}.{GGUF_NAMES[part]}.weight"


def gguf_metadata(config, file_type):
    def whole(type_name, values):
        return {"type": type_name, "array": values}

    size = config["hidden_size"] // config["num_attention_heads"]
    return {
        "general.architecture": "llama", "general.name": "llama", "general.file_type": file_type,
        "llama.block_count": config["num_hidden_layers"], "llama.context_length": config["max_position_embeddings"],
        "llama.embedding_length": config["hidden_size"], "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": config["num_attention_heads"],
        "llama.attention.head_count_kv": config["num_key_value_heads"],
        "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"], "llama.rope.freq_base": config["rope_theta"],
        "llama.rope.dimension_count": size, "llama.vocab_size": config["vocab_size"],
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": whole("string", gguf_shapes.byte_letters() + SPECIALS),
        "tokenizer.ggml.token_type": whole("int32", [1] * 256 + [3] * len(SPECIALS)),
        "tokenizer.ggml.merges": whole("string", []),
        "tokenizer.ggml.bos_token_id": config["bos_token_id"], "tokenizer.ggml.eos_token_id": config["eos_token_id"],
        "tokenizer.ggml.padding_token_id": config["pad_token_id"], "tokenizer.ggml.add_bos_token": True,
    }


def row_order(name, rows, config):
    """Rows of q and k in GGUF files of llama: value i of a head beside value i + size / 2."""
    if not name.endswith(("q_proj.weight", "k_proj.weight")):
        return np.arange(rows)
    size = config["hidden_size"] // config["num_attention_heads"]
    return np.arange(rows).reshape(-1, 2, size // 2).swapaxes(1, 2).ravel()


def write_gguf(folder, state, blocks, config):
    folder.mkdir(exist_ok=True)
    for type_name, file_type in (("F16", 1), ("Q8_0", 7)):
        tensors = []
        for name, value in state.items():
            if name not in blocks:
                tensors.append(make_gguf.Tensor(gguf_name(name), "F32", value.shape,
                                                make_gguf.encode_floats("F32", value.numpy())))
                continue
            order = row_order(name, value.shape[0], config)
            contents = value.numpy()[order].tobytes()
            if type_name == "Q8_0":
                factors, codes = (part[order] for part in blocks[name])
                halves = factors.astype(np.float16).view(np.uint8).reshape(*factors.shape, 2)
                contents = np.concatenate([halves, codes.view(np.uint8)], axis=2).tobytes()
            tensors.append(make_gguf.Tensor(gguf_name(name), type_name, value.shape, contents))
        make_gguf.write(folder / f"llama-{type_name.lower()}.gguf", gguf_metadata(config, file_type), tensors)


def make(out, name, spec):
    folder = out / name
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    write_json(folder / "config.json", spec["config"])
    if spec.get("tokenizer"):
        spec["prompt_ids"] = write_tokenizer(folder).encode(spec["prompt_text"]).ids
    for salt in range(200):
        found = attempt(folder, name, spec, salt)
        if found:
            break
    else:
        raise SystemExit(f"{name}: no seed gives a varied text with clear choices")
    state, blocks, expected, quality = found
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    dump_expected(folder / "expected.json", expected)
    folders = [folder]
    if spec.get("tokenizer"):
        folders.append(out / (name + "_gguf"))
        write_gguf(folders[1], state, blocks, spec["config"])
    size = sum(f.stat().st_size for each in folders for f in each.iterdir())
    print(f"{name:22} {size / 1000:7.1f} kB  {quality}", flush=True)
    return size


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    default = Path(__file__).resolve().parent.parent / "tests" / "golden" / "decoders"
    parser.add_argument("--out", type=Path, default=default)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    unknown = set(args.names) - set(DECODERS)
    if unknown:
        parser.error(f"unknown decoders: {sorted(unknown)}")
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    total = sum(make(args.out, name, spec) for name, spec in DECODERS.items() if not args.names or name in args.names)
    print(f"{total / 1000:.1f} kB in all")


if __name__ == "__main__":
    main()
