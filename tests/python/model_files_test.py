"""Models and what is behind them: files that are written again, messages that are too big, hashes."""

import os
import shutil
import types
import unittest

import package  # noqa: F401
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import seqto
from api_test import MODEL, X, Folder


class Rewritten(Folder):
    def test_a_file_written_again_is_an_error_and_no_crash(self):
        path = self.dir / "model.onnx"
        shutil.copy(MODEL, path)
        model = seqto.load(path)
        made, plan = seqto.quantize(model, mode="weights", exclude=["op:Gemm"]), seqto.uniform_plan(model, "int8_weights")
        quantizer = seqto.Quantizer(model)
        path.write_bytes(b"\x08")
        for verb in (lambda: seqto.calibrate(model, X), lambda: seqto.quantize(model, X), lambda: seqto.bench(model),
                     lambda: model.save(self.dir / "copy.onnx"), lambda: bytes(model), lambda: model.to_onnx(),
                     lambda: model.initializer("stem_weight"), lambda: quantizer.quantize(plan), lambda: quantizer.encode(plan),
                     lambda: made.save(self.dir / "copy.onnx"), lambda: seqto.validate(MODEL, made.model, X), lambda: model.layers(),
                     lambda: model == seqto.load(MODEL), lambda: seqto.load(MODEL) == model):
            with self.assertRaisesRegex(seqto.Error, r"model\.onnx found written again .*; load the model again") as raised:
                verb()
            self.assertEqual(raised.exception.code, seqto.Code.invalid_input)
        shutil.copy(MODEL, path)
        seqto.calibrate(seqto.load(path), X)

    def test_values_on_the_heap_outlive_their_file(self):
        path = self.dir / "model.onnx"
        constant = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(np.ones((64, 64), np.float32)))
        bias = numpy_helper.from_array(np.arange(64, dtype=np.float32), "b")
        value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64])
        nodes = [constant, helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])]
        graph = helper.make_graph(nodes, "g", [value("x")], [value("y")], [bias])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        model, same, before = seqto.load(path), seqto.load(path.read_bytes()), bytes(seqto.load(path))
        os.truncate(path, 10)
        self.assertEqual(bytes(model), before)
        self.assertEqual(model, same)
        np.testing.assert_array_equal(model.initializer("b"), numpy_helper.to_array(bias))
        self.assertEqual(bytes(seqto.quantize(model, mode="weights").model), bytes(seqto.quantize(same, mode="weights").model))

    def test_weights_beside_the_file(self):
        path = self.dir / "model.onnx"
        onnx.save(onnx.load(MODEL), path, save_as_external_data=True, location="weights", size_threshold=0)
        model = seqto.load(path)
        with open(self.dir / "weights", "r+b") as file:
            file.truncate(10)
        with self.assertRaisesRegex(seqto.Error, "weights found written again"):
            seqto.calibrate(model, X)

    def test_weights_in_nodes(self):
        path = self.dir / "model.onnx"
        constant = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(np.ones((64, 4), np.float32)))
        value = lambda name, columns: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, columns])
        graph = helper.make_graph([constant, helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [value("x", 64)], [value("y", 4)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path,
                  save_as_external_data=True, location="weights", size_threshold=0, convert_attribute=True)
        model = seqto.load(path)
        os.truncate(self.dir / "weights", 10)
        with self.assertRaisesRegex(seqto.Error, "weights found written again"):
            seqto.quantize(model, mode="weights")

    def test_another_file_in_its_place_changes_nothing(self):
        path = self.dir / "model.onnx"
        shutil.copy(MODEL, path)
        model = seqto.load(path)
        seqto.quantize(model, mode="weights").save(path)  # as all of seqto's writing: a new file under the name
        self.assertEqual(model, seqto.load(MODEL))
        os.unlink(path)
        seqto.calibrate(model, X)


class TooBig(Folder):
    def test_a_message_that_protobuf_does_not_write(self):
        def refuse():
            raise ValueError("Message onnx.ModelProto exceeds maximum protobuf size of 2GB")

        with self.assertRaisesRegex(seqto.Error, "exceeds maximum.*; one of less than 2 GB.* give the path") as raised:
            seqto.load(types.SimpleNamespace(graph=None, SerializeToString=refuse))
        self.assertEqual(raised.exception.code, seqto.Code.invalid_input)

    def test_a_model_that_protobuf_does_not_read(self):
        rows = 1 << 29  # floats: 2 GB, which no disk holds
        (self.dir / "weights").touch()
        os.truncate(self.dir / "weights", 4 * rows)
        weight = numpy_helper.from_array(np.zeros((1, 1), np.float32), "w")
        weight.ClearField("raw_data")
        weight.dims[0] = rows
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="weights")
        value = lambda name, columns: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, columns])
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [value("x", rows)], [value("y", 1)], [weight])
        (self.dir / "model.onnx").write_bytes(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
        with self.assertRaisesRegex(seqto.Error, r"a model of 21\d{8} bytes found; less than 2 GB.*save\(\)"):
            seqto.load(self.dir / "model.onnx").to_onnx()


class Hashes(unittest.TestCase):
    def test_equal_plans_are_one_key(self):
        a, b, c = seqto.Plan({"stem": "int8"}), seqto.Plan({"stem": "int8"}), seqto.Plan({"stem": "float16"})
        self.assertEqual(len({a, b, c}), 2)

    def test_models_are_no_keys(self):
        with self.assertRaisesRegex(TypeError, "unhashable"):
            hash(seqto.load(MODEL))


if __name__ == "__main__":
    unittest.main()
