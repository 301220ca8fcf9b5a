"""Files for Qualcomm's HTP, given to Qualcomm's compiler. Skips where `./dev setup qnn` did not bring it."""
import pathlib
import sys
import tempfile
import unittest

import onnx

sys.path[:0] = [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parents[2] / "bench")]
import _oracle_qnn as qnn  # noqa: E402
from testing import models, unit  # noqa: E402
from testing.models import seqto  # noqa: E402


@unittest.skipIf(qnn.missing(), qnn.missing())
class Htp(unittest.TestCase):
    def test_a_file_for_it_is_compiled_and_runs_on_codes(self):
        with tempfile.TemporaryDirectory() as name:
            wide, fixed, output = (pathlib.Path(name) / f"{n}.onnx" for n in ("wide", "fixed", "htp"))
            model = onnx.load(models.DIGITS)
            for value in (*model.graph.input, *model.graph.output): value.type.tensor_type.shape.dim[0].dim_param = "N"
            onnx.save(model, wide)
            done = seqto("quantize", wide, "--data", models.DIGITS_DATA, "--target", "qnn-htp", "-o", output)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("--dim N=SIZE", done.stderr)
            self.assertEqual(seqto("prepare", wide, "--dim", "N=1", "-o", fixed).returncode, 0)
            done = seqto("quantize", fixed, "--data", models.DIGITS_DATA, "--target", "qnn-htp", "-o", output)
            self.assertEqual(done.returncode, 0, done.stderr)
            truth = qnn.Truth(output)
            products = [n for n in onnx.load(output).graph.node if n.op_type in ("Conv", "Gemm", "MatMul")]
            self.assertTrue(products)
            self.assertEqual({truth.of(n) for n in products}, {"integers"})


if __name__ == "__main__":
    unit.main()
