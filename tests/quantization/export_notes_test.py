"""What PyTorch's exporter notes of nodes and tensors is in no quantized file; other metadata are."""

import pathlib
import shutil
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

NOTES = ("pkg.torch.onnx.stack_trace", "pkg.onnxscript.rewriter.rule_name", "namespace")
FOR_THE_RUNTIME = "layer_ann"


def note(*protos):
    for proto in protos:
        for key in (*NOTES, FOR_THE_RUNTIME):
            proto.metadata_props.add(key=key, value="File /home/someone/net.py")


def branch(name, op_type, given):
    node = helper.make_node(op_type, [given], [f"{name}_out"])
    note(node)
    return helper.make_graph([node], name, [], [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [2, 8])])


class ExportNotesTest(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.dir)
        product, choice = helper.make_node("MatMul", ["x", "w"], ["p"], name="product"), helper.make_node(
            "If", ["c"], ["y"], name="choice", then_branch=branch("negative", "Neg", "p"),
            else_branch=branch("same", "Identity", "p"))
        between = helper.make_tensor_value_info("p", TensorProto.FLOAT, [2, 8])
        graph = helper.make_graph(
            [product, choice], "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 16]), helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 8])],
            [onnx.numpy_helper.from_array(np.random.default_rng(0).normal(size=(16, 8)).astype("f"), "w")],
            value_info=[between])
        note(*graph.node, *graph.value_info, graph)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), self.dir / "m.onnx")

    def quantized(self, *flags):
        done = models.seqto("quantize", self.dir / "m.onnx", *flags, "-o", self.dir / "q.onnx", "-q")
        self.assertEqual(done.returncode, 0, done.stderr)
        onnxruntime.InferenceSession(str(self.dir / "q.onnx"), providers=["CPUExecutionProvider"])
        return (self.dir / "q.onnx").read_bytes()

    def test_they_are_left_out_of_nodes_tensors_and_bodies(self):
        given = (self.dir / "m.onnx").read_bytes()
        for flags in (["--mode", "dynamic"], ["--mode", "weights"], ["--mode", "float16"]):
            found = self.quantized(*flags)
            for key in NOTES:
                self.assertGreaterEqual(given.count(key.encode()), 6)
                self.assertEqual(found.count(key.encode()), 0, (flags, key))
            self.assertGreaterEqual(found.count(FOR_THE_RUNTIME.encode()), 3, flags)

    def test_their_bytes_are_told_beside_what_is_saved(self):
        given = onnx.load(self.dir / "m.onnx")
        told = models.seqto("quantize", self.dir / "m.onnx", "--mode", "weights", "-o", self.dir / "q.onnx").stdout
        self.assertRegex(told, "wrote .* instead of .* kB, of which .* B were notes of its exporter")
        branches = [a.g for node in given.graph.node for a in node.attribute if a.HasField("g")]
        for graph in (given.graph, *branches):
            for proto in (*graph.node, *graph.value_info, graph):
                del proto.metadata_props[:]
        onnx.save(given, self.dir / "m.onnx")
        told = models.seqto("quantize", self.dir / "m.onnx", "--mode", "weights", "-o", self.dir / "q.onnx").stdout
        self.assertNotIn("notes", told)

    def test_onnxruntimes_files_have_them(self):
        self.assertGreaterEqual(self.quantized("--mode", "dynamic", "--compat", "onnxruntime").count(NOTES[0].encode()), 3)


if __name__ == "__main__":
    unittest.main()
