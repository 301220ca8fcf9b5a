"""Small decoders and encoders with random weights, each as exporters write it and in the operators that runtimes fuse it to."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, KEY_HEADS, SIZE, WIDE, WORDS, LAYERS, TOKENS = 64, 4, 2, 16, 96, 40, 2, 12
SHARES = HEADS // KEY_HEADS


class Graph:
    """Nodes are called after their outputs; weights after what they are."""

    def __init__(self, seed=0):
        self.nodes, self.constants, self.rng = [], {}, np.random.default_rng(seed)

    def node(self, op, inputs, outputs, domain="", **attributes):
        names = [outputs] if isinstance(outputs, str) else outputs
        self.nodes.append(helper.make_node(op, inputs, names, names[0] + "_node", domain=domain, **attributes))
        return names[0]

    def fused(self, op, inputs, outputs, **attributes):
        return self.node(op, inputs, outputs, "com.microsoft", **attributes)

    def weight(self, name, *shape):
        self.constants[name] = (self.rng.normal(size=shape) * 1.6 / np.sqrt(shape[0])).astype(np.float32)
        return name

    def constant(self, name, value, kind=np.int64):
        self.constants[name] = np.asarray(value, kind)
        return name

    def model(self, inputs, outputs):
        infos = [[helper.make_tensor_value_info(*v) for v in part] for part in (inputs, outputs)]
        graph = helper.make_graph(self.nodes, "g", *infos, [numpy_helper.from_array(v, n) for n, v in self.constants.items()])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def angles(length):
    turns = np.outer(np.arange(length), 100.0 ** (-np.arange(SIZE // 2) / (SIZE // 2)))
    return np.cos(turns), np.sin(turns)


def rms_norm(g, x, name):
    scale = g.constant(f"{name}_gamma", g.rng.uniform(0.5, 1.5, WIDTH), np.float32)
    g.constant("two", 2.0, np.float32), g.constant("tiny", 1e-6, np.float32)
    mean = g.node("ReduceMean", [g.node("Pow", [x, "two"], f"{name}_squares")], f"{name}_mean", axes=[-1])
    root = g.node("Sqrt", [g.node("Add", [mean, "tiny"], f"{name}_shifted")], f"{name}_root")
    turned = g.node("Mul", [x, g.node("Reciprocal", [root], f"{name}_factor")], f"{name}_unit")
    return g.node("Mul", [turned, scale], name)


def heads(g, x, count, name):
    shaped = g.node("Reshape", [x, g.constant(f"{name}_dims", [0, 0, count, SIZE])], f"{name}_shaped")
    return g.node("Transpose", [shaped], name, perm=[0, 2, 1, 3])


def rotated(g, x, name):
    for key, ends in (("low", [0, SIZE // 2]), ("high", [SIZE // 2, SIZE])):
        g.constant(f"{key}_from", ends[:1]), g.constant(f"{key}_to", ends[1:])
    g.constant("last", [3])
    low, high = (g.node("Slice", [x, f"{key}_from", f"{key}_to", "last"], f"{name}_{key}") for key in ("low", "high"))
    crossed = g.node("Concat", [g.node("Neg", [high], f"{name}_negative"), low], f"{name}_crossed", axis=-1)
    return g.node("Add", [g.node("Mul", [x, "cos"], f"{name}_even"), g.node("Mul", [crossed, "sin"], f"{name}_odd")], name)


def repeated(g, x, name):
    g.constant("third", [2]), g.constant("copies", [1, 1, SHARES, 1, 1]), g.constant("all_heads", [0, HEADS, -1, SIZE])
    spread = g.node("Expand", [g.node("Unsqueeze", [x, "third"], f"{name}_apart"), "copies"], f"{name}_copied")
    return g.node("Reshape", [spread, "all_heads"], name)


def attend(g, q, k, v, mask, name):
    g.constant("scale", SIZE ** -0.5, np.float32), g.constant("flat", [0, 0, WIDTH])
    scores = g.node("MatMul", [q, g.node("Transpose", [k], f"{name}_turned", perm=[0, 1, 3, 2])], f"{name}_scores")
    scores = g.node("Mul", [scores, "scale"], f"{name}_scaled")
    if mask: scores = g.node("Add", [scores, mask], f"{name}_masked")
    mixed = g.node("MatMul", [g.node("Softmax", [scores], f"{name}_shares", axis=-1), v], f"{name}_mixed")
    return g.node("Reshape", [g.node("Transpose", [mixed], f"{name}_back", perm=[0, 2, 1, 3]), "flat"], name)


def decoder_weights(g):
    """In one order, so that all forms have the same."""
    g.weight("table", WORDS, WIDTH)
    for i in range(LAYERS):
        for name, rows, columns in (("q", WIDTH, WIDTH), ("k", WIDTH, KEY_HEADS * SIZE), ("v", WIDTH, KEY_HEADS * SIZE), ("o", WIDTH, WIDTH),
                                    ("gate", WIDTH, WIDE), ("up", WIDTH, WIDE), ("down", WIDE, WIDTH)):
            g.weight(f"{name}{i}", rows, columns)
    g.rng = np.random.default_rng(1)


def tied_head(g, x):
    turned = g.node("Transpose", ["table"], "table_turned", perm=[1, 0])
    return g.node("MatMul", [x, turned], "logits")


def mlp(g, x, i):
    gate, up = g.node("MatMul", [x, f"gate{i}"], f"opened{i}"), g.node("MatMul", [x, f"up{i}"], f"wide{i}")
    bent = g.node("Mul", [gate, g.node("Sigmoid", [gate], f"sigmoid{i}")], f"silu{i}")
    return g.node("MatMul", [g.node("Mul", [bent, up], f"gated{i}"), f"down{i}"], f"narrow{i}")


def decoder():
    """A decoder in ONNX's operators, TOKENS long."""
    g = Graph()
    decoder_weights(g)
    for name, part in zip(("cos", "sin"), angles(TOKENS)):
        g.constant(name, np.concatenate([part, part], -1), np.float32)
    g.constant("mask", np.triu(np.full((TOKENS, TOKENS), -1e9), 1), np.float32)
    x = g.node("Gather", ["table", "input_ids"], "embedded")
    for i in range(LAYERS):
        normed = rms_norm(g, x, f"before{i}")
        q, k, v = (heads(g, g.node("MatMul", [normed, f"{n}{i}"], f"{n}_made{i}"), count, f"{n}_heads{i}")
                   for n, count in (("q", HEADS), ("k", KEY_HEADS), ("v", KEY_HEADS)))
        k = repeated(g, rotated(g, k, f"k_turned{i}"), f"k_all{i}")
        mixed = attend(g, rotated(g, q, f"q_turned{i}"), k, repeated(g, v, f"v_all{i}"), "mask", f"attended{i}")
        x = g.node("Add", [x, g.node("MatMul", [mixed, f"o{i}"], f"projected{i}")], f"middle{i}")
        x = g.node("Add", [x, mlp(g, rms_norm(g, x, f"after{i}"), i)], f"x{i}")
    tied_head(g, rms_norm(g, x, "normed"))
    return g.model([("input_ids", TensorProto.INT64, [1, TOKENS])], [("logits", TensorProto.FLOAT, [1, TOKENS, WORDS])])


