"""Models compared without the names and the order of what is inside them.

canonical(model) keys every node by what it computes: its type, attributes and the keys of its inputs, down to graph
inputs (by name: they are the contract) and initializers (by type, dims and decoded bytes). Two models are equal when
the multisets of node keys and of initializers, the keys of the graph outputs, the inputs and the opsets are equal.
Multisets matter: a second copy of a pair or of a scale is a difference. Exact: one ulp of one scale is seen.
"""
import hashlib
import math
import sys
from collections import Counter, namedtuple

import numpy as np
from onnx import helper, numpy_helper

sys.setrecursionlimit(20000)
Canonical = namedtuple("Canonical", "outputs nodes initializers inputs opsets described")


def digest(*parts):
    return hashlib.sha1(repr(parts).encode()).hexdigest()[:20]


def tensor_key(tensor):
    value = numpy_helper.to_array(tensor)
    data = repr(value.tolist()) if value.dtype == object else hashlib.sha1(np.ascontiguousarray(value).tobytes()).hexdigest()
    return digest("tensor", tensor.data_type, tuple(tensor.dims), data)


def attribute_key(attribute, scope):
    if attribute.HasField("g"):
        return attribute.name, graph_key(attribute.g, scope)
    if attribute.HasField("t"):
        return attribute.name, tensor_key(attribute.t)
    copy = type(attribute)()
    copy.CopyFrom(attribute)
    copy.ClearField("doc_string")
    return attribute.name, copy.SerializeToString(deterministic=True)


class Scope:
    """Keys of the tensors of one graph, found from their producers on demand; a body also sees the graph around it."""

    def __init__(self, graph, outer=None):
        self.keys = {"": "absent"}
        for i, value in enumerate(graph.input):
            self.keys[value.name] = digest("input", value.name if outer is None else i)
        self.constants = {}
        for tensor in graph.initializer:
            self.constants[tensor.name] = self.keys[tensor.name] = tensor_key(tensor)
        self.producers = {o: node for node in graph.node for o in node.output if o}
        self.ranks = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
        self.sizes = {tensor.name: math.prod(tensor.dims) for tensor in graph.initializer}
        self.outer, self.node_keys, self.open = outer, {}, set()

    def normalized(self, node):
        """Axes of constants counted from the front: -1 and 1 are the same of a matrix."""
        for a in node.attribute:
            if node.op_type == "DequantizeLinear" and a.name == "axis" and a.i < 0 and node.input[0] in self.ranks:
                a = helper.make_attribute("axis", a.i + self.ranks[node.input[0]])
            yield a

    def key(self, name):
        if name in self.keys:
            return self.keys[name]
        if name not in self.producers:
            return self.outer.key(name) if self.outer else digest("undefined", name)
        if name in self.open:
            return digest("cycle")
        self.open.add(name)
        node = self.producers[name]
        node_key = self.node_key(node)
        for i, output in enumerate(node.output):
            self.keys[output] = digest(node_key, i) if output else "absent"
        return self.keys[name]

    def inputs(self, node):
        """An empty constant for what a Resize may lack is the same as nothing."""
        for i, name in enumerate(node.input):
            empty = self.sizes.get(name) == 0
            yield "" if i and empty and node.op_type == "Resize" else name

    def node_key(self, node):
        if id(node) not in self.node_keys:
            domain = "" if node.domain == "ai.onnx" else node.domain
            attributes = sorted(attribute_key(a, self) for a in self.normalized(node))
            self.node_keys[id(node)] = digest(domain, node.op_type, attributes, [self.key(i) for i in self.inputs(node)],
                                              [bool(o) for o in node.output])
        return self.node_keys[id(node)]


def graph_key(graph, outer):
    scope = Scope(graph, outer)
    return digest("graph", sorted(scope.node_key(n) for n in graph.node), sorted(scope.constants.values()),
                  [scope.key(o.name) for o in graph.output])


