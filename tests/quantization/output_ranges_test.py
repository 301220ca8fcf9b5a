"""A tensor that a Relu or Clip reads, and the graph's caller or a body too, keeps its negative values in static int8 (D61);
files of --compat onnxruntime have onnxruntime's range there."""
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing.models import arrays, node, save, seqto, weight  # noqa: E402

WEIGHTS = [("w", weight(8, 3, 3, 3, seed=1)), ("v", weight(8, 8, 1, 1, seed=3)), ("least", np.float32(0)), ("most", np.float32(6))]


def outputs_of(path, x):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})


def scale_of(path, tensor):
    graph = onnx.load(path).graph
    constants = {w.name: numpy_helper.to_array(w) for w in graph.initializer}
    pair = next(n for n in graph.node if n.op_type == "QuantizeLinear" and n.input[0].split("_QuantizeLinear")[0] == tensor)
    return constants[pair.input[1]].item()


class Reader(CalibrationDataReader):
    def __init__(self, file):
        self.samples = iter([{"x": x[None]} for x in np.load(file)["x"]])

    def get_next(self):
        return next(self.samples, None)


class Ranges(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        self.data = arrays(self.dir / "x.npz", shape=(3, 16, 16))

    def model(self, clip, body=False):
        clip_inputs = ["c", "least", "most"] if clip == "Clip" else ["c"]
        nodes = [node("Conv", ["x", "w"], ["c"]), node(clip, clip_inputs, ["r"]), node("Conv", ["r", "v"], ["y"])]
        if body:
            value = helper.make_tensor_value_info("b", TensorProto.FLOAT, [1, 8, 14, 14])
            branch = lambda op: helper.make_graph([helper.make_node(op, ["c"], ["b"])], op, [], [value])
            nodes += [node("ReduceMax", ["x"], ["top"], keepdims=0), node("Greater", ["top", "least"], ["positive"]),
                      node("If", ["positive"], ["o"], then_branch=branch("Identity"), else_branch=branch("Neg"))]
        output = "o" if body else "c"
        return save(self.dir / "model.onnx", nodes, [("x", [1, 3, 16, 16])], [("y", None), (output, None)], WEIGHTS)

    def quantize(self, model, *flags):
        out = self.dir / "q.onnx"
        done = seqto("quantize", model, "--data", self.data, "--activation-type", "uint8", "-o", out, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out, done.stderr

    def test_negative_values_of_an_output_stay(self):
        x = np.load(self.data)["x"][:1]
        for clip in ("Relu", "Clip"):
            for body in (False, True):
                for form in ("qdq", "qoperator"):
                    with self.subTest(clip=clip, body=body, form=form):
                        model = self.model(clip, body)
                        expected = outputs_of(model, x)
                        out, said = self.quantize(model, "--format", form)
                        for value, original in zip(outputs_of(out, x), expected):
                            self.assertLess(np.abs(value - original).max(), 0.05 * np.ptp(original))
                        self.assertIn("D61", said)

    def test_what_the_relu_alone_reads_needs_no_codes_for_them(self):
        nodes = [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["r"]), node("Conv", ["r", "v"], ["y"])]
        model = save(self.dir / "model.onnx", nodes, [("x", [1, 3, 16, 16])], [("y", None)], WEIGHTS[:2])
        out, said = self.quantize(model)
        self.assertNotIn("D61", said)
        self.assertNotIn("Relu", [n.op_type for n in onnx.load(out).graph.node])

    def test_onnxruntimes_range_where_it_was_asked_for(self):
        model = self.model("Relu")
        out, said = self.quantize(model, "--weight-type", "int8", "--compat", "onnxruntime")
        self.assertNotIn("D61", said)
        theirs = self.dir / "theirs.onnx"
        quantize_static(str(model), str(theirs), Reader(self.data), activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
        self.assertEqual(scale_of(out, "c"), scale_of(theirs, "c"))
        self.assertNotEqual(scale_of(self.quantize(model)[0], "c"), scale_of(theirs, "c"))


if __name__ == "__main__":
    unittest.main()
