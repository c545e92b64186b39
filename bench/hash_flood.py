#!/usr/bin/env python3
"""Posts JSON whose keys share a hash, and others of the same sizes, and compares what they cost a server.

    bench/hash_flood.py --program build/penstock [--decoder MODEL] [--base OLDER_PROGRAM] [--only 'chat|batch']

The keys collide where a table hashes texts with libstdc++'s std::hash, a MurmurHash64A with a fixed
seed: every look-up would walk over all of them. Tables that are seeded must not care. A server is
started with a built-in tensor model, with --decoder a model whose chat template is run, and a folder
for batches (chats of a model that is not there are read all the same); each route that takes JSON with keys of a client's choice gets bodies of both kinds in
turns, and the server's processor time is read from /proc/PID/stat.

A line a case says the bytes of a body, the status of the answers, the time of a request with other
keys and the ratio (keys of one hash over others); with --base also that of another program, which
shows whether these keys hurt a table that is not seeded. The exit status is 1 if --program answers
the two differently, or a ratio is over --ratio-max.

Only the standard library.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

MULTIPLIER, SEED, WORD = 0xC6A4A7935BD1E995, 0xC70F6907, (1 << 64) - 1
INVERSE = pow(MULTIPLIER, -1, 1 << 64)
MEMBERS = 4000  # of an object, below the limit of those that have one
TICKS = os.sysconf("SC_CLK_TCK")


def one_hash(count):
    """Texts of 16 ASCII characters for which libstdc++'s std::hash is one number: each step of it can be
    undone, so that a first half that is chosen tells the second."""

    def mix(word):
        return word ^ word >> 47  # its own inverse

    texts, i = [], 0
    while len(texts) < count:
        first = 0x6060606060606060
        for digit in range(8):
            first |= (i >> 4 * digit & 15) << 8 * digit
        i += 1
        state = (SEED ^ 16 * MULTIPLIER & WORD) ^ mix(first * MULTIPLIER & WORD) * MULTIPLIER & WORD
        state = state * MULTIPLIER & WORD
        second = mix((state ^ 12345) * INVERSE & WORD) * INVERSE & WORD
        if second & 0x8080808080808080 == 0:
            texts.append((first.to_bytes(8, "little") + second.to_bytes(8, "little")).decode("ascii"))
    return texts


def other(texts):
    """As many of the same characters, with hashes of their own."""
    return [text[:8] + text[:7:-1] for text in texts]


class Server:
    def __init__(self, program, arguments, folder):
        self.log = folder / "log"
        (folder / "batches").mkdir()
        command = [program, "serve", "--port", str(arguments.port), "--host", "127.0.0.1",
                   "--model", "numbers=builtin:identity", "--batch-folder", str(folder / "batches")]
        if arguments.decoder:
            command += ["--model", f"chat={arguments.decoder}", "--preload", "--keep-alive=-1"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self.port = self.wait_ready()
        self.client = None

    def wait_ready(self):
        for _ in range(1200):
            time.sleep(0.05)
            found = re.search(r"ready on http://127\.0\.0\.1:(\d+)", self.log.read_text(errors="replace"))
            if found:
                return int(found[1])
            if self.process.poll() is not None:
                break
        self.process.kill()
        sys.exit("hash_flood.py: the server did not start:\n" + self.log.read_text(errors="replace")[-2000:])

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def cpu(self):
        """Processor seconds so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def ask(self, method, path, body=b"", kind="application/json"):
        for attempt in range(2):
            try:
                self.client = self.client or http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
                self.client.request(method, path, body, {"Content-Type": kind})
                answer = self.client.getresponse()
                return answer.status, answer.read()
            except OSError:  # the server ended a connection that was idle
                self.client = None
                if attempt:
                    raise


def objects(keys):
    return [dict.fromkeys(keys[at:at + MEMBERS], 0) for at in range(0, len(keys), MEMBERS)]


class Case:
    """What is posted: made of some keys, sent to a server."""

    count_max = 1 << 62  # keys
    times_max = 1024  # a round

    def __init__(self, name, path, make, count_max=None):
        self.name, self.path, self.make = name, path, make
        if count_max:
            self.count_max = count_max

    def body(self, keys):
        return json.dumps(self.make(keys)).encode()

    def send(self, server, body):
        return server.ask("POST", self.path, body)[0]


