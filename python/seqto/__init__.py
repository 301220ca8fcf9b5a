"""seqto finds which layers of an ONNX model to quantize, and how, for one device.

    import seqto

    seqto.quantize("model.onnx", samples).save("int8.onnx")   # one quantized model
    study = seqto.tune("model.onnx", samples, "out")          # the front of loss, size and latency
    print(study)

Models are paths, bytes, onnx.ModelProto or seqto.Model. Data are arrays, dicts of arrays, sequences of samples,
iterables of batches, calibration readers or paths. Every option of the library is a keyword argument; what is wrong
raises seqto.Error.
"""
from ._core import (
    ActivationError,
    BenchResult,
    Code,
    Layer,
    Model,
    Parity,
    Plan,
    Quantized,
    Quantizer,
    Ranges,
    SearchGroup,
    SearchSpace,
    Sensitivity,
    Trial,
    ValueInfo,
    WeightError,
    analyze,
    bench,
    calibrate,
    load,
    preprocess,
    quantize,
    tune,
    uniform_plan,
    validate,
    version,
)
from ._encoding import Encoding
from ._error import Error
from ._study import Point, Study

__version__ = version

__all__ = [
    "ActivationError",
    "BenchResult",
    "Code",
    "Encoding",
    "Error",
    "Layer",
    "Model",
    "Parity",
    "Plan",
    "Point",
    "Quantized",
    "Quantizer",
    "Ranges",
    "SearchGroup",
    "SearchSpace",
    "Sensitivity",
    "Study",
    "Trial",
    "ValueInfo",
    "WeightError",
    "__version__",
    "analyze",
    "bench",
    "calibrate",
    "load",
    "preprocess",
    "quantize",
    "tune",
    "uniform_plan",
    "validate",
]
