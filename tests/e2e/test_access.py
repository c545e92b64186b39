"""Which clients may use a server, and what of a hostile client reaches its log, its framing and its limits."""
import http.server
import json
import os
import pathlib
import re
import resource
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest
import requests

from conftest import EMBED, GOLDEN, binary, clean_environment, read_response, run, wait_for

MODEL = GOLDEN / EMBED
BODY = {"inputs": "hello"}
EVIL = {"Origin": "https://evil.example"}


def serve_ends(*args, env=None):
    """penstock serve, which is expected to end with an error: what it says."""
    done = run("serve", "--model", MODEL, "--port", 0, *args, env=env, check=False, timeout=20)
    assert done.returncode != 0
    return done.stderr.decode()


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


# ---- Keys

@pytest.mark.parametrize("flag", ["api-key", "bulk-api-key", "admin-api-key", "api-key-file"])
def test_a_key_that_is_set_but_empty_is_refused(flag, tmp_path):
    variable = "PENSTOCK_" + flag.upper().replace("-", "_")
    assert f"{variable} is set but empty" in serve_ends(env=clean_environment(**{variable: ""}))
    assert f"--{flag}" in serve_ends(f"--{flag}", "")
    assert f"--{flag}" in serve_ends(f"--{flag}=", "--access-log")
    for value in ('""', "[]", '["a", ""]'):
        (tmp_path / "c.toml").write_text(f"{flag} = {value}\n")
        assert flag in serve_ends("--config", tmp_path / "c.toml")


def test_key_files_at_fault_are_named(tmp_path):
    keys = tmp_path / "keys"
    assert str(keys) in serve_ends("--api-key-file", keys)
    keys.write_text("# nobody\n\n")
    assert "holds no key" in serve_ends(f"--api-key-file={keys}")
    keys.write_text("good\nse\x01cret\n")
    message = serve_ends("--api-key-file", keys)
    assert "line 2" in message and "cret" not in message
    keys.unlink()
    os.mkfifo(keys)
    assert "not a regular file" in serve_ends("--api-key-file", keys)
    assert "line break" in serve_ends("--api-key", "secret\n")


def test_keys_of_files_are_read_again_on_sighup(start, tmp_path):
    keys, bulk = tmp_path / "keys", tmp_path / "bulk"
    keys.write_bytes(b"# people\r\n\r\nfirst\r\n  second\r\n")
    bulk.write_text("slow\n")
    server = start("--api-key-file", keys, "--api-key=flag", "--bulk-api-key-file", bulk)

    def status(key):
        return server.post("/embed", BODY, headers=bearer(key)).status_code

    def known(*of):
        return [key for key in ("first", "second", "flag", "slow", "third", "# people") if
                status(key) == 200] == list(of)

    assert known("first", "second", "flag", "slow")
    keys.write_text("third\n")
    server.process.send_signal(signal.SIGHUP)
    assert wait_for(lambda: known("flag", "slow", "third"))
    for bad in ("", "# third\n", "fourth\nfi\x02fth\n"):
        keys.write_text(bad)
        count = sum("not reloaded" in line for line in server.log)
        server.process.send_signal(signal.SIGHUP)
        assert wait_for(lambda: sum("not reloaded" in line for line in server.log) > count)
        assert known("flag", "slow", "third")
    assert not any("third" in line or "fourth" in line for line in server.log + server.stdout)


def test_signals_that_are_no_reason_to_end(start):
    server = start()
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        server.process.send_signal(number)
        assert server.post("/embed", BODY).status_code == 200
    assert server.process.poll() is None
    assert server.stop() == 0


