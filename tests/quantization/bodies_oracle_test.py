"""Bodies of Loop and Scan with --enable-subgraph: dynamic quantization as onnxruntime's, in file and output."""

import itertools
import logging
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime.quantization import QuantType, quantize_dynamic
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

logging.disable(logging.CRITICAL)  # onnxruntime's advice to preprocess

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "differential"))
from canonical import compare
from testing.models import seqto, weight


def floats(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def layers(source, own):
    """s -> MatMul -> Relu -> Gemm -> t, with weights of the body or of the graph around it."""
    prefix = "own_" if own else "outer_"
    nodes = [helper.make_node("MatMul", [source, prefix + "w"], ["m"], "in_matmul"),
             helper.make_node("Relu", ["m"], ["r"], "in_relu"),
             helper.make_node("Gemm", ["r", prefix + "g", prefix + "b"], ["t"], "in_gemm")]
    weights = [numpy_helper.from_array(weight(*shape, seed=i) * np.float32(0.5), prefix + name)
               for i, (name, shape) in enumerate([("w", (4, 6)), ("g", (6, 4)), ("b", (4,))])]
    return nodes, weights


def loop(own):
    nodes, weights = layers("s", own)
    nodes += [helper.make_node("Identity", ["go"], ["go_on"], "in_condition"),
              helper.make_node("Identity", ["t"], ["step"], "in_step")]
    inputs = [helper.make_tensor_value_info("i", TensorProto.INT64, []),
              helper.make_tensor_value_info("go", TensorProto.BOOL, []), floats("s", [2, 4])]
    outputs = [helper.make_tensor_value_info("go_on", TensorProto.BOOL, []), floats("t", [2, 4]),
               floats("step", [2, 4])]
    body = helper.make_graph(nodes, "body", inputs, outputs, weights if own else [])
    constants = [numpy_helper.from_array(np.array(3, np.int64), "count"),
                 numpy_helper.from_array(np.array(True), "start")]
    node = helper.make_node("Loop", ["count", "start", "h"], ["last", "steps"], "loop", body=body)
    return node, constants + ([] if own else weights), [floats("last", [2, 4]), floats("steps", [3, 2, 4])]


def scan(own):
    nodes, weights = layers("s", own)
    nodes += [helper.make_node("Add", ["t", "row"], ["next"], "in_add"),
              helper.make_node("Identity", ["next"], ["out"], "in_out")]
    body = helper.make_graph(nodes, "body", [floats("s", [2, 4]), floats("row", [4])],
                             [floats("next", [2, 4]), floats("out", [2, 4])], weights if own else [])
    node = helper.make_node("Scan", ["h", "rows"], ["last", "steps"], "scan", num_scan_inputs=1, body=body)
    rows = numpy_helper.from_array(weight(5, 4, seed=9), "rows")
    return node, [rows] + ([] if own else weights), [floats("last", [2, 4]), floats("steps", [5, 2, 4])]


def model(path, make, own):
    node, constants, outputs = make(own)
    before = helper.make_node("MatMul", ["x", "v"], ["h"], "outer_matmul")
    after = [] if own else [helper.make_node("MatMul", ["last", "outer_w"], ["again"], "outer_again")]
    more = [] if own else [floats("again", [2, 6])]
    constants = [numpy_helper.from_array(weight(3, 4, seed=8), "v")] + constants
    graph = helper.make_graph([before, node] + after, "g", [floats("x", [2, 3])], outputs + more, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def body_ops(path):
    graph = onnx.load(path).graph
    node = next(n for n in graph.node if n.op_type in ("Loop", "Scan"))
    body = next(a.g for a in node.attribute if a.name == "body")
    return [n.op_type for n in body.node]


def run(path, x):
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        x = weight(2, 3, seed=7)
        both = (True, False)
        for make, own, channels, kind in itertools.product((loop, scan), both, both, ("int8", "uint8")):
            what = (make.__name__, own, channels, kind)
            source = model(folder / "float.onnx", make, own)
            flags = ["--mode", "dynamic", "--weight-type", kind, "--enable-subgraph"] + ["--per-channel"] * channels
            result = seqto("quantize", source, "-o", folder / "ours.onnx", *flags)
            assert result.returncode == 0, result.stderr
            assert body_ops(folder / "ours.onnx").count("MatMulInteger") == 2, (what, body_ops(folder / "ours.onnx"))
            quantize_dynamic(source, folder / "theirs.onnx", per_channel=channels,
                             weight_type=QuantType.QInt8 if kind == "int8" else QuantType.QUInt8,
                             extra_options={"EnableSubgraph": True})
            onnx.checker.check_model(onnx.load(folder / "ours.onnx"), full_check=True)
            difference = compare(onnx.load(folder / "theirs.onnx"), onnx.load(folder / "ours.onnx"))
            assert not difference, (what, difference)
            expected, ours, theirs = (run(folder / f"{n}.onnx", x) for n in ("float", "ours", "theirs"))
            for e, o, t in zip(expected, ours, theirs):
                assert np.linalg.norm(o - e) < 0.1 * np.linalg.norm(e), what
                assert o.tobytes() == t.tobytes(), what
            result = seqto("quantize", source, "-o", folder / "outer.onnx", *flags[:-1 - channels])
            assert result.returncode == 0 and body_ops(folder / "outer.onnx") == body_ops(source), what
        source = model(folder / "float.onnx", loop, True)
        result = seqto("quantize", source, "-o", folder / "inner.onnx", "--mode", "dynamic", "--enable-subgraph", "--exclude", "outer_matmul")
        assert result.returncode == 0 and "no layer was quantized" not in result.stderr, result.stderr
        assert body_ops(folder / "inner.onnx").count("MatMulInteger") == 2
    print("ok")


if __name__ == "__main__":
    main()
