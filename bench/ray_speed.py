#!/usr/bin/env python3
"""penstock.ray beside two plain processes: the same file in the same shards, on two processors of one machine.

    build/ray-venv/bin/python bench/ray_speed.py --model FOLDER [--rows 40000] [--shards 20] [--rounds 3]

Needs ray (tests/e2e/requirements-ray.txt; `make check-ray` makes build/ray-venv). Plain: two processes of
`penstock embed --take --threads 1` share the shards. Ray: penstock.ray.embed_files on a cluster of two processors that
runs already. Both are timed in turn, and the parts compared byte by byte.

    plain_s, ray_s     medians of the rounds
    ms_a_row           plain: processor time of a row
    ray_over_plain     speed of Ray's path over that of the plain processes
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from shards import write_corpus

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROCESSES = 2


def plain(program, model, corpus, out, shards):
    words = [program, "embed", "--model", model, corpus, "--take", "--shards", shards, "-o", out, "-q", "--threads", 1]
    begin = time.monotonic()
    running = [subprocess.Popen([str(word) for word in words]) for _ in range(PROCESSES)]
    if any(process.wait() for process in running):
        sys.exit("penstock embed failed")
    return time.monotonic() - begin


def by_ray(embed_files, model, corpus, out, shards):
    begin = time.monotonic()
    embed_files(str(corpus), str(out), model=model, shards=shards, num_cpus=1)
    return time.monotonic() - begin


def parts(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*.npy"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rows", type=int, default=40000)
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="file for the figures")
    options = parser.parse_args()
    program = os.environ.get("PENSTOCK_BIN", str(ROOT / "build" / "penstock"))
    os.environ.update({"PENSTOCK_PROGRAM": program, "PYTHONPATH": str(ROOT / "python"), "RAY_AUTH_MODE": "disabled"})
    sys.path.insert(0, str(ROOT / "python"))
    import penstock.ray
    import ray

    ray.init(num_cpus=PROCESSES, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    found = {"plain": [], "ray": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        corpus = folder / "corpus.txt"
        write_corpus(corpus, options.rows, 30, 90)
        for round_number in range(options.rounds):
            outs = {kind: folder / f"{kind}-{round_number}" for kind in found}
            found["plain"].append(plain(program, options.model, corpus, outs["plain"], options.shards))
            found["ray"].append(by_ray(penstock.ray.embed_files, options.model, corpus, outs["ray"], options.shards))
            print(f"plain {found['plain'][-1]:.2f} s, ray {found['ray'][-1]:.2f} s", file=sys.stderr, flush=True)
            if parts(outs["plain"]) != parts(outs["ray"]) or not parts(outs["ray"]):
                sys.exit("the parts are not the same")
    figures = {f"{kind}_s": round(statistics.median(times), 3) for kind, times in found.items()}
    figures["ms_a_row"] = round(1000 * PROCESSES * figures["plain_s"] / options.rows, 3)
    ratios = [one / other for one, other in zip(found["plain"], found["ray"], strict=True)]
    figures["ray_over_plain"] = round(statistics.median(ratios), 3)
    print(json.dumps(figures, indent=1))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
