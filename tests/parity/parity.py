#!/usr/bin/env python3
"""Compares Penstock's tokenizers with Hugging Face `tokenizers` on real tokenizer files.

Finds every tokenizer under the test data (PENSTOCK_TESTDATA, by default ../shared/testdata beside
the repository) and whatever --extra names, runs millions of tokens of adversarial text through both
and compares ids, type ids, special mask, sequence ids, offsets, truncation, decoded and streamed
text, and the vocabulary. Exit status: 0 no difference, 1 differences or a refusal, 2 cannot run.

  parity.py --program build/tests/tokenizer_parity
  parity.py --vectors      also the expected ids that come with the test data (see vectors.py)
"""

import argparse
import fnmatch
import gzip
import itertools
import json
import os
import random
import re
import resource
import sys
import tempfile
import time
import zipfile
from collections import Counter

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

import corpus
import program as prog

# Components that Penstock says it does not support: a refusal that names one is not a failure.
NOT_SUPPORTED = ()
REPLACEMENT = "\ufffd".encode()
BYTE_TOKEN = re.compile(r"<0x(\+|[0-9A-Fa-f])[0-9A-Fa-f]>")


def find_tokenizers(testdata, extra):
    """Yields (name, bytes) for every tokenizer file."""
    for root in [testdata, *extra]:
        if os.path.isfile(root):
            with open(root, "rb") as f:
                yield os.path.basename(root), f.read()
            continue
        for folder, dirs, names in os.walk(root):
            dirs.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                label = os.path.relpath(path, root)
                if name.endswith(".zip"):
                    with zipfile.ZipFile(path) as archive:
                        for member in archive.namelist():
                            if member.endswith("tokenizer.json"):
                                yield f"{label}!{member}", archive.read(member)
                elif name.endswith("tokenizer.json.gz"):
                    with gzip.open(path) as f:
                        yield label, f.read()
                elif name.endswith("tokenizer.json"):
                    with open(path, "rb") as f:
                        yield label, f.read()


class Differences:
    """Counts by kind, and the first few of each kind, made small."""

    def __init__(self, name, checker, show):
        self.name, self.checker, self.show = name, checker, show
        self.counts, self.shown = Counter(), []

    def add(self, kind, case, expected, got):
        self.counts[kind] += 1
        if self.counts[kind] > self.show:
            return
        if self.checker is not None and case is not None:
            case = shrink(self.checker, kind, case)
            found = self.checker.compare_one(case)
            expected, got = found.get(kind, (expected, got))
        self.shown.append((kind, case, expected, got))


def describe(case):
    if case is None:
        return ""
    flags, max_tokens, first, second = case
    if flags & prog.IDS_ONLY:
        return "ids " + str(np.frombuffer(first, "<i4").tolist())
    text = corpus.escape(first)
    if second is not None:
        text += " + " + corpus.escape(second)
    if not flags & prog.ADD_SPECIAL:
        text += " no-specials"
    if max_tokens:
        strategy = next(k for k, v in prog.STRATEGY.items() if v == flags & 12)
        text += f" max={max_tokens} {strategy} {'left' if flags & prog.LEFT else 'right'}"
    return text if len(text) < 700 else text[:700] + f"... ({len(text)})"


def brief(value):
    text = value if isinstance(value, str) else repr(value.tolist() if isinstance(value, np.ndarray) else value)
    text = ascii(text)[1:-1] if not text.isascii() else text
    return text if len(text) < 300 else text[:300] + "..."


def shrink(checker, kind, case, seconds=4.0):
    """Removes parts of the text(s) while the difference of this kind stays."""
    flags, max_tokens, first, second = case
    end = time.monotonic() + seconds

    def still(a, b):
        return kind in checker.compare_one((flags, max_tokens, a, b))

    def reduce(text, rest_of):
        unit = 4 if flags & prog.IDS_ONLY else 1
        try:
            items = [text[i:i + 4] for i in range(0, len(text), 4)] if unit == 4 else [c.encode() for c in text.decode()]
        except UnicodeDecodeError:
            items = [text[i:i + 1] for i in range(len(text))]
        size = len(items) // 2
        while size >= 1 and time.monotonic() < end:
            at, removed = 0, False
            while at < len(items) and time.monotonic() < end:
                trial = items[:at] + items[at + size:]
                if still(*rest_of(b"".join(trial))):
                    items, removed = trial, True
                else:
                    at += size
            size = size if removed and size == 1 and len(items) < 200 else size // 2
        return b"".join(items)

    try:
        if not still(first, second):
            return case
        first = reduce(first, lambda t: (t, second))
        if second is not None:
            second = reduce(second, lambda t: (first, t))
    except (OSError, RuntimeError, prog.struct.error):
        checker.program.close()  # it crashed on a trial; what we have is good enough
    return flags, max_tokens, first, second


