"""Similarities of vectors, as sentence-transformers names and counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InvalidArgument

if TYPE_CHECKING:
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

FUNCTIONS = ("cosine", "dot", "euclidean", "manhattan")
# Bytes of differences that are held at once.
BLOCK_BYTES = 16 << 20


def similarity(function: str, a: Any, b: Any) -> Matrix:
    """Each of `a` [n, d] beside each of `b` [m, d]: float32 [n, m]. Distances are negated."""
    one, other = _rows(a), _rows(b)
    if function == "cosine":
        one, other = _unit(one), _unit(other)
    if function in ("cosine", "dot"):
        products: Matrix = one @ other.T
        return products
    found = np.empty((len(one), len(other)), dtype=np.float32)
    step = max(1, BLOCK_BYTES // max(1, other.nbytes))
    for begin in range(0, len(one), step):
        difference = one[begin : begin + step, None, :] - other[None, :, :]
        found[begin : begin + step] = _negated_distance(function, difference)
    return found


def similarity_pairwise(function: str, a: Any, b: Any) -> Matrix:
    """Each of `a` [n, d] beside its own of `b` [n, d]: float32 [n]."""
    one, other = _rows(a), _rows(b)
    if one.shape != other.shape:
        raise InvalidArgument(f"a has the shape {one.shape} and b {other.shape}; both must have the same", field="b")
    if function == "cosine":
        one, other = _unit(one), _unit(other)
    if function in ("cosine", "dot"):
        products: Matrix = np.einsum("ij,ij->i", one, other)
        return products
    return _negated_distance(function, one - other)


def _rows(vectors: Any) -> Matrix:
    found: Matrix = np.asarray(vectors, dtype=np.float32)
    return found[None, :] if found.ndim == 1 else found


def _unit(rows: Matrix) -> Matrix:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: Matrix = rows / np.maximum(lengths, np.float32(1e-12))
    return unit


def _negated_distance(function: str, difference: Matrix) -> Matrix:
    if function == "euclidean":
        euclidean: Matrix = -np.sqrt(np.square(difference).sum(axis=-1))
        return euclidean
    if function == "manhattan":
        manhattan: Matrix = -np.abs(difference).sum(axis=-1)
        return manhattan
    raise InvalidArgument(f"similarity {function!r} is not one of {', '.join(FUNCTIONS)}", field="similarity_fn_name")
