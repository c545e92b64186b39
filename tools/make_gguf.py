#!/usr/bin/env python3
"""Writes GGUF files for tests: any metadata, tensors of any type with given or random contents.

Usage: tools/make_gguf.py SPEC.json OUT.gguf [--parts N]
       tools/make_gguf.py --shape tinyllama --mix Q4_K_M OUT.gguf   (gguf_shapes.py: a published shape)

SPEC.json:
  {"version": 3, "alignment": 32,
   "metadata": {"general.architecture": "llama", "llama.block_count": 2,
                "llama.rope.freq_base": {"type": "float32", "value": 10000},
                "tokenizer.ggml.scores": {"type": "float32", "array": [0, -1]}},
   "tensors": [{"name": "token_embd.weight", "type": "Q8_0", "shape": [512, 64]},
               {"name": "output_norm.weight", "type": "F32", "shape": [64], "values": 1}]}
- A metadata value stands by itself where its type is plain: text, true and false, whole numbers from
  0 (uint32, or uint64 where it must be), below 0 (int32 or int64), others (float32), lists of one of
  these. Else {"type": ..., "value": ...} or {"type": ..., "array": [...]}, also nested: the type
  "array" has a list of such objects.
- A shape begins with the slowest size, as PyTorch prints it.
- A tensor's contents: "values", numbers or one number for all (F32, F16, BF16); "codes", the bytes as
  hexadecimal text; else random by the tensor's name and "seed" (default 0), with a standard
  deviation of about "scale" (default 0.05).
"general.alignment" is written where "alignment" is not 32. With --parts N the model is split into N
files OUT-00001-of-0000N.gguf, metadata in the first.

As a module: Tensor, write(), write_parts(), random_codes(). Needs numpy.
"""

import argparse
import json
import pathlib
import struct
import zlib

import numpy as np

import gguf_shapes

VALUE_TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array",
               "uint64", "int64", "float64")
VALUE_FORMATS = {"uint8": "B", "int8": "b", "uint16": "H", "int16": "h", "uint32": "I", "int32": "i",
                 "float32": "f", "bool": "?", "uint64": "Q", "int64": "q", "float64": "d"}
# name: (number in the file, elements of a block, bytes of a block)
TENSOR_TYPES = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "BF16": (30, 1, 2),
    "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34),
    "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210),
}
# Where the halves that scale a block lie in it.
SCALE_PLACES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,),
                "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}


class Tensor:
    """`contents`: the bytes, row after row."""

    def __init__(self, name, type_name, shape, contents):
        self.name, self.type_name, self.shape, self.contents = name, type_name, tuple(shape), bytes(contents)
        assert len(self.contents) == stored_bytes(type_name, shape), (name, len(self.contents))


class RandomTensor:
    """One of SPEC.json whose contents are made when they are written, so that memory holds one at a time."""

    def __init__(self, spec):
        self.spec = spec
        self.name, self.type_name, self.shape = spec["name"], spec["type"], tuple(spec["shape"])

    @property
    def contents(self):
        return tensor_of(self.spec).contents


def stored_bytes(type_name, shape):
    _, elements, size = TENSOR_TYPES[type_name]
    if shape and shape[-1] % elements:
        raise ValueError(f"rows of {shape[-1]} are not whole blocks of {type_name}")
    return int(np.prod(shape, dtype=np.int64)) // elements * size


# --- contents -------------------------------------------------------------------------------------

def encode_floats(type_name, values):
    values = np.asarray(values, dtype=np.float32)
    if type_name == "F32":
        return values.tobytes()
    if type_name == "F16":
        return values.astype(np.float16).tobytes()
    if type_name == "BF16":  # to the nearest, ties to even
        bits = values.view(np.uint32).astype(np.uint64)
        return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16).tobytes()
    raise ValueError(f"{type_name} takes codes, not values")


def halves(values):
    return np.atleast_1d(np.asarray(values, dtype=np.float16)).view(np.uint8).reshape(-1, 2)


def packed_factors(factors):
    """Eight factors of six bits, [n, 8], for scale and minimum alike: [n, 12]."""
    low, high = factors[:, :4], factors[:, 4:]
    first = low | (high >> 4) << 6
    return np.concatenate([first, first, (high & 15) | (high & 15) << 4], axis=1).astype(np.uint8)


def random_codes(type_name, blocks, scale, random):
    """Blocks whose values have mean 0 and a standard deviation of about `scale`."""
    if type_name in ("F32", "F16", "BF16"):
        return encode_floats(type_name, random.normal(0, scale, blocks))
    _, _, size = TENSOR_TYPES[type_name]
    out = random.integers(0, 256, (blocks, size), dtype=np.uint8)
    spread = scale * random.uniform(0.5, 1.5, blocks)

    def deviation(codes):  # of whole numbers, each as likely, from 0 to codes - 1
        return np.sqrt((codes * codes - 1) / 12)

    if type_name == "Q8_0":
        out[:, :2] = halves(spread / deviation(256))
    elif type_name in ("Q4_0", "Q5_0"):
        out[:, :2] = halves(spread / deviation(16 if type_name == "Q4_0" else 32))
    elif type_name in ("Q4_1", "Q5_1"):
        codes = 16 if type_name == "Q4_1" else 32
        step = spread / deviation(codes)
        out[:, :2], out[:, 2:4] = halves(step), halves(step * -(codes - 1) / 2)
    elif type_name in ("Q4_K", "Q5_K"):
        codes = 16 if type_name == "Q4_K" else 32
        factors = random.integers(1, 64, (blocks, 8))
        step = spread / deviation(codes) / 36.5  # what the factors are in the mean of squares
        out[:, :2], out[:, 2:4] = halves(step), halves(step * (codes - 1) / 2)
        out[:, 4:16] = packed_factors(factors)
    elif type_name == "Q6_K":
        out[:, 208:] = halves(spread / deviation(64) / deviation(256))
    return out.tobytes()


