"""tools/make_gguf.py --shape: models of published shapes with random weights."""
import json
import struct
import subprocess
import sys

import pytest

from conftest import ROOT, run

MIXES = ["Q4_K_M", "Q6_K", "Q8_0", "BF16"]


def make(*args):
    done = subprocess.run([sys.executable, ROOT / "tools/make_gguf.py", *map(str, args)], capture_output=True, text=True)
    return done


@pytest.mark.parametrize("mix", MIXES)
def test_a_shape(tmp_path, mix):
    first, again = tmp_path / "a.gguf", tmp_path / "b.gguf"
    done = make("--shape", "tiny", "--mix", mix, first)
    assert done.returncode == 0 and str(first) in done.stdout, done.stderr
    assert make("--shape", "tiny", "--mix", mix, again).returncode == 0
    assert first.read_bytes() == again.read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []
    magic, version, tensors, keys = struct.unpack("<4sIQQ", first.read_bytes()[:24])
    assert (magic, version, tensors) == (b"GGUF", 3, 2 * 9 + 3) and keys > 20
    shown = run("generate", "-m", first, "-p", "abcdefg", "-n", 5, "--temperature", 0, "--ignore-eos", "--json",
                check=False)
    if b"no command 'generate'" in shown.stderr:
        pytest.skip("this program does not generate text")
    assert shown.returncode == 0, shown.stderr
    # A letter is a token.
    assert json.loads(shown.stdout)["usage"] == {"prompt_tokens": 7, "completion_tokens": 5}


@pytest.mark.parametrize("args,message", [
    ((), "required"), (("out.gguf",), "SPEC.json or --shape"), (("--shape", "huge", "out.gguf"), "invalid choice"),
    (("--shape", "tiny", "spec.json", "out.gguf"), "SPEC.json or --shape"),
    (("--shape", "tiny", "--parts", 2, "out.gguf"), "--parts goes with SPEC.json"),
])
def test_wrong_arguments(args, message):
    done = make(*args)
    assert done.returncode == 2 and message in done.stderr
