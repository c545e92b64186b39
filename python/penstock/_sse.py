"""Server-sent events: the JSON objects of a streamed answer, from its bytes."""

from __future__ import annotations

from typing import Any

from ._backend import load
from .errors import Unavailable, error_of_body

DONE = b"[DONE]"


class EventReader:
    """Takes the bytes as they come, cut anywhere, and gives events as soon as they are whole."""

    def __init__(self) -> None:
        self.done = False  # the last event, [DONE], came
        self._rest = b""

    def feed(self, part: bytes) -> list[dict[str, Any]]:
        """The events that `part` completes. Raises the error that an event tells of."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        events = []
        for line in lines:
            if not line.startswith(b"data:"):
                continue  # an empty line, a comment, a field that is not used
            data = line[5:].strip()
            if data == DONE:
                self.done = True
                continue
            event = load(data)
            if "error" in event:
                raise error_of_body(event)
            events.append(event)
        return events

    def check_whole(self) -> None:
        """At the end of the bytes: raises Unavailable where the answer broke off."""
        if not self.done:
            raise Unavailable("the answer broke off before its end")
