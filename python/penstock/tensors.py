"""TensorModel: a model that takes and gives arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ._backend import Mapped, Pending, Request, dump, get, load
from ._model import Model
from .errors import InternalError, InvalidArgument, UnknownArgument

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]

# The types of the Open Inference Protocol, as numpy writes them. BYTES and BF16 are not among numpy's.
TYPES = {
    "BOOL": "?",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
# The JSON of an answer is looked for in so many bytes first.
HEAD_BYTES = 1 << 14


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: its name, its type as the Open Inference Protocol names it, its shape (-1: any number)."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class TensorModel(Model):
    """A tensor model, called with an array for each input: model(INPUT0=a, INPUT1=b)["OUTPUT0"]."""

    _task = "tensors"

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        """The outputs by their names.

        inputs: arrays, or what numpy makes one of; their types must be those of the model, and what has
        no type, such as a list, gets it. Texts are arrays of str or bytes; BF16 is an array of uint16, the
        bits. Outputs of BF16 are float32, which holds each of its numbers; texts are bytes.
        Raises InvalidArgument with the input as field, Overloaded, ...
        """
        return self._call(inputs).result()

    async def acall(self, **inputs: Any) -> dict[str, Array]:
        """As a call, in an event loop."""
        return await self._call(inputs).aresult()

    @property
    def inputs(self) -> list[TensorSpec]:
        """What the model takes."""
        return [_spec(each) for each in self._signature()["inputs"]]

    @property
    def outputs(self) -> list[TensorSpec]:
        """What it gives."""
        return [_spec(each) for each in self._signature()["outputs"]]

    def _signature(self) -> dict[str, Any]:
        backend, name = self._opened()
        if "signature" not in self._facts:
            self._facts["signature"] = load(backend.call(get(_path(name))).result())
        found: dict[str, Any] = self._facts["signature"]
        return found

    def _call(self, inputs: dict[str, Any]) -> Pending[dict[str, Array]]:
        known = {each.name: each for each in self.inputs}
        for name in inputs:
            if name not in known:
                raise UnknownArgument(f"the model has no input '{name}'; it has {', '.join(known)}", field=name)
        backend, model = self._opened()
        request = infer_request(_path(model) + "/infer", [(known[name], value) for name, value in inputs.items()])
        return Mapped(backend.call(request), outputs_of)


def _path(name: str) -> str:
    return "/v2/models/" + quote(name, safe="/")


def _spec(told: dict[str, Any]) -> TensorSpec:
    return TensorSpec(told["name"], told["datatype"], tuple(told["shape"]))


def infer_request(path: str, inputs: list[tuple[TensorSpec, Any]]) -> Request:
    """A request of the Open Inference Protocol whose tensors are binary, in and out."""
    told, data = [], []
    for spec, value in inputs:
        array = as_array(spec, value)
        data.append(_to_bytes(spec, array))
        told.append(
            {
                "name": spec.name,
                "datatype": spec.datatype,
                "shape": list(array.shape),
                "parameters": {"binary_data_size": len(data[-1])},
            }
        )
    head = dump({"inputs": told, "parameters": {"binary_data_output": True}})
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
    return Request("POST", path, b"".join([head, *data]), headers)


def as_array(spec: TensorSpec, value: Any) -> Array:
    """`value` as an array of the input's type. Raises InvalidArgument for an array of another one."""
    import numpy as np

    if spec.datatype == "BYTES":
        return np.asarray(value, dtype=object)
    wanted = np.dtype("<u2" if spec.datatype == "BF16" else TYPES[spec.datatype])
    if not hasattr(value, "dtype"):
        return np.asarray(value, dtype=wanted)
    array: Array = np.asarray(value)
    if array.dtype != wanted:
        raise InvalidArgument(
            f"input '{spec.name}' is {spec.datatype}, an array of {wanted.name}; it is given {array.dtype.name}",
            field=spec.name,
        )
    return array


def _to_bytes(spec: TensorSpec, array: Array) -> bytes:
    if spec.datatype != "BYTES":
        return array.tobytes()
    parts = []
    for each in array.ravel():
        if not isinstance(each, (str, bytes)):
            raise InvalidArgument(f"input '{spec.name}' holds texts, not {type(each).__name__}", field=spec.name)
        data = each.encode() if isinstance(each, str) else each
        parts += [len(data).to_bytes(4, "little"), data]
    return b"".join(parts)


def outputs_of(body: bytes) -> dict[str, Array]:
    """The tensors of an answer: JSON, and the bytes of each behind it. Raises InternalError for another one."""
    head, at = _split(body)
    found = {}
    for each in head.get("outputs", ()):
        size = each.get("parameters", {}).get("binary_data_size")
        if size is None or at + size > len(body):
            raise InternalError(f"output '{each.get('name')}' has no data in the answer")
        found[each["name"]] = _from_bytes(each["datatype"], body[at : at + size], each["shape"])
        at += size
    return found


def _split(body: bytes) -> tuple[dict[str, Any], int]:
    """The JSON object that `body` begins with, and where it ends."""
    size = HEAD_BYTES
    while True:
        # Byte by byte, as the tensors are no text; so an offset is a number of bytes.
        text = body[:size].decode("latin-1")
        try:
            _, end = json.JSONDecoder().raw_decode(text)
        except ValueError as error:
            if size >= len(body):
                raise InternalError("an answer with tensors has no JSON") from error
            size *= 8
            continue
        head: dict[str, Any] = load(body[:end])
        return head, end


def _from_bytes(datatype: str, data: bytes, shape: list[int]) -> Array:
    import numpy as np

    if datatype == "BYTES":
        return np.array([*_texts(data)], dtype=object).reshape(shape)
    if datatype == "BF16":
        bits: npt.NDArray[np.uint32] = np.frombuffer(data, dtype="<u2").astype(np.uint32) << np.uint32(16)
        return bits.view(np.float32).reshape(shape)
    # Copied, so that it is aligned and can be written to.
    return np.frombuffer(data, dtype=TYPES[datatype]).reshape(shape).copy()


def _texts(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        found.append(data[at + 4 : end])
        at = end
    return found
