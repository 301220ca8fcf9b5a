"""What makes quantized models more accurate, measured with onnxruntime: each claim on a model small enough to know it."""
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing.models import save, seqto, weight  # noqa: E402

LAYERS = ("stem", "depthwise", "project", "classify")


def outputs(model, x, tensors=None):
    if tensors:
        model = onnx.ModelProto.FromString(model.SerializeToString())
        del model.graph.output[:]
        model.graph.output.extend(helper.make_tensor_value_info(t, 1, None) for t in tensors)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    runs = [session.run(None, {"x": v[None]}) for v in x]
    return [np.concatenate(parts).astype(np.float64) for parts in zip(*runs)]


def network(path, opset=17, shared=False):
    """Two kinds of convolution, one of them without a bias, and a classifier whose bias can be that of the stem."""
    node = helper.make_node
    nodes = [node("Conv", ["x", "w0", "b0"], ["stem_out"], name="stem", pads=[1, 1, 1, 1]),
             node("Relu", ["stem_out"], ["t0"], name="relu0"),
             node("Conv", ["t0", "w1"], ["depthwise_out"], name="depthwise", group=8, pads=[1, 1, 1, 1]),
             node("Relu", ["depthwise_out"], ["t1"], name="relu1"),
             node("Conv", ["t1", "w2", "b2"], ["project_out"], name="project"),
             node("GlobalAveragePool", ["project_out"], ["t2"], name="pool"),
             node("Flatten", ["t2"], ["t3"], name="flatten"),
             node("Gemm", ["t3", "w3", "b0" if shared else "b3"], ["y"], name="classify")]
    # Channels of very different size, so that one scale for all of them rounds the small ones away.
    sizes = np.geomspace(0.02, 1, 8, dtype=np.float32)
    weights = [("w0", weight(8, 3, 3, 3) * sizes[:, None, None, None]), ("b0", weight(8, seed=3) * sizes),
               ("w1", weight(8, 1, 3, 3, seed=4) * sizes[:, None, None, None]),
               ("w2", weight(6, 8, 1, 1, seed=5)), ("b2", weight(6, seed=6)), ("w3", weight(6, 8, seed=7))]
    if not shared:
        weights.append(("b3", weight(8, seed=8)))
    return save(path, nodes, [("x", [1, 3, 8, 8])], [("y", [1, 8])], weights, opset=opset)


def quantize(folder, model, *flags):
    result = seqto("quantize", model, "--data", folder / "data.npz", "-o", folder / "q.onnx", *flags)
    assert result.returncode == 0, result.stderr
    return onnx.load(folder / "q.onnx")


def mean_errors(float_model, quantized, x):
    """By layer: the mean error of each channel, as a share of the channels' mean magnitude."""
    named = {n.name: n.output[0] for n in quantized.graph.node}
    wanted = outputs(float_model, x, [f"{n}_out" if n != "classify" else "y" for n in LAYERS])
    found = outputs(quantized, x, [named[n] for n in LAYERS])
    errors = []
    for a, b in zip(wanted, found):
        axes = tuple(i for i in range(a.ndim) if i != 1)
        errors.append(np.abs((a - b).mean(axes)).max() / np.abs(a).mean())
    return np.array(errors)


