"""What is measured: models, and for each the texts of every workload.

  a  one query of 16 tokens: latency
  b  mixed texts of 8 to 512 tokens, log-normal around 90
  c  one query with passages of about 120 tokens, scored by a classification head of one output
  d  texts of 512 tokens
"""
import json
import pathlib

from bench_folders import SHAPES, random_folder, with_head
from bench_texts import TextSource

MODELS = ["minilm", *SHAPES]
# Queries, texts, passages, long texts of a round. The larger models take ten to thirty times as long
# a token.
FULL = {"a": 200, "b": 1000, "c": 100, "d": 128}
COUNTS = {
    "minilm": FULL,
    "bge-base": {"a": 40, "b": 32, "c": 12, "d": 4},
    "bge-large": {"a": 20, "b": 16, "c": 6, "d": 2},
    "modernbert-base": {"a": 40, "b": 32, "c": 12, "d": 4},
}
QUICK = {"a": 10, "b": 12, "c": 4, "d": 2}


def make_folder(name, minilm, cache):
    """The model's folder in the cache; made once."""
    path = cache / name / "model"
    if not (path.with_name("model-rerank") / "config.json").exists():
        print(f"making {path}", flush=True)
        if name == "minilm":
            with_head(minilm, path)
        else:
            random_folder(name, path, minilm)
    return path


def write_data(folder, counts, work):
    """{workload: file}, {workload: tokens}; also `sample`, on which the ways of batching are tried."""
    source = TextSource(folder)
    files, tokens = {}, {}

    def write(name, texts, ids, kind="texts"):
        files[name] = work / f"{name}.json"
        files[name].write_text(json.dumps({kind: texts, "ids": ids}))
        tokens[name] = sum(map(len, ids))

    texts = [source.exact(16) for _ in range(counts["a"])]
    write("a", texts, [source.ids(t) for t in texts])
    lengths = source.lengths(counts["b"], 90, 512)
    texts = [source.take(n) for n in lengths]
    ids = [source.ids(t) for t in texts]
    write("b", texts, ids)
    n = max(6, counts["b"] // 20)
    write("sample", texts[:n], ids[:n])
    query = source.take(14)
    pairs = [(query, source.take(109)) for _ in range(counts["c"])]
    write("c", pairs, [source.ids(*p) for p in pairs], "pairs")
    texts = [source.exact(512) for _ in range(counts["d"])]
    write("d", texts, [source.ids(t) for t in texts])
    return files, tokens


def write_calibration(folder, path):
    """Texts of its own for peers that fix scales beforehand."""
    if not path.exists():
        source = TextSource(folder, seed=7)
        path.write_text(json.dumps({"ids": [source.ids(source.take(n)) for n in source.lengths(100, 90, 512)]}))


def text_lines(file, path):
    """A text a line, for the load generator."""
    texts = json.loads(pathlib.Path(file).read_text())["texts"]
    path.write_text("".join(" ".join(t.split()) + "\n" for t in texts))
    return path
