"""Builds the ONNX graph of a BERT encoder from a model folder's safetensors.

Two forms of the same arithmetic, so that onnxruntime can show its best:
  plain  standard operators, as torch.onnx.export writes them; onnxruntime's own optimiser fuses
         what it recognises
  fused  the operators that onnxruntime's transformer optimiser puts in their place (com.microsoft
         Attention, SkipLayerNormalization, BiasGelu)
Inputs: input_ids [batch, length] int64, attention_mask likewise. Output: last_hidden_state.
"""
import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file


class Graph:
    def __init__(self):
        self.nodes, self.weights, self.count = [], {}, 0

    def weight(self, name, array):
        self.weights[name] = np.ascontiguousarray(array)
        return name

    def op(self, kind, inputs, outputs=1, domain="", **attributes):
        self.count += 1
        names = [f"t{self.count}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain,
                                           name=f"{kind}_{self.count}", **attributes))
        return names[0] if outputs == 1 else names


def embeddings(g, w, eps):
    words = g.op("Gather", [g.weight("words", w["embeddings.word_embeddings.weight"]), "input_ids"])
    shape = g.op("Shape", ["input_ids"])
    length = g.op("Gather", [shape, g.weight("one", np.array([1], np.int64))])
    table = g.weight("positions", w["embeddings.position_embeddings.weight"])
    zero = g.weight("zero", np.array([0], np.int64))
    rows = g.op("Slice", [table, zero, length, zero])
    kind = g.weight("type_row", w["embeddings.token_type_embeddings.weight"][0])
    x = g.op("Add", [g.op("Add", [words, kind]), rows])
    return norm(g, x, w, "embeddings.LayerNorm", eps)


def norm(g, x, w, name, eps):
    return g.op("LayerNormalization", [x, g.weight(name + ".g", w[name + ".weight"]),
                                       g.weight(name + ".b", w[name + ".bias"])], epsilon=eps, axis=-1)


def linear(g, x, w, name, bias=True):
    y = g.op("MatMul", [x, g.weight(name + ".w", w[name + ".weight"].T)])
    return g.op("Add", [y, g.weight(name + ".bias", w[name + ".bias"])]) if bias else y


def plain_layer(g, x, mask, w, p, heads, eps):
    hidden = w[p + "attention.self.query.weight"].shape[0]
    split = g.weight("split", np.array([0, 0, heads, hidden // heads], np.int64))
    merge = g.weight("merge", np.array([0, 0, hidden], np.int64))

    def head(name, perm):
        y = g.op("Reshape", [linear(g, x, w, p + "attention.self." + name), split])
        return g.op("Transpose", [y], perm=perm)

    q, k, v = head("query", [0, 2, 1, 3]), head("key", [0, 2, 3, 1]), head("value", [0, 2, 1, 3])
    scores = g.op("Div", [g.op("MatMul", [q, k]),
                          g.weight("scale", np.array((hidden // heads) ** 0.5, np.float32))])
    probabilities = g.op("Softmax", [g.op("Add", [scores, mask])], axis=-1)
    context = g.op("Transpose", [g.op("MatMul", [probabilities, v])], perm=[0, 2, 1, 3])
    attended = linear(g, g.op("Reshape", [context, merge]), w, p + "attention.output.dense")
    x = norm(g, g.op("Add", [attended, x]), w, p + "attention.output.LayerNorm", eps)
    inner = linear(g, x, w, p + "intermediate.dense")
    erf = g.op("Erf", [g.op("Div", [inner, g.weight("sqrt2", np.array(2 ** 0.5, np.float32))])])
    gelu = g.op("Mul", [g.op("Mul", [inner, g.op("Add", [erf, g.weight("one_f", np.array(1, np.float32))])]),
                        g.weight("half", np.array(0.5, np.float32))])
    return norm(g, g.op("Add", [linear(g, gelu, w, p + "output.dense"), x]), w,
                p + "output.LayerNorm", eps)


def fused_layer(g, x, mask, w, p, heads, eps):
    ms = "com.microsoft"
    parts = [p + "attention.self." + n for n in ("query", "key", "value")]
    qkv = g.weight(p + "qkv.w", np.concatenate([w[n + ".weight"].T for n in parts], axis=1))
    bias = g.weight(p + "qkv.b", np.concatenate([w[n + ".bias"] for n in parts]))
    context = g.op("Attention", [x, qkv, bias, mask], domain=ms, num_heads=heads)

    def skip_norm(y, residual, dense, name):
        return g.op("SkipLayerNormalization",
                    [y, residual, g.weight(name + ".g", w[name + ".weight"]),
                     g.weight(name + ".b", w[name + ".bias"]), g.weight(dense + ".b", w[dense + ".bias"])],
                    domain=ms, epsilon=eps)

    dense = p + "attention.output.dense"
    x = skip_norm(linear(g, context, w, dense, bias=False), x, dense, p + "attention.output.LayerNorm")
    inner = p + "intermediate.dense"
    gelu = g.op("BiasGelu", [linear(g, x, w, inner, bias=False),
                             g.weight(inner + ".b", w[inner + ".bias"])], domain=ms)
    dense = p + "output.dense"
    return skip_norm(linear(g, gelu, w, dense, bias=False), x, dense, p + "output.LayerNorm")


def build(folder, form, path):
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    w = load_file(folder / "model.safetensors")
    g = Graph()
    eps = config["layer_norm_eps"]
    x = embeddings(g, w, eps)
    if form == "plain":
        m = g.op("Cast", ["attention_mask"], to=TensorProto.FLOAT)
        m = g.op("Unsqueeze", [m, g.weight("axes", np.array([1, 2], np.int64))])
        one = g.weight("one_f", np.array(1, np.float32))
        mask = g.op("Mul", [g.op("Sub", [one, m]), g.weight("low", np.array(-3e38, np.float32))])
    else:
        mask = g.op("Cast", ["attention_mask"], to=TensorProto.INT32)
    layer = plain_layer if form == "plain" else fused_layer
    for i in range(config["num_hidden_layers"]):
        x = layer(g, x, mask, w, f"encoder.layer.{i}.", config["num_attention_heads"], eps)
    g.nodes[-1].output[0] = "last_hidden_state"
    dims = ["batch", "length"]
    graph = helper.make_graph(
        g.nodes, "bert",
        [helper.make_tensor_value_info(n, TensorProto.INT64, dims) for n in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, dims + [config["hidden_size"]])],
        [numpy_helper.from_array(a, n) for n, a in g.weights.items()])
    model = helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    onnx.save(model, path)
