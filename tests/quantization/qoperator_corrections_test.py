"""Corrections in QOperator form: outputs nearer to the float model's than without. Each form is looked at as it is
written. Where the same tensors are quantized, codes and biases are those of the QDQ file, layer by layer."""
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing.models import save, seqto, weight  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))
import cases  # noqa: E402

CORRECTIONS = (["--bias-correction", "fast"], ["--bias-correction", "full"], ["--rounding", "learned"],
               ["--rounding", "learned", "--bias-correction", "full"])
# The operator of a layer, and where its weight and bias stand.
OPERATORS = {"QLinearConv": (3, 8), "QGemm": (3, 6), "QLinearMatMul": (3, None)}


def network(path):
    """A convolution with a bias, one without, a Gemm that shares the first one's bias, and a MatMul, which has none."""
    node = helper.make_node
    nodes = [node("Conv", ["x", "w0", "b0"], ["stem_out"], name="stem", pads=[1, 1, 1, 1]),
             node("Relu", ["stem_out"], ["t0"], name="relu0"),
             node("Conv", ["t0", "w1"], ["depthwise_out"], name="depthwise", group=8, pads=[1, 1, 1, 1]),
             node("Relu", ["depthwise_out"], ["t1"], name="relu1"),
             node("GlobalAveragePool", ["t1"], ["t2"], name="pool"),
             node("Flatten", ["t2"], ["t3"], name="flatten"),
             node("Gemm", ["t3", "w2", "b0"], ["t4"], name="gemm"),
             node("MatMul", ["t4", "w3"], ["y"], name="matmul")]
    sizes = np.geomspace(0.02, 1, 8, dtype=np.float32)
    weights = [("w0", weight(8, 3, 3, 3) * sizes[:, None, None, None]), ("b0", weight(8, seed=3) * sizes),
               ("w1", weight(8, 1, 3, 3, seed=4) * sizes[:, None, None, None]), ("w2", weight(8, 8, seed=5)),
               ("w3", weight(8, 5, seed=6))]
    save(path, nodes, [("x", [1, 3, 8, 8])], [("y", [1, 5])], weights, opset=17)


def stored(model):
    """Codes of weight and bias by layer, the bias None where there is none; of both forms."""
    initializers = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    codes = {n.output[0]: initializers[n.input[0]] for n in model.graph.node
             if n.op_type == "DequantizeLinear" and n.input[0] in initializers}
    layers = {}
    for n in model.graph.node:
        if n.op_type in OPERATORS:
            at, bias = OPERATORS[n.op_type]
            name = n.input[bias] if bias is not None and len(n.input) > bias else ""
            layers[n.name.removesuffix("_quant")] = initializers[n.input[at]], initializers[name] if name else None
        elif len(n.input) > 1 and n.input[1] in codes:
            layers[n.name] = codes[n.input[1]], codes.get(n.input[2]) if len(n.input) > 2 else None
    return layers


def outputs(path, x):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.stack([session.run(None, {name: v[None]})[0].reshape(-1) for v in x]).astype(np.float64)


def kl(reference, candidate):
    log = lambda z: z - z.max(1, keepdims=True) - np.log(np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True))
    p, q = log(reference), log(candidate)
    return float((np.exp(p) * (p - q)).sum(1).mean())


def check(folder, model, x, evaluation, common, same=CORRECTIONS):
    """`same`: the corrections that find the same in both forms."""
    data, files = folder / "data.npz", {}
    np.savez(data, **{onnx.load(model).graph.input[0].name: x})
    reference, losses = outputs(model, evaluation), {}
    for flags in ([], *CORRECTIONS):
        for form in ("qdq", "qoperator"):
            files[form] = folder / f"{form}.onnx"
            result = seqto("quantize", model, "--data", data, "-o", files[form], "--format", form, *common, *flags)
            assert result.returncode == 0, result.stderr
        pairs, operators = (stored(onnx.load(files[f])) for f in ("qdq", "qoperator"))
        both = set(pairs) & set(operators)
        assert len(both) == len(operators) and len(both) > 3, (sorted(pairs), sorted(operators))
        for layer in both:
            for theirs, ours in zip(pairs[layer], operators[layer]):
                assert (theirs is None) == (ours is None), (flags, layer)
                if theirs is None:
                    continue
                assert theirs.dtype == ours.dtype and theirs.shape == ours.shape, (flags, layer)
                if flags in same or not flags:
                    assert np.array_equal(theirs, ours), (flags, layer, theirs, ours)
        onnx.checker.check_model(str(files["qoperator"]))
        losses[" ".join(flags) or "plain"] = kl(reference, outputs(files["qoperator"], evaluation))
    return losses


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        model, x = folder / "model.onnx", np.random.default_rng(1).normal(size=(48, 3, 8, 8)).astype(np.float32)
        network(model)
        for common in ([], ["--activation-type", "uint8", "--per-channel"]):
            losses = check(folder, model, x[:24], x[24:], common)
            print("a small network", *common, losses)
            assert losses["--bias-correction full"] < losses["plain"], losses
            assert losses["--rounding learned --bias-correction full"] < losses["plain"], losses
        plan = {"schema_version": 1, "schemes": {n: "int8" for n in ("stem", "relu0", "depthwise", "gemm", "matmul")}}
        plan["schemes"] |= {"stem": {"scheme": "int8", "bias_correction": True}, "gemm": {"scheme": "int8", "rounding": "learned"}}
        (folder / "plan.json").write_text(json.dumps(plan))
        result = seqto("quantize", model, "--data", folder / "data.npz", "-o", folder / "q.onnx",
                       "--format", "qoperator", "--plan", folder / "plan.json")
        assert result.returncode == 0, result.stderr
    root = os.environ.get("SEQTO_CASES_DIR", "")
    if not os.path.isdir(root):
        print(f"skipped: the real model, SEQTO_CASES_DIR '{root}' is not there")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        case = Path(root) / "resnet20"
        info = json.loads((case / "case.json").read_text())
        model = onnx.load(case / info["model"])
        name = model.graph.input[0].name
        x = np.concatenate([s[name] for s in cases.inputs(case, info, model, 80)])
        uint8 = ["--activation-type", "uint8", "--per-channel"]
        # An operator between the layers rounds in one form and not in the other: they read other inputs.
        losses = check(Path(scratch), case / info["model"], x[:30], x[30:], uint8, same=CORRECTIONS[:1])
        print("resnet20", losses)
        assert all(losses[" ".join(flags)] < losses["plain"] for flags in CORRECTIONS[1:]), losses
    return 0


if __name__ == "__main__":
    sys.exit(main())
