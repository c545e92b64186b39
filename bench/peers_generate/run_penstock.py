"""penstock generate, a process for each repetition. PENSTOCK_PROGRAM: which."""
import json
import os
import subprocess


def variants():
    return ["auto"]


def measure(file, text, ids, tokens, threads, variant, repeats):
    out = {"prefill": [], "decode": []}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    for _ in range(repeats):
        done = subprocess.run([os.environ["PENSTOCK_PROGRAM"], "generate", "-m", file, "-p", text, "-n", str(tokens),
                               "--temperature", "0", "--ignore-eos", "--json", "-t", str(threads), "--dtype", variant],
                              capture_output=True, text=True, env=environment)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["penstock generate failed"])[-1])
        answer = json.loads(done.stdout)
        if answer["usage"]["completion_tokens"] != tokens:
            raise RuntimeError(f"{answer['usage']['completion_tokens']} tokens instead of {tokens}")
        out["prompt_tokens"] = answer["usage"]["prompt_tokens"]
        out["prefill"].append(answer["timings"]["prompt_per_second"])
        if tokens > 1:
            out["decode"].append(answer["timings"]["predicted_per_second"])
    return out
