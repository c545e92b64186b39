#!/usr/bin/env python3
"""Penstock's encoder beside onnxruntime: same weights, same ids, f32, same threads, one run.

  minilm_mixed   all-MiniLM-L6-v2, 1,000 real texts of 8 to 256 tokens
  bge_base_128   the shape of bge-base (random weights), 64 texts of 128 tokens

onnxruntime gets its best case: of two forms of the graph (see bert_onnx.py) and several ways of
batching (in order of length, so that little is padded; 1 to 64 texts a batch) the fastest counts.
The two programs then take turns, and the ratio is the median of the rounds' ratios.

Writes one JSON object a line to --json FILE: {"name", "value", "unit"}.
"""
import argparse
import inspect
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort
from safetensors.numpy import save_file
from tokenizers import Tokenizer

import bert_onnx

SEED = 20260101


def real_texts():
    """Paragraphs of XQuAD where the test data is at hand, else the docstrings of Python's library."""
    root = pathlib.Path(os.environ.get("PENSTOCK_TESTDATA", "../shared/testdata"))
    texts = []
    for file in sorted(root.glob("google-deepmind__xquad/**/*.json")):
        for article in json.loads(file.read_text())["data"]:
            for paragraph in article["paragraphs"]:
                texts.append(paragraph["context"])
    if not texts:
        import importlib
        for name in sorted(sys.stdlib_module_names):
            if name.startswith("_") or name in ("antigravity", "this", "idlelib"):
                continue
            try:
                module = importlib.import_module(name)
            except Exception:  # not on this platform
                continue
            for item in [module, *vars(module).values()]:
                doc = inspect.getdoc(item) if callable(item) or item is module else None
                if doc and len(doc) > 40:
                    texts.append(doc)
    return sorted(set(texts))


def mixed_ids(folder, count):
    """Texts cut to lengths drawn log-normally around 64 tokens, 8 to 256 with [CLS] and [SEP]."""
    tokenizer = Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    texts = real_texts()
    rng = np.random.default_rng(SEED)
    rng.shuffle(texts)
    out = []
    for encoding in tokenizer.encode_batch(texts[:20000]):
        limit = int(np.clip(np.exp(rng.normal(np.log(64), 0.8)), 8, 256))
        ids = encoding.ids
        if len(ids) < limit and len(ids) < 8:
            continue
        out.append(ids if len(ids) <= limit else ids[:limit - 1] + ids[-1:])
        if len(out) == count:
            return out
    raise SystemExit(f"only {len(out)} texts found")


def bge_base_folder(path):
    rng = np.random.default_rng(SEED)
    hidden, inner, layers = 768, 3072, 12
    w = {}

    def matrix(name, rows, cols):
        w[name + ".weight"] = rng.normal(0, 0.02, (rows, cols)).astype(np.float32)
        w[name + ".bias"] = rng.normal(0, 0.02, rows).astype(np.float32)

    def norm(name):
        w[name + ".weight"] = np.ones(hidden, np.float32)
        w[name + ".bias"] = np.zeros(hidden, np.float32)

    for name, rows in (("word", 30522), ("position", 512), ("token_type", 2)):
        w[f"embeddings.{name}_embeddings.weight"] = rng.normal(0, 0.02, (rows, hidden)).astype(np.float32)
    norm("embeddings.LayerNorm")
    for i in range(layers):
        p = f"encoder.layer.{i}."
        for name in ("query", "key", "value"):
            matrix(p + "attention.self." + name, hidden, hidden)
        matrix(p + "attention.output.dense", hidden, hidden)
        norm(p + "attention.output.LayerNorm")
        matrix(p + "intermediate.dense", inner, hidden)
        matrix(p + "output.dense", hidden, inner)
        norm(p + "output.LayerNorm")
    path.mkdir(parents=True, exist_ok=True)
    save_file(w, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps({
        "model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu",
        "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": 12, "max_position_embeddings": 512, "type_vocab_size": 2,
        "vocab_size": 30522, "layer_norm_eps": 1e-12, "pad_token_id": 0}))
    (path / "1_Pooling").mkdir(exist_ok=True)
    (path / "1_Pooling/config.json").write_text(json.dumps(
        {"word_embedding_dimension": hidden, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}))
    (path / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))
    (path / "tokenizer.json").write_text("{}")
    return path


