"""float16: constants equal to numpy's float16, models that pass the checker, load, run, and stay near the float model."""

import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.models import save, seqto, weight

R = np.random.default_rng(5)
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


def run(path, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x.astype(TYPES[session.get_inputs()[0].type])})


def written(folder, source, *flags):
    target = folder / "written.onnx"
    result = seqto("quantize", source, "-o", target, "--mode", "float16", *flags)
    assert result.returncode == 0, result.stderr
    onnx.checker.check_model(str(target), full_check=True)
    return target


def rounding(folder):
    """Every float16, the middles between them and their neighbours; and floats at random."""
    halves = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    finite = np.sort(halves[np.isfinite(halves)].astype(np.float32))
    middles = (finite[:-1] + finite[1:]) / 2
    edges = np.concatenate([middles, np.nextafter(middles, np.float32(9e9)), np.nextafter(middles, np.float32(-9e9))])
    with np.errstate(invalid="ignore"):
        noise = R.integers(0, 1 << 32, 200000, dtype=np.uint32).view(np.float32)
        noise = noise[np.isnan(noise) | np.isinf(noise) | (np.abs(noise) < 65504)]
        all_of_them = np.concatenate([halves.astype(np.float32), edges, noise])
    source = save(folder / "add.onnx", [helper.make_node("Add", ["x", "w"], ["y"])], [("x", [1])],
                  [("y", list(all_of_them.shape))], [("w", all_of_them)])
    stored = numpy_helper.to_array(onnx.load(written(folder, source)).graph.initializer[0])
    with np.errstate(over="ignore", invalid="ignore"):
        expected = all_of_them.astype(np.float16)
    same = (stored.view(np.uint16) == expected.view(np.uint16)) | (np.isnan(stored) & np.isnan(expected))
    assert same.all(), all_of_them[~same][:10]


N = helper.make_node
W = ("w", weight(24, 24))
# What goes between two MatMuls: nodes from a [6, 24] to b of the same shape.
MIDDLES = {
    "relu": [N("Relu", ["a"], ["b"])],
    "softmax": [N("Softmax", ["a"], ["b"])],
    "layer_norm": [N("LayerNormalization", ["a", "row", "row"], ["b"])],
    "resize": [N("Unsqueeze", ["a", "zero"], ["u"]), N("Unsqueeze", ["u", "zero"], ["v"]),
               N("Resize", ["v", "", "scales"], ["r"]), N("Squeeze", ["r"], ["b"])],
    "top_k": [N("TopK", ["a", "k"], ["b", "i"])],
    "where": [N("Greater", ["a", "row"], ["g"]), N("Where", ["g", "a", "row"], ["b"])],
    "clip": [N("Clip", ["a", "low", "high"], ["b"])],
    "reduce": [N("ReduceMean", ["a"], ["m"], axes=[1]), N("Sub", ["a", "m"], ["b"])],
    "shape": [N("Shape", ["a"], ["s"]), N("Reshape", ["a", "s"], ["b"])],
    "split": [N("Split", ["a"], ["p", "q"], axis=1), N("Concat", ["q", "p"], ["b"], axis=1)],
    "cast": [N("Cast", ["a"], ["d"], to=onnx.TensorProto.DOUBLE), N("Cast", ["d"], ["b"], to=onnx.TensorProto.FLOAT)],
    "pad": [N("Pad", ["a", "pads"], ["p"]), N("Slice", ["p", "one", "seven", "zero"], ["b"])],
    "cum_sum": [N("CumSum", ["a", "k_one"], ["b"])],
    "min_max": [N("Max", ["a", "row"], ["m"]), N("Min", ["m", "high"], ["b"])],
    "random": [N("RandomNormalLike", ["a"], ["n"], seed=1.0, scale=1e-6), N("Add", ["a", "n"], ["b"])],
    "constant": [N("Constant", [], ["c"], value=numpy_helper.from_array(np.float32([1.5]))), N("Mul", ["a", "c"], ["b"])],
    "loss_of_all": [N("Abs", ["a"], ["e"]), N("Sqrt", ["e"], ["f"]), N("Erf", ["f"], ["h"]), N("Sigmoid", ["h"], ["b"])],
    "lstm": [N("Unsqueeze", ["a", "zero"], ["u"]), N("LSTM", ["u", "lw", "lw"], ["l"], hidden_size=24),
             N("Squeeze", ["l"], ["b"])],
    "batch_norm": [N("BatchNormalization", ["a", "row", "row", "row", "row"], ["b"])],
}
CONSTANTS = [("row", np.abs(weight(24, seed=4)) + 0.1), ("zero", np.int64([0])), ("one", np.int64([1])),
             ("seven", np.int64([7])), ("k", np.int64([24])), ("k_one", np.int64(1)), ("low", np.float32(-3.4e38)),
             ("high", np.float32(3.4e38)), ("pads", np.int64([1, 0, 1, 0])), ("scales", np.float32([1, 1, 1, 1])),
             ("lw", weight(1, 96, 24, seed=6))]


