"""What penstock embed says while it runs: on a terminal, in a log, after it."""
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time

import pytest

from conftest import EMBED, GOLDEN, binary, clean_environment, run
from test_resume import begin, wait_for

MODEL = ("--model", GOLDEN / EMBED)
ROWS = 60_000


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("progress") / "in.txt"
    path.write_text("".join("dog " * (1 + 31 * i % 97) + f"{i}\n" for i in range(ROWS)))
    return path


class Screen:
    """A terminal as wide as said. What the command writes there, and its exit code."""

    def __init__(self, columns, *args, stdin=subprocess.DEVNULL, command="embed", **more):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen([binary(), command, *map(str, args)], stderr=slave,
                                        stdin=slave if stdin == "terminal" else stdin,
                                        stdout=subprocess.DEVNULL, env=clean_environment(**more))
        os.close(slave)
        self.text = ""

    def read(self, until=None, timeout=30):
        """To the end, or until this is there."""
        end = time.monotonic() + timeout
        while time.monotonic() < end and not (until and until in self.text):
            try:
                block = os.read(self.master, 65536)
            except OSError:
                break
            if not block:
                break
            self.text += block.decode()
        return self.text

    def wait(self):
        self.read()
        return self.process.wait(30)

    def pieces(self):
        """What stood on a line, one after the other; all codes are those that clear it."""
        return [piece for piece in re.split(r"\r\n|\r\x1b\[K", self.text) if piece]


@pytest.mark.parametrize("columns", [40, 25, 200])
def test_the_line_fits_the_terminal(corpus, columns, tmp_path):
    screen = Screen(columns, *MODEL, corpus, "-o", tmp_path / "x.npy")
    assert screen.wait() == 0
    pieces = screen.pieces()
    assert pieces[0] == "reading" and "embedding" in pieces
    *rewritten, summary, cut = pieces
    shares = [piece for piece in rewritten if piece.startswith("embedding ")]
    assert shares and all(len(piece) < columns for piece in rewritten), pieces
    assert all(re.match(r"embedding [0-9.]+ %", piece) for piece in shares)
    if columns == 200:
        assert re.fullmatch(r"embedding [0-9.]+ %, \d+ (s|min) left, \d+ texts, \d+ texts/s, \d+ tokens/s, \d+ cut",
                            shares[-1]), shares
    assert re.fullmatch(rf"{ROWS} texts, \d+ tokens in [0-9.]+ s: \d+ texts/s, \d+ tokens/s", summary)
    assert "inputs were cut to the model's 48 tokens" in cut
    assert screen.text.endswith("\r\n")


def test_a_message_has_a_line_of_its_own(corpus, tmp_path):
    # A log line, while a line of progress stands there.
    screen = Screen(80, "--url", "http://127.0.0.1:9", "--connect-timeout", 1, corpus)
    assert screen.wait() == 1
    assert re.search(r"asking the server\r\n\S+ warning .*127\.0\.0\.1", screen.text), screen.text
    # A failure in the middle of the work.
    source = tmp_path / "in.txt"
    source.write_bytes(corpus.read_bytes() + b"dog " * 300 + b"\n")
    screen = Screen(80, *MODEL, "--no-auto-truncate", source, "-o", tmp_path / "x.npy")
    assert screen.wait() == 1
    pieces = screen.pieces()
    assert pieces[-1].startswith("penstock embed: ") and "texts/s" not in pieces[-1]
    assert not any(" tokens in " in piece for piece in pieces), pieces


def test_a_signal_ends_without_a_rate(corpus, tmp_path):
    screen = Screen(80, *MODEL, "-o", tmp_path / "x.npy", "--format", "text", stdin=subprocess.PIPE)
    screen.process.stdin.write(corpus.read_bytes()[:100_000])
    screen.process.stdin.flush()
    wait_for(tmp_path / "x.npy.checkpoint", screen.process)
    screen.process.send_signal(signal.SIGINT)
    assert screen.wait() == 130
    assert "\r\npenstock embed: interrupted; " in screen.text and " tokens in " not in screen.text


