"""A server as a process of its own, for as long as a `with` statement."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from .cli import flag_words, program
from .errors import Error, Unavailable

if TYPE_CHECKING:
    from types import TracebackType

READY = re.compile(r"ready on (https?://\S+)")
LOG_LINES = 200
STOP_S = 40.0


class Server:
    """`penstock serve` under way. Leaving the `with` statement stops it."""

    def __init__(self, arguments: list[str], timeout: float) -> None:
        """Starts the program and waits until it is ready. Raises Unavailable, with its last lines, if it is not."""
        self.url = ""  # "http://127.0.0.1:PORT"
        self.log: deque[str] = deque(maxlen=LOG_LINES)  # the last lines of its output
        self._ready = threading.Event()
        self.process: subprocess.Popen[str] = subprocess.Popen(
            [program(), "serve", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert self.process.stdout is not None
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()
        try:
            told = self._ready.wait(timeout)
        except BaseException:
            self.close()
            raise
        if not self.url:
            self.close()
            what = "ended at once" if told else f"was not ready after {timeout:g} s"
            raise Unavailable(f"the server {what}:\n" + "".join(self.log))

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self.log.append(line)
                found = READY.search(line)
                if found:
                    self.url = found[1]
                    self._ready.set()
        self._ready.set()

    def close(self) -> None:
        """Stops the server: it finishes what it has begun, for up to 30 s."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve(model: str | Sequence[str], *, port: int = 0, timeout: float = 600.0, **flags: Any) -> Server:
    """Starts a server: `with penstock.serve(["./embedder", "chat=./llm"]) as server: ... server.url`.

    model: one or several, each as `--model` takes it: a folder, a file, owner/name, NAME=any of these.
    port: 0: any that is free. flags: those of `penstock serve`, with "_" for "-"; True is the flag alone,
    False the flag with "no-" before it, a list the flag for each.
    timeout: seconds until it must be ready.

    Raises Unavailable, with the last lines of the server, where it does not start.
    """
    models = [model] if isinstance(model, str) else list(model)
    try:
        return Server(flag_words({"model": models, "port": port, **flags}), timeout)
    except FileNotFoundError as error:
        raise Error(str(error), code="not_found") from error
