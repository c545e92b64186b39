#!/usr/bin/env python3
"""Compares Penstock's chat templates with Python's jinja2, set up as Hugging Face transformers does it.

Three kinds of cases, each compared to the byte, errors included (that there is one, not its words):
templates of the test data with their own inputs and with many variants of messages; expressions and
statements written for every feature; and random ones, made from a grammar by --seed.

    python3 -m venv venv && venv/bin/pip install jinja2
    cmake -B build -G Ninja && ninja -C build jinja_parity
    venv/bin/python tests/parity/jinja_parity.py --program build/tests/jinja_parity
"""

import argparse
import collections
import datetime
import functools
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

import jinja_cases

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MARK = "CONTINUE_FINAL_MESSAGE_TAG "
REASONING = ("reasoning_content", "thinking", "reasoning")


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        given = dict(*args, **kwargs)
        for name in given:
            Namespace._check(name)
        jinja2.utils.Namespace.__init__(self, given)

    def __setitem__(self, name, value):
        Namespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


class Dict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args):
        return dict.fromkeys(*args)


class Raised(jinja2.exceptions.TemplateError):
    """raise_exception: its message must be the same."""


class TooLong(Exception):
    pass


def raise_exception(message):
    raise Raised(message)


def environment(now):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(now[0]).strftime(form)
    env.globals["dict"] = Dict()
    env.globals["namespace"] = Namespace
    return env


NOW = [0]
ENV = environment(NOW)


def alias(message):
    """The names of reasoning, as transformers 5 fills them in."""
    reasoning = next((message[k] for k in REASONING if message.get(k) is not None), None)
    if reasoning is None:
        return message
    return {"thinking": reasoning, **message, "reasoning_content": reasoning}


def cut(text, content):
    if content.strip() not in text or MARK.strip() not in text:
        raise ValueError("the content is not there")
    at = text.rindex(MARK.strip())
    if text[at:at + len(MARK)] == MARK:
        return text[:at]
    return text[:at].rstrip()


@functools.lru_cache(maxsize=64)
def compiled(source):
    return ENV.from_string(source)


def reference(source, given):
    """The text, as render_jinja_template of transformers gives it."""
    NOW[0] = given.get("now", 0)
    template = compiled(source)
    messages = [alias(m) for m in json.loads(json.dumps(given.get("messages", [])))]
    last = None
    if given.get("continue_final_message"):
        if given.get("add_generation_prompt"):
            raise ValueError("continue and add")
        last = messages[-1].get("content")
        if last is None or "content" not in source:
            raise ValueError("no content")
        if isinstance(last, list):
            block = next(b for b in reversed(last) if "text" in b)
            last = block["text"]
            block["text"] += MARK
        else:
            messages[-1]["content"] = last + MARK
    names = dict(given.get("special_tokens", {}))
    names.update(tools=given.get("tools"), documents=given.get("documents"),
                 add_generation_prompt=given.get("add_generation_prompt", False))
    names.update(json.loads(json.dumps(given.get("variables", {}))))  # some filters change lists
    text = template.render(messages=messages, **names)
    return text if last is None else cut(text, last)


def on_alarm(*_):
    raise TooLong()


