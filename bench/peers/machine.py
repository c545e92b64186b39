"""What a report says of the machine and of what is installed."""
import importlib.metadata
import os
import pathlib
import platform
import re


def processor_flags():
    found = re.search(r"flags\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found[1].split() if found else []


def processor():
    name = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    flags = processor_flags()
    found = [f for f in ("avx512_bf16", "avx512_vnni", "avx_vnni", "amx_int8") if f in flags]
    if not found:
        found = [f for f in ("avx512f", "avx2") if f in flags][:1] + ["no VNNI"]
    return f"{name[1] if name else platform.machine()} ({', '.join(found)}), {os.cpu_count()} processors"


def versions(packages):
    out = []
    for package in packages:
        try:
            out.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            out.append(f"{package} not installed")
    return out
