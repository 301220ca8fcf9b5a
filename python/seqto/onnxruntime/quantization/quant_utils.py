"""onnxruntime's enumerations, and how its options are called here."""
from __future__ import annotations

import typing
from enum import Enum


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
    options = {k: v for k, v in options.items() if v is not None}
    options.update({ours: plain(extra[theirs]) for theirs, ours in EXTRA.items() if extra.get(theirs) is not None})
    if extra.get("QDQDisableWeightAdjustForInt32Bias"):
        options["adjust_weight_scale_for_bias"] = False
    if extra.get("TensorQuantOverrides"):
        options["tensor_overrides"] = plain(extra["TensorQuantOverrides"])
    return {**options, "compat_onnxruntime": True}
