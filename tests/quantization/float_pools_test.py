"""A MaxPool that is left in float between a float layer and 8 bits stays one in the runtime, which would make a slow one of
bytes of it (D55), and the outputs are what they are without the Clip that keeps it."""
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing.models import save, seqto, weight  # noqa: E402

node = helper.make_node
STEM = ["--exclude", "stem", "--exclude", "act", "--exclude", "pool"]


def model_with(path, opset, between=None):
    nodes = [node("Conv", ["x", "w", "b"], ["c"], name="stem", pads=[1] * 4), node("LeakyRelu", ["c"], ["r"], name="act", alpha=0.1),
             node("MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2])]
    if between:
        nodes.append(node(between, ["p"], ["m"], name="between", perm=[0, 1, 3, 2]))
    nodes.append(node("Conv", ["m" if between else "p", "v"], ["y"], name="next"))
    return save(path, nodes, [("x", [1, 3, 16, 16])], [("y", None)], [("w", weight(8, 3, 3, 3, seed=1)), ("b", weight(8, seed=2)),
                                                                ("v", weight(8, 8, 1, 1, seed=3))], opset=opset, ir_version=8)


def session(path, level=ort.GraphOptimizationLevel.ORT_ENABLE_ALL, optimized=None):
    options = ort.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4, level
    if optimized:
        options.optimized_model_filepath = str(optimized)
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def pools_bytes(path, optimized):
    """Whether the runtime's MaxPool reads what a QuantizeLinear wrote; whether a Clip is left."""
    session(path, optimized=optimized)
    graph = onnx.load(optimized).graph
    writers = {o: n for n in graph.node for o in n.output}
    pool = next(n for n in graph.node if "MaxPool" in n.op_type)
    source = writers[pool.input[0]]
    while source.op_type in ("Transpose", "ReorderOutput"):
        source = writers[source.input[0]]
    return source.op_type == "QuantizeLinear", any(n.op_type == "Clip" for n in graph.node)


def main():
    x = np.random.default_rng(0).normal(size=(8, 3, 16, 16)).astype(np.float32)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, output, plain = folder / "data.npz", folder / "q.onnx", folder / "plain.onnx"
        np.savez(data, x=x)
        made = 0
        for opset in (13, 17, 21):
            for activations in ("uint8", "int8"):
                for form in ("qdq", "qoperator"):
                    for between in (None, "Transpose"):
                        model = model_with(folder / "model.onnx", opset, between)
                        flags = ["--data", data, "--activation-type", activations, "--format", form, *STEM,
                                 *(["--exclude", "between"] if between else [])]
                        what = (opset, activations, form, between)
                        for path, more in ((output, []), (plain, ["--compat", "onnxruntime"])):
                            result = seqto("quantize", model, *flags, "-o", path, *more)
                            assert result.returncode == 0, (what, result.stderr)
                            onnx.checker.check_model(onnx.load(path))
                        assert form == "qoperator" or pools_bytes(plain, folder / "o.onnx")[0], (what, "the runtime no longer does this: D55 can go")
                        assert pools_bytes(output, folder / "o.onnx") == (False, False), what
                        runs = [session(p, level).run(None, {"x": x[:1]})[0] for p in (output, plain)
                                for level in (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)]
                        # Unoptimized the two are the same; optimized one pools what was rounded, the other rounds what was pooled.
                        assert np.array_equal(runs[0], runs[2]), what
                        assert np.allclose(runs[1], runs[0], atol=0.05 * np.ptp(runs[0])), what
                        made += 1
        explained = seqto("quantize", model_with(folder / "model.onnx", 17), "--data", data, "-o", output, *STEM, "--explain")
        assert "D55" in explained.stdout, explained.stdout
        # Nothing to keep: a pool that is quantized, and one behind a quantized layer.
        model = model_with(folder / "model.onnx", 17)
        for case, flags in {"all": [], "behind": ["--exclude", "pool"]}.items():
            result = seqto("quantize", model, "--data", data, "-o", output, *flags)
            assert result.returncode == 0 and "D55" not in result.stderr, (case, result.stderr)
            assert all(n.op_type != "Clip" for n in onnx.load(output).graph.node), case
    print(f"{made} models: the pool behind a float stem stays float, and the Clip is gone when they run")


if __name__ == "__main__":
    main()
