"""Models in this process: calls of the library, and what they give."""

from __future__ import annotations

import ctypes
import os
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import _handle
from ._backend import EmbedRequest, Pending, Request, checked, dump, get, load, post
from ._library import ENDED, FAILED, RUNNING, TextsStruct, ViewStruct
from .errors import Cancelled, Error, Overloaded

if TYPE_CHECKING:
    from ._backend import Vectors
    from ._handle import Handle

T = TypeVar("T")

# Calls that find a queue full are made again after so long, twice as long each time, for so long at most.
RETRY_S, RETRY_MAX_S, RETRY_WHOLE_S = 0.005, 0.5, 60.0

# A wait of the library cannot be interrupted, so signals of Python are looked for this often.
SLICE_MS = 50


class Call:
    """A `penstock_call*`, which goes with this object. One thread at a time, but for cancel."""

    def __init__(self, handle: Handle, address: int | None) -> None:
        if address is None:
            raise MemoryError("no memory for a call")
        self.handle = handle
        self.address = address
        self._free = handle.library.free

    def __del__(self) -> None:
        address, self.address = getattr(self, "address", None), None  # type: ignore[assignment]
        if address is not None and self.handle.pid == os.getpid():
            self._free(address)

    def cancel(self) -> None:
        self.handle.library.cancel(self.address)

    def wait(self) -> None:
        """Waits until there is something to take. What interrupts it, such as Ctrl-C, cancels the call."""
        self.handle.check_process()
        wait = self.handle.library.wait
        try:
            while wait(self.address, SLICE_MS) == RUNNING:
                pass
        except BaseException:
            self.cancel()
            raise

    async def await_(self) -> None:
        """As wait, in an event loop."""
        self.handle.check_process()
        events = self.handle.events()
        try:
            while self.handle.library.state(self.address, 0) == RUNNING:
                await events.wait(self.address)
        except BaseException:
            self.cancel()
            raise

    def take(self) -> tuple[int, ViewStruct]:
        """The state, and what was taken. Raises the call's error."""
        view = ViewStruct()
        state: int = self.handle.library.result(self.address, ctypes.byref(view))
        if state == FAILED:
            error = self.handle.library.call_error(self.address)
            raise self.handle.library.error(error) if error else Error("a call failed and does not say why")
        return state, view


class VectorMemory:
    """The memory of a call's vectors, as numpy wants it told; the array keeps this, this keeps the call."""

    def __init__(self, call: Call, view: ViewStruct) -> None:
        self._call = call
        # False: the array may be written to. The memory is the call's alone.
        self.__array_interface__ = {
            "version": 3,
            "typestr": "<f4",
            "shape": (view.rows, view.columns),
            "data": (view.data, False),
        }


def take_vectors(call: Call) -> Vectors:
    """float32 [rows, columns] in the memory of the call, which lives as long as the array."""
    import numpy as np

    _, view = call.take()
    if not view.rows or not view.data:
        return np.empty((view.rows, view.columns), dtype=np.float32)
    vectors: Vectors = np.asarray(VectorMemory(call, view))
    return vectors


def take_bytes(call: Call) -> tuple[int, bytes]:
    """The state and a copy of the answer or its next part. Raises the error that an answer tells of."""
    state, view = call.take()
    if state == RUNNING:
        return state, b""
    body = ctypes.string_at(view.data, view.bytes) if view.bytes else b""
    return state, checked(view.status, body, _retry_after(view.headers))


def _retry_after(headers: bytes | None) -> int:
    for line in (headers or b"").splitlines():
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"retry-after" and value.strip().isdigit():
            return int(value)
    return 0


def take_body(call: Call) -> bytes:
    """The whole answer."""
    return take_bytes(call)[1]


def waits() -> Iterator[float]:
    """Seconds before a call that found a queue full is made again."""
    wait, whole = RETRY_S, 0.0
    while whole < RETRY_WHOLE_S:
        yield wait
        whole += wait
        wait = min(2 * wait, RETRY_MAX_S)


