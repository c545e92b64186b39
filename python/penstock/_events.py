"""Event loops wait for calls of the library by its descriptor: no thread waits, none takes the GIL."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from ._library import RUNNING
from .errors import Error

if TYPE_CHECKING:
    from ._handle import Handle

# How often a call of models that are being closed is looked at.
CLOSED_POLL_S = 0.01

Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Events:
    """Wakes those who wait for a call, in whichever loop. A wake can be false: who wakes looks again.

    The descriptor is shared: a loop that reads it may get calls that another loop waits for, and calls
    that threads wait for, whose addresses mean nothing here.
    """

    def __init__(self, handle: Handle) -> None:
        self._library = handle.library
        self._models = handle.address()
        self._fd: int = self._library.event_fd(self._models)
        if self._fd < 0:
            raise Error("the library has no descriptor for event loops", code="unavailable")
        self._lock = threading.Lock()
        self._waiters: dict[int, Waiter] = {}
        self._loops: dict[asyncio.AbstractEventLoop, int] = {}
        self._closed = False

    async def wait(self, call: int) -> None:
        """Waits until the call at that address has something to take, or perhaps has."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[None] = loop.create_future()
        with self._lock:
            self._waiters[call] = (loop, told)
            count = self._loops.get(loop, 0)
            self._loops[loop] = count + 1
        if count == 0:
            loop.add_reader(self._fd, self._wake)
        try:
            # It may have been told before it was in the table.
            if self._library.state(call, 0) == RUNNING:
                await (asyncio.sleep(CLOSED_POLL_S) if self._closed else told)
        finally:
            self._leave(call, loop)

    def close(self) -> None:
        """Before the models are closed: no loop asks them any more, and all who wait look again."""
        with self._lock:
            self._closed = True
            waiters = list(self._waiters.values())
        for loop, told in waiters:
            loop.call_soon_threadsafe(_set, told)

    def _leave(self, call: int, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self._waiters.pop(call, None)
            self._loops[loop] -= 1
            last = self._loops[loop] == 0
            if last:
                del self._loops[loop]
        if last:
            loop.remove_reader(self._fd)

    def _wake(self) -> None:
        """Tells every waiter whose call has something to take."""
        while True:
            with self._lock:
                call = None if self._closed else self._library.next(self._models)
                if not call:
                    return
                found = self._waiters.pop(call, None)
            if found is not None:
                loop, told = found
                loop.call_soon_threadsafe(_set, told)


def _set(told: asyncio.Future[None]) -> None:
    if not told.done():
        told.set_result(None)
