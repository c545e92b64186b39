"""HTTP to one server: connections that are kept, requests that are tried again and can be ended.

As Penstock's own client does (src/client/server_client.h): 408, 429, 502, 503, 504 and lost
connections are tried again, after Retry-After and a back-off that doubles and is spread by chance.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import ssl
import threading
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import urlsplit

from ._backend import Request, checked
from .errors import Cancelled, DeadlineExceeded, InvalidArgument, Unavailable, error_of_answer

RETRIED = frozenset((408, 429, 502, 503, 504))
ATTEMPTS_MAX = 10
BACKOFF_S, BACKOFF_MAX_S = 0.25, 30.0
RETRY_AFTER_MAX_S = 60
# A server that has never answered is given up after this.
FIRST_ANSWER_S = 5.0
IDLE_CONNECTIONS_MAX = 16


class Server:
    """A server's address and the connections to it. Any thread may use it."""

    def __init__(self, url: str, headers: dict[str, str], timeout: float) -> None:
        """url: "http://host:port", with or without "/v1". Raises InvalidArgument for another."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument(f"'{url}' is not the address of a server: http://host:port is", field="url")
        try:
            self._port = parts.port
        except ValueError as error:
            raise InvalidArgument(f"'{url}': {error}", field="url") from error
        self.url = url
        self.timeout = timeout
        self.answered = False
        self.begin = time.monotonic()
        self._host = parts.hostname
        self._https = parts.scheme == "https"
        self._base = parts.path.rstrip("/")
        if self._base.endswith("/v1"):
            self._base = self._base[: -len("/v1")]
        self._headers = headers
        self._lock = threading.Lock()
        self._idle: list[HTTPConnection] = []
        self._pid = os.getpid()

    def take(self) -> tuple[HTTPConnection, bool]:
        """A connection, and whether it was used before."""
        with self._lock:
            if self._pid != os.getpid():
                # After a fork the parent uses these: they are left alone.
                self._idle, self._pid = [], os.getpid()
            if self._idle:
                return self._idle.pop(), True
        return self.new(), False

    def new(self) -> HTTPConnection:
        """A new connection."""
        if self._https:
            return HTTPSConnection(self._host, self._port, timeout=self.timeout)
        return HTTPConnection(self._host, self._port, timeout=self.timeout)

    def give_back(self, connection: HTTPConnection) -> None:
        """Keeps a connection whose answer was read."""
        with self._lock:
            if len(self._idle) < IDLE_CONNECTIONS_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def send(self, connection: HTTPConnection, request: Request) -> None:
        """Sends a request."""
        body = request.body if request.method != "GET" else None
        connection.request(
            request.method, self._base + request.path, body=body, headers={**self._headers, **request.headers}
        )

    def close(self) -> None:
        """Closes the connections that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class Exchange:
    """A request and its answer, tried again where that can help. `cancel` is for any thread."""

    def __init__(self, server: Server, request: Request) -> None:
        self._server = server
        self._request = request
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._connection: HTTPConnection | None = None

    def read(self) -> bytes:
        """The body of the answer; raises the error that the answer tells of."""
        response, connection = self._answer()
        try:
            body = response.read()
        except BaseException as error:
            self._drop(connection)
            raise self._lost(error) from error
        self._done(connection, response)
        return checked(response.status, body, _retry_after(response))

    def open(self) -> HTTPResponse:
        """The answer, to be read piece by piece; then `finish`."""
        response, connection = self._answer()
        if response.status < 400:
            return response
        body = response.read()
        self._done(connection, response)
        raise error_of_answer(response.status, body, _retry_after(response))

    def piece(self, response: HTTPResponse) -> bytes:
        """The next bytes of the answer, as soon as there are any; b"" at its end."""
        try:
            return response.read1(65536)
        except BaseException as error:
            self.finish(response)
            raise self._lost(error) from error

    def finish(self, response: HTTPResponse) -> None:
        """Ends an answer: its connection is kept if all was read, else closed, which the server sees."""
        connection = self._connection
        if connection is None:
            return
        if response.isclosed():
            self._done(connection, response)
        else:
            self._drop(connection)

    def cancel(self) -> None:
        """Ends the exchange; whoever waits for it gets Cancelled."""
        with self._lock:
            self._stop.set()
            sock = self._connection.sock if self._connection is not None else None
            if sock is not None:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads

    def _answer(self) -> tuple[HTTPResponse, HTTPConnection]:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                response, connection = self._once()
            except (Unavailable, DeadlineExceeded) as error:
                wait = self._wait_s(attempt, 0)
                if isinstance(error, DeadlineExceeded) or wait is None:
                    raise
            else:
                self._server.answered = True
                wait = self._wait_s(attempt, _retry_after(response))
                if response.status not in RETRIED or wait is None:
                    return response, connection
                response.read()
                self._done(connection, response)
            if self._stop.wait(wait):
                break
        raise Cancelled("the call was cancelled")

    def _wait_s(self, attempt: int, retry_after: int) -> float | None:
        """Seconds until the next attempt; None: do not try again."""
        if attempt >= ATTEMPTS_MAX:
            return None
        most = min(BACKOFF_MAX_S, BACKOFF_S * 2.0 ** (attempt - 1))
        wait = min(retry_after, RETRY_AFTER_MAX_S) + most * random.uniform(0.5, 1.0)
        if self._server.answered:
            return wait
        patience = FIRST_ANSWER_S - (time.monotonic() - self._server.begin)
        return min(wait, patience) if patience > 0 else None

    def _once(self) -> tuple[HTTPResponse, HTTPConnection]:
        """One attempt. A kept connection that the server has closed meanwhile does not count."""
        connection, used = self._server.take()
        while True:
            self._hold(connection)
            try:
                self._server.send(connection, self._request)
                return connection.getresponse(), connection
            except BaseException as error:
                self._drop(connection)
                if not used or _timed_out(error) or not isinstance(error, (OSError, HTTPException)):
                    raise self._lost(error) from error
            connection, used = self._server.new(), False

    def _hold(self, connection: HTTPConnection) -> None:
        with self._lock:
            if self._stop.is_set():
                raise Cancelled("the call was cancelled")
            self._connection = connection

    def _done(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        with self._lock:
            self._connection = None
            stopped = self._stop.is_set()
        if stopped or response.will_close:
            connection.close()
        else:
            self._server.give_back(connection)

    def _drop(self, connection: HTTPConnection) -> None:
        with self._lock:
            self._connection = None
        connection.close()

    def _lost(self, error: BaseException) -> BaseException:
        """What to raise in place of `error`."""
        if not isinstance(error, (OSError, HTTPException)):
            return error
        if self._stop.is_set():
            return Cancelled("the call was cancelled")
        if _timed_out(error):
            return DeadlineExceeded(f"{self._server.url} was silent for {self._server.timeout:g} s")
        if isinstance(error, ssl.SSLCertVerificationError):
            return InvalidArgument(f"{self._server.url}: {error}", field="url")
        return Unavailable(f"{self._server.url} cannot be reached: {error or type(error).__name__}")


def _timed_out(error: BaseException) -> bool:
    # socket.timeout is a class of its own before Python 3.10.
    return isinstance(error, (TimeoutError, socket.timeout))


def _retry_after(response: HTTPResponse) -> int:
    text = response.getheader("Retry-After") or ""
    return int(text) if text.isdigit() else 0
