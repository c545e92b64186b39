#!/usr/bin/env python3
"""Makes tests/golden/tokenizers/: small tokenizers of every kind, with what they must answer.

The tokenizers are trained here, on text this script makes up, so the files are Penstock's own. The
expected answers come from Hugging Face `tokenizers`. src/text/golden_test.cc checks them all.

  pip install tokenizers sentencepiece protobuf
  tools/make_tokenizer_goldens.py [--only NAME] [--train] [--out FOLDER]

Each NAME.cases.json goes with NAME.tokenizer.json:
  {"cases": [{"a": text, "b": second text, "special": false, "max": 7, "strategy": "only_first",
              "left": true, "ids": [...], "types": "0011", "mask": "1001", "seq": "-01-",
              "offsets": [begin, end, ...], "truncated": 3, "decoded": "...", "skipped": "..."}],
   "ids": [{"ids": [...], "decoded": ..., "skipped": ...}]}
A text that is not valid UTF-8 is {"hex": "..."}. What is absent has its default: special true, no
limit, types all 0, mask all 0, seq "-" where mask is 1 and 0 elsewhere, "skipped" the same as
"decoded".
"""

import argparse
import itertools
import json
import os
import random
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "parity"))

import corpus
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = GPT4.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def training_text(rng):
    """Lines of made-up words with a natural skew, in several scripts, and some code."""
    onsets, vowels, codas = ["b", "c", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr", "pl", "sh", "th"], ["a", "e", "i", "o", "u", "ai", "ea", "ou"], ["", "", "n", "r", "s", "t", "ing", "ed", "er"]
    words = ["".join(rng.choice(onsets) + rng.choice(vowels) + rng.choice(codas) for _ in range(rng.randint(1, 3))) for _ in range(600)]
    words += [w for w in corpus.WORDS if w.isalnum()] + ["can't", "won't", "I'll", "the", "a", "of"]
    other = []
    for first, last in ((0x430, 0x44F), (0x3B1, 0x3C9), (0x4E00, 0x4E40), (0x3042, 0x3093), (0xAC00, 0xAC40), (0x627, 0x64A), (0x905, 0x939), (0xE01, 0xE30)):
        other.append(["".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 5))) for _ in range(30)])
    lines = []
    for _ in range(3000):
        kind = rng.random()
        if kind < 0.7:
            line = [words[min(int(rng.expovariate(0.01)), len(words) - 1)] for _ in range(rng.randint(3, 12))]
            line[0] = line[0].capitalize()
            if rng.random() < 0.3:
                line.insert(rng.randrange(len(line)), str(rng.randrange(10 ** rng.randint(1, 5))))
            if rng.random() < 0.2:
                line.insert(rng.randrange(len(line)), rng.choice(["café", "naïve", "über", "Ångström", "e\u0301tude"]))
            lines.append(" ".join(line) + rng.choice([".", ".", "!", "?", "...", ", and so on;"]))
        elif kind < 0.85:
            lines.append(" ".join(rng.choice(rng.choice(other)) for _ in range(rng.randint(2, 6))))
        else:
            lines.append(f"  if ({rng.choice(words)}_{rng.choice(words)} == {rng.randrange(100)}) {{ return {rng.choice(words)}(); }}\n")
    return lines


