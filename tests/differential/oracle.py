"""onnxruntime's static quantizer with ranges given from outside, and the options of both sides."""
import contextlib
import hashlib
import io
import itertools
import json
import logging
import os
import shutil
import signal
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper
from onnxruntime.quantization import CalibrationMethod, QuantType, quantize_static
from onnxruntime.quantization.calibrate import TensorsData, save_tensors_data
from onnxruntime.quantization.quant_utils import update_opset_version
from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

logging.disable(logging.CRITICAL)
warnings.filterwarnings("ignore")
ort.set_default_logger_severity(4)

DEFAULT_OPS = sorted(set(QDQRegistry) | set(QLinearOpsRegistry))
TYPES = {"int8": QuantType.QInt8, "uint8": QuantType.QUInt8, "int16": QuantType.QInt16, "uint16": QuantType.QUInt16,
         "int4": QuantType.QInt4, "uint4": QuantType.QUInt4}
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
    "dedicated_qdq_pair": "DedicatedQDQPair",
    "use_qdq_contrib_ops": "UseQDQContribOps",
    "block_size": "BlockSize",
    "op_type_per_channel_axis": "QDQOpTypePerChannelSupportToAxis",
}
DEFAULTS = dict(activation_type="int8", weight_type="int8", per_channel=False, reduce_range=False,
                symmetric_activations=False, symmetric_weights=None, restricted_asymmetric_activations=False,
                min_real_range=None, force_quantize_no_input_check=False, keep_removable_activations=False,
                add_qdq_pair_to_weight=False, quantize_bias=True, adjust_weight_scale_for_bias=True, op_types=[],
                exclude_output_op_types=[], include=[], exclude=[], dedicated_qdq_pair=False, use_qdq_contrib_ops=False,
                block_size=0, op_type_per_channel_axis={}, tensor_overrides={}, compat_onnxruntime=False)


CACHE = Path(os.environ.get("SEQTO_BUILD_DIR") or tempfile.gettempdir()) / "differential-cache"


class Hang(Exception):
    pass


class Refused(Exception):
    """What onnxruntime said when it was asked the same before."""


@contextlib.contextmanager
def limit(seconds):
    """onnxruntime loops for ever on some graphs; those must not stop the comparison."""
    def stop(*_):
        raise Hang(f"no result after {seconds} s")

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)  # again and again: what is raised in a destructor is lost
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
    o["dedicated_qdq_pair"] = chance(0.1)
    o["use_qdq_contrib_ops"] = chance(0.05)
    o["compat_onnxruntime"] = chance(0.15)
    if chance(0.12):
        o["activation_type"], o["weight_type"] = [("uint16", "int8"), ("int16", "int8"), ("uint16", "uint8"), ("uint8", "int4"),
                                                  ("uint16", "int16"), ("int8", "int4"), ("uint8", "uint4"), ("uint8", "int16"),
                                                  ("int16", "uint4"), ("uint4", "int4"), ("uint4", "int8"), ("int4", "uint8")][rng.integers(12)]
    if chance(0.05):
        o["block_size"] = [2, 4, 16][rng.integers(3)]
    if chance(0.1):
        o["op_type_per_channel_axis"] = {t: int(rng.integers(-1, 2)) for t in (
            "MatMul", "LayerNormalization", "BatchNormalization", "InstanceNormalization", "Conv") if chance(0.6)}
        o["per_channel"] = o["per_channel"] or chance(0.7)
    if chance(0.25):
        o["tensor_overrides"] = random_overrides(rng, model, o)
    return o


def random_overrides(rng, model, o):
    """Valid ones, for a few tensors, in the order of their names; in one of thirty cases one entry is not valid."""
    chance = lambda p: rng.random() < p
    constants = {i.name: i for i in model.graph.initializer if i.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16)}
    activations = [t for t in float_tensors(model, o["op_types"]) if t not in constants]
    number = lambda low, high: float(np.float32(10 ** rng.uniform(low, high)))
    kinds = ["int8", "uint8"] if chance(0.6) else list(TYPES)

    def params(initializer, otherwise):
        entry, kind = {}, otherwise
        if chance(0.4):
            kind = entry["quant_type"] = kinds[rng.integers(len(kinds))]
        way = rng.random()
        if way < 0.3:
            low, high = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535), "int4": (-8, 7),
                         "uint4": (0, 15)}[kind]
            zero = 0 if initializer and low < 0 and chance(0.5) else int(rng.integers(low, high + 1))
            entry.update(scale=number(-3, 0), zero_point=zero)
        elif way < 0.8:
            if chance(0.4):
                entry["symmetric"] = chance(0.5)
            if initializer and chance(0.4):
                entry["reduce_range"] = chance(0.5)
            if chance(0.4):
                entry.update(rmin=-number(-2, 1), rmax=number(-2, 1))
            elif not initializer and chance(0.3):
                entry["rmax"] = number(-2, 1)
        return entry, kind

    def channels(tensor):
        axis = int(rng.integers(len(tensor.dims)))
        count = tensor.dims[axis]
        first, kind = params(True, o["weight_type"])
        entries = [dict(first, axis=axis - len(tensor.dims) if chance(0.2) else axis)]
        if "scale" in first or chance(0.5):
            for _ in range(count - 1):
                entry = {k: v for k, v in first.items() if k not in ("quant_type", "symmetric", "reduce_range")}
                for key in ("scale", "rmin", "rmax"):
                    if key in entry:
                        entry[key] = float(np.float32(entry[key] * rng.uniform(0.5, 2)))
                entries.append(entry)
        return entries

    result = {}
    for name in sorted(set(activations) | set(constants)):
        if not chance(0.15):
            continue
        if name in constants:
            tensor = constants[name]
            per_channel = tensor.dims and min(tensor.dims) > 0 and chance(0.4)
            result[name] = channels(tensor) if per_channel else [params(True, o["weight_type"])[0]]
            continue
        entry, kind = params(False, o["activation_type"])
        if chance(0.3):
            other = [k for k in kinds if k != kind]
            convert = {"quant_type": other[rng.integers(len(other))]}
            if chance(0.3):
                convert["symmetric"] = chance(0.5)
            if chance(0.7):
                readers = [n.name for n in model.graph.node if name in n.input]
                convert["recv_nodes"] = sorted({r for r in readers if chance(0.6)} | ({"no such node"} if chance(0.1) else set()))
            entry["convert"] = convert
        result[name] = [entry]
    if result and chance(0.03):
        name = list(result)[rng.integers(len(result))]
        result[name][0].update(scale=0.5)
        result[name][0].pop("zero_point", None)
    return result