class Checker:
    """One tokenizer: the reference beside the program."""

    def __init__(self, reference, program, spec, jobs):
        self.reference, self.program, self.jobs = reference, program, jobs
        text = json.dumps(spec.get("decoder") or {})
        self.byte_fallback = "ByteFallback" in text
        # What the last token becomes depends on its being the last: a stream must wait for the next.
        strips_end = re.search(r'"stop": [1-9]', text) is not None
        self.lags = "BPEDecoder" in text or "CTC" in text or strips_end
        self.configured = (0, 0)
        self.panics = 0  # of the reference; those cases are left out

    def configure(self, flags, max_tokens):
        """Sets the reference's truncation; changing it is cheap but not free."""
        want = (flags & (12 | prog.LEFT), max_tokens)
        if not max_tokens:
            want = (0, 0)
        if want == self.configured:
            return
        self.configured = want
        if not max_tokens:
            self.reference.no_truncation()
        else:
            strategy = next(k for k, v in prog.STRATEGY.items() if v == flags & 12)
            self.reference.enable_truncation(max_tokens, strategy=strategy, direction="left" if flags & prog.LEFT else "right")

    def expect(self, cases):
        """The reference's encodings; cases share flags and max_tokens. An exception stands for itself."""
        flags, max_tokens = cases[0][0], cases[0][1]
        texts = [c[2].decode("utf-8", "replace") if c[3] is None else
                 (c[2].decode("utf-8", "replace"), c[3].decode("utf-8", "replace")) for c in cases]
        special = bool(flags & prog.ADD_SPECIAL)
        self.configure(flags, max_tokens)
        try:
            return self.reference.encode_batch(texts, add_special_tokens=special)
        except BaseException:  # a panic of the reference is not an Exception
            out = []
            for text in texts:
                try:
                    out.append(self.reference.encode_batch([text], add_special_tokens=special)[0])
                except BaseException as e:
                    self.panics += not isinstance(e, Exception)
                    out.append(e)
            return out

    def compare(self, case, got, expected, full_length, decoded):
        """{kind: (expected, got)} for one case. decoded: what the reference's ids decode to."""
        flags = case[0]
        if flags & prog.IDS_ONLY:
            return self.compare_decoded(got, decoded, np.frombuffer(case[2], "<i4"))
        if isinstance(expected, BaseException):
            if not isinstance(expected, Exception):
                return {}
            return {} if got.code else {"status": (f"error: {expected}", f"{len(got.ids)} ids")}
        if got.code:
            return {"status": (f"{len(expected.ids)} ids", f"error: {got.message}")}
        found = {}
        ids = np.array(expected.ids, dtype=np.int32)
        if not got.same:
            found["without_offsets"] = ("the same without offsets", "another answer")
        if not np.array_equal(ids, got.ids):
            found["ids"] = ([(int(i), self.reference.id_to_token(int(i))) for i in ids[:40]],
                            [(int(i), self.reference.id_to_token(int(i)) if i >= 0 else None) for i in got.ids[:40]])
            return found
        for kind, want, have in (
                ("type_ids", expected.type_ids, got.type_ids),
                ("special_mask", expected.special_tokens_mask, got.special_mask),
                ("sequence_ids", [-1 if s is None else s for s in expected.sequence_ids], got.sequence_ids),
                ("offsets", [x for pair in expected.offsets for x in pair], got.offsets)):
            if not np.array_equal(np.array(want, dtype=np.int64), have):
                found[kind] = (want, have)
        if full_length is not None and got.truncated != full_length - len(ids):
            found["truncated"] = (full_length - len(ids), got.truncated)
        found.update(self.compare_decoded(got, decoded, ids))
        return found

    def compare_decoded(self, got, decoded, ids):
        found = {}
        for i, kind in ((0, "decode"), (1, "decode_skip")):
            if got.decoded is None or decoded is None:
                break
            if got.decoded[i] != decoded[i]:
                found[kind] = (decoded[i], got.decoded[i])
            elif got.streams is not None and got.streams[i][1] != decoded[i]:
                expected = self.streamed(ids, i == 1) if self.byte_fallback else decoded[i]
                if got.streams[i][1] != expected:
                    found["stream" if i == 0 else "stream_skip"] = (expected, got.streams[i][1])
        return found

    def streamed(self, ids, skip):
        """What a stream with ByteFallback adds up to. The reference makes each byte of a run of byte
        tokens U+FFFD if the run is not UTF-8; a stream has given out the leading whole characters."""
        added = self.reference.get_added_tokens_decoder().values()
        special = {t.content for t in added if t.special} if skip else set()
        tokens = [self.reference.id_to_token(int(i)) for i in ids if i >= 0]
        tokens = [t for t in tokens if t is not None and t not in special]
        out = []
        for is_byte, run in itertools.groupby(tokens, lambda t: BYTE_TOKEN.fullmatch(t) is not None):
            run = list(run)
            if is_byte:
                data = bytes(int(t[3:5], 16) for t in run)
                try:
                    data.decode()
                except UnicodeDecodeError as e:
                    run = run[:e.start] + ["\ufffd"] * (len(run) - e.start)
            out += run
        return self.reference.decoder.decode(out).encode()

    def decode_all(self, cases, ids):
        """[(kept, skipped)] as UTF-8, or None where the case asks for no decoding."""
        wanted = [i for i, c in enumerate(cases) if c[0] & prog.DECODE and ids[i] is not None]
        out = [None] * len(cases)
        try:
            kept = self.reference.decode_batch([ids[i] for i in wanted], skip_special_tokens=False)
            skipped = self.reference.decode_batch([ids[i] for i in wanted], skip_special_tokens=True)
        except BaseException:  # a panic of the reference: find whose, and leave those out
            kept, skipped = ([self.decode_or_none(ids[i], skip) for i in wanted] for skip in (False, True))
        for i, a, b in zip(wanted, kept, skipped):
            if a is not None and b is not None:
                out[i] = (a.encode(), b.encode())
        return out

    def decode_or_none(self, ids, skip):
        try:
            return self.reference.decode_batch([ids], skip_special_tokens=skip)[0]
        except BaseException:
            self.panics += 1
            return None

    def reference_side(self, cases):
        """(expected, length without truncation, decoded) for cases of one configuration."""
        if cases[0][0] & prog.IDS_ONLY:
            ids = [np.frombuffer(c[2], "<u4").tolist() for c in cases]
            return [None] * len(cases), [None] * len(cases), self.decode_all(cases, ids)
        expected = self.expect(cases)
        if cases[0][1]:
            full = self.expect([(c[0], 0, c[2], c[3]) for c in cases])
            full = [None if isinstance(e, BaseException) else len(e.ids) for e in full]
        else:
            full = [None if isinstance(e, BaseException) else len(e.ids) for e in expected]
        ids = [None if isinstance(e, BaseException) else e.ids for e in expected]
        return expected, full, self.decode_all(cases, ids)

    def compare_one(self, case):
        expected, full, decoded = self.reference_side([case])
        return self.compare(case, self.program.one(case), expected[0], full[0], decoded[0])

    def run(self, cases, differences, batch=400):
        """Compares all cases; returns the number of tokens."""
        results = self.program.run(cases)
        tokens, at = 0, 0
        while at < len(cases):
            end = at + 1
            while end < len(cases) and end - at < batch and cases[end][:2] == cases[at][:2]:
                end += 1
            part = cases[at:end]
            expected, full, decoded = self.reference_side(part)
            for case, got, want, length, text in zip(part, results[at:end], expected, full, decoded):
                tokens += len(got.ids) if not got.code else 0
                for kind, (e, g) in self.compare(case, got, want, length, text).items():
                    differences.add(kind, case, e, g)
            at = end
        return tokens

    def check_stream_pace(self, texts, differences):
        """A stream may neither fall behind what the reference could already show, nor run ahead."""
        flags = prog.DECODE | prog.STREAM
        for text in texts if not self.lags else []:
            case = (flags, 0, text, None)
            got = self.program.one(case)
            expected = self.expect([case])[0]
            if got.code or isinstance(expected, BaseException) or expected.ids != got.ids.tolist():
                continue
            ids, (sizes, data) = expected.ids, got.streams[0]
            full = self.decode_or_none(ids, False)
            if full is None:
                continue
            full = full.encode()
            for k in range(1, len(ids) + 1):
                shown = data[:int(sizes[:k].sum())]
                ready = (self.decode_or_none(ids[:k], False) or "").rstrip("\ufffd").encode()
                if REPLACEMENT in full:
                    break
                if not full.startswith(shown) or (len(shown) < len(ready) and full.startswith(ready)):
                    differences.add("stream_pace", None, f"{corpus.escape(text)} after {k} ids: {ready!r}", shown)
                    break

    def check_vocabulary(self, differences, dump):
        _, size, single, pair, kind, entries = dump
        vocab = self.reference.get_vocab(with_added_tokens=True)
        added = self.reference.get_added_tokens_decoder()
        want = {
            "size": 1 + max([*vocab.values(), *added, -1]),
            "specials single": self.reference.num_special_tokens_to_add(False),
            "specials pair": self.reference.num_special_tokens_to_add(True),
            "model": type(self.reference.model).__name__,
        }
        have = {"size": size, "specials single": single, "specials pair": pair, "model": kind}
        for key, value in want.items():
            if value != have[key]:
                differences.add("vocabulary", None, f"{key} {value}", have[key])
        for token, token_id in vocab.items():
            if token_id >= size:
                continue
            text, back, special = entries[token_id]
            reference_text = (self.reference.id_to_token(token_id) or "").encode()
            if text != reference_text:
                differences.add("vocabulary", None, f"token {token_id} {reference_text}", text)
            elif text == token.encode() and back != token_id:
                differences.add("vocabulary", None, f"id of {text} {token_id}", back)
            if special != (token_id in added and added[token_id].special):
                differences.add("vocabulary", None, f"special {token_id} {token_id in added and added[token_id].special}", special)