def canonical(model):
    graph, scope = model.graph, Scope(model.graph)
    described, nodes = {}, Counter()
    unread = {name for name, size in scope.sizes.items() if size == 0} - {i for n in graph.node for i in scope.inputs(n)}
    for node in graph.node:
        key = scope.node_key(node)
        nodes[key] += 1
        described.setdefault(key, node)
    for tensor in graph.initializer:
        if tensor.name not in unread:
            described.setdefault(scope.constants[tensor.name], tensor)
    value = lambda v: (v.name, v.type.SerializeToString(deterministic=True))
    return Canonical({o.name: scope.key(o.name) for o in graph.output}, nodes, Counter(key for name, key in scope.constants.items() if name not in unread),
                     sorted(value(v) for v in graph.input),
                     sorted((o.domain if o.domain != "ai.onnx" else "", o.version) for o in model.opset_import), described)


def describe(item, model):
    if hasattr(item, "op_type"):
        return f"{item.op_type} '{item.name}' ({', '.join(item.input)}) -> ({', '.join(item.output)})"
    value = numpy_helper.to_array(item)
    text = np.array2string(value.ravel()[:6], precision=9, separator=",")
    readers = [n.op_type + " '" + n.name + "'" for n in model.graph.node if item.name in n.input]
    return f"{item.name} {value.dtype}{list(value.shape)} {text} read by {readers[:3]}"


def difference(expected, actual, expected_model, actual_model):
    """None, or where the models part first, in the expected model's node order, with names that lead to the tensor."""
    lines = []
    for part in ("opsets", "inputs"):
        if getattr(expected, part) != getattr(actual, part):
            lines.append(f"{part}: expected {getattr(expected, part)}, found {getattr(actual, part)}")
    if list(expected.outputs) != list(actual.outputs):
        lines.append(f"outputs: expected {list(expected.outputs)}, found {list(actual.outputs)}")
    lines += [f"output {o} is computed otherwise" for o, k in expected.outputs.items() if actual.outputs.get(o, k) != k][:2]
    for part in ("initializers", "nodes"):
        a, b = getattr(expected, part), getattr(actual, part)
        for kind, only, side, model in (("expected only", a - b, expected, expected_model),
                                        ("found only", b - a, actual, actual_model)):
            items = [(v, n) for k, v in side.described.items() if (n := only.get(k))]  # in the model's own order
            lines += [f"{part}, {kind} ({n}x): {describe(v, model)}" for v, n in items[:3]]
            if len(items) > 3:
                lines.append(f"  ... and {len(items) - 3} more")
    return "\n    ".join(lines) or None


def compare(expected_model, actual_model):
    return difference(canonical(expected_model), canonical(actual_model), expected_model, actual_model)


def renamed(model, seed):
    """The same model with other names inside and its nodes in another order that is still sorted."""
    rng = np.random.default_rng(seed)
    copy = type(model)()
    copy.CopyFrom(model)
    graph = copy.graph
    keep = {v.name for v in graph.input} | {v.name for v in graph.output} | {""}
    names = {}
    new = lambda t: t if t in keep else names.setdefault(t, "v%08x" % rng.integers(1 << 31))

    def rename(nodes):
        for node in nodes:
            node.input[:], node.output[:] = [new(t) for t in node.input], [new(t) for t in node.output]
            node.name = node.name and "n%08x" % rng.integers(1 << 31)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    rename(attribute.g.node)
                    for value in attribute.g.output:
                        value.name = new(value.name)

    rename(graph.node)
    for tensor in graph.initializer:
        tensor.name = new(tensor.name)
    del graph.value_info[:]
    order = sorted(graph.initializer, key=lambda t: t.name)
    del graph.initializer[:]
    graph.initializer.extend(order)
    nodes = list(graph.node)
    rng.shuffle(nodes)
    del graph.node[:]
    graph.node.extend(nodes)
    return copy
