"""Plans whose layers have fields: onnxruntime's tensor overrides say the same; all calibrators and corrections run."""

import json
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import helper
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "differential"))
from canonical import canonical
from testing.models import save, seqto, weight

LAYERS = ["conv_a", "relu_a", "conv_b", "scale", "pool", "flatten", "gemm"]


def network(path):
    nodes = [helper.make_node("Conv", ["x", "wa", "ba"], ["a"], "conv_a", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["a"], ["ar"], "relu_a"),
             helper.make_node("Conv", ["ar", "wb", "bb"], ["b"], "conv_b", group=8),
             helper.make_node("Mul", ["b", "factor"], ["s"], "scale"),
             helper.make_node("GlobalAveragePool", ["s"], ["p"], "pool"),
             helper.make_node("Flatten", ["p"], ["f"], "flatten"),
             helper.make_node("Gemm", ["f", "wg", "bg"], ["y"], "gemm", transB=1)]
    weights = [("wa", weight(8, 3, 3, 3)), ("ba", weight(8, seed=1)), ("wb", weight(8, 1, 3, 3, seed=2)),
               ("bb", weight(8, seed=3)), ("factor", weight(1, 8, 6, 6, seed=4)), ("wg", weight(40, 8, seed=5)),
               ("bg", weight(40, seed=6))]
    return save(path, nodes, [("x", [1, 3, 8, 8])], [("y", [1, 40])], weights, opset=21, ir_version=10)


class Reader(CalibrationDataReader):
    def __init__(self, samples):
        self.left = iter([{"x": s[None]} for s in samples])

    def get_next(self):
        return next(self.left, None)


def quantized(folder, fields, *flags):
    schemes = {layer: {"scheme": "int8", **fields[layer]} if layer in fields else "int8" for layer in LAYERS}
    (folder / "plan.json").write_text(json.dumps({"schemes": schemes}))
    result = seqto("quantize", folder / "float.onnx", "-o", folder / "ours.onnx", "--plan", folder / "plan.json",
                   "--data", folder / "data.npz", *flags)
    assert result.returncode == 0, result.stderr
    model = onnx.load(folder / "ours.onnx")
    onnx.checker.check_model(model, full_check=True)
    return model


def theirs(folder, samples, overrides):
    quantize_static(folder / "float.onnx", folder / "theirs.onnx", Reader(samples), quant_format=QuantFormat.QDQ,
                    activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
                    extra_options={"TensorQuantOverrides": overrides})
    return onnx.load(folder / "theirs.onnx")


def same_as_overrides(folder, samples):
    """Each field of a layer as the overrides of the tensors that it reads and writes."""
    per_channel = {"axis": 0}
    cases = [
        ({"conv_a": {"per_channel": True}}, {"wa": [per_channel]}),
        ({"gemm": {"per_channel": True, "reduce_range": True}}, {"wg": [{"axis": 0, "reduce_range": True}]}),
        ({"conv_b": {"reduce_range": True}}, {"wb": [{"reduce_range": True}]}),
        ({"conv_a": {"symmetric_weights": False}}, {"wa": [{"symmetric": False}]}),
        ({"gemm": {"weight_type": "int16"}}, {"wg": [{"quant_type": QuantType.QInt16}]}),
        ({"scale": {"activation_type": "uint8"}},
         {t: [{"quant_type": QuantType.QUInt8}] for t in ("b", "factor", "s")}),
        ({"conv_b": {"activation_type": "uint16"}, "relu_a": {"activation_type": "uint16"}},
         {t: [{"quant_type": QuantType.QUInt16}] for t in ("a", "ar", "b")}),
        ({"gemm": {"symmetric_activations": True}},
         {t: [{"quant_type": QuantType.QInt8, "symmetric": True}] for t in ("f", "y")}),
        ({"conv_a": {"per_channel": True}, "gemm": {"activation_type": "uint16", "weight_type": "uint8"}},
         {"wa": [per_channel], "wg": [{"quant_type": QuantType.QUInt8}], "f": [{"quant_type": QuantType.QUInt16}],
          "y": [{"quant_type": QuantType.QUInt16}]}),
    ]
    for fields, overrides in cases:
        ours, other = canonical(quantized(folder, fields)), canonical(theirs(folder, samples, overrides))
        for part in ("outputs", "nodes", "initializers", "inputs"):
            assert getattr(ours, part) == getattr(other, part), (fields, part)
    assert canonical(quantized(folder, {})).nodes == canonical(theirs(folder, samples, {})).nodes


def scale_of(model, tensor):
    return float(next(onnx.numpy_helper.to_array(i) for i in model.graph.initializer if i.name == tensor + "_scale"))


def calibrators(folder):
    """A layer's method gives its tensors the ranges of that calibration, and no other's."""
    plain = quantized(folder, {})
    for method, flags in [("percentile", []), ("percentile:90", ["--percentile", "90"]), ("mse", []),
                          ("moving_average", [])]:
        whole = quantized(folder, {}, "--method", method.split(":")[0], *flags)
        single = quantized(folder, {"conv_a": {"method": method}})
        assert scale_of(single, "x") == scale_of(whole, "x") != scale_of(plain, "x"), method
        assert scale_of(single, "y") == scale_of(plain, "y")
    mixed = quantized(folder, {"conv_a": {"method": "minmax"}}, "--method", "percentile")
    assert scale_of(mixed, "x") == scale_of(plain, "x") and scale_of(mixed, "y") != scale_of(plain, "y")


