"""Errors. Every one is a penstock.Error and has a code, a field and a time to wait.

The same failure is the same class, whether a model in this process or a server tells of it.
"""

from __future__ import annotations

import json
from typing import Any


class Error(Exception):
    """What went wrong.

    code: "invalid_argument", "not_found", ...: the kind of failure.
    field: the argument, option or field of a request that is wrong; "" if the error is about none.
    retry_after: seconds to wait before the same is tried again; 0 where that is not said.
    """

    code = "internal"
    field = ""
    retry_after = 0

    def __init__(self, message: str, *, code: str = "", field: str = "", retry_after: int = 0) -> None:
        super().__init__(message)
        if code:
            self.code = code
        self.field = field
        self.retry_after = retry_after


class InvalidArgument(Error, ValueError):
    """An argument has the wrong type or value; `field` names it."""

    code = "invalid_argument"


class UnknownArgument(InvalidArgument, TypeError):
    """An argument that is not known here, and could change the result; `field` names it."""


class Unauthenticated(Error):
    """The server wants a key, or another one."""

    code = "unauthenticated"


class NotFound(Error):
    """What was asked for is not there."""

    code = "not_found"


class ModelNotFound(NotFound):
    """No model of that name is served, and none can be loaded."""


class PayloadTooLarge(Error):
    """A text, a request or an answer is over its limit."""

    code = "payload_too_large"


class Unprocessable(Error):
    """The request is well-formed, but this model or build cannot do it."""

    code = "unprocessable"


class Overloaded(Error):
    """A queue is full; `retry_after` says when to come back."""

    code = "resource_exhausted"


class Unavailable(Error):
    """The server cannot be reached, is stopping, or has no room for the model."""

    code = "unavailable"


class DeadlineExceeded(Unavailable):
    """The time of the request ran out."""

    code = "deadline_exceeded"


class Cancelled(Error):
    """The call was ended before it had its result."""

    code = "cancelled"


class InternalError(Error):
    """A fault of the model, of Penstock, or an answer that cannot be read."""


_CLASSES: dict[str, type[Error]] = {
    "invalid_argument": InvalidArgument,
    "unauthenticated": Unauthenticated,
    "not_found": NotFound,
    "model_not_found": ModelNotFound,
    "payload_too_large": PayloadTooLarge,
    "unprocessable": Unprocessable,
    "unsupported": Unprocessable,
    "resource_exhausted": Overloaded,
    "unavailable": Unavailable,
    "deadline_exceeded": DeadlineExceeded,
    "cancelled": Cancelled,
    "internal": InternalError,
}
_CODES_OF_STATUS = {
    400: "invalid_argument",
    401: "unauthenticated",
    403: "unauthenticated",
    404: "not_found",
    408: "unavailable",
    413: "payload_too_large",
    422: "unprocessable",
    429: "resource_exhausted",
    499: "cancelled",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
}


def error_of(code: str, message: str, field: str = "", retry_after: int = 0) -> Error:
    """The error of a code as Penstock names them; an unknown one is an InternalError that keeps it."""
    if code == "not_found" and field == "model":
        code = "model_not_found"
    kind = _CLASSES.get(code, InternalError)
    kept = kind.code if code == "model_not_found" else code
    return kind(message, code=kept, field=field, retry_after=retry_after)


def error_of_answer(status: int, body: bytes, retry_after: int = 0) -> Error:
    """The error of an answer whose HTTP status is 400 or more, in any of the forms of docs/API.md."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return error_of_body(found, status, retry_after)
    text = body[:200].decode("utf-8", "replace").strip()
    return error_of(_CODES_OF_STATUS.get(status, "internal"), f"status {status}: {text}", "", retry_after)


def error_of_body(body: dict[str, Any], status: int = 0, retry_after: int = 0) -> Error:
    """The error that a JSON object tells of; `status` is 0 in the middle of a stream."""
    inner = body.get("error")
    parts: dict[str, Any] = inner if isinstance(inner, dict) else body
    message = parts.get("message") or (inner if isinstance(inner, str) else "") or body.get("detail")
    field = parts.get("param") or parts.get("field") or ""
    told = _known_code(parts.get("code"))
    code = told or _CODES_OF_STATUS.get(status, "internal")
    return error_of(code, str(message or f"status {status}"), str(field), retry_after)


def _known_code(code: Any) -> str | None:
    # Some forms have codes of OpenAI's; those say less than the status does.
    return code if isinstance(code, str) and code in _CLASSES else None


def unknown_argument(name: str, where: str) -> UnknownArgument:
    """The error of an argument that `where` does not know."""
    return UnknownArgument(f"{where} does not know the argument '{name}'", field=name)


def refuse_unknown(arguments: dict[str, Any], where: str) -> None:
    """Raises UnknownArgument for the first of `arguments`, if there is one."""
    for name in arguments:
        raise unknown_argument(name, where)


def refuse(name: str, why: str) -> InvalidArgument:
    """The error of an argument that is known, and is not done here."""
    return InvalidArgument(f"'{name}' is not supported: {why}", field=name)
