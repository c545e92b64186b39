"""penstock inspect of decoders, from folders and from GGUF files."""
import json
import os
import pathlib
import struct

import numpy as np
import pytest

from conftest import EMBED, GOLDEN, ROOT, run

DATA = pathlib.Path(os.environ.get("PENSTOCK_TESTDATA", ROOT.parent / "shared" / "testdata"))
U32, F32, STRING, ARRAY = 4, 6, 8, 9
LAYER = {"attn_norm": (8,), "attn_q": (8, 8), "attn_k": (4, 8), "attn_v": (4, 8), "attn_output": (8, 8),
         "ffn_norm": (8,), "ffn_gate": (12, 8), "ffn_up": (12, 8), "ffn_down": (8, 12)}
FOLDER_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
                "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
                "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
                "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
PARAMETERS = 2 * 11 * 8 + 8 + 2 * sum(int(np.prod(shape)) for shape in LAYER.values())


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def value_of(value):
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + text(value)
    return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(text, value))


def write_gguf(path, keys, tensors):
    infos, data = b"", b""
    for name, shape in tensors.items():
        data += b"\0" * (-len(data) % 32)
        infos += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), 0, len(data))
        data += np.zeros(shape, np.float32).tobytes()
    out = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    out += b"".join(text(key) + value_of(value) for key, value in keys.items()) + infos
    path.write_bytes(out + b"\0" * (-len(out) % 32) + data)


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, shape in tensors.items():
        size = 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + b"\0" * at)


KEYS = {"general.architecture": "llama", "llama.block_count": 2, "llama.context_length": 64,
        "llama.embedding_length": 8, "llama.feed_forward_length": 12, "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 1, "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": [f"t{i}" for i in range(10)] + ["<|im_end|>"],
        "tokenizer.ggml.eos_token_id": 2, "tokenizer.chat_template": "{{ messages }}",
        "general.sampling.temp": 0.5}
CONFIG = {"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
          "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 11,
          "max_position_embeddings": 64}


def gguf_tensors():
    named = {"token_embd.weight": (11, 8), "output_norm.weight": (8,), "output.weight": (11, 8)}
    named.update({f"blk.{i}.{part}.weight": shape for i in range(2) for part, shape in LAYER.items()})
    return named


def write_folder(path, **config):
    named = {"model.embed_tokens.weight": (11, 8), "model.norm.weight": (8,), "lm_head.weight": (11, 8)}
    named.update({f"model.layers.{i}.{FOLDER_NAMES[part]}.weight": shape
                  for i in range(2) for part, shape in LAYER.items()})
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps({**CONFIG, **config}))
    write_safetensors(path / "model.safetensors", named)


def inspect(path, *args):
    return json.loads(run("inspect", "--json", "--model", path, *args).stdout)


def refused(path):
    done = run("inspect", "--model", path, check=False)
    assert done.returncode == 1, done
    return done.stderr.decode()


def test_both_formats_say_the_same(tmp_path):
    write_gguf(tmp_path / "small.gguf", KEYS, gguf_tensors())
    write_folder(tmp_path / "small")
    (tmp_path / "alone").mkdir()
    os.link(tmp_path / "small.gguf", tmp_path / "alone" / "any.gguf")
    file, folder = inspect(tmp_path / "small.gguf"), inspect(tmp_path / "small")
    same = ("name", "task", "architecture", "layers", "heads", "kv_heads", "head_size", "hidden_size",
            "intermediate_size", "vocab_size", "parameters", "tied", "stored", "unused_tensors", "context",
            "kv_bytes_per_token", "window", "layer_kinds")
    assert {key: file[key] for key in same} == {key: folder[key] for key in same}
    assert file["name"] == "small" and file["task"] == "generation"
    assert file["parameters"] == PARAMETERS == sum(stored["elements"] for stored in file["stored"])
    assert file["kv_bytes_per_token"] == 2 * 2 * 1 * 4 * 2
    assert file["kv_bytes_of_context"] == 64 * file["kv_bytes_per_token"]
    assert file["stored"] == [{"type": "F32", "tensors": 21, "elements": PARAMETERS, "bytes": 4 * PARAMETERS}]
    assert file["rope"]["interleaved"] and not folder["rope"]["interleaved"]
    assert file["gguf"] == {"version": 3, "files": 1, "alignment": 32} and "gguf" not in folder
    assert file["end_token_ids"] == [2, 10] and file["sampling"] == {"temperature": 0.5}
    assert file["tokenizer"] == "GGUF, gpt2 (smollm)" and folder["tokenizer"] == "none"
    alone = inspect(tmp_path / "alone")  # a folder with one GGUF model
    assert alone["gguf"] == file["gguf"] and alone["name"] == "alone"
    assert inspect(f"mine={tmp_path / 'small.gguf'}")["name"] == "mine"


