"""llama.cpp in embedding mode through llama-cpp-python: F32 and Q8_0. Ids in."""
import ctypes
import json

import llama_cpp
import numpy as np

import gguf
from onnx_graphs import Weights

# Names of tensors as llama.cpp's loader asks for them.
BERT = {
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
    "pooler.dense": "cls", "classifier": "cls.output",
}
MODERNBERT = {
    "embeddings.tok_embeddings": "token_embd", "embeddings.norm": "token_embd_norm",
    "attn_norm": "attn_norm", "attn.Wqkv": "attn_qkv", "attn.Wo": "attn_output", "mlp_norm": "ffn_norm",
    "mlp.Wi": "ffn_up", "mlp.Wo": "ffn_down", "final_norm": "output_norm",
    "head.dense": "cls", "head.norm": "cls.norm", "classifier": "cls.output",
}


def tensor_name(name, table):
    stem, _, kind = name.rpartition(".")
    for prefix in ("encoder.layer.", "layers."):
        if stem.startswith(prefix):
            index, _, stem = stem.removeprefix(prefix).partition(".")
            return f"blk.{index}.{table[stem]}.{kind}"
    return f"{table[stem]}.{kind}"


def write_gguf(folder, path, q8):
    config = json.loads((folder / "config.json").read_text())
    modern = config["model_type"] == "modernbert"
    writer = gguf.GGUFWriter(path, "modern-bert" if modern else "bert")
    # Ids come from outside, so no vocabulary is needed.
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(512)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["norm_eps" if modern else "layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_classifier_output_labels(["score"])
    if modern:
        writer.add_sliding_window(config["local_attention"])
        writer.add_sliding_window_pattern(config["global_attn_every_n_layers"])
        writer.add_rope_freq_base(config["global_rope_theta"])
        writer.add_rope_freq_base_swa(config["local_rope_theta"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    else:
        writer.add_token_type_count(config["type_vocab_size"])
    for name, array in Weights(folder).items():
        target = tensor_name(name, MODERNBERT if modern else BERT)
        layer_product = target.startswith("blk.") and array.ndim == 2
        if q8 and (layer_product or target == "token_embd.weight"):
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(target, gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(target, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Peer:
    version = llama_cpp.__version__
    takes = "ids"

    def __init__(self, folder, dtype, threads, work):
        if dtype == "bf16":
            raise RuntimeError("compared as F32 and Q8_0")
        self.folder, self.threads = folder, threads
        llama_cpp.llama_backend_init()
        self.silence = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.silence, ctypes.c_void_p())
        path = work / f"llama-{dtype}.gguf"
        if not path.exists():
            part = path.with_suffix(".part")
            write_gguf(folder, part, dtype == "int8")
            part.rename(path)
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            raise RuntimeError("llama.cpp does not load the model")
        self.context, self.loaded = None, None

    def variants(self):
        # Tokens of one pass, and flash attention or not.
        return {"latency": ["512 flash", "512"], "throughput": ["512 flash", "512", "1024 flash", "2048 flash"]}

    def prepare(self, task, variant):
        if self.loaded == (task, variant):
            return
        if self.context:
            llama_cpp.llama_free(self.context)
        self.tokens = int(variant.split()[0])
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = self.tokens
        params.n_seq_max = 64
        params.kv_unified = True
        params.n_threads = params.n_threads_batch = self.threads
        params.embeddings = True
        params.flash_attn_type = 1 if "flash" in variant else 0
        params.pooling_type = (llama_cpp.LLAMA_POOLING_TYPE_MEAN if task == "pooled"
                               else llama_cpp.LLAMA_POOLING_TYPE_RANK)
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError("llama.cpp makes no context")
        self.width = llama_cpp.llama_model_n_embd(self.model) if task == "pooled" else 1
        self.loaded = (task, variant)

    def encode(self, texts):
        # The arrays of a llama_batch, filled by numpy: element by element would cost Python's time.
        lengths = [len(t) for t in texts]
        token = np.concatenate(texts).astype(np.int32)
        position = np.concatenate([np.arange(n) for n in lengths]).astype(np.int32)
        sequence = np.repeat(np.arange(len(texts)), lengths).astype(np.int32)
        ones = np.ones(len(token), np.int32)
        pointers = sequence.ctypes.data + 4 * np.arange(len(token), dtype=np.uint64)
        flags = np.ones(len(token), np.int8)
        batch = llama_cpp.llama_batch(n_tokens=len(token))
        for field, array in (("token", token), ("pos", position), ("n_seq_id", ones), ("seq_id", pointers),
                             ("logits", flags)):
            kind = dict(llama_cpp.llama_batch._fields_)[field]
            setattr(batch, field, ctypes.cast(array.ctypes.data, kind))
        code = llama_cpp.llama_encode(self.context, batch)
        if code:
            raise RuntimeError(f"llama_encode: {code}")
        return [np.ctypeslib.as_array(llama_cpp.llama_get_embeddings_seq(self.context, s), (self.width,)).copy()
                for s in range(len(texts))]

    def run(self, data, batch):
        """Packs texts in order of length into passes of at most `tokens`, at most `batch` texts."""
        texts = data["ids"]
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        out = np.empty((len(texts), self.width), np.float32)
        part, size = [], 0
        for i in [*order, None]:
            if part and (i is None or size + len(texts[i]) > self.tokens or len(part) == min(batch, 64)):
                out[part] = self.encode([texts[p] for p in part])
                part, size = [], 0
            if i is not None:
                part.append(i)
                size += len(texts[i])
        return out

    def one(self, data, i):
        return self.encode([data["ids"][i]])
