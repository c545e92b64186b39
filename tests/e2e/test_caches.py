"""Caches: hit rates are exported, results do not change, and a Redis shared by two servers may come
and go."""
import hmac
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import pytest

from conftest import ROOT, clean_environment, model_args, run, wait_for

TEXTS = [f"a text about dogs, cats and the number {i}" for i in range(40)]
HITS = 'penstock_cache_hits_total{cache="%s"}'
RESULTS = ("--result-cache-bytes", str(1 << 20))
BARE = ROOT / "tests" / "golden" / "decoders" / "llama"
PROMPT = "Once upon a time there was a prompt that is longer than a block of the cache, and a secret in it."


def test_tokens_are_cached(start):
    server = start()
    first = server.post("/embed", {"inputs": TEXTS}).content
    assert server.metrics()[HITS % "token"] == 0
    assert server.post("/embed", {"inputs": TEXTS}).content == first
    values = server.metrics()
    assert values[HITS % "token"] == len(TEXTS)
    assert values['penstock_cache_bytes{cache="token"}'] > 0
    # Results are not, unless asked for.
    assert values[HITS % "result"] == 0
    assert values['penstock_tokens_total{behaviour="embed"}'] > 0


def test_results_are_cached_bit_by_bit(start):
    plain = start("--token-cache-bytes", "0")
    server = start(*RESULTS)
    wanted = plain.post("/embed", {"inputs": TEXTS}).content
    assert server.post("/embed", {"inputs": TEXTS[::2]}).status_code == 200
    assert server.post("/embed", {"inputs": TEXTS}).content == wanted
    assert server.post("/embed", {"inputs": TEXTS}).content == wanted
    values = server.metrics()
    assert values[HITS % "result"] == len(TEXTS[::2]) + len(TEXTS)
    assert values['penstock_cache_misses_total{cache="result"}'] == len(TEXTS)
    assert plain.metrics()[HITS % "token"] == 0


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def cached_tokens(server, key, route="/v1/completions", **more):
    body = {"messages": [{"role": "user", "content": PROMPT}]} if "chat" in route else {"prompt": PROMPT}
    answer = server.post(route, {"max_tokens": 1, **body, **more}, headers=bearer(key))
    assert answer.status_code == 200, answer.text
    return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_what_one_key_has_asked_for_is_not_cached_for_another(start):
    args = ("--model", f"bare={BARE}", "--api-key", "a", "--bulk-api-key", "b")
    server = start(*args, model=False)
    assert cached_tokens(server, "a") == 0
    whole = cached_tokens(server, "a")
    assert whole >= 64
    assert cached_tokens(server, "b") == 0 and cached_tokens(server, "b") == whole
    # A request parts its own further, and does not join another's by that.
    assert cached_tokens(server, "a", cache_salt="x") == 0 and cached_tokens(server, "a", cache_salt="x") == whole
    assert cached_tokens(server, "a", cache_salt="y") == 0 and cached_tokens(server, "b", cache_salt="x") == 0
    for wrong in ("", "x" * 257, 5):
        refused = server.post("/v1/completions", {"prompt": "a", "cache_salt": wrong}, headers=bearer("a"))
        assert refused.status_code in (400, 413) and "cache_salt" in refused.text, refused.text
    shared = start(*args, "--share-caches", model=False)
    assert cached_tokens(shared, "a") == 0 and cached_tokens(shared, "b") == whole
    assert cached_tokens(shared, "a", cache_salt="x") == 0 and cached_tokens(shared, "b", cache_salt="x") == whole


def test_keys_share_neither_tokens_nor_results(start):
    keys = ("--api-key", "a", "--api-key", "b", *RESULTS)

    def hits(server, cache, key):
        before = server.get("/metrics", headers=bearer(key)).text
        assert server.post("/embed", {"inputs": TEXTS}, headers=bearer(key)).status_code == 200
        after = server.get("/metrics", headers=bearer(key)).text
        count = lambda text: next(float(line.split()[-1]) for line in text.splitlines()
                                  if line.startswith(HITS % cache))
        return count(after) - count(before)
    for cache in ("token", "result"):
        server = start(*keys)
        assert [hits(server, cache, key) for key in "aabb"] == [0, len(TEXTS), 0, len(TEXTS)], cache
        shared = start(*keys, "--share-caches")
        assert [hits(shared, cache, key) for key in "ab"] == [0, len(TEXTS)], cache