def small_charsmap(folder):
    """A pre-compiled character map as SentencePiece makes it, from a few rules of our own."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    rules = {"\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "\u3000": " ", "\u200b": "", "\u200d": "", "\x01": "", "\u00ad": "",
             "e\u0301": "é", "A\u030a": "Å", "\u212b": "Å", "\u1100\u1161": "가", "\u1100\u1161\u11a8": "각", "\u3395": "μg", "\ufb01": "fi", "\ufdfa": "صلى الله",
             "q\u0323\u0307": "Q", "q\u0323": "q.", "½": "1⁄2", "①": "1", "㍿": "株式会社", "😀": ":)", "👍🏿": "+1"}
    rules.update({chr(0xFF01 + i): chr(0x21 + i) for i in range(94)})
    path = os.path.join(folder, "rules.tsv")
    with open(path, "w", encoding="utf-8") as f:
        for source, target in rules.items():
            f.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
    text = os.path.join(folder, "text.txt")
    with open(text, "w", encoding="utf-8") as f:
        f.write("\n".join(f"line {i} of a small text ab{i}" for i in range(200)))
    sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=os.path.join(folder, "m"), vocab_size=60, hard_vocab_limit=False,
                                             normalization_rule_tsv=path, minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    with open(os.path.join(folder, "m.model"), "rb") as f:
        proto.ParseFromString(f.read())
    return proto.normalizer_spec.precompiled_charsmap


def template(single, pair, tokenizer, names):
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=[(n, tokenizer.token_to_id(n)) for n in names])


def train(tokenizer, trainer, lines):
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def wordpiece(lines, normalizer, pre_tokenizer, max_chars=100, prefix="##", size=500):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=max_chars))
    t.normalizer, t.pre_tokenizer = normalizer, pre_tokenizer
    train(t, trainers.WordPieceTrainer(vocab_size=size, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], limit_alphabet=250,
                                       continuing_subword_prefix=prefix, show_progress=False), lines)
    t.model.max_input_chars_per_word = max_chars
    t.decoder = decoders.WordPiece(prefix=prefix)
    return t


def bert(lines):
    t = wordpiece(lines, normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer())
    t.post_processor = template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", t, ["[CLS]", "[SEP]"])
    return t


def bert_cased(lines):
    t = wordpiece(lines, normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=False), pre_tokenizers.BertPreTokenizer(), max_chars=12)
    t.post_processor = processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    t.decoder = decoders.WordPiece(cleanup=False)
    return t


def bert_accents(lines):
    t = wordpiece(lines, normalizers.BertNormalizer(lowercase=False, strip_accents=True, clean_text=False), pre_tokenizers.BertPreTokenizer())
    t.post_processor = template("[CLS] $0 [SEP]", "[CLS]:2 $B:1 [SEP]:2 $A:0 [SEP]:3", t, ["[CLS]", "[SEP]"])
    return t


def wordpiece_sequence(lines):
    t = wordpiece(lines, normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()]),
                  pre_tokenizers.Whitespace())
    t.post_processor = template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", t, ["[CLS]", "[SEP]"])
    return t


def byte_bpe(lines, normalizer=None, pattern=None, add_prefix_space=False, specials=("<|endoftext|>",), size=600, before=(), **model):
    t = Tokenizer(models.BPE(**model))
    t.normalizer = normalizer
    steps = list(before)
    if pattern:
        steps.append(pre_tokenizers.Split(Regex(pattern), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=pattern is None))
    t.pre_tokenizer = steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)
    t.decoder = decoders.ByteLevel()
    return train(t, trainers.BpeTrainer(vocab_size=size, special_tokens=list(specials), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False), lines)


def gpt2(lines):
    t = byte_bpe(lines)
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def gpt2_trim(lines):
    t = byte_bpe(lines, size=450)
    t.post_processor = processors.ByteLevel(trim_offsets=True)
    return t


def roberta(lines):
    t = byte_bpe(lines, add_prefix_space=True, specials=("<s>", "<pad>", "</s>", "<unk>"))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    return t


def llama3(lines):
    t = byte_bpe(lines, pattern=GPT4, specials=("<|begin_of_text|>", "<|eot_id|>"), ignore_merges=True)
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template("<|begin_of_text|> $A", "<|begin_of_text|> $A <|begin_of_text|>:1 $B:1", t, ["<|begin_of_text|>"])])
    return t


def qwen2(lines):
    t = byte_bpe(lines, normalizer=normalizers.NFC(), pattern=QWEN2, specials=("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def o200k(lines):
    return byte_bpe(lines, pattern=O200K)


def modernbert(lines):
    t = byte_bpe(lines, normalizer=normalizers.NFC(), specials=("[UNK]", "[CLS]", "[SEP]", "[PAD]"))
    t.add_tokens([AddedToken(" " * n, normalized=True, special=False) for n in range(2, 9)] + [AddedToken("|||IP|||", normalized=True)])
    t.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
    t.post_processor = template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", t, ["[CLS]", "[SEP]"])
    return t


def falcon(lines):
    t = byte_bpe(lines, before=(pre_tokenizers.Punctuation("contiguous"),))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
                                               pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    return t


def starcoder(lines):
    return byte_bpe(lines, before=(pre_tokenizers.Digits(individual_digits=True),))


def clip(lines):
    t = Tokenizer(models.BPE(unk_token="<|endoftext|>", continuing_subword_prefix="", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    train(t, trainers.BpeTrainer(vocab_size=900, special_tokens=["<|startoftext|>", "<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                 end_of_word_suffix="</w>", show_progress=False), lines)
    t.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0), trim_offsets=False, add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    return t


def byte_tokens():
    return [f"<0x{i:02X}>" for i in range(256)]


def piece_bpe(lines, normalizer, pre_tokenizer, decoder, specials, size=700):
    """BPE on characters with byte tokens for what has none, as the Llama 2 and Gemma files do."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre_tokenizer, decoder
    train(t, trainers.BpeTrainer(vocab_size=size, special_tokens=list(specials) + byte_tokens(), limit_alphabet=90, show_progress=False), lines)
    spec = json.loads(t.to_str())  # the byte tokens are plain vocabulary there, not added tokens
    spec["added_tokens"] = [a for a in spec["added_tokens"] if a["content"] in specials]
    return Tokenizer.from_str(json.dumps(spec))


