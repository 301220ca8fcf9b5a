"""Where we mean to differ from onnxruntime, by the ids of docs/reference/compatibility.md: derived from model and options alone.

A deviation that the quantizer reports must be among these, and a difference without a report is a failure.
"""
from collections import Counter

import numpy as np
from onnx import TensorProto, numpy_helper
from onnxruntime.quantization.quant_utils import compute_scale_zp, get_qmin_qmax_for_qType, snap_zero_point_to_uint8

from oracle import DEFAULT_OPS

TENSOR_TYPES = {n: getattr(TensorProto, n.upper()) for n in ("int8", "uint8", "int16", "uint16", "int4", "uint4")}


def override(tensor, o):
    entries = o["tensor_overrides"].get(tensor)
    return entries[0] if entries else {}


def per_channel(tensor, o):
    return "axis" in override(tensor, o) if tensor in o["tensor_overrides"] else o["per_channel"]


def bits(kind):
    return int(kind.lstrip("uint") or 0)


def override_types(o):
    """The types of each tensor's overrides, in the order of the dictionary."""
    return [{e[k]["quant_type"] if k == "convert" else e[k] for e in entries for k in ("quant_type", "convert") if k in e}
            for entries in o["tensor_overrides"].values()]


def selected(node, o):
    """onnxruntime's should_quantize_node."""
    return (node.op_type in (o["op_types"] or DEFAULT_OPS) and node.name not in o["exclude"]
            and (not o["include"] or node.name in o["include"])
            and node.op_type not in ("QuantizeLinear", "DequantizeLinear"))


def real_bounds(tensor, low, high, o):
    """The smallest and largest value of the quantized tensor, and its step."""
    given = override(tensor, o)
    qtype = TENSOR_TYPES[given.get("quant_type", o["activation_type"])]
    symmetric = given.get("symmetric", o["symmetric_activations"])
    low, high = given.get("rmin", low), given.get("rmax", high)
    qmin, qmax = get_qmin_qmax_for_qType(qtype, symmetric=symmetric)
    if "scale" in given:
        zero, scale = given["zero_point"], given["scale"]
    elif o["restricted_asymmetric_activations"] and qtype == TensorProto.UINT8 and not symmetric:
        zero, scale = snap_zero_point_to_uint8(np.float32(low), np.float32(high), qmin=qmin, qmax=qmax,
                                               min_real_range=o["min_real_range"])
    else:
        kind = np.float16 if isinstance(low, np.float16) else np.float32
        zero, scale = compute_scale_zp(kind(low), kind(high), qmin, qmax, symmetric, o["min_real_range"])
    full = [int(q) for q in get_qmin_qmax_for_qType(qtype)]
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
                value = np.asarray(constants[name]).item()
                low, high = (value, high) if i == 0 else (low, value)
    bottom, top, step = real_bounds(node.output[0], *ranges[node.output[0]], o)
    return bottom < low - 0.5 * step or top > high + 0.5 * step


def has_empty_channel(value):
    """Along any axis, a part of nothing but zeros, or so small that its scale counts as 0."""
    largest = lambda axis: np.abs(value).max(axis=tuple(k for k in range(value.ndim) if k != axis))
    return value.dtype.kind == "f" and value.size > 0 and any((largest(k) < 1e-2 if value.dtype == np.float16 else largest(k) < 1e-35).any()
                                                              for k in range(value.ndim))


def read_in_bodies(graph):
    return {i for n in graph.node for a in n.attribute if a.HasField("g") for m in a.g.node for i in m.input}


def read_elsewhere(graph):
    """Than by the graph's own nodes."""
    return read_in_bodies(graph) | {v.name for v in graph.output}


def keeps_its_range(node, graph, o):
    return selected(node, o) and node.op_type in ("Relu", "Clip") and node.input[0] in read_elsewhere(graph)


