#!/usr/bin/env python3
"""Compiles the kernels of src/cuda for each architecture and holds what they take to a committed table.

Usage: tools/check_cuda.py [--update] [--changed] [--nvcc NVCC]

ptxas tells the registers of each kernel, its bytes of stack and of spills. Spills and stack are 0 always; registers
are at most those of src/cuda/kernel_limits.json, which --update writes anew. The table stores a digest of the kernels'
sources; --changed compiles only where they differ from it. Needs nvcc of CUDA 13; without it nothing is
checked, and a line says so.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import package_folder

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMITS = ROOT / "src/cuda/kernel_limits.json"
ARCHITECTURES = ("sm_80", "sm_90a", "sm_120")
FLAGS = ("-std=c++20", "-O3", "--fmad=false", "-Xptxas", "-v", "-I", str(ROOT / "src"))


def digest():
    """The hash of all that kernels are compiled from."""
    room = ROOT / "src/cuda"
    files = {
        *room.glob("*-inl.h"),
        *room.glob("kernel*.inc"),
        *(room / name for name in ("kernels.cu", "kernels.h", "simt.h")),
    }
    whole = hashlib.sha256(" ".join((*ARCHITECTURES, *FLAGS[:3])).encode())
    for path in (*sorted(files), ROOT / "src/program/op_kinds.h"):
        whole.update(path.read_bytes())
    return whole.hexdigest()


def compiled(nvcc, architecture):
    """{kernel: {"registers", "stack", "spills"}}"""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "kernels.cubin"
        command = [nvcc, *FLAGS, f"-arch={architecture}", "-cubin", str(ROOT / "src/cuda/kernels.cu"), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"check_cuda: {architecture}:\n{done.stderr}")
    pattern = (
        r"Function properties for (\S+)\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
        r"\s+ptxas info\s*: Used (\d+) registers"
    )
    return {
        name: {"registers": int(registers), "stack": int(stack), "spills": int(stores) + int(loads)}
        for name, stack, stores, loads, registers in re.findall(pattern, done.stderr)
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--update", action="store_true", help="write the table anew")
    parser.add_argument("--changed", action="store_true", help="only where the sources are not those of the table")
    installed = package_folder.default_folder("cuda") / "bin/nvcc"
    known = [one for one in (installed, shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc") if one and shutil.which(one)]
    parser.add_argument("--nvcc", default=str(known[0]) if known else "nvcc", help="default: where CMake looks")
    options = parser.parse_args()
    limits = json.loads(LIMITS.read_text()) if LIMITS.is_file() else {}
    sources = digest()
    if options.changed and limits.get("sources") == sources:
        print("check_cuda: the kernels are those of the table")
        return
    if not shutil.which(options.nvcc):
        if options.changed:
            sys.exit(
                "check_cuda: the kernels are not those of the table, and nvcc was not found (tools/install_cuda.py)"
            )
        print("check_cuda: SKIPPED: nvcc was not found")
        return
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = dict(zip(ARCHITECTURES, pool.map(lambda one: compiled(options.nvcc, one), ARCHITECTURES)))
    faults = []
    for architecture, kernels in found.items():
        if not kernels:
            faults.append(f"{architecture}: no kernels")
        for name, takes in kernels.items():
            most = limits.get(architecture, {}).get(name)
            print(f"{architecture:8} {name:24} {takes['registers']:4} registers, {takes['spills']} spilled")
            if takes["stack"] or takes["spills"]:
                faults.append(f"{architecture} {name}: {takes['stack']} bytes of stack, {takes['spills']} of spills")
            if not options.update and (most is None or takes["registers"] > most):
                faults.append(f"{architecture} {name}: {takes['registers']} registers, at most {most}")
    if options.update and not faults:
        table = {"sources": sources}
        for one, kernels in found.items():
            table[one] = {name: takes["registers"] for name, takes in kernels.items()}
        LIMITS.write_text(json.dumps(table, indent=1) + "\n")
    for fault in faults:
        print(f"check_cuda: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
