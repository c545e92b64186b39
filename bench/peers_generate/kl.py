#!/usr/bin/env python3
"""How far a runtime's next tokens are from those of the same weights in f32: mean KL over 480 tokens.

  kl.py --model FILE.gguf [--logits NAME=FILE]... [--json FILE]

The reference is a plain f32 forward pass of the dequantised weights in numpy. It is computed once and
kept in the cache: prompt.json with the text and its ids, logits.f32 with [480, vocabulary]. FILE of
--logits has another runtime's, of the same ids and layout. Prints and records generate.kl.NAME; of
llama-cpp-python llama_cpp (one pass over the prompt), llama_cpp_decode (token by token) and
llama_cpp_stored (one pass, weights not repacked: other kernels).
"""
import argparse
import hashlib
import json
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "peers")]
import install
import peers
import texts

TOKENS = 480
# Record, token by token, way of run_llama_cpp.py.
LLAMA_CPP = [("llama_cpp", False, "flash attention"), ("llama_cpp_decode", True, "flash attention"),
             ("llama_cpp_stored", False, "flash attention, as stored")]


class Llama:
    """A model of the architecture llama, in f32."""

    def __init__(self, file):
        import gguf
        reader = gguf.GGUFReader(file)
        keys = {name.partition(".")[2]: field.contents() for name, field in reader.fields.items()}
        if keys["architecture"] != "llama":
            raise ValueError(f"the reference runs models of llama, not of {keys['architecture']}")
        self.layers, self.heads = keys["block_count"], keys["attention.head_count"]
        self.kv_heads = keys.get("attention.head_count_kv", self.heads)
        self.epsilon = keys["attention.layer_norm_rms_epsilon"]
        self.base = keys.get("rope.freq_base", 10000.0)
        self.weights = {t.name.removesuffix(".weight"): gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
                        for t in reader.tensors}
        self.size = self.weights["token_embd"].shape[1] // self.heads

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(self.epsilon)) * self.weights[name]

    def rotated(self, x):
        """[tokens, heads, size]; neighbours are pairs, as GGUF files of llama have them."""
        angles = np.arange(len(x))[:, None] * self.base ** (-np.arange(0, self.size, 2) / self.size)
        turn = np.exp(1j * angles)[:, None, :]
        pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
        return np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape).astype(np.float32)

    def attention(self, x, at):
        def heads(name):
            return (x @ self.weights[at + name].T).reshape(len(x), -1, self.size)

        group = self.heads // self.kv_heads
        q = self.rotated(heads("attn_q"))
        k = np.repeat(self.rotated(heads("attn_k")), group, axis=1)
        v = np.repeat(heads("attn_v"), group, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.float32(np.sqrt(self.size))
        scores += np.triu(np.full((len(x), len(x)), -np.inf, np.float32), 1)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", shares, v).reshape(len(x), -1)
        return mixed @ self.weights[at + "attn_output"].T

    def logits(self, ids):
        x = self.weights["token_embd"][ids]
        for layer in range(self.layers):
            at = f"blk.{layer}."
            x = x + self.attention(self.norm(x, at + "attn_norm"), at)
            y = self.norm(x, at + "ffn_norm")
            gate = y @ self.weights[at + "ffn_gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (y @ self.weights[at + "ffn_up"].T)) @ self.weights[at + "ffn_down"].T
        output = self.weights.get("output", self.weights["token_embd"])
        return self.norm(x, "output_norm") @ output.T


def read(file, rows):
    values = np.fromfile(file, np.float32)
    if not len(values) or len(values) % rows:
        raise ValueError(f"{file} has no whole {rows} rows")
    return values.reshape(rows, -1)


def log_probabilities(logits):
    logits = logits.astype(np.float64)
    logits -= logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def mean_kl(reference, logits):
    """Mean over the rows, of both in f32; row by row, since a vocabulary is wide."""
    if logits.shape != reference.shape:
        raise ValueError(f"logits of {logits.shape}, expected {reference.shape}")
    sums = 0.0
    for one, other in zip(reference, logits):
        p, q = log_probabilities(one), log_probabilities(other)
        sums += float(np.sum(np.exp(p) * (p - q)))
    return sums / len(reference)


def reference(model, cache):
    """The folder of the prompt and the logits; made once for a model and the text."""
    name = hashlib.sha256((str(model) + texts.TEXT).encode()).hexdigest()[:12]
    folder = cache / f"kl-{pathlib.Path(model).stem}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "logits.f32").exists():
        prompt = peers.ask("llama_cpp", folder / "log", do="prompt", file=str(model), text=texts.TEXT, count=TOKENS)
        (folder / "prompt.json").write_text(json.dumps(prompt))
        print(f"f32 logits into {folder}", flush=True)
        part = folder / "logits.part"
        Llama(model).logits(np.array(prompt["ids"])).astype(np.float32).tofile(part)
        part.rename(folder / "logits.f32")
    return folder


def measure(model, cache, threads, others=()):
    """{name: mean KL}; `others` are pairs of a name and a file of logits."""
    folder = reference(model, cache)
    ids = json.loads((folder / "prompt.json").read_text())["ids"]
    wanted = read(folder / "logits.f32", len(ids))
    found = {}
    for name, one_by_one, variant in LLAMA_CPP:
        file = folder / f"{name}.f32"
        peers.ask("llama_cpp", folder / "log", do="logits", file=str(model), ids=ids, threads=threads,
                  out=str(file), one_by_one=one_by_one, variant=variant)
        found[name] = mean_kl(wanted, read(file, len(ids)))
    for name, file in others:
        found[name] = mean_kl(wanted, read(file, len(ids)))
    return found


def records(found):
    return [{"name": f"generate.kl.{name}", "value": float(f"{value:.4g}"), "unit": "nat"}
            for name, value in found.items()]


def add_flag(parser):
    parser.add_argument("--logits", action="append", default=[], metavar="NAME=FILE",
                        type=lambda given: tuple(given.split("=", 1)),
                        help="logits of another runtime over the ids of prompt.json, [480, vocabulary] of f32")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--cache", type=pathlib.Path, default=install.default_cache() / "generate-peers")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    add_flag(parser)
    args = parser.parse_args()
    found = measure(args.model.resolve(), args.cache, args.threads, args.logits)
    for record in records(found):
        print(f"{record['name']:32} {record['value']}")
    if args.json:
        args.json.write_text("".join(json.dumps(one) + "\n" for one in records(found)))


if __name__ == "__main__":
    main()
