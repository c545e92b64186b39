"""The arguments of Embedder.encode: what they ask for, and the form of what is given back."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import InvalidArgument, refuse, refuse_unknown, unknown_argument

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._backend import Vectors

PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")
ROW_ARGUMENTS = ("prompt_name", "prompt", "normalize_embeddings", "truncate_dim", "batch_size")
_log = logging.getLogger("penstock")
_told_of_batch_size = False


@dataclass(frozen=True)
class Form:
    """What one call of encode wants."""

    options: dict[str, Any] = field(default_factory=dict)  # fields of /v1/embeddings
    cut: int | None = None  # dimensions that are kept of what the model gives
    precision: str = "float32"
    tensor: bool = False
    listed: bool = False
    progress: bool | None = None

    def finish(self, vectors: Vectors, single: bool) -> Any:
        """The vectors, float32 [n, dimensions], in the form that was asked for."""
        found: npt.NDArray[Any] = vectors
        if self.precision != "float32" and len(vectors):
            from .quantize import quantize_embeddings

            found = quantize_embeddings(vectors, self.precision)
        if self.tensor:
            tensors = import_module("torch").from_numpy(found)
            return tensors[0] if single else tensors
        if single:
            return found[0]
        return list(found) if self.listed else found


def form_of(
    *,
    prompt_name: str | None = None,
    prompt: str | None = None,
    batch_size: int = 32,
    show_progress_bar: bool | None = None,
    output_value: str | None = "sentence_embedding",
    precision: str = "float32",
    convert_to_numpy: bool = True,
    convert_to_tensor: bool = False,
    device: Any = None,
    normalize_embeddings: bool | None = None,
    truncate_dim: int | None = None,
    input_type: str | None = None,
    **unknown: Any,
) -> Form:
    """Checks the arguments. Raises InvalidArgument with the name of the one at fault."""
    refuse_unknown(unknown, "encode")
    _check_batch_size(batch_size)
    if output_value != "sentence_embedding":
        raise refuse("output_value", "only 'sentence_embedding' is given")
    if precision not in PRECISIONS:
        raise InvalidArgument(f"'precision' must be one of {', '.join(PRECISIONS)}", field="precision")
    if device is not None and not isinstance(device, str):
        raise refuse("device", "a model stays on the device it was opened for")
    options: dict[str, Any] = {}
    if prompt is not None:
        options["prompt"] = _string(prompt, "prompt")
    elif prompt_name is not None:
        options["prompt_name"] = _string(prompt_name, "prompt_name")
    elif input_type is not None:
        options["input_type"] = input_type
    cut = _dimensions(truncate_dim)
    if normalize_embeddings:
        # Cut, then of length 1. Otherwise a vector is cut as it is, so its length falls: as sentence-transformers.
        options["normalize"] = True
        if cut is not None:
            options["dimensions"], cut = cut, None
    return Form(options, cut, precision, convert_to_tensor, not convert_to_numpy, show_progress_bar)


def row_form(arguments: dict[str, Any], where: str) -> Form:
    """As form_of, for what gives vectors alone: other arguments are refused by name."""
    for name in arguments:
        if name not in ROW_ARGUMENTS:
            raise unknown_argument(name, where)
    return form_of(**arguments)


def check_device(device: Any, opened_for: str | None) -> None:
    """Raises InvalidArgument where encode names another device than the model's."""
    if device is not None and device != (opened_for or "cpu"):
        raise refuse("device", f"the model was opened for {opened_for or 'cpu'}, where it stays")


def _check_batch_size(batch_size: Any) -> None:
    global _told_of_batch_size
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise InvalidArgument(f"'batch_size' must be at least 1, is {batch_size!r}", field="batch_size")
    if batch_size != 32 and not _told_of_batch_size:
        _told_of_batch_size = True
        _log.debug("batch_size has no effect: batches are formed by tokens")


def _string(value: Any, name: str) -> str:
    if isinstance(value, str):
        return value
    raise InvalidArgument(f"'{name}' must be a text, is {type(value).__name__}", field=name)


def _dimensions(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgument(f"'truncate_dim' must be at least 1, is {value!r}", field="truncate_dim")
    return int(value)


def check_cut(cut: int | None, dimensions: int) -> None:
    """Raises InvalidArgument where more dimensions are to be kept than there are."""
    if cut is not None and cut > dimensions:
        raise InvalidArgument(f"'truncate_dim' is {cut}; the model has {dimensions}", field="truncate_dim")
