"""libpenstock.so.1: where it is, and its functions (library/penstock.h)."""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any

from .errors import Error, error_of

LIBRARY_VARIABLE = "PENSTOCK_LIBRARY"
ABI = 1

# The states of a call.
ENDED, RUNNING, PART, FAILED = 0, 1, 2, -1


class TextsStruct(Structure):
    """penstock_texts. Addresses, so that an Arrow column needs no copy."""

    _fields_ = (
        ("bytes", c_void_p),
        ("offsets", c_void_p),
        ("count", c_int64),
        ("offset_bits", c_int32),
    )


class ViewStruct(Structure):
    """penstock_view."""

    _fields_ = (
        ("data", c_void_p),
        ("bytes", c_int64),
        ("rows", c_int64),
        ("columns", c_int64),
        ("status", c_int32),
        ("content_type", c_char_p),
        ("headers", c_char_p),
        ("info", c_char_p),
    )


class Library:
    """The functions, each with its types.

    Those that only look are called with the lock of the interpreter held: to give it up and get it
    back beside a busy thread takes milliseconds. All others give it up.
    """

    def __init__(self, path: str) -> None:
        """Raises OSError where the library cannot be loaded, Error where it is of another version."""
        works = ctypes.CDLL(path)
        looks = ctypes.PyDLL(path)
        self.path = path
        self.open = _typed(works.penstock_open, c_void_p, c_char_p, POINTER(c_void_p))
        self.close = _typed(works.penstock_close, None, c_void_p)
        self.embed = _typed(works.penstock_embed, c_void_p, c_void_p, POINTER(TextsStruct), c_char_p)
        self.request = _typed(
            works.penstock_request, c_void_p, c_void_p, c_char_p, c_char_p, c_char_p, c_char_p, c_size_t
        )
        self.wait = _typed(works.penstock_wait, c_int, c_void_p, c_int64)
        self.free = _typed(works.penstock_free, None, c_void_p)
        self.cancel = _typed(works.penstock_cancel, None, c_void_p)
        self.state = _typed(looks.penstock_wait, c_int, c_void_p, c_int64)  # of a wait of 0 ms
        self.result = _typed(looks.penstock_result, c_int, c_void_p, POINTER(ViewStruct))
        self.call_error = _typed(looks.penstock_call_error, c_void_p, c_void_p)
        self.event_fd = _typed(works.penstock_event_fd, c_int, c_void_p)
        self.next = _typed(looks.penstock_next, c_void_p, c_void_p)
        self.error_free = _typed(looks.penstock_error_free, None, c_void_p)
        self._code = _typed(looks.penstock_error_code, c_char_p, c_void_p)
        self._message = _typed(looks.penstock_error_message, c_char_p, c_void_p)
        self._field = _typed(looks.penstock_error_field, c_char_p, c_void_p)
        self._retry_after = _typed(looks.penstock_error_retry_after, c_int, c_void_p)
        abi = _typed(looks.penstock_abi, c_uint32)()
        if abi != ABI:
            raise Error(f"{path} has version {abi} of the interface; this package needs {ABI}")

    def error(self, address: int) -> Error:
        """The error at an address, which stays the owner's."""
        texts = [each(address) or b"" for each in (self._code, self._message, self._field)]
        code, message, field = (text.decode("utf-8", "replace") for text in texts)
        return error_of(code, message, field, self._retry_after(address))


def _typed(function: Any, result: Any, *arguments: Any) -> Any:
    function.restype = result
    function.argtypes = arguments
    return function


_lock = threading.Lock()
_library: Library | None = None


def library_path() -> str:
    """What PENSTOCK_LIBRARY names, else the library of this package."""
    folder = os.path.join(os.path.dirname(__file__), "_lib")
    return os.environ.get(LIBRARY_VARIABLE) or os.path.join(folder, "libpenstock.so.1")


def library() -> Library:
    """The library, loaded by the first call. Raises Error where it cannot be."""
    global _library
    with _lock:
        if _library is None:
            path = library_path()
            try:
                _library = Library(path)
            except (OSError, AttributeError) as error:
                raise Error(
                    f"the library of Penstock cannot be loaded: {error} ({LIBRARY_VARIABLE} can name another; "
                    "url= asks a server)"
                ) from error
        return _library
