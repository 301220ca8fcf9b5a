"""onnxruntime's static quantizer with ranges given from outside, and the options of both sides."""
import contextlib
import io
import itertools
import json
import logging
import os
import signal
import warnings

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper
from onnxruntime.quantization import CalibrationMethod, QuantType, quantize_static
from onnxruntime.quantization.calibrate import TensorsData, save_tensors_data
from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

logging.disable(logging.CRITICAL)
warnings.filterwarnings("ignore")
ort.set_default_logger_severity(4)

DEFAULT_OPS = sorted(set(QDQRegistry) | set(QLinearOpsRegistry))
TYPES = {"int8": QuantType.QInt8, "uint8": QuantType.QUInt8}
EXTRA = {  # ours -> onnxruntime's extra option
    "symmetric_activations": "ActivationSymmetric",
    "symmetric_weights": "WeightSymmetric",
    "restricted_asymmetric_activations": "ActivationRestrictedAsymmetric",
    "min_real_range": "MinimumRealRange",
    "force_quantize_no_input_check": "ForceQuantizeNoInputCheck",
    "keep_removable_activations": "QDQKeepRemovableActivations",
    "add_qdq_pair_to_weight": "AddQDQPairToWeight",
    "quantize_bias": "QuantizeBias",
    "exclude_output_op_types": "OpTypesToExcludeOutputQuantization",
}
DEFAULTS = dict(activation_type="int8", weight_type="int8", per_channel=False, reduce_range=False,
                symmetric_activations=False, symmetric_weights=None, restricted_asymmetric_activations=False,
                min_real_range=None, force_quantize_no_input_check=False, keep_removable_activations=False,
                add_qdq_pair_to_weight=False, quantize_bias=True, adjust_weight_scale_for_bias=True, op_types=[],
                exclude_output_op_types=[], include=[], exclude=[])


class Hang(Exception):
    pass


@contextlib.contextmanager
def limit(seconds):
    """onnxruntime loops for ever on some graphs; those must not stop the comparison."""
    def stop(*_):
        raise Hang(f"no result after {seconds} s")

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def random_options(rng, model):
    """One row of the lattice: every option at its default in most rows, several others together in each."""
    o = json.loads(json.dumps(DEFAULTS))
    chance = lambda p: rng.random() < p
    pairs = [("int8", "int8"), ("int8", "int8"), ("uint8", "int8"), ("uint8", "int8"), ("uint8", "uint8")]
    o["activation_type"], o["weight_type"] = pairs[rng.integers(len(pairs))]
    if chance(0.02):
        o["activation_type"], o["weight_type"] = "int8", "uint8"  # both reject it
    o["per_channel"] = chance(0.4)
    o["reduce_range"] = chance(0.2)
    o["symmetric_activations"] = chance(0.15)
    o["symmetric_weights"] = [None, None, None, None, True, False][rng.integers(6)]
    o["restricted_asymmetric_activations"] = o["activation_type"] == "uint8" and chance(0.15)
    if chance(0.15):
        o["min_real_range"] = [1e-4, 1.0][rng.integers(2)]
    o["force_quantize_no_input_check"] = chance(0.3)
    o["keep_removable_activations"] = chance(0.15)
    o["add_qdq_pair_to_weight"] = chance(0.12)
    o["quantize_bias"] = not chance(0.12)
    o["adjust_weight_scale_for_bias"] = not chance(0.1)
    names = [n.name for n in model.graph.node]
    if chance(0.2):
        present = sorted({n.op_type for n in model.graph.node} - {"If"})
        o["op_types"] = [t for t in present if chance(0.6)]
    if chance(0.12):
        o["exclude_output_op_types"] = [t for t in DEFAULT_OPS if chance(0.2)]
    if chance(0.12):
        o["include"] = [n for n in names if n and chance(0.6)]
    if chance(0.6):
        share = rng.random()
        o["exclude"] = [n for n in names if chance(share)] + (["no such node"] if chance(0.2) else [])
    return o


def oracle_arguments(o):
    extra = {theirs: o[ours] for ours, theirs in EXTRA.items() if o[ours] != DEFAULTS[ours]}
    if not o["adjust_weight_scale_for_bias"]:
        extra["QDQDisableWeightAdjustForInt32Bias"] = True
    return dict(per_channel=o["per_channel"], reduce_range=o["reduce_range"], activation_type=TYPES[o["activation_type"]],
                weight_type=TYPES[o["weight_type"]], op_types_to_quantize=o["op_types"] or None,
                nodes_to_quantize=o["include"] or None, nodes_to_exclude=list(o["exclude"]), extra_options=extra)


def float_tensors(model, op_types):
    """The tensors that onnxruntime's calibrator observes: of the listed op types, of known float type, no constants."""
    inferred = onnx.shape_inference.infer_shapes(model)
    infos = itertools.chain(inferred.graph.value_info, inferred.graph.output, inferred.graph.input)
    types = {v.name: v.type.tensor_type.elem_type for v in infos}
    constants = {i.name for i in model.graph.initializer}
    return list(dict.fromkeys(
        t for n in model.graph.node if n.op_type in (op_types or DEFAULT_OPS) for t in itertools.chain(n.input, n.output)
        if types.get(t) in (TensorProto.FLOAT, TensorProto.FLOAT16) and t not in constants))


def observe(model, inputs, tensors):
    """Smallest and largest value of each tensor over the inputs, from runs of the model as written."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    have = {o.name for o in copy.graph.output}
    graph_inputs = {i.name for i in copy.graph.input}
    inner = [t for t in tensors if t not in graph_inputs]
    copy.graph.output.extend(helper.make_tensor_value_info(t, TensorProto.FLOAT, None) for t in inner if t not in have)
    s = session(copy, optimize=False)
    seen = {}
    for x in inputs:
        for t, v in zip(inner, s.run(inner, x) if inner else []):
            seen.setdefault(t, []).append(v)
        for t in tensors:
            if t in graph_inputs:
                seen.setdefault(t, []).append(x[t])
    return {t: (np.float32(min(a.min() for a in v)), np.float32(max(a.max() for a in v)))
            for t, v in seen.items() if all(a.size for a in v)}


def save_ranges(ranges, path):
    arrays = {t: (np.array(lo, np.float32), np.array(hi, np.float32)) for t, (lo, hi) in ranges.items()}
    save_tensors_data(TensorsData(CalibrationMethod.MinMax, arrays), path)


def quantize(model_path, ranges_path, options, output, seconds=4):
    with limit(seconds), contextlib.redirect_stdout(io.StringIO()):
        quantize_static(os.fspath(model_path), os.fspath(output), None, calibration_cache_path=os.fspath(ranges_path),
                        **oracle_arguments(options))


def session(model, optimize):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    source = model if isinstance(model, (str, bytes)) else model.SerializeToString()
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
