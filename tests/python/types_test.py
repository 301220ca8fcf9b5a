"""mypy --strict over the package, its stubs and a script that uses it."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

import package
from testing import unit

USE = """import typing
from collections.abc import Callable

import numpy as np
import seqto
from seqto.onnxruntime.quantization import CalibrationMethod, QuantType, quantize_static

made: seqto.Quantized = seqto.quantize("m.onnx", np.zeros((4, 3)), activation_type="uint8", method="entropy")
study = seqto.tune(made.model, {"x": [1.0]}, "out", max_time_seconds=60, limits={"size_bytes": 1e6})
name: str = study.front[0].name
scheme: str = made.encoding.layers["stem"]["scheme"]
seqto.calibrate("m.onnx", "random", progress=True)
seqto.calibrate("m.onnx", "random", progress=lambda verb, done, total, note: None)
try:
    seqto.calibrate("m.onnx", "random", samples=3)["x"]
except seqto.Error as error:
    code: int = error.code


class Digits:
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[list[float], int]:
        return [1.0], index


class Search:
    def ask(self, space: seqto.SearchSpace) -> list[seqto.Plan]:
        return [space.plan([group.choices[0] for group in space.groups])]

    def tell(self, plan: seqto.Plan, trial: seqto.Trial) -> None:
        best: float = trial.objectives[0]


def right(answers: dict[str, typing.Any], labels: typing.Any) -> float:
    return float((answers["y"].argmax(axis=1) == labels).mean())


def board(model: seqto.Model) -> Callable[[dict[str, typing.Any]], list[typing.Any]]:
    return lambda inputs: [inputs["x"]]


seqto.tune("m.onnx", Digits(), "out", metrics=["top1", right], device=board, strategy=Search())
seqto.tune("m.onnx", Digits(), "out", devices={"board": board}, strategy="random")
quantize_static("m.onnx", "q.onnx", None, weight_type=QuantType.QInt8, calibrate_method=CalibrationMethod.MinMax)
"""


@unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not here")
class Types(unittest.TestCase):
    def check(self, *words):
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", package.BUILD / "mypy", *words],
                              capture_output=True, text=True, timeout=600)
        return done.stdout + done.stderr

    def test_package_and_user(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "use.py"
            script.write_text(USE)
            self.assertIn("Success", self.check(package.PACKAGE / "seqto", script))
            script.write_text("import seqto\nseqto.quantize('m.onnx', per_channel='yes')\n")
            self.assertIn('incompatible type "str"; expected "bool"', self.check(script))


if __name__ == "__main__":
    unit.main()
