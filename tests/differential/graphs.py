"""Random small graphs of every kind that a quantizer may meet, with inputs they run on. Same seed, same graph.

generate(seed) keeps a pool of live tensors with known shapes, picks one emitter after the other and lets it read
mostly the newest tensor (chains) and sometimes an older one (fan-out, residuals). Constants vary by decades, may be
shared, zero, tiny, huge, held by a Constant node or also be graph inputs.
"""
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

OPSETS = [17] * 10 + [11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22]


@dataclass
class Case:
    model: onnx.ModelProto
    inputs: list  # one dict a sample
    kinds: Counter = field(default_factory=Counter)  # emitters and other features, counted for the report


class Builder:
    def __init__(self, seed):
        self.rng = np.random.default_rng([seed, 1])
        self.opset = int(self.rng.choice(OPSETS))
        self.nodes, self.constants, self.inputs, self.shapes = [], {}, [], {}
        self.kinds, self.outputs, self.domains, self.count = Counter(), [], set(), 0
        self.int_outputs, self.unknown, self.quantized = [], set(), set()

    # --- dice ---
    def chance(self, p):
        return self.rng.random() < p

    def integer(self, low, high):
        return int(self.rng.integers(low, high))

    def pick(self, values):
        return values[self.integer(0, len(values))]

    def note(self, feature):
        self.kinds[feature] += 1

    def name(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    # --- tensors ---
    def tensor(self, predicate=lambda shape: True):
        """A live tensor that fits, the newest in three of four cases."""
        fitting = [t for t, s in self.shapes.items() if predicate(s)]
        if not fitting:
            return None
        return fitting[-1] if self.chance(0.75) else self.pick(fitting)

    def like(self, t):
        return self.pick([o for o, s in self.shapes.items() if s == self.shapes[t]])

    def constant(self, value, prefix="c"):
        name = self.name(prefix)
        self.constants[name] = np.asarray(value)
        return name

    def ints(self, *values):
        return self.constant(np.array(values, np.int64), "i")

    def values(self, shape):
        v = self.rng.normal(0, 10 ** self.rng.uniform(-2, 0.5), shape).astype(np.float32)
        odd = self.rng.random()
        if odd < 0.03:
            self.note("constant: zero")
            v = np.zeros(shape, np.float32)
        elif odd < 0.05:
            self.note("constant: all equal")
            v = np.full(shape, v.flat[0] if v.size else 0, np.float32)
        elif odd < 0.08 and v.ndim and v.size:
            self.note("constant: a zero channel")
            v[self.integer(0, v.shape[0])] = 0
        elif odd < 0.10:
            self.note("constant: tiny")
            v = (v * np.float32(1e-36)).astype(np.float32)
        elif odd < 0.12 and v.size:
            self.note("constant: one huge element")
            v.flat[self.integer(0, v.size)] = 1e6
        elif odd < 0.14:
            self.note("constant: one sign")
            v = np.abs(v)
        return v.astype(np.float32)

    def weight(self, *shape):
        """A constant float tensor; now and then one that already exists."""
        same = [n for n, v in self.constants.items() if v.shape == tuple(shape) and n[0] in "wb"]
        if same and self.chance(0.25):
            self.note("shared constant")
            return self.pick(same)
        value = self.values(shape)
        if self.chance(0.04):
            self.note("Constant node weight")
            name = self.name("k")
            self.nodes.append(helper.make_node("Constant", [], [name], self.name("n"),
                                               value=numpy_helper.from_array(value)))
            return name
        if self.chance(0.03) and self.opset >= 13:
            return self.prequantized(value)
        name = self.constant(value, "w")
        if self.chance(0.04):
            self.note("graph-input initializer")
            self.inputs.append((name, TensorProto.FLOAT, list(shape)))
        return name

    def prequantized(self, value):
        self.note("pre-quantized weight")
        scale = np.float32(max(np.abs(value).max(initial=0) / 127, 1e-6))
        q = self.constant(np.clip(np.rint(value / scale), -127, 127).astype(np.int8), "q")
        name = self.name("dqw")
        self.nodes.append(helper.make_node("DequantizeLinear", [q, self.constant(scale), self.constant(np.int8(0))],
                                           [name], self.name("n")))
        self.quantized.add(name)
        return name

    def bias(self, size):
        same = [n for n, v in self.constants.items() if n.startswith("b") and v.shape == (size,)]
        if same and self.chance(0.3):
            self.note("shared bias")
            return self.pick(same)
        value = self.values((size,))
        odd = self.rng.random()
        if odd < 0.08:
            self.note("bias: huge")
            value = (value * np.float32(10.0 ** self.integer(4, 10))).astype(np.float32)
        elif odd < 0.14:
            self.note("bias: tiny")
            value = (value * np.float32(1e-30)).astype(np.float32)
        name = self.constant(value, "b")
        if odd > 0.95:
            self.note("bias: computed")
            out = self.name("t")
            self.nodes.append(helper.make_node("Abs", [name], [out], self.name("n")))
            return out
        if odd > 0.91:
            self.note("graph-input initializer")
            self.inputs.append((name, TensorProto.FLOAT, [size]))
        return name

    # --- nodes ---
    def add(self, op_type, inputs, shapes, domain="", **attributes):
        """Appends a node with one output a shape; None is an output outside the pool. Returns the outputs."""
        outputs = [self.name("t") for _ in shapes]
        name = self.name("n")
        if self.chance(0.05):
            self.note("unnamed node")
            name = ""
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name, domain=domain, **attributes))
        if domain:
            self.domains.add(domain)
        for output, shape in zip(outputs, shapes):
            if shape is not None:
                self.shapes[output] = tuple(int(d) for d in shape)
        return outputs


