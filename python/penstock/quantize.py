"""Vectors of fewer bits, with the values that sentence-transformers gives."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InvalidArgument

if TYPE_CHECKING:
    import numpy.typing as npt

_log = logging.getLogger("penstock")
STABLE_ROWS = 100


def quantize_embeddings(
    embeddings: npt.NDArray[Any],
    precision: str,
    ranges: npt.NDArray[Any] | None = None,
    calibration_embeddings: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """Rows of numbers, float [n, dimensions], as `precision`.

    "int8", "uint8": 256 steps from the least to the greatest number of each dimension: of `ranges`
    [2, dimensions], else of `calibration_embeddings`, else of the embeddings themselves, which must be
    two at least; so the same vector gets other numbers beside others.
    "binary", "ubinary": a bit a number, 1 where it is positive, eight to a byte: [n, dimensions / 8].
    Raises InvalidArgument for another precision, and where there are no ranges.
    """
    if precision == "float32":
        return embeddings.astype(np.float32)
    if precision in ("binary", "ubinary"):
        bits: npt.NDArray[Any] = np.packbits(embeddings > 0, axis=-1)
        return bits if precision == "ubinary" else (bits ^ np.uint8(128)).view(np.int8)
    if precision not in ("int8", "uint8"):
        raise InvalidArgument(f"precision {precision!r} is not known", field="precision")
    if ranges is None:
        ranges = _ranges(embeddings if calibration_embeddings is None else calibration_embeddings, precision)
    least, greatest = ranges.astype(np.float32)
    steps = (greatest - least) / np.float32(255)
    steps = np.where(steps == 0, np.float32(1), steps)
    levels: npt.NDArray[Any] = np.clip(np.floor((embeddings - least) / steps), 0, 255)
    return levels.astype(np.uint8) if precision == "uint8" else (levels - 128).astype(np.int8)


def _ranges(rows: npt.NDArray[Any], precision: str) -> npt.NDArray[Any]:
    if rows.ndim == 1 or len(rows) < 2:
        raise InvalidArgument(
            f"precision {precision!r} takes its ranges from the vectors of the call, and one has none: "
            "quantize_embeddings takes ranges",
            field="precision",
        )
    if len(rows) < STABLE_ROWS:
        _log.warning("ranges of %s are taken from %d vectors only", precision, len(rows))
    return np.vstack((rows.min(axis=0), rows.max(axis=0)))
