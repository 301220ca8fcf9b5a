"""Encoders in onnxruntime's fused operators: their tensors get types, so that as many layers are quantized as onnxruntime's
own quantizer finds when it knows all types."""

import collections
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.runtime_types import described, fused, session, typed  # noqa: E402
from testing.samples import Samples  # noqa: E402

TOKENS, WIDTH, HEADS = 6, 16, 2
CONTRIB = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]


def model_of(nodes, weights, inputs, outputs, imports=CONTRIB):
    infos = [[helper.make_tensor_value_info(n, kind, shape) for n, kind, shape in part] for part in (inputs, outputs)]
    constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in weights.items()]
    return helper.make_model(helper.make_graph(nodes, "encoder", *infos, constants), opset_imports=imports, ir_version=8)


def bert():
    """One layer as onnxruntime's optimizer for transformers writes it."""
    rng = np.random.default_rng(0)
    weights = {n: (rng.normal(size=s) * 0.3).astype(np.float32) for n, s in (
        ("words", (30, WIDTH)), ("places", (TOKENS, WIDTH)), ("segments", (2, WIDTH)), ("qkv", (WIDTH, 3 * WIDTH)), ("qkv_bias", (3 * WIDTH,)),
        ("out", (WIDTH, WIDTH)), ("out_bias", (WIDTH,)), ("up", (WIDTH, 4 * WIDTH)), ("up_bias", (4 * WIDTH,)), ("down", (4 * WIDTH, WIDTH)),
        ("down_bias", (WIDTH,)), ("pool", (WIDTH, WIDTH)), ("pool_bias", (WIDTH,)), ("head", (WIDTH, 4)))}
    for k in range(3):
        weights[f"gamma{k}"], weights[f"beta{k}"] = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
    weights["first"] = np.int64(0)

    def node(op, inputs, outputs, domain="com.microsoft", **attributes):
        return helper.make_node(op, inputs, outputs, outputs[0] + "_node", domain=domain, **attributes)

    nodes = [
        node("EmbedLayerNormalization", ["ids", "kinds", "words", "places", "segments", "gamma0", "beta0", "mask"], ["embedded", "lengths"]),
        node("Attention", ["embedded", "qkv", "qkv_bias", "lengths"], ["attended"], num_heads=HEADS),
        node("MatMul", ["attended", "out"], ["projected"], ""),
        node("SkipLayerNormalization", ["projected", "embedded", "gamma1", "beta1", "out_bias"], ["normed"]),
        node("MatMul", ["normed", "up"], ["wide"], ""),
        node("BiasGelu", ["wide", "up_bias"], ["bent"]),
        node("MatMul", ["bent", "down"], ["narrow"], ""),
        node("SkipLayerNormalization", ["narrow", "normed", "gamma2", "beta2", "down_bias"], ["encoded"]),
        node("Gather", ["encoded", "first"], ["token"], "", axis=1),
        node("Gemm", ["token", "pool", "pool_bias"], ["pooled"], ""),
        node("Tanh", ["pooled"], ["pressed"], ""),
        node("MatMul", ["pressed", "head"], ["y"], ""),
    ]
    ids = [(n, TensorProto.INT32, ["n", TOKENS]) for n in ("ids", "kinds", "mask")]
    return model_of(nodes, weights, ids, [("y", TensorProto.FLOAT, ["n", 4])])


