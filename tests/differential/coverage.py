"""Which rules of the QDQ form and which entries of docs/reference/compatibility.md a case went through, read off the models.

Counted for cases whose result is equal to onnxruntime's, or deviates by id, or is refused by id. The default run has to
meet every entry of REQUIRED.
"""
import numpy as np
from onnx import numpy_helper

from deviations import selected
from oracle import DEFAULTS

SPECIAL = ("Conv ConvTranspose Gemm Clip Relu Reshape Transpose Squeeze Unsqueeze Flatten Resize MaxPool AveragePool Slice Pad MatMul "
           "Split Gather GatherElements Where InstanceNormalization LayerNormalization BatchNormalization TopK CumSum").split()
PER_CHANNEL = "Conv ConvTranspose Gemm MatMul LayerNormalization".split()
OPTIONS = [k for k in DEFAULTS if k not in ("activation_type", "weight_type")]
OVERRIDES = ["quant_type", "scale", "symmetric", "reduce_range", "rmin", "axis", "convert"]

REQUIRED = ([f"rule {t}" for t in SPECIAL] + ["rule generic", "rule not in the list"] +
            [f"per channel {t}" for t in PER_CHANNEL] +
            [f"{t} {what}" for t in ("Relu", "Clip") for what in ("removed", "kept", "left alone")] +
            ["shares parameters", "Pad shares parameters", "Pad has its own", "Where quantized", "Where left alone",
             "bias int32", "bias copied", "bias stays float", "weight behind Q and DQ", "graph output quantized", "com.microsoft"] +
            [f"type {t}" for t in ("int8", "uint8", "int16", "uint16", "int4", "uint4")] +
            [f"option {o}" for o in OPTIONS] + [f"override {o}" for o in OVERRIDES] +
            ["override of channels", "converted for all", "converted for some", "converted graph output"] +
            [f"quirk {q}" for q in (1, 2, 4, 5, 9, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 29, 33, 34, 35, 36, 37, 41, 54)])


def rules(source, quantized, o, ids):
    """The entries of one case; `quantized` is our model, None where it is refused."""
    found = {f"quirk {i[1:]}" for i in ids}
    found |= {f"option {k}" for k in OPTIONS if o[k] != DEFAULTS[k]}
    for entries in o["tensor_overrides"].values():
        found |= {f"override {k}" for k in entries[0]} | ({"override of channels"} if len(entries) > 1 else set())
    if quantized is None:
        return found
    before, after = source.graph, quantized.graph
    constants = {i.name: i for i in after.initializer}
    produced = {t: n for n in after.node for t in n.output}
    nodes = {n.name: n for n in after.node if n.name}
    given, outputs = {i.name for i in before.initializer}, {v.name for v in before.output}
    linear = lambda t: t + "_QuantizeLinear_Output" in produced or t + "_QuantizeLinear_Output_1" in produced
    values = lambda name: numpy_helper.to_array(constants[name])
    makers = {t: n for n in before.node for t in n.output}
    for n in before.node:
        if not selected(n, o):
            if n.op_type not in SPECIAL:
                found.add("rule not in the list")
            continue
        found.add(f"rule {n.op_type}" if n.op_type in SPECIAL else "rule generic")
        out = n.output[0]
        weight = n.input[1] if len(n.input) > 1 else ""
        if n.op_type in PER_CHANNEL and weight + "_scale" in constants and len(constants[weight + "_scale"].dims) == 1:
            found.add(f"per channel {n.op_type}")
        if n.op_type in ("Relu", "Clip") and n.name:
            kept = n.name in nodes
            found.add(f"{n.op_type} " + ("left alone" if kept and not linear(out) else "kept" if kept else "removed"))
            maker = makers.get(n.input[0])
            if not kept and maker is not None and maker.op_type == "MaxPool":
                found.add("quirk 20")
        own = out + "_scale" in constants
        if linear(out) and not own:
            found.add("shares parameters")
        if n.op_type == "Pad" and linear(out):
            found.add("Pad has its own" if own else "Pad shares parameters")
        if n.op_type == "Where":
            found.add("Where quantized" if linear(out) else "Where left alone")
        if n.op_type in ("Conv", "ConvTranspose", "Gemm") and len(n.input) > 2 and n.input[2] in given:
            bias, now = n.input[2], nodes[n.name].input[2] if n.name in nodes else ""
            if bias + "_quantized" in constants and bias not in o["tensor_overrides"] and (
                    constants[bias + "_quantized"].data_type != 6):
                found.add("quirk 19")
            if now + "_quantized" in constants and constants[now + "_quantized"].data_type == 6:
                found |= {"bias int32"} | ({"bias copied"} if now != bias else set())
                scale = constants[now + "_quantized_scale"]
                if list(scale.dims) == [1] and not constants[now + "_quantized_zero_point"].dims:
                    found.add("quirk 23")
            if now in constants:
                found.add("bias stays float")
    read = {t for n in after.node for t in n.input}
    for n in after.node:
        if n.op_type == "QuantizeLinear" and n.input[0] in given:
            found.add("weight behind Q and DQ")
        if n.op_type in ("QuantizeLinear", "DequantizeLinear") and n.domain:
            found.add("com.microsoft")
        if n.op_type == "DequantizeLinear" and n.output[0] not in read and n.output[0] not in outputs and o["dedicated_qdq_pair"]:
            found.add("quirk 21")
        if n.op_type == "QuantizeLinear" and n.input[0].endswith("_QuantizeLinear_Input"):
            found.add("graph output quantized" if "_convert_" not in n.input[0] else "converted for some")
        if n.name.endswith("_convert_QuantizeLinear"):
            tensor = n.name[: -len("_convert_QuantizeLinear")]
            found.add("converted for some" if n.input[0].endswith("_convert_QuantizeLinear_Input") else "converted for all")
            if tensor in outputs:
                found.add("converted graph output")
        if n.op_type == "If":
            found.add("quirk 29")
    for name, tensor in constants.items():
        if name.endswith("_zero_point"):
            kind = {3: "int8", 2: "uint8", 5: "int16", 4: "uint16", 22: "int4", 21: "uint4"}.get(tensor.data_type)
            found |= {f"type {kind}"} if kind else set()
            scale = name[: -len("_zero_point")] + "_scale"
            if kind and scale in constants and not tensor.dims and values(scale) == 1 and not np.any(values(name)):
                found.add("quirk 22")
    return found