def overrides_of(o):
    """As onnxruntime wants them: enums, numpy scalars, sets."""
    def entry(e):
        e = dict(e)
        if "quant_type" in e:
            e["quant_type"] = TYPES[e["quant_type"]]
        for key in ("rmin", "rmax"):
            if key in e:
                e[key] = np.float32(e[key])
        if "scale" in e:
            e.update(scale=np.array(e["scale"], np.float32), zero_point=np.array(e["zero_point"]) if "zero_point" in e else None)
            e = {k: v for k, v in e.items() if v is not None}
        if "recv_nodes" in e:
            e["recv_nodes"] = set(e["recv_nodes"])
        if "convert" in e:
            e["convert"] = entry(e["convert"])
        return e

    return {t: [entry(e) for e in entries] for t, entries in o["tensor_overrides"].items()}


def oracle_arguments(o):
    extra = {theirs: o[ours] for ours, theirs in EXTRA.items() if o[ours] != DEFAULTS[ours]}
    if o["tensor_overrides"]:
        extra["TensorQuantOverrides"] = overrides_of(o)
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


def converted(model, o):
    """The model at the opset that onnxruntime's quantizer converts it to, where ONNX's converter can."""
    try:
        return update_opset_version(model, TYPES[o["weight_type"]], TYPES[o["activation_type"]], overrides_of(o), o["block_size"])
    except Exception:
        return model


def untyped(model):
    """The tensors of which the model tells no type."""
    told = {v.name for v in itertools.chain(model.graph.value_info, model.graph.output)}
    return sorted({t for n in model.graph.node for t in n.output} - told)


def observe(model, inputs, tensors):
    """Smallest and largest value of each tensor over the inputs, from runs of the model as written."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    have = {o.name for o in copy.graph.output}
    graph_inputs = {i.name for i in copy.graph.input}
    inner = [t for t in tensors if t not in graph_inputs]
    kind = model.graph.input[0].type.tensor_type.elem_type  # all tensors of interest are of one float type
    kind = kind if kind == TensorProto.FLOAT16 else TensorProto.FLOAT
    copy.graph.output.extend(helper.make_tensor_value_info(t, kind, None) for t in inner if t not in have)
    s = session(copy, optimize=False)
    seen = {}
    for x in inputs:
        for t, v in zip(inner, s.run(inner, x) if inner else []):
            seen.setdefault(t, []).append(v)
        for t in tensors:
            if t in graph_inputs:
                seen.setdefault(t, []).append(x[t])
    finite = lambda x: np.clip(x, np.finfo(x.dtype).min, np.finfo(x.dtype).max)  # float16 overflows soon
    return {t: (finite(min(a.min() for a in v)), finite(max(a.max() for a in v)))
            for t, v in seen.items() if all(a.size for a in v)}


def save_ranges(ranges, path):
    arrays = {t: (np.asarray(lo), np.asarray(hi)) for t, (lo, hi) in ranges.items()}
    save_tensors_data(TensorsData(CalibrationMethod.MinMax, arrays), path)


VERSIONS = " ".join(m.__version__ for m in (ort, onnx, np))


def cached_quantize(model_path, ranges_path, options, output):
    """quantize() by the content of its inputs, below SEQTO_BUILD_DIR; models above 1 MB are not kept."""
    arguments = json.dumps({k: v for k, v in options.items() if k != "compat_onnxruntime"}, sort_keys=False)
    parts = [Path(model_path).read_bytes(), Path(ranges_path).read_bytes(), arguments.encode(), VERSIONS.encode(),
             Path(__file__).read_bytes()]
    entry = CACHE / (hashlib.sha256(b"\0".join(hashlib.sha256(p).digest() for p in parts)).hexdigest()[:32])
    if entry.with_suffix(".onnx").exists():
        shutil.copyfile(entry.with_suffix(".onnx"), output)
        return
    if entry.with_suffix(".error").exists():
        raise Refused(entry.with_suffix(".error").read_text())
    keep = len(parts[0]) < 1 << 20
    CACHE.mkdir(parents=True, exist_ok=True)
    scratch = CACHE / f"{entry.name}.{os.getpid()}"
    try:
        quantize(model_path, ranges_path, options, output)
    except Hang:
        raise  # may be the machine's load
    except Exception as e:
        if keep:
            scratch.write_text(f"{type(e).__name__}: {str(e)[:200]}")
            scratch.replace(entry.with_suffix(".error"))
        raise
    if keep:
        shutil.copyfile(output, scratch)
        scratch.replace(entry.with_suffix(".onnx"))


def quantize(model_path, ranges_path, options, output, seconds=15):
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
