#!/usr/bin/env python3
"""Writes a chat model with random weights and a given tokenizer, to measure what a vocabulary of its size costs.

    bench/random_model.py qwen2/tokenizer.json FOLDER

The shape is that of Qwen2.5 0.5B: width 896, 14 heads, as many layers as asked for. Needs numpy.
"""

import argparse
import json
import pathlib
import shutil
import struct

import numpy

WIDTH, HEADS, KV_HEADS, HEAD_SIZE, INNER = 896, 14, 2, 64, 4864
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def shapes(vocabulary, layers):
    yield "model.embed_tokens.weight", (vocabulary, WIDTH)
    yield "model.norm.weight", (WIDTH,)
    for index in range(layers):
        layer = f"model.layers.{index}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{layer}{name}.weight", (WIDTH,)
        for name, rows in (("q", HEADS * HEAD_SIZE), ("k", KV_HEADS * HEAD_SIZE), ("v", KV_HEADS * HEAD_SIZE)):
            yield f"{layer}self_attn.{name}_proj.weight", (rows, WIDTH)
            yield f"{layer}self_attn.{name}_proj.bias", (rows,)
        yield f"{layer}self_attn.o_proj.weight", (WIDTH, HEADS * HEAD_SIZE)
        yield f"{layer}mlp.gate_proj.weight", (INNER, WIDTH)
        yield f"{layer}mlp.up_proj.weight", (INNER, WIDTH)
        yield f"{layer}mlp.down_proj.weight", (WIDTH, INNER)


def values(name, shape, random):
    """Rows of bfloat16."""
    if name.endswith("norm.weight"):
        drawn = numpy.ones(shape, numpy.float32)
    else:
        drawn = random.standard_normal(shape, numpy.float32) * numpy.float32(0.02)
    return (drawn.view(numpy.uint32) >> 16).astype(numpy.uint16)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tokenizer = json.loads(options.tokenizer.read_text())
    ids = [*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"])]
    vocabulary = (max(ids) + 64) // 64 * 64
    end = next((token["id"] for token in tokenizer["added_tokens"] if token["content"] == "<|im_end|>"), max(ids))
    options.folder.mkdir(parents=True)
    shutil.copy(options.tokenizer, options.folder / "tokenizer.json")
    (options.folder / "chat_template.jinja").write_text(TEMPLATE)
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "torch_dtype": "bfloat16",
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": options.layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "vocab_size": vocabulary,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "eos_token_id": end,
    }
    (options.folder / "config.json").write_text(json.dumps(config))
    header, offset = {}, 0
    for name, shape in shapes(vocabulary, options.layers):
        size = 2 * int(numpy.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    head = json.dumps(header).encode()
    random = numpy.random.default_rng(options.seed)
    with open(options.folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(head)) + head)
        for name, shape in shapes(vocabulary, options.layers):
            out.write(values(name, shape, random).tobytes())


if __name__ == "__main__":
    main()
