"""GGUF files for tests: written key by key, or made of a model folder of the goldens."""
import json
import struct

import numpy as np

UINT32, FLOAT32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
INT32 = 5
ALIGNMENT = 32

# Tensors of a folder and in a GGUF file; N is the number of the layer.
BERT = {
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "encoder.layer.N.attention.self.query": "blk.N.attn_q", "encoder.layer.N.attention.self.key": "blk.N.attn_k",
    "encoder.layer.N.attention.self.value": "blk.N.attn_v", "encoder.layer.N.attention.output.dense": "blk.N.attn_output",
    "encoder.layer.N.attention.output.LayerNorm": "blk.N.attn_output_norm",
    "encoder.layer.N.intermediate.dense": "blk.N.ffn_up", "encoder.layer.N.output.dense": "blk.N.ffn_down",
    "encoder.layer.N.output.LayerNorm": "blk.N.layer_output_norm",
}
NOMIC = {
    "embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types",
    "emb_ln": "token_embd_norm", "encoder.layers.N.attn.Wqkv": "blk.N.attn_qkv",
    "encoder.layers.N.attn.out_proj": "blk.N.attn_output", "encoder.layers.N.norm1": "blk.N.attn_output_norm",
    "encoder.layers.N.mlp.fc11": "blk.N.ffn_up", "encoder.layers.N.mlp.fc12": "blk.N.ffn_gate",
    "encoder.layers.N.mlp.fc2": "blk.N.ffn_down", "encoder.layers.N.norm2": "blk.N.layer_output_norm",
}


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def value_of(name, value):
    """A key with the type that the value has in Python; lists are of strings, of floats or of types."""
    if isinstance(value, bool):
        return key(name, BOOL, struct.pack("<?", value))
    if isinstance(value, int):
        return key(name, UINT32, struct.pack("<I", value))
    if isinstance(value, float):
        return key(name, FLOAT32, struct.pack("<f", value))
    if isinstance(value, (str, bytes)):
        return key(name, STRING, text(value))
    kind, raw = ((STRING, b"".join(map(text, value))) if isinstance(value[0], str) else
                 (FLOAT32, struct.pack(f"<{len(value)}f", *value)) if isinstance(value[0], float) else
                 (INT32, struct.pack(f"<{len(value)}i", *value)))
    return key(name, ARRAY, struct.pack("<IQ", kind, len(value)) + raw)


def write(path, keys, tensors=()):
    """`tensors`: names and float32 arrays."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(value_of(name, value) for name, value in keys.items())
    data = b""
    for name, array in tensors:
        data += b"\0" * (-len(data) % ALIGNMENT)
        head += text(name) + struct.pack("<I", array.ndim)
        head += struct.pack(f"<{array.ndim}Q", *reversed(array.shape)) + struct.pack("<IQ", 0, len(data))
        data += np.ascontiguousarray(array, dtype="<f4").tobytes()
    path.write_bytes(head + b"\0" * (-len(head) % ALIGNMENT) + data)
    return path


def tensors_of(path):
    raw = path.read_bytes()
    size, = struct.unpack("<Q", raw[:8])
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + at for at in entry["data_offsets"])
        assert entry["dtype"] == "F32", name
        yield name, np.frombuffer(raw[begin:end], dtype="<f4").reshape(entry["shape"])


def renamed(name, names):
    base, _, ending = name.rpartition(".")
    parts = base.split(".")
    number = next((part for part in parts if part.isdigit()), "N")
    known = names.get(".".join("N" if part.isdigit() else part for part in parts))
    return known and known.replace("N", number) + "." + ending


def bert_tokenizer(folder):
    """The keys of a WordPiece tokenizer.json."""
    described = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = sorted(described["model"]["vocab"].items(), key=lambda item: item[1])
    special = {token["content"]: token["id"] for token in described["added_tokens"] if token["special"]}
    spelt = [token if token in special else token[2:] if token.startswith("##") else "\u2581" + token
             for token, _ in vocabulary]
    return {
        "tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": spelt,
        "tokenizer.ggml.token_type": [3 if token in special else 1 for token, _ in vocabulary],
        "tokenizer.ggml.unknown_token_id": special["[UNK]"], "tokenizer.ggml.cls_token_id": special["[CLS]"],
        "tokenizer.ggml.seperator_token_id": special["[SEP]"], "tokenizer.ggml.padding_token_id": special["[PAD]"],
    }


def encoder(folder, path, pooling):
    """A model folder of BERT or NomicBERT as a GGUF file; `pooling` is the format's number, 0 says nothing."""
    config = json.loads((folder / "config.json").read_text())
    nomic = config["model_type"] == "nomic_bert"
    name, names = ("nomic-bert", NOMIC) if nomic else ("bert", BERT)
    size = lambda *either: next(config[field] for field in either if field in config)
    keys = {
        "general.architecture": name, f"{name}.embedding_length": size("hidden_size", "n_embd"),
        f"{name}.block_count": size("num_hidden_layers", "n_layer"),
        f"{name}.attention.head_count": size("num_attention_heads", "n_head"),
        f"{name}.feed_forward_length": size("intermediate_size", "n_inner"),
        f"{name}.context_length": size("max_position_embeddings", "n_positions"),
        f"{name}.attention.layer_norm_epsilon": float(size("layer_norm_eps", "layer_norm_epsilon")),
        f"{name}.attention.causal": False, **bert_tokenizer(folder),
    }
    if pooling:
        keys[f"{name}.pooling_type"] = pooling
    if nomic:
        keys[f"{name}.rope.freq_base"] = float(config["rotary_emb_base"])
    tensors = [(renamed(tensor, names), array) for tensor, array in tensors_of(folder / "model.safetensors")]
    return write(path, keys, [(tensor, array) for tensor, array in tensors if tensor])
