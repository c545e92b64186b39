"""Texts that come piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from ._sse import EventReader

if TYPE_CHECKING:
    from types import TracebackType

    from ._backend import AsyncParts, Parts


class _Seen:
    """The text and facts received so far. `finish_reason` and `usage` are set when the stream ends."""

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self.usage: dict[str, Any] | None = None

    def _text_of(self, event: dict[str, Any]) -> str:
        """The text that an event adds to the first answer."""
        self.usage = event.get("usage") or self.usage
        text = ""
        for choice in event.get("choices", ()):
            if choice["index"] == 0:
                self.finish_reason = choice.get("finish_reason") or self.finish_reason
                text += choice["text"] if "text" in choice else choice["delta"].get("content") or ""
        return text


class TextStream(_Seen):
    """Pieces of a text, as they are made: an iterator of texts, or of whole events by `events`.

    Left early, it is to be closed (by `close`, or a `with` statement), which ends the model's work on it.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self._parts = parts
        self._texts = self._read_texts()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self._texts)

    def events(self) -> Iterator[dict[str, Any]]:
        """The events as OpenAI has them, in place of their texts: calls of tools, log-probabilities, thinking."""
        reader = EventReader()
        try:
            for part in self._parts:
                for event in reader.feed(part):
                    self._text_of(event)
                    yield event
            reader.check_whole()
        finally:
            self.close()

    def close(self) -> None:
        """Ends the text."""
        self._parts.close()

    def __enter__(self) -> TextStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_texts(self) -> Iterator[str]:
        for event in self.events():
            text = self._text_of(event)
            if text:
                yield text


class AsyncTextStream(_Seen):
    """As TextStream, in an event loop."""

    def __init__(self, parts: AsyncParts) -> None:
        super().__init__()
        self._parts = parts
        self._texts = self._read_texts()

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        return await self._texts.__anext__()

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """As TextStream.events."""
        reader = EventReader()
        try:
            async for part in self._parts:
                for event in reader.feed(part):
                    self._text_of(event)
                    yield event
            reader.check_whole()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Ends the text."""
        await self._parts.aclose()

    async def __aenter__(self) -> AsyncTextStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _read_texts(self) -> AsyncIterator[str]:
        async for event in self.events():
            text = self._text_of(event)
            if text:
                yield text
