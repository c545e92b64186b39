"""Tiny tokenizers of the four kinds that encoder models use, for make_model_goldens.py.

All vocabularies are written out here, nothing is trained, so the files never change.
"""

import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

WORDS = ["the", "a", "of", "and", "to", "in", "is", "was", "it", "for", "on", "with", "as", "he", "be", "at", "by", "that", "person", "happy", "very", "sad", "dog", "cat", "runs", "jumps", "over", "lazy", "quick", "brown", "fox", "query", "document", "search", "passage", "where", "what", "how", "capital", "city", "paris", "berlin", "france", "germany", "river", "mountain", "blue", "red", "green", "house", "tree", "water", "good", "bad", "movie", "film", "great", "awful", "love", "hate", "server", "model", "token", "batch"]
PUNCTUATION = list(".,!?:;-'\"()/")
LETTERS = list("abcdefghijklmnopqrstuvwxyz")
DIGITS = list("0123456789")
SUFFIXES = ["##ing", "##ed", "##er", "##ly", "##tion"]


def wordpiece_vocab(specials):
    extra = ["你", "好", "é", "ü", "ж", "и"]
    tokens = (specials + PUNCTUATION + DIGITS + LETTERS + ["##" + c for c in LETTERS + DIGITS]
              + SUFFIXES + extra + [w for w in WORDS if len(w) > 1])
    assert len(set(tokens)) == len(tokens)
    return {token: i for i, token in enumerate(tokens)}


def wordpiece(unk, order):
    vocab = wordpiece_vocab(order)
    tok = Tokenizer(models.WordPiece(vocab, unk_token=unk, max_input_chars_per_word=100))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    return tok


def bert():
    tok = wordpiece("[UNK]", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tok, {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]",
                 "unk_token": "[UNK]", "mask_token": "[MASK]"}, "BertTokenizer"


def distilbert():
    tok, names, _ = bert()
    return tok, names, "DistilBertTokenizer"


def mpnet():
    # The published MPNet vocabulary starts with these four; its unknown token is "[UNK]".
    tok = wordpiece("[UNK]", ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"])
    tok.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return tok, {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>",
                 "pad_token": "<pad>", "unk_token": "[UNK]", "mask_token": "<mask>"}, "MPNetTokenizer"


MERGES = """t h|th e|Ġ the|i n|e r|Ġ a|a n|an d|Ġ and|o n|Ġ i|Ġi s|Ġ h|a p|ap p|app y|Ġh appy|p er|s on|per son
Ġ person|Ġ q|q u|u er|quer y|u i|Ġ d|o g|Ġd og|c a|ca t|Ġ cat|Ġ c|in g|e d""".replace("\n", "|").split("|")


def byte_level(specials_first, specials_last=()):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = list(specials_first) + alphabet
    merges = []
    for merge in MERGES:
        left, right = merge.split(" ")
        if left not in tokens or right not in tokens:
            continue
        merges.append((left, right))
        if left + right not in tokens:
            tokens.append(left + right)
    tokens += list(specials_last)
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    return tok


def roberta():
    tok = byte_level(["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"])
    tok.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return tok, {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>",
                 "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}, "RobertaTokenizer"


def modernbert():
    tok = byte_level(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tok.normalizer = normalizers.NFC()
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tok, {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]",
                 "unk_token": "[UNK]", "mask_token": "[MASK]"}, "PreTrainedTokenizerFast"


def xlm_roberta():
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -4.0)]
    pieces += [(c, -8.0 - 0.01 * i) for i, c in enumerate(LETTERS + DIGITS + PUNCTUATION + list("éü你好ж"))]
    pieces += [("▁" + w, -5.0 - 0.03 * i) for i, w in enumerate(WORDS)]
    pieces += [(s, -6.0) for s in ("ing", "ed", "er", "tion", "ly")] + [("<mask>", 0.0)]
    tok = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")])
    tok.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tok.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tok, {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>",
                 "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}, "PreTrainedTokenizerFast"


KINDS = {f.__name__: f for f in (bert, distilbert, mpnet, roberta, modernbert, xlm_roberta)}


def size(kind):
    return KINDS[kind]()[0].get_vocab_size()


def special_ids(kind):
    tok, names, _ = KINDS[kind]()
    return {key: tok.token_to_id(names[key + "_token"]) for key in ("cls", "sep", "pad", "unk", "mask")}


def write(kind, folder, max_length):
    tok, names, cls = KINDS[kind]()
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in dict.fromkeys(names.values())])
    tok.save(str(folder / "tokenizer.json"), pretty=False)
    config = dict(names, tokenizer_class=cls, model_max_length=max_length, clean_up_tokenization_spaces=True)
    if cls in ("BertTokenizer", "DistilBertTokenizer", "MPNetTokenizer"):
        config.update(do_lower_case=True, strip_accents=None, tokenize_chinese_chars=True)
    for file, value in (("tokenizer_config.json", config), ("special_tokens_map.json", names)):
        (folder / file).write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
