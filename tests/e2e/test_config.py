"""Where settings come from: flags, variables, the file; what is said of wrong ones; what help shows."""
import json
import re
import subprocess
import tomllib

import pytest

from conftest import CLASSIFY, EMBED, GOLDEN, RERANK, ROOT, clean_environment, run, wait_for

MODEL = GOLDEN / EMBED


@pytest.fixture
def config(tmp_path):
    """config(text) writes a file and gives the flags that name it."""
    def write(text):
        path = tmp_path / "penstock.toml"
        path.write_text(text)
        return ["--config", path]
    return write


def refused(*args, env=None, code=2):
    done = run(*args, env=env, check=False, stdin=b"", timeout=20)
    assert done.returncode == code, done.stderr
    text = done.stderr.decode()
    assert text.count("\n") == 1, text
    return text


def settings(*args, env=None):
    """What --print-config says: values, and the text."""
    text = run(*args, "--print-config", env=env).stdout.decode()
    table = tomllib.loads(text)
    for word in args[0].split():
        table = table[word]
    return table, text


# ---- The command line

@pytest.mark.parametrize("args,said", [
    (["serve", "--modle", "M"], "unknown flag --modle; did you mean --model?"),
    (["rerank", "--qurey", "x"], "did you mean --query?"),
    (["embed", "--max_batch_tokens=3"], "did you mean --max-batch-tokens?"),
    (["embed", "texts", "--dtpye", "f32"], "did you mean --dtype?"),
    (["lab", "soak", "--duratoin", "3"], "did you mean --duration?"),
    (["lab", "soak"], "--model is required"),
    (["lab", "kernel"], "did you mean kernels?"),
    (["bench", "saturation"], "has moved to penstock-lab"),
    (["bench", "gnerate"], "did you mean generate?"),
    (["srve"], "did you mean serve?"),
    (["serve", "--port"], "--port needs a value"),
    (["serve", "--port", "--no-pin"], "--port needs a value; --no-pin after it is a flag"),
    (["serve", "--port", "1", "--port=2"], "--port is given twice"),
    (["serve", "-p1", "-p", "2"], "-p is given twice"),
    (["serve", "--port", "99999"], "--port: '99999' is not a whole number from 0 to 65535"),
    (["serve", "--access-log=perhaps"], "--access-log: 'perhaps' is not true or false"),
    (["serve", "--max-body-bytes", "32M"], "--max-body-bytes: '32M' is not a number of bytes, or one with B, kB"),
    (["serve", "--read-timeout-ms=1 week"], "us, ms, s, min, h or d"),
    (["serve", "--shutdown-timeout-s", "500ms"], "'500ms' is not a whole number from 0 to 86400"),
    (["serve", "--log-level", "loud"], "--log-level: "),
    (["embed", "--format=yaml", "x"], "'yaml' is not auto, text, "),
    (["lab", "kernels", "--shape", "huge"], "'huge' is not MiniLM-L6, "),
])
def test_mistakes_on_the_line(args, said):
    assert said in refused(*args)


def test_help_wins_over_a_mistake():
    assert b"--model" in run("serve", "--modle", "--help").stdout


def test_flags_stand_before_and_behind_files(tmp_path):
    texts = tmp_path / "-texts.txt"
    texts.write_text("dog\n")
    base = ["tokenize", "--model", MODEL]
    wanted = run(*base, stdin=b"dog\n").stdout
    for args in ([texts, "--batch", "2"], ["--batch=2", texts], ["-q", texts, "--batch", "2"]):
        assert run(*base, *args).stdout == wanted
    assert run(*base, "--", texts.name, cwd=tmp_path).stdout == wanted


# ---- Variables

def test_lists_in_variables():
    models = f"a={MODEL},b={GOLDEN / RERANK}"
    env = clean_environment(PENSTOCK_MODEL=models, PENSTOCK_CORS_ALLOW_ORIGIN="http://a, http://b",
                            PENSTOCK_ALLOWED_HOST="one\n\n two\n", PENSTOCK_SERVED_MODEL_NAME="x,1\ny\n",
                            PENSTOCK_INT8_KEEP="0,ff-out")
    table, _ = settings("serve", env=env)
    assert table["model"] == models.split(",") and table["served-model-name"] == ["x,1", "y"]
    assert table["cors-allow-origin"] == ["http://a", "http://b"] and table["allowed-host"] == ["one", "two"]
    assert table["int8-keep"] == "0,ff-out"
    assert "PENSTOCK_API_KEY is set but empty" in refused("serve", env=clean_environment(PENSTOCK_API_KEY="a,,b"))


