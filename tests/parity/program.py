"""Speaks with tokenizer_parity (its head describes the formats)."""

import os
import struct
import subprocess
import tempfile

import numpy as np

ADD_SPECIAL, LEFT, DECODE, STREAM, IDS_ONLY = 1, 2, 16, 32, 64
STRATEGY = {"longest_first": 0, "only_first": 1 << 2, "only_second": 2 << 2}
NONE = 0xFFFFFFFF


class Refused(Exception):
    """The loader said no; the text is its reason."""


def pack_case(flags, max_tokens, first, second=None):
    parts = [struct.pack("<III", flags, max_tokens, len(first)), first]
    parts += [struct.pack("<I", NONE)] if second is None else [struct.pack("<I", len(second)), second]
    return b"".join(parts)


class Result:
    __slots__ = (
        "code",
        "decoded",
        "ids",
        "message",
        "offsets",
        "same",
        "sequence_ids",
        "special_mask",
        "streams",
        "truncated",
        "type_ids",
    )


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def u32(self):
        value = struct.unpack_from("<I", self.data, self.at)[0]
        self.at += 4
        return value

    def text(self):
        size = self.u32()
        self.at += size
        return self.data[self.at - size:self.at]

    def array(self, dtype, count):
        values = np.frombuffer(self.data, dtype, count, self.at)
        self.at += values.nbytes
        return values

    def result(self, flags):
        r = Result()
        r.code, r.decoded, r.streams = self.u32(), None, None
        if r.code:
            r.message = self.text().decode("utf-8", "replace")
            return r
        n = self.u32()
        r.ids, r.type_ids = self.array("<i4", n), self.array("<i4", n)
        r.special_mask, r.sequence_ids = self.array("u1", n), self.array("i1", n)
        r.offsets = self.array("<u4", 2 * n)
        r.truncated, r.same = self.u32(), self.u32()
        if flags & DECODE:
            r.decoded = (self.text(), self.text())
        if flags & STREAM:
            r.streams = []
            for _ in range(2):
                sizes = self.array("<u4", self.u32())
                size = int(sizes.sum())
                self.at += size
                r.streams.append((sizes, self.data[self.at - size:self.at]))
        return r


class Program:
    """One tokenizer.json in tokenizer_parity."""

    def __init__(self, path, tokenizer, threads=2):
        self.path, self.tokenizer, self.threads, self.live = path, tokenizer, threads, None

    def _run(self, args):
        done = subprocess.run([self.path, *args], capture_output=True, check=False)
        if done.returncode == 3:
            raise Refused(done.stderr.decode("utf-8", "replace").strip())
        if done.returncode:
            raise RuntimeError(f"{args}: exit status {done.returncode}: {done.stderr.decode('utf-8', 'replace')[-500:]}")
        return done.stdout.decode()

    def dump(self):
        """(load seconds, vocab size, specials single, pair, model type, [(token, id of token, special)])"""
        with tempfile.NamedTemporaryFile() as out:
            seconds = float(self._run(["--dump", self.tokenizer, out.name]))
            reader = Reader(out.read())
        size, single, pair, kind = reader.u32(), reader.u32(), reader.u32(), reader.text().decode()
        return seconds, size, single, pair, kind, [(reader.text(), reader.u32(), reader.u32()) for _ in range(size)]

    def run(self, cases):
        """cases: (flags, max_tokens, first, second or None); yields a Result for each."""
        with tempfile.TemporaryDirectory() as folder:
            source, results = os.path.join(folder, "cases"), os.path.join(folder, "results")
            with open(source, "wb") as f:
                for case in cases:
                    f.write(pack_case(*case))
            self._run([self.tokenizer, source, results, str(self.threads)])
            with open(results, "rb") as f:
                reader = Reader(f.read())
        out = [reader.result(case[0]) for case in cases]
        if reader.at != len(reader.data):
            raise RuntimeError("the program wrote more than the cases asked for")
        return out

    def one(self, case):
        """One case through a process that stays; for shrinking."""
        if self.live is None or self.live.poll() is not None:
            self.live = subprocess.Popen([self.path, self.tokenizer, "-", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.live.stdin.write(pack_case(*case))
        self.live.stdin.flush()
        size = struct.unpack("<I", self.live.stdout.read(4))[0]
        return Reader(self.live.stdout.read(size)).result(case[0])

    def close(self):
        if self.live is not None:
            self.live.stdin.close()
            self.live.wait()
            self.live = None
