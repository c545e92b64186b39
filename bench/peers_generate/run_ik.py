"""ik_llama.cpp: the llama-bench of the build folder PENSTOCK_IK. Its prompts are random tokens."""
import json
import os
import pathlib
import subprocess

DEPTH = 512  # a longer prompt than this is run before tokens are timed


def program():
    return pathlib.Path(os.environ["PENSTOCK_IK"]) / "bin/llama-bench"


def variants():
    return ["repacked", "as stored"]


def measure(file, text, ids, tokens, threads, variant, repeats):
    count = len(ids)
    if tokens == 1:
        test = ["-p", count, "-n", 0]
    elif count > DEPTH:
        test = ["-p", 0, "-n", 0, "-gp", f"{count},{tokens}"]
    else:
        test = ["-p", 0, "-n", tokens]
    command = [program(), "-m", file, "-t", threads, *test, "-r", repeats, "-o", "json", "-fa", 1,
               "-rtr", int(variant == "repacked")]
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["llama-bench failed"])[-1])
    rates = json.loads(done.stdout)[0]["samples_ts"]
    return {"prefill": rates if tokens == 1 else [], "decode": rates if tokens > 1 else [], "prompt_tokens": count}
