"""SmoothQuant: the float function stays, int8 comes nearer to it, and what cannot take part is left alone."""
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing.models import save, seqto, weight  # noqa: E402

K = 32
node = helper.make_node


def outputs(path, x):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"x": v[None]})[0] for v in x]).astype(np.float64)


def outliers(seed=0):
    """Three channels are far larger than the others, as in transformers."""
    scale = np.random.default_rng(seed).uniform(0.5, 1.5, K).astype(np.float32)
    scale[[3, 11, 20]] *= 60
    return scale


def network(path, second_reader=False, **options):
    """Each place that a division is folded into: LayerNormalization with three readers, Mul, a biased MatMul behind Relu
    and a Gemm; the last layer reads a Sigmoid, which nothing passes."""
    s = outliers()
    nodes = [node("LayerNormalization", ["x", "g", "b"], ["n"], name="norm", axis=-1),
             node("MatMul", ["n", "wq"], ["q"], name="query"), node("MatMul", ["n", "wk"], ["k"], name="key"),
             node("Add", ["q", "k"], ["qk"], name="sum"), node("Mul", ["qk", "s"], ["m"], name="scale"),
             node("MatMul", ["m", "w1"], ["h0"], name="up"), node("Add", ["b1", "h0"], ["h1"], name="up_bias"),
             node("Relu", ["h1"], ["h2"], name="relu"), node("MatMul", ["h2", "w2"], ["h3"], name="down"),
             node("ReduceMean", ["h3"], ["p"], name="pool", axes=[1], keepdims=0),
             node("Gemm", ["p", "w3", "b3"], ["c"], name="classify", transB=1, alpha=0.5, beta=2.0),
             node("Gemm", ["c", "w4"], ["d"], name="head", transB=1),
             node("Sigmoid", ["d"], ["e"], name="gate"), node("Mul", ["e", "t"], ["f"], name="stretch"),
             node("Erf", ["f"], ["e2"], name="erf"), node("MatMul", ["e2", "w5"], ["y0"], name="last"),
             node("MatMul", ["e2", "shared"], ["y1"], name="left"), node("MatMul", ["e", "shared"], ["y2"], name="right"),
             node("Sum", ["y0", "y1", "y2"] + (["n_mean"] if second_reader else []), ["y"], name="out")]
    if second_reader:
        nodes.insert(1, node("ReduceMean", ["n"], ["n_mean"], name="mean", axes=[1], keepdims=0))
    weights = [("g", s), ("b", weight(K, seed=1)), ("s", outliers(5)), ("b1", weight(K, seed=2)), ("b3", weight(K, seed=3)),
               ("t", np.geomspace(0.01, 1, K, dtype=np.float32))]
    weights += [(n, weight(K, K, seed=10 + i) / 6) for i, n in enumerate("wq wk w1 w2 w3 w4 w5 shared".split())]
    # The layer before makes outlier channels as well.
    weights = [(n, w * s if n == "w1" else w * s[:, None] if n == "w3" else w) for n, w in weights]
    return save(path, nodes, [("x", [1, 6, K])], [("y", [1, K])], weights, **options)


def quantize(folder, model, name, *flags):
    result = seqto("quantize", model, "--data", folder / "data.npz", "-o", folder / name, *flags)
    assert result.returncode == 0, result.stderr
    return folder / name, result.stderr


def float_twin(folder, model, *flags):
    """With every layer left in float, what is written is the smoothed model itself (for one scale a weight)."""
    return quantize(folder, model, "twin.onnx", "--smooth-quant", "--activation-type", "int8", "--op-types", "GRU", *flags)


def error(model, quantized, x):
    wanted, found = outputs(model, x), outputs(quantized, x)
    return np.square(found - wanted).mean() / np.square(wanted).mean()


def data(folder, *shape):
    x = np.random.default_rng(7).normal(size=(24, *shape)).astype(np.float32)
    np.savez(folder / "data.npz", x=x)
    return x


def same_function(folder):
    x = data(folder, 6, K)
    for opset, extra in ((17, False), (17, True)):
        model = network(folder / "model.onnx", extra, opset=opset)
        for alpha in ("0.5", "0.8", "auto"):
            twin, _ = float_twin(folder, model, "--smooth-alpha", alpha)
            assert error(model, twin, x) < 1e-10, (alpha, error(model, twin, x))
    before = {i.name: numpy_helper.to_array(i) for i in onnx.load(model).graph.initializer}
    after = {i.name: numpy_helper.to_array(i) for i in onnx.load(twin).graph.initializer}
    assert np.array_equal(before["shared"], after["shared"]), "a weight with two readers was changed"


