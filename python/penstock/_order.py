"""Calls under way side by side, whose results come in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ._backend import Pending

T = TypeVar("T")


def in_order(calls: Iterable[Pending[T]], under_way: int, eager: bool = False) -> Iterator[T]:
    """The results of `calls`, at most `under_way` of which are begun and not yet given.

    A call alone is not begun ahead: its result is waited for in this thread. With `eager` each call
    begins before the next is asked for, where that may take long. What is left is cancelled where
    one fails, or the iterator is closed.
    """
    begun: deque[Pending[T]] = deque()
    try:
        for call in calls:
            for each in (*begun, call) if begun or eager else ():
                each.start()
            begun.append(call)
            if len(begun) >= under_way:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for call in begun:
            call.cancel()


async def ain_order(calls: Iterable[Pending[T]], under_way: int) -> AsyncIterator[T]:
    """As in_order, in an event loop."""
    begun: deque[Pending[T]] = deque()
    try:
        for call in calls:
            await call.astart()
            begun.append(call)
            if len(begun) >= under_way:
                yield await begun.popleft().aresult()
        while begun:
            yield await begun.popleft().aresult()
    finally:
        for call in begun:
            call.cancel()