def bias_correction(folder):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 3, 8, 8)).astype(np.float32)
    np.savez(folder / "data.npz", x=x)
    int8 = ["--activation-type", "int8"]
    for opset, shared, flags in ((17, False, int8), (18, True, int8), (21, False, ["--per-channel", "--activation-type", "uint8"])):
        path = network(folder / "model.onnx", opset, shared)
        model = onnx.load(path)
        plain = quantize(folder, path, *flags)
        fast = quantize(folder, path, "--bias-correction", "fast", *flags)
        full = quantize(folder, path, "--bias-correction", "full", *flags)
        none, local, whole = (mean_errors(model, q, x) for q in (plain, fast, full))
        # One step of an int32 bias is far below a thousandth of an output.
        assert whole.max() < 2e-3, f"opset {opset}: mean errors {whole} after full correction"
        assert local.sum() < none.sum(), f"opset {opset}: {local.sum()} after fast correction, {none.sum()} without"
        assert local[0] < none[0] / 2, f"first layer: {none[0]}, {local[0]}; it sees the true input, so fast correction is whole"
        # The same operators: what was fused before is fused now.
        kinds = [sorted(n.op_type for n in q.graph.node) for q in (plain, full)]
        assert [k for k in kinds[1] if k != "DequantizeLinear"] == [k for k in kinds[0] if k != "DequantizeLinear"]
        error = [np.square(outputs(model, x)[0] - outputs(q, x)[0]).mean() for q in (plain, full)]
        assert error[1] < error[0], error
        print(f"bias correction, opset {opset}: squared error {error[0]:.5f}, corrected {error[1]:.5f}")


def bias_correction_of_16_bits(folder):
    """Below opset 21 their pairs are of com.microsoft."""
    x = np.random.default_rng(0).normal(size=(24, 3, 8, 8)).astype(np.float32)
    np.savez(folder / "data.npz", x=x)
    (folder / "plan.json").write_text(json.dumps({"schemes": dict.fromkeys(LAYERS, "int8w_int16a")}))
    for opset in (17, 21):
        path = network(folder / "model.onnx", opset)
        plain, fast = (quantize(folder, path, "--plan", folder / "plan.json", *more) for more in ([], ["--bias-correction", "fast"]))
        none, local = (mean_errors(onnx.load(path), q, x) for q in (plain, fast))
        assert local[0] < none[0] / 2, (opset, none, local)


def types_beside_named_improvers(folder):
    """They are those without: an improver is no reason for other types."""
    np.savez(folder / "data.npz", x=np.random.default_rng(0).normal(size=(24, 3, 8, 8)).astype(np.float32))
    path = network(folder / "model.onnx")
    plain, *named = (Counter((n.op_type, len(scale_of(q, n))) for n in q.graph.node if n.op_type.endswith("QuantizeLinear"))
                     for q in (quantize(folder, path, *flags) for flags in (["--no-improve"], ["--equalize"], ["--smooth-quant"])))
    assert plain == named[0] == named[1], (plain, named)


def scale_of(model, node):
    return next(numpy_helper.to_array(i).reshape(-1) for i in model.graph.initializer if i.name == node.input[1])


def bias_correction_in_float(folder):
    """A bias that is added to the layer without one is no more in codes than the others."""
    np.savez(folder / "data.npz", x=np.random.default_rng(0).normal(size=(24, 3, 8, 8)).astype(np.float32))
    q = quantize(folder, network(folder / "model.onnx"), "--bias-correction", "fast", "--no-quantize-bias")
    constants = {i.name: i for i in q.graph.initializer}
    biases = {n.name: constants[n.input[2]].data_type for n in q.graph.node if n.op_type in ("Conv", "Gemm")}
    assert biases == dict.fromkeys(LAYERS, onnx.TensorProto.FLOAT), biases


