#!/usr/bin/env python3
"""Penstock's encoder beside onnxruntime: same weights, same ids, f32, same threads, one run.

  minilm_mixed   all-MiniLM-L6-v2, 1,000 real texts of 8 to 256 tokens
  bge_base_128   the shape of bge-base (random weights), 64 texts of 128 tokens

onnxruntime gets its best case: of two forms of the graph (see onnx_graphs.py) and several ways of
batching (in order of length, so that little is padded; 1 to 64 texts a batch) the fastest counts.
The two programs then take turns, and the ratio is the median of the rounds' ratios.

Writes one JSON object a line to --json FILE: {"name", "value", "unit"}.
"""
import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnxruntime as ort

import onnx_graphs
from bench_folders import random_folder
from bench_texts import SEED, TextSource


def mixed_ids(folder, count):
    """Texts cut to lengths drawn log-normally around 64 tokens, 8 to 256 with [CLS] and [SEP]."""
    source = TextSource(folder)
    return [source.ids(source.take(n)) for n in source.lengths(count, 64, 256)]


class Ort:
    def __init__(self, folder, form, threads, work):
        path = work / f"{form}.onnx"
        onnx_graphs.build(folder, form, path)
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
            folder = random_folder("bge-base", work / "bge")
            rng = np.random.default_rng(SEED)
            texts = rng.integers(1000, 30000, (64, 128)).tolist()
            records.append(compare("bge_base_128", folder, texts, args, work))
    if args.json:
        pathlib.Path(args.json).write_text("".join(json.dumps(r) + "\n" for r in records))


if __name__ == "__main__":
    main()
