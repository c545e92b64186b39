#!/usr/bin/env python3
"""Writes tests/golden/gguf: GGUF files and what they must read as; and the seeds of the GGUF fuzzer.

Usage: python tools/make_gguf_goldens.py

  types.gguf            of each type NAME.codes and, F32, NAME.values: what gguf's dequantize makes of it
  metadata.gguf         a value of each type and arrays of them, written by gguf's own writer
  split-0000?-of-00003  a model in three files, written by gguf's own writer

Written with gguf 0.19.0, numpy 2.4.6 (Python 3.11). Deterministic.
"""

import pathlib
import shutil
import sys
import tempfile

import numpy as np

from gguf import GGUFReader, GGUFValueType, GGUFWriter, constants, quants

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import make_gguf

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests/golden/gguf"
SEEDS = ROOT / "tests/fuzz/corpus/gguf"

# Zeros, least and greatest subnormals, least and greatest normals, infinities, NaNs, ones.
EDGE_HALVES = (0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00,
               0xfe01, 0x7c01, 0x3c00, 0xbc00)
EDGE_BFLOATS = (0x0000, 0x8000, 0x0001, 0x807f, 0x0080, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0x3f80)
EDGE_FLOATS = (0x00000000, 0x80000000, 0x00000001, 0x007fffff, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000)
ROWS = 4


def edge_codes(type_name, random):
    """ROWS rows of random bits; the first blocks with every edge as their first scale."""
    _, elements, size = make_gguf.TENSOR_TYPES[type_name]
    if elements == 1:
        edges = {"F16": EDGE_HALVES, "BF16": EDGE_BFLOATS, "F32": EDGE_FLOATS}[type_name]
        codes = random.integers(0, 256, 64 * size, dtype=np.uint8)
        codes[:len(edges) * size] = np.array(edges, dtype=f"<u{size}").view(np.uint8)
        return codes.tobytes(), (ROWS, 16)
    a_row = 4 if elements == 256 else 12
    blocks = random.integers(0, 256, (ROWS * a_row, size), dtype=np.uint8)
    for b in range(len(blocks)):
        for which, place in enumerate(make_gguf.SCALE_PLACES[type_name]):
            if b < len(EDGE_HALVES):
                half = EDGE_HALVES[(b + which * (3 + b)) % len(EDGE_HALVES)]
                blocks[b, place:place + 2] = (half & 255, half >> 8)
            else:
                blocks[b, place:place + 2] = make_gguf.halves(random.normal(0, 0.1))[0]
    return blocks.tobytes(), (ROWS, a_row * elements)


def dequantized(type_name, codes, shape):
    number, _, _ = make_gguf.TENSOR_TYPES[type_name]
    rows = np.frombuffer(codes, dtype=np.uint8).reshape(shape[0], -1)
    with np.errstate(all="ignore"):
        values = quants.dequantize(rows, constants.GGMLQuantizationType(number))
    assert values.shape == shape and values.dtype == np.float32, (type_name, values.shape)
    return values.tobytes()


def write_types():
    random = np.random.default_rng(12)
    tensors = []
    for name in make_gguf.TENSOR_TYPES:
        codes, shape = edge_codes(name, random)
        tensors.append(make_gguf.Tensor(f"{name}.codes", name, shape, codes))
        tensors.append(make_gguf.Tensor(f"{name}.values", "F32", shape, dequantized(name, codes, shape)))
    path = GOLDENS / "types.gguf"
    make_gguf.write(path, {"general.architecture": "none"}, tensors, alignment=64)
    check_with_gguf(path, tensors)


def check_with_gguf(path, tensors):
    """The package reads what make_gguf.py wrote."""
    reader = GGUFReader(path)
    assert [tensor.name for tensor in reader.tensors] == [tensor.name for tensor in tensors]
    for read, wrote in zip(reader.tensors, tensors):
        assert tuple(reversed(read.shape.tolist())) == wrote.shape
        assert read.tensor_type.name == wrote.type_name and read.data.tobytes() == wrote.contents, read.name


