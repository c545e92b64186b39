"""The program on processors that lack the instruction sets of this one, under qemu: it starts, takes the best set
they have, and answers in that set's bits."""

import platform
import re
import shutil
import subprocess

import pytest

from conftest import EMBED, GOLDEN, binary, clean_environment, run

# qemu's name of the processor, and the sets it offers, best last. qemu knows no AVX-512.
PROCESSORS = {"Nehalem": ["scalar"], "Haswell-noTSX": ["scalar", "avx2"]}
DECODERS = GOLDEN.parent / "decoders"

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="processors of x86-64"),
    pytest.mark.skipif(not shutil.which("qemu-x86_64"), reason="no qemu-x86_64: tools/install_deps.sh test"),
]


def run_on(processor, *args, stdin=None, **environment):
    return subprocess.run(
        ["qemu-x86_64", "-cpu", processor, binary(), *map(str, args)],
        input=stdin,
        capture_output=True,
        timeout=300,
        env=clean_environment(**environment),
    )


@pytest.mark.parametrize("processor", PROCESSORS)
def test_an_older_processor_offers_what_it_has(processor):
    refused = run_on(processor, "inspect", "--model", GOLDEN / EMBED, PENSTOCK_CPU_ISA="none")
    offered = re.search(r"this processor offers ([\w, ]+)", refused.stderr.decode())
    assert offered, refused
    assert offered[1].split(", ") == PROCESSORS[processor]


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize(
    "args, stdin",
    [
        (("embed", "--model", GOLDEN / EMBED, "--dtype", "f32"), b"the happy dog\nwater\n"),
        (("embed", "--model", GOLDEN / EMBED, "--dtype", "int8"), b"the happy dog\nwater\n"),
        (
            ("generate", "-m", DECODERS / "llama_gguf" / "llama-q8_0.gguf", "-n", "8", "-q", "--temp", "0"),
            b"Once upon a time",
        ),
    ],
    ids=["f32", "int8", "q8_0"],
)
def test_an_older_processor_gives_the_bits_of_its_set(processor, args, stdin):
    here = run(*args, stdin=stdin, env=clean_environment(PENSTOCK_CPU_ISA=PROCESSORS[processor][-1]), check=False)
    if b"this processor offers" in here.stderr:
        pytest.skip(f"this processor has no {PROCESSORS[processor][-1]}")
    assert here.returncode == 0, here.stderr.decode()
    there = run_on(processor, *args, stdin=stdin)
    assert there.returncode == 0, there.stderr.decode()
    assert there.stdout == here.stdout and there.stdout
