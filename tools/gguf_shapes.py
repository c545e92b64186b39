"""GGUF models of published shapes with random weights: for speed, never for text.

The vocabulary is made up: the 256 bytes, then fillers. Its only merge is of two bytes that no
prompt has, so a prompt of n ASCII letters is n tokens.
"""

import dataclasses

# The type of most matrices, and the heavier one of some, as llama.cpp's llama-quantize mixes them.
MIXES = {"Q4_K_M": ("Q4_K", "Q6_K"), "Q6_K": ("Q6_K", "Q6_K"), "Q8_0": ("Q8_0", "Q8_0"), "BF16": ("BF16", "BF16")}
# The number that llama.cpp gives the mix; openvino-genai wants it.
FILE_TYPES = {"Q4_K_M": 15, "Q6_K": 18, "Q8_0": 7, "BF16": 32}
# Scales the products, so that activations neither vanish nor grow.
SCALE = 0.02


@dataclasses.dataclass(frozen=True)
class Shape:
    architecture: str
    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    context: int
    rope_base: float
    tied: bool
    pre: str  # kind of pre-tokenizer


# As published: TinyLlama/TinyLlama-1.1B-Chat-v1.0 (context 2048), Qwen/Qwen3-0.6B. `tiny` is for
# trials.
SHAPES = {
    "tinyllama": Shape("llama", 22, 2048, 5632, 32, 4, 64, 32_000, 8192, 1e4, False, "gpt-2"),
    "qwen3-0.6b": Shape("qwen3", 28, 1024, 3072, 16, 8, 128, 151_936, 40_960, 1e6, True, "qwen2"),
    "tiny": Shape("llama", 2, 256, 512, 4, 2, 64, 512, 8192, 1e4, False, "gpt-2"),
}


def heavier(layer, layers):
    """Whether the layer is one of those whose attn_v and ffn_down get the heavier type: the first and
    the last eighth, and a third of the others.
    """
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def byte_letters():
    """GPT-2's letter of each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    letters = {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(rest)}
    return [letters[byte] for byte in range(256)]


def metadata(name, mix):
    shape = SHAPES[name]
    letters = byte_letters()
    end = shape.vocabulary - 1
    merged = letters[0] + letters[1]
    tokens = [*letters, merged, *(f"Ġ{i}" for i in range(257, end)), "<|end|>"]
    key = shape.architecture + "."

    def whole(type_name, values):
        return {"type": type_name, "array": values}

    def real(value):
        return {"type": "float32", "value": value}

    return {
        "general.architecture": shape.architecture, "general.name": f"random weights in the shape of {name}",
        "general.quantization_version": 2, "general.file_type": FILE_TYPES[mix],
        key + "block_count": shape.layers, key + "context_length": shape.context,
        key + "embedding_length": shape.hidden, key + "feed_forward_length": shape.inner,
        key + "attention.head_count": shape.heads, key + "attention.head_count_kv": shape.kv_heads,
        key + "attention.key_length": shape.head_size, key + "attention.value_length": shape.head_size,
        key + "attention.layer_norm_rms_epsilon": real(1e-5), key + "rope.freq_base": real(shape.rope_base),
        key + "rope.dimension_count": shape.head_size, key + "vocab_size": shape.vocabulary,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": shape.pre,
        "tokenizer.ggml.tokens": whole("string", tokens),
        "tokenizer.ggml.token_type": whole("int32", [1] * end + [3]),
        "tokenizer.ggml.merges": whole("string", [f"{letters[0]} {letters[1]}"]),
        "tokenizer.ggml.bos_token_id": end, "tokenizer.ggml.eos_token_id": end,
        "tokenizer.ggml.add_bos_token": False,
    }


def tensors(name, mix):
    """As in SPEC.json: names, types, shapes."""
    shape = SHAPES[name]
    light, heavy = MIXES[mix]
    q, kv = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    out = []

    def matrix(tensor, type_name, rows, columns, scale=SCALE):
        out.append({"name": tensor + ".weight", "type": type_name, "shape": [rows, columns], "scale": scale})

    def ones(tensor, size):
        out.append({"name": tensor + ".weight", "type": "F32", "shape": [size], "values": 1})

    matrix("token_embd", heavy if shape.tied else light, shape.vocabulary, shape.hidden, 1.0)
    for layer in range(shape.layers):
        at = f"blk.{layer}."
        some = heavy if heavier(layer, shape.layers) else light
        ones(at + "attn_norm", shape.hidden)
        matrix(at + "attn_q", light, q, shape.hidden)
        matrix(at + "attn_k", light, kv, shape.hidden)
        matrix(at + "attn_v", some, kv, shape.hidden)
        matrix(at + "attn_output", light, shape.hidden, q)
        if shape.architecture == "qwen3":
            ones(at + "attn_q_norm", shape.head_size)
            ones(at + "attn_k_norm", shape.head_size)
        ones(at + "ffn_norm", shape.hidden)
        matrix(at + "ffn_gate", light, shape.inner, shape.hidden)
        matrix(at + "ffn_up", light, shape.inner, shape.hidden)
        matrix(at + "ffn_down", some, shape.hidden, shape.inner)
    ones("output_norm", shape.hidden)
    if not shape.tied:
        matrix("output", heavy, shape.vocabulary, shape.hidden)
    return out
