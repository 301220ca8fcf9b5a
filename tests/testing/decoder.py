"""A decoder of any size with random weights, in float16, its weights in a file beside it: RMSNorm, rotated positions,
grouped heads, gated products, a head tied to the embedding. Written tensor by tensor, so 7 billion parameters need little
memory.

usage: python decoder.py MODEL.onnx [--layers 32 --width 4096 --heads 32 --kv-heads 8 --wide 14336 --words 32000]
"""
import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h

SMALL = {"layers": 3, "width": 64, "heads": 4, "kv_heads": 2, "wide": 96, "words": 128}
FULL = {"layers": 32, "width": 4096, "heads": 32, "kv_heads": 8, "wide": 14336, "words": 32000}


class Decoder:
    def __init__(self, path, layers, width, heads, kv_heads, wide, words, seed=7):
        self.path = pathlib.Path(path)
        self.nodes, self.constants = [], []
        self.random = np.random.Generator(np.random.SFC64(seed))
        self.width, self.heads, self.kv, self.size = width, heads, kv_heads, width // heads
        with open(self.path.with_suffix(".weights"), "wb") as self.file:
            self.build(layers, wide, words)
        graph = h.make_graph(self.nodes, "decoder",
                             [h.make_tensor_value_info(n, T.INT64, [1, "tokens"]) for n in ("input_ids", "attention_mask")],
                             [h.make_tensor_value_info("logits", T.FLOAT16, [1, "tokens", words])], self.constants)
        onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), self.path)

    def weight(self, name, rows, columns, scale):
        """Written in pieces. A few inputs have larger weights, as in trained models."""
        offset = self.file.tell()
        loud = 1 + 4 * (self.random.random((rows, 1), dtype=np.float32) > 0.99)
        step = max(1, (1 << 24) // columns)
        for begin in range(0, rows, step):
            part = self.random.standard_normal((min(step, rows - begin), columns), dtype=np.float32)
            self.file.write((part * loud[begin:begin + step] * np.float32(scale)).astype(np.float16).tobytes())
        tensor = onnx.TensorProto(name=name, data_type=T.FLOAT16, dims=[rows, columns], data_location=T.EXTERNAL)
        for key, value in {"location": self.path.with_suffix(".weights").name, "offset": offset,
                           "length": self.file.tell() - offset}.items():
            tensor.external_data.add(key=key, value=str(value))
        self.constants.append(tensor)
        return name

    def constant(self, name, values):
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, op, *inputs, name=None, **attributes):
        output = name or f"t{len(self.nodes)}"
        self.nodes.append(h.make_node(op, list(inputs), [output], name=f"{output}_{op}", **attributes))
        return output

    def norm(self, x, name):
        wide = self.add("Cast", x, to=T.FLOAT)
        mean = self.add("ReduceMean", self.add("Mul", wide, wide), axes=[-1], keepdims=1)
        scale = self.add("Sqrt", self.add("Add", mean, "epsilon"))
        weight = self.constant(f"{name}.weight", np.ones(self.width, np.float16))
        return self.add("Mul", self.add("Cast", self.add("Div", wide, scale), to=T.FLOAT16), weight)

    def rotated(self, x):
        left, right = (self.add("Slice", x, *ends, "axis_3") for ends in (("zero", "half"), ("half", "end")))
        turned = self.add("Concat", self.add("Neg", right), left, axis=3)
        return self.add("Add", self.add("Mul", x, "cos"), self.add("Mul", turned, "sin"))

    def split(self, x, heads):
        shape = self.constant(f"{x}.heads", np.array([1, -1, heads, self.size]))
        return self.add("Transpose", self.add("Reshape", x, shape), perm=[0, 2, 1, 3])

    def repeated(self, x):
        """A key or value for each query's head."""
        return self.add("Reshape", self.add("Expand", self.add("Unsqueeze", x, "axis_2"), "repeats"), "all_heads")

    def build(self, layers, wide, words):
        width, size = self.width, self.size
        self.constant("epsilon", np.float32(1e-5)), self.constant("zero", np.array([0])), self.constant("axis_3", np.array([3]))
        self.constant("axis_2", np.array([2])), self.constant("half", np.array([size // 2])), self.constant("end", np.array([size]))
        self.constant("repeats", np.array([1, 1, self.heads // self.kv, 1, 1]))
        self.constant("all_heads", np.array([1, self.heads, -1, size]))
        self.constant("joined", np.array([1, -1, width])), self.constant("scale", np.float16(size ** -0.5))
        self.constant("frequencies", (10000.0 ** (-np.arange(0, size, 2, dtype=np.float32) / size)).reshape(1, 1, -1))
        # Positions, rotations and the mask, of the inputs alone.
        positions = self.add("Sub", self.add("CumSum", "attention_mask", self.constant("axis_1", np.int64(1))),
                             self.constant("one", np.int64(1)))
        column = self.add("Cast", self.add("Unsqueeze", positions, "axis_2"), to=T.FLOAT)
        angles = self.add("MatMul", column, "frequencies")
        angles = self.add("Unsqueeze", self.add("Concat", angles, angles, axis=2), self.constant("axis_heads", np.array([1])))
        self.add("Cast", self.add("Cos", angles), to=T.FLOAT16, name="cos"), self.add("Cast", self.add("Sin", angles), to=T.FLOAT16, name="sin")
        row = self.add("Unsqueeze", positions, self.constant("axes_row", np.array([1, 2])))
        below = self.add("Unsqueeze", positions, self.constant("axes_column", np.array([1, 3])))
        self.add("Where", self.add("Greater", row, below), self.constant("low", np.float16(-30000)),
                 self.constant("nothing", np.float16(0)), name="mask")
        x = self.add("Gather", self.weight("embedding", words, width, 0.1), "input_ids", name="embedded")
        for i in range(layers):
            x = self.block(x, f"layers.{i}", wide, (2 * layers) ** -0.5)
        table = self.add("Transpose", "embedding", perm=[1, 0])
        scaled = self.add("Mul", self.norm(x, "norm"), self.constant("logit_scale", np.float16(20 / width ** 0.5)))
        self.add("MatMul", scaled, table, name="logits")

    def block(self, x, name, wide, depth):
        width, key = self.width, self.kv * self.size

        def product(tensor, part, rows, columns, scale=1.0):
            return self.add("MatMul", tensor, self.weight(f"{name}.{part}.weight", rows, columns, scale * rows ** -0.5),
                            name=f"{name}.{part}")
        n = self.norm(x, f"{name}.norm_1")
        q, k, v = product(n, "q", width, width), product(n, "k", width, key), product(n, "v", width, key)
        q, k = (self.rotated(self.split(t, heads)) for t, heads in ((q, self.heads), (k, self.kv)))
        k, v = self.repeated(k), self.repeated(self.split(v, self.kv))
        scores = self.add("Mul", self.add("MatMul", q, self.add("Transpose", k, perm=[0, 1, 3, 2])), "scale")
        shares = self.add("Softmax", self.add("Add", scores, "mask"), axis=-1)
        mixed = self.add("Reshape", self.add("Transpose", self.add("MatMul", shares, v), perm=[0, 2, 1, 3]), "joined")
        x = self.add("Add", x, product(mixed, "o", width, width, depth))
        n = self.norm(x, f"{name}.norm_2")
        gate, up = product(n, "gate", width, wide), product(n, "up", width, wide)
        gated = self.add("Mul", self.add("Mul", gate, self.add("Sigmoid", gate)), up)
        return self.add("Add", x, product(gated, "down", wide, width, depth))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    for field, value in FULL.items(): parser.add_argument("--" + field.replace("_", "-"), type=int, default=value)
    Decoder(**{"path" if k == "model" else k: v for k, v in vars(parser.parse_args()).items()})
