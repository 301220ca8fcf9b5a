"""The generated graphs of graphs.py with the kinds that QOperator form and dynamic quantization know beside them."""
import functools

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import graphs
from graph_emitters import EMITTERS, emitter, rank4


@emitter
def lstm(b):
    t = b.tensor(lambda s: len(s) == 3 and min(s) >= 1 and max(s) <= 40)
    if not t or b.opset < 14:
        return False
    length, batch, width = b.shapes[t]
    hidden, directions = b.integer(1, 6), b.pick([1, 1, 2])
    direction = "bidirectional" if directions == 2 else b.pick(["forward", "reverse"])
    inputs = [t, b.weight(directions, 4 * hidden, width), b.weight(directions, 4 * hidden, hidden)]
    if b.chance(0.7):
        inputs.append(b.constant(b.values((directions, 8 * hidden)), "c"))
        if b.chance(0.3):
            state = lambda: b.constant(b.values((directions, batch, hidden)), "c")
            inputs += ["", state(), state()]
    b.note(f"LSTM {direction}")
    b.add("LSTM", inputs, [(length, directions, batch, hidden)], hidden_size=hidden, direction=direction)


@emitter
def attention(b):
    t = b.tensor(lambda s: len(s) == 3 and min(s) >= 1 and max(s) <= 40)
    if not t:
        return False
    batch, length, width = b.shapes[t]
    heads = b.pick([1, 2])
    size = heads * b.integer(1, 4)
    inputs = [t, b.weight(width, 3 * size), b.constant(b.values((3 * size,)), "c")]
    attributes = {"num_heads": heads}
    odd = b.rng.random()
    if odd < 0.3:
        b.note("Attention with a mask")
        inputs.append(b.constant(np.full(batch, length, np.int32), "i"))
    elif odd < 0.4:
        b.note("Attention with a bias of its own")
        inputs += ["", "", b.constant(b.values((batch, heads, length, length)), "c")]
    elif odd < 0.5:
        attributes["unidirectional"] = 1
    (out,) = b.add("Attention", inputs, [(batch, length, size)], domain="com.microsoft", **attributes)
    b.unknown.add(out)


@emitter
def embed_layer_norm(b):
    length, width, batch = b.integer(1, 5), b.integer(2, 6), b.integer(1, 3)
    ids = lambda high: b.constant(b.rng.integers(0, high, (batch, length)).astype(np.int32), "i")
    segments = b.chance(0.6)
    inputs = [ids(7), ids(2) if segments else "", b.weight(7, width), b.weight(6, width),
              b.weight(2, width) if segments else "", b.weight(width), b.weight(width)]
    if b.chance(0.3):
        inputs.append(b.constant(np.ones((batch, length), np.int32), "i"))
    if b.chance(0.15):
        b.note("EmbedLayerNormalization with positions")
        inputs += [""] * (8 - len(inputs)) + [ids(6)]
    out, _ = b.add("EmbedLayerNormalization", inputs, [(batch, length, width), None], domain="com.microsoft")
    b.unknown.add(out)


@emitter
def layer_chain(b):
    """Layers behind each other, so that codes travel without going back to float."""
    for name in (b.pick(["conv", "matmul", "gemm"]), b.pick(["transpose", "reshape", "pad", "pool", "split"]),
                 b.pick(["conv", "matmul", "gemm", "softmax", "concat"])):
        if EMITTERS[name](b) is False:
            return False


@emitter
def siblings(b):
    """A layer and an operator that moves values, both on the same tensor."""
    t = b.tensor(lambda s: len(s) == 2 and min(s) >= 1)
    if not t:
        return False
    rows, depth = b.shapes[t]
    columns = b.integer(1, 6)
    b.add("MatMul", [t, b.weight(depth, columns)], [(rows, columns)])
    b.add("Transpose", [t], [(depth, rows)], perm=[1, 0])


@emitter
def conv_flatten(b):
    if EMITTERS["conv"](b) is False:
        return False
    t = list(b.shapes)[-1]
    s = b.shapes[t]
    (t,) = b.add("Flatten", [t], [(s[0], int(np.prod(s[1:])))])
    b.add("Gemm", [t, b.weight(b.shapes[t][1], 3)], [(s[0], 3)])


@emitter
def average_pool_dilated(b):
    t = b.tensor(lambda s: rank4(s) and min(s[2:]) >= 3)
    if not t or b.opset < 19:
        return False
    s = b.shapes[t]
    b.note("AveragePool with dilations")
    b.add("AveragePool", [t], [(*s[:2], s[2] - 2, s[3] - 2)], kernel_shape=[2, 2], dilations=[2, 2])


@emitter
def body_with_layer(b):
    """An If whose branches hold a layer with weights, of their own or from around them."""
    t = b.tensor(lambda s: len(s) == 2 and min(s) >= 1)
    if not t:
        return False
    rows, depth = b.shapes[t]
    columns = b.integer(1, 5)
    outer = b.weight(depth, columns)

    def branch(own):
        out, weights = b.name("s"), []
        if own:
            weights = [numpy_helper.from_array(b.values((depth, columns)), b.name("v"))]
        info = helper.make_tensor_value_info(out, TensorProto.FLOAT, [rows, columns])
        node = helper.make_node("MatMul", [t, weights[0].name if own else outer], [out], b.name("m"))
        return helper.make_graph([node], b.name("body"), [], [info], weights)

    b.note("body with a layer")
    b.add("If", [b.constant(np.array(b.chance(0.5)))], [(rows, columns)], then_branch=branch(b.chance(0.5)),
          else_branch=branch(b.chance(0.5)))


graphs.WEIGHTS.update(lstm=4, attention=3, embed_layer_norm=2, layer_chain=4, body_with_layer=0.5, average_pool_dilated=0.3,
                      gather_table=2, unsqueeze=2, elementwise=2)
generate = functools.partial(graphs.generate, float16=False)
