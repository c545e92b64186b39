"""penstock chat: through a pipe, and on a pseudo-terminal as a person types.

The model has random weights: what it says means nothing, but is what `penstock generate` says after
the same text. --logit-bias makes it say a token again and again.
"""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest

from conftest import ROOT, binary, clean_environment, run, wait_for

TINY = ROOT / "tests" / "golden" / "decoders" / "llama"
CHATML = ("{% for message in messages %}<|turn|>{{ message.role }}\n{{ message.content }}<|end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}")
# Thinking has begun when the reply begins.
THINKER = CHATML.replace("<|turn|>assistant\n{% endif %}", "<|turn|>assistant\n<think>\n{% endif %}{# </think> #}")
A = ("--logit-bias", f"{ord('A')}=100", "--ignore-eos")
DIM = "\x1b[2m"


def chatml(*messages):
    return "".join(f"<|turn|>{role}\n{text}<|end|>\n" for role, text in messages) + "<|turn|>assistant\n"


def copy(folder, template, context=200_000):
    shutil.copytree(TINY, folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = context
    (folder / "config.json").write_text(json.dumps(config))
    if template:
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return copy(tmp_path_factory.mktemp("chat") / "tiny", CHATML)


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    folder = copy(tmp_path_factory.mktemp("chat") / "thinker", THINKER)
    tokenizer = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(tokenizer.replace("<|turn|>", "</think>"))
    return folder


def environment(**more):
    kept = clean_environment(**more)
    del kept["PENSTOCK_DTYPE"]
    return {name: value for name, value in kept.items() if name != "NO_COLOR"} | more


def flags(model, *more, context=2048):
    return ("chat", "-m", model, "--context", context, "--temperature", "0", "--dtype", "f32", "--cache-type", "f32",
            *more)


def chat(model, *more, lines=None, context=2048, **options):
    stdin = "".join(line + "\n" for line in lines or []).encode()
    return run(*flags(model, *more, context=context), stdin=stdin, env=environment(), **options)


def said(model, text, tokens):
    """What `penstock generate` says after a rendered conversation."""
    return run("generate", "-m", model, "--context", "2048", "--temperature", "0", "--dtype", "f32", "--cache-type",
               "f32", "-q", "-n", tokens, "--no-special-tokens", "-p", text, env=environment()).stdout


# ---- Through a pipe


def test_turns_are_what_generate_says_after_the_rendered_conversation(model):
    hello = "Hi, what is the weather like where you are?"  # more than a block of the cache
    first = said(model, chatml(("user", hello)), 12)
    assert chat(model, "-n", "12", "-p", hello).stdout == first
    turns = [("user", hello), ("assistant", first[:-1].decode()), ("user", "And then?")]
    second = said(model, chatml(*turns), 12)
    done = chat(model, "-n", "12", "--verbose", lines=[hello, "And then?"])
    assert done.stdout == first + second
    cached = [int(count) for count in re.findall(rb"(\d+) cached", done.stderr)]
    assert cached[0] == 0 and cached[1] > 0, done.stderr


def test_system_reset_and_retry(model):
    alone = said(model, chatml(("user", "Hi")), 8)
    brief = said(model, chatml(("system", "Be brief."), ("user", "Hi")), 8)
    assert alone != brief
    assert chat(model, "-n", "8", "--system", "Be brief.", "-p", "Hi").stdout == brief
    done = chat(model, "-n", "8", lines=["Hi", "/retry", "/reset", "Hi", "/clear", "/system Be brief.", "Hi", "/exit",
                                         "Hi"])
    assert done.stdout == 3 * alone + brief


def test_a_retry_with_a_seed_draws_anew(model):
    drawn = ("-n", "10", "--seed", "1", "--logit-bias", "10=-100", "--logit-bias", "13=-100")
    done = run("chat", "-m", model, "--temperature", "2", *drawn, stdin=b"Hi\n/retry\n/reset\nHi\n", env=environment())
    first, second, third = done.stdout[:-1].split(b"\n")
    assert first == third != second


def test_messages_of_several_lines(model):
    wanted = said(model, chatml(("user", "one\n/two\nthree")), 8)
    for lines in (['"""one', "/two", 'three"""'], ['"""', "one", "/two", "three", '"""'],
                  ["one\\", "/two\\", "three"], ['"""one', "/two", "three"]):
        assert chat(model, "-n", "8", lines=lines).stdout == wanted, lines
    piped = run(*flags(model, "-n", "8", "-p", "-"), stdin=b"one\n/two\nthree\n", env=environment())
    assert piped.stdout == wanted
    assert chat(model, "-n", "8", lines=["//two"]).stdout == said(model, chatml(("user", "/two")), 8)
    assert chat(model, "-n", "8", lines=["", "  ", "Hi\r"]).stdout == said(model, chatml(("user", "Hi")), 8)


def test_a_pipe_gets_replies_alone(model):
    done = chat(model, *A, "-n", "3", lines=["Hi", "/help", "/set", "/system"])
    assert done.stdout == b"AAA\n"
    assert b"/retry" in done.stderr and b"temperature" in done.stderr


def test_settings_change_within_a_conversation(model):
    done = chat(model, *A, "-n", "3", lines=["Hi", "/set max_tokens 5", "Hi"])
    assert done.stdout == b"AAA\nAAAAA\n"
    assert done.stderr.count(b"--max-tokens") == 2


@pytest.mark.parametrize("line,told", [("/frob", b"no command /frob"), ("/set heat 1", b"'heat'"),
                                       ("/set temperature 9", b"temperature"), ("/reset now", b"takes no arguments"),
                                       ("/retry", b"no reply yet")])
def test_a_wrong_command_ends_a_pipe(model, line, told):
    done = chat(model, "-n", "3", lines=[line, "Hi"], check=False)
    assert done.returncode == 1 and told in done.stderr and done.stdout == b"", done.stderr


def test_a_full_context_is_told_with_both_numbers(model):
    done = chat(model, *A, context=64, lines=["Hi"])
    assert done.stdout == b"A" * 43 + b"\n"
    assert b"21 tokens of conversation and 43 tokens of this reply are its 64" in done.stderr and b"/reset" in done.stderr
    done = chat(model, *A, context=64, lines=["x" * 100], check=False)
    assert done.returncode == 1 and done.stdout == b""
    assert b"119 tokens" in done.stderr and b"holds 64" in done.stderr and b"/reset" in done.stderr
    # More tokens than fit are not a mistake: they are the most there may be.
    assert chat(model, *A, "-n", "60", context=64, lines=["Hi"]).stdout == b"A" * 43 + b"\n"


def test_a_template_of_ones_own(model, tmp_path):
    bare = copy(tmp_path / "bare", None)
    done = chat(bare, "-p", "Hi", check=False)
    assert done.returncode == 1 and b"no chat template" in done.stderr and b"--chat-template" in done.stderr
    file = tmp_path / "own.jinja"
    file.write_text("{{ bos_token }}{{ name }}: {{ messages[-1].content }}")
    text = said(bare, "<|begin|>Ann: Hi", 8)
    assert chat(bare, "-n", "8", "--chat-template", file, "--chat-template-kwargs", '{"name": "Ann"}', "-p",
                "Hi").stdout == text
    file.write_text("{% if %}")
    broken = chat(bare, "--chat-template", file, "-p", "Hi", check=False)
    assert broken.returncode == 1 and b"own.jinja" in broken.stderr
    for kwargs in ("[1]", "{"):
        wrong = chat(model, "--chat-template-kwargs", kwargs, "-p", "Hi", check=False)
        assert wrong.returncode == 1 and b"--chat-template-kwargs" in wrong.stderr


def test_a_template_that_refuses_says_why(model, tmp_path):
    file = tmp_path / "own.jinja"
    file.write_text("{% if messages[0].role == 'system' %}{{ raise_exception('No system, please') }}{% endif %}Hi")
    done = chat(model, "--chat-template", file, "--system", "x", "-p", "Hi", check=False)
    assert done.returncode == 1 and b"No system, please" in done.stderr


def test_thinking_stays_out_of_a_pipe(thinker):
    end = ("--logit-bias", "259=100", "--ignore-eos")  # </think>, a special token here
    assert chat(thinker, *A, "-n", "3", "-p", "Hi").stdout == b"\n"
    assert chat(thinker, *end, "-n", "3", "-p", "Hi").stdout == b"</think></think>\n"


def test_usage():
    for wrong in (["--frob"], ["-p"], ["--temperature", "9"], ["stray"]):
        done = run("chat", *wrong, check=False)
        assert done.returncode == 2 and b"penstock chat" in done.stderr
    text = run("chat", "--help").stdout.decode()
    for flag in ("--system", "--chat-template", "--no-thinking", "--verbose", "--prompt", "--max-tokens", "--seed"):
        assert flag in text, flag
    assert run("chat", "-m", "/nowhere", "-p", "x", check=False).returncode == 1


def test_a_signal_ends_a_pipe(model):
    for number in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen([binary(), *map(str, flags(model, *A, "-p", "Hi", context=200_000))],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        assert process.stdout.read(4) == b"AAAA"
        process.send_signal(number)
        process.communicate(timeout=20)
        assert process.returncode == 128 + number


# ---- On a terminal


class Terminal:
    """penstock chat on a pseudo-terminal."""

    def __init__(self, *args, **more):
        self.here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))

        def own():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([binary(), *map(str, args)], stdin=there, stdout=there, stderr=there,
                                        env=environment(TERM="xterm", **more), preexec_fn=own)
        os.close(there)
        self.seen = ""

    def until(self, text, timeout=30):
        """Everything up to and with the next `text`."""
        end = time.monotonic() + timeout
        while text not in self.seen:
            left = end - time.monotonic()
            assert left > 0, (text, self.seen)
            if select.select([self.here], [], [], left)[0]:
                try:
                    block = os.read(self.here, 65536)
                except OSError:  # the other end is closed
                    block = b""
                assert block, (text, self.seen)
                self.seen += block.decode(errors="replace")
        at = self.seen.index(text) + len(text)
        before, self.seen = self.seen[:at], self.seen[at:]
        return before

    def type(self, text):
        os.write(self.here, text.encode())

    def left(self, timeout=20):
        """The exit code, once it has left."""
        end = time.monotonic() + timeout
        while self.process.poll() is None and time.monotonic() < end:
            if select.select([self.here], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self.here, 65536).decode(errors="replace")
        code = self.process.poll()
        assert code is not None, self.seen
        return code


