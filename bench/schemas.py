#!/usr/bin/env python3
"""Texts drawn from JSON schemas by what their grammars allow, judged by jsonschema; what masks and compiling cost.

    bench/schemas.py --tokenizer model.gguf schemas.jsonl --json schemas.json

schemas.jsonl has a schema a line, {"schema": ...}. No model takes part, so that every corner of a grammar is met.
Exits with 1 where a text does not hold to its schema. Needs the package jsonschema.

    agents.schema.accepted|refused|invalid   schemas; invalid: accepted, and a text of theirs does not hold
    agents.mask_us_mean|p99, agents.compile_ms_p50|p95

With --calls the schemas are those of a function's arguments: calls are drawn, read back, and their arguments judged.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[1]


def judge(schemas, texts):
    """{line: the first fault of a text of that schema}."""
    faults = {}
    for record in map(json.loads, texts.read_text().splitlines()):
        line, schema = record["line"], schemas[record["line"]]
        validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        try:
            error = next(validator(schema).iter_errors(json.loads(record["text"])), None)
        except json.JSONDecodeError as broken:
            error = broken
        if error is not None:
            faults.setdefault(line, f"{getattr(error, 'message', error)}: {record['text'][:200]!r}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("schemas", type=pathlib.Path)
    parser.add_argument("--lab", default=str(ROOT / "build" / "penstock-lab"))
    parser.add_argument("--tokenizer", required=True, help="tokenizer.json, or a .gguf file")
    parser.add_argument(
        "--calls", help="the schemas are of arguments, and the texts calls in this form: hermes, llama, ..."
    )
    parser.add_argument("--walks", type=int, default=4, help="texts of a schema")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="file for the records")
    options = parser.parse_args()
    schemas = [json.loads(line)["schema"] for line in options.schemas.read_text().splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        texts, records = pathlib.Path(folder) / "texts.jsonl", pathlib.Path(folder) / "records.json"
        command = [
            options.lab,
            "schemas",
            options.schemas,
            "--tokenizer",
            options.tokenizer,
            "--texts",
            texts,
            "--walks",
            options.walks,
            "--seed",
            options.seed,
            "--json",
            records,
        ]
        if options.calls:
            command += ["--calls", options.calls]
        subprocess.run([str(word) for word in command], check=True)
        faults = judge(schemas, texts)
        kept = records.read_text()
    kept += json.dumps({"name": "agents.schema.invalid", "value": len(faults), "unit": "1"}) + "\n"
    if options.json:
        pathlib.Path(options.json).write_text(kept)
    for line, fault in faults.items():
        print(f"line {line}: {fault}")
    print(f"{len(faults)} schemas with a text that does not hold")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