def make_cases(checker, texts, spec, rng):
    """The cases of one tokenizer: every text, its own special tokens, pairs, truncations, random ids."""
    whole = prog.ADD_SPECIAL | prog.DECODE | prog.STREAM
    reference = checker.reference
    added = [t.get("content", "") for t in spec.get("added_tokens") or []]
    cases = [(whole, 0, t, None) for t in texts]
    own = corpus.special_texts(added, corpus.WORDS, rng, 1500)
    cases += [(whole, 0, t, None) for t in own]
    size = reference.get_vocab_size(with_added_tokens=True)
    if size:
        random_ids = [[rng.randrange(size) for _ in range(rng.randint(1, 60))] for _ in range(1500)]
        cases += [(whole, 0, t.encode(), None) for t in (checker.decode_or_none(ids, False) for ids in random_ids[:750]) if t is not None]
        for ids in random_ids[:300]:
            if rng.random() < 0.2:
                ids[rng.randrange(len(ids))] = size + rng.randrange(1000)
        only = prog.IDS_ONLY | prog.DECODE | prog.STREAM
        cases += [(only, 0, np.array(ids, dtype="<u4").tobytes(), None) for ids in [[]] + random_ids]
    short = [t for t in texts if len(t) < 400] + own[:300]
    plain = prog.DECODE
    cases += [(plain, 0, t, None) for t in rng.sample(short, min(800, len(short)))]
    for flags in (prog.ADD_SPECIAL | prog.DECODE, prog.DECODE):
        cases += [(flags, 0, rng.choice(short), rng.choice(short)) for _ in range(600)]
    for strategy, bits in prog.STRATEGY.items():
        for side in (0, prog.LEFT):
            for special in (0, prog.ADD_SPECIAL):
                for pair in (False, True):
                    needed = reference.num_special_tokens_to_add(pair) if special else 0
                    if not pair and strategy == "only_second":
                        continue
                    for limit in (0, 1, 2, 3, 7, 16, 40, 128, 510):
                        if limit + needed == 0:
                            continue
                        for _ in range(24):
                            first = rng.choice(short if limit < 128 or rng.random() < 0.5 else texts)
                            second = rng.choice(short) if pair else None
                            cases.append((bits | side | special, limit + needed, first, second))
    return cases


