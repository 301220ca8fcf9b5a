"""Every pair of an activation and a weight type gives a file that the checker accepts and the runtime loads and runs, or is
refused with what to do; each on a model with the operators that the runtime makes integer kernels of."""
import itertools
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing.models import save, seqto, weight  # noqa: E402

TYPES = ["int8", "uint8", "int16", "uint16", "int4", "uint4"]
node = helper.make_node


def mixed_model(path):
    """Convolutions behind and before each other, a Transpose, a Relu and a MaxPool; what a transformer has."""
    nodes = [node("Conv", ["x", "w0", "b0"], ["c0"], name="conv0", pads=[1, 1, 1, 1]),
             node("Conv", ["c0", "w1"], ["c1"], name="conv1", pads=[1, 1, 1, 1]),
             node("Add", ["c0", "c1"], ["a"], name="add"),
             node("Relu", ["a"], ["r"], name="relu"),
             node("MaxPool", ["r"], ["m"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
             node("Conv", ["m", "w2", "b2"], ["c2"], name="conv2"),
             node("ConvTranspose", ["c2", "w3"], ["c3"], name="up", strides=[2, 2]),
             node("Concat", ["c3", "c0"], ["k"], name="concat", axis=1),
             node("Conv", ["k", "w4"], ["c4"], name="conv4"),
             node("Transpose", ["c4"], ["t"], name="transpose", perm=[0, 2, 3, 1]),
             node("Softmax", ["t"], ["s"], name="softmax", axis=-1),
             node("MatMul", ["s", "w5"], ["p"], name="product"),
             node("Reshape", ["p", "shape"], ["f"], name="reshape"),
             node("Gemm", ["f", "w6", "b6"], ["g"], name="gemm"),
             node("Sigmoid", ["g"], ["y"], name="sigmoid")]
    weights = [("w0", weight(4, 3, 3, 3, seed=1)), ("b0", weight(4, seed=2)), ("w1", weight(4, 4, 3, 3, seed=3)),
               ("w2", weight(6, 4, 1, 1, seed=4)), ("b2", weight(6, seed=5)), ("w3", weight(6, 4, 2, 2, seed=6)),
               ("w4", weight(5, 8, 1, 1, seed=7)), ("w5", weight(5, 3, seed=8)), ("shape", np.int64([1, -1])),
               ("w6", weight(192, 4, seed=9)), ("b6", weight(4, seed=10))]
    return save(path, nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4])], weights)


def check(model, data, output, flags):
    result = seqto("quantize", model, "--data", data, "-o", output, *flags)
    if result.returncode:
        assert "use int8 weights" in result.stderr, (flags, result.stderr)
        return 0
    onnx.checker.check_model(onnx.load(output))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(output, options, providers=["CPUExecutionProvider"])
        found = session.run(None, {"x": np.load(data)["x"][:1]})[0]
    except Exception as error:
        raise AssertionError(f"{flags}: {error}") from error
    assert np.isfinite(found).all(), flags
    return 1


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, output = mixed_model(folder / "model.onnx"), folder / "q.onnx"
        np.savez(folder / "data.npz", x=np.random.default_rng(0).normal(size=(3, 3, 8, 8)).astype(np.float32))
        written = 0
        for activation, codes, channels in itertools.product(TYPES, TYPES, ([], ["--per-channel"])):
            flags = ["--activation-type", activation, "--weight-type", codes, *channels]
            written += check(model, folder / "data.npz", output, flags)
            if "4" in activation:  # a layer that is left alone is quantized on all sides by its neighbours
                written += check(model, folder / "data.npz", output, [*flags, "--exclude", "conv1", "--exclude", "gemm"])
        assert written == 2 * (36 - 1) + 2 * 12, written
    print(f"{written} files of {len(TYPES) ** 2} pairs of types, all of them load and run")


if __name__ == "__main__":
    main()
