"""`seqto quantize --mode dynamic` and `--format qoperator` on the digits example: onnxruntime's own files, value for value."""
import logging
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

logging.disable(logging.CRITICAL)
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "testing"), str(ROOT / "differential")]
import canonical  # noqa: E402
from models import DIGITS, DIGITS_DATA, seqto  # noqa: E402


def written(path, *flags):
    result = seqto("quantize", DIGITS, "-o", path, *flags)
    assert result.returncode == 0, result.stderr
    return path


def check_equal(ours, theirs):
    assert not (difference := canonical.compare(onnx.load(theirs), onnx.load(ours))), difference
    x = np.load(DIGITS_DATA)["x"][:8].astype(np.float32)
    sessions = [ort.InferenceSession(str(p), providers=["CPUExecutionProvider"]) for p in (ours, theirs)]
    name = sessions[0].get_inputs()[0].name
    for sample in x:
        a, b = (s.run(None, {name: sample[None]})[0] for s in sessions)
        assert a.tobytes() == b.tobytes()


def main():
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: pathlib.Path(folder) / name
        for flags, options in ((["--compat", "onnxruntime"], {}), (["--per-channel", "--reduce-range"], dict(per_channel=True, reduce_range=True)),
                               (["--weight-type", "uint8"], dict(weight_type=QuantType.QUInt8))):
            ours = written(at("ours.onnx"), "--mode", "dynamic", *flags)  # without any data
            quantize_dynamic(str(DIGITS), str(at("theirs.onnx")), **options)
            check_equal(ours, at("theirs.onnx"))
        assert seqto("calibrate", DIGITS, "--data", DIGITS_DATA, "--samples", 16, "-o", at("ranges.json")).returncode == 0
        ours = written(at("ours.onnx"), "--format", "qoperator", "--ranges", at("ranges.json"), "--activation-type", "uint8")
        quantize_static(str(DIGITS), str(at("theirs.onnx")), None, quant_format=QuantFormat.QOperator,
                        activation_type=QuantType.QUInt8, calibration_cache_path=str(at("ranges.json")))
        check_equal(ours, at("theirs.onnx"))
        wrong = seqto("quantize", DIGITS, "-o", at("x.onnx"), "--format", "tensorrt", "--ranges", at("ranges.json"))
        assert wrong.returncode == 2 and "qoperator" in wrong.stderr, wrong.stderr


main()
