#!/usr/bin/env python3
"""Compiles the kernels of src/cuda for each architecture and holds what they take to a committed table.

Usage: tools/check_cuda.py [--update] [--changed] [--nvcc NVCC]

src/cuda/kernel_limits.json, which --update writes anew, has these numbers of each kernel:
  registers  of a thread, at most
  shared     bytes of shared memory of a block, static and dynamic, at most
  blocks     that fit on a multiprocessor at once, by registers, shared memory and threads, at least
  loop       instructions of its main loop, at most
  tensor     those of tensor cores (HMMA, HGMMA) among them, at least
A loop is a branch back to an instruction that every way to the branch passes, with all instructions on the ways from
there to the branch; branches back to one instruction are one loop. Multiplications are the HMMA and HGMMA of a kernel,
or its FFMA where it has none of those. Among the loops that have some, and hold no smaller loop that has some, the main
loop is that with the most, and then the longest. Both numbers are 0 where there is none.

A kernel of another architecture has next to no code: its row is empty. Any other one must fit, without stack and
spills, keep to RULES, and have no wgmma that ptxas says it serialized. nvdisasm tells instructions (of CUDA 13, or of the
Python package nvidia-cuda-nvdisasm, whose folder nvidia/cu13/bin must be in PATH); without it they are not checked, and a line says so.

The table stores a digest of the kernels' sources; --changed compiles only where they differ from it. Needs nvcc of
CUDA 13; without it nothing is checked, and a line says so.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import typing

import package_folder

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMITS = ROOT / "src/cuda/kernel_limits.json"
FLAGS = ("-std=c++20", "-O3", "--fmad=false", "-Xptxas", "-v", "-I", str(ROOT / "src"))


class Multiprocessor(typing.NamedTuple):
    shared: int  # bytes
    threads: int
    blocks: int


# As cuda_occupancy.h has them. All have 65536 registers in four parts, given to warps in units of 256.
ARCHITECTURES = {
    "sm_80": Multiprocessor(164 << 10, 2048, 32),
    "sm_90a": Multiprocessor(228 << 10, 2048, 32),
    "sm_120": Multiprocessor(100 << 10, 1536, 24),
}
PART_REGISTERS = 65536 // 4
RESERVED = 1 << 10  # bytes of shared memory of each block that are the driver's

EMPTY_BYTES = 24 * 16  # a few instructions of 16 bytes, and the NOPs behind them
TENSOR = "HG?MMA"
# Architectures, kernels and an operation: none of them has it, or each has.
RULES = (
    ("sm_.*", ".*", "LDL|STL", False),
    ("sm_.*", "(gemm_(mma|narrow|wgmma)|attention)_.*f16", TENSOR, True),
    ("sm_.*", "gemm_(mma|narrow)_.*", r"LDGSTS.*\.128", True),
    ("sm_.*", "gemm_wgmma_.*", "UTMALDG", True),
    ("sm_.*", "gemm_wgmma_.*", "UBLKCP", True),
    ("sm_(90a|120)", ".*", "ACQBULK", True),  # griddepcontrol.wait
    ("sm_(90a|120)", ".*", "PREEXIT", True),  # griddepcontrol.launch_dependents
)
AT_LEAST = ("blocks", "tensor")

ROWS_PROGRAM = """
#include <cstdio>
#include "cuda/kernels.cc"
int main() {
  for (const penstock::cuda::KernelRow& row : penstock::cuda::kKernelRows) {
    std::printf("%s %d %d\\n", row.name, row.threads, row.shared_bytes);
  }
}
"""


class Instruction(typing.NamedTuple):
    guarded: bool  # by a predicate
    operation: str
    operands: str


def digest():
    """The hash of all that kernels are compiled from."""
    room = ROOT / "src/cuda"
    files = {
        *room.glob("*-inl.h"),
        *room.glob("kernel*.inc"),
        *(room / name for name in ("kernels.cc", "kernels.cu", "kernels.h", "simt.h", "tile_map.h")),
    }
    whole = hashlib.sha256(" ".join((*ARCHITECTURES, *FLAGS[:3])).encode())
    for path in (*sorted(files), ROOT / "src/program/op_kinds.h", ROOT / "src/sample/draw_best.h"):
        whole.update(path.read_bytes())
    return whole.hexdigest()


def program(name):
    """Where CMake looks for nvcc: in the folder of tools/install_cuda.py first. None: nowhere."""
    folders = (str(package_folder.default_folder("cuda") / "bin"), os.environ["PATH"], "/usr/local/cuda/bin")
    return shutil.which(name, path=os.pathsep.join(folders))


def output_of(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"check_cuda: {' '.join(command)}:\n{done.stderr}")
    return done


def kernel_rows():
    """{kernel: (threads of a block, bytes of its dynamic shared memory)}, which templates know."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/rows"
        output_of(["c++", "-std=c++20", "-I", str(ROOT / "src"), "-x", "c++", "-", "-o", out], input=ROWS_PROGRAM)
        lines = output_of([out]).stdout.splitlines()
    return {name: (int(threads), int(shared)) for name, threads, shared in map(str.split, lines)}