class BatchCase(Case):
    """A file with these lines, and the batch of it until it has ended."""

    times_max = 16  # a server remembers a thousand batches

    def body(self, keys):
        lines = "".join(json.dumps(line) + "\n" for line in self.make(keys))
        form = ('--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: '
                'form-data; name="file"; filename="in.jsonl"\r\n\r\n' + lines + "\r\n--b--\r\n")
        return form.encode()

    def send(self, server, body):
        status, answer = server.ask("POST", "/v1/files", body, "multipart/form-data; boundary=b")
        if status != 200:
            return status
        file = json.loads(answer)["id"]
        status, answer = server.ask("POST", "/v1/batches", json.dumps(
            {"input_file_id": file, "endpoint": self.path, "completion_window": "24h"}).encode())
        while status == 200 and json.loads(answer)["status"] not in ("failed", "completed"):
            time.sleep(0.01)
            status, answer = server.ask("GET", "/v1/batches/" + json.loads(answer)["id"])
        server.ask("DELETE", "/v1/files/" + file)
        return status if status != 200 else json.loads(answer)["status"]


def user(**more):
    return {"role": "user", "content": "a", **more}


def chat(more):
    return {"model": "none", "messages": [user()], **more}


def call(arguments):
    return {"role": "assistant", "content": "", "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps(arguments)}}]}


def tool(parameters):
    return {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": parameters}}}


def line(custom_id, url, body):
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def tensor(name, **more):
    return {"name": name, "shape": [1], "datatype": "INT32", "data": [0], **more}


COMPLETIONS = "/v1/chat/completions"
INFER = "/v2/models/numbers/infer"
CASES = [
    Case("chat: fields of messages", COMPLETIONS, lambda keys: {
        "model": "none", "messages": [user(**some) for some in objects(keys)]}),
    Case("chat: chat_template_kwargs", COMPLETIONS, lambda keys: chat({
        "chat_template_kwargs": {f"v{i}": some for i, some in enumerate(objects(keys))}})),
    Case("chat: names of chat_template_kwargs", COMPLETIONS, lambda keys: chat({
        "chat_template_kwargs": objects(keys)[0]}), MEMBERS),
    Case("chat: parameters of tools", COMPLETIONS, lambda keys: chat({
        "tools": [tool(some) for some in objects(keys)]})),
    Case("chat: arguments of calls", COMPLETIONS, lambda keys: {
        "model": "none", "messages": [user(), *(call(some) for some in objects(keys))]}),
    Case("chat: logit_bias", COMPLETIONS, lambda keys: chat({"logit_bias": dict.fromkeys(keys, 0)})),
    Case("apply-template: fields of messages", "/apply-template", lambda keys: {
        "model": "chat", "messages": [user(**some) for some in objects(keys)]}),
    Case("apply-template: chat_template_kwargs", "/apply-template", lambda keys: {
        "model": "chat", "messages": [user()],
        "chat_template_kwargs": {f"v{i}": some for i, some in enumerate(objects(keys))}}),
    Case("Ollama: fields of messages", "/api/chat", lambda keys: {
        "model": "none", "stream": False, "messages": [user(**some) for some in objects(keys)]}),
    Case("Ollama: options", "/api/generate", lambda keys: {
        "model": "none", "prompt": "a", "stream": False, "options": dict.fromkeys(keys, 0)}),
    Case("Cohere: fields of messages", "/v2/chat", lambda keys: {
        "model": "none", "messages": [user(**some) for some in objects(keys)]}),
    Case("generate: parameters", "/generate", lambda keys: {
        "model": "none", "inputs": "a", "parameters": dict.fromkeys(keys, 0)}),
    Case("embeddings: fields", "/v1/embeddings", lambda keys: {
        "model": "none", "input": "a", **dict.fromkeys(keys, 0)}),
    Case("infer: names of inputs", INFER, lambda keys: {"inputs": [tensor(key) for key in keys]}, 1024),
    Case("infer: names of outputs", INFER, lambda keys: {
        "inputs": [tensor("INPUT0")], "outputs": [{"name": key} for key in keys]}, 1024),
    Case("infer: parameters", INFER, lambda keys: {
        "inputs": [tensor("INPUT0")], "parameters": dict.fromkeys(keys, 0)}, 250),
    Case("infer: parameters of inputs", INFER, lambda keys: {
        "inputs": [tensor("INPUT0", parameters=dict.fromkeys(keys, 0))]}, 250),
    Case("infer: more parameters than are taken", INFER, lambda keys: {
        "inputs": [tensor("INPUT0")], "parameters": dict.fromkeys(keys, 0)}),
    Case("batches: metadata", "/v1/batches", lambda keys: {
        "input_file_id": "none", "endpoint": "/v1/embeddings", "metadata": dict.fromkeys(keys, "")}),
    # The last line is refused, so that none is run.
    BatchCase("batches: custom_ids", "/v1/embeddings", lambda keys: [
        *(line(key, "/v1/embeddings", {}) for key in keys), line("a", "/", {})]),
    BatchCase("batches: fields of lines", "/v1/embeddings", lambda keys: [
        *({**line(str(i), "/v1/embeddings", {}), **some} for i, some in enumerate(objects(keys))), line("a", "/", {})]),
    BatchCase("batches: fields of messages", COMPLETIONS, lambda keys: [
        line(str(i), COMPLETIONS, {"model": "none", "messages": [user(**some)]}) for i, some in enumerate(objects(keys))]),
]


def spend(server, case, body, times, most_s):
    """Processor seconds of a request, and the statuses. Ends early where it takes more than most_s."""
    begin, statuses, sent = server.cpu(), set(), 0
    while sent < times and server.cpu() - begin <= most_s:
        statuses.add(case.send(server, body))
        sent += 1
    return (server.cpu() - begin) / sent, statuses


def ratio_of(server, case, keys, arguments):
    """Keys of one hash over others; also the seconds of the others, the statuses of both and the bytes."""
    bodies = [case.body(other(keys)), case.body(keys)]
    case.send(server, bodies[0])  # what is made once
    times = 1
    while times < case.times_max:  # so many that ticks of 10 ms do not matter
        seconds, _ = spend(server, case, bodies[0], times, 1e9)
        if seconds * times >= arguments.seconds:
            break
        times *= 2
    least, statuses = [1e9, 1e9], [set(), set()]
    for _ in range(arguments.rounds):
        for which, body in enumerate(bodies):
            seconds, seen = spend(server, case, body, times, 20 * max(least[0] * times, arguments.seconds))
            least[which] = min(least[which], seconds)
            statuses[which] |= seen
    return least[1] / max(least[0], 1e-9), least[0], statuses, len(bodies[0])


def run(program, cases, keys, arguments):
    """The results of each case, and `base` again."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(program, arguments, pathlib.Path(folder))
        try:
            for case in cases:
                # As many keys as fill the body, which has some bytes beside them.
                each = len(case.body(keys[:200])) // 200
                count = min(arguments.kib * 1024 // max(each, 1), len(keys), case.count_max)
                yield case, ratio_of(server, case, keys[:count], arguments)
        finally:
            server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="build/penstock")
    parser.add_argument("--base", help="another program, whose ratios are printed beside")
    parser.add_argument("--decoder", help="a model that generates text, whose chat template is run")
    parser.add_argument("--kib", type=int, default=240, help="of a body; up to 256 an io thread parses it")
    parser.add_argument("--only", default="", help="regular expression: cases by name")
    parser.add_argument("--rounds", type=int, default=3, help="of each kind, in turns; the least counts")
    parser.add_argument("--seconds", type=float, default=0.3, help="of the processor, each round at least")
    parser.add_argument("--ratio-max", type=float, default=1.5)
    parser.add_argument("--port", type=int, default=0, help="of the server; 0: any")
    arguments = parser.parse_args()
    cases = [case for case in CASES if re.search(arguments.only, case.name, re.IGNORECASE)]
    if not cases:
        sys.exit("hash_flood.py: --only matches none")
    keys = one_hash(arguments.kib * 1024 // 24)
    base = {}
    if arguments.base:
        base = {case.name: result[0] for case, result in run(arguments.base, cases, keys, arguments)}
    missed = 0
    for case, (ratio, seconds, statuses, size) in run(arguments.program, cases, keys, arguments):
        shown = "/".join(sorted({str(status) for status in statuses[0] | statuses[1]}))
        text = f"{case.name:42} {size / 1024:5.0f} KiB  {shown:9} {1000 * seconds:8.2f} ms  ratio {ratio:6.2f}"
        if arguments.base:
            text += f"  base {base[case.name]:7.2f}"
        if ratio > arguments.ratio_max or statuses[0] != statuses[1]:
            missed += 1
            text += "  MISSED"
        print(text, flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
