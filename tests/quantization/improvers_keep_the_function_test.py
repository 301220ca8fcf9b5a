"""Improvers on graphs in which their algebra has an exception. The written files are run by onnxruntime and compared with
the float file: an improved one may lose little more than one that is not improved, also on inputs that were not shown."""
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import helper

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing.models import save, seqto  # noqa: E402

node = helper.make_node
RANDOM = np.random.default_rng(5)
SAMPLES = 96


def normal(*shape, scale=1.0):
    return (RANDOM.normal(size=shape) * scale).astype(np.float32)


def linear(inputs, outputs):
    return normal(inputs, outputs, scale=inputs ** -0.5)


def uneven(size):
    return np.exp(normal(size)).astype(np.float32)


def run(path, inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    samples = [{name: values[i][None] for name, values in inputs.items()} for i in range(SAMPLES)]
    return np.stack([session.run(None, sample)[0] for sample in samples]).astype(np.float64)


class Net:
    def __init__(self, folder, nodes, inputs, output, weights):
        self.path, self.folder = folder / "model.onnx", folder
        save(self.path, nodes, inputs, [("y", output)], weights, opset=17)

    def lost(self, shown, judged, *flags):
        """Squared error over variance, of `judged`, of what is made on `shown`."""
        data, out = self.folder / "data.npz", self.folder / "out.onnx"
        np.savez(data, **shown)
        result = seqto("quantize", self.path, "--data", data, "-o", out, *flags)
        assert result.returncode == 0, result.stderr
        assert "changes what" not in result.stderr, result.stderr
        wanted, found = run(self.path, judged), run(out, judged)
        assert np.isfinite(found).all(), flags
        return float(((wanted - found) ** 2).sum() / ((wanted - wanted.mean(0)) ** 2).sum())


def pool_over_the_channels(folder):
    """Maxout: the larger of two channels is one channel's value, but of which one depends on the sample."""
    net = Net(folder, [node("LayerNormalization", ["x", "gain", "shift"], ["n"], name="norm"),
                       node("MaxPool", ["n"], ["p"], name="pool", kernel_shape=[2], strides=[2]),
                       node("MatMul", ["p", "w"], ["y"], name="product")],
              [("x", [1, 8, 32])], [1, 8, 16], [("gain", uneven(32)), ("shift", normal(32)), ("w", linear(16, 16))])
    x = {"x": normal(SAMPLES, 8, 32)}
    assert net.lost(x, x) < 3 * net.lost(x, x, "--no-improve")


def bias_of_rows(folder, shape):
    """Gemm adds its third input row by row too."""
    net = Net(folder, [node("Reshape", ["x", "rows"], ["m"], name="rows_of"), node("Gemm", ["m", "w0", "c"], ["h"], name="first"),
                       node("Relu", ["h"], ["r"], name="relu"), node("Gemm", ["r", "w1"], ["y"], name="second")],
              [("x", [1, 4, 24])], [4, 8], [("rows", np.array([4, 24])), ("w0", linear(24, 48) * uneven(48)), ("c", normal(*shape)), ("w1", linear(48, 8))])
    x = {"x": normal(SAMPLES, 4, 24)}
    for flags in ([], ["--per-channel", "--equalize"], ["--center"], ["--bias-correction", "full"], ["--rounding", "learned"]):
        assert net.lost(x, x, *flags) < 8 * net.lost(x, x, "--no-improve"), (shape, flags)


def one_bias(folder):
    """As wide as the layer, in an axis more: learned codes count on it as on one of one axis."""
    losses = {}
    x, w0, b, w1 = {"x": normal(SAMPLES, 24)}, linear(24, 48), normal(48), linear(48, 8)
    for shape in ((48,), (1, 48), (1,)):
        values = b.reshape(shape) if len(shape) > 1 or shape[0] > 1 else b[:1]
        net = Net(folder, [node("Gemm", ["x", "w0", "b"], ["h"], name="first"), node("Relu", ["h"], ["r"], name="relu"),
                           node("Gemm", ["r", "w1", "c"], ["y"], name="second")],
                  [("x", [1, 24])], [1, 8], [("w0", w0), ("b", values), ("w1", w1), ("c", normal(1, 8))])
        flags = ["--mode", "weights", "--weight-bits", "4"]
        losses[shape] = net.lost(x, x, *flags, "--rounding", "learned"), net.lost(x, x, *flags, "--no-improve")
    assert 0.5 < losses[1, 48][0] / losses[48,][0] < 2, losses
    assert all(learned < nearest for learned, nearest in losses.values()), losses


def branch_that_never_varies(folder):
    """A condition that is the same in all samples shown: its weights are no free choice."""
    sizes = {"w1": (16, 64), "w2": (64, 32), "w3": (24, 32), "w4": (32, 10)}
    weights = [(name, linear(*size)) for name, size in sizes.items()]
    weights += [(f"b{name[1]}", normal(size[1])) for name, size in sizes.items()]
    net = Net(folder, [node("Gemm", ["c", "w1", "b1"], ["h"], name="c1"), node("Relu", ["h"], ["hr"], name="relu1"),
                       node("Gemm", ["hr", "w2", "b2"], ["e"], name="c2"), node("Gemm", ["x", "w3", "b3"], ["f"], name="x1"),
                       node("Add", ["e", "f"], ["s"], name="add"), node("Relu", ["s"], ["t"], name="relu2"),
                       node("Gemm", ["t", "w4", "b4"], ["y"], name="out")],
              [("x", [1, 24]), ("c", [1, 16])], [1, 10], weights)
    x, condition = normal(SAMPLES, 24), normal(16)
    for varies in (0, 1e-5, 1e-3):
        shown = {"x": x, "c": (condition + varies * normal(SAMPLES, 16)).astype(np.float32)}
        near = {"x": x, "c": (condition + 0.3 * normal(SAMPLES, 16)).astype(np.float32)}
        for flags in (["--mode", "weights"], ["--mode", "static"], ["--mode", "weights", "--weight-bits", "4"]):
            plain, learned = net.lost(shown, near, *flags, "--no-improve"), net.lost(shown, near, *flags, "--rounding", "learned")
            assert learned < 4 * plain, (varies, flags, plain, learned)


def gemm_with_a_factor(folder):
    """alpha stands in QGemm too, where the bias is in steps of it."""
    for alpha in (0.5, 2.0):
        net = Net(folder, [node("Gemm", ["x", "w0", "b"], ["h"], name="first", alpha=alpha), node("Relu", ["h"], ["r"], name="relu"),
                           node("Gemm", ["r", "w1", "c"], ["y"], name="second")],
                  [("x", [1, 24])], [1, 8], [("w0", linear(24, 48)), ("b", normal(48)), ("w1", linear(48, 8)), ("c", normal(8))])
        x = {"x": normal(SAMPLES, 24)}
        plain = net.lost(x, x, "--format", "qoperator", "--no-improve")
        for flags in (["--improve"], ["--rounding", "learned"], ["--bias-correction", "full"]):
            learned = net.lost(x, x, "--format", "qoperator", *flags)
            assert learned < 3 * plain, (alpha, flags, plain, learned)


def sample_without_a_number(folder):
    """Weights are rounded to nearest where nothing can be learned, and stay numbers."""
    net = Net(folder, [node("Gemm", ["x", "w0", "b"], ["h"], name="first"), node("Relu", ["h"], ["r"], name="relu"),
                       node("Gemm", ["r", "w1"], ["y"], name="second")],
              [("x", [1, 24])], [1, 8], [("w0", linear(24, 48)), ("b", normal(48)), ("w1", linear(48, 8))])
    x = {"x": normal(SAMPLES, 24)}
    shown = {"x": x["x"].copy()}
    shown["x"][3, 5] = np.nan
    assert net.lost(shown, x, "--mode", "weights", "--rounding", "learned") < 1e-2


def main():
    checks = [pool_over_the_channels, lambda f: bias_of_rows(f, (4, 48)), lambda f: bias_of_rows(f, (4, 1)), one_bias,
              branch_that_never_varies, gemm_with_a_factor, sample_without_a_number]
    for check in checks:
        with tempfile.TemporaryDirectory() as scratch:
            check(Path(scratch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
