"""A server offered four times what it can do, by clients that leave: penstock bench soak judges.

PENSTOCK_SOAK_S         seconds of overload; default 60
PENSTOCK_SOAK_LIVEZ_MS  slowest /livez; default 50, for machines that run tests beside other things.
                        `make soak` asks for the 10 ms that are promised
"""
import os

from conftest import EMBED, GOLDEN, find_minilm, run

SECONDS = float(os.environ.get("PENSTOCK_SOAK_S", 60))
LIVEZ_MS = float(os.environ.get("PENSTOCK_SOAK_LIVEZ_MS", 50))


def soak(*args, seconds):
    done = run("bench", "soak", "--duration", seconds, "--livez-ms-max", LIVEZ_MS, *args, timeout=seconds + 120, check=False)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    return done.stdout.decode()


def test_overload_of_small_work():
    """Thousands of requests a second: the way around the model is what is loaded."""
    table = soak("--model", GOLDEN / EMBED, "--lengths", "uniform:8,24", "--bulk-batch", 64,
                 "--interactive-share", 0.05, "--timeout-ms", 80, "--leave-ms-max", 100,
                 "--capacity-s", 1, seconds=SECONDS if find_minilm() is None else SECONDS / 6)
    assert "FAILED" not in table and "exit code" in table


def test_overload_of_the_model():
    if folder := find_minilm():
        assert "exit code" in soak("--model", folder, seconds=SECONDS)