def test_a_resumed_run_counts_its_own_work(corpus, tmp_path):
    out = tmp_path / "x.npy"
    process = begin(*MODEL, "-o", out, stdin=subprocess.PIPE)
    process.stdin.write(corpus.read_bytes()[:corpus.stat().st_size // 2])
    process.stdin.flush()
    wait_for(tmp_path / "x.npy.checkpoint", process)
    time.sleep(1)  # rows are done that the next run skips
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 143
    before = int(re.search(r"holds (\d+) rows", process.stderr.read().decode())[1])
    screen = Screen(120, *MODEL, corpus, "-o", out, "--resume")
    assert screen.wait() == 0
    pieces = screen.pieces()
    assert f"penstock embed: going on after the {before} rows that are done" in pieces
    summary = next(piece for piece in pieces if " tokens in " in piece)
    assert summary.startswith(f"{ROWS - before} texts, ") and summary.endswith(f", resumed from row {before}")
    share = next(piece for piece in pieces if piece.startswith("embedding "))
    assert float(share.split()[1]) > 90 * before / ROWS


def test_a_terminal_that_is_read_is_told_so():
    screen = Screen(80, *MODEL, stdin="terminal")
    assert "reading texts from the terminal, one a line; Ctrl-D ends them" in screen.read(until="ends them")
    os.write(screen.master, b"a dog\n\x04")
    assert screen.wait() == 0


def test_of_standard_input_the_share_is_not_known(corpus):
    screen = Screen(100, *MODEL, "--format", "text", stdin=subprocess.PIPE)
    screen.process.stdin.write(corpus.read_bytes())
    screen.process.stdin.close()
    assert screen.wait() == 0
    shares = [piece for piece in screen.pieces() if piece.startswith("embedding ")]
    assert shares and all(re.match(r"embedding \d+ texts, \d+ texts/s", piece) for piece in shares)


def test_a_log_has_whole_lines(corpus, server, tmp_path):
    done = run("embed", "--url", server.url, corpus, "-o", tmp_path / "x.npy")
    lines = done.stderr.decode().splitlines()
    assert re.fullmatch(rf"{ROWS} texts, \d+ tokens in [0-9.]+ s: \d+ texts/s, \d+ tokens/s", lines[-2]), lines
    assert "\r" not in done.stderr.decode() and "\x1b" not in done.stderr.decode()
    quiet = run("embed", *MODEL, corpus, "-q", "-o", tmp_path / "x.npy")
    assert re.fullmatch(r"penstock embed: \d+ inputs were cut to the model's 48 tokens\n", quiet.stderr.decode())


def test_one_input_is_cut():
    done = run("embed", *MODEL, stdin=b"a dog\n" + b"dog " * 300 + b"\n")
    assert done.stderr == b"penstock embed: 1 input was cut to the model's 48 tokens\n"


def test_a_terminal_that_cannot_write_over_a_line_is_a_log(corpus, tmp_path):
    screen = Screen(80, *MODEL, corpus, "-o", tmp_path / "x.npy", TERM="dumb")
    assert screen.wait() == 0
    assert "\x1b" not in screen.text and not re.search(r"\r(?!\n)", screen.text), screen.text


def test_the_loading_of_a_model_is_shown_on_a_terminal(tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("a dog\n")
    for command, what in (("embed", "loading the model"), ("tokenize", "loading the tokenizer")):
        screen = Screen(80, *MODEL, source, command=command)
        assert screen.wait() == 0
        assert screen.text.rsplit(what, 1)[1].startswith("\r\x1b[K"), "the line is taken off again"
    quiet = Screen(80, *MODEL, source, "--quiet")
    assert quiet.wait() == 0 and quiet.text == ""
    assert b"loading" not in run("embed", *MODEL, source).stderr


def test_a_benchmark_tells_its_step(server):
    screen = Screen(100, "http", "--url", server.url, "--concurrency", "1,2", "--batch", 1, "--duration", 1, "--warmup", 0,
                    command="bench")
    assert screen.wait() == 0, screen.text
    shown = screen.pieces()
    assert any(re.fullmatch(r"1 of 2: batch=1 concurrency=1(, \d+ s)?, \d+ s left", piece) for piece in shown), shown
    assert any(piece.startswith("2 of 2: batch=1 concurrency=2") for piece in shown), shown
    log = run("bench", "http", "--url", server.url, "--concurrency", 1, "--batch", 1, "--duration", 1, "--warmup", 0)
    assert log.stderr == b"batch=1 concurrency=1 ...\n"