def test_the_text_has_a_row_for_each(tmp_path):
    write_gguf(tmp_path / "small.gguf", {**KEYS, "llama.attention.sliding_window": 16}, gguf_tensors())
    shown = run("inspect", "-m", tmp_path / "small.gguf").stdout.decode()
    rows = [line.split(None, 1)[0] for line in shown.splitlines()]
    assert rows == ["name", "file", "task", "architecture", "parameters", "stored", "context", "kv", "window",
                    "rope", "vocabulary", "tokenizer", "chat", "sampling", "gguf"]
    assert "llama: 2 layers, 2 heads of 4 (1 of keys), hidden 8, feed-forward 12" in shown
    assert "16 tokens in 2 of 2 layers" in shown
    assert "version 3, 1 file, alignment 32" in shown


def test_what_is_wrong_is_named(tmp_path):
    path = tmp_path / "bad.gguf"
    write_gguf(path, {**KEYS, "general.architecture": "mamba"}, gguf_tensors())
    said = refused(path)
    assert "'mamba' is not supported" in said and "the decoders llama" in said
    write_gguf(path, {**KEYS, "llama.expert_count": 8}, gguf_tensors())
    assert "llama.expert_count" in refused(path)
    write_gguf(path, {**KEYS, "llama.block_count": 3}, gguf_tensors())
    assert "no tensor 'blk.2.attn_norm.weight'" in refused(path)
    write_gguf(path, KEYS, {**gguf_tensors(), "blk.1.ffn_up.weight": (13, 8)})
    assert "'blk.1.ffn_up.weight' has shape [13, 8], the configuration asks for [12, 8]" in refused(path)
    path.write_bytes(path.read_bytes()[:100])
    assert "truncated" in refused(path)
    path.write_bytes(b"not a model")
    assert str(path) in refused(path)
    write_folder(tmp_path / "folder", model_type="mixtral")
    assert "'mixtral' is not supported" in refused(tmp_path / "folder")
    write_folder(tmp_path / "folder", rope_scaling={"type": "ntk", "factor": 2})
    assert "'rope_scaling.type'" in refused(tmp_path / "folder")
    write_gguf(tmp_path / "two.gguf", KEYS, gguf_tensors())
    assert "2 GGUF models" in refused(tmp_path)


def test_the_program_of_a_step():
    model = GOLDEN.parent / "decoders" / "llama"
    args = ("inspect", "--program", "-m", model)
    shown = json.loads(run(*args, "--json", "--length=1", "--past", 40).stdout)
    program = shown["program"]
    assert (program["sequences"], program["length"], program["past"]) == (1, 1, 40)
    ops = program["ops"]
    assert [op["op"] for op in ops].count("attention") == shown["layers"]
    for key in ("operations", "weight_bytes", "activation_bytes", "cache_bytes"):
        assert program[key] == sum(op[key] for op in ops)
    # Keys and values, in bf16: one token's are appended, those of 41 are read.
    assert program["cache_bytes"] == 42 * shown["kv_bytes_per_token"]
    text = run(*args, "--past", 40, "--length", 1).stdout.decode()
    for op in ops:
        assert op["text"] in text
    too_long = run(*args, "--length", shown["context"], "--past=1", check=False)
    assert too_long.returncode == 2 and str(shown["context"]).encode() in too_long.stderr


def test_encoders_stay_encoders():
    assert inspect(GOLDEN / EMBED)["task"] == "embedding"
    past = run("inspect", "-m", GOLDEN / EMBED, "--program", "--past", 3, check=False)
    assert past.returncode == 2 and b"--past" in past.stderr


@pytest.mark.skipif(not DATA.is_dir(), reason="NO TEST DATA: set PENSTOCK_TESTDATA")
def test_a_trained_model():
    shown = inspect(DATA / "vespa-engine__vespa" / "tinyllm.gguf")
    assert (shown["layers"], shown["heads"], shown["kv_heads"], shown["context"]) == (5, 8, 4, 128)
    assert shown["vocab_size"] == 512 and shown["pad_token_id"] is None
    assert "is not supported" in refused(
        DATA / "joaopauloschuler__neural-api" / "fixtures" / "tiny_kquant.gguf")


@pytest.mark.skipif("PENSTOCK_SMOLLM2" not in os.environ, reason="NO SMOLLM2: set PENSTOCK_SMOLLM2")
def test_smollm2():
    shown = inspect(os.environ["PENSTOCK_SMOLLM2"])
    assert shown["parameters"] == 134515008 and shown["tied"]
    assert {stored["type"] for stored in shown["stored"]} == {"Q4_1", "Q8_0", "F32"}
    assert shown["kv_bytes_per_token"] == 23040 and shown["context"] == 8192
    assert shown["end_token_ids"] == [0, 2] and shown["add_bos"] is False
