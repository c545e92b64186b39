"""Real texts for the benchmarks in Python, cut to lengths that are drawn."""
import importlib
import inspect
import json
import os
import pathlib
import sys

import numpy as np

from tokenizers import Tokenizer

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


def open_tokenizer(folder):
    tokenizer = Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


class TextSource:
    """Texts of a wanted number of tokens ([CLS] and [SEP] counted), made of real ones end to end."""

    def __init__(self, folder, seed=SEED):
        self.tokenizer = open_tokenizer(folder)
        self.rng = np.random.default_rng(seed)
        self.texts = real_texts()
        self.rng.shuffle(self.texts)
        self.next = 0

    def lengths(self, count, median, longest):
        """Log-normal (sigma 0.8 of the logarithm), 8 to `longest`."""
        return np.clip(np.exp(self.rng.normal(np.log(median), 0.8, count)), 8, longest).astype(int).tolist()

    def ids(self, text, pair=None):
        return self.tokenizer.encode(text, pair).ids

    def take(self, tokens):
        """A text of `tokens` tokens. A few fewer where the cut would be inside a word."""
        text = ""
        while True:
            text = (text + " " + self.texts[self.next % len(self.texts)]).strip()
            self.next += 1
            encoding = self.tokenizer.encode(text)
            if len(encoding.ids) >= tokens:
                break
        # The last token that stays; the one behind it must begin a word.
        last = tokens - 2
        while last > 1 and encoding.tokens[last + 1].startswith("##"):
            last -= 1
        return text[:encoding.offsets[last][1]]

    def exact(self, tokens):
        """As take, but of exactly `tokens` tokens; texts that cannot be cut there are passed over."""
        for _ in range(1000):
            text = self.take(tokens)
            if len(self.ids(text)) == tokens:
                return text
        raise SystemExit(f"no text of {tokens} tokens found")
