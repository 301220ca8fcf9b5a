"""A small language model whose head reads the embedding's table through a Transpose: every mode stores the table once, 4 bits lose what
onnxruntime's own quantizer loses, which leaves the table in float32, and take half of its bytes; and `kl` of rows of class scores is numpy's, over positions."""

import json
import os
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime.capi import _pybind_state as state
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.models import seqto

VOCABULARY, HIDDEN, TOKENS = 640, 96, 12
R = np.random.default_rng(7)


def model(path):
    def matrix(*shape):
        return R.normal(scale=shape[0]**-0.5, size=shape).astype(np.float32)

    weights = {"table": R.normal(size=(VOCABULARY, HIDDEN)).astype(np.float32), "up": matrix(HIDDEN, 192), "down": matrix(192, HIDDEN)}
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"], name="embed"),
        helper.make_node("MatMul", ["e", "up"], ["u"], name="up_proj"),
        helper.make_node("Tanh", ["u"], ["a"], name="act"),
        helper.make_node("MatMul", ["a", "down"], ["d"], name="down_proj"),
        helper.make_node("Add", ["e", "d"], ["h"], name="residual"),
        helper.make_node("Transpose", ["table"], ["t"], name="turn", perm=[1, 0]),
        helper.make_node("MatMul", ["h", "t"], ["raw"], name="head"),
        helper.make_node("Div", ["raw", "temperature"], ["logits"], name="scale"),
    ]
    weights["temperature"] = np.float32(12)
    graph = helper.make_graph(nodes, "lm", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", TOKENS])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", TOKENS, VOCABULARY])],
                              [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def outputs(path, ids):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"ids": row[None]})[0] for row in ids])


def log_shares(logits):
    x = logits.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def kl(reference, found):
    a, b = log_shares(reference), log_shares(found)
    return (np.exp(a) * (a - b)).sum(-1)  # of each position