def check(name, data, texts, options, rng):
    """Prints what was found; returns the row of the table."""
    import tokenizers
    spec = json.loads(data)
    row = {"name": name, "texts": 0, "bytes": 0, "tokens": 0, "counts": Counter(), "note": ""}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokenizer.json")
        with open(path, "wb") as f:
            f.write(data)
        program = prog.Program(options.program, path)
        reference, refusal = None, None
        try:
            reference = tokenizers.Tokenizer.from_str(data.decode())
        except BaseException as e:
            refusal = e
        try:
            dump = program.dump()
        except prog.Refused as e:
            row["note"] = f"refused: {e}"
            if refusal is not None:
                row["note"] += " (so does the reference)"
            elif not any(part in str(e) for part in NOT_SUPPORTED):
                row["counts"]["refused"] = 1
            return row
        if refusal is not None:
            row["note"] = f"the reference refuses it ({refusal}); loads here"
            return row
        reference.no_padding()
        reference.no_truncation()
        checker = Checker(reference, program, spec, options.jobs)
        differences = Differences(name, checker, options.show)
        checker.check_vocabulary(differences, dump)
        cases = make_cases(checker, texts, spec, rng)
        row["tokens"] = checker.run(cases, differences)
        pace = [c[2] for c in cases if len(c[2]) < 120 and c[0] & prog.STREAM and not c[0] & prog.IDS_ONLY]
        checker.check_stream_pace(rng.sample(pace, min(300, len(pace))), differences)
        program.close()
        row["texts"] = len(cases)
        row["bytes"] = sum(len(c[2]) + len(c[3] or b"") for c in cases)
        row["counts"] = differences.counts
        row["shown"] = differences.shown
        row["note"] = f"loads in {dump[0]:.2f} s"
        if checker.panics:
            row["note"] += f"; the reference panicked {checker.panics} times"
    return row