def llama2(lines):
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    t = piece_bpe([line.replace(" ", " ▁") for line in lines], normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None, decoders.Sequence(parts), ("<unk>", "<s>", "</s>"))
    t.post_processor = template("<s> $A", "<s> $A <s>:1 $B:1", t, ["<s>"])
    return t


def gemma(lines):
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    t = piece_bpe(lines, normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"), decoders.Sequence(parts), ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>"))
    t.add_tokens([AddedToken("\n" * n, normalized=False) for n in (2, 3)] + [AddedToken("▁" * n, normalized=False) for n in (2, 3)])
    t.post_processor = template("<bos> $A", "<bos> $A <bos>:1 $B:1", t, ["<bos>"])
    return t


def mistral_metaspace(lines):
    parts = [decoders.Metaspace(prepend_scheme="first"), decoders.ByteFallback(), decoders.Fuse()]
    return piece_bpe(lines, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=True), decoders.Sequence(parts), ("<unk>", "<s>", "</s>"))


def unigram(lines, normalizer, pre_tokenizer, decoder, specials, unk="<unk>", size=500):
    t = Tokenizer(models.Unigram())
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre_tokenizer, decoder
    return train(t, trainers.UnigramTrainer(vocab_size=size, special_tokens=list(specials), unk_token=unk, show_progress=False), lines)


def xlm_roberta(lines):
    t = unigram(lines, normalizers.Precompiled(CHARSMAP), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]), decoders.Metaspace(), ("<s>", "<pad>", "</s>", "<unk>"))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    t.post_processor = template("<s> $A </s>", "<s> $A </s> </s> $B </s>", t, ["<s>", "</s>"])
    return t


def t5(lines):
    t = unigram(lines, normalizers.Precompiled(CHARSMAP), pre_tokenizers.Metaspace(), decoders.Metaspace(), ("<pad>", "</s>", "<unk>", "<extra_id_0>", "<extra_id_1>"))
    t.post_processor = template("$A </s>", "$A </s> $B </s>", t, ["</s>"])
    return t