def constant(model, name):
    return next(onnx.numpy_helper.to_array(i) for i in model.graph.initializer if i.name == name)


def corrections(folder):
    """Seen in the biases: on so few samples learned rounding leaves the codes where they are."""
    plain = quantized(folder, {})

    def changed(fields, *flags):
        model = quantized(folder, fields, *flags)
        return [b for b in ("ba", "bb", "bg")
                if (constant(model, b + "_quantized") != constant(plain, b + "_quantized")).any()]

    assert changed({"gemm": {"rounding": "learned"}}) == ["bg"]
    assert changed({"conv_b": {"bias_correction": True}}) == ["bb"]
    assert changed({"gemm": {"rounding": "learned"}, "conv_b": {"bias_correction": True}}) == ["bb", "bg"]
    assert changed({"gemm": {"rounding": "nearest"}}, "--rounding", "learned") == ["ba", "bb"]
    assert changed({"conv_b": {"bias_correction": False}}, "--bias-correction", "full") == ["ba", "bg"]


def shared_bias(folder):
    """Each layer has its own corrected bias, and the one that both read is not left over."""
    save(folder / "shared.onnx", [helper.make_node("Conv", ["x", "wa", "b"], ["a"], "conv_a"),
                                  helper.make_node("Relu", ["a"], ["r"], "relu"),
                                  helper.make_node("Conv", ["r", "wb", "b"], ["y"], "conv_b")],
         [("x", [1, 3, 8, 8])], [("y", [1, 8, 4, 4])],
         [("wa", weight(8, 3, 3, 3)), ("wb", weight(8, 8, 3, 3, seed=1)), ("b", weight(8, seed=2))])
    field = {"scheme": "int4_weights", "bias_correction": True}
    (folder / "plan.json").write_text(json.dumps({"schemes": {"conv_a": field, "conv_b": field}}))
    result = seqto("quantize", folder / "shared.onnx", "-o", folder / "ours.onnx", "--plan", folder / "plan.json",
                   "--data", folder / "data.npz")
    assert result.returncode == 0, result.stderr
    graph = onnx.load(folder / "ours.onnx").graph
    biases = [n.input[2] for n in graph.node if n.op_type == "Conv"]
    assert len(set(biases)) == 2, biases
    assert {i.name for i in graph.initializer} <= {name for n in graph.node for name in n.input}


def refusals(folder):
    def fails(schemes, code, words, *flags):
        (folder / "plan.json").write_text(json.dumps({"schemes": schemes}))
        result = seqto("quantize", folder / "float.onnx", "-o", folder / "no.onnx", "--plan", folder / "plan.json",
                       *flags)
        assert result.returncode == code and words in result.stderr, (result.returncode, result.stderr)
        assert not (folder / "no.onnx").exists()

    data = ["--data", folder / "data.npz"]
    fails({"gemm": {"scheme": "int8", "per_chanel": True}}, 3, "per_chanel", *data)
    fails({"gemm": {"scheme": "float16", "bits": 4}}, 2, "bits", *data)
    fails({"gemm": {"scheme": "int8", "method": "median"}}, 2, "median", *data)
    fails({"gemm": {"scheme": "int8", "method": "mse"}}, 2, "--data")
    fails({"gemm": {"scheme": "int8", "rounding": "learned"}}, 2, "--data")
    fails({"gemm": {"scheme": "int8", "activation_type": "uint8"}}, 2, "QOperator", "--format", "qoperator", *data)


def runs(folder, samples):
    """Any mixture is a model that the runtime loads."""
    rng = np.random.default_rng(3)
    choices = {"weight_type": ["int8", "uint8", "int16", "int4"], "per_channel": [True, False],
               "activation_type": ["uint8", "uint16", "int16"], "symmetric_activations": [True, False],
               "weight_clipping": ["mse", "none"], "method": ["percentile", "mse"], "reduce_range": [True, False]}
    for _ in range(20):
        fields = {}
        for layer in LAYERS:
            fields[layer] = {k: v[rng.integers(len(v))] for k, v in choices.items() if rng.random() < 0.3}
            if fields[layer].get("weight_type") == "uint8":
                fields[layer]["activation_type"] = "uint8"
        model = quantized(folder, fields).SerializeToString()
        session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        assert np.isfinite(session.run(None, {"x": samples[:1]})[0]).all(), fields


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        network(folder / "float.onnx")
        samples = np.random.default_rng(7).standard_t(3, size=(16, 3, 8, 8)).astype(np.float32)
        np.savez(folder / "data.npz", x=samples)
        same_as_overrides(folder, samples)
        calibrators(folder)
        corrections(folder)
        shared_bias(folder)
        refusals(folder)
        runs(folder, samples)
    print("ok")


if __name__ == "__main__":
    main()
