#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/gguf_vocabularies.json: what Hugging Face's tokenizers give for
vocabularies that also exist as GGUF files, on texts that tell rules apart: unassigned code points,
decomposed letters, U+2581 itself, special tokens in a text, digits and spaces of many scripts.

GGUF carries a vocabulary and the name of a pre-tokenizer, but no normalizer. Where the model's
tokenizer.json is at hand it is used (--file NAME=tokenizer.json); the others are put together from
the GGUF file's tokens and merges, with the normalizer and pre-tokenizer that the model's
tokenizer.json has (RULES).

Usage:   python tools/make_gguf_tokenizer_goldens.py FOLDER --file bert-bge=tokenizer.json --file phi-3=...
FOLDER has the files ggml-vocab-NAME.gguf of llama.cpp. Written with tokenizers 0.23.3, gguf 0.19.0.
"""

import argparse
import json
import random
import unicodedata
from pathlib import Path

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers
from tokenizers import pre_tokenizers as pre

USER_DEFINED, CONTROL, UNKNOWN = 4, 3, 2


def gpt2():
    return pre.ByteLevel(add_prefix_space=False, use_regex=True)


def digits_then_gpt2():
    return pre.Sequence([pre.Digits(individual_digits=True), gpt2()])


def split(pattern):
    return pre.Split(Regex(pattern), "isolated")


def falcon():
    return pre.Sequence([pre.Punctuation(behavior="contiguous"), gpt2(), pre.Digits(individual_digits=False),
                         split("[0-9][0-9][0-9]")])


def deepseek_coder():
    return pre.Sequence([split("[\r\n]"), split("\\s?\\p{L}+"), split("\\s?\\p{P}+"),
                         split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), pre.Digits(individual_digits=True),
                         pre.ByteLevel(add_prefix_space=False, use_regex=False)])


# normalizer, pre-tokenizer, whether user-defined tokens are matched in the normalized text.
RULES = {
    "gpt-2": (None, gpt2, False),
    "mpt": (normalizers.NFC, gpt2, True),
    "starcoder": (None, digits_then_gpt2, False),
    "refact": (None, digits_then_gpt2, False),
    "falcon": (None, falcon, False),
    "deepseek-coder": (None, deepseek_coder, False),
}


def strings(reader, key):
    field = reader.fields[key]
    return [bytes(field.parts[i]).decode() for i in field.data]


def from_gguf(path, rules):
    normalizer, pre_tokenizer, normalized = rules
    reader = gguf.GGUFReader(path)
    tokens = strings(reader, "tokenizer.ggml.tokens")
    field = reader.fields["tokenizer.ggml.token_type"]
    types = [int(field.parts[i][0]) for i in field.data]
    merges = []
    for merge in strings(reader, "tokenizer.ggml.merges"):
        space = merge.index(" ", 1)
        merges.append((merge[:space], merge[space + 1:]))
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    if normalizer is not None:
        tokenizer.normalizer = normalizer()
    tokenizer.pre_tokenizer = pre_tokenizer()
    named = list(zip(tokens, types))
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t, y in named if y in (CONTROL, UNKNOWN)])
    tokenizer.add_tokens([AddedToken(t, normalized=normalized) for t, y in named if y == USER_DEFINED])
    return tokenizer


FIXED = [
    "Hello world", "e\u2581i", "\u2581", "a \u2581 b", "caf\u00e9 na\u00efve", "cafe\u0301 nai\u0308ve A\u030angstro\u0308m",
    "\ud55c\uad6d\uc5b4 \ud14c\uc2a4\ud2b8", unicodedata.normalize("NFD", "\ud55c\uad6d\uc5b4 \ud14c\uc2a4\ud2b8"),
    "  leading", "trailing   ", " " * 30 + "x", "\t\t x", "\r\n\r\n", "x\u00a0y\u3000z", "12345 678,90",
    "\u2163\u2164 \u00b2\u00b3 \u00bd", "\u65e5\u672c\u8a9e\u30c6\u30ad\u30b9\u30c8\u3001\u30ab\u30bf\u30ab\u30ca\u3002",
    "\U0001f600\U0001f44d\U0001f3fd", "<s>hi</s> <unk>", "<|endoftext|> a <|user|>  x", "[UNK] [MASK] [CLS]x",
    "'S 're 'LL don't WE'VE", "\u017f '\u017f", "\u0378\u0379 \U000e0001", "\ufdd0\ufffe", "\u200b\u200d\ufeff",
    "\u0130\u0131\u017f\u212a", "a\u0000b\u0001\u007f\u0080", "\u0085\u2028\u2029", "\u0660\u0661\u0662 \u0966\u0967",
    "\U0001d7ce\U0001d7cf", "!!??..,,;;::", "$+<=>^~|`", "\u00ab\u00bb\u201c\u201d\u2018\u2019\u2014",
    "\uff41\uff42\uff43\uff11\uff12", "\u0958\u0959 \u09dc",
]
POOLS = [
    "abc DEF ghi 0123 ,.!?'\"-_()[]{}<>|\\/\n\t", "\u00e9\u00e8\u00e7\u00f1\u00fc\u0141\u017c ", "e\u0301e\u0300c\u0327n\u0303u\u0308 ",
    "\uac00\ub098\ub2e4 \u1100\u1161\u11a8", "\u65e5\u672c\u6f22\u5b57\u30ab\u3072 \u3001\u3002", "\u0430\u0431\u0432\u0416\u0418 ",
    "\u05e2\u05d1 \u0639\u0631 ", "\u0939\u093f\u0928 \u0e44\u0e17\u0e22 ", "\u2581 \u2581x", "\u0660\u00b2\u00bd\u2167\u2460",
    "\u0300\u0323\u05b0\u0e38", "\u00a0\u2003\u3000\u200b\u2028\u0085\u000b", "$+<=>^~|`\u00a7\u00a9\u00b0\u00d7\u20ac",
    "\u0378\u05ff\U0001fbff\ue000", "'s'S't're'VE\u2019s",
]


def texts():
    random.seed(7)
    out = list(FIXED)
    for _ in range(90):
        pools = random.sample(POOLS, random.randint(1, 4))
        out.append("".join(random.choice(random.choice(pools)) for _ in range(random.randint(1, 24))))
    return out


def main():
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--out", default=str(root / "tests/golden/tokenizers/gguf_vocabularies.json"))
    options = parser.parse_args()
    tokenizers = {name: from_gguf(options.folder / f"ggml-vocab-{name}.gguf", rules) for name, rules in RULES.items()}
    for given in options.file:
        name, path = given.split("=", 1)
        tokenizers[name] = Tokenizer.from_file(path)
    all_texts = texts()
    lines = ["{", '"texts": ' + json.dumps(all_texts) + ",", '"ids": {']
    parts = []
    for name, tokenizer in sorted(tokenizers.items()):
        tokenizer.no_truncation()
        tokenizer.no_padding()
        ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in all_texts]
        parts.append(f'"{name}": ' + json.dumps(ids, separators=(",", ":")))
    Path(options.out).write_text("\n".join(lines) + "\n" + ",\n".join(parts) + "\n}}\n")


if __name__ == "__main__":
    main()