def write_metadata():
    path = GOLDENS / "metadata.gguf"
    writer = GGUFWriter(path, "llama")
    numbers = {"uint8": 200, "int8": -100, "uint16": 60000, "int16": -30000, "uint32": 4000000000, "int32": -2000000000,
               "float32": 0.1, "uint64": 2**63, "int64": -2**62, "float64": 0.1}
    for name, value in numbers.items():
        getattr(writer, f"add_{name}")(f"one.{name}", value)
    writer.add_bool("one.true", True)
    writer.add_bool("one.false", False)
    writer.add_string("one.string", "na\u00efve \U0001f600")
    writer.add_array("many.strings", ["", "a", "\u20ac uro", "last"])
    writer.add_array("many.ints", [1, -2, 3])
    writer.add_array("many.floats", [0.5, -0.25])
    writer.add_array("many.bools", [True, False, True])
    writer.add_array("many.arrays", [[1, 2], [3]])
    writer.add_key_value("many.uint8", bytes([1, 2, 255]), GGUFValueType.ARRAY, GGUFValueType.UINT8)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_split():
    with tempfile.TemporaryDirectory() as folder:
        writer = GGUFWriter(None, "llama", split_max_tensors=2)
        writer.add_block_count(3)
        for i in range(5):
            writer.add_tensor(f"blk.{i}.weight", np.full((2, 3 + i), i, dtype=np.float32))
        writer.write_header_to_file(pathlib.Path(folder) / "split.gguf")
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        for path in sorted(pathlib.Path(folder).iterdir()):
            shutil.copy(path, GOLDENS / path.name)


def write_seeds():
    def tensor(name, type_name, shape, seed=1):
        return make_gguf.tensor_of({"name": name, "type": type_name, "shape": shape, "seed": seed})

    vocabulary = {"general.architecture": "llama", "tokenizer.ggml.tokens": ["<s>", "a", "bc"],
                  "tokenizer.ggml.scores": [0.0, -1.0, -2.5], "tokenizer.ggml.token_type": [3, 1, 1]}
    make_gguf.write(SEEDS / "vocabulary", vocabulary, [])
    make_gguf.write(SEEDS / "types", {"general.architecture": "llama"},
                    [tensor(name.lower(), name, (1, elements))
                     for name, (_, elements, _) in make_gguf.TENSOR_TYPES.items() if elements < 256])
    make_gguf.write(SEEDS / "k_types", {}, [tensor(name, name, (1, 256)) for name in ("Q4_K", "Q5_K", "Q6_K")])
    make_gguf.write(SEEDS / "version_2", {"llama.block_count": 2, "llama.rope.freq_base": 10000.0},
                    [tensor("a", "F32", (2, 3)), tensor("b", "F16", (4,))], version=2, alignment=8)
    make_gguf.write(SEEDS / "values", {
        "u8": {"type": "uint8", "value": 1}, "i8": {"type": "int8", "value": -1}, "u64": 2**63, "i64": -2**62,
        "f64": {"type": "float64", "value": 0.5}, "yes": True, "bools": [True, False],
        "u64s": {"type": "uint64", "array": [1, 2**63]}, "none": {"type": "string", "array": []}}, [])
    make_gguf.write(SEEDS / "nested", {"deep": {"type": "array", "array": [
        {"type": "array", "array": [{"type": "string", "array": ["a", ""]}, {"type": "int32", "array": []}]},
        {"type": "bool", "array": [True]}]}}, [])
    make_gguf.write(SEEDS / "part", {"split.no": {"type": "uint16", "value": 1},
                                     "split.count": {"type": "uint16", "value": 2}, "split.tensors.count": 2},
                    [tensor("a", "Q8_0", (1, 32))])


def main():
    for folder in (GOLDENS, SEEDS):
        folder.mkdir(parents=True, exist_ok=True)
    write_types()
    write_metadata()
    write_split()
    write_seeds()
    for folder in (GOLDENS, SEEDS):
        for path in sorted(folder.iterdir()):
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
