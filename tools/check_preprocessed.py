#!/usr/bin/env python3
"""Bounds what the compiler reads for each file of the program: lines after the preprocessor.

Usage: tools/check_preprocessed.py BUILD_FOLDER

Reads compile_commands.json of the build folder (configure it first) and runs the preprocessor over
every file of src/ and apps/ but tests, benchmarks and cpu/isa_*. Blank lines are not counted. Exits
with 1 where a file or the mean is over its bound. The bounds only ever go down: when a change makes
files lighter, lower them with it.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The standard headers that nearly every file needs (<string>, <vector>, <memory>, <functional>) are
# 41,000 lines by themselves; the precompiled ones are 65,000.
MEAN_MAX = 71_000
LINES_MAX = 100_000
# Where a large library is used, behind small headers of ours: files and their bounds.
LIBRARIES = {
    "Boost.Asio and Beast": (r"src/(http|load|net)/\w+\.cc", 180_000),
    "protobuf": (r"src/(grpc|kserve)/\w+\.cc|src/bench/grpc_echo\.cc", 168_000),
    "simdjson": (r"src/(json/json|base/utf8_check)\.cc", 147_000),
    "CLI11, toml++": (r"src/cli/(flags|settings\w*|config_file|help|manual|completion|command_line)\.cc", 120_000),
}


def product_commands(build):
    for command in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(command["file"])
        if not path.is_relative_to(ROOT):
            continue
        name = str(path.relative_to(ROOT))
        if not name.startswith(("src/", "apps/")) or name.startswith("src/cpu/isa_"):
            continue
        if not path.stem.endswith(("_test", "_bench")):
            yield name, command


def count(item):
    name, command = item
    words = shlex.split(command["command"])
    # The compiler and what follows, without the compile cache before it and without the output.
    begin = next(i for i, word in enumerate(words) if re.search(r"(\+\+|/c\+\+|g\+\+)[\d.-]*$", word))
    words = words[begin:]
    kept = []
    skip = 0
    for _i, word in enumerate(words):
        if skip:
            skip -= 1
        elif word in ("-o", "-include"):
            skip = 1
        elif word not in ("-c", "-Winvalid-pch", "-fpch-preprocess"):
            kept.append(word)
    done = subprocess.run([*kept, "-E"], cwd=command["directory"], capture_output=True)
    if done.returncode != 0:
        return name, None
    return name, sum(1 for line in done.stdout.split(b"\n") if line.strip())


def bound_of(name):
    for pattern, bound in LIBRARIES.values():
        if re.fullmatch(pattern, name):
            return bound
    return LINES_MAX


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = sorted(pool.map(count, product_commands(build)), key=lambda item: -(item[1] or 0))
    findings = [f"{name}: the preprocessor failed" for name, lines in counts if lines is None]
    counts = [item for item in counts if item[1] is not None]
    for name, lines in counts:
        if lines > bound_of(name):
            findings.append(f"{name}: {lines:,} preprocessed lines, at most {bound_of(name):,}")
    mean = sum(lines for _, lines in counts) / max(len(counts), 1)
    if mean > MEAN_MAX:
        findings.append(f"in the mean {mean:,.0f} preprocessed lines a file, at most {MEAN_MAX:,}")
    print("\n".join(findings) if findings else "", end="\n" if findings else "")
    plain = [item for item in counts if bound_of(item[0]) == LINES_MAX]
    print(f"check_preprocessed: {len(counts)} files, mean {mean:,.0f} lines, largest {counts[0][1]:,} "
          f"({counts[0][0]}); largest without a library of its own {plain[0][1]:,} ({plain[0][0]}); "
          f"{len(findings) or 'no'} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