@pytest.fixture
def terminal():
    made = []

    def start(*args, **more):
        made.append(Terminal(*args, **more))
        made[-1].until(">>> ")
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        os.close(one.here)


def test_a_conversation_on_a_terminal(model, terminal):
    one = terminal(*flags(model, *A, "-n", "5", "--verbose"))
    one.type("Hi, what is the weather like where you are?\n")  # more than a block of the cache
    first = one.until(">>> ")
    assert "AAAAA\r\n" in first and "5 tokens" in first and " 0 cached]" in first and DIM in first
    one.type("More\n")
    assert re.search(r" [1-9]\d* cached]", one.until(">>> "))
    one.type("/frob\n")
    assert "no command /frob" in one.until(">>> ")
    one.type("/system Be brief.\n")
    one.until(">>> ")
    one.type("/system\n")
    assert "Be brief." in one.until(">>> ").replace("/system Be brief.", "")
    one.type("/exit\n")
    assert one.left() == 0


def test_keys_of_the_line(model, terminal):
    one = terminal(*flags(model, "-n", "2"))
    one.type("/systen\x7fm äöü\n")  # a backspace
    one.until(">>> ")
    one.type("/exit\x01\x0b/system\n")  # to the beginning, and cut what is behind it
    one.until("läöü\r\n")  # behind the end of a command of the terminal
    one.until(">>> ")
    one.type("\x1b[A\x1b[A xyz\n")  # up, up: the first line; more goes behind it
    one.until(">>> ")
    one.type("/system\n")
    one.until("läöü xyz\r\n")
    one.until(">>> ")
    one.type("\x04")
    assert one.left() == 0


