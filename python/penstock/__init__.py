"""Penstock: embeddings, reranking, classification, text and tensors, in this process or by a server.

Nothing heavy is loaded by the import: a name is brought in when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._serve import Server, serve
    from .classifier import Classifier
    from .embedder import Embedder
    from .errors import (
        Cancelled,
        DeadlineExceeded,
        Error,
        InternalError,
        InvalidArgument,
        ModelNotFound,
        NotFound,
        Overloaded,
        PayloadTooLarge,
        Unauthenticated,
        Unavailable,
        UnknownArgument,
        Unprocessable,
    )
    from .llm import LLM
    from .outputs import ChatResult, CompletionOutput, RequestOutput
    from .reranker import Reranker
    from .sampling import SamplingParams
    from .tensors import TensorModel, TensorSpec

__version__ = "0.1.0"

_MODULES = {
    "_serve": ("Server", "serve"),
    "classifier": ("Classifier",),
    "embedder": ("Embedder",),
    "errors": (
        "Cancelled",
        "DeadlineExceeded",
        "Error",
        "InternalError",
        "InvalidArgument",
        "ModelNotFound",
        "NotFound",
        "Overloaded",
        "PayloadTooLarge",
        "Unauthenticated",
        "Unavailable",
        "UnknownArgument",
        "Unprocessable",
    ),
    "llm": ("LLM",),
    "outputs": ("ChatResult", "CompletionOutput", "RequestOutput"),
    "reranker": ("Reranker",),
    "sampling": ("SamplingParams",),
    "tensors": ("TensorModel", "TensorSpec"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "LLM",
    "Cancelled",
    "ChatResult",
    "Classifier",
    "CompletionOutput",
    "DeadlineExceeded",
    "Embedder",
    "Error",
    "InternalError",
    "InvalidArgument",
    "ModelNotFound",
    "NotFound",
    "Overloaded",
    "PayloadTooLarge",
    "RequestOutput",
    "Reranker",
    "SamplingParams",
    "Server",
    "TensorModel",
    "TensorSpec",
    "Unauthenticated",
    "Unavailable",
    "UnknownArgument",
    "Unprocessable",
    "serve",
]


def __getattr__(name: str) -> object:
    """Imports what `name` needs, at its first use."""
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module("." + module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
