#!/usr/bin/env python3
"""Writes the tensor models of tests/golden/tensors/, a few hundred bytes each.

Needs the packages onnx and openvino (for OpenVINO IR) and flatbuffers (for TFLite). TensorFlow's
files are written field by field, as tensorflow/core/protobuf/saved_model.proto and
tensorflow/core/framework/graph.proto define them; TFLite's as tensorflow/lite/schema/schema.fbs.
"""

import pathlib
import struct

import flatbuffers
import numpy as np
import openvino
from onnx import TensorProto, helper, numpy_helper
from openvino import opset13 as ops

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "tensors"
OPSET = 17


def save(name, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def same(name, dtype, shape=("n", 3)):
    """y = x: what a type looks like on its way in and out."""
    save(name, [helper.make_node("Identity", ["x"], ["y"])], [value("x", dtype, shape)],
         [value("y", dtype, shape)])


def onnx_models():
    for name in ("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
                 "FLOAT16", "BFLOAT16", "FLOAT", "DOUBLE", "STRING"):
        same("same_" + name.lower(), getattr(TensorProto, name))
    same("same_float8", TensorProto.FLOAT8E4M3FN)
    same("huge", TensorProto.FLOAT, (1 << 40, 3))
    same("any_rank", TensorProto.FLOAT, None)

    weights = np.arange(12, dtype=np.float32).reshape(4, 3)
    save("matmul", [helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", TensorProto.FLOAT, ("n", 4))],
         [value("y", TensorProto.FLOAT, ("n", 3))], [numpy_helper.from_array(weights, "w")])
    save("two", [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Mul", ["a", "b"], ["product"])],
         [value("a", TensorProto.FLOAT, ("n", 2)), value("b", TensorProto.FLOAT, ("n", 2))],
         [value("sum", TensorProto.FLOAT, ("n", 2)), value("product", TensorProto.FLOAT, ("n", 2))])
    save("nonzero", [helper.make_node("NonZero", ["x"], ["y"])], [value("x", TensorProto.FLOAT, (4,))],
         [value("y", TensorProto.INT64, (1, "k"))])
    # The batch is fixed inside: two rows in always give one row out.
    save("fixed_inside", [helper.make_node("Reshape", ["x", "s"], ["y"])], [value("x", TensorProto.FLOAT, ("n", 2))],
         [value("y", TensorProto.FLOAT, (1, "m"))], [numpy_helper.from_array(np.array([1, -1]), "s")])
    # A row depends on those before it.
    save("running_sum", [helper.make_node("CumSum", ["x", "axis"], ["y"])], [value("x", TensorProto.FLOAT, ("n", 3))],
         [value("y", TensorProto.FLOAT, ("n", 3))], [numpy_helper.from_array(np.array(0), "axis")])
    # Runs on three rows only.
    save("three_rows", [helper.make_node("Reshape", ["x", "s"], ["y"])], [value("x", TensorProto.FLOAT, ("n", 2))],
         [value("y", TensorProto.FLOAT, (3, 2))], [numpy_helper.from_array(np.array([3, 2]), "s")])
    save("shape_by_input", [helper.make_node("ConstantOfShape", ["s"], ["y"])], [value("s", TensorProto.INT64, (2,))],
         [value("y", TensorProto.FLOAT, ("a", "b"))])
    save("scalar", [helper.make_node("Add", ["x", "x"], ["y"])], [value("x", TensorProto.FLOAT, ())],
         [value("y", TensorProto.FLOAT, ())])
    save("dropout", [helper.make_node("Dropout", ["x"], ["y"])], [value("x", TensorProto.FLOAT, (2,))],
         [value("y", TensorProto.FLOAT, (2,))])
    # No axes: all of them. OpenVINO leaves the input out.
    save("no_axes", [helper.make_node("ReduceSum", ["x", "axes"], ["y"])],
         [value("x", TensorProto.FLOAT, (2,)), value("axes", TensorProto.INT64, (0,))],
         [value("y", TensorProto.FLOAT, (1,))])
    save("repeats_by_input", [helper.make_node("Tile", ["x", "r"], ["y"])],
         [value("x", TensorProto.FLOAT, ("n",)), value("r", TensorProto.INT64, (1,))],
         [value("y", TensorProto.FLOAT, ("m",))])
    save("no_such_operator", [helper.make_node("Frobnicate", ["x"], ["y"], domain="example")],
         [value("x", TensorProto.FLOAT, (1,))], [value("y", TensorProto.FLOAT, (1,))])
    # Folding its constants would take 4 TB.
    save("huge_constant", [helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Add", ["x", "c"], ["y"])],
         [value("x", TensorProto.FLOAT, (1,))], [value("y", TensorProto.FLOAT, None)],
         [numpy_helper.from_array(np.array([1 << 40]), "s")])

    for name, location in (("external", "external.data"), ("external_outside", "../external.data"),
                           ("external_absolute", "/etc/hostname"), ("external_missing", "not_there.data")):
        tensor = numpy_helper.from_array(weights, "w")
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, text in (("location", location), ("offset", "0"), ("length", str(weights.nbytes))):
            tensor.external_data.add(key=key, value=text)
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], name,
                                  [value("x", TensorProto.FLOAT, ("n", 4))], [value("y", TensorProto.FLOAT, ("n", 3))],
                                  [tensor])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
    (FOLDER / "external.data").write_bytes(weights.tobytes())


def encoder_models():
    """Hidden states of 4 numbers: rows of two tables, added, plus the sum over the tokens of the mask. Exact in FP32."""
    words = ((np.arange(32)[:, None] * 7 + np.arange(4) * 3) % 11 - 5).astype(np.float32) / 8
    types = (np.arange(2)[:, None] * (np.arange(4) + 1)).astype(np.float32) / 4
    heads = (np.arange(12).reshape(4, 3) % 5 - 2).astype(np.float32) / 4
    inputs = [value(name, TensorProto.INT64, ("n", "l")) for name in ("input_ids", "attention_mask", "token_type_ids")]
    axis = numpy_helper.from_array(np.array([1]), "axis")
    tables = [numpy_helper.from_array(words, "words"), numpy_helper.from_array(types, "types"), axis]
    nodes = [helper.make_node("Gather", ["words", "input_ids"], ["word"]),
             helper.make_node("Gather", ["types", "token_type_ids"], ["type"]),
             helper.make_node("Add", ["word", "type"], ["x"]),
             helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
             helper.make_node("Unsqueeze", ["mask", "last"], ["masks"]),
             helper.make_node("Mul", ["x", "masks"], ["seen"]),
             helper.make_node("ReduceSum", ["seen", "axis"], ["sum"], keepdims=1)]
    tables.append(numpy_helper.from_array(np.array([-1]), "last"))
    save("encoder", [*nodes, helper.make_node("Add", ["x", "sum"], ["last_hidden_state"])], inputs,
         [value("last_hidden_state", TensorProto.FLOAT, ("n", "l", 4))], tables)
    save("encoder_logits", [*nodes, helper.make_node("Squeeze", ["sum", "axis"], ["state"]),
                            helper.make_node("MatMul", ["state", "heads"], ["logits"])], inputs,
         [value("logits", TensorProto.FLOAT, ("n", 3))], [*tables, numpy_helper.from_array(heads, "heads")])


def ir_models():
    x = ops.parameter([-1, 4], np.float32, "x")
    x.output(0).get_tensor().set_names({"x"})
    y = ops.matmul(x, ops.constant(np.arange(12, dtype=np.float32).reshape(4, 3)), False, False)
    y.output(0).get_tensor().set_names({"y"})
    openvino.save_model(openvino.Model([y], [x], "matmul"), FOLDER / "matmul.xml", compress_to_fp16=False)

    # A state that sums what it is given.
    x = ops.parameter([1, 2], np.float32, "x")
    x.output(0).get_tensor().set_names({"x"})
    state = ops.read_value(ops.constant(np.zeros((1, 2), np.float32)), "total", np.float32, [1, 2])
    total = ops.add(x, state)
    total.output(0).get_tensor().set_names({"y"})
    model = openvino.Model([ops.result(total)], [ops.assign(total, "total")], [x], "state")
    openvino.save_model(model, FOLDER / "state.xml", compress_to_fp16=False)


def tflite_model():
    """y = x + x."""
    b = flatbuffers.Builder(512)

    def ints(numbers):
        b.StartVector(4, len(numbers), 4)
        for number in reversed(numbers):
            b.PrependInt32(number)
        return b.EndVector()

    def offsets(items):
        b.StartVector(4, len(items), 4)
        for item in reversed(items):
            b.PrependUOffsetTRelative(item)
        return b.EndVector()

    def tensor(name):
        shape, text = ints([1, 3]), b.CreateString(name)
        b.StartObject(8)
        b.PrependUOffsetTRelativeSlot(0, shape, 0)
        b.PrependInt8Slot(1, 0, 0)  # FLOAT32
        b.PrependUint32Slot(2, 0, 0)
        b.PrependUOffsetTRelativeSlot(3, text, 0)
        return b.EndObject()

    b.StartObject(4)  # OperatorCode: ADD is 0
    b.PrependInt32Slot(2, 1, 0)
    codes = offsets([b.EndObject()])
    tensors = offsets([tensor("x"), tensor("y")])
    inputs, outputs, pair, result = ints([0]), ints([1]), ints([0, 0]), ints([1])
    b.StartObject(2)
    options = b.EndObject()
    b.StartObject(5)  # Operator
    b.PrependUOffsetTRelativeSlot(1, pair, 0)
    b.PrependUOffsetTRelativeSlot(2, result, 0)
    b.PrependUint8Slot(3, 11, 0)  # AddOptions
    b.PrependUOffsetTRelativeSlot(4, options, 0)
    operators = offsets([b.EndObject()])
    b.StartObject(5)  # SubGraph
    for slot, item in enumerate((tensors, inputs, outputs, operators)):
        b.PrependUOffsetTRelativeSlot(slot, item, 0)
    graphs = offsets([b.EndObject()])
    b.StartObject(3)  # Buffer 0 is always empty.
    buffers = offsets([b.EndObject()])
    b.StartObject(8)  # Model
    b.PrependUint32Slot(0, 3, 0)
    b.PrependUOffsetTRelativeSlot(1, codes, 0)
    b.PrependUOffsetTRelativeSlot(2, graphs, 0)
    b.PrependUOffsetTRelativeSlot(4, buffers, 0)
    b.Finish(b.EndObject(), b"TFL3")
    (FOLDER / "double.tflite").write_bytes(bytes(b.Output()))


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, content):
    """A field of a protocol buffer: an int as varint, text and bytes with their length."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content & (1 << 64) - 1)
    if isinstance(content, str):
        content = content.encode()
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensorflow_models():
    """y = x + c, as a frozen graph and as a SavedModel without variables."""
    def attribute(name, content):
        return field(5, field(1, name) + field(2, content))

    def node(name, op, inputs, *attributes):
        return field(1, field(1, name) + field(2, op) + b"".join(field(3, one) for one in inputs) + b"".join(attributes))

    float_type = field(6, 1)
    shape = field(2, field(1, -1)) + field(2, field(1, 3))
    constant = field(1, 1) + field(2, field(2, field(1, 3))) + field(4, struct.pack("<3f", 1, 2, 3))
    graph = (node("x", "Placeholder", [], attribute("dtype", float_type), attribute("shape", field(7, shape)))
             + node("c", "Const", [], attribute("dtype", float_type), attribute("value", field(8, constant)))
             + node("y", "AddV2", ["x", "c"], attribute("T", float_type)) + field(4, field(1, 1087)))
    (FOLDER / "add.pb").write_bytes(graph)

    def info(name):
        return field(1, name + ":0") + field(2, 1) + field(3, shape)

    signature = (field(1, field(1, "x") + field(2, info("x"))) + field(2, field(1, "y") + field(2, info("y")))
                 + field(3, "tensorflow/serving/predict"))
    meta = (field(1, field(4, "serve")) + field(2, graph)
            + field(5, field(1, "serving_default") + field(2, signature)))
    folder = FOLDER / "add_saved_model"
    folder.mkdir(exist_ok=True)
    (folder / "saved_model.pb").write_bytes(field(1, 1) + field(2, meta))


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    onnx_models()
    encoder_models()
    ir_models()
    tflite_model()
    tensorflow_models()