def test_flags_are_checked():
    for args, named in ((("--redis-url", "rediss://host"), "TLS"),
                        (("--redis-url", "http://host"), "redis://"),
                        (("--redis-timeout-ms", "0"), "redis-timeout-ms"),
                        (("--token-cache-bytes", "-1"), "token-cache-bytes")):
        done = run("serve", *model_args(("m", "bert_mean_normalize")), *args, check=False)
        assert done.returncode != 0 and named in done.stderr.decode(), done.stderr


class Redis:
    """A redis-server of the test's own, on a Unix socket."""

    def __init__(self):
        self.binary = shutil.which("redis-server")
        if not self.binary:
            pytest.skip("redis-server IS NOT HERE: install it")
        self.folder = tempfile.mkdtemp(prefix="penstock_")
        self.socket = os.path.join(self.folder, "redis.sock")
        self.url = "unix://" + self.socket
        self.process = None
        self.start()

    def start(self):
        if os.path.exists(self.socket):
            os.remove(self.socket)
        self.process = subprocess.Popen(
            [self.binary, "--port", "0", "--unixsocket", self.socket, "--save", "",
             "--appendonly", "no", "--dir", self.folder],
            stdout=subprocess.DEVNULL, env=clean_environment())
        assert wait_for(lambda: os.path.exists(self.socket))

    def ask(self, *words):
        """One command and its answer: a string, a list of strings, or the line of another kind."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(self.socket)
            parts = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
            connection.sendall(b"*%d\r\n%s" % (len(words), parts))
            with connection.makefile("rb") as answer:
                line = answer.readline().strip()
                if line[:1] == b"*":
                    return [answer.read(int(answer.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]
                return answer.read(int(line[1:]) + 2)[:-2] if line[:1] == b"$" else line

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self):
        self.kill()
        shutil.rmtree(self.folder)


@pytest.fixture
def redis():
    one = Redis()
    yield one
    one.close()


def wait_for_entries(redis, count):
    assert wait_for(lambda: len(redis.ask(b"KEYS", b"*")) == count), redis.ask(b"KEYS", b"*")


def is_up(server):
    return server.metrics()["penstock_redis_up"] == 1


def test_two_servers_share_one_redis(start, redis):
    one = start(*RESULTS, "--redis-url", redis.url, "--redis-timeout-ms", "200")
    two = start(*RESULTS, "--redis-url", redis.url, "--redis-timeout-ms", "200")
    assert wait_for(lambda: is_up(one) and is_up(two))
    wanted = one.post("/embed", {"inputs": TEXTS}).content
    assert two.metrics()[HITS % "redis"] == 0
    wait_for_entries(redis, len(TEXTS))
    assert two.post("/embed", {"inputs": TEXTS}).content == wanted
    assert two.metrics()[HITS % "redis"] == len(TEXTS)
    # Now its own memory has them.
    assert two.post("/embed", {"inputs": TEXTS}).content == wanted
    assert two.metrics()[HITS % "redis"] == len(TEXTS)
    assert two.metrics()[HITS % "result"] == len(TEXTS)
    # Another model never gets them.
    other = start(*model_args(("embed", "bert_max_bf16_odd")), *RESULTS, "--redis-url", redis.url,
                  "--redis-timeout-ms", "200")
    assert wait_for(lambda: is_up(other))
    assert other.post("/embed", {"inputs": TEXTS}).content != wanted
    assert other.metrics()[HITS % "redis"] == 0


def test_servers_share_through_redis_what_is_of_one_key(start, redis):
    args = (*RESULTS, "--redis-url", redis.url, "--redis-timeout-ms", "200", "--api-key", "a", "--api-key", "b")

    def hits(key, entries):
        server = start(*args)
        metrics = lambda: server.get("/metrics", headers=bearer(key)).text
        value = lambda name: next(float(line.split()[-1]) for line in metrics().splitlines() if line.startswith(name))
        assert wait_for(lambda: value("penstock_redis_up") == 1)
        assert server.post("/embed", {"inputs": TEXTS}, headers=bearer(key)).status_code == 200
        wait_for_entries(redis, entries)
        return value(HITS % "redis")
    assert hits("a", len(TEXTS)) == 0 and hits("b", 2 * len(TEXTS)) == 0
    assert hits("a", 2 * len(TEXTS)) == len(TEXTS)


def test_entries_of_another_secret_are_not_believed(start, redis):
    def one(*more):
        server = start(*RESULTS, "--redis-url", redis.url, "--redis-timeout-ms", "200", *more)
        assert wait_for(lambda: is_up(server))
        return server

    def hits(server):
        assert server.post("/embed", {"inputs": TEXTS}).content == wanted
        time.sleep(0.3)  # the last of the writes
        return server.metrics()[HITS % "redis"]
    plain = one()
    wanted = plain.post("/embed", {"inputs": TEXTS}).content
    time.sleep(0.3)  # the last of the writes
    assert hits(one("--redis-key", "a" * 16)) == 0
    assert hits(one("--redis-key", "a" * 16)) == len(TEXTS)
    assert hits(one("--redis-key", "b" * 16)) == 0


def test_what_a_hostile_redis_says_is_not_believed(start, redis):
    secret = "0123456789abcdef"

    def one():
        server = start(*RESULTS, "--redis-url", redis.url, "--redis-timeout-ms", "200",
                       "--redis-key", secret)
        assert wait_for(lambda: is_up(server))
        return server

    def seal(key, value):
        mac = hmac.new(secret.encode(), struct.pack("<Q", len(key)) + key + value, "sha256").digest()
        return b"PNS2" + struct.pack("<I", len(value)) + mac[:16] + value

    def answers(forge):
        """Hits of a fresh server after each entry was replaced by forge(key, entries)."""
        for key in entries:
            redis.ask(b"SET", key, forge(key))
        server = one()
        assert server.post("/embed", {"inputs": TEXTS}).content == wanted
        time.sleep(0.3)  # the last of the writes
        return server.metrics()[HITS % "redis"]
    first = one()
    wanted = first.post("/embed", {"inputs": TEXTS}).content
    assert wait_for(lambda: len(redis.ask(b"KEYS", b"penstock:1:r:*")) == len(TEXTS))
    entries = {key: redis.ask(b"GET", key) for key in redis.ask(b"KEYS", b"penstock:1:r:*")}
    width = len(next(iter(entries.values()))) - 24
    # What this test seals is what the program seals.
    assert all(seal(key, sealed[24:]) == sealed for key, sealed in entries.items())
    assert answers(lambda key: entries[key]) == len(TEXTS)
    # An entry of one key under another.
    following = dict(zip(entries, [*entries][1:] + [*entries][:1]))
    assert answers(lambda key: entries[following[key]]) == 0
    assert answers(lambda key: entries[key][:-4] + b"abcd") == 0
    assert answers(lambda key: b"PNS1" + entries[key][4:]) == 0
    # Written with the secret, or by a program gone wrong: values that are not numbers are not used.
    nan = struct.pack("<f", float("nan"))
    answers(lambda key: seal(key, nan * (width // 4)))
    answers(lambda key: seal(key, entries[key][24:-4] + struct.pack("<f", float("inf"))))


def test_long_texts_share_their_tokens(start, redis):
    servers = [start("--redis-url", redis.url, "--redis-timeout-ms", "200", "--max-input-bytes",
                     "1000000") for _ in range(2)]
    for server in servers:
        assert wait_for(lambda server=server: is_up(server))
    # One word, so that there is no place to stop reading.
    text = "x" * 100_000
    for server in servers:
        assert server.post("/embed", {"inputs": text}).status_code == 200
        wait_for_entries(redis, 1)
    assert servers[0].metrics()[HITS % "redis"] == 0
    assert servers[1].metrics()[HITS % "redis"] == 1


def test_losing_redis_costs_nothing_but_speed(start, redis):
    server = start(*RESULTS, "--redis-url", redis.url)
    assert wait_for(lambda: is_up(server))
    plain = start()
    wanted = {text: plain.post("/embed", {"inputs": text}).content for text in TEXTS}
    slowest = 0

    def ask_all():
        nonlocal slowest
        for text, answer in wanted.items():
            begin = time.monotonic()
            assert server.post("/embed", {"inputs": text}).content == answer
            slowest = max(slowest, time.monotonic() - begin)

    ask_all()
    redis.kill()
    ask_all()
    assert server.post("/embed", {"inputs": "never seen before, while it is away"}).status_code == 200
    assert wait_for(lambda: not is_up(server))
    ask_all()
    redis.start()
    assert wait_for(lambda: is_up(server), 15)
    ask_all()
    assert slowest < 1
