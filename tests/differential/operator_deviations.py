"""Where QOperator form and dynamic quantization mean to differ from onnxruntime's, derived from model and options alone."""
from collections import Counter

from onnx import TensorProto, numpy_helper
from onnxruntime.quantization.registry import IntegerOpsRegistry

from deviations import adjusted, clips_more, has_empty_channel, keeps_its_range, opset, selected
from oracle import DEFAULT_OPS

# Allowed only where onnxruntime's own quantizer stops with an error, or its model does not run.
WHERE_IT_FAILS = {"D9", "D11", "D12", "D16", "D18", "D33", "D34", "D47"}


def is_sorted(graph):
    given = {i.name for i in graph.input} | {i.name for i in graph.initializer} | {""}
    for n in graph.node:
        reads = list(n.input) + [i for a in n.attribute if a.HasField("g") for m in a.g.node for i in m.input
                                 if i not in {o for k in a.g.node for o in k.output} | {w.name for w in a.g.initializer}]
        if not set(reads) <= given:
            return False
        given |= set(n.output)
    return True


def attribute(node, name, otherwise):
    for a in node.attribute:
        if a.name == name:
            return a.f if a.type == 1 else a.i if a.type == 2 else a.s if a.type == 3 else list(a.ints)
    return otherwise


def is_dense(n):
    return attribute(n, "alpha", 1.0) == 1 and attribute(n, "beta", 1.0) == 1 and not attribute(n, "transA", 0)


class Facts:
    def __init__(self, form, model, ranges, o):
        self.form, self.graph, self.o = form, model.graph, o
        self.initializers = {i.name: i for i in self.graph.initializer}
        self.constants = {k: numpy_helper.to_array(v) for k, v in self.initializers.items()}
        self.constants.update({n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in self.graph.node
                               if n.op_type == "Constant" and n.attribute and n.attribute[0].HasField("t")})
        self.readers = Counter(i for n in self.graph.node for i in n.input if i)
        self.producer = {t: n for n in self.graph.node for t in n.output}
        self.calibrated, self.ranges = ranges, adjusted(self.graph, ranges, o) if form == "qoperator" else {}
        types = o["op_types"] or (DEFAULT_OPS if form == "qoperator" else list(IntegerOpsRegistry))
        self.scope = dict(o, op_types=types)

    def selected(self, n):
        return selected(n, self.scope)


def of_gemm(f, n):
    ids, c = set(), n.input[2] if len(n.input) > 2 else None
    if c == "":
        ids.add("D12")
    if f.form == "dynamic":
        named = f.selected(type(n)(name=n.name, op_type="MatMul"))
        constant = n.input[1] in f.initializers
        if is_dense(n) and (not named or not constant or f.o["include"] or n.name in f.o["exclude"]):
            ids.add("D42")
        if attribute(n, "transB", 0) and constant and f.readers[n.input[1]] > 1:
            ids.add("D50")
        return ids
    if not f.selected(n) or not c:
        return ids
    if c not in f.initializers:
        return {"D12"}
    if not is_dense(n):
        ids.add("D1")
    if f.o["per_channel"]:
        columns = f.initializers[n.input[1]].dims[0 if attribute(n, "transB", 0) else 1] if n.input[1] in f.initializers else None
        if list(f.initializers[c].dims) != [columns]:
            ids.add("D15")
    return ids


def of_layer(f, n):
    ids = of_gemm(f, n) if n.op_type == "Gemm" else set()
    if not f.selected(n) and not (n.op_type == "Gemm" and f.form == "dynamic"):
        return ids
    weight = n.input[1] if len(n.input) > 1 else ""
    bias = n.input[2] if len(n.input) > 2 else ""
    if n.op_type == "Conv" and bias and (bias not in f.initializers or (f.form == "dynamic" and weight not in f.initializers)):
        ids.add("D12")
    if n.op_type in ("Conv", "Gemm") and f.form == "qoperator":
        if f.readers[bias] > 1:
            ids.add("D9")
        if f.readers[weight] > 1 or weight not in f.initializers:
            ids.add("D10")
    if n.op_type in ("MatMul", "Attention") and f.o["per_channel"] and weight in f.initializers:
        if len(f.initializers[weight].dims) != 2:
            ids.add("D14")
    if n.op_type == "LSTM":
        if attribute(n, "layout", 0):
            ids.add("D28")
        if f.o["symmetric_weights"] is False:
            ids.add("D48")
        if f.readers[n.input[1]] > 1 or f.readers[n.input[2]] > 1:
            ids.add("D43")
    return ids


