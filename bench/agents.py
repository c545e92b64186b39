#!/usr/bin/env python3
"""What agents ask for: edits of text that stands in the prompt, prose, and answers that hold to a schema.

    bench/agents.py --model SmolLM2.gguf --json agents.json

Two servers of one program run in turns, one with --no-speculation. The texts must be equal. Ratios of tokens a second
are medians over rounds; prompts are cached, so that the time is that of the text.

    agents.ngram.edit|prose.ratio    with guessed tokens over without
    agents.constrained_ratio.*       held to a schema over free: keys (an object with fixed keys), pattern (a pattern
                                     that takes what the model says), json (an object with a text)
    agents.first_token.seen|new      seconds to the first token of a prompt that is not cached, held to a schema that was
                                     seen before, or to a new one, over free

--vocabulary NAME goes into the names of the last two groups. Models of random weights (bench/random_model.py) do for
those: --only constrained.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
CODE = '''\
def summarize(records, limit):
    """Returns the total, the mean and the largest of the first records."""
    total = 0
    largest = None
    count = 0
    for record in records:
        if count >= limit:
            break
        value = record["value"]
        if value is None:
            continue
        total += value
        count += 1
        if largest is None or value > largest:
            largest = value
    mean = total / count if count > 0 else 0
    return {"total": total, "mean": mean, "largest": largest, "count": count}
'''
EDIT = [
    {"role": "system", "content": "You edit code."},
    {"role": "user", "content": f"Repeat this code, with `records` renamed to `rows`:\n{CODE}"},
    {"role": "assistant", "content": CODE.replace("records", "rows").split("    count = 0")[0]},
]
PROSE = [{"role": "user", "content": "Write a story about an old lighthouse keeper and a storm."}]
PROPERTIES = {
    f"the_{name}_of_the_record": {"type": "boolean"}
    for name in ("name", "author", "title", "language", "publisher", "edition", "category", "summary")
}
FORMS = {
    "keys": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "record",
                "schema": {
                    "type": "object",
                    "properties": PROPERTIES,
                    "required": list(PROPERTIES),
                    "additionalProperties": False,
                },
            },
        }
    },
    "pattern": {"structured_outputs": {"regex": "[^\\u0000]*"}},
    "json": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "texts",
                "schema": {
                    "type": "object",
                    "required": ["text"],
                    "additionalProperties": False,
                    "properties": {"text": {"type": "string"}},
                },
            },
        }
    },
}


class Server:
    def __init__(self, program, model, port, *flags):
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [
                program,
                "serve",
                "--model",
                f"m={model}",
                "--port",
                str(port),
                "--log-level",
                "error",
                "--context",
                "2048",
                *flags,
            ]
        )
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url + "/readyz", timeout=1)
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("the server did not start")

    def ask(self, body):
        """The text, and its tokens a second."""
        request = urllib.request.Request(
            self.url + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        begin = time.perf_counter()
        answer = json.load(urllib.request.urlopen(request, timeout=300))
        seconds = time.perf_counter() - begin
        return answer["choices"][0]["message"]["content"], answer["usage"]["completion_tokens"] / seconds

    def first_token(self, body):
        """Seconds to the first piece of text."""
        request = urllib.request.Request(
            self.url + "/v1/chat/completions",
            json.dumps({**body, "stream": True}).encode(),
            {"content-type": "application/json"},
        )
        begin = time.perf_counter()
        with urllib.request.urlopen(request, timeout=300) as answer:
            for line in answer:
                if line.startswith(b"data: {") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                    seconds = time.perf_counter() - begin
                    answer.read()
                    return seconds
        raise SystemExit("an answer without text")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def ratio(rounds, ask_one, ask_other):
    """The median of one's tokens a second over the other's, in turns, and whether their texts are equal."""
    ratios, equal = [], True
    for index in range(rounds + 1):
        pair = (ask_one, ask_other) if index % 2 else (ask_other, ask_one)
        done = {ask: ask() for ask in pair}
        equal = equal and done[ask_one][0] == done[ask_other][0]
        if index > 0:  # the first one computes the prompt
            ratios.append(done[ask_one][1] / done[ask_other][1])
    return statistics.median(ratios), min(ratios), max(ratios), equal


def first_tokens(server, rounds):
    """Medians of the ratios of held texts to free ones, and of each pair its extremes."""
    prompt = "Write about what is in this code, and say what it does.\n" + CODE

    def ask(number, more):
        message = {"role": "user", "content": f"{number}. {prompt}"}  # so that no prompt is cached
        return server.first_token({"messages": [message], "max_tokens": 4, "temperature": 0, **more})

    def form(name):
        schema = {"type": "object", "required": [name], "properties": {name: {"type": "string"}, "n": {"enum": [1, 2]}}}
        return {
            "response_format": {"type": "json_schema", "json_schema": {"name": "one", "schema": schema}},
        }

    ask(0, form("seen"))
    found = {"seen": [], "new": []}
    for index in range(1, rounds + 1):
        free = ask(10 * index, {})
        found["seen"].append(ask(10 * index + 1, form("seen")) / free)
        found["new"].append(ask(10 * index + 2, form(f"key{index}")) / free)
    return {name: (statistics.median(ratios), min(ratios), max(ratios)) for name, ratios in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", default=str(ROOT / "build" / "penstock"))
    parser.add_argument("--model", required=True, help="a chat model; SmolLM2's .gguf file for the published figures")
    parser.add_argument("--only", choices=["ngram", "constrained"], help="a part of the figures")
    parser.add_argument("--vocabulary", help="a name for the model's, in the names of the records")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--port", type=int, default=18080, help="of the first server; the second has the next")
    parser.add_argument("--json", help="file for the records")
    options = parser.parse_args()
    on = Server(options.program, options.model, options.port)
    off = Server(options.program, options.model, options.port + 1, "--no-speculation")
    records, failed = {}, False
    try:
        # The begin of the edited code is given, so that a small model does what it is asked for.
        goes_on = {"continue_final_message": True, "add_generation_prompt": False}
        kinds = (("edit", EDIT, 125, goes_on), ("prose", PROSE, 200, {})) if options.only != "constrained" else ()
        for name, messages, tokens, form in kinds:
            for kind, more in (("", {"temperature": 0}), (".sampled", {"temperature": 0.7, "seed": 7})):
                body = {"messages": messages, "max_tokens": tokens, **form, **more}
                middle, low, high, equal = ratio(options.rounds, lambda: on.ask(body), lambda: off.ask(body))
                records[f"agents.ngram.{name}{kind}.ratio"] = middle
                failed = failed or not equal
                print(
                    f"ngram {name}{kind}: {middle:.3f} ({low:.3f} to {high:.3f})"
                    f"{'' if equal else ', AND THE TEXTS DIFFER'}"
                )
        free = {
            "messages": [{"role": "user", "content": "Write a long story about a ship."}],
            "max_tokens": 120,
            "temperature": 0,
            "ignore_eos": True,
        }
        of = f"{options.vocabulary}." if options.vocabulary else ""
        for name, form in FORMS.items() if options.only != "ngram" else ():
            middle, low, high, _ = ratio(options.rounds, lambda: off.ask(free | form), lambda: off.ask(free))
            records[f"agents.constrained_ratio.{of}{name}"] = middle
            print(f"constrained {name}: {middle:.3f} ({low:.3f} to {high:.3f})")
        if options.only != "ngram":
            for name, (middle, low, high) in first_tokens(off, options.rounds).items():
                records[f"agents.first_token.{of}{name}"] = middle
                print(f"first token, {name} schema: {middle:.3f} ({low:.3f} to {high:.3f})")
    finally:
        on.stop()
        off.stop()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(records, indent=1))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