def operators(folder):
    x = R.normal(size=(6, 24)).astype(np.float32)
    for name, middle in MIDDLES.items():
        nodes = [N("MatMul", ["x", "w"], ["a"]), *middle, N("MatMul", ["b", "w"], ["y"])]
        read = {i for n in nodes for i in n.input}
        source = save(folder / "float.onnx", nodes, [("x", [6, 24])], [("y", [6, 24])],
                      [W, *[c for c in CONSTANTS if c[0] in read]])
        expected = run(source, x)[0]
        for flags in ([], ["--float16-compute"], ["--float16-compute", "--float16-io"]):
            target = written(folder, source, *flags)
            got = run(target, x)[0]
            assert (got.dtype == np.float16) == ("--float16-io" in flags)
            error = np.abs(expected - got.astype(np.float32)).max() / np.abs(expected).max()
            assert error < 0.02, (name, flags, error)
            producer = {o: n for n in onnx.load(target).graph.node for o in n.output}
            for node in producer.values():
                if node.op_type != "Cast" or not node.input[0] in producer or name == "cast":
                    continue
                assert producer[node.input[0]].op_type != "Cast", (name, flags, node.name)


def outputs_of_float_layers(folder):
    """One is an output and read by a layer in float16."""
    source = save(folder / "float.onnx", [N("MatMul", ["x", "w"], ["y"]), N("MatMul", ["y", "w"], ["z"])], [("x", [6, 24])],
                  [("y", [6, 24]), ("z", [6, 24])], [W])
    x = R.normal(size=(6, 24)).astype(np.float32)
    found = run(written(folder, source, "--float16-compute", "--float16-io", "--exclude", "node_0"), x)
    for wanted, got in zip(run(source, x), found):
        assert got.dtype == np.float16
        assert np.abs(wanted - got.astype(np.float32)).max() < 0.02 * np.abs(wanted).max()


def refused(folder):
    source = save(folder / "float.onnx", [N("MatMul", ["x", "w"], ["y"])], [("x", [6, 24])], [("y", [6, 24])], [W])
    for flags, said in ((("--float16-max", -5), "-5 as the largest"), (("--float16-max", "1e9"), "65504 at most"),
                        (("--float16-max", "nan"), "nan as the largest"),
                        (("--float16-io",), "--float16-io without --float16-compute")):
        result = seqto("quantize", source, "-o", folder / "written.onnx", "--mode", "float16", *flags)
        assert result.returncode == 2 and said in result.stderr, (flags, result.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        rounding(pathlib.Path(folder))
        operators(pathlib.Path(folder))
        outputs_of_float_layers(pathlib.Path(folder))
        refused(pathlib.Path(folder))
    print("ok")


if __name__ == "__main__":
    main()