class Ort:
    def __init__(self, folder, form, threads, work):
        path = work / f"{form}.onnx"
        bert_onnx.build(folder, form, path)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        path.unlink()

    def run(self, texts, batch):
        """Vectors in the order of `texts`; texts are worked on in order of length."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        out = [None] * len(texts)
        for begin in range(0, len(order), batch):
            chosen = order[begin:begin + batch]
            length = max(len(texts[i]) for i in chosen)
            ids = np.zeros((len(chosen), length), np.int64)
            mask = np.zeros_like(ids)
            for row, i in enumerate(chosen):
                ids[row, :len(texts[i])] = texts[i]
                mask[row, :len(texts[i])] = 1
            hidden = self.session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
            pooled = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
            for row, i in enumerate(chosen):
                out[i] = pooled[row]
        return np.stack(out)


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def write_ids(texts, path):
    flat = [len(texts), *map(len, texts)]
    for ids in texts:
        flat += ids
    np.array(flat, np.int32).tofile(path)


def compare(name, folder, texts, args, work):
    ids_file, vectors_file = work / "ids.bin", work / "vectors.bin"
    write_ids(texts, ids_file)

    def ours(rounds):
        command = [args.program, str(folder), str(ids_file), str(args.threads), str(args.batch_tokens),
                   str(rounds), str(vectors_file)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return [float(line) for line in done.stdout.split()]

    # The way of batching is chosen on a quarter of the texts, as mixed as the whole.
    best, sample = None, texts[:max(64, len(texts) // 4)]
    for form in ("plain", "fused"):
        model = Ort(folder, form, args.threads, work)
        for batch in args.batches:
            model.run(sample[:4 * batch], batch)
            took = min(seconds(lambda: model.run(sample, batch)) for _ in range(2))
            print(f"  onnxruntime {form:5} batch {batch:2}: {len(sample) / took:8.1f} texts/s", flush=True)
            if best is None or took < best[0]:
                best = (took, form, batch, model)
        del model
    _, form, batch, model = best
    reference = model.run(texts, batch)
    ours(1)
    vectors = np.fromfile(vectors_file, np.float32).reshape(reference.shape)
    error = np.abs(vectors - reference).max() / np.abs(reference).max()
    if not error < 1e-4:
        raise SystemExit(f"{name}: the two disagree by {error}")

    pairs = [(min(ours(1)), seconds(lambda: model.run(texts, batch))) for _ in range(args.rounds)]
    ratio = statistics.median(theirs / mine for mine, theirs in pairs)
    mine = statistics.median(p[0] for p in pairs)
    theirs = statistics.median(p[1] for p in pairs)
    tokens = sum(map(len, texts))
    print(f"{name}: penstock {len(texts) / mine:.1f} texts/s ({tokens / mine:.0f} tokens/s), "
          f"onnxruntime {len(texts) / theirs:.1f} texts/s ({form}, batch {batch}); ratio {ratio:.2f} "
          f"(rounds {' '.join(f'{b / a:.2f}' for a, b in pairs)}); largest difference {error:.1e}")
    return {"name": f"encode.{name}.ratio_vs_ort_f32", "value": round(ratio, 4), "unit": "ratio"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bench/encode_bench")
    parser.add_argument("--model", required=True, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--texts", type=int, default=1000, help="of minilm_mixed")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--only", choices=["minilm_mixed", "bge_base_128"])
    parser.add_argument("--json", help="file to write the records to")
    args = parser.parse_args()
    print(f"{platform.machine()}, {args.threads} threads, onnxruntime {ort.__version__}")
    records = []
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        if args.only in (None, "minilm_mixed"):
            records.append(compare("minilm_mixed", args.model, mixed_ids(args.model, args.texts), args, work))
        if args.only in (None, "bge_base_128"):
            folder = bge_base_folder(work / "bge")
            rng = np.random.default_rng(SEED)
            texts = rng.integers(1000, 30000, (64, 128)).tolist()
            records.append(compare("bge_base_128", folder, texts, args, work))
    if args.json:
        pathlib.Path(args.json).write_text("".join(json.dumps(r) + "\n" for r in records))


if __name__ == "__main__":
    main()