def report(row, out):
    counts = ", ".join(f"{k} {v}" for k, v in sorted(row["counts"].items())) or "none"
    print(f"{row['name']}: {row['texts']} texts, {row['bytes']} bytes, {row['tokens']} tokens; differences: {counts}; {row['note']}", flush=True)
    for kind, case, expected, got in row.get("shown", []):
        line = f"  {kind}: {describe(case)}\n      expected {brief(expected)}\n      got      {brief(got)}"
        print(line, flush=True)
        if out:
            with open(out, "a", encoding="utf-8") as f:
                f.write(f"- {row['name']} {line.strip()}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "tests", "tokenizer_parity"))
    parser.add_argument("--tokenizer", default="*", metavar="GLOB", help="only tokenizers whose path matches")
    parser.add_argument("--extra", action="append", default=[], metavar="PATH", help="further tokenizer files or folders")
    parser.add_argument("--bytes", type=int, default=5_000_000, help="size of the corpus")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="threads of the reference")
    parser.add_argument("--memory", type=int, default=6, metavar="GIB", help="address space of the reference and of the program")
    parser.add_argument("--show", type=int, default=3, help="differences of each kind to make small and print")
    parser.add_argument("--report", help="append the small differences to this file")
    parser.add_argument("--vectors", action="store_true", help="compare with the expected ids of the test data")
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(options.jobs)
    os.environ["RUST_BACKTRACE"] = "0"
    # A truncated pair makes the reference keep every combination of what overflows, which can take
    # all memory of the machine: better that this process ends.
    resource.setrlimit(resource.RLIMIT_AS, (options.memory << 30, options.memory << 30))
    testdata = os.environ.get("PENSTOCK_TESTDATA", os.path.join(os.path.dirname(ROOT), "shared", "testdata"))
    if not os.access(options.program, os.X_OK):
        print(f"no program at {options.program}; build the target tokenizer_parity", file=sys.stderr)
        return 2
    if options.vectors:
        import vectors
        return vectors.main(testdata, options.program)
    chosen = [(n, d) for n, d in find_tokenizers(testdata, options.extra) if fnmatch.fnmatch(n, f"*{options.tokenizer}*")]
    if not chosen:
        print(f"no tokenizer found under {testdata} that matches {options.tokenizer}", file=sys.stderr)
        return 2
    texts = corpus.build(options.bytes, options.seed, testdata)
    print(f"corpus: {len(texts)} texts, {sum(map(len, texts))} bytes, seed {options.seed}", flush=True)
    rows = []
    for name, data in chosen:
        start = time.monotonic()
        try:
            row = check(name, data, texts, options, random.Random(options.seed))
        except KeyboardInterrupt:
            raise
        except BaseException as e:
            row = {"name": name, "texts": 0, "bytes": 0, "tokens": 0, "counts": Counter(failed=1), "note": f"{type(e).__name__}: {e}"}
        row["note"] += f"; {time.monotonic() - start:.0f} s"
        report(row, options.report)
        rows.append(row)
    print(f"\n{'tokenizer':72} {'tokens':>10} {'differences':>11}")
    for row in rows:
        print(f"{row['name'][-72:]:72} {row['tokens']:>10} {sum(row['counts'].values()):>11}")
    total = sum(sum(row["counts"].values()) for row in rows)
    print(f"{'in all':72} {sum(r['tokens'] for r in rows):>10} {total:>11}")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
