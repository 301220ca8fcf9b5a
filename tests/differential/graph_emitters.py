"""The kinds of nodes that generated graphs are made of: an emitter reads live tensors of a Builder and adds nodes.

It answers False where no tensor fits.
"""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

EMITTERS = {}


def emitter(fn):
    EMITTERS[fn.__name__] = fn
    return fn


def rank4(s):
    return len(s) == 4 and min(s) >= 1


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


@emitter
def reshape(b):
    t = b.tensor(lambda s: len(s) >= 1)
    s = b.shapes[t]
    b.add("Reshape", [t, b.ints(s[0], -1)], [(s[0], int(np.prod(s[1:])))])


@emitter
def reshape_3d(b):
    t = b.tensor(lambda s: len(s) == 4)
    if not t:
        return False
    s = b.shapes[t]
    b.add("Reshape", [t, b.ints(s[0], s[1], -1)], [(s[0], s[1], s[2] * s[3])])


@emitter
def flatten(b):
    t = b.tensor(lambda s: len(s) >= 2)
    s = b.shapes[t]
    b.add("Flatten", [t], [(s[0], int(np.prod(s[1:])))])


@emitter
def transpose(b):
    t = b.tensor(lambda s: len(s) > 1)
    perm = [int(i) for i in b.rng.permutation(len(b.shapes[t]))]
    b.add("Transpose", [t], [[b.shapes[t][i] for i in perm]], perm=perm)


def with_axes(b, op, t, shape, axis):
    if b.opset >= 13:
        b.add(op, [t, b.ints(axis)], [shape])
    else:
        b.add(op, [t], [shape], axes=[axis])


@emitter
def unsqueeze(b):
    t = b.tensor(lambda s: len(s) < 4)
    if not t:
        return False
    with_axes(b, "Unsqueeze", t, (1, *b.shapes[t]), 0)


@emitter
def squeeze(b):
    t = b.tensor(lambda s: len(s) > 2 and s[0] == 1)
    if not t:
        return False
    with_axes(b, "Squeeze", t, b.shapes[t][1:], 0)


@emitter
def resize(b):
    t = b.tensor(lambda s: rank4(s) and max(s[2:]) < 8)
    if not t:
        return False
    s = b.shapes[t]
    roi = "" if b.opset >= 13 else b.constant(np.zeros(0, np.float32))
    b.add("Resize", [t, roi, b.constant(np.array([1, 1, 2, 2], np.float32))], [(*s[:2], 2 * s[2], 2 * s[3])],
          mode=b.pick(["nearest", "linear"]))


@emitter
def slice_(b):
    t = b.tensor(lambda s: s and s[-1] > 1)
    if not t:
        return False
    s = b.shapes[t]
    b.add("Slice", [t, b.ints(0), b.ints(s[-1] - 1), b.ints(len(s) - 1)], [(*s[:-1], s[-1] - 1)])


@emitter
def pad(b):
    t = b.tensor(lambda s: len(s) >= 1 and s[-1] > 1)
    if not t:
        return False
    s = b.shapes[t]
    mode = b.pick(["constant", "constant", "constant", "reflect", "edge"])
    inputs = [t, b.ints(*[0] * len(s), *[0] * (len(s) - 1), 1)]
    form = b.rng.random()
    if mode == "constant" and form < 0.6:
        value = np.float32(b.pick([0.0, 1.5, -0.25]))
        b.note("Pad with a zero" if value == 0 else "Pad with another value")
        if form < 0.1:
            b.note("Pad value from a Constant node")
            k = b.name("k")
            b.nodes.append(helper.make_node("Constant", [], [k], b.name("n"), value=numpy_helper.from_array(value)))
            inputs.append(k)
        elif form < 0.15:
            b.note("Pad value computed")
            k = b.name("t")
            b.nodes.append(helper.make_node("Neg", [b.constant(value)], [k], b.name("n")))
            inputs.append(k)
        else:
            inputs.append(b.constant(value))
    else:
        b.note("Pad mode " + mode)
    attributes = {} if mode == "constant" and b.chance(0.5) else {"mode": mode}
    b.add("Pad", inputs, [(*s[:-1], s[-1] + 1)], **attributes)


