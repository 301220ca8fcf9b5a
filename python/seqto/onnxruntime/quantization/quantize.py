"""onnxruntime's quantize_static, quantize_dynamic and their configurations."""
from __future__ import annotations

import json
import logging
import typing
from collections.abc import Callable
from pathlib import Path

from ... import _core
from .calibrate import (
    CalibrationDataReader,
    CalibrationMethod,
    TensorsData,
    create_calibrator,
    load_tensors_data,
    save_tensors_data,
)
from .quant_utils import QuantizationMode as QuantizationMode
from .quant_utils import QuantFormat, QuantType, our_type, quantizer_options

Any = typing.Any
_log = logging.getLogger("seqto")

_CALIBRATION = {  # extra option -> of create_calibrator
    "CalibTensorRangeSymmetric": "symmetric",
    "CalibMovingAverage": "moving_average",
    "CalibMovingAverageConstant": "averaging_constant",
    "CalibMaxIntermediateOutputs": "max_intermediate_outputs",
    "CalibPercentile": "percentile",
}


class QuantConfig:
    """What static and dynamic quantization have in common."""

    def __init__(
        self,
        activation_type: Any = QuantType.QUInt8,
        weight_type: Any = QuantType.QInt8,
        op_types_to_quantize: Any = None,
        nodes_to_quantize: Any = None,
        nodes_to_exclude: Any = None,
        per_channel: bool = False,
        reduce_range: bool = False,
        use_external_data_format: bool = False,
    ) -> None:
        self.op_types_to_quantize = op_types_to_quantize or []
        self.per_channel = per_channel
        self.reduce_range = reduce_range
        self.weight_type = weight_type
        self.activation_type = activation_type
        self.nodes_to_quantize = nodes_to_quantize or []
        self.nodes_to_exclude = nodes_to_exclude or []
        self.use_external_data_format = use_external_data_format


class StaticQuantConfig(QuantConfig):
    """The arguments of quantize_static."""

    def __init__(
        self,
        calibration_data_reader: Any,
        calibrate_method: Any = CalibrationMethod.MinMax,
        quant_format: Any = QuantFormat.QDQ,
        activation_type: Any = QuantType.QInt8,
        weight_type: Any = QuantType.QInt8,
        op_types_to_quantize: Any = None,
        nodes_to_quantize: Any = None,
        nodes_to_exclude: Any = None,
        per_channel: bool = False,
        reduce_range: bool = False,
        use_external_data_format: bool = False,
        calibration_providers: Any = None,
        extra_options: Any = None,
    ) -> None:
        super().__init__(activation_type, weight_type, op_types_to_quantize, nodes_to_quantize, nodes_to_exclude,
                         per_channel, reduce_range, use_external_data_format)
        self.calibration_data_reader = calibration_data_reader
        self.calibrate_method = calibrate_method
        self.quant_format = quant_format
        self.calibration_providers = calibration_providers
        self.extra_options = extra_options or {}


class DynamicQuantConfig(QuantConfig):
    """The arguments of quantize_dynamic."""

    def __init__(
        self,
        weight_type: Any = QuantType.QInt8,
        op_types_to_quantize: Any = None,
        nodes_to_quantize: Any = None,
        nodes_to_exclude: Any = None,
        per_channel: bool = False,
        reduce_range: bool = False,
        use_external_data_format: bool = False,
        extra_options: Any = None,
    ) -> None:
        super().__init__(QuantType.QUInt8, weight_type, op_types_to_quantize, nodes_to_quantize, nodes_to_exclude,
                         per_channel, reduce_range, use_external_data_format)
        self.extra_options = extra_options or {}


def _types(overrides: Any) -> set[str]:
    """Of tensors that have types of their own."""
    entries = [e for entries in (overrides or {}).values() for e in entries]
    entries += [e["convert"] for e in entries if e.get("convert")]
    return {our_type(e["quant_type"]) for e in entries if "quant_type" in e}


def _load(model: Any, types: set[str], block_size: int = 0) -> _core.Model:
    """In the opset that onnxruntime's quantizer takes it to."""
    needs_21 = block_size > 0 or bool(types & {"int16", "uint16"})
    loaded = _core.oracle_model(model, 0)
    return _core.oracle_model(loaded, 21 if needs_21 else 11)


def check_static_quant_arguments(quant_format: Any, activation_type: Any, weight_type: Any) -> None:
    """Refuses what onnxruntime refuses."""
    activations, weights, form = activation_type.name, weight_type.name, quant_format.name
    if activations == "QInt8" and weights == "QUInt8":
        raise ValueError("activation_type QInt8 with weight_type QUInt8 found; no runtime has kernels for it")
    if form != "QDQ" and "16" in activations + weights:
        raise ValueError("Only QuantFormat.QDQ supports 16-bit quantization types.")
    if form != "QDQ" and activations == weights == "QInt8":
        _log.warning("QInt8 activations in QOperator form found, which are slow on x86; use QuantFormat.QDQ")


