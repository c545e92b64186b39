"""What protects the program and its library, and what they ask of a system, read off their ELF files."""
import pathlib
import re
import struct
import subprocess
import sys

import pytest

from conftest import binary

PT_LOAD, PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 0x6474E551, 0x6474E552
DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SONAME, DT_FLAGS, DT_FLAGS_1 = 5, 6, 10, 14, 30, 0x6FFFFFFB
DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 8, 1, 0x08000000


class Elf:
    """The parts of a 64-bit little-endian ELF file that say how it is loaded."""

    def __init__(self, path):
        self.data = open(path, "rb").read()
        assert self.data[:6] == b"\x7fELF\x02\x01"
        self.type, = struct.unpack_from("<H", self.data, 16)
        at, = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        fields = ("type", "flags", "offset", "vaddr", "paddr", "filesz", "memsz", "align")
        self.segments = [dict(zip(fields, struct.unpack_from("<IIQQQQQQ", self.data, at + i * size)))
                         for i in range(count)]
        self.dynamic = {}
        segment = self.segment(PT_DYNAMIC)
        for i in range(segment["offset"], segment["offset"] + segment["filesz"], 16):
            tag, value = struct.unpack_from("<qQ", self.data, i)
            self.dynamic.setdefault(tag, value)

    def segment(self, kind):
        return next((s for s in self.segments if s["type"] == kind), None)

    def names(self):
        """The names of the functions and data it takes from libraries."""
        for s in self.segments:
            begin = self.dynamic[DT_STRTAB] - s["vaddr"]
            if s["type"] == PT_LOAD and 0 <= begin < s["filesz"]:
                begin += s["offset"]
                return set(self.data[begin:begin + self.dynamic[DT_STRSZ]].decode().split("\0"))
        raise AssertionError("no table of names")


def library():
    return pathlib.Path(binary()).parent / "libpenstock.so.1"


@pytest.fixture(scope="module", params=["program", "library"])
def elf(request):
    found = Elf(binary() if request.param == "program" else library())
    if any(name.startswith(("__asan_", "__tsan_", "__ubsan_")) for name in found.names()):
        pytest.skip("built with sanitizers, which do not go with it")
    return found


def test_it_is_loaded_anywhere_and_nothing_is_written_and_run(elf):
    assert elf.type == 3  # a shared object: position-independent
    assert elf.dynamic.get(DT_FLAGS_1, 0) & DF_1_PIE or DT_SONAME in elf.dynamic
    assert elf.segment(PT_GNU_STACK)["flags"] & 1 == 0
    for segment in elf.segments:
        assert segment["type"] != PT_LOAD or segment["flags"] & 3 != 3, segment


def test_imported_functions_are_bound_before_it_starts(elf):
    assert elf.segment(PT_GNU_RELRO) is not None
    assert elf.dynamic.get(DT_FLAGS, 0) & DF_BIND_NOW or elf.dynamic.get(DT_FLAGS_1, 0) & DF_1_NOW


def test_stacks_and_copies_are_checked():
    names = Elf(library()).names()
    if any(name.startswith(("__asan_", "__tsan_")) for name in names):
        pytest.skip("built with sanitizers, which do not go with it")
    assert "__stack_chk_fail" in names
    checked = {name for name in names if name.startswith("__") and name.endswith("_chk")}
    assert len(checked) >= 3, checked


def symbols(path, *flags):
    told = subprocess.run(["objdump", "-T", *flags, path], capture_output=True, text=True, check=True).stdout
    return [line.split() for line in told.splitlines() if re.match("[0-9a-f]{16} ", line)]


def test_the_library_exports_its_interface_alone():
    header = (pathlib.Path(__file__).resolve().parents[2] / "library/penstock.h").read_text()
    declared = set(re.findall(r"\b(penstock_\w+)\(", header))
    exported = {line[-1] for line in symbols(library()) if "*UND*" not in line}
    assert exported - {"PENSTOCK_1", "PENSTOCK_PRIVATE"} == declared | {"penstock_program"}


def test_it_runs_where_glibc_is_2_34():
    """manylinux_2_34: RHEL 9, Ubuntu 22.04. The runtime of C++ is a part of both files."""
    for path in (binary(), library()):
        undefined = [line for line in symbols(path) if "*UND*" in line]
        if any(line[-1].startswith(("__asan_", "__tsan_")) for line in undefined):
            pytest.skip("built with sanitizers")
        versions = {tuple(map(int, found.groups())): line[-1] for line in undefined
                    if (found := re.match(r"\(?GLIBC_(\d+)\.(\d+)", line[-2]))}
        assert max(versions) <= (2, 34), (path, versions[max(versions)])
        assert not [line for line in undefined if "GLIBCXX" in line[-2]], path


def test_it_goes_with_another_protobuf():
    """That of grpcio-tools is of another version, and its symbols are there for all of the process."""
    told = subprocess.run(["ldd", library()], capture_output=True, text=True, check=True).stdout
    if "libprotobuf" in told:
        pytest.skip("LINKED TO THE SYSTEM'S PROTOBUF (tools/install_protobuf.py)")
    text = ("import ctypes, os, sys\nsys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)\n"
            "from grpc_tools import _protoc_compiler\n"
            "library = ctypes.CDLL(sys.argv[1])\nlibrary.penstock_version.restype = ctypes.c_char_p\n"
            "print(library.penstock_version().decode())\n")
    done = subprocess.run([sys.executable, "-c", text, library()], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and re.match(r"\d+\.\d+\.\d+$", done.stdout), done.stderr


def test_it_links_few_libraries():
    told = subprocess.run(["ldd", binary()], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(told) <= 15, told