def centered_channels(folder):
    """A linear bottleneck whose channels lie far apart: one scale has to span them all, unless each lies around zero."""
    rng = np.random.default_rng(3)
    draw = lambda n: rng.normal(size=(n, 3, 8, 8)).astype(np.float32)
    x, others = draw(32), draw(64)
    np.savez(folder / "data.npz", x=x)
    node = helper.make_node
    path = save(folder / "model.onnx",
                [node("Conv", ["x", "w0", "b0"], ["t0"], name="squeeze"), node("Conv", ["t0", "w1", "b1"], ["t1"], name="expand"),
                 node("Relu", ["t1"], ["t2"], name="relu"), node("Conv", ["t2", "w2"], ["y"], name="last", pads=[1, 1, 1, 1])],
                [("x", [1, 3, 8, 8])], [("y", [1, 4, 8, 8])],
                [("w0", weight(6, 3, 1, 1)), ("b0", np.float32([20, -20, 10, -10, 5, 0])), ("w1", weight(12, 6, 1, 1, seed=4)),
                 ("b1", -(weight(12, 6, 1, 1, seed=4)[:, :, 0, 0] @ np.float32([20, -20, 10, -10, 5, 0]))), ("w2", weight(4, 12, 3, 3, seed=5))])
    model = onnx.load(path)
    flags = ("--per-channel", "--activation-type", "uint8", "--bias-correction", "full")
    plain, centered = (quantize(folder, path, *flags, *more) for more in ([], ["--center"]))
    assert [n.op_type for n in plain.graph.node] == [n.op_type for n in centered.graph.node]
    for name, data in (("the samples", x), ("others", others)):
        errors = [np.square(outputs(model, data)[0] - outputs(q, data)[0]).mean() for q in (plain, centered)]
        print(f"centered channels, {name}: squared error {errors[0]:.3g}, centered {errors[1]:.3g}")
        assert errors[1] < errors[0] / 2, (name, errors)


def refined_ranges(folder):
    """An input whose large values nothing listens to: only the outputs tell that its range may leave them out."""
    rng = np.random.default_rng(1)
    draw = lambda n: (rng.normal(size=(n, 3, 8, 8)) * np.array([1, 1, 8])[:, None, None]).astype(np.float32)
    x, others = draw(32), draw(64)
    np.savez(folder / "data.npz", x=x)
    path = save(folder / "model.onnx", [helper.make_node("Conv", ["x", "w"], ["y"], name="deaf")], [("x", [1, 3, 8, 8])],
                [("y", [1, 4, 6, 6])], [("w", weight(4, 3, 3, 3) * np.float32([1, 1, 1e-4])[:, None, None])])
    model = onnx.load(path)
    flags = ("--per-channel", "--activation-type", "uint8")
    plain = quantize(folder, path, *flags)
    refined = quantize(folder, path, "--refine-ranges", *flags)
    again = quantize(folder, path, "--refine-ranges", *flags)
    assert refined.SerializeToString() == again.SerializeToString()
    assert [n.op_type for n in plain.graph.node] == [n.op_type for n in refined.graph.node]
    scale = lambda q: float(numpy_helper.to_array(next(i for i in q.graph.initializer if i.name == "x_scale")))
    assert scale(refined) < scale(plain), (scale(refined), scale(plain))
    for name, data in (("the samples", x), ("others", others)):
        errors = [np.square(outputs(model, data)[0] - outputs(q, data)[0]).mean() for q in (plain, refined)]
        print(f"refined ranges, {name}: squared error {errors[0]:.5f}, refined {errors[1]:.5f}")
        assert errors[1] < errors[0], (name, errors)


def cut_ranges(folder):
    """What a SiLU reads, from -50 to 20 or so: its codes say nothing of what lies below -10."""
    node = helper.make_node
    nodes = [node("Conv", ["x", "w0", "b0"], ["a"], name="stem", pads=[1, 1, 1, 1]), node("Sigmoid", ["a"], ["s"], name="gate"),
             node("Mul", ["a", "s"], ["h"], name="silu"), node("Conv", ["h", "w1"], ["y"], name="last")]
    weights = [("w0", weight(8, 3, 3, 3) * 2), ("b0", np.full(8, -15, np.float32)), ("w1", weight(4, 8, 1, 1, seed=1))]
    model = onnx.load(save(folder / "model.onnx", nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4, 8, 8])], weights))
    x, others = weight(32, 3, 8, 8, seed=2), weight(64, 3, 8, 8, seed=3)
    np.savez(folder / "data.npz", x=x)
    flags = ["--activation-type", "uint8", "--per-channel", "--exclude", "last"]
    others_of_improve = ["--center", "--equalize", "--rounding", "learned", "--unify-concat", "--float-unlike-concat"]
    plain, cut = (quantize(folder, folder / "model.onnx", *flags, *more) for more in (others_of_improve, ["--improve"]))
    errors = [np.square(outputs(model, others)[0] - outputs(q, others)[0]).mean() for q in (plain, cut)]
    print(f"cut ranges: squared error {errors[0]:.3g}, cut {errors[1]:.3g}")
    assert errors[1] < 0.85 * errors[0], errors