def _calibrate(model: _core.Model, reader: Any, op_types: Any, method: Any, providers: Any, extra: Any) -> TensorsData:
    options = {ours: extra[theirs] for theirs, ours in _CALIBRATION.items() if theirs in extra}
    calibrator = create_calibrator(typing.cast(Any, model), op_types, calibrate_method=method, providers=providers,
                                   extra_options=options)
    calibrator.op_types = list(op_types or [])  # none: the default list
    stride = extra.get("CalibStridedMinMax")
    if isinstance(reader, _core.Batches):
        step = stride or len(reader)
        calibrator._batches, calibrator._calls = reader, [min(step, len(reader) - i) for i in range(0, len(reader), step)]
    elif not stride:
        calibrator.collect_data(reader)
    else:
        if len(reader) % stride:
            raise ValueError(f"Total data size ({len(reader)}) is not divisible by stride size ({stride}).")
        for start in range(0, len(reader), stride):
            reader.set_range(start_index=start, end_index=start + stride)
            calibrator.collect_data(reader)
    return calibrator.compute_data()


def _smoothed(model: _core.Model, reader: Any, extra: Any, options: dict[str, Any]) -> tuple[_core.Model, _core.Batches]:
    """The model with smoothed activations, and the samples, which are read once. What is added is left in float."""
    if reader is None:
        raise ValueError("SmoothQuant requires a non-None calibration_data_reader; the calibration cache stores per-tensor "
                         "ranges only and cannot drive the SmoothQuant transform.")
    if not extra.get("SmoothQuantFolding", True):
        raise NotImplementedError("SmoothQuantFolding=False found; seqto folds divisions wherever it can")
    batches = _core.Batches()
    while batch := reader.get_next():
        batches.append(model, batch)
    model, options["exclude"] = _core.oracle_smoothed(model, batches, extra.get("SmoothQuantAlpha", 0.5), **options)
    return model, batches


def _cached(path: Path | None, method: Any, smooth: bool) -> TensorsData | None:
    if path is None or not path.exists():
        return None
    if not path.is_file():
        raise ValueError(f"calibration_cache_path is not a file: {path}")
    if bool(json.loads(path.read_text()).get("smooth_quant")) != smooth:
        return None  # of another model
    found = load_tensors_data(path)
    if found.calibration_method.name != method.name:
        raise ValueError(f"Calibration cache at {path} was produced with {found.calibration_method}, but quantize_static "
                         f"was called with calibrate_method={method}. Delete the cache or pass a matching calibrate_method.")
    return found


def _write(model: _core.Model, ranges: _core.Ranges, scheme: str, output: str | Path, options: dict[str, Any]) -> None:
    made, deviations = _core.oracle_quantize(model, ranges, scheme, **options)
    if deviations:
        _log.info("differs from onnxruntime's model at %s (docs/reference/compatibility.md)", ", ".join(deviations))
    made.save(output)


def quantize_static(
    model_input: Any,
    model_output: str | Path,
    calibration_data_reader: CalibrationDataReader | None = None,
    quant_format: Any = QuantFormat.QDQ,
    op_types_to_quantize: Any = None,
    per_channel: bool = False,
    reduce_range: bool = False,
    activation_type: Any = QuantType.QInt8,
    weight_type: Any = QuantType.QInt8,
    nodes_to_quantize: Any = None,
    nodes_to_exclude: Any = None,
    use_external_data_format: bool = False,
    calibrate_method: Any = CalibrationMethod.MinMax,
    calibration_providers: Any = None,
    extra_options: Any = None,
    calibration_cache_path: str | Path | None = None,
) -> None:
    """Calibrates, quantizes and writes a model, as onnxruntime's function of this name does.

    Weights become external above 2 GB, whatever `use_external_data_format` says. SmoothQuant is seqto's own, with
    onnxruntime's alpha. Raises seqto.Error for models and data that do not serve.
    """
    extra = extra_options or {}
    smooth = bool(extra.get("SmoothQuant"))
    check_static_quant_arguments(quant_format, activation_type, weight_type)
    overrides, block_size = extra.get("TensorQuantOverrides"), extra.get("BlockSize") or 0
    model = _load(model_input, {our_type(activation_type), our_type(weight_type)} | _types(overrides), block_size)
    options = quantizer_options(
        extra, format=quant_format.name.lower(), activation_type=our_type(activation_type), weight_type=our_type(weight_type),
        per_channel=per_channel, reduce_range=reduce_range, op_types=op_types_to_quantize, include=nodes_to_quantize,
        exclude=nodes_to_exclude)
    samples: Any = calibration_data_reader
    if smooth:
        model, samples = _smoothed(model, samples, extra, options)
    cache = Path(calibration_cache_path) if calibration_cache_path is not None else None
    ranges = _cached(cache, calibrate_method, smooth)
    if ranges is None:
        if samples is None:
            raise ValueError("Either calibration_data_reader or an existing calibration_cache_path must be provided.")
        ranges = _calibrate(model, samples, op_types_to_quantize, calibrate_method, calibration_providers, extra)
        if cache is not None:
            save_tensors_data(ranges, cache, smooth_quant=smooth)
    _write(model, ranges.ranges, "int8", model_output, options)