def plain():
    """One layer in ONNX's operators, for the runtime to fuse."""
    rng = np.random.default_rng(1)
    weights = {n: (rng.normal(size=s) * 0.3).astype(np.float32) for n, s in (
        *((n, (WIDTH, WIDTH)) for n in ("wq", "wk", "wv", "wo")), *((n, (WIDTH,)) for n in ("bq", "bk", "bv", "bo", "bd")),
        ("wu", (WIDTH, 4 * WIDTH)), ("bu", (4 * WIDTH,)), ("wd", (4 * WIDTH, WIDTH)))}
    weights |= {"gamma": np.ones(WIDTH, np.float32), "beta": np.zeros(WIDTH, np.float32), "heads": np.int64([0, TOKENS, HEADS, WIDTH // HEADS]),
                "flat": np.int64([0, TOKENS, WIDTH]), "size": np.float32(np.sqrt(WIDTH // HEADS)), "root": np.float32(np.sqrt(2)),
                "one": np.float32(1), "half": np.float32(0.5)}
    nodes = []

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], output + "_node", **attributes))
        return output

    def linear(tensor, weight, bias, output):
        return node("Add", [bias, node("MatMul", [tensor, weight], output + "_product")], output)

    def split(tensor, name, perm):
        shaped = node("Reshape", [linear(tensor, f"w{name}", f"b{name}", f"{name}_linear"), "heads"], f"{name}_shaped")
        return node("Transpose", [shaped], f"{name}_split", perm=perm)

    query, key, value = (split("x", n, p) for n, p in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])))
    scores = node("Softmax", [node("Div", [node("MatMul", [query, key], "scores"), "size"], "scaled")], "shares", axis=-1)
    mixed = node("Transpose", [node("MatMul", [scores, value], "mixed")], "turned", perm=[0, 2, 1, 3])
    projected = linear(node("Reshape", [mixed, "flat"], "joined"), "wo", "bo", "projected")
    normed = node("LayerNormalization", [node("Add", [projected, "x"], "sum1"), "gamma", "beta"], "normed1", axis=-1)
    wide = linear(normed, "wu", "bu", "wide")
    bent = node("Add", [node("Erf", [node("Div", [wide, "root"], "scaled_wide")], "erf"), "one"], "erf1")
    bent = node("Mul", [node("Mul", [wide, bent], "twice"), "half"], "gelu")
    narrow = linear(bent, "wd", "bd", "narrow")
    node("LayerNormalization", [node("Add", [narrow, normed], "sum2"), "gamma", "beta"], "y", axis=-1)
    shape = [("x", TensorProto.FLOAT, ["n", TOKENS, WIDTH])], [("y", TensorProto.FLOAT, ["n", TOKENS, WIDTH])]
    return model_of(nodes, weights, *shape, imports=CONTRIB[:1])


