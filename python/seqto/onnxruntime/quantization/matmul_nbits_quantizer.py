"""onnxruntime's quantizer of constant operands in blocks of 2, 4 or 8 bits: MatMulNBits, GatherBlockQuantized."""
from __future__ import annotations

import logging
import typing

from ... import _core
from .onnx_model import ONNXModel
from .quant_utils import QuantFormat

Any = typing.Any
_log = logging.getLogger("seqto")


class WeightOnlyQuantConfig:
    """What all algorithms have in common."""

    def __init__(
        self,
        algorithm: str,
        quant_format: Any,
        op_types_to_quantize: tuple[str, ...] | None = None,
        quant_axes: tuple[tuple[str, int], ...] | None = None,
        customized_weight_config: dict[str, Any] | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.quant_format = quant_format
        self.op_types_to_quantize = set(op_types_to_quantize) if op_types_to_quantize else {"MatMul"}
        self.quant_axes = dict(quant_axes) if quant_axes else {"MatMul": 0, "Gather": 1}
        self.customized_weight_config = customized_weight_config


class DefaultWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Rounding to nearest, with the numbers of the runtime's own kernels."""

    def __init__(
        self,
        block_size: int = 128,
        is_symmetric: bool = False,
        accuracy_level: int | None = None,
        quant_format: Any = QuantFormat.QOperator,
        op_types_to_quantize: tuple[str, ...] | None = None,
        quant_axes: tuple[tuple[str, int], ...] | None = None,
        bits: int = 4,
        channel_wised_quantize: bool = False,
    ) -> None:
        super().__init__("DEFAULT", quant_format, op_types_to_quantize, quant_axes)
        self.block_size = block_size
        self.is_symmetric = is_symmetric
        self.bits = bits
        self.accuracy_level = accuracy_level
        self.channel_wised_quantize = channel_wised_quantize
        if channel_wised_quantize and quant_format.name == "QOperator":
            raise NotImplementedError("QuantFormat.QOperator is not supported channel_wised_quantize yet")


def _not_here(algorithm: str, instead: str) -> type[WeightOnlyQuantConfig]:
    """A configuration that says what to take in its place."""

    def refuse(self: WeightOnlyQuantConfig, *_: Any, **__: Any) -> None:
        raise NotImplementedError(f"{algorithm} found; seqto has not this algorithm; {instead}")

    return type(f"{algorithm.replace('_', '')}WeightOnlyQuantConfig", (WeightOnlyQuantConfig,), {"__init__": refuse})


_DEFAULT = "take DefaultWeightOnlyQuantConfig"
_LEARN = (_DEFAULT + ", or seqto.quantize(model, data, mode='weights', weight_bits=4, learned_rounding=True), which learns "
          "the codes from data")
RTNWeightOnlyQuantConfig = _not_here("RTN", _DEFAULT + ", which rounds to nearest too")
KQuantWeightOnlyQuantConfig = _not_here("k_quant", _LEARN)
GPTQWeightOnlyQuantConfig = _not_here("GPTQ", _LEARN)
HQQWeightOnlyQuantConfig = _not_here("HQQ", _LEARN)
NVAWQWeightOnlyQuantConfig = _not_here("nvidia_awq", _LEARN)


class MatMulNBitsQuantizer:
    """`process()` quantizes; `model` is what was given before, and the quantized model afterwards."""

    def __init__(
        self,
        model: Any,
        bits: int = 4,
        block_size: int = 128,
        is_symmetric: bool = False,
        accuracy_level: int | None = None,
        nodes_to_exclude: Any = None,
        nodes_to_include: list[str] | None = None,
        quant_format: Any = QuantFormat.QOperator,
        op_types_to_quantize: tuple[str, ...] | None = None,
        quant_axes: tuple[tuple[str, int], ...] | None = None,
        channel_wised_quantize: bool = False,
        algo_config: Any = None,
    ) -> None:
        self.model = ONNXModel(model)
        self.model_path = model if isinstance(model, str) else None
        self.bits = bits
        self.block_size = block_size
        self.is_symmetric = is_symmetric
        self.accuracy_level = accuracy_level
        self.nodes_to_exclude = set(nodes_to_exclude or [])
        self.nodes_to_include = set(nodes_to_include) if nodes_to_include else None
        self.algo_config = algo_config or DefaultWeightOnlyQuantConfig(
            block_size, is_symmetric, accuracy_level, quant_format, op_types_to_quantize, quant_axes, bits,
            channel_wised_quantize)
        if self.algo_config.algorithm != "DEFAULT":
            raise NotImplementedError(f"{self.algo_config.algorithm} found; seqto has not this algorithm; {_LEARN}")
        assert self.algo_config.bits in [2, 4, 8], "Only support 2, 4 or 8 bits quantization"

    def process(self) -> None:
        c = self.algo_config
        is_qdq, gathers = c.quant_format.name == "QDQ", "Gather" in c.op_types_to_quantize
        _check(c, is_qdq, gathers)
        model = _core.oracle_model(self.model.model if self.model._proto is not None else self.model._model,
                                   21 if is_qdq or gathers else 0)
        op_types = {t for t in c.op_types_to_quantize if c.bits == 4 or t != "Gather"}
        made, notes = _core.oracle_blocks(
            model, op_types, self.nodes_to_include or set(), self.nodes_to_exclude, bits=c.bits,
            int4_block_size=0 if is_qdq and c.channel_wised_quantize else c.block_size, int4_symmetric=bool(c.is_symmetric),
            int4_format="qdq" if is_qdq else "matmulnbits", accuracy_level=c.accuracy_level or 0)
        for note in notes:
            _log.info("%s", note)
        self.model = ONNXModel(made)


def _check(c: DefaultWeightOnlyQuantConfig, is_qdq: bool, gathers: bool) -> None:
    """Refuses what onnxruntime refuses, and what seqto has not."""
    assert not is_qdq or c.bits == 4, "QDQ format only support 4 bits quantization"
    assert not (is_qdq and gathers), "Gather only supports QOperator format currently."
    if is_qdq and c.channel_wised_quantize and c.is_symmetric:
        raise NotImplementedError("channel_wised_quantize with is_symmetric found; seqto does not turn weights for Intel's "
                                  "NPU; take is_symmetric=False")
    if gathers and c.quant_axes.get("Gather", 1) not in (1, -1):
        raise NotImplementedError(f"quant_axes Gather: {c.quant_axes['Gather']} found; seqto cuts the last axis of a table "
                                  "into blocks; take 1")