# --- the file -------------------------------------------------------------------------------------

def packed_text(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def plain_type(value):
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if value >= 0:
            return "uint32" if value < 2**32 else "uint64"
        return "int32" if value >= -2**31 else "int64"
    if isinstance(value, float):
        return "float32"
    if isinstance(value, (str, bytes)):
        return "string"
    raise TypeError(f"no plain type for {value!r}")


def packed_elements(type_name, values):
    if type_name == "string":
        return b"".join(packed_text(value) for value in values)
    if type_name == "array":
        return b"".join(packed_value(value)[1] for value in values)
    return struct.pack(f"<{len(values)}{VALUE_FORMATS[type_name]}", *values)


def packed_value(value):
    """(name of the type, bytes)."""
    if isinstance(value, list):
        value = {"type": "array" if value and isinstance(value[0], (list, dict)) else
                 max((plain_type(item) for item in value), key=VALUE_TYPES.index, default="uint32"), "array": value}
    if not isinstance(value, dict):
        value = {"type": plain_type(value), "value": value}
    type_name = value["type"]
    if "array" in value:
        items = value["array"]
        return "array", struct.pack("<IQ", VALUE_TYPES.index(type_name), len(items)) + packed_elements(type_name, items)
    return type_name, packed_elements(type_name, [value["value"]])


def packed_head(metadata, tensors, alignment, version):
    """All before the tensors' contents, which begin at a multiple of `alignment`."""
    if alignment != 32:
        metadata = {"general.alignment": alignment, **metadata}
    out = bytearray(b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata)))
    for key, value in metadata.items():
        type_name, data = packed_value(value)
        out += packed_text(key) + struct.pack("<I", VALUE_TYPES.index(type_name)) + data
    offset = 0
    for tensor in tensors:
        sizes = tensor.shape[::-1]  # the fastest first
        out += packed_text(tensor.name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
        out += struct.pack("<IQ", TENSOR_TYPES[tensor.type_name][0], offset)
        offset += -(-stored_bytes(tensor.type_name, tensor.shape) // alignment) * alignment
    return out + bytes(-len(out) % alignment)


def write(path, metadata, tensors, alignment=32, version=3):
    with open(path, "wb") as file:
        file.write(packed_head(metadata, tensors, alignment, version))
        for tensor in tensors:
            contents = tensor.contents
            file.write(contents)
            file.write(bytes(-len(contents) % alignment))


def write_parts(path, metadata, tensors, parts, **options):
    """The files' paths. Tensors go to the parts in turn of their order, about the same number to each."""
    stem = str(path).removesuffix(".gguf")
    paths = []
    for number in range(parts):
        split = {"split.no": {"type": "uint16", "value": number}, "split.count": {"type": "uint16", "value": parts},
                 "split.tensors.count": {"type": "int32", "value": len(tensors)}}
        own = tensors[len(tensors) * number // parts:len(tensors) * (number + 1) // parts]
        paths.append(f"{stem}-{number + 1:05}-of-{parts:05}.gguf")
        write(paths[-1], {**metadata, **split} if number == 0 else split, own, **options)
    return paths


def tensor_of(spec):
    name, type_name, shape = spec["name"], spec["type"], spec["shape"]
    if "codes" in spec:
        contents = bytes.fromhex(spec["codes"])
    elif "values" in spec:
        contents = encode_floats(type_name, np.broadcast_to(np.asarray(spec["values"], dtype=np.float32).ravel(),
                                                            int(np.prod(shape, dtype=np.int64))))
    else:
        random = np.random.default_rng([zlib.crc32(name.encode()), spec.get("seed", 0)])
        blocks = stored_bytes(type_name, shape) // TENSOR_TYPES[type_name][2]
        contents = random_codes(type_name, blocks, spec.get("scale", 0.05), random)
    return Tensor(name, type_name, shape, contents)


def write_shape(path, shape, mix):
    """A model of random weights, see gguf_shapes.py. Moved into place when it is whole."""
    path = pathlib.Path(path)
    part = path.with_name(path.name + ".part")
    write(part, gguf_shapes.metadata(shape, mix), [RandomTensor(spec) for spec in gguf_shapes.tensors(shape, mix)])
    part.rename(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0],
                                     epilog="The top of this file describes SPEC.json.")
    parser.add_argument("spec", type=pathlib.Path, nargs="?")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--shape", choices=gguf_shapes.SHAPES, help="instead of SPEC: random weights of this shape")
    parser.add_argument("--mix", choices=gguf_shapes.MIXES, default="Q8_0", help="types of its matrices")
    arguments = parser.parse_args()
    if (arguments.spec is None) == (arguments.shape is None):
        parser.error("SPEC.json or --shape, one of them")
    paths = [arguments.out]
    if arguments.shape:
        if arguments.parts > 1:
            parser.error("--parts goes with SPEC.json")
        write_shape(arguments.out, arguments.shape, arguments.mix)
    else:
        spec = json.loads(arguments.spec.read_text())
        options = {key: spec[key] for key in ("alignment", "version") if key in spec}
        tensors = [tensor_of(tensor) for tensor in spec.get("tensors", [])]
        if arguments.parts > 1:
            paths = write_parts(arguments.out, spec.get("metadata", {}), tensors, arguments.parts, **options)
        else:
            write(arguments.out, spec.get("metadata", {}), tensors, **options)
    for path in paths:
        print(f"{path}: {pathlib.Path(path).stat().st_size} bytes")


if __name__ == "__main__":
    main()