def test_no_colour_is_asked_for(model, terminal):
    one = terminal(*flags(model, *A, "-n", "5", "--verbose"), NO_COLOR="1")
    one.type("Hi\n")
    assert DIM not in one.until(">>> ")


def test_several_lines_and_pastes(model, terminal):
    one = terminal(*flags(model, *A, "-n", "4", "--verbose"))
    for typed in ("one\\\ntwo\n", '"""one\ntwo"""\n', "\x1b[200~one\rtwo\x1b[201~\n"):
        one.type(typed)
        shown = one.until(">>> ")
        assert "... " in shown, typed
        assert shown.count("AAAA\r\n") == 1 and "prompt 26 tokens" in shown, shown
        one.type("/reset\n")
        one.until(">>> ")


def test_ctrl_c_stops_a_reply_and_keeps_the_conversation(model, terminal):
    one = terminal(*flags(model, *A, "--verbose", context=200_000))
    one.type("Hi\n")
    one.until("AAAA")
    one.type("\x03")
    stopped = one.until(">>> ")
    assert "stopped; what was said stays" in stopped
    tokens = int(re.search(r"\[(\d+) tokens", stopped).group(1))
    one.type("/set max-tokens 3\n")
    one.until(">>> ")
    one.type("More\n")
    after = one.until(">>> ")
    assert "AAA\r\n" in after
    prompt = int(re.search(r"prompt (\d+) tokens", after).group(1))
    cached = int(re.search(r"(\d+) cached", after).group(1))
    assert prompt > tokens and cached > tokens - 64, after
    # At the prompt it says how to leave, and the second leaves.
    one.type("half a line\x03")
    assert "to leave: /exit" in one.until(">>> ")
    one.type("/set max-tokens 2\n")
    one.until(">>> ")
    one.type("\x03")
    one.until(">>> ")
    one.type("\x03")
    assert one.left() == 128 + signal.SIGINT


