"""One model with every scheme in one plan: it passes the checker, loads, runs, and each layer costs what its scheme does."""

import json
import os
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.models import save, seqto, weight

# scheme -> bounds of the relative error of one layer in it
LOSSES = {"float32": (0, 1e-6), "float16": (1e-6, 2e-3), "int8_weights": (1e-4, 2e-2), "int8": (1e-3, 5e-2),
          "int4_weights": (2e-3, 2e-1), "int8w_int16a": (1e-4, 2e-2), "int8_dynamic": (0, 5e-2)}
LAYERS = ["conv_a", "conv_b", "up", "matmul", "gemm"]
INTEGERS = {"int8", "int8w_int16a", "int8_dynamic"}  # whose weights may have a scale for each channel, or one
MIXED = dict(zip(LAYERS, ["int8", "int8_weights", "float32", "int4_weights", "float16"]))


def network(path):
    nodes = [
        helper.make_node("Conv", ["x", "wa", "ba"], ["a"], "conv_a", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["ar"], "relu_a"),
        helper.make_node("Conv", ["ar", "wb"], ["b"], "conv_b", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["b"], ["br"], "relu_b"),
        helper.make_node("ConvTranspose", ["br", "wu"], ["u"], "up", strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["u"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("MatMul", ["f", "wm"], ["m"], "matmul"),
        helper.make_node("Relu", ["m"], ["mr"], "relu_m"),
        helper.make_node("Gemm", ["mr", "wg", "bg"], ["y"], "gemm", transB=1),
    ]
    weights = [("wa", weight(64, 3, 3, 3)), ("ba", weight(64, seed=1)), ("wb", weight(64, 64, 3, 3, seed=2)),
               ("wu", weight(64, 48, 2, 2, seed=3)), ("wm", weight(48, 96, seed=4)), ("wg", weight(40, 96, seed=5)),
               ("bg", weight(40, seed=6))]
    return save(path, nodes, [("x", [1, 3, 8, 8])], [("y", [1, 40])], weights)


def run(path, samples):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"x": s[None]})[0] for s in samples])


def quantized(folder, schemes, *flags):
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"schemes": schemes}))
    target = folder / "quantized.onnx"
    result = seqto("quantize", folder / "float.onnx", "-o", target, "--plan", plan, "--data", folder / "data.npz",
                   *(["--per-channel"] if INTEGERS & set(schemes.values()) else []), *flags)
    assert result.returncode == 0, result.stderr
    model = onnx.load(target)
    onnx.checker.check_model(model, full_check=True)
    return model, target


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        network(folder / "float.onnx")
        samples = np.random.default_rng(7).normal(size=(16, 3, 8, 8)).astype(np.float32)
        np.savez(folder / "data.npz", x=samples)
        expected = run(folder / "float.onnx", samples)

        def error(schemes, *flags):
            target = quantized(folder, schemes, *flags)[1]
            return np.linalg.norm(run(target, samples) - expected) / np.linalg.norm(expected)

        for layer in LAYERS:
            for scheme, (low, high) in LOSSES.items():
                loss = error({layer: scheme})
                assert low <= loss <= high, (layer, scheme, loss)
        for flags in ([], ["--float16-compute"], ["--int4-format", "folded"], ["--weight-block-size", 32]):
            loss = error(MIXED, *flags)
            assert 1e-3 < loss < 0.25, (flags, loss)
        both = dict(MIXED, up="int8_dynamic", conv_b="int8w_int16a")
        assert 1e-3 < error(both) < 0.25, error(both)
        behind = quantized(folder, {"conv_a": "int8", "relu_a": "int8", "conv_b": "float16"}, "--float16-compute")[0]
        types = {i.name: i.data_type for i in behind.graph.initializer}
        reader = next(n for n in behind.graph.node if n.name == "conv_b")
        assert types[reader.input[1]] == onnx.TensorProto.FLOAT16, "it reads a DequantizeLinear"
        wide = quantized(folder, {"gemm": "int8w_int16a"})[0]
        pairs = {n.output[0]: n for n in wide.graph.node if n.op_type == "DequantizeLinear"}
        types = {i.name: i.data_type for i in wide.graph.initializer}
        gemm = next(n for n in wide.graph.node if n.name == "gemm")
        assert [types[pairs[t].input[2]] for t in gemm.input] == [onnx.TensorProto.INT16, onnx.TensorProto.INT8,
                                                                 onnx.TensorProto.INT32], gemm.input
        model, target = quantized(folder, MIXED)
        types = {n.name: n.op_type for n in model.graph.node}
        assert types["matmul"] == "MatMulNBits" and types["conv_a"] == "Conv" and types["gemm"] == "Gemm", types
        kinds = {i.name: i.data_type for i in model.graph.initializer}
        assert kinds["wu"] == onnx.TensorProto.FLOAT and kinds["wg_float16"] == onnx.TensorProto.FLOAT16
        assert kinds["wb_quantized"] == onnx.TensorProto.INT8
        assert os.path.getsize(target) < 0.55 * os.path.getsize(folder / "float.onnx")
    print("ok")


if __name__ == "__main__":
    main()