def headroom_of_16_bits(folder):
    """Values beyond what the samples showed: cut off by their ranges, but for twice as wide ones, as --improve has them."""
    rng = np.random.default_rng(4)
    draw = lambda n, most: rng.uniform(-most, most, size=(n, 3, 8, 8)).astype(np.float32)
    x, others = draw(20, 1), draw(40, 1.5)
    np.savez(folder / "data.npz", x=x)
    path = save(folder / "model.onnx",
                [helper.make_node("Conv", ["x", "w0"], ["c0"], name="first"), helper.make_node("Clip", ["c0", "zero", "six"], ["h"], name="clip"),
                 helper.make_node("Conv", ["h", "w1"], ["y"], name="last")],
                [("x", [1, 3, 8, 8])], [("y", [1, 4, 4, 4])],
                [("w0", 3 * weight(8, 3, 3, 3)), ("w1", weight(4, 8, 3, 3, seed=1)), ("zero", np.float32(0)), ("six", np.float32(6))])
    model = onnx.load(path)
    flags = ("--per-channel", "--activation-type", "uint16")
    plain, wide, improved, kept = (quantize(folder, path, *flags, *more) for more in (
        [], ["--headroom-16-bits", "2"], ["--improve"], ["--improve", "--headroom-16-bits", "1"]))
    scale = lambda q, name: float(numpy_helper.to_array(next(i for i in q.graph.initializer if i.name == name + "_scale")))
    for name in ("x", "y"):
        np.testing.assert_allclose(scale(wide, name), 2 * scale(plain, name), rtol=1e-6)
        assert scale(improved, name) == scale(wide, name), name
        assert scale(kept, name) == scale(plain, name), name
    seen = min(6, 65535 * scale(plain, "h"))
    assert seen > 3, seen  # so that twice as much is more than the Clip lets through
    np.testing.assert_allclose(65535 * scale(wide, "h"), 6, rtol=1e-5)
    errors = [np.square(outputs(model, others)[0] - outputs(q, others)[0]).mean() for q in (plain, wide, kept, improved)]
    print("values beyond the samples': squared error %.3g, headroom %.3g; learned rounding %.3g, headroom %.3g" % tuple(errors))
    assert errors[1] < errors[0] / 10 and errors[3] < errors[2] / 10, errors
    narrow = [quantize(folder, path, "--per-channel", *more) for more in ([], ["--headroom-16-bits", "2"])]
    assert narrow[0].SerializeToString() == narrow[1].SerializeToString()  # 8 bits have none to spare


