"""Where we mean to differ from onnxruntime, by the ids of docs/compatibility.md: derived from model and options alone.

A deviation that the quantizer reports must be among these, and a difference without a report is a failure.
"""
from collections import Counter

import numpy as np
from onnx import TensorProto, numpy_helper
from onnxruntime.quantization.quant_utils import compute_scale_zp, get_qmin_qmax_for_qType, snap_zero_point_to_uint8

from oracle import DEFAULT_OPS

TENSOR_TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}


def selected(node, o):
    """onnxruntime's should_quantize_node."""
    return (node.op_type in (o["op_types"] or DEFAULT_OPS) and node.name not in o["exclude"]
            and (not o["include"] or node.name in o["include"])
            and node.op_type not in ("QuantizeLinear", "DequantizeLinear"))


def real_bounds(low, high, o):
    """The smallest and largest value of the quantized tensor, and its step."""
    qtype = TENSOR_TYPES[o["activation_type"]]
    symmetric = o["symmetric_activations"]
    qmin, qmax = get_qmin_qmax_for_qType(qtype, symmetric=symmetric)
    zero, scale = compute_scale_zp(np.float32(low), np.float32(high), qmin, qmax, symmetric, o["min_real_range"])
    if o["restricted_asymmetric_activations"] and qtype == TensorProto.UINT8 and not symmetric:
        zero, scale = snap_zero_point_to_uint8(np.float32(low), np.float32(high), qmin=qmin, qmax=qmax,
                                               min_real_range=o["min_real_range"])
    full = (-128, 127) if qtype == TensorProto.INT8 else (0, 255)
    zero, scale = float(np.asarray(zero)), float(np.asarray(scale))
    return (full[0] - zero) * scale, (full[1] - zero) * scale, scale


def clips_more(node, constants, ranges, o):
    """True when the quantized output's own range does not do what the Relu or Clip does."""
    if node.output[0] not in ranges:
        return False
    low, high = 0.0, np.inf
    if node.op_type == "Clip":
        low, high = -np.inf, np.inf
        for i, name in enumerate(node.input[1:3]):
            if name and name not in constants:
                return True  # bounds are computed: nobody knows
            if name:
                value = float(constants[name])
                low, high = (value, high) if i == 0 else (low, value)
    bottom, top, step = real_bounds(*ranges[node.output[0]], o)
    return bottom < low - 0.5 * step or top > high + 0.5 * step


def adjusted(graph, ranges, o):
    """onnxruntime's adjust_tensor_ranges: the only reader that clips hands its range to its input."""
    ranges, readers = dict(ranges), Counter(i for n in graph.node for i in n.input)
    for n in graph.node:
        if selected(n, o) and n.op_type in ("Clip", "Relu") and readers[n.input[0]] == 1:
            if n.input[0] in ranges and n.output[0] in ranges:
                ranges[n.input[0]] = ranges[n.output[0]]
        elif selected(n, o) and n.op_type == "Softmax":
            ranges[n.output[0]] = (0.0, 1.0)
    return ranges


def allowed(model, ranges, o):
    graph, ids = model.graph, set()
    calibrated, ranges = ranges, adjusted(model.graph, ranges, o)
    initializers = {i.name: i for i in graph.initializer}
    constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    constants.update({n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in graph.node
                      if n.op_type == "Constant" and n.attribute and n.attribute[0].HasField("t")})
    rank = lambda t: len(initializers[t].dims) if t in initializers else 0
    produced_by = {t: n for n in graph.node for t in n.output}
    captured = {i for n in graph.node for a in n.attribute if a.HasField("g") for m in a.g.node for i in m.input}
    quantized = {m.input[0] for m in graph.node if m.op_type == "QuantizeLinear"}
    biases, weights = [], []
    for n in graph.node:
        if not selected(n, o) or not n.input:
            continue
        attributes = {a.name: a for a in n.attribute}
        if quantized & {*n.input, *n.output}:
            ids.add("D41")
        third = n.input[2] if len(n.input) > 2 else ""
        if n.op_type == "Gemm" and third in initializers:
            if "beta" in attributes and attributes["beta"].f != 1.0:
                ids.add("D1")
            if o["per_channel"] and rank(third) != 1 or third in initializers and list(initializers[third].dims) == [1]:
                ids.add("D15")
        if n.op_type in ("Relu", "Clip"):
            if clips_more(n, constants, ranges, o):
                ids.add("D2")
            if n.op_type in o["exclude_output_op_types"]:
                ids.add("D4")
            if n.input[0] in captured:
                ids.add("D33")
        if n.op_type == "ConvTranspose" and o["per_channel"] and third and "group" in attributes and attributes["group"].i > 1:
            ids.add("D13")
        if n.op_type == "MatMul" and o["per_channel"] and (n.input[0] in initializers or rank(n.input[1]) > 2):
            ids.add("D14")
        if n.op_type in ("Conv", "ConvTranspose", "Gemm") or "Normalization" in n.op_type:
            biases.append((third, n.name))
            weights.append(n.input[1])
        if n.op_type in ("Split", "Gather", "GatherElements") or o["force_quantize_no_input_check"]:
            provider = produced_by.get(n.input[0])
            if provider is not None and (provider.domain not in ("", "ai.onnx") or provider.op_type == "DequantizeLinear"):
                ids.add("D5")
        if n.op_type == "Gather" and n.input[0] in initializers and o["per_channel"]:
            ids.add("D18")
        if n.op_type == "Softmax" and n.output[0] not in calibrated:
            ids.add("D34")
    names = [b for b, _ in biases if b in initializers]
    if any(names.count(b) > 1 and any(b == c and name == "" for c, name in biases) for b in names):
        ids.add("D9")
    return ids


# Allowed only where onnxruntime's own quantizer stops with an error, or its model does not run.
WHERE_IT_FAILS = {"D5", "D12", "D34"}


def rejects(model, o):
    """Why we refuse what onnxruntime takes (X in docs/compatibility.md), or None."""
    opset = next(p.version for p in model.opset_import if p.domain in ("", "ai.onnx"))
    if o["per_channel"] and opset < 13:
        return "X16"
    return None
