"""QOperator form where the operator on codes has other defaults or fewer modes than the operator on floats: what the written
file computes is compared with the float file in onnxruntime."""
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing.models import save, seqto, weight  # noqa: E402


def run(path, x):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.stack([session.run(None, {"x": v[None]})[0] for v in x]).astype(np.float64)


def lost(folder, opset, node, output, weights=()):
    model, data, out = (folder / name for name in ("model.onnx", "data.npz", "out.onnx"))
    save(model, [helper.make_node("Conv", ["x", "w"], ["c"], name="conv"), node], [("x", [1, 3, 4, 4])], [("y", output)],
         [("w", weight(8, 3, 3, 3)), *weights], opset=opset)
    x = np.random.default_rng(0).normal(size=(24, 3, 4, 4)).astype(np.float32)
    np.savez(data, x=x)
    result = seqto("quantize", model, "--data", data, "-o", out, "--format", "qoperator", "--activation-type", "uint8", "--no-improve")
    assert result.returncode == 0, result.stderr
    wanted, found = run(model, x), run(out, x)
    return ((wanted - found) ** 2).sum() / (wanted ** 2).sum(), [n.op_type for n in onnx.load(str(out)).graph.node]


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for opset in (11, 12, 13):
            loss, nodes = lost(folder, opset, helper.make_node("Softmax", ["c"], ["y"], name="softmax"), [1, 8, 2, 2])
            assert loss < 0.02 and "QLinearSoftmax" in nodes, (opset, loss, nodes)
        for mode in ("nearest", "linear", "cubic"):
            resize = helper.make_node("Resize", ["c", "", "scales"], ["y"], name="resize", mode=mode)
            loss, nodes = lost(folder, 13, resize, [1, 8, 4, 4], [("scales", np.array([1, 1, 2, 2], np.float32))])
            assert loss < 0.02 and "Resize" in nodes, (mode, loss, nodes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
