"""Shape inference through com.microsoft's operators beside the runtime's own, one operator at a time."""

import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.runtime_types import described, typed  # noqa: E402

F, H, U8, I8, I32, I64 = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32, TensorProto.INT64)
NUMPY = {F: np.float32, H: np.float16, U8: np.uint8, I8: np.int8, I32: np.int32, I64: np.int64}
SCALE, ZERO, ZERO8 = ("const", F, []), ("const", U8, []), ("const", I8, [])


def x(*shape, kind=F):
    return ("input", kind, list(shape))


def w(*shape, kind=F):
    return ("const", kind, list(shape))


# Name, inputs (None: absent), outputs, attributes. The batch is open where the operator allows it.
CASES = [
    ("Gelu", [x("n", 4, 8)], 1, {}),
    ("FastGelu", [x("n", 4, 8), w(8)], 1, {}),
    ("QuickGelu", [x("n", 4, 8)], 1, {"alpha": 1.7}),
    ("BiasGelu", [x("n", 4, 8), w(8)], 1, {}),
    ("FusedMatMul", [x("n", 2, 4, 8), w(2, 6, 8)], 1, {"transB": 1, "alpha": 0.5}),
    ("FusedMatMul", [x("n", 8, 4), w(8, 6)], 1, {"transA": 1}),
    ("FusedMatMul", [x(4, 3, 8), w(3, 8, 6)], 1, {"transBatchA": 1}),
    ("FusedMatMul", [x(8, 3, 4), w(3, 6, 8)], 1, {"transA": 1, "transB": 1, "transBatchA": 1}),
    ("FusedMatMul", [x(8), w(8, 6)], 1, {}),
    ("FusedGemm", [x("n", 8), w(6, 8), w(6)], 1, {"transB": 1, "activation": "Relu"}),
    ("FusedConv", [x("n", 3, 9, 9), w(4, 3, 3, 3), w(4)], 1, {"activation": "Relu", "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("SkipLayerNormalization", [x("n", 4, 8), x("n", 4, 8), w(8), w(8), w(8)], 1, {}),
    ("SkipLayerNormalization", [x("n", 4, 8), x("n", 4, 8), w(8), w(8), w(8)], ["a", "", "", "b"], {}),
    ("SkipSimplifiedLayerNormalization", [x("n", 4, 8), x("n", 4, 8), w(8)], ["a", "", "", "b"], {}),
    ("EmbedLayerNormalization", [x("n", 6, kind=I32), x("n", 6, kind=I32), w(30, 8), w(6, 8), w(2, 8), w(8), w(8), x("n", 6, kind=I32)], 3, {}),
    ("Attention", [x("n", 6, 8), w(8, 24), w(24), x("n", kind=I32)], 1, {"num_heads": 2}),
    ("Attention", [x(2, 6, 8), w(8, 24), w(24), None, x(2, 2, 2, 3, 4)], 2, {"num_heads": 2, "unidirectional": 1}),
    ("Attention", [x("n", 6, 8), w(8, 40), w(40)], 1, {"num_heads": 2, "qkv_hidden_sizes": [16, 16, 8]}),
    ("MultiHeadAttention", [x("n", 6, 8), x("n", 5, 8), x("n", 5, 8)], 1, {"num_heads": 2}),
    ("MultiHeadAttention", [x("n", 6, 8), x("n", 2, 5, 4), x("n", 2, 5, 4)], 1, {"num_heads": 2}),
    ("MultiHeadAttention", [x("n", 6, 8), x("n", 5, 2, 2, 4)], 1, {"num_heads": 2}),
    ("MultiHeadAttention", [x("n", 6, 2, 3, 4)], 1, {"num_heads": 2}),
    ("MultiHeadAttention", [x(2, 1, 8), x(2, 1, 8), x(2, 1, 8), None, None, None, x(2, 2, 3, 4), x(2, 2, 3, 4)], 3, {"num_heads": 2}),
    ("GroupQueryAttention", [x(2, 1, 32), x(2, 1, 16), x(2, 1, 16), x(2, 2, 9, 8), x(2, 2, 9, 8), x(2, kind=I32), ("const", I32, [])], 3,
     {"num_heads": 4, "kv_num_heads": 2}),
    ("GroupQueryAttention", [x(2, 1, 64), None, None, x(2, 2, 9, 8), x(2, 2, 9, 8), x(2, kind=I32), ("const", I32, [])], 3,
     {"num_heads": 4, "kv_num_heads": 2}),
    ("RotaryEmbedding", [x("n", 6, 16), x("n", 6, kind=I64), w(9, 4), w(9, 4)], 1, {"num_heads": 2}),
    ("MatMulNBits", [x("n", 6, 32), w(12, 1, 16, kind=U8), w(12)], 1, {"K": 32, "N": 12, "bits": 4, "block_size": 32}),
    ("GatherBlockQuantized", [w(20, 16, kind=U8), x("n", 5, kind=I64), w(20, 1)], 1, {"block_size": 32, "bits": 4, "gather_axis": 0, "quantize_axis": 1}),
    ("GatherBlockQuantized", [w(20, 32, kind=U8), x("n", 5, kind=I64), w(20, 1)], 1, {"block_size": 32, "bits": 8, "gather_axis": 0, "quantize_axis": 1}),
    ("QLinearAdd", [x("n", 4, 8, kind=U8), SCALE, ZERO, x(1, 8, kind=U8), SCALE, ZERO, SCALE, ZERO], 1, {}),
    ("QLinearMul", [x(4, 1, kind=I8), SCALE, ZERO8, x("n", 4, 8, kind=I8), SCALE, ZERO8, SCALE, ZERO8], 1, {}),
    ("QLinearSigmoid", [x("n", 4, kind=U8), SCALE, ZERO, SCALE, ZERO], 1, {}),
    ("QLinearLeakyRelu", [x("n", 4, kind=I8), SCALE, ZERO8, SCALE, ZERO8], 1, {"alpha": 0.1}),
    ("QLinearSoftmax", [x("n", 4, kind=U8), SCALE, ZERO, SCALE, ZERO], 1, {"opset": 13, "axis": -1}),
    ("QLinearGlobalAveragePool", [x("n", 3, 5, 5, kind=U8), SCALE, ZERO, SCALE, ZERO], 1, {}),
    ("QLinearGlobalAveragePool", [x("n", 5, 5, 3, kind=U8), SCALE, ZERO, SCALE, ZERO], 1, {"channels_last": 1}),
    ("QLinearAveragePool", [x("n", 3, 9, 9, kind=U8), SCALE, ZERO, SCALE, ZERO], 1, {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ("QLinearAveragePool", [x("n", 9, 7, 3, kind=U8), SCALE, ZERO, SCALE, ZERO], 1, {"kernel_shape": [3, 3], "strides": [2, 2], "channels_last": 1}),
    ("NhwcMaxPool", [x("n", 9, 7, 3, kind=U8)], 1, {"kernel_shape": [3, 2], "strides": [2, 1]}),
    ("QLinearConcat", [SCALE, ZERO, x("n", 3, 4, kind=U8), SCALE, ZERO, x("n", 5, 4, kind=U8), SCALE, ZERO], 1, {"axis": 1}),
    ("QLinearWhere", [x("n", 4, kind=TensorProto.BOOL), x("n", 4, kind=U8), SCALE, ZERO, x(1, kind=U8), SCALE, ZERO, SCALE, ZERO], 1, {}),
    ("QGemm", [x("n", 8, kind=U8), SCALE, ZERO, w(6, 8, kind=I8), SCALE, ZERO8, None, SCALE, ZERO], 1, {"transB": 1}),
    ("QGemm", [x("n", 8, kind=U8), SCALE, ZERO, w(8, 6, kind=I8), SCALE, ZERO8], 1, {}),
    ("QuantizeLinear", [x("n", 4), SCALE, ("const", TensorProto.UINT16, [])], 1, {}),
    ("QuantizeLinear", [x("n", 4), SCALE], 1, {}),
    ("DequantizeLinear", [x("n", 4, kind=TensorProto.INT16), SCALE, ("const", TensorProto.INT16, [])], 1, {}),
    ("DynamicQuantizeMatMul", [x("n", 4, 8), w(8, 6, kind=I8), SCALE, ZERO8], 1, {}),
    ("MatMulIntegerToFloat", [x("n", 4, 8, kind=U8), w(8, 6, kind=I8), SCALE, SCALE], 1, {}),
    ("DynamicQuantizeLSTM", [x(5, "n", 8), w(1, 8, 24, kind=I8), w(1, 6, 24, kind=I8), None, None, None, None, None,
                             w(1), w(1, kind=I8), w(1), w(1, kind=I8)], 3, {"hidden_size": 6}),
    ("QAttention", [x("n", 6, 8, kind=U8), w(8, 24, kind=I8), w(24), SCALE, SCALE, None, ZERO, ZERO8], 1, {"num_heads": 2}),
    ("SkipLayerNormalization", [x("n", 4, 8), x("n", 4, 8), w(8), w(8)], 4, {}),
    ("MRotaryEmbedding", [x("n", 6, 16), x(3, "n", 6, kind=I64), w(9, 4), w(9, 4)], 1, {"num_heads": 2, "mrope_section": [1, 1, 2]}),
    ("GatedRMSNorm", [x("n", 4, 8), w(8), x("n", 4, 8)], 1, {}),
    ("GatedAdd", [x("n", 4, 8), x("n", 4, 8), x("n", 4, 1)], 1, {}),
    ("ScaledSiLU", [x("n", 4, 8), w(8)], 1, {}),
    ("BranchwiseRMSNorm", [x("n", 4, 8), w(8)], 1, {"num_branches": 2}),
    ("CausalConvWithState", [x("n", 8, 6), w(8, 1, 4), w(8), x("n", 8, 3)], 2, {}),
    ("CausalConvWithState", [x("n", 8, 6), w(8, 1, 4)], 2, {"activation": "silu"}),
    ("CausalConvWithState", [x("n", 6, 8), w(8, 1, 4)], 2, {"channels_last": 1}),
    ("LinearAttention", [x("n", 6, 16), x("n", 6, 16), x("n", 6, 32), x("n", 2, 8, 16), x("n", 6, 2), x("n", 6, 2)], 2,
     {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "gated_delta"}),
    ("LinearAttention", [x("n", 6, 32), x("n", 6, 16), x("n", 6, 32)], 2, {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": "linear"}),
    ("LinearAttentionGate", [x("n", 4, 2), w(2), w(2), x("n", 4, 2)], 2, {}),
    ("SimplifiedLayerNormalization", [x("n", 4, 8), w(8)], 1, {"axis": -1}),
    ("LayerNormalization", [x("n", 4, 8), w(8), w(8)], 1, {"axis": -1}),
]
IN_ONNX = ("SimplifiedLayerNormalization", "LayerNormalization")  # the runtime writes them in ONNX's domain


def graph_of(k, case):
    """Node and what it reads, all names ending in k; its outputs."""
    op, inputs, outputs, attributes = case
    names, infos, constants = [], [], []
    for i, given in enumerate(inputs):
        names.append(f"in{i}_{k}" if given else "")
        if not given: continue
        where, kind, shape = given
        if where == "input": infos.append(helper.make_tensor_value_info(names[-1], kind, shape))
        elif kind in NUMPY: constants.append(numpy_helper.from_array(np.ones(shape, NUMPY[kind]), names[-1]))
        else: constants.append(helper.make_tensor(names[-1], kind, shape, [1] * int(np.prod(shape))))
    outputs = list("abc"[:outputs]) if isinstance(outputs, int) else outputs
    outputs = [o and f"{o}_{k}" for o in outputs]
    node = helper.make_node(op, names, outputs, f"node_{k}", domain="" if op in IN_ONNX else "com.microsoft", **attributes)
    return node, infos, constants, [o for o in outputs if o]


def model_of(parts, opset=16):
    nodes, infos, constants, outputs = ([], [], [], [])
    for node, i, c, o in parts:
        # The Cast shows that ONNX's inference goes on behind the operator; a size is an output whose shape needs no inference.
        nodes += [node, *(helper.make_node("Cast", [name], [f"{name}_cast"], f"{name}_cast", to=F) for name in o)]
        nodes += [helper.make_node("Size", [f"{name}_cast"], [f"{name}_size"], f"{name}_size") for name in o]
        infos += i
        constants += c
        outputs += [helper.make_tensor_value_info(f"{name}_size", I64, []) for name in o]
    graph = helper.make_graph(nodes, "g", infos, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)], ir_version=8)


class ContribShapes(unittest.TestCase):
    def test_beside_the_runtimes_own(self):
        parts = [graph_of(k, case) for k, case in enumerate(CASES)]
        with tempfile.TemporaryDirectory() as folder:
            path, out = pathlib.Path(folder, "all.onnx"), pathlib.Path(folder, "out.onnx")
            onnx.save(model_of(parts), path)
            done = models.seqto("prepare", path, "--skip-optimization", "-o", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            ours = described(onnx.load(str(out)))
        compared = 0
        for k, (case, part) in enumerate(zip(CASES, parts)):
            with self.subTest(operator=case[0], case=k):
                theirs = typed(model_of([part]))
                for name in part[3]:
                    for tensor in (name, f"{name}_cast"):
                        self.assertIn(tensor, ours)
                        self.assertEqual(ours[tensor][0], theirs[tensor][0])
                        self.assertEqual(ours[tensor][1] is None, theirs[tensor][1] is None, (ours[tensor], theirs[tensor]))
                        if theirs[tensor][1] is None: continue
                        self.assertEqual(len(ours[tensor][1]), len(theirs[tensor][1]))
                        for axis, (a, b) in enumerate(zip(ours[tensor][1], theirs[tensor][1])):
                            # How many tokens there is room for, only the caller knows.
                            if case[0] == "GroupQueryAttention" and len(theirs[tensor][1]) == 4 and axis == 2: continue
                            if isinstance(b, int): self.assertEqual(a, b, (ours[tensor], theirs[tensor]))
                        compared += 1
        self.assertGreater(compared, 100)


if __name__ == "__main__":
    unittest.main()
