"""What the example transformers share: each network is written once, and runs in jax or becomes an ONNX graph.

A network is a function of `net`, which is a Jax or a Graph. Both have weight(), fixed(), op() and first(); a Jax computes, a Graph
writes nodes. Names follow those that exporters of PyTorch models give.
"""
import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HIDDEN = float(np.finfo(np.float32).min)  # added to the score of what must not be seen


def layer_norm(x, scale, bias, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + epsilon) * scale + bias


def conv(x, w, b, strides, pads, kernel_shape):
    return jax.lax.conv_general_dilated(x, w, strides, [tuple(pads)], dimension_numbers=("NCH", "OIH", "NCH")) + b[:, None]


OPS = {
    "Add": jnp.add, "Sub": jnp.subtract, "Mul": jnp.multiply, "Div": jnp.divide, "MatMul": jnp.matmul,
    "Erf": jax.scipy.special.erf, "Softmax": lambda x, axis: jax.nn.softmax(x, axis),
    "Gather": lambda table, ids: table[ids], "Transpose": lambda x, perm: x.transpose(perm),
    "Reshape": lambda x, dims: x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(dims)]),
    "Unsqueeze": lambda x, axes: jnp.expand_dims(x, tuple(axes)), "Cast": lambda x, to: x.astype(jnp.float32),
    "LayerNormalization": layer_norm, "Conv": conv,
}


def key_of(scope, name):
    return f"{scope}/{name}"[1:].replace("/", ".")


class Jax:
    """Computes. With an `rng`, weights that are not in `params` are drawn."""

    def __init__(self, params, rng=None):
        self.params, self.rng = params, rng

    def weight(self, scope, name, shape, start=None, spread=None):
        """Starts as `start`, else drawn with the deviation `spread`."""
        key = key_of(scope, name)
        if key not in self.params and self.rng is not None:
            fan_in = shape[0] if len(shape) == 2 else np.prod(shape[1:])
            drawn = start if start is not None else self.rng.normal(0, spread or fan_in ** -0.5, shape)
            self.params[key] = jnp.asarray(np.broadcast_to(drawn, shape), jnp.float32)
        return self.params[key]

    def fixed(self, scope, name, value):
        return jnp.asarray(value)

    def op(self, kind, scope, *inputs, **attributes):
        return OPS[kind](*inputs, **attributes)

    def first(self, scope, table, like, axis=0):
        """As many rows of the table as `like` has in its second dimension."""
        return jax.lax.slice_in_dim(table, 0, like.shape[1], axis=axis)


