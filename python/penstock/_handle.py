"""Handles of the library: opened once for equal options, closed with their last user or the process.

A handle belongs to the process that opened it. After a fork the child is refused at once.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ._backend import dump
from ._library import Library, library
from .errors import Error

if TYPE_CHECKING:
    from ._events import Events

_lock = threading.RLock()
_open: WeakValueDictionary[tuple[int, bytes], Handle] = WeakValueDictionary()


class Handle:
    """A `penstock*`. Any thread of its process may use it."""

    def __init__(self, options: bytes) -> None:
        """`options`: a JSON object. Raises the Error of penstock_open."""
        self.library: Library = library()
        self.pid = os.getpid()
        self.users = 0
        self._events: Events | None = None
        error = ctypes.c_void_p()
        self._address: int | None = self.library.open(options, ctypes.byref(error))
        if self._address is None:
            raise self._open_error(error)

    def check_process(self) -> None:
        """Raises Error in a forked child."""
        if self.pid != os.getpid():
            raise Error(
                "the model was opened before fork, and its threads are not in this process: open it here, "
                "or start processes by spawn",
                code="unavailable",
            )

    def address(self) -> int:
        """The pointer. Raises Error in a forked child, and where it was closed."""
        self.check_process()
        address = self._address
        if address is None:
            raise Error("the model was closed", code="unavailable")
        return address

    def events(self) -> Events:
        """What tells event loops of calls; calls made before its first use are not told."""
        with _lock:
            if self._events is None:
                from ._events import Events

                self._events = Events(self)
            return self._events

    def close(self) -> None:
        """Cancels the calls under way and waits for their end. Nothing in a forked child."""
        with _lock:
            address, self._address = self._address, None
            events, self._events = self._events, None
        if address is None or self.pid != os.getpid():
            return
        if events is not None:
            events.close()
        self.library.close(address)

    def _open_error(self, error: Any) -> Error:
        if not error.value:
            return Error("the library gave neither a handle nor an error")
        found = self.library.error(error.value)
        self.library.error_free(error.value)
        return found


def acquire(options: dict[str, Any]) -> Handle:
    """A handle with these options, which other users with equal ones share; to be released."""
    text = dump(dict(sorted(options.items())))
    with _lock:
        handle = _open.get((os.getpid(), text))
        if handle is None:
            handle = Handle(text)
            _open[(handle.pid, text)] = handle
        handle.users += 1
        return handle


def release(handle: Handle) -> None:
    """Ends one use of a handle; the last one closes it."""
    with _lock:
        handle.users -= 1
        if handle.users > 0:
            return
        for key, each in list(_open.items()):
            if each is handle:
                del _open[key]
    handle.close()


@atexit.register
def _close_all() -> None:
    for handle in list(_open.values()):
        handle.close()


# A lock that another thread held during the fork would never be free in the child.
def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