def unified_concat(folder):
    """What only a Concat reads gets its scale, with --improve by itself: rounded once instead of twice."""
    rng = np.random.default_rng(6)
    draw = lambda n: rng.uniform(-1, 1, size=(n, 3, 8, 8)).astype(np.float32)
    x, others = draw(20), draw(40)
    np.savez(folder / "data.npz", x=x)
    path = save(folder / "model.onnx",
                [helper.make_node("Conv", ["x", "w0"], ["c0"], name="first"), helper.make_node("Relu", ["c0"], ["a"]),
                 helper.make_node("Conv", ["x", "w1"], ["c1"], name="second"), helper.make_node("Relu", ["c1"], ["b0"]),
                 helper.make_node("MaxPool", ["b0"], ["b"], kernel_shape=[1, 1]),
                 helper.make_node("Conv", ["x", "w2"], ["c"], name="third"), helper.make_node("Concat", ["a", "b", "c"], ["d"], axis=1),
                 helper.make_node("Conv", ["d", "w3"], ["e"], name="last"), helper.make_node("Conv", ["c", "w4"], ["f"], name="other"),
                 helper.make_node("Add", ["e", "f"], ["y"])],
                [("x", [1, 3, 8, 8])], [("y", [1, 4, 6, 6])],
                [("w0", weight(8, 3, 3, 3)), ("w1", 0.7 * weight(8, 3, 3, 3, seed=1)), ("w2", 0.3 * weight(8, 3, 3, 3, seed=2)),
                 ("w3", weight(4, 24, 1, 1, seed=3)), ("w4", weight(4, 8, 1, 1, seed=4))])
    model = onnx.load(path)
    plain, unified, improved, kept = (quantize(folder, path, "--per-channel", *more) for more in (
        [], ["--unify-concat"], ["--improve"], ["--improve", "--no-unify-concat"]))

    def scales(q):
        values = {i.name: i for i in q.graph.initializer}
        return [float(numpy_helper.to_array(values[name + "_scale"])) for name in ("a", "b0", "c", "d")]

    for q in (unified, improved):
        a, b, c, d = scales(q)
        assert a == b == d and c != d, (a, b, c, d)  # another layer reads c as well
    for q in (plain, kept):
        a, b, c, d = scales(q)
        assert len({a, b, d}) > 1, (a, b, d)
    for name, data in (("the samples", x), ("others", others)):
        errors = [np.square(outputs(model, data)[0] - outputs(q, data)[0]).mean() for q in (plain, unified)]
        print("concat, %s: squared error %.3g, unified %.3g" % (name, *errors))
        assert errors[1] < errors[0], (name, errors)


def boxes_and_scores(folder):
    """A detector's end: with one scale for boxes in pixels and scores below 1 every score is 0. --improve and searches leave
    their Concat in float, and the way to the output."""
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, size=(40, 3, 8, 8)).astype(np.float32)
    np.savez(folder / "data.npz", x=x)
    node = helper.make_node
    path = save(folder / "model.onnx",
                [node("Conv", ["x", "w0"], ["c0"], name="boxes"), node("Mul", ["c0", "stride"], ["b"], name="pixels"),
                 node("Conv", ["x", "w1"], ["c1"], name="logits"), node("Sigmoid", ["c1"], ["s"], name="scores"),
                 node("Concat", ["b", "s"], ["d"], axis=1, name="both"),
                 node("Transpose", ["d"], ["y"], perm=[0, 2, 3, 1], name="turn")],
                [("x", [1, 3, 8, 8])], [("y", [1, 6, 6, 6])],
                [("w0", weight(4, 3, 3, 3)), ("w1", weight(2, 3, 3, 3, seed=1)), ("stride", np.float32([320]))])
    model = onnx.load(path)
    wanted = outputs(model, x)[0][..., 4:]

    def signal_to_noise(q):
        return np.square(wanted).sum() / np.square(outputs(q, x)[0][..., 4:] - wanted).sum()

    plain, asked, improved, kept = (quantize(folder, path, *more) for more in (
        ["--no-improve"], ["--float-unlike-concat", "--no-improve"], ["--improve"], ["--improve", "--no-float-unlike-concat"]))
    errors = [signal_to_noise(q) for q in (plain, asked, improved, kept)]
    print("boxes and scores: signal to noise of the scores %.3g, Concat in float %.3g, improved %.3g, without %.3g" % tuple(errors))
    assert max(errors[0], errors[3]) < 10 and min(errors[1:3]) > 1000, errors
    for name, more, survives in (("search", [], True), ("searched", ["--no-float-unlike-concat"], False),
                                 ("published", ["--strategy", "incremental"], False)):
        out = folder / name
        done = seqto("tune", path, "--data", folder / "data.npz", "--calibration-samples", 10, "--max-evaluations", 8, "-q",
                     "-o", out, *more)
        assert done.returncode == 0, done.stderr
        assert (signal_to_noise(onnx.load(out / "models" / "full.onnx")) > 1000) == survives, name