def wait_until_handled(pid, number, timeout_s=10):
    """Before main() begins a signal ends any process."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        masks = re.findall(r"^Sig(?:Blk|Ign|Cgt):\s*([0-9a-f]+)$", status, re.MULTILINE)
        if any(int(mask, 16) >> (number - 1) & 1 for mask in masks):
            return
        time.sleep(0.001)  # polls
    raise AssertionError(f"process {pid} does nothing about signal {number}")


def test_signals_while_it_starts():
    for number in (signal.SIGUSR1, signal.SIGHUP):
        process = subprocess.Popen([binary(), "serve", "--port", "0", "--model", MODEL],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   env=clean_environment())
        wait_until_handled(process.pid, number)
        process.send_signal(number)
        assert b"ready" in process.stdout.readline()
        process.terminate()
        assert process.wait(20) == 0


def test_admin_keys(start):
    server = start("--api-key", "user", "--admin-api-key", "admin", "--admin-api-key=second")
    begin = {"action": "begin"}
    for path, body in (("/v1/stats/reset", None), ("/v1/bulk", begin)):
        assert server.post(path, body).status_code == 401
        assert server.post(path, body, headers=bearer("user")).status_code == 403
        assert server.post(path, body, headers=bearer("admin")).status_code == 200
        assert server.post(path, body, headers=bearer("second")).status_code == 200
    refused = server.post("/v1/bulk", begin, headers=bearer("user")).json()["error"]
    assert refused["code"] == "forbidden" and refused["type"] == "permission_error"
    assert server.post("/embed", BODY, headers=bearer("user")).status_code == 200
    assert server.post("/embed", BODY, headers=bearer("admin")).status_code == 200
    for path in ("/metrics", "/v1/stats"):
        assert server.get(path, headers=bearer("user")).status_code == 200
    # A job without the key of an administrator goes without a run.
    done = run("embed", "--url", server.url, "--api-key", "user", stdin=b"a\nb\n")
    assert len(done.stdout.splitlines()) == 2
    guarded = start("--api-key", "user", "--admin-api-key", "admin", "--admin-metrics")
    for path in ("/metrics", "/v1/stats"):
        assert guarded.get(path, headers=bearer("user")).status_code == 403
        assert guarded.get(path, headers=bearer("admin")).status_code == 200
    assert guarded.get("/livez").status_code == 200
    assert "--admin-api-key" in serve_ends("--admin-metrics")


def test_refused_keys_are_counted_and_logged(start):
    server = start("--api-key", "user", "--admin-api-key", "admin")
    server.post("/embed", BODY)
    for i in range(30):
        server.post("/embed", BODY, headers=bearer(f"guess-{i}"))
    server.post("/v1/stats/reset", headers=bearer("user"))
    text = server.get("/metrics", headers=bearer("user")).text
    for reason, count in (("missing", 1), ("unknown", 30), ("not_admin", 1)):
        assert f'penstock_http_keys_refused_total{{reason="{reason}"}} {count}\n' in text
    lines = [line for line in server.log if "key refused" in line]
    assert 1 < len(lines) < 20
    assert all("from 127.0.0.1:" in line and "guess" not in line for line in lines)


def test_an_open_server_says_so(start):
    warned = "other machines"
    assert any(warned in line and "--api-key" in line for line in start("--host", "0.0.0.0").log)
    quiet = start("--host", "0.0.0.0", "--log-level", "off")
    assert any(warned in line and "--api-key" in line for line in quiet.log)
    assert not any(warned in line for line in start("--host", "0.0.0.0", "--api-key", "k").log)
    assert not any(warned in line for line in start().log)


# ---- Web pages

def host_status(server, host, path="/v1/models"):
    with server.connect() as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return read_response(connection)[0]


def test_names_of_strangers_are_refused(start):
    server = start()
    for host in ("localhost", "127.0.0.1:1", "[::1]", "192.168.0.9", "a.localhost"):
        assert host_status(server, host) == 200, host
    for host in ("evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "h", "ai."):
        assert host_status(server, host) == 403, host
        assert host_status(server, host, "/livez") == 200, host
    refused = server.get("/v1/models", headers={"Host": "evil.example"}).json()["error"]
    assert "--allowed-host evil.example" in refused["message"]
    with server.connect() as connection:
        connection.sendall(b"GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_response(connection)[0] == 403
    listed = start("--allowed-host", "api.example", "--allowed-host=*.sub.example")
    assert [host_status(listed, host) for host in ("api.example", "a.sub.example", "b.example",
                                                   "localhost")] == [200, 200, 403, 200]
    for args in (("--allowed-host", "*"), ("--host", "0.0.0.0")):
        assert host_status(start(*args), "any.example") == 200
    keyed = start("--api-key", "k")
    assert host_status(keyed, "any.example") == 401
    assert "allowed host" in serve_ends("--allowed-host", "https://a.example")


def test_pages_of_other_origins_may_only_read(start):
    server = start()
    data = json.dumps(BODY)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "application/json"):
        for headers in (EVIL, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
            answer = requests.post(server.url + "/embed", data=data, timeout=10,
                                   headers={**headers, "Content-Type": kind})
            assert answer.status_code == 403 and "--cors-allow-origin" in answer.json()["error"]
        plain = requests.post(server.url + "/embed", data=data, headers={"Content-Type": kind}, timeout=10)
        assert plain.status_code == 200
        assert plain.headers["X-Content-Type-Options"] == "nosniff"
    for path in ("/v1/stats/reset", "/v1/bulk"):
        assert server.post(path, headers=EVIL).status_code == 403
    assert requests.delete(server.url + "/api/delete", json={"model": "embed"}, headers=EVIL, timeout=10).status_code == 403
    assert server.get("/v1/models", headers=EVIL).status_code == 200
    assert server.post("/v1/stats/reset").status_code == 200
    assert server.post("/v1/stats/reset", headers={"Origin": server.url}).status_code == 200
    allowed = start("--cors-allow-origin", EVIL["Origin"])
    assert allowed.post("/embed", BODY, headers=EVIL).status_code == 200
    assert allowed.post("/v1/stats/reset", headers={"Origin": "https://b"}).status_code == 403


# ---- Framing

CHUNKED = b"POST /embed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("tail", [
    b'1;a="\n"\r\n{\r\n0\r\n\r\nGET /v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n',
    b'0;a="\n"\r\n\r\nGET /v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n',
    b'0;a="GET /v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n',
    b"0\r\nA: b\n\r\nGET /v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"1\n{\r\n0\r\n\r\n",
])
def test_one_post_is_one_request(server, tail):
    with server.connect() as connection:
        connection.sendall(CHUNKED + tail)
        begin = time.monotonic()
        status, headers, _, rest = read_response(connection)
        assert status == 400 and headers["connection"] == "close" and rest == b""
        assert connection.recv(100) == b""
        assert time.monotonic() - begin < 5


@pytest.mark.parametrize("status,text", [
    (400, b"POST /embed HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (501, b"POST /embed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    (400, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer\r\n k\r\n\r\n"),
    (400, b"GET /livez HTTP/1.1\r\nHost: a b@@//..\r\n\r\n"),
])
def test_what_readers_differ_about_is_refused(server, status, text):
    with server.connect() as connection:
        connection.sendall(text)
        answer = read_response(connection)
        assert answer[0] == status and answer[1]["connection"] == "close"


def test_the_operators_timeout_is_a_cap(start):
    server = start("--threads", "1", "--request-timeout-ms", "20")
    slow = {"inputs": ["dog " * 46] * 2048}
    answer = server.post("/embed", slow, headers={"X-Request-Timeout-Ms": "60000"})
    assert answer.status_code == 503


# ---- Logs and terminals

def is_clean(line):
    return all(c.isprintable() or c == "\n" for c in line)


@pytest.mark.parametrize("form", ["text", "json"])
def test_logs_hold_no_controls(start, form):
    server = start("--access-log", "--log-format", form)
    for target in (b"/\x9b2J", b"/\xc2\x9b2J", b"/\xe2\x80\xaeabc", b"/\xe2\x80\xa8", b"/\xff" * 300):
        with server.connect() as connection:
            connection.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_response(connection)[0] == 404
    said = '"status":404' if form == "json" else " 404 "
    assert wait_for(lambda: sum(said in line for line in server.log) == 5)
    # The reader of the log replaces what is no UTF-8, and splits lines at LF only.
    lines = [line for line in server.log if said in line]
    assert all(is_clean(line) and "\ufffd" not in line for line in lines)
    assert any("u{202e}" in line for line in lines) and any("xff" in line for line in lines)


def test_errors_of_another_server_do_not_reach_the_terminal_raw():
    class Hostile(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.dumps({"error": {"message": "\x1b[2J\x9b\u202e" + "x" * 100_000}}).encode()
            self.send_response(400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as hostile:
        threading.Thread(target=hostile.serve_forever, daemon=True).start()
        done = run("embed", "--url", f"http://127.0.0.1:{hostile.server_port}", stdin=b"a\n",
                   check=False)
        hostile.shutdown()
    assert done.returncode != 0
    assert is_clean(done.stderr.decode()) and len(done.stderr) < 20_000


# ---- Descriptors

def test_connections_are_fitted_to_the_open_files():
    process = subprocess.Popen(
        ["bash", "-c", 'ulimit -n 300; exec "$0" serve --port 0 --model "$1"', binary(), MODEL],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
    assert b"ready" in process.stdout.readline()
    process.terminate()
    log = process.communicate(timeout=20)[1].decode()
    assert "--max-connections 4096 does not fit the 300 files" in log and "it is 166" in log


def test_out_of_descriptors_is_a_503(start):
    server = start()
    assert server.get("/livez").status_code == 200
    pid = server.process.pid
    limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    time.sleep(0.5)  # until the connection of /livez is closed on the server's side too
    descriptors = [int(fd) for fd in os.listdir(f"/proc/{pid}/fd")]
    allowed = max(descriptors) + 4
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (allowed, limit[1]))
    held = [server.connect() for _ in range(allowed - len(descriptors))]
    time.sleep(0.2)  # until the server has accepted them
    begin = time.monotonic()
    for _ in range(20):
        with server.connect() as connection:
            answer = read_response(connection)
            assert answer is not None and answer[0] == 503 and answer[1]["retry-after"] == "1"
    assert time.monotonic() - begin < 3
    assert sum("cannot accept" in line for line in server.log) < 6
    for connection in held:
        connection.close()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
    assert wait_for(lambda: server.get("/livez").status_code == 200)


# ---- TLS

def certificate(folder, name):
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
                    cert, "-days", "2", "-subj", f"/CN={name}"], check=True, capture_output=True)
    return cert, key


def handshake(server, version=None, ciphers=None):
    """(version, cipher, the certificate's bytes), or None if the server refuses."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if version:
        context.minimum_version = context.maximum_version = version
    if ciphers:
        context.set_ciphers(ciphers)
    try:
        with socket.create_connection((server.host, server.port), 10) as raw, context.wrap_socket(raw) as tls:
            return tls.version(), tls.cipher()[0], tls.getpeercert(True)
    except (ssl.SSLError, ConnectionError):
        return None


def test_tls_is_modern(start, tmp_path):
    cert, key = certificate(tmp_path, "one")
    server = start("--tls-cert", cert, "--tls-key", key)
    v12, v13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    assert handshake(server, v13)[0] == "TLSv1.3"
    for cipher in ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384",
                   "ECDHE-RSA-CHACHA20-POLY1305"):
        assert handshake(server, v12, cipher)[1] == cipher
    for cipher in ("AES128-SHA", "AES128-GCM-SHA256", "AES256-SHA256", "ECDHE-RSA-AES128-SHA",
                   "ECDHE-RSA-AES128-SHA256", "DHE-RSA-AES128-GCM-SHA256"):
        assert handshake(server, v12, cipher + ":@SECLEVEL=0") is None, cipher
    newest = start("--tls-cert", cert, "--tls-key", key, "--tls-min-version=1.3")
    assert handshake(newest, v12) is None and handshake(newest)[0] == "TLSv1.3"
    assert "--tls-min-version" in serve_ends("--tls-min-version", "1.1")


def test_certificates_are_read_again_on_sighup(start, tmp_path):
    cert, key = certificate(tmp_path, "one")
    other_cert, other_key = certificate(tmp_path, "two")
    server = start("--tls-cert", cert, "--tls-key", key)
    before = handshake(server)[2]
    with requests.Session() as kept:
        kept.trust_env = kept.verify = False
        assert kept.get(server.url + "/livez", timeout=10).status_code == 200
        cert.write_bytes(other_cert.read_bytes())  # and not its key
        server.process.send_signal(signal.SIGHUP)
        assert wait_for(lambda: any("not reloaded" in line for line in server.log))
        assert handshake(server)[2] == before
        key.write_bytes(other_key.read_bytes())
        server.process.send_signal(signal.SIGHUP)
        assert wait_for(lambda: handshake(server)[2] != before)
        assert kept.get(server.url + "/livez", timeout=10).status_code == 200