@emitter
def split(b):
    t = b.tensor(lambda s: s and s[-1] >= 2)
    if not t:
        return False
    s = b.shapes[t]
    sizes, axis = [s[-1] // 2, s[-1] - s[-1] // 2], len(s) - 1
    shapes = [(*s[:-1], n) for n in sizes]
    if b.opset >= 13:
        b.add("Split", [t, b.ints(*sizes)], shapes, axis=axis)
    else:
        b.add("Split", [t], shapes, axis=axis, split=sizes)


@emitter
def concat(b):
    t = b.tensor(lambda s: len(s) >= 1 and s[-1] < 64)
    if not t:
        return False
    s = b.shapes[t]
    other = b.like(t)
    if b.chance(0.2) and min(s) >= 1:
        b.note("Concat with a constant")
        other = b.weight(*s)
    b.add("Concat", [t, other], [(*s[:-1], 2 * s[-1])], axis=len(s) - 1)


@emitter
def gather(b):
    t = b.tensor(lambda s: len(s) >= 1 and s[-1] >= 1)
    s = b.shapes[t]
    b.add("Gather", [t, b.ints(0, s[-1] - 1)], [(*s[:-1], 2)], axis=len(s) - 1)


@emitter
def gather_table(b):
    """An embedding; its table may be some MatMul's weight too."""
    tables = [n for n, v in b.constants.items() if v.ndim == 2 and v.dtype == np.float32 and n.startswith("w")]
    if tables and b.chance(0.5):
        b.note("table is also a weight")
        table = b.pick(tables)
    else:
        table = b.weight(6, 5)
        if table not in b.constants:
            return False
    rows, columns = b.constants[table].shape
    b.add("Gather", [table, b.ints(0, rows - 1, rows // 2)], [(3, columns)])


@emitter
def gather_elements(b):
    t = b.tensor(lambda s: len(s) >= 1 and min(s) >= 1)
    b.add("GatherElements", [t, b.constant(np.zeros(b.shapes[t], np.int64))], [b.shapes[t]], axis=0)


@emitter
def where(b):
    t = b.tensor()
    mask = b.constant(b.rng.random(b.shapes[t]) < 0.5)
    other = b.like(t)
    if b.chance(0.2):
        b.note("Where with a constant")
        other = b.constant(np.float32(b.rng.normal()), "w")
    b.add("Where", [mask, t, other] if b.chance(0.5) else [mask, other, t], [b.shapes[t]])


@emitter
def instance_norm(b):
    t = b.tensor(lambda s: rank4(s) and np.prod(s[2:]) > 1)
    if not t:
        return False
    s = b.shapes[t]
    b.add("InstanceNormalization", [t, b.weight(s[1]), b.bias(s[1])], [s])


@emitter
def batch_norm(b):
    t = b.tensor(lambda s: len(s) >= 2 and min(s) >= 1)
    if not t:
        return False
    c = b.shapes[t][1]
    mean, var = b.constant(b.values((c,))), b.constant(np.abs(b.values((c,))) + np.float32(0.1))
    b.add("BatchNormalization", [t, b.weight(c), b.bias(c), mean, var], [b.shapes[t]])


@emitter
def layer_norm(b):
    t = b.tensor(lambda s: s and s[-1] > 1)
    if not t or b.opset < 17:
        return False
    c = b.shapes[t][-1]
    b.add("LayerNormalization", [t, b.weight(c)] + ([b.bias(c)] if b.chance(0.8) else []), [b.shapes[t]])


@emitter
def topk(b):
    t = b.tensor(lambda s: s and s[-1] > 1)
    if not t:
        return False
    b.add("TopK", [t, b.ints(1)], [(*b.shapes[t][:-1], 1), None])


@emitter
def cumsum(b):
    t = b.tensor(lambda s: len(s) >= 1)
    b.add("CumSum", [t, b.constant(np.int64(0))], [b.shapes[t]])


@emitter
def argmax(b):
    t = b.tensor(lambda s: len(s) >= 1 and min(s) >= 1)
    (out,) = b.add("ArgMax", [t], [None])
    b.int_outputs.append((out, [1, *b.shapes[t][1:]]))


@emitter
def depth_to_space(b):
    t = b.tensor(lambda s: rank4(s) and s[1] % 4 == 0 and max(s[2:]) < 8)
    if not t:
        return False
    s = b.shapes[t]
    b.add("DepthToSpace", [t], [(s[0], s[1] // 4, s[2] * 2, s[3] * 2)], blocksize=2)


@emitter
def prelu(b):
    t = b.tensor(lambda s: rank4(s))
    if not t:
        return False
    s = b.shapes[t]
    b.add("PRelu", [t, b.weight(s[1], 1, 1)], [s])


@emitter
def cast(b):
    t = b.tensor()
    kind = b.pick([TensorProto.INT64, TensorProto.DOUBLE, TensorProto.INT32])
    (middle,) = b.add("Cast", [t], [None], to=kind)
    if kind == TensorProto.DOUBLE and b.chance(0.5):
        b.note("double side path")
        (middle,) = b.add("Add", [middle, b.constant(np.float64(0.5))], [None])
    b.add("Cast", [middle], [b.shapes[t]], to=TensorProto.FLOAT)


@emitter
def integer_path(b):
    """Ops of the quantizer's list on int64 tensors, which it must leave alone."""
    t = b.tensor(lambda s: len(s) >= 2)
    (shape,) = b.add("Shape", [t], [None])
    (first,) = b.add("Gather", [shape, b.ints(0)], [None])
    (target,) = b.add("Concat", [first, b.ints(-1)], [None], axis=0)
    s = b.shapes[t]
    b.add("Reshape", [t, target], [(s[0], int(np.prod(s[1:])))])


@emitter
def custom_domain(b):
    t = b.tensor()
    if b.chance(0.4) and len(b.shapes[t]) == 2 and b.shapes[t][-1] > 1:
        b.note("custom-domain op with a standard name")
        (out,) = b.add("Pad", [t, b.ints(0, 0, 0, 1), b.constant(np.float32(0))], [(b.shapes[t][0], b.shapes[t][1] + 1)],
                       domain="com.microsoft")
    else:
        (out,) = b.add("Gelu", [t], [b.shapes[t]], domain="com.microsoft")
    b.unknown.add(out)


@emitter
def if_body(b, t=None):
    t = t or b.tensor()
    c = b.constant(np.float32(b.rng.normal()), "w")
    if b.chance(0.4):
        same = [n for n, v in b.constants.items() if v.dtype == np.float32 and v.ndim == 1 and n.startswith("w")]
        if same:
            b.note("body captures a weight")
            extra = b.pick(same)
            flag = b.name("t")
            b.nodes.append(helper.make_node("ReduceMax", [extra], [flag], b.name("n"), keepdims=0))
    condition = b.constant(np.array(b.chance(0.5)))

    def branch(op, inputs):
        out = b.name("s")
        info = helper.make_tensor_value_info(out, TensorProto.FLOAT, list(b.shapes[t]))
        return helper.make_graph([helper.make_node(op, inputs, [out], b.name("m"))], b.name("body"), [], [info])

    b.add("If", [condition], [b.shapes[t]], then_branch=branch(b.pick(["Add", "Mul"]), [t, c]),
          else_branch=branch("Relu", [b.like(t)]))


@emitter
def quantized_before(b):
    """A Q/DQ pair that is already in the model."""
    t = b.tensor()
    if b.opset < 13:
        return False
    scale, zero = b.constant(np.float32(0.05)), b.constant(b.pick([np.uint8(128), np.int8(0)]))
    (q,) = b.add("QuantizeLinear", [t, scale, zero], [None])
    (out,) = b.add("DequantizeLinear", [q, scale, zero], [b.shapes[t]])
    b.quantized.add(out)
