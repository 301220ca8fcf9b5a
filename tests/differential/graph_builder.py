"""What an emitter builds a random graph with: dice, live tensors with known shapes, constants, nodes.

Constants vary by decades, may be shared, zero, tiny, huge, held by a Constant node or also be graph inputs.
"""
from collections import Counter

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSETS = [17] * 10 + [11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22]


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