def adjusted(graph, ranges, o):
    """onnxruntime's adjust_tensor_ranges: the only reader that clips hands its range to its input. Not, but for
    compat_onnxruntime, of what bodies and the graph's caller read (D61)."""
    ranges, readers = dict(ranges), Counter(i for n in graph.node for i in n.input)
    others = set() if o["compat_onnxruntime"] else read_elsewhere(graph)
    for n in graph.node:
        if selected(n, o) and n.op_type in ("Clip", "Relu") and readers[n.input[0]] == 1 and n.input[0] not in others:
            if n.input[0] in ranges and n.output[0] in ranges:
                ranges[n.input[0]] = ranges[n.output[0]]
        elif selected(n, o) and n.op_type == "Softmax":
            ranges[n.output[0]] = (0.0, 1.0)
    return ranges


def allowed(model, ranges, o):
    graph, ids = model.graph, set()
    if any(abs(float(bound)) >= np.finfo(np.float32).max for pair in ranges.values() for bound in pair):
        ids.add("D52")  # a mask of minus infinity
    calibrated, ranges = ranges, adjusted(model.graph, ranges, o)
    initializers = {i.name: i for i in graph.initializer}
    constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    constants.update({n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in graph.node
                      if n.op_type == "Constant" and n.attribute and n.attribute[0].HasField("t")})
    rank = lambda t: len(initializers[t].dims) if t in initializers else 0
    produced_by = {t: n for n in graph.node for t in n.output}
    captured = read_in_bodies(graph)
    quantized = {m.input[0] for m in graph.node if m.op_type == "QuantizeLinear"}
    biases, weights = [], []
    half = graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT16
    for n in graph.node:
        # Also of a node left alone: between tensors quantized for others it becomes an integer operator all the same.
        if n.op_type not in ("Conv", "ConvTranspose", "Gemm", "MatMul") and any(
                i in initializers and (per_channel(i, o) or "axis" in override(i, o) or o["block_size"]) for i in n.input):
            ids.add("D35")
        if n.op_type == "MaxPool":
            ids.add("D55")  # where it is left in float; 16- and 4-bit types also raise an opset below 12
        if not selected(n, o) or not n.input:
            continue
        attributes = {a.name: a for a in n.attribute}
        if quantized & {*n.input, *n.output}:
            ids |= {"D41", "D5"}  # what shares the parameters of such a tensor has its own
        third = n.input[2] if len(n.input) > 2 else ""
        if n.op_type == "Gemm" and third in initializers:
            if "beta" in attributes and attributes["beta"].f != 1.0:
                ids.add("D1")
            if per_channel(n.input[1], o) and rank(third) != 1 or third in initializers and list(initializers[third].dims) == [1]:
                ids.add("D15")
            given = override(n.input[1], o).get("axis")
            if given is not None and list(initializers[third].dims) != [initializers[n.input[1]].dims[given]]:
                ids.add("D15")  # of the axis that was asked for
        if n.op_type in ("Relu", "Clip"):
            if clips_more(n, constants, ranges, o):
                ids.add("D2")
            if n.op_type in o["exclude_output_op_types"]:
                ids.add("D4")
            if n.input[0] in captured:
                ids.add("D33")
            if keeps_its_range(n, graph, o):
                ids.add("D61")
        if n.op_type == "ConvTranspose" and per_channel(n.input[1], o) and third and "group" in attributes and attributes["group"].i > 1:
            ids.add("D13")
        if n.op_type in ("Conv", "Gemm", "MatMul") and any(i in initializers for i in n.input[:2]) and (
                any("axis" in override(i, o) for i in n.input[:2]) or n.op_type in o["op_type_per_channel_axis"] or o["block_size"]):
            ids.add("D35")
        if n.op_type == "MatMul" and o["per_channel"] and (n.input[0] in initializers or rank(n.input[1]) > 2):
            ids.add("D14")
        if n.op_type in ("Conv", "ConvTranspose", "Gemm") or "Normalization" in n.op_type:
            biases.append((third, n.name))
            weights.append(n.input[1])
        if n.op_type in ("Split", "Gather", "GatherElements") or o["force_quantize_no_input_check"]:
            provider = produced_by.get(n.input[0])
            if provider is not None and (provider.domain not in ("", "ai.onnx") or provider.op_type == "DequantizeLinear"):
                ids.add("D5")
        if n.op_type == "Gather" and n.input[0] in initializers and (o["per_channel"] or o["block_size"] or "axis" in override(n.input[0], o)):
            ids.add("D18")
        if "Normalization" in n.op_type and third and per_channel(n.input[1], o) and rank(n.input[1]) > 1:
            ids.add("D15")
        if n.op_type == "Softmax" and n.output[0] not in calibrated:
            ids.add("D34")
        if n.op_type == "Softmax" and (half or any(c.dtype == np.float16 for c in constants.values())):
            ids.add("D17")
    if o["block_size"]:
        ids.add("D36")
    if o["reduce_range"] or any(e.get("reduce_range") for entries in o["tensor_overrides"].values() for e in entries):
        ids.add("D57")
    if any(t.startswith("u") for t in {o["weight_type"]}.union(*override_types(o))) and any(map(has_empty_channel, constants.values())):
        ids.add("D65")
    types = {o["activation_type"]}.union(*override_types(o))
    converted = o["block_size"] or any(bits(t) == 16 for t in types | {o["weight_type"]})  # to opset 21
    if "int8" in types and (converted or opset(model) >= 21):
        ids.add("D54")
    if half and o["activation_type"] in ("int8", "uint8") and any(n.op_type == "Concat" for n in graph.node):
        ids.add("D53")
    if half:
        ids.add("D66")  # 16-bit codes of values below 4 have such scales, and the products of two scales are soon too small
    if (o["restricted_asymmetric_activations"] or o["tensor_overrides"]) and half:
        ids.add("D17")
    if any(bits(t) == 4 for t in {o["activation_type"]}.union(*override_types(o))):
        ids |= {"D37", "D5", "D12"}  # what shares parameters with a tensor that stays float has its own; a bias needs both
    if opset(model) < 21 and not o["use_qdq_contrib_ops"] and any({"int4", "uint4"} & t for t in override_types(o)[1:]):
        ids.add("D24")
    names = [b for b, _ in biases if b in initializers]
    if any(names.count(b) > 1 and any(b == c and name == "" for c, name in biases) for b in names):
        ids.add("D9")
    return ids - RESTORED if o["compat_onnxruntime"] else ids