def test_ctrl_c_before_the_first_text_takes_the_message_back(model, terminal):
    one = terminal(*flags(model, *A, "--system", "x" * 60_000, context=100_000))
    one.type("Hi\n")
    one.until("Hi\r\n")
    one.type("\x03")
    assert "the message is not in the conversation" in one.until(">>> ")
    one.type("/retry\n")
    assert "no reply yet" in one.until(">>> ")


def test_a_stopped_process_goes_on(model, terminal):
    one = terminal(*flags(model, *A, "-n", "4"))
    one.type("He")
    one.until("He")
    one.type("\x1a")
    stat = f"/proc/{one.process.pid}/stat"
    assert wait_for(lambda: open(stat).read().rsplit(")", 1)[1].split()[0] == "T", 20)
    assert termios.tcgetattr(one.here)[3] & termios.ICANON  # the terminal is its owner's meanwhile
    one.process.send_signal(signal.SIGCONT)
    one.until(">>> He")
    one.type("llo\n")
    assert "AAAA\r\n" in one.until("\r\n\r\n")


def test_ctrl_c_drops_a_message_that_has_begun(model, terminal):
    one = terminal(*flags(model, *A, "-n", "4"))
    one.type('"""one\n')
    one.until("... ")
    one.type("\x03")
    one.until(">>> ")
    one.type("/exit\n")
    assert one.left() == 0


def test_the_terminal_is_as_it_was(model, terminal):
    one = terminal(*flags(model, "-n", "2"))
    one.process.send_signal(signal.SIGTERM)
    assert one.left() == 128 + signal.SIGTERM
    assert termios.tcgetattr(one.here)[3] & termios.ICANON


def test_controls_of_the_model_do_not_reach_the_terminal(model, terminal):
    one = terminal(*flags(model, "--logit-bias", "27=100", "--ignore-eos", "-n", "3"))
    one.type("Hi\n")
    assert "\\x1b\\x1b\\x1b\r\n" in one.until(">>> ")


def test_a_full_context_on_a_terminal(model, terminal):
    one = terminal(*flags(model, *A, context=64))
    one.type("Hi\n")
    assert "are its 64" in one.until(">>> ")
    one.type("Hi\n")
    refused = one.until(">>> ")
    assert "holds 64" in refused and "/reset" in refused
    one.type("/reset\n")
    one.until(">>> ")
    one.type("Hi\n")
    assert "are its 64" in one.until(">>> ")


def test_thinking_on_a_terminal(thinker, terminal):
    one = terminal(*flags(thinker, *A, "-n", "4"))
    one.type("Hi\n")
    assert DIM + "AAAA\r\n\x1b[0m" in one.until(">>> ")
    one = terminal(*flags(thinker, *A, "-n", "4", "--no-thinking"))
    one.type("Hi\n")
    shown = one.until(">>> ")
    assert "(thinking)" in shown and "AAAA" not in shown


# ---- A model that was trained


@pytest.mark.skipif("PENSTOCK_SMOLLM2" not in os.environ, reason="NO SMOLLM2: set PENSTOCK_SMOLLM2")
def test_two_turns_with_the_demonstration_model():
    done = run("chat", "-m", os.environ["PENSTOCK_SMOLLM2"], "--temperature", "0", "-n", "40", "--verbose",
               stdin=b"What is the capital of France?\nIn which country is that city?\n", env=environment(), timeout=120)
    first, second = done.stdout.decode().split("\n", 1)
    assert "Paris" in first and "France" in second, done.stdout
    prompts = [int(count) for count in re.findall(rb"prompt (\d+) tokens", done.stderr)]
    cached = [int(count) for count in re.findall(rb"(\d+) cached", done.stderr)]
    assert cached[0] == 0 and cached[1] > prompts[0] - 32, done.stderr