def expected(source, given):
    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, 5)
    try:
        text = reference(source, given)
        text.encode()
        return ("text", text)
    except TooLong:
        return ("skipped", "too long")
    except Raised as e:
        return ("raised", str(e.message))
    except (Exception, RecursionError) as e:
        return ("error", f"{type(e).__name__}: {e}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def run(program, cases):
    with tempfile.TemporaryDirectory() as folder:
        source, results = os.path.join(folder, "cases"), os.path.join(folder, "results")
        with open(source, "w", encoding="utf-8") as f:
            last = None
            for template, given in cases:
                f.write(json.dumps({"input": given} if template == last else {"template": template, "input": given}) + "\n")
                last = template
        subprocess.run([program, source, results], check=True)
        with open(results, encoding="utf-8") as f:
            # Not splitlines(): JSON may hold U+2028 as it is.
            return [json.loads(line) for line in f.read().split("\n") if line]


# What Python has and Penstock names as not supported, and what has no fixed text.
ALLOWED = [
    ("64-bit integers", lambda want, got: "64 bits" in got.get("error", "")),
    ("not supported", lambda want, got: got.get("code") == "unsupported"),
    ("a limit", lambda want, got: got.get("code") == "unprocessable" and got.get("stage") == "render"),
    ("Python objects", lambda want, got: want[0] == "text" and re.search("at0x|builtin|class|bound|jinja2", re.sub("[^a-z0-9]", "", want[1].lower()))),
    ("jinja2 builds constant dicts when it compiles", lambda want, got: want[0] == "error" and "unhashable" in want[1]),
    ("jinja2 folds a constant that Python cannot write", lambda want, got: re.search(r"name '(inf|nan)' is not defined", want[1])),
    ("a constant that has no slices is undefined to jinja2", lambda want, got: want[0] == "text" and "cannot be sliced" in got.get("error", "")),
    ("names of arguments that Python 3.13 takes", lambda want, got: "replace() takes no keyword" in want[1]),
    ("complex", lambda want, got: "complex" in got.get("error", "")),
    ("lone surrogates", lambda want, got: want[0] == "error" and "surrogates" in want[1]),
]


def judge(want, got):
    """None if both agree, else "" or the reason why they need not."""
    if want[0] == "skipped":
        return "too long for Python"
    if want[0] == "text" and got.get("text") == want[1]:
        return None
    if want[0] == "raised" and got.get("error") == want[1]:
        return None
    if want[0] == "error" and "error" in got:
        return None
    for name, allowed in ALLOWED:
        if allowed(want, got):
            return name
    return ""


def compare(name, cases, options):
    start = time.monotonic()
    got = run(options.program, cases)
    if len(got) != len(cases):
        raise RuntimeError(f"{len(cases)} cases, {len(got)} results")
    counts, shown = collections.Counter(), 0
    for (template, given), answer in zip(cases, got):
        want = expected(template, given)
        counts["errors" if "error" in answer else "texts"] += 1
        verdict = judge(want, answer)
        if verdict:
            counts[f"allowed: {verdict}"] += 1
        if verdict != "":
            continue
        counts["DIFFERENT"] += 1
        if shown < options.show:
            shown += 1
            print(f"  template {template[:options.width]!r}\n  input    {json.dumps(given)[:options.width]}\n"
                  f"  expected {str(want)[:options.width]}\n  got      {json.dumps(answer)[:options.width]}\n", flush=True)
    print(f"{name}: {len(cases)} cases, {time.monotonic() - start:.0f} s; "
          + ", ".join(f"{k} {v}" for k, v in sorted(counts.items())), flush=True)
    return counts["DIFFERENT"]


def testdata_cases(options):
    """(template, input) of the test data, and (name, template) of all its chat templates."""
    folder = os.path.join(options.testdata, "huggingface__huggingface.js")
    cases, templates = [], []
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path, encoding="utf-8") as f:
            data = json.load(f)
        for name, source in data.get("strings", {}).items():
            cases.append((source, {"variables": {k: v for k, v in data["context"][name].items()
                                                 if k not in ("messages", "tools", "documents")},
                                   **{k: v for k, v in data["context"][name].items() if k in ("messages", "tools", "documents")}}))
        for group in ("default", "custom"):
            for name, case in data.get(group, {}).items():
                templates.append((name, case["chat_template"]))
                cases.append((case["chat_template"], jinja_cases.input_of(case["data"])))
    for path in sorted(glob.glob(os.path.join(options.testdata, "**", "*.jinja"), recursive=True)):
        with open(path, encoding="utf-8") as f:
            templates.append((path, f.read()))
    return cases, templates


def write_golden(path, options):
    """The features, each once, with Python's answers; what may differ is left out."""
    cases = jinja_cases.plain_features()
    rows = []
    for (template, given), answer in zip(cases, run(options.program, cases)):
        want = expected(template, given)
        if not judge(want, answer):
            rows.append([template, want[1] if want[0] == "text" else None])
    with open(path, "w", encoding="utf-8") as f:
        f.write('{"variables": ' + json.dumps(jinja_cases.VALUES) + ',\n"cases": [\n')
        f.write(",\n".join(json.dumps(row) for row in rows) + "\n]}\n")
    print(f"{len(rows)} cases")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "tests", "jinja_parity"))
    parser.add_argument("--testdata", default=os.environ.get("PENSTOCK_TESTDATA", os.path.join(os.path.dirname(ROOT), "shared", "testdata")))
    parser.add_argument("--random", type=int, default=30_000, help="random templates")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=10, help="differences to print of each kind")
    parser.add_argument("--width", type=int, default=600)
    parser.add_argument("--only", default="", help="data, features or random")
    parser.add_argument("--golden", metavar="FILE", help="write the golden file of chat_test instead (tests/golden/jinja.json)")
    options = parser.parse_args()
    os.environ["TZ"] = "UTC"
    time.tzset()
    sys.setrecursionlimit(3000)
    warnings.simplefilter("ignore")
    if options.golden:
        write_golden(options.golden, options)
        return 0
    different = 0
    if options.only in ("", "data"):
        if os.path.isdir(options.testdata):
            cases, templates = testdata_cases(options)
            different += compare("cases of the test data", cases, options)
            different += compare("templates and variants of messages", jinja_cases.variants(templates), options)
            different += compare(f"changed templates, seed {options.seed}", jinja_cases.mutated(templates, options.random // 3, options.seed), options)
        else:
            print(f"NO TEST DATA at {options.testdata}: set PENSTOCK_TESTDATA")
    if options.only in ("", "features"):
        different += compare("features", jinja_cases.features(), options)
    if options.only in ("", "random"):
        different += compare(f"random, seed {options.seed}", jinja_cases.random_cases(options.random, options.seed), options)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
