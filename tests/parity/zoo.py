#!/usr/bin/env python3
"""Makes many small tokenizers, one for each kind and setting of pre-tokenizer, normalizer, decoder.

  zoo.py OUT      then: parity.py --extra OUT --tokenizer zoo-

A pre-tokenizer is shown by a WordPiece model of few words: each piece of text becomes one [UNK],
whose offsets are what was split off. A normalizer is shown by byte-level BPE without merges: the
ids are the bytes of the normalized text. Decoders run over the whole vocabulary of a golden.
The patterns are those of published models.
"""

import json
import os
import sys

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDENS = os.path.join(ROOT, "tests", "golden", "tokenizers")
LETTERS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
SMALL = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

PATTERNS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL,
    "cl100k-possessive": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL,
    "qwen35": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": rf"[^\r\n\p{{L}}\p{{N}}]?{LETTERS}*{SMALL}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{{L}}\p{{N}}]?{LETTERS}+{SMALL}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "tekken": rf"[^\r\n\p{{L}}\p{{N}}]?{LETTERS}*{SMALL}+|[^\r\n\p{{L}}\p{{N}}]?{LETTERS}+{SMALL}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek-v3": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "han": "[一-龥\u3040-ゟ゠-ヿ]+",
    "kimi": r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}" + TAIL,
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "groups-of-three": r"(?=(\d{3})+(?!\d))",
    "clip": r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "word": r"\w+|[^\w\s]+",
    "not-class": r"[^\p{L}\d_ ]+|\P{N}\d",
    "lazy": r"a+?b|\s{2,4}?|[0-9]{2,}",
}


def golden(name):
    with open(os.path.join(GOLDENS, name + ".tokenizer.json"), encoding="utf-8") as f:
        return json.load(f)


def splitter(pre_tokenizer):
    t = Tokenizer.from_str(json.dumps(golden("bert")))
    t.normalizer = None
    t.pre_tokenizer = pre_tokenizer
    return t


def byte_model(normalizer):
    t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[]))
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    t.decoder = decoders.ByteLevel()
    return t


def splitters():
    p = pre_tokenizers
    for name, pattern in PATTERNS.items():
        yield f"split-{name}", p.Split(Regex(pattern), "isolated")
    for behavior in ("removed", "merged_with_previous", "merged_with_next", "contiguous"):
        yield f"split-{behavior}", p.Split(Regex(r"\s+|[.,]"), behavior)
        yield f"split-invert-{behavior}", p.Split(Regex(r"\p{L}+|\p{N}"), behavior, invert=True)
        yield f"split-string-{behavior}", p.Split(" ", behavior)
        yield f"punctuation-{behavior}", p.Punctuation(behavior)
    yield "split-invert-isolated", p.Split(Regex(r"\p{L}+"), "isolated", invert=True)
    yield "split-string-newline", p.Split("\n\n", "isolated")
    yield "punctuation-isolated", p.Punctuation("isolated")
    yield "whitespace", p.Whitespace()
    yield "whitespace-split", p.WhitespaceSplit()
    yield "bert", p.BertPreTokenizer()
    yield "digits", p.Digits(individual_digits=False)
    yield "digits-individual", p.Digits(individual_digits=True)
    yield "char-delimiter", p.CharDelimiterSplit("-")
    yield "unicode-scripts", p.UnicodeScripts()
    for scheme in ("always", "first", "never"):
        for split in (False, True):
            yield f"metaspace-{scheme}-{split}".lower(), p.Metaspace(replacement="_", prepend_scheme=scheme, split=split)
    yield "sequence", p.Sequence([p.WhitespaceSplit(), p.Punctuation("isolated"), p.Digits(individual_digits=True), p.Metaspace(prepend_scheme="first")])
    yield "deepseek-v3-all", p.Sequence([p.Split(Regex(r"\p{N}{1,3}"), "isolated"), p.Split(Regex(PATTERNS["han"]), "isolated"), p.Split(Regex(PATTERNS["deepseek-v3"]), "isolated")])