def fused_decoder(packed):
    """The same in GroupQueryAttention and fused normalizations; `packed`: Q, K and V are one matrix."""
    g = Graph()
    decoder_weights(g)
    for name, part in zip(("cos", "sin"), angles(TOKENS)):
        g.constant(name, part, np.float32)
    g.constant("last_token", [TOKENS - 1], np.int32), g.constant("tokens", TOKENS, np.int32)
    x = skip = g.node("Gather", ["table", "input_ids"], "embedded")
    for i in range(LAYERS):
        def norm(name, x, skip):
            scale = g.constant(f"{name}_gamma", g.rng.uniform(0.5, 1.5, WIDTH), np.float32)
            if skip is x: return g.node("SimplifiedLayerNormalization", [x, scale], name, axis=-1, epsilon=1e-6), x
            return g.fused("SkipSimplifiedLayerNormalization", [x, skip, scale], [name, "", "", f"{name}_sum"], epsilon=1e-6), f"{name}_sum"

        normed, skip = norm(f"before{i}", x, skip)
        if packed:
            g.constants[f"qkv{i}"] = np.concatenate([g.constants.pop(f"{n}{i}") for n in "qkv"], 1)
            made = [g.node("MatMul", [normed, f"qkv{i}"], f"qkv_made{i}"), "", ""]
        else:
            made = [g.node("MatMul", [normed, f"{n}{i}"], f"{n}_made{i}") for n in "qkv"]
        attended = g.fused("GroupQueryAttention", [*made, "", "", "last_token", "tokens", "cos", "sin"], [f"attended{i}", f"key{i}", f"value{i}"],
                           num_heads=HEADS, kv_num_heads=KEY_HEADS, do_rotary=1)
        normed, skip = norm(f"after{i}", g.node("MatMul", [attended, f"o{i}"], f"projected{i}"), skip)
        x = mlp(g, normed, i)
    normed, _ = norm("normed", x, skip)
    tied_head(g, normed)
    return g.model([("input_ids", TensorProto.INT64, [1, TOKENS])], [("logits", TensorProto.FLOAT, [1, TOKENS, WORDS])])


