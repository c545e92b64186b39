"""Builds the ONNX graph of a BERT or ModernBERT encoder from a model folder's safetensors.

Two forms of the same arithmetic, so that onnxruntime can show its best:
  plain  standard operators, as torch.onnx.export writes them; onnxruntime's own optimiser fuses
         what it recognises
  fused  the operators that onnxruntime's transformer optimiser puts in their place (com.microsoft
         Attention, SkipLayerNormalization, BiasGelu)
Inputs: input_ids [batch, length] int64, attention_mask likewise. Outputs, all float:
  hidden  last_hidden_state [batch, length, hidden]
  pooled  its mean over the tokens of a text [batch, hidden]
  logits  of the classification head over the first token [batch, labels]
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


class Weights(dict):
    """The weights of a file, whether or not its names have the encoder's prefix."""

    def __init__(self, folder):
        prefixes = ("bert.", "model.")
        super().__init__({next((n[len(p):] for p in prefixes if n.startswith(p)), n): array
                          for n, array in load_file(folder / "model.safetensors").items()})


def bert_embeddings(g, w, eps):
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
    return norm(g, g.op("Add", [linear(g, gelu(g, inner), w, p + "output.dense"), x]), w,
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
    activated = g.op("BiasGelu", [linear(g, x, w, inner, bias=False),
                             g.weight(inner + ".b", w[inner + ".bias"])], domain=ms)
    dense = p + "output.dense"
    return skip_norm(linear(g, activated, w, dense, bias=False), x, dense, p + "output.LayerNorm")


def bert(g, w, config, form):
    eps = config["layer_norm_eps"]
    x = bert_embeddings(g, w, eps)
    if form == "plain":
        mask = additive_mask(g)
    else:
        mask = g.op("Cast", ["attention_mask"], to=TensorProto.INT32)
    layer = plain_layer if form == "plain" else fused_layer
    for i in range(config["num_hidden_layers"]):
        x = layer(g, x, mask, w, f"encoder.layer.{i}.", config["num_attention_heads"], eps)
    return x


def additive_mask(g):
    """[batch, 1, 1, length]: 0 where a token is, else very negative."""
    m = g.op("Cast", ["attention_mask"], to=TensorProto.FLOAT)
    m = g.op("Unsqueeze", [m, g.weight("axes", np.array([1, 2], np.int64))])
    one = g.weight("one_f", np.array(1, np.float32))
    return g.op("Mul", [g.op("Sub", [one, m]), g.weight("low", np.array(-1e9, np.float32))])


def bias_free_norm(g, x, w, name, eps):
    return g.op("LayerNormalization", [x, g.weight(name + ".g", w[name + ".weight"])], epsilon=eps, axis=-1)


def gelu(g, x):
    erf = g.op("Erf", [g.op("Div", [x, g.weight("sqrt2", np.array(2 ** 0.5, np.float32))])])
    one = g.op("Add", [erf, g.weight("one_f", np.array(1, np.float32))])
    return g.op("Mul", [g.op("Mul", [x, one]), g.weight("half", np.array(0.5, np.float32))])


def rotary_tables(config, theta, positions):
    width = config["hidden_size"] // config["num_attention_heads"]
    angles = np.outer(np.arange(positions), theta ** -(np.arange(0, width, 2) / width))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


class ModernBert:
    """GeGLU, rotary positions, no biases; two of three layers see `local_attention` / 2 to each side.

    fused: com.microsoft RotaryEmbedding and MultiHeadAttention.
    """

    POSITIONS = 512

    def __init__(self, g, w, config, form):
        self.g, self.w, self.form = g, w, form
        self.eps, self.heads, self.hidden = config["norm_eps"], config["num_attention_heads"], config["hidden_size"]
        self.length = g.op("Gather", [g.op("Shape", ["input_ids"]), g.weight("one", np.array([1], np.int64))])
        self.zero = g.weight("zero", np.array([0], np.int64))
        self.tables = {}
        for local, key in ((False, "global_rope_theta"), (True, "local_rope_theta")):
            cos, sin = rotary_tables(config, config[key], self.POSITIONS)
            if form == "plain":
                tables = [self.first_rows(f"{n}_{key}", np.concatenate([t, t], 1)) for n, t in (("cos", cos), ("sin", sin))]
            else:
                tables = [g.weight(f"{n}_{key}", t) for n, t in (("cos", cos), ("sin", sin))]
            self.tables[local] = tables
        everywhere = additive_mask(g)
        at = np.arange(self.POSITIONS)
        window = np.where(np.abs(at[:, None] - at) <= config["local_attention"] // 2, 0, -1e9).astype(np.float32)
        rows = self.first_rows("window", window)
        near = g.op("Slice", [rows, self.zero, self.length, g.weight("one", np.array([1], np.int64))])
        self.masks = {False: everywhere, True: g.op("Add", [near, everywhere])}
        if form == "fused":
            # MultiHeadAttention wants a row of the mask for each query.
            zeros = g.op("Mul", [near, g.weight("zero_f", np.array(0, np.float32))])
            self.masks[False] = g.op("Add", [zeros, everywhere])
            self.positions = g.op("Unsqueeze", [g.op("Slice", [g.weight("at", at.astype(np.int64)), self.zero, self.length]),
                                                self.zero])
            self.positions = g.op("Expand", [self.positions, g.op("Shape", ["input_ids"])])

    def first_rows(self, name, table):
        return self.g.op("Slice", [self.g.weight(name, table), self.zero, self.length, self.zero])

    def linear(self, x, name, rows=slice(None)):
        return self.g.op("MatMul", [x, self.g.weight(f"{name}.{rows.start}.w", self.w[name + ".weight"][rows].T)])

    def rotate(self, x, local):
        g, half = self.g, self.hidden // self.heads // 2
        cos, sin = self.tables[local]
        a, b = g.op("Split", [x, g.weight("halves", np.array([half, half], np.int64))], 2, axis=-1)
        turned = g.op("Concat", [g.op("Neg", [b]), a], axis=-1)
        return g.op("Add", [g.op("Mul", [x, cos]), g.op("Mul", [turned, sin])])

    def plain_attention(self, parts, local):
        g = self.g
        split = g.weight("split", np.array([0, 0, self.heads, self.hidden // self.heads], np.int64))
        merge = g.weight("merge", np.array([0, 0, self.hidden], np.int64))
        q, k, v = [g.op("Transpose", [g.op("Reshape", [y, split])], perm=[0, 2, 1, 3]) for y in parts]
        q, k = self.rotate(q, local), self.rotate(k, local)
        scale = g.weight("scale", np.array((self.hidden // self.heads) ** -0.5, np.float32))
        scores = g.op("MatMul", [g.op("Mul", [q, scale]), g.op("Transpose", [k], perm=[0, 1, 3, 2])])
        probabilities = g.op("Softmax", [g.op("Add", [scores, self.masks[local]])], axis=-1)
        return g.op("Reshape", [g.op("Transpose", [g.op("MatMul", [probabilities, v])], perm=[0, 2, 1, 3]), merge])

    def fused_attention(self, parts, local):
        ms = "com.microsoft"
        q, k = [self.g.op("RotaryEmbedding", [y, self.positions, *self.tables[local]], domain=ms,
                          num_heads=self.heads, rotary_embedding_dim=self.hidden // self.heads) for y in parts[:2]]
        return self.g.op("MultiHeadAttention", [q, k, parts[2], "", "", self.masks[local]], domain=ms,
                         num_heads=self.heads)

    def layer(self, x, i, local):
        g, p, hidden = self.g, f"layers.{i}.", self.hidden
        y = bias_free_norm(g, x, self.w, p + "attn_norm", self.eps) if i else x
        parts = [self.linear(y, p + "attn.Wqkv", slice(j * hidden, (j + 1) * hidden)) for j in range(3)]
        attention = self.plain_attention if self.form == "plain" else self.fused_attention
        x = g.op("Add", [x, self.linear(attention(parts, local), p + "attn.Wo")])
        y = bias_free_norm(g, x, self.w, p + "mlp_norm", self.eps)
        inner = self.w[p + "mlp.Wi.weight"].shape[0] // 2
        act = gelu(g, self.linear(y, p + "mlp.Wi", slice(0, inner)))
        gated = g.op("Mul", [act, self.linear(y, p + "mlp.Wi", slice(inner, 2 * inner))])
        return g.op("Add", [x, self.linear(gated, p + "mlp.Wo")])


def modernbert(g, w, config, form):
    model = ModernBert(g, w, config, form)
    x = g.op("Gather", [g.weight("words", w["embeddings.tok_embeddings.weight"]), "input_ids"])
    x = bias_free_norm(g, x, w, "embeddings.norm", model.eps)
    for i in range(config["num_hidden_layers"]):
        x = model.layer(x, i, i % config["global_attn_every_n_layers"] != 0)
    return bias_free_norm(g, x, w, "final_norm", model.eps)


def pooled(g, x):
    """The mean over the tokens of a text."""
    m = g.op("Cast", ["attention_mask"], to=TensorProto.FLOAT)
    axis = g.weight("one", np.array([1], np.int64))
    total = g.op("MatMul", [g.op("Unsqueeze", [m, axis]), x])
    count = g.op("ReduceSum", [m, axis], keepdims=1)
    return g.op("Div", [g.op("Squeeze", [total, axis]), count])


def logits(g, x, w, config):
    first = g.op("Gather", [x, g.weight("first", np.array(0, np.int64))], axis=1)
    if config["model_type"] == "bert":
        y = g.op("Tanh", [linear(g, first, w, "pooler.dense")])
    else:
        y = bias_free_norm(g, gelu(g, linear(g, first, w, "head.dense", bias=False)), w, "head.norm", config["norm_eps"])
    return linear(g, y, w, "classifier")


def build(folder, form, path, output="hidden"):
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    w = Weights(folder)
    g = Graph()
    x = (bert if config["model_type"] == "bert" else modernbert)(g, w, config, form)
    width = config["hidden_size"]
    if output == "pooled":
        x = pooled(g, x)
    elif output == "logits":
        x, width = logits(g, x, w, config), w["classifier.weight"].shape[0]
    name = "last_hidden_state" if output == "hidden" else output
    g.nodes[-1].output[0] = name
    dims = ["batch", "length"]
    graph = helper.make_graph(
        g.nodes, "encoder",
        [helper.make_tensor_value_info(n, TensorProto.INT64, dims) for n in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, (dims if output == "hidden" else dims[:1]) + [width])],
        [numpy_helper.from_array(a, n) for n, a in g.weights.items()])
    model = helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    onnx.save(model, path)