def resident_blocks(room, registers, threads, shared):
    """How many blocks a multiprocessor holds at once."""
    warps = -(-threads // 32)
    warp_registers = -(-registers * 32 // 256) * 256
    return min(
        room.blocks,
        room.threads // (warps * 32),
        room.shared // (shared + RESERVED),
        4 * (PART_REGISTERS // warp_registers) // warps,
    )


def disassembled(nvdisasm, cubin):
    """{kernel: (its instructions, {label: the index of the instruction behind it})}"""
    pattern = r"\.section\s+\.text\.(\w+)|^(\.L_x_\d+):|/\*[0-9a-f]{4,}\*/\s+(@\S+\s+)?([A-Z][\w.]*)(.*)"
    kernels = {}
    for kernel, label, guard, operation, operands in re.findall(
        pattern, output_of([nvdisasm, "-c", cubin]).stdout, re.MULTILINE
    ):
        if kernel:
            code, labels = kernels[kernel] = ([], {})
        elif label:
            labels[label] = len(code)
        else:
            code.append(Instruction(bool(guard), operation, operands.strip()))
    return kernels


def loops(code, labels):
    """The loops of a kernel, each the set of its instructions' indices."""
    before = [set() for _ in code]
    back = []
    for at, (guarded, operation, operands) in enumerate(code):
        kind = operation.partition(".")[0]
        # A call of a label never returns.
        if kind in ("BRA", "BRX", "BRXU", "CALL"):
            for label in re.findall(r"\.L_x_\d+", operands):
                before[labels[label]].add(at)
                if labels[label] <= at:
                    back.append((at, labels[label]))
        # Some branches have their predicate among their operands.
        leaves = kind in ("EXIT", "RET", "BRX", "BRXU") or (kind == "BRA" and operands.startswith("`"))
        if at + 1 < len(code) and (guarded or not leaves):
            before[at + 1].add(at)
    bodies = {}
    for branch, head in back:
        body, pending = {head}, [branch]
        while pending:
            at = pending.pop()
            if at not in body:
                body.add(at)
                pending.extend(before[at])
        # Code that is set apart goes back into the midst of a loop: there are ways to it from the start, past there.
        if 0 not in body:
            bodies.setdefault(head, set()).update(body)
    return list(bodies.values())


def main_loop(code, labels):
    """{"loop", "tensor"}"""
    tensor = {at for at, one in enumerate(code) if re.match(TENSOR, one.operation)}
    multiplies = tensor or {at for at, one in enumerate(code) if one.operation.startswith("FFMA")}
    some = [body for body in loops(code, labels) if body & multiplies]
    inner = [body for body in some if not any(other < body for other in some)]
    body = max(inner, key=lambda one: (len(one & multiplies), len(one)), default=set())
    return {"loop": len(body), "tensor": len(body & tensor)}


def broken_rules(architecture, name, code):
    for architectures, kernels, operation, wanted in RULES:
        if re.fullmatch(architectures, architecture) and re.fullmatch(kernels, name):
            count = sum(bool(re.match(operation, one.operation)) for one in code)
            if wanted != (count > 0):
                yield f"{count} of {operation}"


def compiled(nvcc, nvdisasm, architecture, blocks_of):
    """{kernel: its row of the table}, and faults."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = f"{folder}/kernels.cubin"
        command = [nvcc, *FLAGS, f"-arch={architecture}", "-cubin", str(ROOT / "src/cuda/kernels.cu"), "-o", cubin]
        notes = output_of(command).stderr
        sections = output_of(["readelf", "--sections", "--wide", cubin]).stdout
        code_of = disassembled(nvdisasm, cubin) if nvdisasm else {}
    faults = [line.strip() for line in re.findall(r".*(?:C7508|C7510|wgmma.*serialized).*", notes)]
    pattern = (
        r"Function properties for (\S+)\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
        r"\s+ptxas info\s*: Used (\d+) registers(?:.*?(\d+) bytes smem)?"
    )
    takes = {name: [int(one or 0) for one in numbers] for name, *numbers in re.findall(pattern, notes)}
    sizes = dict(re.findall(r" \.text\.(\w+)\s+PROGBITS\s+\S+\s+\S+\s+(\S+)", sections))
    rows = {}
    for name, (threads, dynamic) in blocks_of.items():
        if name not in takes:
            faults.append(f"{name}: not compiled")
            continue
        rows[name] = {}
        if int(sizes[name], 16) <= EMPTY_BYTES:
            continue
        stack, stores, loads, registers, static = takes[name]
        shared = static + dynamic
        blocks = resident_blocks(ARCHITECTURES[architecture], registers, threads, shared)
        rows[name] = {"registers": registers, "shared": shared, "blocks": blocks}
        if stack or stores or loads:
            faults.append(f"{name}: {stack} bytes of stack, {stores + loads} of spills")
        if blocks == 0:
            faults.append(f"{name}: no block fits, of {threads} threads, {registers} registers, {shared} bytes shared")
        if nvdisasm:
            code, labels = code_of[name]
            rows[name] |= main_loop(code, labels)
            faults.extend(f"{name}: {fault}" for fault in broken_rules(architecture, name, code))
    return rows, [f"{architecture} {fault}" for fault in faults]


def beyond(row, limits):
    """What of a kernel's row is not as the table has it."""
    if limits is None:
        yield "not in the table"
    elif bool(row) != bool(limits):
        yield "empty in the table" if row else "empty, and not so in the table"
    else:
        for what, value in row.items():
            if value < limits[what] if what in AT_LEAST else value > limits[what]:
                yield f"{what}: {value}, {'at least' if what in AT_LEAST else 'at most'} {limits[what]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--update", action="store_true", help="write the table anew")
    parser.add_argument("--changed", action="store_true", help="only where the sources are not those of the table")
    parser.add_argument("--nvcc", default=program("nvcc") or "nvcc", help="default: where CMake looks")
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
    nvdisasm = program("nvdisasm")
    if not nvdisasm:
        if options.update:
            sys.exit("check_cuda: the table needs nvdisasm, which was not found")
        print("check_cuda: SKIPPED: instructions; nvdisasm was not found")
    blocks_of = kernel_rows()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda one: compiled(options.nvcc, nvdisasm, one, blocks_of), ARCHITECTURES)
    table, faults = {"sources": sources}, []
    for architecture, (rows, its_faults) in zip(ARCHITECTURES, found):
        table[architecture] = rows
        faults += its_faults
        for name, row in rows.items():
            columns = "  ".join(f"{what} {value:6}" for what, value in row.items()) or "empty"
            print(f"{architecture:7} {name:24} {columns}")
            if not options.update:
                kernel_limits = limits.get(architecture, {}).get(name)
                faults += [f"{architecture} {name}: {fault}" for fault in beyond(row, kernel_limits)]
    if options.update and not faults:
        # One kernel a line.
        lines = re.sub(
            r"\{\s*([^{}]*?)\s*\}", lambda row: "{" + re.sub(r"\s+", " ", row[1]) + "}", json.dumps(table, indent=1)
        )
        LIMITS.write_text(lines + "\n")
    for fault in faults:
        print(f"check_cuda: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