class Graph:
    """Writes nodes, and the weights that they use."""

    def __init__(self, params):
        self.params, self.nodes, self.initializers = params, [], {}

    def weight(self, scope, name, shape, start=None, spread=None):
        key = key_of(scope, name)
        return self.store(key, np.asarray(self.params[key], np.float32))

    def fixed(self, scope, name, value):
        return self.store(key_of(scope, name), value)

    def store(self, name, value):
        self.initializers.setdefault(name, numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def operand(self, value):
        """A tensor's name; numbers become a constant that equal ones share."""
        if isinstance(value, str):
            return value
        array = np.asarray(value, np.float32 if isinstance(value, float) else np.int64)
        text = "_".join(str(v) for v in array.flatten()) if array.dtype == np.int64 else f"{float(value):.6g}"
        return self.store(f"constant_{'x' if array.ndim else ''}{text}", array)

    def op(self, kind, scope, *inputs, **attributes):
        taken = {node.name for node in self.nodes}
        name, number = f"{scope}/{kind}", 0
        while name in taken:
            number += 1
            name = f"{scope}/{kind}_{number}"
        self.nodes.append(helper.make_node(kind, [self.operand(i) for i in inputs], [name + "_output_0"], name, **attributes))
        return self.nodes[-1].output[0]

    def first(self, scope, table, like, axis=0):
        count = self.op("Shape", scope, like, start=1, end=2)
        return self.op("Slice", scope, table, [0], count, [axis])

    def model(self, name, inputs, output, shape):
        """`inputs` as (name, element type, shape); the last node gives `output`."""
        self.nodes[-1].output[0] = output
        graph = helper.make_graph(self.nodes, name, [helper.make_tensor_value_info(*i) for i in inputs],
                                  [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
                                  list(self.initializers.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model


def linear(net, scope, x, inner, outer, bias=True, spread=None):
    x = net.op("MatMul", scope, x, net.weight(scope, "weight", (inner, outer), spread=spread))
    return net.op("Add", scope, net.weight(scope, "bias", (outer,), 0), x) if bias else x


def norm(net, scope, x, width, epsilon=1e-5):
    return net.op("LayerNormalization", scope, x, net.weight(scope, "weight", (width,), 1),
                  net.weight(scope, "bias", (width,), 0), epsilon=epsilon)


def gelu(net, scope, x):
    erf = net.op("Erf", scope, net.op("Div", scope, x, 2 ** 0.5))
    return net.op("Mul", scope, net.op("Mul", scope, x, net.op("Add", scope, erf, 1.0)), 0.5)


def attention(net, scope, x, memory, width, heads, mask=None, names=("q_proj", "k_proj", "v_proj", "out_proj"), key_bias=False,
              spread=None):
    """Of the tokens in `x` to those in `memory`; the last weights start with the deviation `spread`."""
    def split(y, perm):
        return net.op("Transpose", scope, net.op("Reshape", scope, y, (0, 0, heads, width // heads)), perm=perm)

    query, key, value, out = (f"{scope}/{name}" for name in names)
    q = net.op("Mul", scope, linear(net, query, x, width, width), (width // heads) ** -0.5)
    k = split(linear(net, key, memory, width, width, bias=key_bias), (0, 2, 3, 1))
    v = split(linear(net, value, memory, width, width), (0, 2, 1, 3))
    scores = net.op("MatMul", scope, split(q, (0, 2, 1, 3)), k)
    if mask is not None:
        scores = net.op("Add", scope, scores, mask)
    mixed = net.op("MatMul", scope, net.op("Softmax", scope, scores, axis=-1), v)
    joined = net.op("Reshape", scope, net.op("Transpose", scope, mixed, perm=(0, 2, 1, 3)), (0, 0, width))
    return linear(net, out, joined, width, width, spread=spread)


def train(params, loss, batches, steps, rate, decay=0.01):
    """AdamW with a warm-up and a cosine; `loss(params, batch)`, `batches(i)` gives the i-th."""
    tree = jax.tree_util.tree_map

    @jax.jit
    def step(params, m, v, i, batch):
        value, grads = jax.value_and_grad(loss)(params, batch)
        length = jnp.sqrt(sum((g * g).sum() for g in jax.tree_util.tree_leaves(grads)))
        grads = tree(lambda g: g * jnp.minimum(1, 1 / length), grads)
        now = rate * jnp.minimum((i + 1) / (0.05 * steps), 0.5 * (1 + jnp.cos(jnp.pi * i / steps)))
        m = tree(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = tree(lambda v, g: 0.98 * v + 0.02 * g * g, v, grads)
        a, b = 1 - 0.9 ** (i + 1), 1 - 0.98 ** (i + 1)
        params = tree(lambda p, m, v: p - now * (m / a / (jnp.sqrt(v / b) + 1e-8) + decay * p), params, m, v)
        return params, m, v, value

    m = v = tree(jnp.zeros_like, params)
    sum_of = 0.0
    for i in range(steps):
        params, m, v, value = step(params, m, v, i, batches(i))
        sum_of += float(value)
        if (i + 1) % max(1, steps // 10) == 0:
            print(f"step {i + 1} of {steps}: loss {sum_of / (steps // 10):.4f}", flush=True)
            sum_of = 0.0
    return params