def all_normalizers():
    n = normalizers
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Nmt", "ByteLevel"):
        yield name.lower(), getattr(n, name)()
    yield "strip-left", n.Strip(left=True, right=False)
    yield "nfd-accents-nfc", n.Sequence([n.NFD(), n.StripAccents(), n.Lowercase(), n.NFC()])
    yield "nfkd-lower-nfkc", n.Sequence([n.NFKD(), n.Lowercase(), n.NFKC()])
    yield "prepend", n.Sequence([n.Prepend("▁"), n.Replace(" ", "▁")])
    yield "replace", n.Sequence([n.Replace(Regex(r"\s+"), " "), n.Replace("e", "ee"), n.Replace(Regex(r"[^a-z0-9 ]"), "")])
    yield "replace-empty", n.Replace(Regex(r" {2,}|\p{M}+"), "")
    for clean in (False, True):
        for chinese in (False, True):
            for accents in (None, False, True):
                for lower in (False, True):
                    yield f"bert-{clean:d}{chinese:d}{'-' if accents is None else int(accents)}{lower:d}", n.BertNormalizer(clean, chinese, accents, lower)


def all_decoders():
    d = decoders
    yield "bert", "wordpiece-plain", d.WordPiece(cleanup=False)
    yield "bert", "wordpiece-prefix", d.WordPiece(prefix="#", cleanup=True)
    yield "bert", "none", None
    yield "gpt2", "byte-level", d.ByteLevel()
    yield "clip", "bpe", d.BPEDecoder(suffix="</w>")
    yield "llama2", "sequence", d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)])
    yield "llama2", "strip-both", d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 2, 1)])
    yield "llama2", "byte-fallback", d.ByteFallback()
    yield "t5", "metaspace-first", d.Metaspace(prepend_scheme="first")
    yield "t5", "metaspace-never", d.Metaspace(prepend_scheme="never")
    yield "t5", "ctc", d.CTC(pad_token="<pad>", word_delimiter_token="▁")


def all_processors():
    p = processors
    yield "byte-level-trim", p.ByteLevel(trim_offsets=True, add_prefix_space=True)
    yield "byte-level-trim-no-prefix", p.ByteLevel(trim_offsets=True, add_prefix_space=False)
    yield "roberta-no-prefix", p.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    yield "roberta-no-trim", p.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=False, add_prefix_space=True)
    yield "sequence", p.Sequence([p.ByteLevel(trim_offsets=True), p.TemplateProcessing(single="<s> $A:1 </s>:2", pair="$B:3 </s> <s> $A:4", special_tokens=[("<s>", 0), ("</s>", 2)])])
    yield "several-ids", p.TemplateProcessing(single="x $A </s>", pair="x:1 $A $B:1", special_tokens=[{"id": "x", "ids": [0, 5, 6], "tokens": ["<s>", "a", "b"]}, {"id": "</s>", "ids": [2], "tokens": ["</s>"]}])


def main():
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    made = {f"pre-{name}": splitter(p) for name, p in splitters()}
    made.update({f"norm-{name}": byte_model(n) for name, n in all_normalizers()})
    for base, name, decoder in all_decoders():
        t = Tokenizer.from_str(json.dumps(golden(base)))
        if decoder is None:
            t = Tokenizer.from_str(json.dumps({**golden(base), "decoder": None}))
        else:
            t.decoder = decoder
        made[f"dec-{base}-{name}"] = t
    for name, processor in all_processors():
        t = Tokenizer.from_str(json.dumps(golden("roberta")))
        t.post_processor = processor
        made[f"post-{name}"] = t
    for name, t in made.items():
        t.save(os.path.join(out, f"zoo-{name}.tokenizer.json"), pretty=False)
    print(f"{len(made)} tokenizers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
