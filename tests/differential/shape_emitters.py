"""Emitters of operators that move values about, of normalizations, and of what graphs hold beside layers."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from emitters import emitter, if_body, rank4


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


emitter(if_body)


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
