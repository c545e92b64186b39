#!/usr/bin/env python3
"""Re-indexing in shards by processes that are killed, and the resumption of a run that is nearly done.

    bench/shards.py --model FOLDER --rows 1000000 --shards 200 --every 15 --json shards.json

Two processes of `penstock embed --take` share a corpus that this script makes; every --every seconds one of them, in turn,
is ended by SIGKILL and begun again. The merged matrix is compared with that of one undisturbed process. Then a
folder of many shards, all but one of which are done, is gone on with.

    kills                       how often a process was killed
    rows_missing, rows_double   of the merged matrix
    same_sha256                 whether it is the undisturbed run's, byte by byte
    lost_s                      work that a kill undid, in seconds: the median and the most; what the killed process had
                                done by the clock since the last checkpoint of its shard
    overhead                    time of the two processes over that of undisturbed two
    resume_s, resume_mb         wall time and peak memory of `--take` over --resume-shards shards, one of them to do
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def write_corpus(path, rows, least=3, most=12):
    """Lines of `least` to `most` words, each with a number of its own."""
    words = "penstock turbine water pressure gate valve river reservoir energy grid flow head loss pipe steel".split()
    rng = random.Random(11)
    with open(path, "w") as file:
        for row in range(rows):
            file.write(" ".join(rng.choices(words, k=rng.randrange(least, most + 1))) + f" {row}\n")


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Worker:
    """One process of --take, begun again after each kill."""

    def __init__(self, command, folder):
        self.command, self.folder = command, folder
        self.begin()

    def begin(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL)

    def kill(self):
        """Seconds since this process last put something down that stays: a part or a checkpoint."""
        claims = [path for path in self.folder.glob("claim-*") if f"\n{self.process.pid}\n" in path.read_text()]
        now = time.time()
        lost = 0.0
        if claims:
            shard = int(claims[0].name.split("-")[1].split(".")[0])
            kept = [claims[0].stat().st_ctime - 5]  # touched every 5 s; the claim is older than it looks
            begun = [path.stat().st_mtime for path in self.folder.glob(f"part-{shard:05}-of-*.checkpoint")]
            lost = now - max(begun or [max(min(now, kept[0]), now - 5)])
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.begin()
        return lost


def take(command, folder, every):
    """Two workers until all is done: seconds, kills, seconds of work that each lost."""
    begin = time.monotonic()
    workers = [Worker(command, folder) for _ in range(2)]
    lost, turn, next_kill = [], 0, begin + every
    while any(worker.process.poll() is None for worker in workers):
        time.sleep(0.05)
        if every and time.monotonic() >= next_kill and workers[turn % 2].process.poll() is None:
            lost.append(workers[turn % 2].kill())
            turn, next_kill = turn + 1, time.monotonic() + every
    codes = [worker.process.returncode for worker in workers]
    if codes != [0, 0]:
        sys.exit(f"the processes ended with {codes}")
    return time.monotonic() - begin, lost


def resume(program, model, folder, count):
    """Time and memory of a run over many shards, the last of which is not done."""
    corpus, out = folder / "small.txt", folder / "small"
    write_corpus(corpus, 2 * count)
    command = [program, "embed", "--model", model, corpus, "-o", out, "--shards", str(count), "--take", "-q"]
    subprocess.run(command, check=True)
    for path in out.glob(f"part-{count - 1:05}-of-*"):
        path.unlink()
    begin = time.monotonic()
    process = subprocess.Popen(command)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"resuming ended with {status}")
    return {"resume_s": round(time.monotonic() - begin, 2), "resume_mb": round(used.ru_maxrss / 1024, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", default=ROOT / "build/penstock", type=pathlib.Path)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--rows", default=1_000_000, type=int)
    parser.add_argument("--shards", default=200, type=int)
    parser.add_argument("--every", default=15.0, type=float, help="seconds between two kills")
    parser.add_argument("--resume-shards", default=10_000, type=int)
    parser.add_argument("--json", type=pathlib.Path)
    flags = parser.parse_args()
    program, model = flags.program.resolve(), flags.model.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        corpus = folder / "corpus.txt"
        write_corpus(corpus, flags.rows)
        one = ["--threads", "1", "-q"]
        once = folder / "once.npy"
        subprocess.run([program, "embed", "--model", model, corpus, "-o", once, "-q"], check=True)
        plain = [
            program,
            "embed",
            "--model",
            model,
            corpus,
            "-o",
            folder / "plain",
            "--shards",
            str(flags.shards),
            "--take",
            *one,
        ]
        undisturbed, _ = take(plain, folder / "plain", 0)
        command = [folder / "parts" if word == folder / "plain" else word for word in plain]
        disturbed, lost = take(command, folder / "parts", flags.every)
        merged = folder / "merged.npy"
        subprocess.run([program, "merge", folder / "parts", "-o", merged, "-q"], check=True)
        rows = (merged.stat().st_size - 256) // ((once.stat().st_size - 256) // flags.rows)
        figures = {
            "rows": flags.rows,
            "kills": len(lost),
            "rows_missing": max(flags.rows - rows, 0),
            "rows_double": max(rows - flags.rows, 0),
            "same_sha256": sha256(merged) == sha256(once),
            "lost_s": {"median": round(statistics.median(lost or [0]), 2), "most": round(max(lost, default=0), 2)},
            "seconds": round(disturbed, 1),
            "overhead": round(disturbed / undisturbed, 3),
            **resume(program, model, folder, flags.resume_shards),
        }
    print(json.dumps(figures, indent=2))
    if flags.json:
        flags.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if figures["same_sha256"] else 1


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
