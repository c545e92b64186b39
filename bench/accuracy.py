"""bf16 and int8 against f32 on real texts, with the limits the project promises.

    bench/accuracy.py --model FOLDER [--penstock build/penstock] [--json records.jsonl]

Makes two sets from the test data (PENSTOCK_TESTDATA, by default ../shared/testdata) and has
`penstock doctor` compare the types on each: 2,500 varied texts (paragraphs and questions of XQuAD in
six languages, sentences of STS-B in five) and a corpus of 5,000 passages (all paragraphs of XQuAD,
and passages of 40 to 120 words of a novel). The exit code is 1 where a limit is not kept, 77 where
there is no test data. Only Python's own library is needed.
"""
import argparse
import csv
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
XQUAD = ("en", "de", "es", "zh", "ru", "ar")
STSB = ("en", "de", "fr", "ja", "zh")
PASSAGES = 5000
LIMITS = {  # record: (at least, at most)
    "accuracy.bf16.cosine_mean": (0.9999, 1.01),
    "accuracy.bf16.cosine_min": (0.9995, 1.01),
    "accuracy.int8.cosine_mean": (0.999, 1.01),
    "accuracy.int8.cosine_min": (0.995, 1.01),
    "accuracy.int8.spearman_difference": (0, 0.002),
    "accuracy.int8.top10_overlap_percent": (97, 100),
}


def make_sets(data):
    draw = random.Random(1)
    varied, passages = [], []
    for language in XQUAD:
        path = data / "google-deepmind__xquad" / f"xquad.{language}.json"
        articles = json.loads(path.read_text(encoding="utf-8"))["data"]
        paragraphs = [p for article in articles for p in article["paragraphs"]]
        questions = [q["question"] for p in paragraphs for q in p["qas"]]
        passages += [p["context"] for p in paragraphs]
        varied += draw.sample([p["context"] for p in paragraphs], 120)
        varied += draw.sample(questions, 150)
    for language in STSB:
        path = data / "PhilipMay__stsb-multi-mt" / f"stsb-{language}-test.csv"
        with open(path, encoding="utf-8", newline="") as file:
            varied += draw.sample([text for row in csv.reader(file) for text in row[:2]], 180)
    novel = (data / "ollama__ollama" / "war-and-peace.txt").read_text(encoding="utf-8",
                                                                      errors="replace").split()
    at = 3000  # after the table of contents
    while len(passages) < PASSAGES:
        words = draw.randint(40, 120)
        passages.append(" ".join(novel[at:at + words]))
        at += words
    return {"varied": varied, "passages": passages}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--penstock", default=str(ROOT / "build" / "penstock"))
    parser.add_argument("--json", help="file for the records, a JSON object a line")
    parser.add_argument("--set", choices=("varied", "passages"), action="append",
                        help="only this set")
    args, more = parser.parse_known_args()  # the rest goes to doctor: --int8-keep, --threads, ...
    data = pathlib.Path(os.environ.get("PENSTOCK_TESTDATA", ROOT.parent / "shared" / "testdata"))
    if not data.is_dir():
        print(f"SKIPPED: no test data in {data} (PENSTOCK_TESTDATA)", file=sys.stderr)
        return 77
    failed = False
    records = []
    for name, texts in make_sets(data).items():
        if args.set and name not in args.set:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path, out = pathlib.Path(folder, "texts.jsonl"), pathlib.Path(folder, "records.jsonl")
            path.write_text("".join(json.dumps(text) + "\n" for text in texts), encoding="utf-8")
            print(f"{name}: {len(texts)} texts", flush=True)
            subprocess.run([args.penstock, "doctor", "--model", args.model, "--texts", path,
                            "--json", out, *more], check=True)
            for line in out.read_text().splitlines():
                record = json.loads(line)
                records.append({**record, "row": name})
                least, most = LIMITS.get(record["name"], (None, None))
                if least is not None and not least <= (-1 if record["value"] is None else record["value"]) <= most:
                    failed = True
                    print(f"NOT KEPT  {name}: {record['name']} {record['value']}", flush=True)
    if args.json:
        pathlib.Path(args.json).write_text("".join(json.dumps(r) + "\n" for r in records))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