@pytest.mark.parametrize("keys", ["key-one,key-two", "key-one\nkey-two\n", "key-one , key-two"])
def test_two_keys_in_a_variable(keys, start):
    server = start(env=clean_environment(PENSTOCK_API_KEY=keys))
    for key, status in (("key-one", 200), ("key-two", 200), (keys.strip(), 401), ("key-one,", 401)):
        if "\n" in key:
            continue
        answer = server.get("/v1/models", headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == status, key


@pytest.mark.parametrize("variable,value,name,wanted", [
    ("PENSTOCK_NO_PIN", "1", "pin", False), ("PENSTOCK_NO_PIN", "no", "pin", True),
    ("PENSTOCK_PIN", "FALSE", "pin", False), ("PENSTOCK_ACCESS_LOG", "yes", "access-log", True),
    ("PENSTOCK_NO_AUTO_TRUNCATE", "true", "auto-truncate", False), ("PENSTOCK_HTTP_THREADS", "3", "io-threads", 3),
    ("PENSTOCK_MAX_BATCH_SEQUENCES", "7", "max-batch-rows", 7),
    ("PENSTOCK_MAX_BODY_BYTES", "1MiB", "max-body-bytes", "1MiB"),
])
def test_every_flag_is_a_variable(variable, value, name, wanted):
    table, text = settings("serve", env=clean_environment(**{variable: value}))
    assert table[name] == wanted and f"# variable {variable}\n" in text


def test_unknown_variables_are_named_and_wrong_ones_refused():
    env = clean_environment(PENSTOCK_PROT="1", PENSTOCK_DIMENSIONS="4", PENSTOCK_SERVICE_HOST="10.0.0.1",
                            PENSTOCK_CPU_ISA="")
    done = run("serve", "--print-config", env=env)
    assert done.stderr.decode() == (
        "penstock serve: warning: the variable PENSTOCK_PROT is of no flag and is ignored; did you mean PENSTOCK_PORT?\n")
    for variable, value, said in (("PENSTOCK_PORT", "99999", "PENSTOCK_PORT: '99999' is not a whole number from 0 to"),
                                  ("PENSTOCK_NO_PIN", "2", "PENSTOCK_NO_PIN: '2' is not true or false")):
        assert said in refused("serve", env=clean_environment(**{variable: value}))


# ---- The file

def test_one_file_for_several_commands(config):
    flags = config(f"""
model = "{MODEL}"
port = 1_234              # of serve, but before the tables
dimensions = 4            # of embed
max-body-bytes = "32MB"
[serve]
port = 0
idle-timeout-ms = "1h"
no-pin = true
[embed]
batch = 2
[bench.http]
duration = "500ms"
""")
    done = run("embed", *flags, stdin=b"dog")
    assert len(json.loads(done.stdout)["embedding"]) == 4 and done.stderr.count(b"\n") == 0
    for command in ("tokenize", "classify", "inspect", "doctor"):
        settings(command, *flags)
    table, text = settings("serve", *flags)
    assert table["port"] == 0 and table["pin"] is False and f"port = 0  # {flags[1]}:7\n" in text
    assert settings("serve", *flags, env=clean_environment(PENSTOCK_PORT="7"))[0]["port"] == 7
    assert settings("serve", *flags, "-p8", env=clean_environment(PENSTOCK_PORT="7"))[0]["port"] == 8
    env = clean_environment(PENSTOCK_CONFIG=str(flags[1]))
    assert settings("serve", env=env)[0]["idle-timeout-ms"] == "1h"
    printed = run("bench", "http", *flags, "--print-config").stdout.decode()
    assert tomllib.loads(printed)["bench"]["http"]["duration"] == "500ms"


def test_models_have_tables(config, start):
    flags = config(f"""
[models.first]
model = "{MODEL}"
dtype = "int8"
[models.second]
path = "{GOLDEN / RERANK}"
[models.third]
path = "{GOLDEN / CLASSIFY}"
dtype = "bf16"
""")
    # The tests' own PENSTOCK_DTYPE would win.
    env = clean_environment()
    env.pop("PENSTOCK_DTYPE")
    server = start(*flags, env=env, model=False)
    served = {model["id"]: model for model in server.get("/v1/models").json()["data"]}
    assert {"first", "second", "third"} <= set(served)
    shown = json.loads(run("inspect", *flags, "--model", "first", "--json", env=env).stdout)
    assert shown["name"] == "first" and shown["dtype"] == "int8"
    table, _text = settings("serve", *flags, "--model", "third", env=env)
    assert table["model"] == f"third={GOLDEN / CLASSIFY}" and table["dtype"] == "third=bf16"


def test_the_example_of_the_documentation(config):
    text = (ROOT / "docs" / "CONFIGURATION.md").read_text()
    flags = config(text.split("```toml\n")[1].split("```")[0])
    env = clean_environment()
    env.pop("PENSTOCK_DTYPE")
    table, _ = settings("serve", *flags, env=env)
    assert table["model"] == ["minilm,text-embedding-3-small=sentence-transformers/all-MiniLM-L6-v2",
                              "rank=/srv/models/reranker"]
    assert table["dtype"] == "minilm=int8" and table["int8-keep"] == "minilm=0,ff-out"
    assert settings("embed", *flags)[0]["batch"] == 128
    assert settings("rerank", *flags, "--model", "rank")[0]["model"] == "rank=/srv/models/reranker"


@pytest.mark.parametrize("text,said", [
    ("threads = 1\nport = \n", ":2: "), ("port = 1\n\nport = 2\n", ":3: "), ("port 1\n", ":1: "),
    ("api_key = 'k'\n", ":1: unknown key 'api_key'; did you mean api-key?"),
    ("\nprot = 1\n", ":2: unknown key 'prot'; did you mean port?"),
    ("[sevre]\nport = 1\n", ":1: unknown table [sevre]; did you mean [serve]?"),
    ("[serve]\ndimensions = 1\n", ":2: unknown key 'dimensions' in [serve]"),
    ("port = ''\n", ":1: port is set but empty"), ("cors-allow-origin = []\n", ":1: cors-allow-origin is set but empty"),
    ("\nport = 99999\n", ":2: port: '99999' is not a whole number from 0 to 65535"),
    ("port = true\n", ":1: port: 'true' is not a whole number"), ("pin = 'maybe'\n", ":1: pin is to be true or false"),
    ("max-body-bytes = '1XB'\n", ":1: max-body-bytes: '1XB' is not"),
    ("[models.a]\nmodel = 'x'\nprot = 1\n", ":3: unknown key 'prot' in [models.a]"),
    ("[models.a]\ndtype = 'f32'\n", ":1: [models.a] has no 'model'"),
])
def test_mistakes_in_the_file_have_a_line(config, text, said):
    flags = config(text)
    assert f"{flags[1]}{said}" in refused("serve", *flags)


# ---- What is printed

def test_printed_settings_are_a_file(config, tmp_path):
    env = clean_environment(PENSTOCK_API_KEY="hush-hush", PENSTOCK_REDIS_URL="redis://:hush@host:1")
    args = ["serve", *config("max-connections = 9\n"), "--threads", "1", "--model", 'a="b"', "--model", "c"]
    table, text = settings(*args, env=env)
    assert "hush" not in text and "# api-key is set, and secret  # variable PENSTOCK_API_KEY\n" in text
    assert table["max-connections"] == 9 and f"max-connections = 9  # {tmp_path}/penstock.toml:1\n" in text
    assert "threads = 1  # flag\n" in text and "replicas = 1  # default\n" in text
    (tmp_path / "again.toml").write_text(text)
    again, _ = settings("serve", "--config", tmp_path / "again.toml")
    assert again == table


@pytest.mark.parametrize("command", ["serve", "embed", "rerank", "classify", "tokenize", "inspect", "doctor",
                                     "bench http", "lab batcher", "lab kernels", "lab soak", "lab policy",
                                     "lab saturation", "bench reindex", "lab stages", "bench chat",
                                     "lab chat-http", "lab ui"])
def test_help(command):
    for flag in ("--help", "--help-all"):
        text = run(*command.split(), flag).stdout.decode()
        assert not re.search(r"\[\[\d", text) and "\n\n\n" not in text
        assert not [line for line in text.splitlines() if line != line.rstrip()]
        assert ("--redis-url" in text) == ((not command.startswith(("bench", "lab")) and (command == "serve" or flag == "--help-all"))
                                           or (command in ("lab stages", "lab ui") and flag == "--help-all"))
    tomllib.loads(run(*command.split(), "--print-config").stdout.decode())


def test_help_of_little_commands():
    for command in ("inspect", "tokenize"):
        text = run(command, "--help").stdout.decode()
        for rare in ("--replicas", "--linger-us", "--threads", "--redis"):
            assert rare not in text
        assert "--help-all" in text and "--model" in text
    assert "a second such signal ends the server at once" in " ".join(run("serve", "--help").stdout.decode().split())
    assert "MiniLM-L6, bge-base" in " ".join(run("lab", "kernels", "--help").stdout.decode().split())
    made = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    assert "\ne2e " in made


def test_shapes_in_any_case():
    run("lab", "kernels", "--shape", "minilm-l6", "--dtype", "F32", "--tokens", 1, "--rounds", 1, "--threads", 1,
        "--no-onednn", timeout=120)


# ---- Warnings

def test_more_threads_than_processors():
    done = run("embed", "--model", MODEL, "--threads", 200, stdin=b"dog")
    assert b"--threads 200: this process may use" in done.stderr
    assert b"--threads" not in run("embed", "--model", MODEL, "--threads", 1, stdin=b"dog").stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_access_log_is_apart_from_the_level(start, form):
    for level in ("warn", "off"):
        server = start("--access-log", "--log-level", level, "--log-format", form)
        server.post("/embed", {"inputs": "dog"})
        assert wait_for(lambda: any("/embed" in line for line in server.log)), server.log
        assert all("/embed" in line for line in server.log)  # and nothing else of that level
    quiet = start("--log-level", "warn")
    quiet.post("/embed", {"inputs": "dog"})
    quiet.stop()
    assert not quiet.log