def clips(f, n):
    """The codes of the input, or of what its codes are taken from, reach beyond what the Relu or Clip lets through."""
    source, ids = n.input[0], {"D2", "D3"}
    while True:
        probe = type(n)()
        probe.CopyFrom(n)
        probe.output[0] = source
        if f.readers[source] > 1:
            ids.add("D31")
        if source in f.initializers or (source in f.ranges and clips_more(probe, f.constants, f.ranges, f.o)):
            return ids
        made = f.producer.get(source)
        if made is None or not made.input:
            return set()
        source = made.input[0]


def of_other(f, n):
    ids = set()
    if n.op_type == "Where" and f.form == "qoperator":
        force = f.o["force_quantize_no_input_check"]
        ids |= {"D32"} if force and not f.selected(n) else {"D11"} if not force else set()
    if not f.selected(n):
        return ids
    if n.op_type in ("Relu", "Clip") and f.form == "qoperator":
        ids |= clips(f, n)
        if keeps_its_range(n, f.graph, f.o) and not f.o["compat_onnxruntime"]:
            ids.add("D61")
    if n.op_type == "Pad" and len(n.input) > 2 and n.input[2]:
        ids |= {"D45", "D46"} if f.readers[n.input[2]] > 1 else {"D45"}
    inputs_dropped = {"Attention": 5, "EmbedLayerNormalization": 8}.get(n.op_type, 99)
    if any(n.input[inputs_dropped:]) or (n.op_type == "AveragePool" and attribute(n, "dilations", None)):
        ids.add("D44")
    if f.form == "qoperator" and n.op_type == "Softmax" and attribute(n, "axis", None) is None and not f.o["compat_onnxruntime"]:
        ids.add("D63")
    if f.form == "qoperator" and n.op_type == "Resize":
        ids.add("D64")
    if f.form == "qoperator":
        tensors = [t for t in list(n.input) + list(n.output)[:1] if t and t not in f.initializers]
        if any(t not in f.ranges for t in tensors):
            ids.add("D12")
    return ids


def allowed(form, model, ranges, o):
    f = Facts(form, model, ranges, o)
    ids = set() if is_sorted(f.graph) else {"D29", "D47"}
    # A constant that the first reader made a weight is no activation in another type.
    types = {"uint8" if form == "dynamic" else o["activation_type"], o["weight_type"]}
    inside = Counter(i for n in f.graph.node for a in n.attribute if a.HasField("g") for m in a.g.node for i in m.input
                     if o["enable_subgraph"])
    if any(f.readers[i] + inside[i] > 1 for i in f.initializers) and (len(types) > 1 or o["per_channel"]):
        ids.add("D18")
    if o["reduce_range"] and not o["compat_onnxruntime"]:
        ids.add("D57")
    if not o["compat_onnxruntime"] and o["per_channel"]:
        if o["weight_type"] == "uint8" and any(map(has_empty_channel, f.constants.values())):
            ids.add("D65")
        if form == "qoperator" and o["symmetric_weights"] is False and any(n.op_type == "Conv" for n in f.graph.node):
            ids.add("D67")
    if any(a.HasField("g") for n in f.graph.node for a in n.attribute):
        ids.add("D33")
    if o["enable_subgraph"] and form == "qoperator":
        ids |= {"D2", "D3", "D12", "D31"}  # what is inside bodies has no ranges
    if any(i.data_type == TensorProto.FLOAT16 for i in f.graph.initializer) or any(
            v.type.tensor_type.elem_type == TensorProto.FLOAT16 for v in list(f.graph.input) + list(f.graph.output)) or any(
            attribute(n, "to", 0) == TensorProto.FLOAT16 for n in f.graph.node if n.op_type == "Cast"):
        ids.add("D17")
    if any(n.domain and n.op_type in DEFAULT_OPS and n.op_type != "EmbedLayerNormalization" for n in f.graph.node):
        ids.add("D49")
    if form == "qoperator" and opset(model) >= 12 and any(n.op_type == "MaxPool" for n in f.graph.node):
        ids.add("D55")  # where it is left in float
    for n in f.graph.node:
        ids |= of_layer(f, n) | of_other(f, n)
    return ids
