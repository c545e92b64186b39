"""deploy/proxies with real HAProxy, nginx and Envoy in front of two replicas: conversations, kills and restarts.

make check-proxies
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
import requests

from conftest import EMBED, GOLDEN, ROOT, Server, wait_for
from conftest import clean_environment as clean
from test_chat import TEMPLATE, TINY

PROXIES = ROOT / "deploy" / "proxies"
TURNS, CONVERSATIONS = 4, 6
PROMPT = 'penstock_generate_prompt_tokens_total{model="chat"}'


def free_port():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def program(name):
    """Where a proxy is; skips the test, loudly, where it is not."""
    beside = pathlib.Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
    if found is None:
        pytest.skip(f"{name.upper()} IS NOT HERE (make check-proxies installs it)")
    return found


class Proxy:
    """One of the files of deploy/proxies as it is, but for the addresses."""

    def __init__(self, name, replicas, folder):
        self.port = free_port()
        file = next(PROXIES.glob(f"{name}.*"))
        text = file.read_text()
        for number, replica in enumerate(replicas, 1):
            text = text.replace(f"10.0.0.{number}:8080", f"127.0.0.1:{replica}")
            text = text.replace(
                f"address: 10.0.0.{number}, port_value: 8080", f"address: 127.0.0.1, port_value: {replica}"
            )
        text = text.replace("0.0.0.0:8000", f"127.0.0.1:{self.port}")
        text = text.replace("address: 0.0.0.0, port_value: 8000", f"address: 127.0.0.1, port_value: {self.port}")
        if name == "nginx":
            temporary = "".join(
                f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
            )
            text = f"daemon off; pid {folder}/pid; error_log {folder}/log;\n" + text.replace(
                "http {", "http {\naccess_log off;\n" + temporary, 1
            )
        path = folder / file.name
        path.write_text(text)
        words = {
            "haproxy": ["-f", path],
            "nginx": ["-p", folder, "-c", path],
            "envoy": ["-c", path, "--concurrency", "1", "--log-level", "error", "--base-id", str(self.port)],
        }[name]
        self.process = subprocess.Popen([program(name), *map(str, words)], env=clean())
        self.url = f"http://127.0.0.1:{self.port}"
        wait_for(lambda: self.answers(), timeout=30)

    def answers(self):
        assert self.process.poll() is None, "the proxy ended"
        try:
            return requests.get(self.url + "/readyz", timeout=2).status_code == 200
        except requests.ConnectionError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "chat"
    shutil.copytree(TINY, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 4096}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


class Replica:
    """A server at a port of its own, which a restart keeps."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.start()

    def start(self):
        self.server = Server(
            "--port",
            self.port,
            "--model",
            f"chat={self.folder}",
            "--model",
            f"embed={GOLDEN / EMBED}",
            "--shutdown-delay-s",
            "3",
            "--threads",
            "1",
        )

    def kill(self):
        self.server.process.kill()
        self.server.process.wait()
        self.start()

    def restart(self):
        self.server.process.send_signal(signal.SIGTERM)
        self.server.process.wait(40)
        self.start()


@pytest.fixture
def replicas(folder):
    both = [Replica(folder) for _ in range(2)]
    yield both
    for one in both:
        one.server.process.kill()


@pytest.fixture(params=["haproxy", "nginx", "envoy"])
def proxy(request, replicas, tmp_path):
    program(request.param)
    one = Proxy(request.param, [replica.port for replica in replicas], tmp_path)
    one.name = request.param
    yield one
    one.stop()


def converse(url, headers):
    """Conversations whose turns alternate, each with the whole of what was said."""
    said = {number: [{"role": "system", "content": "Be brief. " * 12}] for number in range(CONVERSATIONS)}
    for turn in range(TURNS):
        for number, messages in said.items():
            messages.append({"role": "user", "content": f"Conversation {number}, turn {turn}: " + "and so on " * 8})
            body = {"model": "chat", "messages": messages, "max_tokens": 8, "temperature": 0}
            answer = requests.post(url + "/v1/chat/completions", json=body, headers=headers(number), timeout=60)
            assert answer.status_code == 200, answer.text
            messages.append({"role": "assistant", "content": answer.json()["choices"][0]["message"]["content"] or "x"})


def test_conversations_stay_with_their_replica(proxy, replicas, folder):
    headers = (lambda number: {"x-session-id": f"s{number}"}) if proxy.name == "nginx" else (lambda number: {})
    converse(proxy.url, headers)
    computed = [replica.server.metrics()[PROMPT] for replica in replicas]
    alone = Replica(folder)
    try:
        converse(alone.server.url, headers)
        one = alone.server.metrics()[PROMPT]
    finally:
        alone.server.process.kill()
    print(
        f"{proxy.name}: tokens computed {sum(computed):.0f} ({computed}), one replica {one:.0f}, {sum(computed) / one:.3f}"
    )
    # Both replicas compute the system prompt, which one replica computes once.
    assert sum(computed) <= 1.1 * one
    assert min(computed) > 0, computed


def test_the_key_of_a_cache_keeps_them_together(proxy, replicas):
    if proxy.name == "nginx":
        pytest.skip("nginx reads no bodies")
    for turn in range(6):
        body = {
            "model": "chat",
            "messages": [{"role": "user", "content": f"turn {turn}"}],
            "max_tokens": 2,
            "prompt_cache_key": "one conversation",
        }
        assert requests.post(proxy.url + "/v1/chat/completions", json=body, timeout=60).status_code == 200
    computed = [replica.server.metrics()[PROMPT] for replica in replicas]
    assert min(computed) == 0 and max(computed) > 0, computed


@pytest.mark.parametrize("means", ["kill", "restart"])
def test_no_request_is_lost(proxy, replicas, means):
    """Encoders' requests while one replica after the other is ended."""
    stop, answers, failures = threading.Event(), [0], []

    def ask(worker):
        session = requests.Session()
        while not stop.is_set():
            try:
                answer = session.post(proxy.url + "/embed", json={"inputs": [f"dog {worker}", "cat"]}, timeout=30)
                if answer.status_code != 200:
                    failures.append((answer.status_code, answer.text[:200]))
            except requests.RequestException as error:
                failures.append(repr(error)[:200])
            answers[0] += 1

    threads = [threading.Thread(target=ask, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(int(os.environ.get("PENSTOCK_PROXY_TURNS", "4"))):
            time.sleep(0.5)  # under load
            getattr(replicas[turn % 2], means)()
            time.sleep(2.5)  # the proxy's health check finds it
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    print(f"{proxy.name}, {means}: {answers[0]} requests, {len(failures)} lost")
    assert answers[0] > 50 and not failures, failures[:5]
