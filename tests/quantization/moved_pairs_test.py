"""int8 activations at opset 21 and up around an operator that only moves values and is left alone: the runtime, which takes
pairs past it, loads the file, and finds what it finds without optimization (D54)."""
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing.models import save, seqto, weight  # noqa: E402

node = helper.make_node
MOVES = {
    "Reshape": node("Reshape", ["c", "shape"], ["m"], name="move"),
    "Transpose": node("Transpose", ["c"], ["m"], name="move", perm=[0, 1, 3, 2]),
    "Squeeze": node("Squeeze", ["c", "axis"], ["m"], name="move"),
    "Unsqueeze": node("Unsqueeze", ["c", "axis"], ["m"], name="move"),
    "Slice": node("Slice", ["c", "start", "end"], ["m"], name="move"),
    "MaxPool": node("MaxPool", ["c"], ["m"], name="move", kernel_shape=[2, 2]),
}


def model_with(path, move, opset):
    """A convolution, what moves its output, and a second mover behind it that is left alone too."""
    nodes = [node("Conv", ["x", "w", "b"], ["c"], name="conv"), move,
             node("Flatten" if move.op_type == "Transpose" else "Transpose", ["m"], ["t"], name="second"),
             node("Neg", ["t"], ["y"], name="neg")]
    weights = [("w", weight(4, 3, 1, 1, seed=1)), ("b", weight(4, seed=2)), ("shape", np.int64([1, 4, -1])), ("axis", np.int64([0])),
               ("start", np.int64([0, 1])), ("end", np.int64([1, 3]))]
    return save(path, nodes, [("x", [1, 3, 8, 8])], [("y", None)], weights, opset=opset, ir_version=10)


def run(path, x, level):
    options = ort.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4, level
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def main():
    levels = ort.GraphOptimizationLevel
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, output = folder / "data.npz", folder / "q.onnx"
        np.savez(data, x=np.random.default_rng(0).normal(size=(4, 3, 8, 8)).astype(np.float32))
        x = np.load(data)["x"][:1]
        for op, move in MOVES.items():
            for opset in (17, 21):
                model = model_with(folder / "model.onnx", move, opset)
                result = seqto("quantize", model, "--data", data, "-o", output, "--exclude", "move", "--exclude", "second",
                               "--activation-type", "int8")
                assert result.returncode == 0, (op, result.stderr)
                written = onnx.load(output)
                onnx.checker.check_model(written)
                pairs = sum(n.op_type == "QuantizeLinear" for n in written.graph.node)
                plain = run(output, x, levels.ORT_DISABLE_ALL)
                assert np.array_equal(plain, run(output, x, levels.ORT_ENABLE_ALL)), (op, opset)
                # Below opset 21 the file is as onnxruntime's: the runtime adds the pair rightly by itself.
                assert pairs == (2 if opset == 17 else 3 if op == "Transpose" else 4), (op, opset, pairs)
                assert not any(i.name.startswith(("m_", "t_")) for i in written.graph.initializer), (op, opset)
        explained = seqto("quantize", model, "--data", data, "-o", output, "--exclude", "move", "--explain",
                          "--activation-type", "int8")
        assert "D54" in explained.stdout, explained.stdout
    print(f"{len(MOVES)} operators that move values, excluded: the files load and run the same optimized or not")


if __name__ == "__main__":
    main()
