"""bench/peers_generate: what of it runs without the peers."""
import json
import subprocess
import sys

import numpy as np
import pytest

from conftest import ROOT, modules_of

FOLDER = ROOT / "bench/peers_generate"


@pytest.fixture
def kl():
    with modules_of(FOLDER, ROOT / "bench/peers"):
        import kl

        yield kl


def ask(peer, environment, **task):
    done = subprocess.run([sys.executable, FOLDER / "worker.py", peer], input=json.dumps(task), capture_output=True,
                          text=True, check=True, env=environment)
    return json.loads(done.stdout)


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


TASK = {"do": "measure", "file": "model.gguf", "text": "abc", "ids": [1, 2, 3], "threads": 2, "variant": "repacked"}


def test_mean_kl(kl):
    reference = np.log(np.array([[0.5, 0.5], [0.9, 0.1]], np.float32)) + 7  # logits have any offset
    assert kl.mean_kl(reference, reference - 3) == pytest.approx(0, abs=1e-6)
    other = np.log(np.array([[0.25, 0.75], [0.9, 0.1]], np.float32))
    wanted = (0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)) / 2
    assert kl.mean_kl(reference, other) == pytest.approx(wanted, rel=1e-5)
    with pytest.raises(ValueError, match="expected"):
        kl.mean_kl(reference, other[:1])


def test_rows_of_logits(kl, tmp_path):
    file = tmp_path / "logits.f32"
    np.arange(6, dtype=np.float32).tofile(file)
    assert kl.read(file, 3).tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(ValueError, match="whole 4 rows"):
        kl.read(file, 4)


def test_penstock_by_its_command(tmp_path):
    answer = {"usage": {"prompt_tokens": 3, "completion_tokens": 8},
              "timings": {"prompt_per_second": 300.5, "predicted_per_second": 40.25}}
    fake = program(tmp_path / "penstock", f"echo \"$@\" >> {tmp_path}/asked\necho '{json.dumps(answer)}'\n")
    environment = {"PATH": "/usr/bin:/bin", "PENSTOCK_PROGRAM": str(fake)}
    task = {**TASK, "variant": "auto", "repeats": 2}
    assert ask("penstock", environment, **task, tokens=8) == {"prefill": [300.5] * 2, "decode": [40.25] * 2,
                                                              "prompt_tokens": 3}
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == 2 and asked[0].startswith("generate -m model.gguf -p abc -n 8 --temperature 0 --ignore-eos")
    assert ask("penstock", environment, **task, tokens=9)["error"] == "RuntimeError: 8 tokens instead of 9"
    program(fake, "echo 'penstock: no such file' >&2; exit 1\n")
    assert ask("penstock", environment, **task, tokens=8)["error"] == "RuntimeError: penstock: no such file"


@pytest.mark.parametrize("ids,tokens,test", [(3, 8, "-p 0 -n 8"), (512, 1, "-p 512 -n 0"),
                                             (4096, 8, "-p 0 -n 0 -gp 4096,8")])
def test_ik_by_its_benchmark(tmp_path, ids, tokens, test):
    program(tmp_path / "bin/llama-bench", f"echo \"$@\" >> {tmp_path}/asked\necho '[{{\"samples_ts\": [10.5, 11]}}]'\n")
    environment = {"PATH": "/usr/bin:/bin", "PENSTOCK_IK": str(tmp_path)}
    answer = ask("ik", environment, **{**TASK, "ids": [1] * ids}, tokens=tokens, repeats=2)
    wanted = {"prefill": [], "decode": [], "prompt_tokens": ids}
    wanted["prefill" if tokens == 1 else "decode"] = [10.5, 11]
    assert answer == wanted
    asked = (tmp_path / "asked").read_text()
    assert f" {test} -r 2 " in asked and "-t 2" in asked and "-rtr 1" in asked
