"""Random networks on which improvers have something to do: channels whose sizes differ by decades, behind each other through
everything that an exporter writes between two layers. Same seed, same network; every answer varies smoothly with the input.

network(seed) gives an onnx.ModelProto, inputs of SAMPLES samples, and the kinds of its nodes.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SAMPLES = 64


class Net:
    def __init__(self, seed):
        self.rng = np.random.default_rng([seed, 7])
        self.nodes, self.constants, self.live, self.layers, self.kinds = [], {}, [], {}, []

    def pick(self, *values):
        return values[int(self.rng.integers(len(values)))]

    def normal(self, *shape, scale=1.0):
        return (self.rng.normal(size=shape) * scale).astype(np.float32)

    def sizes(self, *shape):
        """Of channels: from one to the next by half a decade and more."""
        return np.exp(self.normal(*shape))

    def constant(self, values):
        name = f"w{len(self.constants)}"
        self.constants[name] = np.asarray(values)
        return name

    def add(self, op, inputs, outputs=1, **attributes):
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, f"n{len(self.nodes)}", **attributes))
        self.kinds.append(op)
        return names if outputs > 1 else names[0]

    def alike(self, tensor, fits):
        """Another live tensor that fits."""
        found = [name for name, shape in self.live if name != tensor and fits(shape)]
        return self.pick(*found) if found else None

    def layer(self, key, make):
        """Constants of a layer; now and then those of one that is there."""
        if key in self.layers and self.rng.random() < 0.2:
            return self.layers[key]
        self.layers[key] = make()
        return self.layers[key]

    def activation(self, t, channels):
        """`channels`: the shape of one value a channel."""
        kind = self.pick("Relu", "Relu", "Relu", "Clip", "Relu6", "LeakyRelu", "PRelu", "Sigmoid", "HardSwish", "Tanh", "Elu", "Gelu", None, None)
        if kind in ("Clip", "Relu6"):
            low, high = (0, 6) if kind == "Relu6" else (-1.5, 2)
            return self.add("Clip", [t, self.constant(np.float32(low)), self.constant(np.float32(high))])
        if kind == "LeakyRelu":
            return self.add(kind, [t], alpha=self.pick(0.1, -0.2))
        if kind == "PRelu":
            return self.add(kind, [t, self.constant(self.normal(*self.pick(channels, (1,)), scale=0.3))])
        if kind == "Gelu":
            e = self.add("Erf", [self.add("Div", [t, self.constant(np.float32(2 ** 0.5))])])
            return self.add("Mul", [self.add("Mul", [t, self.add("Add", [e, self.constant(np.float32(1))])]), self.constant(np.float32(0.5))])
        return self.add(kind, [t]) if kind else t

    def by_constant(self, t, *shapes):
        op, c = self.pick("Mul", "Add", "Sub"), self.constant(self.normal(*self.pick(*shapes), scale=2))
        return self.add(op, self.pick([t, c], [t, c], [c, t]))

    # --- tensors of images: [1, channels, rows, columns] ---
    def image(self, t, s):
        kind = self.pick("conv", "conv", "conv", "grouped", "transposed", "constant", "pool", "norm", "residual", "concat", "split", "slice",
                         "pad", "gate", "channels_last")
        c = s[1]
        if kind in ("conv", "grouped"):
            group = 1 if kind == "conv" else self.pick(2, c)
            out, k = (c if group == c else 8), self.pick(1, 3)
            if c % group:
                return None
            w, b = self.layer((kind, group, c, out, k), lambda: (
                self.constant(self.normal(out, c // group, k, k, scale=(c // group * k * k) ** -0.5) * self.sizes(out, 1, 1, 1) *
                              self.sizes(1, c // group, 1, 1)), self.constant(self.normal(out) * self.sizes(out))))
            t = self.add("Conv", self.pick([t, w, b], [t, w, b], [t, w]), pads=[k // 2] * 4, group=group)
            return self.activation(t, (out, 1, 1)), (1, out, *s[2:])
        if kind == "transposed":
            group = self.pick(1, 2)
            if c % group:
                return None
            w = self.constant(self.normal(c, 8 // group, 3, 3, scale=(c * 9 / group) ** -0.5) * self.sizes(c, 1, 1, 1))
            t = self.add("ConvTranspose", [t, w, self.constant(self.normal(8))], pads=[1] * 4, group=group)
            return self.activation(t, (8, 1, 1)), (1, 8, *s[2:])
        if kind == "constant":
            return self.by_constant(t, (c, 1, 1), (1, c, 1, 1), (1,), (), (1, 1, 1, s[3])), s
        if kind == "pool":
            op, more = self.pick(("MaxPool", {}), ("AveragePool", {"count_include_pad": self.pick(0, 1)}))
            return self.add(op, [t], kernel_shape=[3, 3], pads=[1] * 4, **more), s
        if kind == "norm":
            values = [self.constant(v) for v in (self.sizes(c), self.normal(c), self.normal(c), self.sizes(c))]
            t = self.add("BatchNormalization", [t, *values]) if self.pick(0, 1) else self.add("InstanceNormalization", [t, *values[:2]])
            return self.activation(t, (c, 1, 1)), s
        if kind == "residual":
            other = self.alike(t, lambda shape: shape == s)
            return other and (self.add("Add", [t, other]), s)
        if kind == "concat":
            other = self.alike(t, lambda shape: len(shape) == 4 and shape[2:] == s[2:] and shape[1] + c <= 24)
            return other and (self.add("Concat", [t, other], axis=1), (1, c + dict(self.live)[other][1], *s[2:]))
        if kind == "split" and c % 2 == 0:
            first, t = self.add("Split", [t, self.constant(np.array([c // 2, c // 2]))], 2, axis=1)
            self.live.append((first, (1, c // 2, *s[2:])))
            return t, (1, c // 2, *s[2:])
        if kind == "slice" and c > 3:
            return self.add("Slice", [t, *(self.constant(np.array([i])) for i in (1, c, 1))]), (1, c - 1, *s[2:])
        if kind == "pad" and s[2] < 12:
            return self.add("Pad", [t, self.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])), self.constant(np.float32(self.pick(0, 1.5)))]), (1, c, s[2] + 2, s[3] + 2)
        if kind == "gate":
            w = self.constant(self.normal(c, c, 1, 1, scale=c ** -0.5))
            gate = self.add("Conv", [self.add("GlobalAveragePool", [t]), w, self.constant(self.normal(c))])
            return self.add("Mul", [t, self.add(self.pick("Sigmoid", "Relu"), [gate])]), s
        if kind == "channels_last":
            t = self.add("MatMul", [self.add("Transpose", [t], perm=[0, 2, 3, 1]), self.constant(self.normal(c, 8, scale=c ** -0.5) * self.sizes(8))])
            t = self.activation(self.add("Add", [t, self.constant(self.normal(8))]), (8,))
            return self.add("Transpose", [t], perm=[0, 3, 1, 2]), (1, 8, *s[2:])
        return None

    # --- rows of features: [1, width] or [1, rows, width] ---
    def rows(self, t, s):
        kind = self.pick("matmul", "matmul", "matmul", "gemm", "gemm", "norm", "rms", "constant", "residual", "concat", "split", "attention", "left",
                         "maxout", "flatten")
        width = s[-1]
        if kind == "matmul":
            out = self.pick(8, 16, 24)
            w, b = self.layer((kind, width, out), lambda: (
                self.constant(self.normal(width, out, scale=width ** -0.5) * self.sizes(out) * self.sizes(width, 1)), self.constant(self.normal(*self.pick((out,), (1, out)), scale=2))))
            t = self.add("MatMul", [t, w])
            if self.rng.random() < 0.7:
                t = self.add("Add", self.pick([t, b], [t, b], [b, t]))
            return self.activation(t, (out,)), (*s[:-1], out)
        if kind == "gemm" and len(s) == 2:
            out, turned = self.pick(8, 16), self.pick(0, 1)
            w = self.normal(width, out, scale=width ** -0.5) * self.sizes(out) * self.sizes(width, 1)
            inputs = [t, self.constant(w.T.copy() if turned else w)]
            if self.rng.random() < 0.85:
                inputs.append(self.constant(self.normal(*self.pick((out,), (1, out), (1,), (), (1, 1)), scale=2)))
            t = self.add("Gemm", inputs, transB=turned, alpha=self.pick(1.0, 1.0, 0.5, 2.0), beta=self.pick(1.0, 1.0, 0.5))
            return self.activation(t, (out,)), (1, out)
        if kind == "norm":
            return self.add("LayerNormalization", [t, self.constant(self.sizes(width)), *self.pick([], [self.constant(self.normal(width))])], axis=-1), s
        if kind == "rms":
            mean = self.add("ReduceMean", [self.add("Mul", [t, t])], axes=[-1], keepdims=1)
            root = self.add("Sqrt", [self.add("Add", [mean, self.constant(np.float32(1e-5))])])
            return self.add("Mul", [self.add("Div", [t, root]), self.constant(self.sizes(width))]), s
        if kind == "constant":
            return self.by_constant(t, (width,), (1,), ()), s
        if kind == "residual":
            other = self.alike(t, lambda shape: shape == s)
            return other and (self.add(self.pick("Add", "Add", "Mul"), [t, other]), s)
        if kind == "concat":
            other = self.alike(t, lambda shape: len(shape) == len(s) and shape[:-1] == s[:-1] and shape[-1] + width <= 64)
            return other and (self.add("Concat", [t, other], axis=-1), (*s[:-1], width + dict(self.live)[other][-1]))
        if kind == "split" and width % 2 == 0:
            first, t = self.add("Split", [t, self.constant(np.array([width // 2] * 2))], 2, axis=-1)
            self.live.append((first, (*s[:-1], width // 2)))
            return t, (*s[:-1], width // 2)
        if kind == "attention" and len(s) == 3:
            query, key, value = (self.add("Add", [self.add("MatMul", [t, self.constant(self.normal(width, 8, scale=width ** -0.5))]), self.constant(self.normal(8))])
                                 for _ in range(3))
            scores = self.add("MatMul", [query, self.add("Transpose", [key], perm=[0, 2, 1])])
            odds = self.add("Softmax", [self.add("Mul", [scores, self.constant(np.float32(0.35))])], axis=-1)
            return self.add("MatMul", [odds, value]), (*s[:-1], 8)
        if kind == "left" and len(s) == 3:
            return self.add("MatMul", [self.constant(self.normal(s[1], s[1], scale=s[1] ** -0.5)), t]), s
        if kind == "maxout" and len(s) == 3 and width % 2 == 0 and width > 8:
            return self.add("MaxPool", [t], kernel_shape=[2], strides=[2]), (*s[:-1], width // 2)
        if kind == "flatten" and len(s) == 3:
            return self.add("Reshape", [t, self.constant(np.array([1, s[1] * width]))]), (1, s[1] * width)
        return None


def network(seed):
    net = Net(seed)
    shape = net.pick((1, 4, 8, 8), (1, 4, 8, 8), (1, 16), (1, 5, 16))
    net.live.append(("x", shape))
    wanted = int(net.rng.integers(4, 10))
    for _ in range(100):
        t, s = net.live[-1] if net.rng.random() < 0.85 else net.pick(*net.live)
        made = net.image(t, s) if len(s) == 4 else net.rows(t, s)
        if made and made[0] != t:
            net.live.append(made)
            wanted -= 1
        if wanted <= 0:
            break
    t, s = net.live[-1]
    if len(s) == 4 and net.pick(0, 1):
        t = net.add("Flatten", [net.add("GlobalAveragePool", [t])])
        t, s = net.add("Gemm", [t, net.constant(net.normal(s[1], 6) * net.sizes(s[1], 1)), net.constant(net.normal(6))]), (1, 6)
    elif not {"Conv", "ConvTranspose", "Gemm"} & set(net.kinds):  # some layer there has to be
        t, s = net.add("MatMul", [t, net.constant(net.normal(s[-1], 6) * net.sizes(s[-1], 1))]), (*s[:-1], 6)
    outputs = [(t, s)]
    if net.rng.random() < 0.3:
        outputs += [o for o in (net.pick(*net.live),) if o[0] not in ("x", t)]
    info = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, list(of)) for name, of in part] for part in ([("x", shape)], outputs)]
    graph = helper.make_graph(net.nodes, "g", *info, [numpy_helper.from_array(v, n) for n, v in net.constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    channels = net.sizes(shape[1], 1, 1) if len(shape) == 4 else net.sizes(shape[-1])
    return model, {"x": net.normal(SAMPLES, *shape[1:]) * channels + np.float32(0.5)}, net.kinds