def quantize_dynamic(
    model_input: Any,
    model_output: str | Path,
    op_types_to_quantize: Any = None,
    per_channel: bool = False,
    reduce_range: bool = False,
    weight_type: Any = QuantType.QInt8,
    nodes_to_quantize: Any = None,
    nodes_to_exclude: Any = None,
    use_external_data_format: bool = False,
    extra_options: Any = None,
) -> None:
    """Writes a model whose activations are quantized at run time, as onnxruntime's function of this name does."""
    model = _load(model_input, {our_type(weight_type)})
    _write(model, _core.Ranges(), "int8_dynamic", model_output, quantizer_options(
        extra_options or {}, activation_type="uint8", weight_type=our_type(weight_type), per_channel=per_channel,
        reduce_range=reduce_range, op_types=op_types_to_quantize, include=nodes_to_quantize,
        exclude=nodes_to_exclude))


def quantize(model_input: Any, model_output: str | Path, quant_config: Any) -> None:
    """quantize_static, quantize_dynamic or MatMulNBitsQuantizer, as the configuration says, of this module or of
    onnxruntime."""
    c = quant_config
    if hasattr(c, "algorithm"):
        from .matmul_nbits_quantizer import MatMulNBitsQuantizer

        quantizer = MatMulNBitsQuantizer(model_input, algo_config=c)
        quantizer.process()
        quantizer.model.save_model_to_file(model_output, True)
        return
    if not hasattr(c, "nodes_to_quantize"):
        raise TypeError("Invalid quantization config type, it must be either StaticQuantConfig, DynamicQuantConfig, or "
                        "WeightOnlyQuantConfig.")
    common = dict(op_types_to_quantize=c.op_types_to_quantize, per_channel=c.per_channel, reduce_range=c.reduce_range,
                  weight_type=c.weight_type, nodes_to_quantize=c.nodes_to_quantize, nodes_to_exclude=c.nodes_to_exclude,
                  use_external_data_format=c.use_external_data_format, extra_options=c.extra_options)
    if hasattr(c, "calibration_data_reader"):
        quantize_static(model_input, model_output, c.calibration_data_reader, calibrate_method=c.calibrate_method,
                        quant_format=c.quant_format, activation_type=c.activation_type,
                        calibration_providers=c.calibration_providers, **common)
    else:
        quantize_dynamic(model_input, model_output, **common)


def get_qdq_config(
    model_input: Any,
    calibration_data_reader: CalibrationDataReader,
    calibrate_method: Any = CalibrationMethod.MinMax,
    calibrate_args: dict[str, Any] | None = None,
    activation_type: Any = QuantType.QUInt8,
    weight_type: Any = QuantType.QInt8,
    activation_symmetric: bool = False,
    weight_symmetric: bool | None = None,
    per_channel: bool = False,
    reduce_range: bool = False,
    keep_removable_activations: bool = False,
    min_real_range: float | None = None,
    tensor_quant_overrides: dict[str, list[dict[str, Any]]] | None = None,
    calibration_providers: list[str] | None = None,
    op_types_to_quantize: list[str] | None = None,
    nodes_to_exclude: list[str] | Callable[[Any, Any], bool] | None = None,
    extra_options: dict[str, Any] | None = None,
) -> StaticQuantConfig:
    """The configuration that quantizes a whole model to integers, for accelerators that have nothing else."""
    model = _core.load(model_input)
    nodes = [(layer.id, layer.op_type) for layer in model.layers()]
    if callable(nodes_to_exclude):  # asks with values of the package onnx
        proto = model.to_onnx()
        excluded = {n.name for n in proto.graph.node if nodes_to_exclude(proto, n)}
    else:
        excluded = set(nodes_to_exclude or [])
    wanted = set(op_types_to_quantize or [t for name, t in nodes if name not in excluded])
    extra: dict[str, Any] = {
        "MinimumRealRange": min_real_range,
        "QDQKeepRemovableActivations": keep_removable_activations,
        "ActivationSymmetric": activation_symmetric,
        "WeightSymmetric": weight_symmetric,
        "ForceQuantizeNoInputCheck": True,
        "TensorQuantOverrides": dict(tensor_quant_overrides or {}),
    }
    args = calibrate_args or {}
    extra.update({theirs: args[ours] for theirs, ours in _CALIBRATION.items() if ours in args})
    types = {our_type(activation_type), our_type(weight_type)} | _types(tensor_quant_overrides)
    if model.opset < 21 and not types & {"int16", "uint16"} and types & {"int4", "uint4"}:
        extra["UseQDQContribOps"] = True
    extra.update(extra_options or {})
    return StaticQuantConfig(
        calibration_data_reader, calibrate_method=calibrate_method, quant_format=QuantFormat.QDQ,
        activation_type=activation_type, weight_type=weight_type,
        op_types_to_quantize=op_types_to_quantize or sorted(wanted - {"Cast", "DequantizeLinear", "QuantizeLinear"}),
        nodes_to_exclude=sorted(excluded), per_channel=per_channel, reduce_range=reduce_range,
        use_external_data_format=model.size_bytes >= 2**31, calibration_providers=calibration_providers, extra_options=extra)
