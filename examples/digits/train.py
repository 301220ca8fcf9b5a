"""Trains the example's network and writes model.onnx and digits.npz beside this file.

needs: pip install jax numpy onnx scikit-learn; takes about a minute on one core. The tests use the committed files.

A stem and five depthwise-separable blocks, two of them residual. Batch normalisation is folded into the
convolutions before export, which is what makes weight ranges differ from channel to channel: per-tensor int8
pays for that, so a search has something to find.
"""
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

HELD_OUT, EPOCHS, BATCH = 600, 60, 64
# name, channels in, channels out, kernel, stride, depthwise, activation, residual from the input of the block
LAYERS = [
    ("stem", 1, 32, 3, 1, False, "clip"),
    ("block1_dw", 32, 32, 3, 1, True, "clip"),
    ("block1_pw", 32, 32, 1, 1, False, "add"),
    ("block2_dw", 32, 32, 3, 2, True, "clip"),
    ("block2_pw", 32, 64, 1, 1, False, "relu"),
    ("block3_dw", 64, 64, 3, 1, True, "clip"),
    ("block3_pw", 64, 64, 1, 1, False, "add"),
    ("block4_dw", 64, 64, 3, 2, True, "clip"),
    ("block4_pw", 64, 96, 1, 1, False, "relu"),
    ("block5_dw", 96, 96, 3, 1, True, "relu"),
    ("block5_pw", 96, 128, 1, 1, False, "relu"),
]


def split_data():
    """Raw pixels 0..16. Mixed once, so that the held-out samples come from all writers."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    x = digits.images[order][:, None].astype(np.uint8)
    y = digits.target[order].astype(np.int64)
    return x[HELD_OUT:], y[HELD_OUT:], x[:HELD_OUT], y[:HELD_OUT]


def initial(rng):
    params, state = {}, {}
    for name, cin, cout, k, _, depthwise, _ in LAYERS:
        fan_in = k * k * (1 if depthwise else cin)
        params[name] = {
            "w": rng.normal(0, (2 / fan_in) ** 0.5, (cout, 1 if depthwise else cin, k, k)).astype(np.float32),
            "gamma": np.ones(cout, np.float32),
            "beta": np.zeros(cout, np.float32),
        }
        state[name] = {"mean": np.zeros(cout, np.float32), "var": np.ones(cout, np.float32)}
    params["classifier"] = {"w": rng.normal(0, 0.1, (10, 128)).astype(np.float32), "b": np.zeros(10, np.float32)}
    return params, state


def forward(params, state, x, training):
    x, new_state, block_input = x / 16.0, {}, None
    for name, _, _, k, stride, depthwise, act in LAYERS:
        if name.endswith("_dw"):
            block_input = x
        p, pad = params[name], k // 2
        x = jax.lax.conv_general_dilated(x, p["w"], (stride, stride), [(pad, pad)] * 2,
                                         feature_group_count=x.shape[1] if depthwise else 1)
        mean, var = (x.mean((0, 2, 3)), x.var((0, 2, 3))) if training else (state[name]["mean"], state[name]["var"])
        new_state[name] = {"mean": 0.9 * state[name]["mean"] + 0.1 * mean,
                           "var": 0.9 * state[name]["var"] + 0.1 * var}
        c = lambda v: v[None, :, None, None]
        x = (x - c(mean)) * c(p["gamma"] / jnp.sqrt(var + 1e-5)) + c(p["beta"])
        x = {"clip": lambda v: jnp.clip(v, 0, 6), "relu": jax.nn.relu, "add": lambda v: v + block_input}[act](x)
    return x.mean((2, 3)) @ params["classifier"]["w"].T + params["classifier"]["b"], new_state


def train(x, y):
    rng = np.random.default_rng(1)
    params, state = initial(rng)
    tree = jax.tree_util.tree_map
    moments = tree(jnp.zeros_like, params), tree(jnp.zeros_like, params)
    steps = EPOCHS * (len(x) // BATCH)

    def loss(params, state, x, y):
        logits, state = forward(params, state, x, True)
        return -jax.nn.log_softmax(logits)[jnp.arange(len(y)), y].mean(), state

    @jax.jit
    def step(params, state, moments, i, x, y):
        grads, state = jax.grad(loss, has_aux=True)(params, state, x, y)
        rate = 0.01 * 0.5 * (1 + jnp.cos(jnp.pi * i / steps))
        m = tree(lambda m, g: 0.9 * m + 0.1 * g, moments[0], grads)
        v = tree(lambda v, g: 0.999 * v + 0.001 * g * g, moments[1], grads)
        update = lambda p, m, v: p - rate * (m / (1 - 0.9 ** (i + 1)) / (jnp.sqrt(v / (1 - 0.999 ** (i + 1))) + 1e-8) + 1e-3 * p)
        return tree(update, params, m, v), state, (m, v)

    i = 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            take = order[start:start + BATCH]
            shift = rng.integers(-1, 2, 2)  # the only augmentation: one pixel in any direction
            batch = np.roll(x[take], shift, (2, 3)).astype(np.float32)
            params, state, moments = step(params, state, moments, i, batch, y[take])
            i += 1
    return params, state


def export(params, state):
    nodes, weights = [], []

    def weight(name, value):
        weights.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name))
        return name

    weight("clip_low", np.float32(0)), weight("clip_high", np.float32(6))
    tensor = block_input = "x"
    for name, _, cout, k, stride, depthwise, act in LAYERS:
        if name.endswith("_dw"):
            block_input = tensor
        p, s = params[name], state[name]
        scale = np.asarray(p["gamma"]) / np.sqrt(np.asarray(s["var"]) + 1e-5)
        w = np.asarray(p["w"]) * scale[:, None, None, None]
        if name == "stem":
            w = w / 16  # the network takes pixels as they are
        b = np.asarray(p["beta"]) - np.asarray(s["mean"]) * scale
        nodes.append(helper.make_node("Conv", [tensor, weight(name + "_weight", w), weight(name + "_bias", b)],
                                      [name + "_conv"], name, kernel_shape=[k, k], strides=[stride] * 2,
                                      pads=[k // 2] * 4, group=cout if depthwise else 1))
        op, extra = {"clip": ("Clip", ["clip_low", "clip_high"]), "relu": ("Relu", []), "add": ("Add", [block_input])}[act]
        nodes.append(helper.make_node(op, [name + "_conv"] + extra, [name + "_out"], f"{name}_{act}"))
        tensor = name + "_out"
    nodes.append(helper.make_node("GlobalAveragePool", [tensor], ["pooled"], "pool"))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["features"], "flatten"))
    nodes.append(helper.make_node("Gemm", ["features", weight("classifier_weight", params["classifier"]["w"]),
                                           weight("classifier_bias", params["classifier"]["b"])],
                                  ["logits"], "classifier", transB=1))
    graph = helper.make_graph(nodes, "digits",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 10])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    here = Path(__file__).parent
    x, y, held_out_x, held_out_y = split_data()
    params, state = train(x, y)
    logits, _ = forward(params, state, held_out_x.astype(np.float32), False)
    print("held-out accuracy", float((logits.argmax(1) == held_out_y).mean()))
    print("parameters", sum(v.size for v in jax.tree_util.tree_leaves(params)))
    onnx.save(export(params, state), here / "model.onnx")
    np.savez_compressed(here / "digits.npz", x=held_out_x, y=held_out_y)


if __name__ == "__main__":
    main()
