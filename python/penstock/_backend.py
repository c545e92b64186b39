"""What models are asked through: in this process (_native) or a server (_remote).

Both take the same requests and give the same answers, so everything above is written once.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from .errors import Error, InternalError, InvalidArgument, error_of_answer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ._texts import Texts

    Vectors = npt.NDArray[np.float32]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Request:
    """A request to a route of docs/API.md."""

    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EmbedRequest:
    """Texts to embed; `options` are fields of /v1/embeddings: model, prompt, prompt_name, input_type, ..."""

    texts: Texts
    options: dict[str, Any]


class Pending(Protocol[T_co]):
    """A call: begun by start or astart, which are for calls ahead of others, or when its result is asked for.

    One thread at a time; cancel is for any.
    """

    def start(self) -> None:
        """Begins the call, if it has not begun."""

    async def astart(self) -> None:
        """As start, for a result that aresult takes."""

    def result(self) -> T_co:
        """Waits for the result. Raises an Error; KeyboardInterrupt cancels the call."""

    async def aresult(self) -> T_co:
        """As result. A task that is cancelled cancels the call."""

    def cancel(self) -> None:
        """Ends the call early; its result raises Cancelled."""


class Parts(Protocol):
    """The pieces of a streamed answer, as they come. To be closed, which cancels what is left."""

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None: ...


class AsyncParts(Protocol):
    """As Parts, in an event loop."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class Backend(Protocol):
    """Where models are. Any thread may use it."""

    def call(self, request: Request) -> Pending[bytes]:
        """The body of the answer; an answer that is an error is raised."""

    def embed(self, request: EmbedRequest) -> Pending[Vectors]:
        """float32 [texts, dimensions]."""

    def stream(self, request: Request) -> Parts:
        """The answer of a route that streams. Errors before its first piece are raised here."""

    async def astream(self, request: Request) -> AsyncParts:
        """As stream."""

    def find_model(self, model: str | None, task: str) -> dict[str, Any]:
        """What /v1/models says of the model: the one that was opened, which is loaded now, or on a server by
        name, or by task where there is none."""

    def close(self) -> None:
        """Ends the use of it. Calls under way are cancelled."""


def dump(value: Any) -> bytes:
    """JSON in UTF-8. Raises InvalidArgument for what JSON or UTF-8 does not have."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument("a text has half of a surrogate pair, which is no Unicode") from error
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"cannot be written as JSON: {error}") from error


def load(body: bytes) -> Any:
    """Parses an answer. Raises InternalError if it is not JSON."""
    try:
        return json.loads(body)
    except ValueError as error:
        raise InternalError(f"an answer is not JSON: {body[:100]!r}") from error


def post(path: str, body: dict[str, Any]) -> Request:
    """A POST of JSON."""
    return Request("POST", path, dump(body), {"Content-Type": "application/json"})


def get(path: str) -> Request:
    """A GET."""
    return Request("GET", path)


def checked(status: int, body: bytes, retry_after: int = 0) -> bytes:
    """The body of an answer; raises the error that it tells of."""
    if status >= 400:
        raise error_of_answer(status, body, retry_after)
    return body


class Mapped(Generic[T]):
    """A call whose result is made of another's."""

    def __init__(self, pending: Pending[Any], change: Any, fix: Any = None) -> None:
        """`change` makes the result; `fix`, if given, changes an Error in place before it is raised."""
        self._pending = pending
        self._change = change
        self._fix = fix

    def start(self) -> None:
        try:
            self._pending.start()
        except Error as error:
            raise self._fixed(error) from None

    async def astart(self) -> None:
        try:
            await self._pending.astart()
        except Error as error:
            raise self._fixed(error) from None

    def result(self) -> T:
        try:
            return self._changed(self._pending.result())
        except Error as error:
            raise self._fixed(error) from None

    async def aresult(self) -> T:
        try:
            return self._changed(await self._pending.aresult())
        except Error as error:
            raise self._fixed(error) from None

    def cancel(self) -> None:
        self._pending.cancel()

    def _changed(self, result: Any) -> T:
        changed: T = self._change(result)
        return changed

    def _fixed(self, error: Error) -> Error:
        if self._fix is not None:
            self._fix(error)
        return error