def albert(lines):
    steps = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Precompiled(CHARSMAP), normalizers.Replace(Regex(" {2,}"), " ")]
    t = unigram(lines, normalizers.Sequence(steps), pre_tokenizers.Metaspace(prepend_scheme="always"), decoders.Metaspace(), ("<pad>", "<unk>", "[CLS]", "[SEP]"))
    t.post_processor = template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", t, ["[CLS]", "[SEP]"])
    return t


def unigram_bytes(lines):
    t = unigram(lines, normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")]),
                pre_tokenizers.Metaspace(prepend_scheme="first"), decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")]), ("<unk>", "</s>"))
    spec = json.loads(t.to_str())
    spec["model"]["byte_fallback"] = True
    spec["model"]["vocab"] += [[b, -20.0] for b in byte_tokens()]
    return Tokenizer.from_str(json.dumps(spec))


def metaspace_never(lines):
    return unigram(lines, normalizers.NFKD(), pre_tokenizers.Metaspace(replacement="_", prepend_scheme="never", split=False), decoders.Metaspace(replacement="_", prepend_scheme="never"), ("<unk>",), size=400)


def added_tokens(lines):
    """Every combination of the flags of an added token, after a normalizer that changes text."""
    t = byte_bpe(lines, normalizer=normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()]), specials=(), size=400)
    for flags in itertools.product((False, True), repeat=5):
        single_word, lstrip, rstrip, normalized, special = flags
        name = "".join(letter for letter, on in zip("WLRNS", flags) if on) or "plain"
        token = AddedToken(f"<{name}>" if not single_word else f"Tok{name}", single_word=single_word, lstrip=lstrip, rstrip=rstrip, normalized=normalized)
        (t.add_special_tokens if special else t.add_tokens)([token])
    t.add_tokens([AddedToken("é", normalized=True), AddedToken("ab"), AddedToken("abc"), AddedToken("bcd", normalized=False), AddedToken("\n\n"), AddedToken("the")])
    return t


def added_tokens_bert(lines):
    t = bert(lines)
    t.add_tokens([AddedToken("Föö"), AddedToken("New York"), AddedToken("C++", single_word=True), AddedToken("##x", normalized=False), AddedToken("中文", lstrip=True)])
    t.add_special_tokens([AddedToken("[E1]", lstrip=True, rstrip=True), AddedToken("[Ünk]")])
    return t


ALL = [bert, bert_cased, bert_accents, wordpiece_sequence, gpt2, gpt2_trim, roberta, llama3, qwen2, o200k, modernbert, falcon, starcoder, clip, llama2, gemma,
       mistral_metaspace, xlm_roberta, t5, albert, unigram_bytes, metaspace_never, added_tokens, added_tokens_bert]


def text_json(text):
    try:
        return text.decode()
    except UnicodeDecodeError:
        return {"hex": text.hex()}


def answer(tokenizer, case, first, second, special, limit, strategy, left):
    """Adds what the reference says to `case`; None where it refuses."""
    texts = [t.decode("utf-8", "replace") for t in (first, second) if t is not None]
    full = len(tokenizer.encode(*texts, add_special_tokens=special).ids)
    if limit:
        tokenizer.enable_truncation(limit, strategy=strategy, direction="left" if left else "right")
    try:
        e = tokenizer.encode(*texts, add_special_tokens=special)
    except Exception:
        return None
    finally:
        tokenizer.no_truncation()
    case["ids"] = e.ids
    if any(e.type_ids):
        case["types"] = "".join(map(str, e.type_ids))
    if any(e.special_tokens_mask):
        case["mask"] = "".join(map(str, e.special_tokens_mask))
    seq = "".join("-" if s is None else str(s) for s in e.sequence_ids)
    if seq != "".join("-" if m else "0" for m in e.special_tokens_mask):
        case["seq"] = seq
    case["offsets"] = [x for pair in e.offsets for x in pair]
    if full != len(e.ids):
        case["truncated"] = full - len(e.ids)
    return decoded(tokenizer, case, e.ids)


