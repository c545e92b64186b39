"""A hub on this machine, with faults. Two servers: the hub, and another host for large files."""
import hashlib
import http.server
import json
import threading
import time

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True

    def handle_error(self, *_):
        pass  # clients leave in the middle


class FakeHub:
    """`repositories`: {"owner/name": {path: bytes}}. Files of LARGE endings come from the other host.

    Faults: `token` (asked for if set), `gated`, `refuse` ([(status, headers)], each once, for lists),
    `cut_after` (bytes of one large reply, once), `rate` (bytes a second of a large reply), `ranges`
    (False: ignored), `corrupt` (replies of large files with a wrong byte), `length_error` (added to
    the length that HEAD says), `extra` (paths that only the list has), `listed_size` (of each file, as the list
    has it), `says_sizes` (False: HEAD says none of large files).
    """

    LARGE = (".safetensors", ".gguf")

    def __init__(self, repositories):
        self.repositories = repositories
        self.token = None
        self.gated = False
        self.refuse = []
        self.cut_after = None
        self.rate = None
        self.ranges = True
        self.corrupt = 0
        self.length_error = 0
        self.extra = []
        self.listed_size = None
        self.says_sizes = True
        self.log = []  # (host, method, path, range, authorization)
        self.bytes_sent = 0  # of large files
        self.lock = threading.Lock()
        self.servers = [self._start("hub"), self._start("cdn")]
        self.url, self.cdn = (f"http://127.0.0.1:{server.server_address[1]}" for server in self.servers)

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def asked(self, host, method="GET"):
        return [entry for entry in self.log if entry[0] == host and entry[1] == method]

    def _start(self, host):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.answer()

            def do_HEAD(self):
                self.answer()

            def answer(self):
                path = self.path
                if path.startswith("http://"):  # as a proxy is asked
                    path = "/" + path.split("/", 3)[3]
                with hub.lock:
                    hub.log.append((host, self.command, path, self.headers.get("Range"),
                                    self.headers.get("Authorization")))
                (hub._large if host == "cdn" else hub._small)(self, path.split("?")[0])

            def reply(self, status, headers=(), body=b""):
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                if not any(name == "Content-Length" for name, _ in headers):
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = _Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def _small(self, handler, path):
        if self.gated:
            return handler.reply(403, [("X-Error-Code", "GatedRepo")])
        if self.token and handler.headers.get("Authorization") != f"Bearer {self.token}":
            return handler.reply(401)
        for name, files in self.repositories.items():
            if path.startswith(f"/api/models/{name}/revision/"):
                if self.refuse:
                    return handler.reply(*self.refuse.pop(0))
                if path.rsplit("/", 1)[1] not in ("main", COMMIT):
                    return handler.reply(404)
                siblings = [{"rfilename": file, "size": len(data) if self.listed_size is None else self.listed_size} for file, data in files.items()]
                siblings += [{"rfilename": file} for file in self.extra]
                return handler.reply(200, body=json.dumps({"sha": COMMIT, "siblings": siblings}).encode())
            begin = f"/{name}/resolve/{COMMIT}/"
            if path.startswith(begin) and path[len(begin):] in files:
                return self._file(handler, path, files[path[len(begin):]])
        return handler.reply(404)

    def _file(self, handler, path, data):
        if path.endswith(self.LARGE):
            sizes = [("X-Linked-Size", str(len(data) + self.length_error))] if self.says_sizes else []
            return handler.reply(302, [("X-Linked-Etag", f'"{hashlib.sha256(data).hexdigest()}"'), *sizes,
                                       ("Location", self.cdn + path)])
        return handler.reply(200, [("ETag", f'"{git_sha1(data)}"'), ("Content-Length", str(len(data)))], data)

    def _large(self, handler, path):
        name, file = path[1:].split(f"/resolve/{COMMIT}/")
        data = self.repositories[name][file]
        begin, end, status, headers = 0, len(data), 200, []
        asked = handler.headers.get("Range")
        if asked and self.ranges:
            first, last = asked.removeprefix("bytes=").split("-")
            begin, end = int(first), min(int(last or len(data)) + 1, len(data))
            if begin >= len(data):
                return handler.reply(416)
            status, headers = 206, [("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")]
        part = data[begin:end]
        with self.lock:
            cut, self.cut_after = self.cut_after, None
            if self.corrupt > 0:
                self.corrupt -= 1
                part = part[:-1] + bytes([part[-1] ^ 1])
        handler.send_response(status)
        for header in [*headers, ("Content-Length", str(len(part)))]:
            handler.send_header(*header)
        handler.end_headers()
        step = 1 << 16
        for at in range(0, len(part), step):
            block = part[at:at + step]
            if cut is not None and at + len(block) > cut:
                block = block[:max(cut - at, 0)]
            handler.wfile.write(block)
            with self.lock:
                self.bytes_sent += len(block)
            if len(block) < min(step, len(part) - at):
                handler.close_connection = True
                return
            if self.rate:
                time.sleep(len(block) / self.rate)  # the slow network that a test asks for
