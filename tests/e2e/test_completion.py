"""`penstock completion` in the shells it is for, and `penstock man` in the programs that read it."""
import os
import pty
import re
import select
import shutil
import signal
import subprocess

import pytest

from conftest import binary, clean_environment, run

# As readline cuts "--flag=value", with COMP_WORDBREAKS as it is at first.
BASH = r"""
source <("$1" completion bash) || exit 9
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_penstock "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""


def shell(name):
    path = shutil.which(name)
    if not path:
        pytest.skip(f"no {name}: tools/install_deps.sh test installs it")
    return path


def bash(*words, cwd=None):
    """What bash offers for the last word."""
    done = subprocess.run(["bash", "-c", BASH, "bash", binary(), "penstock", *words], capture_output=True, text=True,
                          cwd=cwd, timeout=30, env=clean_environment())
    assert done.returncode == 0 and not done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if line]


def commands(*group):
    listed = run(*group, "--help").stdout.decode()
    return re.findall(r"^  ([a-z][a-z-]*) +[A-Z]", listed.split("s:\n", 1)[1].split("\n\n")[0], re.MULTILINE)


def flags(*command):
    """Every name of a flag in the help."""
    text = run(*command, "--help-all").stdout.decode()
    titles = re.findall(r"^  (-[^\n]*)$", text, re.MULTILINE)
    return {name.split()[0] for title in titles for name in title.split(", ")}


def every_command():
    for command in commands():
        if command != "bench":
            yield (command,)
    for benchmark in commands("bench"):
        yield ("bench", benchmark)


def test_bash_offers_what_the_help_lists():
    assert bash("") == commands() + ["help", "--help", "--version"] and "completion" in commands()
    assert bash("man", "be") == ["bench"]
    assert bash("bench", "") == commands("bench") + ["help", "--help"]
    assert bash("help", "d") == ["doctor"]
    for command in every_command():
        assert set(bash(*command, "-")) == flags(*command), command


def test_bash_completes_values(tmp_path):
    (tmp_path / "texts.txt").touch()
    (tmp_path / "texts folder").mkdir()
    assert set(bash("embed", "--precision", "")) == {"float32", "float16", "int8", "binary"}
    assert set(bash("embed", "--precision", "=")) == {"float32", "float16", "int8", "binary"}
    assert set(bash("embed", "--precision", "=", "f")) == {"float32", "float16"}
    assert set(bash("embed", "--precision=f")) == {"--precision=float32", "--precision=float16"}
    assert bash("embed", "--on-error", "sk") == ["skip"]
    assert set(bash("bench", "http", "--priority", "")) == {"interactive", "bulk"}
    both = {"texts.txt", "texts folder"}
    assert set(bash("embed", "te", cwd=tmp_path)) == both
    assert set(bash("embed", "-o", "te", cwd=tmp_path)) == both
    assert set(bash("embed", "--output", "=", "te", cwd=tmp_path)) == both
    assert set(bash("embed", "-m", "te", cwd=tmp_path)) == both
    assert set(bash("embed", "--prompt", "x", "te", cwd=tmp_path)) == both
    assert bash("serve", "--repository", "te", cwd=tmp_path) == ["texts folder"]
    assert set(bash("generate", "te", cwd=tmp_path)) == both
    assert bash("embed", "--top", cwd=tmp_path) == []
    assert bash("embed", "--dimensions", "t", cwd=tmp_path) == []
    assert bash("embed", "--no-normalize", "=", cwd=tmp_path) == []
    assert set(bash("embed", "--", "te", cwd=tmp_path)) == both
    assert bash("embed", "--", "--", cwd=tmp_path) == []
    assert set(bash("completion", "")) == {"bash", "zsh", "fish"}
    assert bash("nothing", "") == [] and bash("bench", "nothing", "--") == []


def test_offered_values_are_taken():
    """The list of values that a flag describes is that of those it takes."""
    tried = 0
    for command in (("embed",), ("serve",), ("generate",), ("tokenize",)):
        script = run("completion", "bash").stdout.decode()
        table = re.search(rf"^    '{' '.join(command)}'\)$(.*?)^      esac ;;$", script, re.MULTILINE | re.DOTALL)[1]
        for names, values in re.findall(r"^        (\S+)\) _penstock_words \"\$cur\" '(.*)'; return ;;$", table, re.MULTILINE):
            for value in values.split():
                run(*command, names.split("|")[-1], value, "--print-config")
                tried += 1
    assert tried > 40


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_scripts_are_well_formed(name, tmp_path):
    script = tmp_path / name
    script.write_bytes(run("completion", name).stdout)
    done = subprocess.run([shell(name), "-n", script], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_fish_offers_them(tmp_path):
    fish = shell("fish")
    (tmp_path / "texts.txt").touch()

    def offered(line):
        command = f"{binary()} completion fish | source; complete -C '{line}'"
        done = subprocess.run([fish, "--no-config", "-c", command], capture_output=True, text=True, timeout=30,
                              cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)})
        assert done.returncode == 0 and not done.stderr, done.stderr
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    assert set(commands()) | {"help"} == set(offered("penstock "))
    assert set(commands("bench")) == set(offered("penstock bench "))
    assert set(offered("penstock embed --precision ")) == {"float32", "float16", "int8", "binary"}
    assert set(offered("penstock embed --precision=f")) == {"--precision=float32", "--precision=float16"}
    assert {"--model", "--plot"} <= set(offered("penstock embed --")) <= flags("embed")
    assert offered("penstock embed te") == ["texts.txt"]
    assert offered("penstock bench http --prio") == ["--priority"]
    assert offered("penstock chat --dtype i") == ["int8"] and offered("penstock list te") == []


def test_zsh_knows_the_function(tmp_path):
    zsh = shell("zsh")
    script = ("autoload -U compinit && compinit -D -u && source <($PENSTOCK completion zsh) && print -r -- $_comps[penstock]"
              " && functions _penstock > /dev/null")
    done = subprocess.run([zsh, "-f", "-c", script], capture_output=True, text=True, timeout=60,
                          env={**clean_environment(), "PENSTOCK": binary(), "HOME": str(tmp_path)})
    assert done.returncode == 0 and done.stdout == "_penstock\n" and not done.stderr, done.stderr


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh: tools/install_deps.sh test installs it")
def test_zsh_completes(tmp_path):
    """In an interactive zsh on a terminal of its own: the words that Tab makes of some letters."""
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**clean_environment(), "PENSTOCK": binary(), "HOME": str(tmp_path), "TERM": "xterm"})
    shown = ""

    def wait_for(text):
        nonlocal shown
        while text not in shown:
            assert select.select([terminal], [], [], 30)[0], shown
            shown += os.read(terminal, 65536).decode()

    try:
        for line, wanted in (("autoload -U compinit && compinit -D -u && source <($PENSTOCK completion zsh) && print 're'ady", "ready\r\n"),
                             ('penstock() { print -r -- "<$*>" } && print "go"od', "good\r\n"),
                             ("penstock emb\t--prec\tbin\t", "<embed --precision=binary>"),
                             ("penstock benc\tht\t--prio\tbu\t", "<bench http --priority=bulk>"),
                             ("penstock help doc\t", "<help doctor>")):
            os.write(terminal, line.encode() + b"\n")
            wait_for(wanted)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


def test_mistakes():
    assert run("completion", check=False).returncode == 2
    assert b"is not bash, fish or zsh" in run("completion", "ksh", check=False).stderr
    done = run("man", "nothing", check=False)
    assert done.returncode == 2 and b"there is no command 'nothing'" in done.stderr
    assert run("man", "--folder", "/dev/null/x", check=False).returncode == 1
    assert run("man", "--folder", "x", "serve", check=False).returncode == 2
    assert run("help", "serve").stdout == run("serve", "--help").stdout
    assert run("help", "bench", "http").stdout == run("bench", "http", "--help").stdout
    assert run("bench", "help", "http").stdout == run("bench", "http", "--help").stdout
    assert run("help", "nothing", check=False).returncode == 2


def test_manual_pages(tmp_path):
    run("man", "--folder", tmp_path / "man1")
    pages = {path.name for path in (tmp_path / "man1").iterdir()}
    assert pages == {"penstock.1", "penstock-bench.1"} | {f"penstock-{'-'.join(c)}.1" for c in every_command()}
    assert (tmp_path / "man1/penstock-bench-http.1").read_bytes() == run("man", "bench", "http").stdout
    assert (tmp_path / "man1/penstock.1").read_bytes() == run("man").stdout


def words(text):
    return re.sub(r"\s+", "", re.sub(r"\x1b\[[0-9;]*m|.\x08", "", text).replace("\u2010", "-"))


def test_man_shows_them(tmp_path):
    """Without a warning, and with every flag, description and example of --help-all."""
    man = shell("man")
    for command in [(), ("bench",), *every_command()]:
        page = tmp_path / "page.1"
        page.write_bytes(run("man", *command).stdout)
        done = subprocess.run([man, "--warnings=w", "--encoding=UTF-8", "-l", page], capture_output=True, text=True, timeout=30,
                              env={**os.environ, "MANWIDTH": "500", "MANPAGER": "cat", "MANROFFOPT": "", "LC_ALL": "C.UTF-8"})
        assert done.returncode == 0 and not done.stderr, (command, done.stderr)
        if not command or command == ("bench",):
            continue
        shown = words(done.stdout)
        text = run(*command, "--help-all").stdout.decode()
        for title, description in re.findall(r"^  (-[^\n]*)\n((?:          [^\n]*\n)+)", text, re.MULTILINE):
            assert words(title) in shown, (command, title)
            assert words(description) in shown, (command, description)
        for example in text.split("\nExamples:\n")[1].splitlines():
            assert words(example) in shown, (command, example)


def test_a_flag_before_the_command():
    for group in ((), ("bench",)):
        done = run(*group, "--model", "x", check=False)
        kind = b"benchmark" if group else b"command"
        assert done.returncode == 2 and b"a " + kind + b" comes before --model" in done.stderr, done.stderr
