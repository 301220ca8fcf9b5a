"""What emitters have in common: their registry, in the order in which they were written, and what several of them use."""
import numpy as np
from onnx import TensorProto, helper

EMITTERS = {}


def emitter(fn):
    EMITTERS[fn.__name__] = fn
    return fn


def rank4(s):
    return len(s) == 4 and min(s) >= 1


def if_body(b, t=None):
    t = t or b.tensor()
    c = b.constant(np.float32(b.rng.normal()), "w")
    if b.chance(0.4):
        same = [n for n, v in b.constants.items() if v.dtype == np.float32 and v.ndim == 1 and n.startswith("w")]
        if same:
            b.note("body captures a weight")
            extra = b.pick(same)
            flag = b.name("t")
            b.nodes.append(helper.make_node("ReduceMax", [extra], [flag], b.name("n"), keepdims=0))
    condition = b.constant(np.array(b.chance(0.5)))

    def branch(op, inputs):
        out = b.name("s")
        info = helper.make_tensor_value_info(out, TensorProto.FLOAT, list(b.shapes[t]))
        return helper.make_graph([helper.make_node(op, inputs, [out], b.name("m"))], b.name("body"), [], [info])

    b.add("If", [condition], [b.shapes[t]], then_branch=branch(b.pick(["Add", "Mul"]), [t, c]),
          else_branch=branch("Relu", [b.like(t)]))
