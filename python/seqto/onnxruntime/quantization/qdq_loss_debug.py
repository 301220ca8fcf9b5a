"""onnxruntime's comparison of a float model and its quantized one, tensor by tensor.

seqto.analyze tells the same figures of all tensors in one call, in constant memory, of models in any form.
"""
from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ... import _core
from .onnx_model import ONNXModel

if typing.TYPE_CHECKING:
    import numpy as np

_SAVED = "_ReshapedSavedOutput"
_BEFORE, _AFTER = "_QuantizeLinear_Input", ("_DequantizeLinear_Output", "_DequantizeLinear_Output_1")

Arrays: typing.TypeAlias = "Sequence[np.ndarray]"


def modify_model_output_intermediate_tensors(
    input_model_path: str | Path,
    output_model_path: str | Path,
    op_types_for_saving: Sequence[str] | None = None,
    save_as_external_data: bool = False,
) -> None:
    """Writes the model with an output more for each float tensor that nodes of these op types (None: all) see."""
    model = _core.debug_saved_tensors(_core.oracle_model(input_model_path, 0), set(op_types_for_saving or []))
    ONNXModel(model).save_model_to_file(output_model_path, save_as_external_data)


def collect_activations(
    augmented_model: str,
    input_reader: typing.Any,
    session_options: typing.Any = None,
    execution_providers: Sequence[str] | None = None,
) -> dict[str, list[np.ndarray]]:
    """Runs what modify_model_output_intermediate_tensors wrote: an array for each tensor and batch, in one row."""
    import onnxruntime  # type: ignore[import-not-found, import-untyped, unused-ignore]

    if session_options is None:
        session_options = onnxruntime.SessionOptions()
        session_options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(augmented_model, sess_options=session_options,
                                           providers=execution_providers or ["CPUExecutionProvider"])
    saved = [o.name for o in session.get_outputs() if o.name.endswith(_SAVED)]
    found: dict[str, list[np.ndarray]] = {name.removesuffix(_SAVED): [] for name in saved}
    batches = 0
    for batch in input_reader:
        batches += 1
        for values, array in zip(found.values(), session.run(saved, batch), strict=True):
            values.append(array)
    if not batches:
        raise RuntimeError("No data is collected while running augmented model!")
    return found


def create_activation_matching(
    qdq_activations: dict[str, Arrays], float_activations: dict[str, Arrays] | None = None
) -> dict[str, dict[str, Arrays]]:
    """{tensor: {"pre_qdq", "post_qdq", and where the float model has it "float"}}."""
    matched: dict[str, dict[str, Arrays]] = {}
    for name, values in qdq_activations.items():
        if name.endswith(_BEFORE):
            tensor, before = name.removesuffix(_BEFORE), values
            after = qdq_activations.get(tensor)
        elif suffix := next((s for s in _AFTER if name.endswith(s)), None):
            tensor, after = name.removesuffix(suffix), values
            before = qdq_activations.get(tensor, ())
        else:
            continue
        if after is not None and len(before):
            matched[tensor] = {"pre_qdq": before, "post_qdq": after}
    for tensor, entry in matched.items():
        if float_activations and tensor in float_activations:
            entry["float"] = float_activations[tensor]
    return matched


def create_weight_matching(float_model_path: str, qdq_model_path: str) -> dict[str, dict[str, np.ndarray]]:
    """{weight: {"float", "dequantized"}}, of models in Q/DQ form and in any other one."""
    pairs = _core.debug_weight_pairs(_core.load(float_model_path), _core.load(qdq_model_path))
    return {name: {"float": before, "dequantized": after} for name, before, after in pairs}


def compute_signal_to_quantization_noice_ratio(x: Arrays | np.ndarray, y: Arrays | np.ndarray) -> float:
    """dB, 20 log10(|x| / |x - y|), over all arrays; larger is better."""
    return _core.debug_noise_ratio(*(typing.cast("list[np.ndarray]", [v] if hasattr(v, "__array__") else list(v)) for v in (x, y)))


def compute_weight_error(
    weights_match: Mapping[str, Mapping[str, np.ndarray]],
    err_func: Callable[[typing.Any, typing.Any], float] = compute_signal_to_quantization_noice_ratio,
) -> dict[str, float]:
    return {name: err_func(match["float"], match["dequantized"]) for name, match in weights_match.items()}


def compute_activation_error(
    activations_match: Mapping[str, Mapping[str, Arrays]],
    err_func: Callable[[typing.Any, typing.Any], float] = compute_signal_to_quantization_noice_ratio,
) -> dict[str, dict[str, float]]:
    """"qdq_err" of each tensor, and "xmodel_err" where the match knows the float model's."""
    errors: dict[str, dict[str, float]] = {}
    for name, match in activations_match.items():
        errors[name] = {"qdq_err": err_func(match["pre_qdq"], match["post_qdq"])}
        if match.get("float"):
            errors[name]["xmodel_err"] = err_func(match["float"], match["post_qdq"])
    return errors
