"""Random small graphs of every kind that a quantizer may meet, with inputs they run on. Same seed, same graph.

generate(seed) keeps a pool of live tensors with known shapes, picks one emitter after the other and lets it read
mostly the newest tensor (chains) and sometimes an older one (fan-out, residuals).
"""
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from graph_builder import Builder
from graph_emitters import EMITTERS


@dataclass
class Case:
    model: onnx.ModelProto
    inputs: list  # one dict a sample
    kinds: Counter = field(default_factory=Counter)  # emitters and other features, counted for the report


WEIGHTS = dict(conv=4, conv_relu=6, gemm=3, matmul=3, binary=2, relu=2, clip=2, pad=2, if_body=0.4, quantized_before=0.4,
               custom_domain=0.4, argmax=0.5, integer_path=0.5, cast=0.5, add_bias=1, prelu=0.7)


def generate(seed, node_count=None, float16=True):
    b = Builder(seed)
    node_count = node_count or b.integer(4, 24)
    batch = b.pick([1, 1, 2])
    b.shapes["x"] = (batch, 4, 6, 6)
    b.inputs.append(("x", TensorProto.FLOAT, list(b.shapes["x"])))
    if b.chance(0.3):
        b.shapes["x2"] = (b.integer(1, 4), 8)
        b.inputs.append(("x2", TensorProto.FLOAT, list(b.shapes["x2"])))
    if b.chance(0.2):
        b.shapes["x3"] = (2, 3, 4)
        b.inputs.append(("x3", TensorProto.FLOAT, list(b.shapes["x3"])))
    names = list(EMITTERS)
    odds = np.array([WEIGHTS.get(n, 1.0) for n in names])
    odds /= odds.sum()
    for _ in range(20 * node_count):
        if len(b.nodes) >= node_count:
            break
        name = names[int(b.rng.choice(len(names), p=odds))]
        nodes, shapes = len(b.nodes), dict(b.shapes)
        if EMITTERS[name](b) is False:
            del b.nodes[nodes:]
            b.shapes = shapes
        else:
            b.note(name)
        if max(np.prod(s) for s in b.shapes.values()) > 20000:
            break
    return finish(b, float16)


def finish(b, float16):
    read = {i for n in b.nodes for i in n.input}
    read |= {i for n in b.nodes for a in n.attribute if a.HasField("g") for m in a.g.node for i in m.input}
    given = {i[0] for i in b.inputs} | set(b.constants)
    outputs = [t for t in b.shapes if t not in given and (t not in read or t in b.outputs or b.chance(0.1))]
    outputs = list(dict.fromkeys(outputs)) or [t for t in b.shapes if t not in given][-1:]
    infos = [helper.make_tensor_value_info(t, TensorProto.FLOAT, list(b.shapes[t])) for t in outputs]
    infos += [helper.make_tensor_value_info(t, TensorProto.INT64, shape) for t, shape in b.int_outputs if t not in read]
    used = read | {t for n in b.nodes for a in n.attribute if a.HasField("g") for m in a.g.node for t in m.input}
    if b.chance(0.1):
        b.note("unused initializer")
        used.add(b.constant(b.values((3,)), "w"))
    initializers = [numpy_helper.from_array(v, n) for n, v in b.constants.items() if n in used]
    if b.chance(0.2):
        for i, tensor in enumerate(initializers):  # the typed fields of the format instead of raw bytes
            if tensor.data_type == TensorProto.FLOAT:
                initializers[i] = helper.make_tensor(tensor.name, tensor.data_type, tensor.dims,
                                                     numpy_helper.to_array(tensor).ravel().tolist())
    inputs = [i for i in b.inputs if i[0] not in b.constants or i[0] in used]
    if b.chance(0.06):
        b.note("unsorted node order")
        b.rng.shuffle(b.nodes)
    graph = helper.make_graph(b.nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs], infos, initializers)
    opsets = [helper.make_opsetid("", b.opset)] + [helper.make_opsetid(d, 1) for d in sorted(b.domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=b.pick([7, 8, 8, 9]) if b.opset <= 18 else 10)
    b.note(f"opset {b.opset}")
    samples = [{n: b.rng.normal(0, 1, s).astype(np.float32) for n, _, s in inputs if n not in b.constants}
               for _ in range(2)]
    for node in b.nodes:
        b.note("node " + node.op_type)
    if float16 and b.chance(0.04) and not any(n.op_type in ("Cast", "LayerNormalization") or n.domain for n in b.nodes):
        half = as_float16(model)
        if loads(half):
            b.note("float16")
            model, samples = half, [{n: x.astype(np.float16) for n, x in s.items()} for s in samples]
    return Case(model, samples, b.kinds)


def loads(model):
    """In a process of its own: of an op that has no float16 at this opset the runtime says so, or dies (seed 509165)."""
    script = ("import sys, onnxruntime\n"
              "onnxruntime.InferenceSession(sys.stdin.buffer.read(), providers=['CPUExecutionProvider'])")
    done = subprocess.run([sys.executable, "-c", script], input=model.SerializeToString(), stderr=subprocess.DEVNULL)
    return done.returncode == 0


def as_float16(model):
    """The model with every float tensor in float16."""
    half = onnx.ModelProto()
    half.CopyFrom(model)
    tensors = list(half.graph.initializer)

    def change(graph):
        for value in [*graph.input, *graph.output, *graph.value_info]:
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = TensorProto.FLOAT16
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    change(attribute.g)
                if attribute.HasField("t"):
                    tensors.append(attribute.t)

    change(half.graph)
    resize_scales = {n.input[2] for n in half.graph.node if n.op_type == "Resize"}
    for tensor in tensors:
        if tensor.data_type == TensorProto.FLOAT and tensor.name not in resize_scales:
            with np.errstate(over="ignore"):
                value = np.clip(numpy_helper.to_array(tensor), -6e4, 6e4).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return half
