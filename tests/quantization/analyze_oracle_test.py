"""`seqto analyze` against onnxruntime's qdq_loss_debug on two real models: the same samples, figures within 1e-3.

Also the published order: half the normalised xmodel_err plus half the normalised qdq_err, descending.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import QuantFormat, QuantType, qdq_loss_debug, quantize_static

sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))
import cases  # noqa: E402  (also silences onnxruntime)

SAMPLES = 10
# Tensors that are equal get a figure that only says "no difference"; it depends on the smallest norm taken.
NO_DIFFERENCE = 120.0


def oracle(model, quantized, samples, scratch):
    """qdq_err and xmodel_err of every activation, SQNR of every weight, as onnxruntime's debugger gives them."""
    seen = []
    for path in (model, quantized):
        augmented = str(scratch / ("augmented_" + path.name))
        qdq_loss_debug.modify_model_output_intermediate_tensors(str(path), augmented)
        seen.append(qdq_loss_debug.collect_activations(augmented, cases.Samples(samples)))
    matching = qdq_loss_debug.create_activation_matching(seen[1], seen[0])
    weights = qdq_loss_debug.create_weight_matching(str(model), str(quantized))
    return qdq_loss_debug.compute_activation_error(matching), qdq_loss_debug.compute_weight_error(weights)


def close(expected, actual, what):
    if expected > NO_DIFFERENCE and actual > NO_DIFFERENCE:
        return
    assert abs(expected - actual) <= 1e-3 * max(1.0, abs(expected)), f"{what}: {expected} expected, {actual} found"


def published_scores(activations):
    norm = lambda v: (v - v.min()) / max(v.max() - v.min(), 1e-12)
    names = list(activations)
    figures = lambda key: np.array([activations[n][key] for n in names])
    return dict(zip(names, 0.5 * norm(figures("xmodel_err")) + 0.5 * norm(figures("qdq_err"))))


def check(name, root, scratch):
    folder = Path(root) / name
    case = json.loads((folder / "case.json").read_text())
    model = onnx.load(folder / case["model"])
    for i, node in enumerate(model.graph.node):
        node.name = node.name or f"node_{i}"
    samples = cases.inputs(folder, case, model, SAMPLES)
    float_path, q_path, data = scratch / "float.onnx", scratch / "quantized.onnx", scratch / "data.npz"
    onnx.save(model, float_path)
    np.savez(data, x=np.concatenate([next(iter(s.values())) for s in samples]))
    quantize_static(str(float_path), str(q_path), cases.Samples(samples), quant_format=QuantFormat.QDQ, weight_type=QuantType.QInt8)
    activations, weights = oracle(float_path, q_path, samples, scratch)
    for extra in (["--quantized", str(q_path)], []):  # given, and made by seqto itself
        command = [os.environ["SEQTO_BINARY"], "analyze", str(float_path), "--data", str(data), "--json", *extra]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        ours = {e["tensor"]: e for e in found["activations"]}
        assert set(ours) == set(activations), f"{name}: {set(ours) ^ set(activations)} on one side only"
        scores = published_scores(activations)
        for tensor, errors in activations.items():
            for key in ("qdq_err", "xmodel_err"):
                close(errors[key], ours[tensor][key], f"{name} {key} of {tensor}")
            assert abs(scores[tensor] - ours[tensor]["score"]) < 2e-3, f"{name} score of {tensor}"
        sqnr = {e["tensor"]: e["sqnr"] for e in found["weights"]}
        assert set(sqnr) == set(weights), f"{name} weights: {set(sqnr) ^ set(weights)} on one side only"
        for tensor, value in weights.items():
            close(float(value), sqnr[tensor], f"{name} SQNR of {tensor}")
        order = [e["score"] for e in found["activations"]]
        assert order == sorted(order, reverse=True), f"{name}: activations are not in the published order"
    print(f"{name}: {len(activations)} activations, {len(weights)} weights")


def main():
    root = os.environ.get("SEQTO_CASES_DIR", "")
    if not os.path.isdir(root):
        print(f"skipped: SEQTO_CASES_DIR '{root}' is not there")
        return 77
    for name in ("resnet20", "dscnn_kws"):
        with tempfile.TemporaryDirectory() as scratch:
            check(name, root, Path(scratch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
