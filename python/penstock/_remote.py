"""Models of a Penstock server, over HTTP."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from ._backend import EmbedRequest, Mapped, Pending, Request, get, load, post
from ._http import Exchange, Server
from .errors import InternalError, InvalidArgument, ModelNotFound

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ._backend import Vectors

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Runs `work` in a thread of its own, which does not keep the process from ending."""
    from concurrent.futures import Future

    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="penstock", daemon=True).start()
    return future


async def await_thread(future: Future[T], cancel: Callable[[], None]) -> T:
    """The result of in_thread, in an event loop; `cancel` ends the work if the task is cancelled."""
    import asyncio

    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def set_over() -> None:
        if not over.done():
            over.set_result(None)

    def tell(_: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed, so no task waits
            loop.call_soon_threadsafe(set_over)

    future.add_done_callback(tell)
    try:
        await over
    except asyncio.CancelledError:
        cancel()
        raise
    return future.result()


class RemoteCall:
    """A request under way: in the thread that asks for its result, or in one of its own once started."""

    def __init__(self, server: Server, request: Request) -> None:
        self._exchange = Exchange(server, request)
        self._future: Future[bytes] | None = None

    def start(self) -> None:
        if self._future is None:
            self._future = in_thread(self._exchange.read)

    async def astart(self) -> None:
        self.start()

    def result(self) -> bytes:
        if self._future is None:
            return self._exchange.read()
        try:
            return self._future.result()
        except BaseException:
            self.cancel()
            raise

    async def aresult(self) -> bytes:
        self.start()
        assert self._future is not None
        return await await_thread(self._future, self.cancel)

    def cancel(self) -> None:
        self._exchange.cancel()


class RemoteParts:
    """A streamed answer."""

    def __init__(self, server: Server, request: Request) -> None:
        self._exchange = Exchange(server, request)
        self._response = self._exchange.open()

    def __iter__(self) -> Iterator[bytes]:
        while True:
            part = self._exchange.piece(self._response)
            if not part:
                break
            yield part
        self._exchange.finish(self._response)

    def close(self) -> None:
        """Any thread may close: one that reads gets Cancelled."""
        if not self._response.isclosed():
            self._exchange.cancel()
        self._exchange.finish(self._response)


class AsyncRemoteParts:
    """A streamed answer, read by a thread of its own. Each part is asked for, so a slow reader is waited for."""

    def __init__(self, server: Server, request: Request) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._exchange = Exchange(server, request)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="penstock")
        self._response: Any = None
        self._closed = False

    async def open(self) -> None:
        """Sends the request and waits for the head of the answer."""
        try:
            self._response = await self._do(self._exchange.open)
        except BaseException:
            self._thread.shutdown(wait=False)
            raise

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            part: bytes = await self._do(lambda: self._exchange.piece(self._response))
            if not part:
                return
            yield part

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        if not self._response.isclosed():
            self._exchange.cancel()
        self._thread.submit(self._exchange.finish, self._response)
        self._thread.shutdown(wait=False)

    async def _do(self, work: Callable[[], T]) -> T:
        return await await_thread(self._thread.submit(work), self._exchange.cancel)


class RemoteBackend:
    """A server."""

    def __init__(self, url: str, api_key: str | None, timeout: float) -> None:
        headers = {"Accept": "application/json"}
        if api_key:
            if not api_key.isascii() or not api_key.isprintable():
                raise InvalidArgument("'api_key' has a character that no header can have", field="api_key")
            headers["Authorization"] = f"Bearer {api_key}"
        self._server = Server(url, headers, timeout)
        self._close = weakref.finalize(self, self._server.close)

    def call(self, request: Request) -> Pending[bytes]:
        return RemoteCall(self._server, request)

    def embed(self, request: EmbedRequest) -> Pending[Vectors]:
        options = dict(request.options)
        priority = options.pop("priority", None)
        asked = post("/v1/embeddings", {**options, "encoding_format": "base64", "input": request.texts.strings()})
        if priority:
            asked.headers["X-Penstock-Priority"] = priority
        count = len(request.texts)
        return Mapped(RemoteCall(self._server, asked), lambda body: vectors_of(body, count))

    def stream(self, request: Request) -> RemoteParts:
        return RemoteParts(self._server, request)

    async def astream(self, request: Request) -> AsyncRemoteParts:
        parts = AsyncRemoteParts(self._server, request)
        await parts.open()
        return parts

    def find_model(self, model: str | None, task: str) -> dict[str, Any]:
        if model is not None:
            found: dict[str, Any] = load(self.call(get("/v1/models/" + quote(model, safe="/"))).result())
            return {**found, "id": model}  # by whichever of its names it was asked for
        for each in load(self.call(get("/v1/models")).result())["data"]:
            if each.get("task") == task:
                return dict(each)
        raise ModelNotFound(f"{self._server.url} serves no model for {task}", field="model")

    def close(self) -> None:
        self._close()


def vectors_of(body: bytes, count: int) -> Vectors:
    """The vectors of an answer of /v1/embeddings in base64, float32 [count, dimensions].

    Raises InternalError where it is none.
    """
    from base64 import b64decode

    import numpy as np

    try:
        rows = [b64decode(each["embedding"]) for each in load(body)["data"]]
        if len(rows) != count:
            raise ValueError(f"{len(rows)} vectors for {count} texts")
        # Little-endian, as the route says.
        flat = np.frombuffer(bytearray().join(rows), dtype="<f4")
        return flat.reshape(count, -1)
    except (KeyError, TypeError, ValueError) as error:
        raise InternalError(f"the answer of the server cannot be used: {error}") from error