EMITTERS = {}


def emitter(fn):
    EMITTERS[fn.__name__] = fn
    return fn


def rank4(s):
    return len(s) == 4 and min(s) >= 1


# An emitter answers False where no tensor fits.
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


WEIGHTS = dict(conv=4, conv_relu=6, gemm=3, matmul=3, binary=2, relu=2, clip=2, pad=2, if_body=0.4, quantized_before=0.4,
               custom_domain=0.4, argmax=0.5, integer_path=0.5, cast=0.5, add_bias=1, prelu=0.7)


def generate(seed, node_count=None, float16=True):
    b = Builder(seed)
    node_count = node_count or b.integer(4, 24)
    batch = b.pick([1, 1, 2])
    b.shapes["x"] = (batch, 4, 6, 6)
    b.inputs.append(("x", TensorProto.FLOAT, list(b.shapes["x"])))
    if b.chance(0.3):
        b.shapes["x2"] = (b.integer(1, 4), 8)
        b.inputs.append(("x2", TensorProto.FLOAT, list(b.shapes["x2"])))
    if b.chance(0.2):
        b.shapes["x3"] = (2, 3, 4)
        b.inputs.append(("x3", TensorProto.FLOAT, list(b.shapes["x3"])))
    names = list(EMITTERS)
    odds = np.array([WEIGHTS.get(n, 1.0) for n in names])
    odds /= odds.sum()
    for _ in range(20 * node_count):
        if len(b.nodes) >= node_count:
            break
        name = names[int(b.rng.choice(len(names), p=odds))]
        nodes, shapes = len(b.nodes), dict(b.shapes)
        if EMITTERS[name](b) is False:
            del b.nodes[nodes:]
            b.shapes = shapes
        else:
            b.note(name)
        if max(np.prod(s) for s in b.shapes.values()) > 20000:
            break
    return finish(b, float16)


def finish(b, float16):
    read = {i for n in b.nodes for i in n.input}
    read |= {i for n in b.nodes for a in n.attribute if a.HasField("g") for m in a.g.node for i in m.input}
    given = {i[0] for i in b.inputs} | set(b.constants)
    outputs = [t for t in b.shapes if t not in given and (t not in read or t in b.outputs or b.chance(0.1))]
    outputs = list(dict.fromkeys(outputs)) or [t for t in b.shapes if t not in given][-1:]
    infos = [helper.make_tensor_value_info(t, TensorProto.FLOAT, list(b.shapes[t])) for t in outputs]
    infos += [helper.make_tensor_value_info(t, TensorProto.INT64, shape) for t, shape in b.int_outputs if t not in read]
    used = read | {t for n in b.nodes for a in n.attribute if a.HasField("g") for m in a.g.node for t in m.input}
    if b.chance(0.1):
        b.note("unused initializer")
        used.add(b.constant(b.values((3,)), "w"))
    initializers = [numpy_helper.from_array(v, n) for n, v in b.constants.items() if n in used]
    if b.chance(0.2):
        for i, tensor in enumerate(initializers):  # the typed fields of the format instead of raw bytes
            if tensor.data_type == TensorProto.FLOAT:
                initializers[i] = helper.make_tensor(tensor.name, tensor.data_type, tensor.dims,
                                                     numpy_helper.to_array(tensor).ravel().tolist())
    inputs = [i for i in b.inputs if i[0] not in b.constants or i[0] in used]
    if b.chance(0.06):
        b.note("unsorted node order")
        b.rng.shuffle(b.nodes)
    graph = helper.make_graph(b.nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs], infos, initializers)
    opsets = [helper.make_opsetid("", b.opset)] + [helper.make_opsetid(d, 1) for d in sorted(b.domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=b.pick([7, 8, 8, 9]) if b.opset <= 18 else 10)
    b.note(f"opset {b.opset}")
    samples = [{n: b.rng.normal(0, 1, s).astype(np.float32) for n, _, s in inputs if n not in b.constants}
               for _ in range(2)]
    for node in b.nodes:
        b.note("node " + node.op_type)
    if float16 and b.chance(0.04) and not any(n.op_type in ("Cast", "LayerNormalization") or n.domain for n in b.nodes):
        half = as_float16(model)
        if loads(half):
            b.note("float16")
            model, samples = half, [{n: x.astype(np.float16) for n, x in s.items()} for s in samples]
    return Case(model, samples, b.kinds)


def loads(model):
    try:
        ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return True
    except Exception:  # an op that has no float16 at this opset
        return False


def as_float16(model):
    """The model with every float tensor in float16."""
    half = onnx.ModelProto()
    half.CopyFrom(model)
    tensors = list(half.graph.initializer)

    def change(graph):
        for value in [*graph.input, *graph.output, *graph.value_info]:
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = TensorProto.FLOAT16
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    change(attribute.g)
                if attribute.HasField("t"):
                    tensors.append(attribute.t)

    change(half.graph)
    resize_scales = {n.input[2] for n in half.graph.node if n.op_type == "Resize"}
    for tensor in tensors:
        if tensor.data_type == TensorProto.FLOAT and tensor.name not in resize_scales:
            with np.errstate(over="ignore"):
                value = np.clip(numpy_helper.to_array(tensor), -6e4, 6e4).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return half
