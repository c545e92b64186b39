"""What all models here have in common: where they are, their name, pickling and closing."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from ._backend import get, load, post
from .errors import Error, InvalidArgument, ModelNotFound, NotFound

if TYPE_CHECKING:
    from types import TracebackType

    from ._backend import Backend

API_KEY_VARIABLE = "PENSTOCK_API_KEY"
TIMEOUT_S = 600.0

Self = TypeVar("Self", bound="Model")


class Model:
    """A model in this process, or of a server. Any thread may use it; pickled, it is opened where it is used.

    Used in a `with` statement, or closed by `close`; what is not closed goes with the last reference.
    """

    _task = ""  # as /v1/models names it

    def __init__(
        self,
        model: str | None = None,
        *,
        url: str | None = None,
        dtype: str = "auto",
        threads: int = 0,
        device: Any = None,
        api_key: str | None = None,
        timeout: float = TIMEOUT_S,
        **flags: Any,
    ) -> None:
        """Opens the model and loads it, or finds it on the server.

        model: a folder, a GGUF file or owner/name of the Hugging Face hub; with `url` a name the server
        knows it by, or None for its first model of this kind.
        url: "http://host:port" of a server of Penstock; None: the model is loaded into this process.
        dtype, threads, device, flags: as the flags of `penstock serve`, with "_" for "-"; in this process only.
        api_key: the key for the server; None: the variable PENSTOCK_API_KEY.
        timeout: seconds that the server may be silent.

        Raises ModelNotFound, InvalidArgument whose field is the flag at fault, Unavailable, ...
        """
        flags = {name.replace("_", "-"): value for name, value in flags.items() if value is not None}
        if dtype != "auto":
            flags["dtype"] = dtype
        if threads:
            flags["threads"] = threads
        if device is not None:
            flags["device"] = str(device)
        if url is not None and flags:
            name = next(iter(flags)).replace("-", "_")
            raise InvalidArgument(f"'{name}' is for a model in this process; that of {url} is set there", field=name)
        self._set_arguments({"model": model, "url": url, "api_key": api_key, "timeout": timeout, "flags": flags})
        self._opened()

    def _set_arguments(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments
        self._lock = threading.Lock()
        self._backend: Backend | None = None
        self._name = ""
        self._facts: dict[str, Any] = {}
        self._closed = False

    def _opened(self) -> tuple[Backend, str]:
        """The backend and the name to ask for; opened here where this object came by pickle."""
        backend = self._backend
        if backend is not None:
            return backend, self._name
        with self._lock:
            if self._closed:
                raise Error(f"{self!r} was closed", code="unavailable")
            if self._backend is None:
                self._open()
            assert self._backend is not None
            return self._backend, self._name

    def _open(self) -> None:
        try:
            backend = self._new_backend()
            try:
                self._find(backend)
            except BaseException:
                backend.close()
                raise
        except NotFound as error:
            raise ModelNotFound(str(error), field="model") from None
        self._backend = backend

    def _find(self, backend: Backend) -> None:
        facts = backend.find_model(self._arguments["model"], self._task)
        task = facts.get("task")
        if task and task != self._task:
            kind = type(self).__name__
            raise InvalidArgument(f"model '{facts['id']}' is for {task}, and {kind} is for {self._task}", field="model")
        self._name, self._facts = facts["id"], facts

    def _new_backend(self) -> Backend:
        url = self._arguments["url"]
        if url is not None:
            from ._remote import RemoteBackend

            key = self._arguments["api_key"] or os.environ.get(API_KEY_VARIABLE)
            return RemoteBackend(url, key, self._arguments["timeout"])
        from ._native import NativeBackend

        # The object is the model: it stays loaded as long as there is one.
        options = {"keep-alive": "-1", **self._arguments["flags"]}
        if self._arguments["model"] is not None:
            options["model"] = os.fspath(self._arguments["model"])
        try:
            return NativeBackend(options)
        except Error as error:
            error.field = error.field.replace("-", "_")  # a flag, as an argument is called
            raise

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON answer to a POST with the model's name."""
        backend, name = self._opened()
        return load(backend.call(post(path, {"model": name, **body})).result())

    @property
    def name(self) -> str:
        """The name that requests have."""
        return self._opened()[1]

    @property
    def info(self) -> dict[str, Any]:
        """What /v1/models says of the model: id, task, dtype, max_tokens, dimensions, ..."""
        backend, name = self._opened()
        found: dict[str, Any] = load(backend.call(get("/v1/models/" + quote(name, safe="/"))).result())
        return found

    def close(self) -> None:
        """Ends the use of the model. The last object that shares it unloads it, which cancels its calls."""
        with self._lock:
            backend, self._backend = self._backend, None
            self._closed = True
        if backend is not None:
            backend.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return self._arguments

    def __setstate__(self, arguments: dict[str, Any]) -> None:
        self._set_arguments(arguments)

    def __repr__(self) -> str:
        shown = [repr(self._arguments["model"])] if self._arguments["model"] is not None else []
        if self._arguments["url"] is not None:
            shown.append(f"url={self._arguments['url']!r}")
        shown += [f"{name.replace('-', '_')}={value!r}" for name, value in self._arguments["flags"].items()]
        return f"{type(self).__name__}({', '.join(shown)})"
