#!/usr/bin/env python3
"""One task with one peer, in a process of its own, so that peers share neither threads nor memory.

  worker.py PEER < TASK

TASK and the answer are JSON objects of one line. {"do": NAME, ...} calls the function NAME of
run_PEER.py with the rest; a failure is answered {"error": reason}. A peer has
  variants()                                     the ways in which it can be run
  measure(file, text, ids, tokens, threads, variant, repeats)
      -> {"prefill": [tokens a second], "decode": [tokens a second], "prompt_tokens": n}
"""
import importlib
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def main():
    # The answer goes where stdout was; what a runtime prints goes to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    task = json.load(sys.stdin)
    try:
        peer = importlib.import_module(f"run_{sys.argv[1]}")
        answer = getattr(peer, task.pop("do"))(**task)
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
    os._exit(0)  # some runtimes wait for their threads


if __name__ == "__main__":
    main()