def rounded_weights(folder):
    """Weights alone in 8 bits: the same file size and operators, other codes, outputs nearer to the float model's."""
    rng = np.random.default_rng(2)
    mix = np.eye(3) + 0.9  # channels that go along with each other, as those of an image do
    draw = lambda n: np.einsum("ij,njhw->nihw", mix, rng.normal(size=(n, 3, 8, 8))).astype(np.float32)
    x, others = draw(32), draw(64)
    np.savez(folder / "data.npz", x=x)
    node = helper.make_node
    path = save(folder / "model.onnx",
                [node("Conv", ["x", "w0", "b0"], ["t0"], name="first"), node("Relu", ["t0"], ["t1"], name="relu"),
                 node("Conv", ["t1", "w1"], ["t2"], name="second"), node("Flatten", ["t2"], ["t3"], name="flatten"),
                 node("MatMul", ["t3", "w2"], ["y"], name="third")],
                [("x", [1, 3, 8, 8])], [("y", [1, 10])],
                [("w0", weight(16, 3, 3, 3)), ("b0", weight(16, seed=3)), ("w1", weight(16, 16, 3, 3, seed=4)),
                 ("w2", weight(256, 10, seed=5))])
    model = onnx.load(path)
    plain, unasked, learned = (quantize(folder, path, "--mode", "weights", *flags)
                               for flags in (["--no-improve"], [], ["--rounding", "learned"]))
    improved, nearest = (quantize(folder, path, "--mode", "weights", "--improve", *more) for more in ([], ["--rounding", "nearest"]))
    assert improved.SerializeToString() == unasked.SerializeToString()
    assert nearest.SerializeToString() == plain.SerializeToString(), "whoever says so gets it"
    kinds = [[n.op_type for n in q.graph.node] for q in (plain, learned)]
    assert kinds[0] == kinds[1] and "Cast" in kinds[0], kinds
    assert plain.ByteSize() == learned.ByteSize()
    changed = []
    for i in plain.graph.initializer:
        codes = [numpy_helper.to_array(next(j for j in q.graph.initializer if j.name == i.name)) for q in (plain, learned)]
        if codes[0].dtype == np.int8:
            changed.append(not np.array_equal(*codes))
    # The first layer's input is the model's own; it is learned too.
    assert changed == [True] * 3, changed
    for name, data in (("the samples", x), ("others", others)):
        errors = [np.square(outputs(model, data)[0] - outputs(q, data)[0]).mean() for q in (plain, learned)]
        print(f"learned rounding of weights, {name}: squared error {errors[0]:.3g}, learned {errors[1]:.3g}")
        assert errors[1] < errors[0] * (0.5 if data is x else 0.7), (name, errors)


