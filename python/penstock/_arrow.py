"""Columns of Arrow: texts as they lie in memory, and vectors as a column."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._texts import WINDOW_CHARACTERS, WINDOW_TEXTS, Packed
from .errors import InvalidArgument

if TYPE_CHECKING:
    from ._backend import Vectors


class ArrowTexts:
    """Rows of a pyarrow StringArray or LargeStringArray, which is not copied."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def strings(self) -> list[str]:
        strings: list[str] = self._array.to_pylist()
        return strings

    def packed(self) -> Packed:
        _, offsets, data = self._array.buffers()
        bits = 64 if self._array.type == import_module("pyarrow").large_string() else 32
        begin = offsets.address + self._array.offset * (bits // 8)
        return Packed(data.address if data is not None else 0, begin, len(self._array), bits, (self._array,))


def column_windows(column: Any) -> Iterator[ArrowTexts]:
    """The texts of a StringArray, LargeStringArray or ChunkedArray of them, in windows.

    Raises InvalidArgument for another type, and for the first row that is null.
    """
    pyarrow = import_module("pyarrow")
    _check(pyarrow, column)
    chunks = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
    return _windows(chunks)


def _windows(chunks: list[Any]) -> Iterator[ArrowTexts]:
    for chunk in chunks:
        if len(chunk) == 0:
            continue
        # Windows of about as many bytes; a row that is much longer than others makes one that is larger.
        bytes_a_row = max(1, chunk.get_total_buffer_size() // len(chunk))
        step = max(1, min(WINDOW_TEXTS, WINDOW_CHARACTERS // bytes_a_row))
        for begin in range(0, len(chunk), step):
            yield ArrowTexts(chunk.slice(begin, step))


def _check(pyarrow: Any, column: Any) -> None:
    kind = getattr(column, "type", None)
    if kind not in (pyarrow.string(), pyarrow.large_string()):
        raise InvalidArgument(
            f"'column' must be a column of strings, is {kind or type(column).__name__}", field="column"
        )
    if column.null_count:
        import_module("pyarrow.compute")
        row = pyarrow.compute.index(column.is_null(), True).as_py()
        raise InvalidArgument(f"row {row} is null; {column.null_count} of {len(column)} are", field=f"column[{row}]")


def vectors_column(vectors: Vectors) -> Any:
    """float32 [n, dimensions] as a FixedSizeListArray, on the same memory unless they were cut."""
    import numpy as np

    pyarrow = import_module("pyarrow")
    rows, dimensions = vectors.shape
    buffer = pyarrow.py_buffer(np.ascontiguousarray(vectors))
    flat = pyarrow.Array.from_buffers(pyarrow.float32(), rows * dimensions, [None, buffer])
    return pyarrow.FixedSizeListArray.from_arrays(flat, dimensions)
