"""The flags of static quantization against quantize_static with the same ranges: names, values, the overrides' file."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "differential"))
import canonical  # noqa: E402
import oracle  # noqa: E402

BINARY = os.environ["SEQTO_BINARY"]


class QdqFlags(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-flags-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
            g (float[2,4] x) => (float[2,4] y, float[2,4] z)
            <float[4,4] w = {1, -2, 3, 4, 0.5, 6, -7, 8, 9, 10, 11, -12, 13, 14, -15, 16}, float[4] b = {1, 2, -3, 4}> {
              [mul] h = Gemm <beta = 2.0> (x, w, b)
              [cut] r = Relu (h)
              [last] y = MatMul (r, w)
              [sum] z = Add (r, x)
            }""")
        onnx.save(cls.model, cls.dir / "model.onnx")
        ranges = {"x": (-1, 2), "h": (-3, 5), "r": (0, 5), "y": (-20, 30), "z": (-1, 6)}
        oracle.save_ranges({t: tuple(map(oracle.np.float32, r)) for t, r in ranges.items()}, cls.dir / "ranges.json")

    def same(self, flags, **options):
        expected, actual = self.dir / "expected.onnx", self.dir / "actual.onnx"
        oracle.quantize(self.dir / "model.onnx", self.dir / "ranges.json", dict(oracle.DEFAULTS, **options), expected, 60)
        subprocess.run([BINARY, "quantize", self.dir / "model.onnx", "--ranges", self.dir / "ranges.json", "-o", actual,
                        "--compat", "onnxruntime", *flags], check=True, capture_output=True, text=True)
        onnx.checker.check_model(str(actual))
        self.assertIsNone(canonical.compare(onnx.load(expected), onnx.load(actual)), flags)

    def test_each_flag(self):
        self.same([])
        self.same(["--dedicated-qdq-pair"], dedicated_qdq_pair=True)
        self.same(["--use-qdq-contrib-ops"], use_qdq_contrib_ops=True)
        self.same(["--weight-type", "int4", "--block-size", "2", "--no-quantize-bias"], weight_type="int4", block_size=2,
                  quantize_bias=False)
        self.same(["--activation-type", "uint16"], activation_type="uint16")
        self.same(["--activation-type", "uint8", "--weight-type", "uint4"], activation_type="uint8", weight_type="uint4")
        self.same(["--per-channel", "--activation-type", "int16", "--op-type-per-channel-axis", "MatMul=0"],
                  per_channel=True, activation_type="int16", op_type_per_channel_axis={"MatMul": 0})
        self.same(["--no-quantize-bias"], quantize_bias=False)
        self.same(["--no-adjust-weight-scale-for-bias"], adjust_weight_scale_for_bias=False)
        self.same(["--add-qdq-pair-to-weight"], add_qdq_pair_to_weight=True)
        self.same(["--keep-removable-activations"], keep_removable_activations=True)
        self.same(["--force-quantize-no-input-check"], force_quantize_no_input_check=True)
        self.same(["--min-real-range", "50"], min_real_range=50.0)
        self.same(["--exclude-output-op-types", "Gemm,Add"], exclude_output_op_types=["Gemm", "Add"])
        self.same(["--activation-type", "uint8", "--restricted-asymmetric-activations"], activation_type="uint8",
                  restricted_asymmetric_activations=True)

    def test_products_give_float_where_no_layer_reads_codes(self):
        """In the types that are fast here, which nobody named; onnxruntime has a pair there."""
        for flags, last in (([], False), (["--exclude-output-op-types", "Relu"], True)):
            subprocess.run([BINARY, "quantize", self.dir / "model.onnx", "--ranges", self.dir / "ranges.json", "-o",
                            self.dir / "fast.onnx", "--exclude", "sum", *flags], check=True, capture_output=True, text=True)
            graph = onnx.load(self.dir / "fast.onnx").graph
            coded = {n.input[0] for n in graph.node if n.op_type == "QuantizeLinear"}
            self.assertIn("x", coded)
            self.assertEqual({n.output[0] in coded for n in graph.node if n.name == "last"}, {last}, flags)

    def test_overrides(self):
        overrides = {"r": [{"quant_type": "uint8", "convert": {"quant_type": "uint16", "recv_nodes": ["sum"]}}],
                     "w": [{"axis": 1, "rmin": -20.0, "rmax": 20.0}], "x": [{"scale": 0.125, "zero_point": 3}]}
        path = self.dir / "overrides.json"
        path.write_text(json.dumps(overrides))
        self.same(["--tensor-overrides", path], tensor_overrides=overrides)

    def test_wrong(self):
        for flags in (["--op-type-per-channel-axis", "MatMul"], ["--compat", "tensorflow"], ["--block-size", "-1"],
                      ["--tensor-overrides", self.dir / "absent.json"]):
            found = subprocess.run([BINARY, "quantize", self.dir / "model.onnx", "--ranges", self.dir / "ranges.json", "-o",
                                    self.dir / "no.onnx", *flags], capture_output=True, text=True)
            self.assertEqual(found.returncode, 2, found.stderr)


if __name__ == "__main__":
    unittest.main()
