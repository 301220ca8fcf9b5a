"""seqto.onnxruntime.quantization.matmul_nbits_quantizer beside onnxruntime's: equal operators and initializers."""

import contextlib
import importlib.util
import inspect
import io
import itertools
import logging
import pathlib
import tempfile
import unittest
import unittest.mock

import package  # noqa: F401
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantFormat

import canonical
import oracle
import seqto
import seqto.onnxruntime.quantization.matmul_nbits_quantizer as ours
from seqto.onnxruntime.quantization import onnx_model, quantize
from testing import unit
from testing.weights import awkward

if importlib.util.find_spec("onnx_ir"):
    import onnxruntime.quantization.matmul_nbits_quantizer as theirs
else:
    theirs = None  # it cannot be imported without


def network(kind=np.float32, opset=17, rows=100):
    """A table, three products, one of them of activations and one without a name, and a Gemm."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes = [helper.make_node("Gather", ["table", "ids"], ["x"], "embed"),
             helper.make_node("MatMul", ["x", "w1"], ["a"], "first"),
             helper.make_node("Relu", ["a"], ["b"], "relu"),
             helper.make_node("MatMul", ["b", "w2"], ["c"]),
             helper.make_node("Transpose", ["c"], ["t"], "turn", perm=[1, 0]),
             helper.make_node("MatMul", ["c", "t"], ["d"], "both"),
             helper.make_node("Gemm", ["d", "w3", "w4"], ["e"], "gemm"),
             helper.make_node("MatMul", ["e", "w5"], ["y"], "last")]
    weights = {"table": awkward(rows, 30, 1).T.copy(), "w1": awkward(rows, 44, 2), "w2": awkward(44, 33, 3),
               "w3": awkward(7, 40, 4), "w4": np.ones(40, np.float32), "w5": awkward(40, 8, 5)}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, [7])],
                              [helper.make_tensor_value_info("y", element, [7, 8])],
                              [numpy_helper.from_array(v.astype(kind), n) for n, v in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@unittest.skipUnless(theirs, "onnxruntime's own needs the package onnx_ir, which is not here")
class Pair(unittest.TestCase):
    def process(self, module, model, **keywords):
        logging.disable(logging.CRITICAL)
        quantizer = module.MatMulNBitsQuantizer(model, **keywords)
        with contextlib.redirect_stdout(io.StringIO()):
            quantizer.process()
        return quantizer.model.model

    def both(self, model=None, **keywords):
        model = model or network()
        copy = onnx.ModelProto()
        copy.CopyFrom(model)  # theirs changes what it is given
        a, b = self.process(theirs, copy, **keywords), self.process(ours, model, **keywords)
        self.assertIsNone(canonical.compare(a, b), keywords)
        return b

    def test_blocks(self):
        for block, symmetric, bits in itertools.product((16, 32, 64, 128, 256), (True, False), (2, 4, 8)):
            made = self.both(block_size=block, is_symmetric=symmetric, bits=bits)
            self.assertEqual(sum(n.op_type == "MatMulNBits" for n in made.graph.node), 3)
        onnx.checker.check_model(made)
        oracle.session(made, False).run(None, {"ids": np.arange(7)})

    def test_which_nodes(self):
        self.both(accuracy_level=4)
        self.both(nodes_to_exclude=["first", "no such node"])
        self.both(op_types_to_quantize=("MatMul", "Gather"), block_size=32)
        self.both(op_types_to_quantize=("Gather",), nodes_to_include=["last", "gemm"], block_size=32)
        for symmetric in (True, False):
            made = self.both(op_types_to_quantize=("Gather",), quant_axes=(("Gather", 1),), block_size=16, is_symmetric=symmetric)
            self.assertIn("GatherBlockQuantized", [n.op_type for n in made.graph.node])

    def test_qdq(self):
        for block, symmetric, opset in itertools.product((16, 32, 256), (True, False), (17, 21)):
            made = self.both(network(opset=opset), block_size=block, is_symmetric=symmetric, quant_format=QuantFormat.QDQ)
        self.assertIn("DequantizeLinear", [n.op_type for n in made.graph.node])
        self.both(quant_format=QuantFormat.QDQ, channel_wised_quantize=True)

    def test_halves(self):
        for symmetric, form in itertools.product((True, False), (QuantFormat.QOperator, QuantFormat.QDQ)):
            self.both(network(np.float16, 21), is_symmetric=symmetric, block_size=32, quant_format=form)
            if form is QuantFormat.QOperator:
                self.both(network(np.float16, 21), is_symmetric=symmetric, block_size=16, op_types_to_quantize=("Gather", "MatMul"))

    def test_configurations(self):
        config = theirs.DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=True, accuracy_level=4, bits=8)
        made = self.both(algo_config=config)
        config = ours.DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=True, accuracy_level=4, bits=8)
        self.assertEqual(self.process(ours, network(), algo_config=config), made)

    def test_signatures(self):
        for name in ("MatMulNBitsQuantizer", "DefaultWeightOnlyQuantConfig", "WeightOnlyQuantConfig"):
            a, b = (inspect.signature(getattr(module, name)).parameters for module in (theirs, ours))
            self.assertEqual([(p.name, p.kind, str(p.default)) for p in a.values()],
                             [(p.name, p.kind, str(p.default)) for p in b.values()])

    def test_what_others_have_is_refused_in_words(self):
        for name in ("RTN", "KQuant", "HQQ", "GPTQ"):
            with self.assertRaisesRegex(NotImplementedError, "DefaultWeightOnlyQuantConfig"):
                getattr(ours, f"{name}WeightOnlyQuantConfig")()
        with self.assertRaisesRegex(NotImplementedError, "HQQ found"):
            ours.MatMulNBitsQuantizer(network(), algo_config=theirs.HQQWeightOnlyQuantConfig())
        with self.assertRaisesRegex(NotImplementedError, "quant_axes"):
            self.process(ours, network(), op_types_to_quantize=("Gather",), quant_axes=(("Gather", 0),))


class Files(unittest.TestCase):
    def test_paths_and_external_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = str(pathlib.Path(folder) / "source.onnx"), pathlib.Path(folder) / "target.onnx"
            onnx.save(network(), source)
            quantizer = ours.MatMulNBitsQuantizer(source, block_size=32)
            quantizer.process()
            quantizer.model.save_model_to_file(target)
            self.assertLess(target.stat().st_size, pathlib.Path(source).stat().st_size)
            quantizer.model.save_model_to_file(str(target), True)
            self.assertTrue(target.with_name("target.onnx.data").exists())
            oracle.session(str(target), False).run(None, {"ids": np.arange(7)})

    def test_quantize_takes_their_configurations(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder) / "source.onnx", pathlib.Path(folder) / "target.onnx"
            onnx.save(network(), source)
            for module in (ours, theirs or ours):
                for model in (str(source), source, network()):
                    quantize(model, str(target), module.DefaultWeightOnlyQuantConfig(block_size=32, bits=8))
                    quantizer = ours.MatMulNBitsQuantizer(network(), block_size=32, bits=8)
                    quantizer.process()
                    self.assertIsNone(canonical.compare(onnx.load(target), quantizer.model.model))
                    self.assertTrue(target.with_name("target.onnx.data").exists())

    def test_what_protobuf_has_no_room_for_goes_around_it(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(onnx_model, "MODEL_SIZE_THRESHOLD", 1000):
            quantizer = ours.MatMulNBitsQuantizer(network())
            quantizer.process()
            with unittest.mock.patch.object(seqto.Model, "to_onnx", side_effect=AssertionError):
                quantizer.model.save_model_to_file(str(pathlib.Path(folder) / "target.onnx"), True)
            self.assertEqual(seqto.load(pathlib.Path(folder) / "target.onnx"), quantizer.model._model)


if __name__ == "__main__":
    unit.main()
