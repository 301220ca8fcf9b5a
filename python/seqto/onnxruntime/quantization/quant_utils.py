"""onnxruntime's enumerations and helpers, and how its options are called here.

Helpers that are not here (find_by_name, compute_scale_zp ...) are onnxruntime's own, taken from there when asked for.
"""
from __future__ import annotations

import json
import typing
from enum import Enum
from pathlib import Path

from ... import _core

if typing.TYPE_CHECKING:
    from .calibrate import TensorsData

onnx_domain, ms_domain = "ai.onnx", "com.microsoft"
QUANT_OP_NAME, DEQUANT_OP_NAME = "QuantizeLinear", "DequantizeLinear"
QUANT_INPUT_SUFFIX, DEQUANT_OUTPUT_SUFFIX = "_QuantizeLinear_Input", "_DequantizeLinear_Output"
TENSOR_NAME_QUANT_SUFFIX = "_quantized"
MODEL_SIZE_THRESHOLD = 2**31


def __getattr__(name: str) -> typing.Any:
    if name.startswith("__"):
        raise AttributeError(name)
    import onnxruntime.quantization.quant_utils as theirs  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return getattr(theirs, name)


class _Named(Enum):
    def __str__(self) -> str:
        return self.name

    @classmethod
    def from_string(cls, name: str) -> typing.Any:
        try:
            return cls[name]
        except KeyError:
            raise ValueError(f"{name!r} found; one of {', '.join(cls.__members__)} expected") from None


class QuantizationMode(_Named):
    IntegerOps = 0
    QLinearOps = 1


class QuantFormat(_Named):
    QOperator = 0
    QDQ = 1


class QuantType(_Named):
    QInt8 = 0
    QUInt8 = 1
    QFLOAT8E4M3FN = 2
    QInt16 = 3
    QUInt16 = 4
    QInt4 = 5
    QUInt4 = 6

    @property
    def tensor_type(self) -> int:
        """The number of TensorProto.DataType."""
        return {"QInt8": 3, "QUInt8": 2, "QFLOAT8E4M3FN": 17, "QInt16": 5, "QUInt16": 4, "QInt4": 22, "QUInt4": 21}[self.name]


# onnxruntime's extra option -> ours.
EXTRA = {
    "extra.Sigmoid.nnapi": "nnapi_sigmoid",
    "ActivationSymmetric": "symmetric_activations",
    "ActivationRestrictedAsymmetric": "restricted_asymmetric_activations",
    "WeightSymmetric": "symmetric_weights",
    "EnableSubgraph": "enable_subgraph",
    "ForceQuantizeNoInputCheck": "force_quantize_no_input_check",
    "MatMulConstBOnly": "matmul_const_b_only",
    "AddQDQPairToWeight": "add_qdq_pair_to_weight",
    "OpTypesToExcludeOutputQuantization": "exclude_output_op_types",
    "DedicatedQDQPair": "dedicated_qdq_pair",
    "QDQOpTypePerChannelSupportToAxis": "op_type_per_channel_axis",
    "QuantizeBias": "quantize_bias",
    "UseQDQContribOps": "use_qdq_contrib_ops",
    "MinimumRealRange": "min_real_range",
    "BlockSize": "block_size",
    "QDQKeepRemovableActivations": "keep_removable_activations",
}
# Of ours, what is no yes or no: onnxruntime takes whatever counts as one.
VALUES = {"exclude_output_op_types", "op_type_per_channel_axis", "min_real_range", "block_size"}


def our_type(kind: typing.Any) -> str:
    """"int8" of QuantType.QInt8, of this module or of onnxruntime."""
    if kind.name == "QFLOAT8E4M3FN":
        raise ValueError("QFLOAT8E4M3FN found; seqto writes no 8-bit floats; use onnxruntime's own quantizer for those")
    return str(kind.name)[1:].lower()


def plain(value: typing.Any) -> typing.Any:
    """Overrides without enumerations, sets and numpy scalars."""
    if isinstance(value, typing.Mapping):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in (sorted(value) if isinstance(value, (set, frozenset)) else value)]
    if isinstance(value, Enum):
        return our_type(value)
    return value.item() if hasattr(value, "item") else value


def quantizer_options(extra: typing.Mapping[str, typing.Any], **options: typing.Any) -> dict[str, typing.Any]:
    """Keywords of QuantizeOptions; None: as they are by default."""
    options = {k: bool(v) if k in ("per_channel", "reduce_range") else v for k, v in options.items() if v is not None}
    options.update({ours: plain(extra[theirs]) if ours in VALUES else bool(extra[theirs])
                    for theirs, ours in EXTRA.items() if extra.get(theirs) is not None})
    if extra.get("QDQDisableWeightAdjustForInt32Bias"):
        options["adjust_weight_scale_for_bias"] = False
    if extra.get("TensorQuantOverrides"):
        options["tensor_overrides"] = plain(extra["TensorQuantOverrides"])
    return {**options, "compat_onnxruntime": True}


def load_model_with_shape_infer(model_path: str | Path) -> typing.Any:
    """An onnx.ModelProto with the shapes that onnxruntime's quantizer asks for; needs the package onnx."""
    model = _core.oracle_model(model_path, 0).to_onnx()
    if all(p.key != "onnx.infer" for p in model.metadata_props):
        entry = model.metadata_props.add()
        entry.key, entry.value = "onnx.infer", "onnxruntime.quant"
    return model


def save_and_reload_model_with_shape_infer(model: typing.Any) -> typing.Any:
    return load_model_with_shape_infer(model)


def write_calibration_table(calibration_cache: TensorsData | typing.Mapping[str, typing.Any], dir: str | Path = ".") -> None:
    """TensorRT's tables, in calibration.json, calibration.flatbuffers and calibration.cache of the folder."""
    from .calibrate import _METHODS, CalibrationCacheEncoder, CalibrationMethod, TensorsData

    data = calibration_cache
    if not isinstance(data, TensorsData):
        data = TensorsData(getattr(data, "calibration_method", CalibrationMethod.MinMax), dict(data.items()))
    data.ranges.save_tensorrt(Path(dir, "calibration"), _METHODS[data.calibration_method.name])
    Path(dir, "calibration.json").write_text(json.dumps(data, cls=CalibrationCacheEncoder))  # with histograms
