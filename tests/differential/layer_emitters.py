"""Emitters of layers with weights, and of element-wise operators, activations and pools."""
import numpy as np
from onnx import helper

from emitters import emitter, if_body, rank4


@emitter
def conv(b):
    t = b.tensor(rank4)
    if not t:
        return False
    s = b.shapes[t]
    k = 1 if min(s[2:]) < 3 or b.chance(0.4) else 3
    pad = k // 2 if b.chance(0.5) else 0
    group = s[1] if b.chance(0.3) else 1
    out = s[1] if group > 1 else b.integer(1, 6)
    inputs = [t, b.weight(out, s[1] // group, k, k)] + ([b.bias(out)] if b.chance(0.7) else [])
    size = [d + 2 * pad - k + 1 for d in s[2:]]
    b.add("Conv", inputs, [(s[0], out, *size)], group=group, pads=[pad] * 4)


@emitter
def conv_1d(b):
    t = b.tensor(lambda s: len(s) == 3 and min(s) >= 1)
    if not t:
        return False
    s = b.shapes[t]
    out = b.integer(1, 5)
    b.add("Conv", [t, b.weight(out, s[1], 1)] + ([b.bias(out)] if b.chance(0.5) else []), [(s[0], out, s[2])])


@emitter
def conv_relu(b):
    """The chain that quantizers simplify, with every twist: more readers, graph output, two activations."""
    if conv(b) is False:
        return False
    t = list(b.shapes)[-1]
    if b.chance(0.15):
        b.note("activation's input has other readers")
        b.add("Mul", [t, t], [b.shapes[t]])
    if b.chance(0.08):
        b.note("activation's input is a graph output")
        b.outputs.append(t)
    if b.chance(0.05):
        b.note("activation's input is read by a body")
        if_body(b, t)
    if b.chance(0.5):
        (t,) = b.add("Relu", [t], [b.shapes[t]])
        if b.chance(0.3):
            b.note("Relu then Clip")
            clip(b, t)
    else:
        clip(b, t)
        if b.chance(0.2):
            b.note("Clip then Relu")
            t = list(b.shapes)[-1]
            b.add("Relu", [t], [b.shapes[t]])
    if b.chance(0.1):
        b.note("activation is a graph output")
        b.outputs.append(list(b.shapes)[-1])


@emitter
def conv_transpose(b):
    t = b.tensor(lambda s: rank4(s) and max(s[2:]) < 9)
    if not t:
        return False
    s = b.shapes[t]
    group = 2 if s[1] % 2 == 0 and b.chance(0.4) else 1
    if group > 1:
        b.note("ConvTranspose groups")
    per_group = b.integer(1, 4)
    out = per_group * group
    inputs = [t, b.weight(s[1], per_group, 2, 2)] + ([b.bias(out)] if b.chance(0.5) else [])
    b.add("ConvTranspose", inputs, [(s[0], out, s[2] + 1, s[3] + 1)], group=group)


@emitter
def gemm(b):
    t = b.tensor(lambda s: len(s) == 2 and min(s) >= 1)
    if not t:
        return False
    rows, depth = b.shapes[t]
    attributes, out = {}, b.integer(1, 8)
    trans_a = b.chance(0.08)
    if trans_a:
        rows, depth, attributes["transA"] = depth, rows, 1
    if b.chance(0.5):
        attributes["transB"] = 1
    weight = b.weight(out, depth) if "transB" in attributes else b.weight(depth, out)
    inputs = [t, weight]
    form = b.rng.random()
    if form < 0.5:
        inputs.append(b.bias(out))
    elif form < 0.75:
        shape = b.pick([(1, out), (rows, out), (1,), (), (rows, 1)])
        b.note("Gemm C of another shape than [N]")
        inputs.append(b.constant(b.values(shape), "b"))
    elif form < 0.8:
        b.note("Gemm C absent by name")
        inputs.append("")
    if b.chance(0.12):
        b.note("Gemm beta")
        attributes["beta"] = b.pick([0.5, 2.0, 0.0])
    if b.chance(0.12):
        b.note("Gemm alpha")
        attributes["alpha"] = b.pick([0.5, 2.0])
    b.add("Gemm", inputs, [(rows, out)], **attributes)


@emitter
def gemm_activations(b):
    t = b.tensor(lambda s: len(s) == 2 and min(s) >= 1)
    if not t:
        return False
    b.add("Gemm", [t, t], [(b.shapes[t][0],) * 2], transB=1)


@emitter
def matmul(b):
    t = b.tensor(lambda s: len(s) >= 2 and min(s) >= 1)
    if not t:
        return False
    s, out = b.shapes[t], b.integer(1, 8)
    if b.chance(0.15):
        b.note("MatMul constant left operand")
        b.add("MatMul", [b.weight(out, s[-2]), t], [(*s[:-2], out, s[-1])])
    elif b.chance(0.3) and len(s) == 3:
        b.note("MatMul constant of rank 3")
        b.add("MatMul", [t, b.weight(s[0], s[-1], out)], [(*s[:-1], out)])
    elif b.chance(0.1):
        b.note("MatMul constant of rank 1")
        b.add("MatMul", [t, b.weight(s[-1])], [s[:-1]])
    else:
        b.add("MatMul", [t, b.weight(s[-1], out)], [(*s[:-1], out)])


@emitter
def matmul_activations(b):
    t = b.tensor(lambda s: len(s) >= 2 and s[-1] == s[-2])
    if not t:
        return False
    b.add("MatMul", [t, b.like(t)], [b.shapes[t]])


@emitter
def binary(b):
    t = b.tensor()
    b.add(b.pick(["Add", "Add", "Mul", "Sub"]), [t, b.like(t)], [b.shapes[t]])


@emitter
def binary_constant(b):
    t = b.tensor(lambda s: len(s) >= 1 and min(s) >= 1)
    s = b.shapes[t]
    c = b.weight(*b.pick([(), (s[-1],), s]))
    b.note("constant read as an activation")
    b.add(b.pick(["Add", "Mul", "Add", "Mul", "Sub"]), [t, c] if b.chance(0.8) else [c, t], [s])


@emitter
def add_bias(b):
    """An Add whose constant is also some node's bias."""
    biases = [n for n, v in b.constants.items() if n.startswith("b") and v.ndim == 1]
    for name in biases:
        t = b.tensor(lambda s: s and s[-1] == b.constants[name].shape[0])
        if t:
            b.note("bias read as an activation")
            b.add("Add", [t, name], [b.shapes[t]])
            return None
    return False


@emitter
def div(b):
    t = b.tensor()
    b.add("Div", [t, b.constant(np.float32(b.pick([2.0, 8.0])))], [b.shapes[t]])


@emitter
def relu(b):
    t = b.tensor()
    b.add("Relu", [t], [b.shapes[t]])


@emitter
def clip(b, t=None):
    t = t or b.tensor()
    low, high = np.float32(b.pick([0, 0, -0.5])), np.float32(b.pick([1, 6]))
    form = b.rng.random()
    if form < 0.1:
        b.note("Clip without upper bound")
        inputs = [t, b.constant(low)]
    elif form < 0.2:
        b.note("Clip without lower bound")
        inputs = [t, "", b.constant(high)]
    elif form < 0.25:
        b.note("Clip without bounds")
        inputs = [t]
    elif form < 0.3:
        b.note("Clip bounds from nodes")
        bound = b.name("t")
        b.nodes.append(helper.make_node("Abs", [b.constant(high)], [bound], b.name("n")))
        inputs = [t, b.constant(low), bound]
    else:
        inputs = [t, b.constant(low), b.constant(high)]
    b.add("Clip", inputs, [b.shapes[t]])


@emitter
def elementwise(b):
    t = b.tensor()
    op = b.pick(["LeakyRelu", "Sigmoid", "Tanh", "Identity", "Abs", "Elu", "HardSigmoid", "Erf", "Neg", "Sigmoid", "LeakyRelu"])
    b.note("op " + op)
    b.add(op, [t], [b.shapes[t]])


@emitter
def softmax(b):
    t = b.tensor(lambda s: len(s) >= 1)
    b.add("Softmax", [t], [b.shapes[t]], axis=-1 if b.opset >= 13 else len(b.shapes[t]) - 1)


@emitter
def pool(b):
    t = b.tensor(lambda s: rank4(s) and min(s[2:]) >= 2)
    if not t:
        return False
    s = b.shapes[t]
    op = b.pick(["MaxPool", "MaxPool", "AveragePool"])
    b.note("op " + op)
    b.add(op, [t], [(*s[:2], s[2] - 1, s[3] - 1)], kernel_shape=[2, 2])


@emitter
def global_pool(b):
    t = b.tensor(rank4)
    if not t:
        return False
    op = b.pick(["GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool"])
    b.add(op, [t], [(*b.shapes[t][:2], 1, 1)])


@emitter
def reduce(b):
    t = b.tensor(lambda s: len(s) > 1)
    if not t:
        return False
    op, s = b.pick(["ReduceMean", "ReduceSum", "ReduceMax"]), b.shapes[t]
    as_input = b.opset >= (13 if op == "ReduceSum" else 18)
    if as_input:
        b.add(op, [t, b.ints(-1)], [(*s[:-1], 1)], keepdims=1)
    else:
        b.add(op, [t], [(*s[:-1], 1)], axes=[len(s) - 1], keepdims=1)