def decoded(tokenizer, case, ids):
    case["decoded"] = tokenizer.decode(ids, skip_special_tokens=False)
    skipped = tokenizer.decode(ids, skip_special_tokens=True)
    if skipped != case["decoded"]:
        case["skipped"] = skipped
    return case


def make_cases(tokenizer, rng):
    added = [t.content for t in tokenizer.get_added_tokens_decoder().values()]
    texts = [t.encode() for t in corpus.ODD + corpus.EMOJI if len(t) < 60] + rng.sample(corpus.INVALID, 18)
    texts += [b"a" + bad + b" z" for bad in rng.sample(corpus.INVALID, 6)]
    texts += [t for t in corpus._mixtures(rng, 12_000) if len(t) < 120][:15]
    texts += [t for t in corpus.special_texts(added, corpus.WORDS, rng, 40) if len(t) < 120][-200:][::6][:36]
    texts += [line.encode() for line in rng.sample(LINES, 6)]
    texts += [b" " * 17, b"7" * 9, b"x" * 130, b"Tok TokW TokWL xTokW TokWR  abcd", b"<LR>  <L> a <R>  b<N>", "new york New York C++ C++x föö".encode(),
              b"class... hellZ... a... end....", b"Hnestly... st.. what..."]
    cases = []
    for text in texts:
        case = answer(tokenizer, {"a": text_json(text)}, text, None, True, 0, "longest_first", False)
        if case:
            cases.append(case)
    short = [t for t in texts if len(t) < 60]
    for i in range(60):
        first, second = rng.choice(short), rng.choice(short) if i % 4 else None
        special = rng.random() < 0.7
        needed = tokenizer.num_special_tokens_to_add(second is not None) if special else 0
        limit = 0 if i < 16 else needed + rng.choice([0, 1, 2, 3, 5, 9]) or 1
        strategy = rng.choice(["longest_first", "longest_first", "only_first", "only_second"] if second is not None else ["longest_first"])
        left = rng.random() < 0.4
        case = {"a": text_json(first)}
        if second is not None:
            case["b"] = text_json(second)
        case.update({k: v for k, v in (("special", special), ("max", limit), ("strategy", strategy), ("left", left)) if v != {"special": True, "max": 0, "strategy": "longest_first", "left": False}[k]})
        if case := answer(tokenizer, case, first, second, special, limit, strategy, left):
            cases.append(case)
    size = tokenizer.get_vocab_size()
    lists = [[rng.randrange(size + 20) for _ in range(rng.randint(1, 14))] for _ in range(20)]
    return {"cases": cases, "ids": [decoded(tokenizer, {"ids": ids}, ids) for ids in [[]] + lists]}


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def main():
    global CHARSMAP, LINES
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(ROOT, "tests", "golden", "tokenizers"))
    parser.add_argument("--only", help="make this one")
    parser.add_argument("--train", action="store_true", help="train again what is there already")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        CHARSMAP = small_charsmap(folder)
    LINES = training_text(random.Random(7))
    for make in ALL:
        if options.only and make.__name__ != options.only:
            continue
        path = os.path.join(options.out, make.__name__ + ".tokenizer.json")
        if options.train or not os.path.exists(path):
            write_json(path, json.loads(make(LINES).to_str()))
        tokenizer = Tokenizer.from_file(path)  # reading rounds scores; answers must be those of the file
        cases = make_cases(tokenizer, random.Random(make.__name__))
        write_json(os.path.join(options.out, make.__name__ + ".cases.json"), cases)
        sizes = [os.path.getsize(os.path.join(options.out, make.__name__ + end)) for end in (".tokenizer.json", ".cases.json")]
        print(f"{make.__name__}: vocabulary {tokenizer.get_vocab_size()}, {len(cases['cases'])} cases, {sizes} bytes")


if __name__ == "__main__":
    main()
