#!/usr/bin/env python3
"""Runs the fuzz targets of a build and says what each did; fails if any found something.

Usage: tools/run_fuzz.py BUILD [--seconds N] [--seed N] [--only REGEX] [--jobs N]

Each target starts from tests/fuzz/corpus/NAME and from what earlier runs kept in BUILD/corpus/NAME.
What it finds lies in BUILD/crashes, with its log as NAME.log beside it. A target ends at its first
finding.
"""

import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Bytes of an input; where a limit under test is larger, as large as it takes.
LENGTHS = {"http": 4096, "http2": 4096, "http_answer": 2048, "kernels": 256, "redis": 4096, "regex": 65536, "tokenizer": 65536}
LENGTH = 8192
INPUT_SECONDS = 10  # one input's
RSS_MB = 2048
BLOCK_MB = 512  # one allocation's; none of what is fuzzed needs it for such inputs


def command(build, name, seconds, seed):
    crashes, kept, seeds = build / "crashes", build / "corpus" / name, ROOT / "tests/fuzz/corpus" / name
    crashes.mkdir(parents=True, exist_ok=True)
    kept.mkdir(parents=True, exist_ok=True)
    line = [build / "tests/fuzz" / f"{name}_fuzz", f"-max_total_time={seconds}", f"-seed={seed}",
            f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={RSS_MB}", f"-malloc_limit_mb={BLOCK_MB}",
            f"-max_len={LENGTHS.get(name, LENGTH)}",
            "-len_control=20", "-print_final_stats=1", f"-artifact_prefix={crashes}/{name}-"]
    dictionary = ROOT / "tests/fuzz/dict" / f"{name}.dict"
    if dictionary.is_file():
        line.append(f"-dict={dictionary}")
    return line + [kept, seeds]


def finding(log):
    """What ended the run, in a few words."""
    for pattern in (r"^(.*: check failed: .*)$", r"^SUMMARY: (.*)$", r"^==\d+== ?(ERROR: .*)$",
                    r"(runtime error: .*)$"):
        if match := re.search(pattern, log, re.MULTILINE):
            return match.group(1)
    return "it failed; see the log"


def run(build, name, seconds, seed):
    begin = time.monotonic()
    try:
        done = subprocess.run(command(build, name, seconds, seed), capture_output=True, text=True,
                              errors="replace", timeout=seconds + 60 + 3 * INPUT_SECONDS)
        log, failed = done.stderr + done.stdout, done.returncode != 0
    except subprocess.TimeoutExpired as stuck:
        log, failed = (stuck.stderr or b"").decode("utf-8", "replace"), True
        log += "\nSUMMARY: the target did not end in time\n"
    (build / "crashes" / f"{name}.log").write_text(log)
    covered = re.findall(r"cov: (\d+) ft: (\d+)", log)
    executed = re.findall(r"^#(\d+)", log, re.MULTILINE)
    runs = int(executed[-1]) if executed else 0
    elapsed = time.monotonic() - begin
    result = finding(log) if failed else "ok"
    artifact = re.search(r"Test unit written to (\S+)", log)
    if failed and artifact:
        result += f" [{pathlib.Path(artifact.group(1)).name}]"
    print(f"{name:12} {runs:>10} runs {runs / max(elapsed, 1e-9):>8.0f}/s "
          f"{covered[-1][0] if covered else 0:>6} edges  {result}", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=20, help="for each target")
    parser.add_argument("--seed", type=int, default=0, help="the same inputs again; 0: new ones")
    parser.add_argument("--only", default="", help="targets whose name this expression matches")
    parser.add_argument("--jobs", type=int, default=2, choices=(1, 2))
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    names = sorted(path.name.removesuffix("_fuzz") for path in (build / "tests/fuzz").glob("*_fuzz"))
    names = [name for name in names if re.search(arguments.only, name)]
    if not names:
        sys.exit("run_fuzz: no such target")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        failed = list(pool.map(lambda name: run(build, name, arguments.seconds, arguments.seed),
                               names))
    print(f"fuzz: {len(names)} targets, {arguments.seconds} s each, {sum(failed)} with findings")
    if any(failed):
        sys.exit(f"fuzz: inputs and logs are in {build / 'crashes'}; docs/FUZZING.md says how to go on")


if __name__ == "__main__":
    main()