def rounded_blocks(folder):
    """The same in 2 and 4 bits and in blocks that do not come out even, in every form that they are written in."""
    rng = np.random.default_rng(4)
    mix = np.eye(3) + 0.9
    draw = lambda n: np.einsum("ij,njhw->nihw", mix, rng.normal(size=(n, 3, 8, 8))).astype(np.float32)
    x, others = draw(256), draw(128)
    np.savez(folder / "data.npz", x=x)
    node = helper.make_node
    nodes = [node("Conv", ["x", "w0", "b0"], ["t0"], name="first"), node("Relu", ["t0"], ["t1"], name="relu0"),
             node("Conv", ["t1", "w1", "b1"], ["t2"], name="grouped", group=2), node("Relu", ["t2"], ["t3"], name="relu1"),
             node("Flatten", ["t3"], ["t4"], name="flatten"), node("Gemm", ["t4", "w2", "b2"], ["t5"], name="gemm"),
             node("Relu", ["t5"], ["t6"], name="relu2"), node("Gemm", ["t6", "w3", "b3"], ["t7"], name="turned", transB=1),
             node("MatMul", ["t7", "w4"], ["y"], name="product")]
    weights = [("w0", weight(12, 3, 3, 3)), ("b0", weight(12, seed=3)), ("w1", weight(12, 6, 4, 4, seed=4)),
               ("b1", weight(12, seed=5)), ("w2", weight(108, 150, seed=6)), ("b2", weight(150, seed=7)),
               ("w3", weight(140, 150, seed=8)), ("b3", weight(140, seed=9)), ("w4", weight(140, 60, seed=10))]
    path = save(folder / "model.onnx", nodes, [("x", [1, 3, 8, 8])], [("y", [1, 60])], weights, opset=21)
    model = onnx.load(path)
    forms = {"folded": ["--weight-type", "int4", "--int4-format", "folded"],
             "folded, blocks of 20": ["--weight-type", "uint4", "--int4-format", "folded", "--weight-block-size", "20"],
             "MatMulNBits": ["--weight-type", "int4", "--weight-block-size", "32"],
             "MatMulNBits, zero points": ["--weight-type", "uint4", "--weight-block-size", "16"],
             "DequantizeLinear": ["--weight-type", "uint4", "--int4-format", "qdq", "--weight-block-size", "32"],
             "DequantizeLinear, int4": ["--weight-type", "int4", "--int4-format", "qdq", "--weight-block-size", "20"],
             "8 bits, blocks of 20": ["--weight-block-size", "20"]}
    for form, flags in forms.items():
        files = [quantize(folder, path, "--mode", "weights", *flags, *more) for more in (["--no-improve"], ["--rounding", "learned"], ["--rounding", "learned"])]
        plain, learned, again = files
        assert learned.SerializeToString() == again.SerializeToString(), form
        assert [n.SerializeToString() for n in plain.graph.node] == [n.SerializeToString() for n in learned.graph.node], form
        assert plain.ByteSize() == learned.ByteSize(), form
        pairs = zip(plain.graph.initializer, learned.graph.initializer)
        changed = {a.name for a, b in pairs if a.SerializeToString() != b.SerializeToString()}
        biases = {"b0", "b1", "b2", "b3"}
        # The codes of all five weights, and no scale or zero point.
        assert biases <= changed and len(changed) == 9, (form, changed)
        assert not any("scale" in n or "zero" in n for n in changed), (form, changed)
        for name, data in (("the samples", x), ("others", others)):
            errors = [np.square(outputs(model, data)[0] - outputs(q, data)[0]).mean() for q in (plain, learned)]
            print(f"learned rounding, {form}, {name}: squared error {errors[0]:.3g}, learned {errors[1]:.3g}")
            assert errors[1] < errors[0] * (0.6 if data is x else 0.9), (form, name, errors)


def usage(folder):
    path = network(folder / "model.onnx")
    result = seqto("quantize", path, "--ranges", "r.json", "-o", folder / "q.onnx", "--bias-correction", "slow")
    assert result.returncode == 2 and "--bias-correction" in result.stderr, result.stderr
    # Ranges of a model that is rewritten afterwards are not its own.
    result = seqto("quantize", path, "--ranges", "r.json", "-o", folder / "q.onnx", "--center")
    assert result.returncode == 2 and "--center with --ranges" in result.stderr, result.stderr


def main():
    for test in (bias_correction, bias_correction_of_16_bits, types_beside_named_improvers, bias_correction_in_float, centered_channels, refined_ranges, cut_ranges, headroom_of_16_bits, unified_concat, boxes_and_scores, rounded_weights, rounded_blocks, usage):
        with tempfile.TemporaryDirectory() as scratch:
            test(Path(scratch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
