"""Compares with expected ids that other projects published, where the test data has the tokenizer.

A case that the reference itself answers otherwise than the file (its authors set options that
tokenizer.json does not carry) is counted apart and is not a failure, so long as we agree with the
reference.
"""

import gzip
import json
import os
import tempfile
import zipfile

import program as prog

BERT = "vespa-engine__vespa/bert-base-uncased.tokenizer.json.gz"
QWEN2 = "derived/tokenizers/qwen2.tokenizer.json"
LLAMA3 = "derived/tokenizers/llama3.2.tokenizer.json"
XLMR = "vespa-engine__vespa/paraphrase-multilingual-mpnet-base-v2.tokenizer.json.gz"
FIXTURES = "joaopauloschuler__neural-api/fixtures"

# transformers.js name -> the tokenizer file of the same vocabulary
TRANSFORMERS_JS = {
    "Xenova/bert-base-uncased": BERT,
    "Xenova/distilbert-base-uncased-finetuned-sst-2-english": BERT,
    "Xenova/bert-base-multilingual-uncased-sentiment": "opensearch-project__ml-commons/mbert-uncased.zip!tokenizer.json",
    "Xenova/paraphrase-multilingual-mpnet-base-v2": XLMR,
    "Xenova/bge-reranker-base": XLMR,
    "Xenova/Qwen1.5-0.5B-Chat": QWEN2,
    "Xenova/llama3-tokenizer-new": LLAMA3,
}


def load(testdata, name):
    path, _, member = name.partition("!")
    path = os.path.join(testdata, path)
    if member:
        with zipfile.ZipFile(path) as archive:
            return archive.read(member)
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        return f.read()


def read_json(testdata, *parts):
    path = os.path.join(testdata, *parts)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def sets(testdata):
    """Yields (label, tokenizer, add special tokens, [(text, ids)])."""
    vectors = read_json(testdata, "huggingface__transformers.js", "tokenizer_vectors.json") or {}
    for name, tokenizer in TRANSFORMERS_JS.items():
        if name in vectors:
            yield f"transformers.js {name}", tokenizer, True, [(c["text"], c["ids"]) for c in vectors[name]["cases"].values()]
    swift = "huggingface__swift-transformers"
    questions, ids = read_json(testdata, swift, "question_tokens.json"), read_json(testdata, swift, "tokenized_questions.json")
    if questions and ids:
        yield "swift-transformers SQuAD questions", BERT, False, [(q["original"], i) for q, i in zip(questions, ids)]
    for file, tokenizer in (("bert_uncased_encoded.json", BERT), ("llama_3.2_encoded.json", LLAMA3)):
        encoded = read_json(testdata, swift, file)
        if encoded:
            yield f"swift-transformers {file}", tokenizer, True, [(encoded["text"], encoded["token_ids"])]
    tests = read_json(testdata, swift, "tokenizer_tests.json") or {}
    for name, tokenizer in (("bert-base-uncased", BERT), ("google-bert/bert-base-uncased", BERT), ("pcuenq/Llama-3.2-1B-Instruct-tokenizer", LLAMA3)):
        if name in tests:
            yield f"swift-transformers {name}", tokenizer, True, [(c["input"], c["encoded"]["input_ids"]) for c in tests[name]]
    modernbert = read_json(testdata, "svilupp__ModernBert.jl", "modernbert_tokenizer_vectors.json")
    if modernbert:
        yield "ModernBert.jl", "hardik-vala__modernbert.c/tokenizer.json", True, [(c["text"], c["ids"]) for c in modernbert]
    for name, group in (read_json(testdata, FIXTURES, "hf_tokenizer_cases.json") or {}).items():
        if group["tokenizer"].endswith(".json"):
            yield f"neural-api {name}", f"{FIXTURES}/{group['tokenizer']}", True, [(c["text"], c["ids"]) for c in group["cases"]]
    for stem, tokenizer in (("qwen2", QWEN2), ("llama-bpe", LLAMA3), ("bert-bge", BERT)):
        base = os.path.join(testdata, "ggerganov__llama.cpp", f"ggml-vocab-{stem}.gguf")
        if os.path.exists(base + ".inp"):
            with open(base + ".inp", encoding="utf-8", newline="") as f:
                texts = f.read().split("\n__ggml_vocab_test__\n")
            with open(base + ".out", encoding="utf-8") as f:
                lines = f.read().split("\n")
            yield f"llama.cpp {stem}", tokenizer, False, [(t, [int(i) for i in line.split()]) for t, line in zip(texts, lines)]


def main(testdata, program):
    import tokenizers
    failures = total = 0
    for label, name, special, cases in sets(testdata):
        try:
            data = load(testdata, name)
        except (OSError, KeyError):
            print(f"{label}: {name} is not there; skipped")
            continue
        reference = tokenizers.Tokenizer.from_str(data.decode())
        reference.no_padding()
        reference.no_truncation()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.json")
            with open(path, "wb") as f:
                f.write(data)
            try:
                got = prog.Program(program, path).run([(int(special), 0, text.encode(), None) for text, _ in cases])
            except (prog.Refused, RuntimeError) as e:
                print(f"{label}: {e}")
                failures += 1
                continue
        wrong, apart = [], 0
        for (text, ids), result in zip(cases, got):
            have = None if result.code else result.ids.tolist()
            if have == ids:
                continue
            if have == reference.encode(text, add_special_tokens=special).ids:
                apart += 1
            else:
                wrong.append((text, ids, have))
        note = f", {apart} where the reference too answers otherwise than the file" if apart else ""
        print(f"{label}: {len(cases)} texts, {sum(len(i) for _, i in cases)} ids, {len(wrong)} differences{note}")
        for text, ids, have in wrong[:3]:
            print(f"    {ascii(text)[:300]}\n      expected {ids[:60]}\n      got      {have[:60] if have else have}")
        failures += len(wrong)
        total += len(cases)
    print(f"{total} texts, {failures} differences")
    return 1 if failures else 0 if total else 2