class NativeCall(Generic[T]):
    """A call that begins when it is started, or when its result is asked for.

    One that finds a queue full is made again, as a client of a server does.
    """

    def __init__(self, handle: Handle, begin: Callable[[], Call], take: Callable[[Call], T]) -> None:
        self._handle = handle
        self._begin = begin
        self._take = take
        self._call: Call | None = None
        self._cancelled = False

    def start(self) -> None:
        self._started()

    async def astart(self) -> None:
        await self._astarted()

    def result(self) -> T:
        for wait in waits():
            try:
                return self._once()
            except Overloaded:
                self._call = None
            time.sleep(wait)
        return self._once()

    async def aresult(self) -> T:
        import asyncio

        for wait in waits():
            try:
                return await self._aonce()
            except Overloaded:
                self._call = None
            await asyncio.sleep(wait)
        return await self._aonce()

    def cancel(self) -> None:
        self._cancelled = True
        if self._call is not None:
            self._call.cancel()

    def _once(self) -> T:
        call = self._started()
        call.wait()
        return self._take(call)

    async def _aonce(self) -> T:
        call = await self._astarted()
        await call.await_()
        return self._take(call)

    def _started(self) -> Call:
        if self._cancelled:
            raise Cancelled("the call was cancelled")
        if self._call is None:
            self._call = self._begin()
        return self._call

    async def _astarted(self) -> Call:
        self._handle.check_process()
        self._handle.events()  # before the call, or it is not told
        return self._started()


class NativeParts:
    """A streamed answer, of a call that has something to take. Closing it cancels what is left."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._first = take_bytes(call)

    def __iter__(self) -> Iterator[bytes]:
        state, part = self._first
        while True:
            if part:
                yield part
            if state == ENDED:
                return
            self._call.wait()
            state, part = take_bytes(self._call)

    def close(self) -> None:
        self._call.cancel()


class AsyncNativeParts:
    """As NativeParts, in an event loop."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._first = take_bytes(call)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        state, part = self._first
        while True:
            if part:
                yield part
            if state == ENDED:
                return
            await self._call.await_()
            state, part = take_bytes(self._call)

    async def aclose(self) -> None:
        self._call.cancel()


class NativeBackend:
    """A handle of the library with one model, shared with others of equal options."""

    def __init__(self, options: dict[str, Any]) -> None:
        """`options` are flags of `penstock serve`. Raises an Error for those that are wrong."""
        self._handle = _handle.acquire(options)
        self._release = weakref.finalize(self, _handle.release, self._handle)

    def call(self, request: Request) -> Pending[bytes]:
        return NativeCall(self._handle, lambda: self._request(request), take_body)

    def embed(self, request: EmbedRequest) -> Pending[Vectors]:
        return NativeCall(self._handle, lambda: self._embed(request), take_vectors)

    def stream(self, request: Request) -> NativeParts:
        # The call is kept by its parts, and its first part is taken here: an error before it is raised.
        return NativeCall(self._handle, lambda: self._request(request), NativeParts).result()

    async def astream(self, request: Request) -> AsyncNativeParts:
        return await NativeCall(self._handle, lambda: self._request(request), AsyncNativeParts).aresult()

    def find_model(self, model: str | None, task: str) -> dict[str, Any]:
        name = load(self.call(get("/v1/models")).result())["data"][0]["id"]
        self.call(post("/admin/models/load", {"model": name})).result()
        found: dict[str, Any] = load(self.call(get("/v1/models")).result())["data"][0]
        return found

    def close(self) -> None:
        self._release()

    def _request(self, request: Request) -> Call:
        lines = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        return Call(
            self._handle,
            self._handle.library.request(
                self._handle.address(),
                request.method.encode(),
                request.path.encode(),
                lines.encode() or None,
                request.body,
                len(request.body),
            ),
        )

    def _embed(self, request: EmbedRequest) -> Call:
        packed = request.texts.packed()
        texts = TextsStruct(packed.bytes_address, packed.offsets_address, packed.count, packed.offset_bits)
        address = self._handle.library.embed(self._handle.address(), ctypes.byref(texts), dump(request.options))
        return Call(self._handle, address)