def with_types(model):
    """The model with what the runtime knows of its tensors, as after a preprocessing that leaves nothing out."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    known = typed(model)
    outputs = {v.name for v in model.graph.output}
    result.graph.value_info.extend(helper.make_tensor_value_info(n, t, s) for n, (t, s) in known.items() if n not in outputs)
    return result


def quantized_layers(model):
    """Nodes that read a DequantizeLinear, and how often."""
    read = {n.output[0] for n in model.graph.node if n.op_type == "DequantizeLinear"}
    return collections.Counter(n.op_type for n in model.graph.node if n.op_type != "QuantizeLinear" for i in n.input if i in read)


class FusedEncoder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        rng = np.random.default_rng(2)
        ids = {"ids": rng.integers(0, 30, (40, TOKENS)), "kinds": rng.integers(0, 2, (40, TOKENS)), "mask": np.ones((40, TOKENS))}
        self.samples = {"bert": {n: v.astype(np.int32) for n, v in ids.items()},
                        "plain": {"x": rng.normal(size=(40, TOKENS, WIDTH)).astype(np.float32)}}

    def seqto(self, *words):
        done = models.seqto(*words)
        self.assertEqual(done.returncode, 0, done.stderr)

    def each(self):
        for name, model in (("bert", bert()), ("plain", fused(plain()))):
            path = self.dir / f"{name}.onnx"
            onnx.save(model, path)
            np.savez(self.dir / f"{name}.npz", **self.samples[name])
            yield name, model, path, ["--data", self.dir / f"{name}.npz"]

    def test_the_runtime_fuses_the_plain_one(self):
        contrib = {n.op_type for n in fused(plain()).graph.node if n.domain == "com.microsoft"}
        self.assertLessEqual({"SkipLayerNormalization", "BiasGelu"}, contrib)

    def test_as_many_tensors_have_types_as_the_runtime_knows(self):
        for _, model, path, _ in self.each():
            self.seqto("prepare", path, "--skip-optimization", "-o", self.dir / "out.onnx")
            ours, theirs = described(onnx.load(str(self.dir / "out.onnx"))), typed(model)
            self.assertEqual(set(theirs) - set(ours), set())
            for tensor, (kind, shape) in theirs.items():
                self.assertEqual(ours[tensor][0], kind, tensor)
                self.assertEqual([d for d in ours[tensor][1] if isinstance(d, int)], [d for d in shape if isinstance(d, int)], tensor)

    def test_the_same_layers_as_onnxruntimes_quantizer(self):
        for name, model, path, data in self.each():
            onnx.save(with_types(model), self.dir / "typed.onnx")
            reader = Samples([{n: v[i:i + 1] for n, v in self.samples[name].items()} for i in range(20)])
            quantize_static(str(self.dir / "typed.onnx"), str(self.dir / "theirs.onnx"), reader, quant_format=QuantFormat.QDQ,
                            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, calibrate_method=CalibrationMethod.MinMax)
            theirs = quantized_layers(onnx.load(str(self.dir / "theirs.onnx")))
            compat = ["--compat", "onnxruntime", "--activation-type", "uint8"]
            self.seqto("quantize", path, *data, "--samples", "20", *compat, "-o", self.dir / "ours.onnx")
            ours = onnx.load(str(self.dir / "ours.onnx"))
            self.assertEqual(quantized_layers(ours), theirs)
            self.assertGreater(theirs["MatMul"], 6)
            self.seqto("quantize", path, *data, "--samples", "20", "-o", self.dir / "own.onnx")
            own = onnx.load(str(self.dir / "own.onnx"))
            self.assertGreaterEqual(quantized_layers(own)["MatMul"], theirs["MatMul"])
            feed = {n: v[20:] for n, v in self.samples[name].items()}
            wanted = session(model).run(None, feed)[0]
            for quantized in (ours, own):
                found = session(quantized).run(None, feed)[0]
                self.assertLess(np.linalg.norm(found - wanted) / np.linalg.norm(wanted), 0.1)

    def test_normalizations_below_their_opset(self):
        """The runtime fuses to LayerNormalization whatever the opset, and to an operator that ONNX does not have."""
        weights = {"g": np.ones(WIDTH, np.float32), "b": np.zeros(WIDTH, np.float32), "w": models.weight(WIDTH, WIDTH)}
        nodes = [models.node("LayerNormalization", ["x", "g", "b"], ["n"]), models.node("SimplifiedLayerNormalization", ["n", "g"], ["s"], axis=-1),
                 models.node("MatMul", ["s", "w"], ["y"])]
        shape = [("x", TensorProto.FLOAT, ["n", WIDTH])], [("y", TensorProto.FLOAT, ["n", WIDTH])]
        model = model_of(nodes, weights, *shape, imports=[helper.make_opsetid("", 14)])
        onnx.save(model, self.dir / "m.onnx")
        np.savez(self.dir / "m.npz", x=self.samples["plain"]["x"][:, 0])
        for words in (["prepare"], ["prepare", "--skip-optimization"], ["quantize", "--data", self.dir / "m.npz"]):
            self.seqto(words[0], self.dir / "m.onnx", *words[1:], "-o", self.dir / "out.onnx")
            found = described(onnx.load(str(self.dir / "out.onnx")))
            self.assertEqual((found["n"], found["s"]), ((TensorProto.FLOAT, ["n", WIDTH]),) * 2)
            session(onnx.load(str(self.dir / "out.onnx")))


if __name__ == "__main__":
    unittest.main()