def factors(folder):
    """The published formula, up to one factor for all channels, on an activation that nothing is folded into."""
    x = data(folder, 6, K) * outliers()
    np.savez(folder / "data.npz", x=x)
    w = weight(K, 8)
    w[5] = 0
    model = save(folder / "model.onnx", [node("MatMul", ["x", "w"], ["y"], name="only")], [("x", [1, 6, K])],
                 [("y", [1, 6, 8])], [("w", w)])
    for alpha in (0.5, 0.75):
        twin, log = float_twin(folder, model, "--smooth-alpha", alpha)
        assert "1 by a Mul" in log, log
        graph = onnx.load(twin).graph
        assert [n.op_type for n in graph.node] == ["Mul", "MatMul"] and graph.node[0].name == "x_smooth"
        held = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        found = 1 / held["x_smooth_factors"]
        live = np.arange(K) != 5
        wanted = np.abs(x).max((0, 1))[live] ** alpha / np.abs(w).max(1)[live] ** (1 - alpha)
        ratio = found[live] / wanted
        assert np.ptp(ratio) < 1e-5 * ratio.mean() and abs(found[5] - 1) < 1e-6, ratio
        np.testing.assert_allclose(held["w"], w * found[:, None], rtol=1e-6)


def attention_inputs(path):
    """The first layers of a transformer: a normalization with outlier channels and what reads it."""
    nodes = [node("LayerNormalization", ["x", "g", "b"], ["n"], name="norm", axis=-1)]
    nodes += [node("MatMul", ["n", f"w{i}"], [f"y{i}"], name=f"project{i}") for i in range(3)]
    weights = [("g", outliers()), ("b", weight(K, seed=1))]
    weights += [(f"w{i}", weight(K, K, seed=10 + i) / outliers()[:, None] ** 0.8) for i in range(3)]
    nodes.append(node("Concat", ["y0", "y1", "y2"], ["y"], name="join", axis=-1))
    return save(path, nodes, [("x", [1, 6, K])], [("y", [1, 6, 3 * K])], weights)


def less_error(folder):
    x = data(folder, 6, K)
    model = attention_inputs(folder / "model.onnx")
    for mode, flags in (("static", ["--per-channel"]), ("static", ["--weight-type", "int8"]), ("dynamic", [])):
        plain, _ = quantize(folder, model, "plain.onnx", "--mode", mode, "--no-improve", *flags)
        errors = [error(model, plain, x)]
        for alpha in ("0.5", "auto"):
            smooth, log = quantize(folder, model, "smooth.onnx", "--mode", mode, "--smooth-quant", "--smooth-alpha", alpha, *flags)
            errors.append(error(model, smooth, x))
            assert "smoothed" in log and " folded" in log, log
        print(f"{mode} {flags}: squared error {errors[0]:.2e}, alpha 0.5 {errors[1]:.2e}, auto {errors[2]:.2e}")
        assert max(errors[1:]) < errors[0] / 2, errors
        improved, _ = quantize(folder, model, "improved.onnx", "--mode", mode, "--equalize", *flags)
        print(f"--equalize {error(model, improved, x):.2e}")
        assert error(model, improved, x) < errors[0] / 2, "--equalize does not see the outliers by itself"


def folded(folder):
    data(folder, 6, K)
    network(folder / "model.onnx")
    _, log = float_twin(folder, folder / "model.onnx")
    # n, m, h2 and c can be folded; p (a mean) and e2 (Erf) cannot.
    assert "6 of 6 activations: 4 folded into the layer before, 2 by a Mul" in log, log
    network(folder / "model.onnx", second_reader=True)
    _, log = float_twin(folder, folder / "model.onnx")
    assert "6 of 6 activations: 3 folded into the layer before, 3 by a Mul" in log, log


def static_form(folder):
    """A quantized Relu is no place to fold through, and a Mul that was added divides in float."""
    data(folder, 6, K)
    quantized, log = quantize(folder, network(folder / "model.onnx"), "q.onnx", "--smooth-quant")
    assert "5 of 6 activations: 3 folded into the layer before, 2 by a Mul" in log, log
    graph = onnx.load(quantized).graph
    muls = [n for n in graph.node if n.name in ("p_smooth", "e2_smooth")]
    held = {i.name for i in graph.initializer}
    readers = [n.op_type for m in muls for n in graph.node if m.output[0] in n.input]
    assert len(muls) == 2 and all(m.input[1] in held for m in muls) and set(readers) == {"QuantizeLinear"}, readers


def usage(folder):
    data(folder, 6, K)
    model = network(folder / "model.onnx")
    for flags, word in ((["--smooth-alpha", "2"], "--smooth-alpha"), (["--mode", "weights"], "layers in int8_weights found"),
                        (["--ranges", folder / "r.json"], "--ranges")):
        result = seqto("quantize", model, "--data", folder / "data.npz", "-o", folder / "q.onnx", "--smooth-quant", *flags)
        assert result.returncode == 2 and word in result.stderr, result.stderr


def main():
    for test in (same_function, factors, less_error, folded, static_form, usage):
        with tempfile.TemporaryDirectory() as scratch:
            test(Path(scratch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
