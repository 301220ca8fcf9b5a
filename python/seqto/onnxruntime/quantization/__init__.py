"""onnxruntime.quantization by seqto: change the import line of a script, and nothing else.

    from seqto.onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

Signatures and defaults are those of onnxruntime 1.31.1; models have equal operators and initializers, but for what
docs/reference/compatibility.md lists. Enumerations and readers of onnxruntime's own module are taken as well.
"""
from .calibrate import (
    CalibraterBase,
    CalibrationDataReader,
    CalibrationMethod,
    MinMaxCalibrater,
    TensorData,
    TensorsData,
    create_calibrator,
    load_tensors_data,
    save_tensors_data,
)
from .quant_utils import QuantFormat, QuantizationMode, QuantType, write_calibration_table
from .quantize import (
    DynamicQuantConfig,
    QuantConfig,
    StaticQuantConfig,
    get_qdq_config,
    quantize,
    quantize_dynamic,
    quantize_static,
)
from .shape_inference import quant_pre_process

__all__ = [
    "CalibraterBase",
    "CalibrationDataReader",
    "CalibrationMethod",
    "DynamicQuantConfig",
    "MinMaxCalibrater",
    "QuantConfig",
    "QuantFormat",
    "QuantType",
    "QuantizationMode",
    "StaticQuantConfig",
    "TensorData",
    "TensorsData",
    "create_calibrator",
    "get_qdq_config",
    "load_tensors_data",
    "quant_pre_process",
    "quantize",
    "quantize_dynamic",
    "quantize_static",
    "save_tensors_data",
    "write_calibration_table",
]


def __getattr__(name: str) -> object:
    if name in ("CudaQuantizer", "QDQQuantizer"):
        raise AttributeError(f"{name} found; seqto has no such class; call quantize_static, or import it from onnxruntime.quantization")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
