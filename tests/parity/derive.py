#!/usr/bin/env python3
"""Makes tokenizer.json files of the vocabularies that the test data has in other forms.

  derive.py OUT      then: parity.py --extra OUT

tiktoken files become byte-level BPE with the patterns of their encodings; SentencePiece models are
read with the package sentencepiece (and protobuf).
"""

import base64
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_letters():
    """The printable stand-in of each byte in byte-level vocabularies (GPT-2's table)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    table = {b: chr(b) for b in plain}
    table.update({b: chr(256 + i) for i, b in enumerate(rest)})
    return table


def merges_of(ranks):
    """For each token, the last merge that byte-pair encoding with lower ranks does to reach it."""
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [bytes([b]) for b in token]
        while len(parts) > 2:
            options = [(ranks.get(parts[i] + parts[i + 1], rank), i) for i in range(len(parts) - 1)]
            best, at = min(options)
            if best >= rank:
                break
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            merges.append(parts)
    return merges


def from_tiktoken(path, pattern, specials):
    with open(path, "rb") as f:
        ranks = {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in f if line.strip()}
    letters = byte_letters()

    def name(token):
        return "".join(letters[b] for b in token)

    added = [{"id": i, "content": c, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for c, i in specials.items()]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
            "post_processor": byte_level, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                      "byte_fallback": False, "ignore_merges": False, "vocab": {name(t): r for t, r in ranks.items()},
                      "merges": [[name(a), name(b)] for a, b in merges_of(ranks)]}}


def from_sentencepiece(path, metaspace=None):
    """A SentencePiece model. BPE in the manner of the Llama 2 files: spaces replaced by a normalizer,
    or with `metaspace` (a prepend scheme) by that pre-tokenizer; Unigram always by the pre-tokenizer."""
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    with open(path, "rb") as f:
        proto.ParseFromString(f.read())
    pieces = [(p.piece, p.score) for p in proto.pieces]
    byte_fallback = proto.trainer_spec.byte_fallback
    added = [{"id": i, "content": p.piece, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": p.type in (2, 3)}
             for i, p in enumerate(proto.pieces) if p.type in (2, 3, 4)]
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": metaspace or "always", "split": True}
    normalizers = []
    if proto.normalizer_spec.precompiled_charsmap:
        normalizers.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()})
    bpe = proto.trainer_spec.model_type == 2
    if bpe:
        model = {"type": "BPE", "dropout": None, "unk_token": proto.trainer_spec.unk_piece, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                 "fuse_unk": True, "byte_fallback": byte_fallback, "ignore_merges": False, "vocab": {p: i for i, (p, _) in enumerate(pieces)},
                 "merges": sentencepiece_merges(pieces)}
    else:
        model = {"type": "Unigram", "unk_id": proto.trainer_spec.unk_id, "vocab": pieces, "byte_fallback": byte_fallback}
    replace = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    decoder = {"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    if bpe and metaspace is None:
        normalizers += [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]
        space = None
    else:
        normalizers.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"})
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": {"type": "Sequence", "normalizers": normalizers},
            "pre_tokenizer": space, "post_processor": None, "decoder": decoder if space is None else space, "model": model}


def sentencepiece_merges(pieces):
    """Every way to make a piece of two others, best score first (SentencePiece keeps no merges)."""
    ids = {p: i for i, (p, _) in enumerate(pieces)}
    merges = []
    for piece, score in pieces:
        cuts = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in ids and piece[i:] in ids]
        merges += [(*cut, score) for cut in sorted(cuts, key=lambda c: (ids[c[0]], ids[c[1]]))]
    merges.sort(key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)
    return [[a, b] for a, b, _ in merges]


def main():
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    testdata = os.environ.get("PENSTOCK_TESTDATA", os.path.join(os.path.dirname(ROOT), "shared", "testdata"))
    jobs = [
        ("gpt2", lambda p: from_tiktoken(p, GPT2, {"<|endoftext|>": 50256}), "dotnet__machinelearning/gpt2.tiktoken"),
        ("o200k", lambda p: from_tiktoken(p, O200K, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}), "dotnet__machinelearning/o200k_base.tiktoken"),
        ("llama2-spm", lambda p: from_sentencepiece(p), "karpathy__llama2.c/tokenizer.model"),
        ("spm-unigram", lambda p: from_sentencepiece(p), "google__sentencepiece/test_model.model"),
        ("spm-unigram-ja", lambda p: from_sentencepiece(p), "google__sentencepiece/test_ja_model.model"),
        ("llama2-metaspace", lambda p: from_sentencepiece(p, "first"), "karpathy__llama2.c/tokenizer.model"),
        ("spm-bpe-en", lambda p: from_sentencepiece(p), "vespa-engine__vespa/en.wiki.bpe.vs10000.model"),
        ("spm-bpe-ja", lambda p: from_sentencepiece(p), "vespa-engine__vespa/ja.wiki.bpe.vs5000.model"),
    ]
    for name, make, source in jobs:
        path = os.path.join(testdata, source)
        if not os.path.exists(path):
            print(f"{name}: {source} is not there; skipped")
            continue
        try:
            spec = make(path)
        except Exception as e:
            print(f"{name}: {type(e).__name__}: {e}")
            continue
        with open(os.path.join(out, name + ".tokenizer.json"), "w", encoding="utf-8") as f:
            json.dump(spec, f, ensure_ascii=False)
        print(f"{name}: {len(spec['model']['vocab'])} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