def stored(path):
    """Bytes of the table in any form."""
    return sum(len(i.raw_data) for i in onnx.load(path).graph.initializer if i.name.startswith("table") and len(i.raw_data) > VOCABULARY * HIDDEN // 3)


def quantized(source, target, *flags):
    result = seqto("quantize", source, "-o", target, "--json", *flags)
    assert result.returncode == 0, result.stderr
    onnx.checker.check_model(str(target), full_check=True)
    return json.loads(result.stdout)


def stored_once(folder, source, data):
    count, wide = VOCABULARY * HIDDEN, {}
    for name, flags, most in (("weights", [], 1), ("uint8", ["--weight-type", "uint8"], 1), ("float16", [], 2), ("dynamic", [], 1),
                              ("static", ["--data", data], 1), ("qoperator", ["--data", data, "--format", "qoperator"], 1),
                              ("nbits", ["--weight-bits", 4], 1), ("qdq", ["--weight-bits", 4, "--int4-format", "qdq"], 1),
                              ("folded", ["--weight-bits", 4, "--int4-format", "folded"], 1), ("two", ["--weight-bits", 2], 1)):
        mode = {"uint8": "weights", "nbits": "weights", "qdq": "weights", "folded": "weights", "two": "weights", "qoperator": "static"}
        wide[name] = folder / f"{name}.onnx"
        quantized(source, wide[name], "--mode", mode.get(name, name), *flags)
        assert stored(wide[name]) == most * count, (name, stored(wide[name]) / count)
        assert os.path.getsize(wide[name]) < os.path.getsize(source)
    return wide


def plans(folder, source, ids, reference):
    """A plan of 4 bits for all its readers shares the codes; one that decides differently stores no second copy, and says so."""
    plan, target = folder / "plan.json", folder / "plan.onnx"
    for schemes, most, notes in (({"embed": "int4_weights", "head": "int4_weights"}, 0.5, 0), ({"embed": "int8_weights"}, 4, 1),
                                 ({"head": "int4_weights"}, 4, 1), ({"embed": "float16", "head": "int4_weights"}, 2, 1)):
        for form in ("matmulnbits", "qdq", "folded"):
            plan.write_text(json.dumps({"schema_version": 1, "schemes": schemes}))
            found = quantized(source, target, "--plan", plan, *(["--int4-format", form] if "int4_weights" in schemes.values() else []),
                              "--weight-block-size", 32)
            assert stored(target) == most * VOCABULARY * HIDDEN, (schemes, form, stored(target))
            assert len(found["notes"]) == notes, found["notes"]
            assert all("table" in note for note in found["notes"])
            assert kl(reference, outputs(target, ids)).mean() < 0.02


def onnxruntimes(source, target, symmetric, block=32):
    """What onnxruntime's MatMulNBits quantizer writes, with its kernel: it takes MatMuls that read an initializer themselves."""
    model = onnx.load(source)
    arrays = {i.name: i for i in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != "MatMul" or node.input[1] not in arrays:
            continue
        name = node.input[1]
        w = numpy_helper.to_array(arrays[name])
        k, n = w.shape
        codes, scales = np.zeros((n, k // block, block // 2), np.uint8), np.zeros((n, k // block), np.float32)
        zeros = np.zeros((n, -(-k // block // 2)), np.uint8)
        state.quantize_matmul_4bits(codes, w, scales, zeros, block, n, k, symmetric)
        added = [("_Q4", codes), ("_scales", scales)] + ([] if symmetric else [("_zeros", zeros)])
        model.graph.initializer.remove(arrays[name])
        model.graph.initializer.extend(numpy_helper.from_array(a, name + suffix) for suffix, a in added)
        node.CopyFrom(helper.make_node("MatMulNBits", [node.input[0], *(name + suffix for suffix, _ in added)], node.output, name=node.name,
                                       domain="com.microsoft", K=k, N=n, bits=4, block_size=block))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, target)


def no_worse_than_onnxruntime(folder, source, ids, reference):
    """It leaves the table in float32: ours loses beside what its file loses no more than the table's 8 bits cost alone."""
    plan, table = folder / "table.json", folder / "table.onnx"
    plan.write_text(json.dumps({"schema_version": 1, "schemes": {"embed": "int8_weights", "head": "int8_weights"}}))
    quantized(source, table, "--plan", plan)
    of_table = kl(reference, outputs(table, ids)).mean()
    for symmetric in (False, True):
        ours, theirs = folder / "ours.onnx", folder / "theirs.onnx"
        found = quantized(source, ours, "--mode", "weights", "--weight-bits", 4, "--weight-block-size", 32, "--symmetric-weights",
                          str(symmetric).lower())
        assert any("8 bits" in note for note in found["notes"]), found
        onnxruntimes(source, theirs, symmetric)
        codes = [{tuple(numpy_helper.to_array(i).shape): i.raw_data for i in onnx.load(path).graph.initializer if i.data_type == TensorProto.UINT8}
                 for path in (ours, theirs)]
        assert codes[1].items() <= codes[0].items() and codes[1], "codes and zero points are onnxruntime's, but of the table, which it leaves as it is"
        loss = [kl(reference, outputs(path, ids)).mean() for path in (ours, theirs)]
        assert loss[0] <= 1.01 * (loss[1] + of_table) and of_table < 0.1 * loss[1], (loss, of_table)
        assert os.path.getsize(ours) < 0.45 * os.path.getsize(theirs), os.path.getsize(ours) / os.path.getsize(theirs)


def figures(source, candidate, data, ids, reference):
    """Of `check` and of numpy; intervals are by sample."""
    result = seqto("check", candidate, "--reference", source, "--data", data, "--max-loss", 100, "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)["figures"]
    other = outputs(candidate, ids)
    each = kl(reference, other)
    assert abs(found["kl"]["value"] - each.mean()) < 1e-6 * each.mean() + 1e-10, (found["kl"], each.mean())
    flipped = reference.argmax(-1) != other.argmax(-1)
    assert abs(found["top1_disagreement"]["value"] - flipped.mean()) < 1e-12
    low, high = found["kl"]["interval"]
    error = each.mean(1).std(ddof=1) / len(each)**0.5  # of means over the samples: rows of one sample are not independent
    assert abs(low - each.mean() + 1.96 * error) < 0.6 * error and abs(high - each.mean() - 1.96 * error) < 0.6 * error


def search(folder, source, data):
    result = seqto("tune", source, "--data", data, "-o", folder / "out", "--max-evaluations", 12, "--calibration-samples", 8)
    assert result.returncode == 0, result.stderr
    summary = json.loads((folder / "out/summary.json").read_text())
    assert summary["objectives"][0] == "kl", summary["objectives"]
    for path in (folder / "out/models").glob("*.onnx"):
        count = VOCABULARY * HIDDEN
        assert stored(path) in (count, 2 * count, 4 * count, count // 2), (path, stored(path) / count)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        source, data = folder / "lm.onnx", folder / "ids.npz"
        model(source)
        ids = R.integers(0, VOCABULARY, (24, TOKENS))
        np.savez(data, ids=ids)
        reference = outputs(source, ids)
        wide = stored_once(folder, source, data)
        plans(folder, source, ids, reference)
        no_worse_than_onnxruntime(folder, source, ids, reference)
        for candidate in ("weights", "dynamic", "nbits"):
            figures(source, wide[candidate], data, ids, reference)
        search(folder, source, data)
    print("ok")


if __name__ == "__main__":
    main()
