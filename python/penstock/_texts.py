"""Texts on their way to a model: Python's strings, or an Arrow column as it lies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from .errors import InvalidArgument

# A window is one call. Two of them are within what a request and a queue may hold by default: inputs and
# bytes of a request, and three quarters of --max-queued-tokens, where each character is a token.
WINDOW_TEXTS = 2048
WINDOW_CHARACTERS = 1 << 18


@dataclass(frozen=True)
class Packed:
    """Texts in UTF-8 end to end: text i is from offsets[i] to offsets[i + 1] of the bytes."""

    bytes_address: int
    offsets_address: int
    count: int
    offset_bits: int
    keep: tuple[Any, ...]  # owns both


class Texts(Protocol):
    """Some texts, in one of two forms."""

    def __len__(self) -> int: ...

    def packed(self) -> Packed:
        """In UTF-8. Raises InvalidArgument for what is no Unicode."""

    def strings(self) -> list[str]:
        """As Python's strings."""


class StringTexts:
    """Python's strings."""

    def __init__(self, strings: list[str]) -> None:
        self._strings = strings

    def __len__(self) -> int:
        return len(self._strings)

    def strings(self) -> list[str]:
        return self._strings

    def packed(self) -> Packed:
        import ctypes

        import numpy as np

        joined = "".join(self._strings)
        if joined.isascii():
            data, lengths = joined.encode("ascii"), [len(text) for text in self._strings]
        else:
            each = [_utf8(text, row) for row, text in enumerate(self._strings)]
            data, lengths = b"".join(each), [len(text) for text in each]
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
        return Packed(address, offsets.ctypes.data, len(lengths), 64, (data, offsets))


def _utf8(text: str, row: int) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"text {row} has half of a surrogate pair, which is no Unicode", field=f"input[{row}]"
        ) from error


def as_strings(texts: Any, argument: str) -> tuple[list[str], bool]:
    """A text, or any iterable of texts, as a list; and whether it was one text.

    Raises InvalidArgument, whose field is `argument` or "argument[i]".
    """
    if isinstance(texts, str):
        return [texts], True
    if isinstance(texts, (bytes, dict)) or not isinstance(texts, Iterable):
        raise InvalidArgument(f"'{argument}' must be a text or texts, is {type(texts).__name__}", field=argument)
    found = list(texts)
    for row, text in enumerate(found):
        if not isinstance(text, str):
            check_string(text, argument, row)
    return found, False


def check_string(text: Any, argument: str, row: int) -> str:
    """`text`, which must be a string. (A string of numpy is one, too.)"""
    if isinstance(text, str):
        return text
    raise InvalidArgument(f"'{argument}[{row}]' must be a text, is {type(text).__name__}", field=f"{argument}[{row}]")


def windows(strings: Iterable[str], texts_max: int = WINDOW_TEXTS) -> Iterator[list[str]]:
    """The texts in their order, in lists that are neither long nor large. Lazy."""
    source = iter(strings)
    while True:
        window: list[str] = []
        characters = 0
        for text in islice(source, texts_max):
            window.append(text)
            characters += len(text)
            if characters >= WINDOW_CHARACTERS:
                break
        if not window:
            return
        yield window
