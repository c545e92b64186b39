#!/usr/bin/env python3
"""Penstock beside other runtimes that generate text: same files, same prompts, same threads, in one run.

Peers take turns (A B C, then C B A, ...); each measurement is a process of its own that loads the
file, warms up and measures. If a peer has several ways (attention, layout), the fastest on a trial is taken,
for each case by itself; its figure is its best measurement. Text is chosen greedily.

PENSTOCK_IK=FOLDER adds ik_llama.cpp from its build folder. A peer that is not there or cannot run a
model stands in the table with the reason; one that was compiled without the processor's int8 dot
products ends the run, since a comparison with it would be unfair.

Writes DOCS/peers-generate.md and DOCS/images/peers-generate.svg, and one JSON object a line to
--json FILE.
"""
import argparse
import json
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "peers")]
import cases
import generate_report
import install
import kl
import peers
from peers import Failed


class CaseRun:
    """One case: its prompt, and what each peer gave."""

    def __init__(self, case, args, file, absent):
        self.case, self.args, self.file = case, args, file
        self.log = args.cache / "log"
        self.prompt = cases.prompt(case, file, self.log)
        self.ways, self.rates, self.reasons = {}, {}, dict(absent)
        self.failed = {}  # {peer: {way: reason}}

    def measure(self, peer, way, tokens, repeats):
        answer = peers.ask(peer, self.log, do="measure", file=str(self.file),
                           text=self.prompt["text"], ids=self.prompt["ids"], tokens=tokens,
                           threads=self.args.threads, variant=way, repeats=repeats)
        if answer["prompt_tokens"] != len(self.prompt["ids"]):
            raise Failed(f"the prompt has {answer['prompt_tokens']} tokens, not {len(self.prompt['ids'])}")
        return answer[self.case.kind]

    def choose(self, peer):
        """The way that is fastest on a trial."""
        ways = peers.ask(peer, self.log, do="variants")
        if len(ways) == 1:
            self.ways[peer] = ways[0]
            return
        found, reason = [], None
        for way in ways:
            try:
                found.append((max(self.measure(peer, way, min(self.case.tokens, 33), 1)), way))
            except Failed as failed:
                reason = failed
                self.failed.setdefault(peer, {})[way] = str(failed)
                print(f"  {peer}, {way}: {failed}", flush=True)
        if not found:
            raise reason
        self.ways[peer] = max(found)[1]

    def attempt(self, peer, call, *arguments):
        try:
            return call(*arguments)
        except Failed as failed:
            self.reasons[peer] = str(failed)
            print(f"  {peer}: {failed}", flush=True)

    def run(self):
        case = self.case
        print(f" {cases.ABOUT[case.model]}: {case.label}", flush=True)
        live = [peer for peer in self.args.peers if peer not in self.reasons]
        for peer in live:
            self.attempt(peer, self.choose, peer)
        for turn in range(self.args.rounds):
            for peer in live if turn % 2 == 0 else live[::-1]:
                if peer in self.reasons:
                    continue
                rates = self.attempt(peer, self.measure, peer, self.ways[peer], case.tokens,
                                     1 if self.args.quick else case.repeats)
                if rates:
                    self.rates.setdefault(peer, []).extend(rates)
                    print(f"  {peer} ({self.ways[peer]}): {max(rates):.1f} tokens/s", flush=True)

    def figure(self, peer):
        """Tokens a second, or None."""
        return max(self.rates[peer]) if peer in self.rates else None


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", type=pathlib.Path, default=pathlib.Path("build/penstock"))
    parser.add_argument("--model", type=pathlib.Path, required=True, help="the demonstration model's file")
    parser.add_argument("--cache", type=pathlib.Path, default=install.default_cache() / "generate-peers")
    parser.add_argument("--docs", type=pathlib.Path, default=pathlib.Path("docs"))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, help="turns of every peer [2]")
    parser.add_argument("--models", nargs="+", choices=cases.ABOUT, default=list(cases.ABOUT))
    parser.add_argument("--peers", nargs="+", choices=peers.PEERS, default=peers.PEERS)
    parser.add_argument("--no-kl", action="store_true", help="only speed")
    parser.add_argument("--quick", action="store_true", help="tiny shapes, one turn: does every peer run?")
    kl.add_flag(parser)
    args = parser.parse_args()
    args.rounds = args.rounds or (1 if args.quick else 2)
    args.model = args.model.resolve()
    args.cache.mkdir(parents=True, exist_ok=True)
    os.environ["PENSTOCK_PROGRAM"] = str(args.program.resolve())
    return args


def absent(args):
    """{peer: reason} of those that are not there."""
    file = pathlib.Path(sys.prefix) / "missing.json"
    reasons = json.loads(file.read_text()) if file.exists() else {}
    out = {}
    for peer in args.peers:
        reason = peers.missing(peer, reasons)
        if reason:
            out[peer] = reason
            print(f"{peer}: {reason}", flush=True)
        elif peer in ("llama_cpp", "ik"):
            peers.check_native(peer)
    return out


def main():
    args = parse()
    start = time.time()
    away = absent(args)
    if "llama_cpp" in away or "llama_cpp" not in args.peers:
        sys.exit("llama-cpp-python is needed: it also cuts the prompts")
    runs = []
    for case in cases.CASES:
        if case.model in args.models:
            file = cases.model_file(case.model, args.model, args.cache, args.quick)
            runs.append(CaseRun(case, args, file, away))
            runs[-1].run()
    distances = {} if args.no_kl else kl.measure(args.model, args.cache, args.threads, args.logits)
    generate_report.write(runs, distances, args)
    print(f"took {(time.time() - start) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