def encoder(fused):
    """With biases and LayerNormalization; `fused`: Attention, SkipLayerNormalization and BiasGelu."""
    g = Graph()
    g.weight("table", WORDS, WIDTH), g.weight("head", WIDTH, 6)
    for i in range(LAYERS):
        for name, rows, columns in (*((n, WIDTH, WIDTH) for n in "qkvo"), ("up", WIDTH, WIDE), ("down", WIDE, WIDTH)):
            g.weight(f"{name}{i}", rows, columns), g.constant(f"{name}_bias{i}", g.rng.normal(size=columns) * 0.1, np.float32)
        for name in ("middle", "end"):
            g.constant(f"{name}_gamma{i}", g.rng.uniform(0.5, 1.5, WIDTH), np.float32)
            g.constant(f"{name}_beta{i}", g.rng.normal(size=WIDTH) * 0.1, np.float32)
    for name, value in (("root", 2 ** 0.5), ("one", 1.0), ("half", 0.5)): g.constant(name, value, np.float32)

    def linear(x, name, i):
        return g.node("Add", [g.node("MatMul", [x, f"{name}{i}"], f"{name}_product{i}"), f"{name}_bias{i}"], f"{name}_made{i}")

    def normed(x, skip, name, bias, i):
        scale = [f"{name}_gamma{i}", f"{name}_beta{i}"]
        if fused: return g.fused("SkipLayerNormalization", [x, skip, *scale, bias], f"{name}{i}", epsilon=1e-5)
        return g.node("LayerNormalization", [g.node("Add", [x, skip], f"{name}_sum{i}"), *scale], f"{name}{i}", axis=-1)

    x = g.node("Gather", ["table", "input_ids"], "embedded")
    for i in range(LAYERS):
        if fused:
            for part, axis in (("", 1), ("_bias", 0)):
                g.constants[f"qkv{part}{i}"] = np.concatenate([g.constants.pop(f"{n}{part}{i}") for n in "qkv"], axis)
            mixed = g.fused("Attention", [x, f"qkv{i}", f"qkv_bias{i}"], f"attended{i}", num_heads=HEADS)
            middle = normed(g.node("MatMul", [mixed, f"o{i}"], f"projected{i}"), x, "middle", f"o_bias{i}", i)
            bent = g.fused("BiasGelu", [g.node("MatMul", [middle, f"up{i}"], f"wide{i}"), f"up_bias{i}"], f"bent{i}")
            x = normed(g.node("MatMul", [bent, f"down{i}"], f"narrow{i}"), middle, "end", f"down_bias{i}", i)
            continue
        q, k, v = (heads(g, linear(x, n, i), HEADS, f"{n}_heads{i}") for n in "qkv")
        middle = normed(linear(attend(g, q, k, v, None, f"attended{i}"), "o", i), x, "middle", "", i)
        wide = linear(middle, "up", i)
        erf = g.node("Add", [g.node("Erf", [g.node("Div", [wide, "root"], f"eased{i}")], f"erf{i}"), "one"], f"raised{i}")
        bent = g.node("Mul", [g.node("Mul", [wide, erf], f"twice{i}"), "half"], f"bent{i}")
        x = normed(linear(bent, "down", i), middle, "end", "", i)
    first = g.node("Gather", [x, g.constant("first", 0)], "first_token", axis=1)
    g.node("MatMul", [first, "head"], "y")
    return g.model([("input_ids", TensorProto.INT64, [1, TOKENS])], [("y", TensorProto.FLOAT, [1, 6])])