# What compat_onnxruntime follows.
RESTORED = {"D1", "D2", "D4", "D9", "D57", "D61", "D65", "D66"}
# Allowed only where onnxruntime's own quantizer stops with an error, or its model does not run.
WHERE_IT_FAILS = {"D5", "D12", "D34"}


def opset(model):
    return next(p.version for p in model.opset_import if p.domain in ("", "ai.onnx"))


def rejects(model, o):
    """Why we refuse what onnxruntime takes (X in docs/reference/compatibility.md), or None."""
    types = set().union({o["activation_type"], o["weight_type"]}, *override_types(o))
    if any(("scale" in e) != ("zero_point" in e) for entries in o["tensor_overrides"].values() for e in entries):
        return "X24"
    steps = 1 << bits(o["activation_type"])
    low, high = (0, steps - 1) if o["activation_type"].startswith("u") else (-steps // 2, steps // 2 - 1)
    constants = {i.name for i in model.graph.initializer}
    if any(t in constants and "quant_type" not in e and not low <= e.get("zero_point", 0) <= high
           for t, entries in o["tensor_overrides"].items() for e in entries):
        return "X25"
    if o["block_size"] or any(bits(t) == 16 for t in types):
        return None  # converted to opset 21
    if o["use_qdq_contrib_ops"] or opset(model) < 21 and any(bits(t) == 4 for t in types):
        return None  # com.microsoft's Q and DQ have axis and float16 at every opset
    if opset(model) < 13 and (o["per_channel"] or any("axis" in e[0] for e in o["tensor_overrides"].values())):
        return "X16"
    if opset(model) < 19 and any(i.type.tensor_type.elem_type == TensorProto.FLOAT16 for i in model.graph.input):
        return "X17"
    return None
