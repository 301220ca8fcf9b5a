"""Trains the detectors of this folder, one for each activation, and writes relu.onnx and silu.onnx beside this file.

    python train.py [--out FOLDER] [--steps 8000] [--pictures 30000]

needs: pip install jax numpy onnx. The tests and benchmarks use the committed files.

At strides 8 and 16 a cell says how far the object's sides are away (`box`, in strides; `bins`, the same as shares of whole
distances, as YOLOv8 has it), whether there is one (`object`), and of which class it is (`class`). What heads make of that is in
heads.py.
"""
import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heads import BINS, STRIDES
from shapes import MOST, NAMES, SIDE, draw

HEAD = 24
PARTS = {"box": 4, "bins": 4 * BINS, "object": 1, "class": len(NAMES)}
# name, inputs, outputs, stride, name of what is added behind the activation
LAYERS = [("stem", 3, 8, 2, ""), ("down1", 8, 16, 2, ""), ("stage1", 16, 16, 1, "down1"), ("down2", 16, 32, 2, ""),
          ("stage2", 32, 32, 1, "down2"), ("down3", 32, 48, 2, "")]
TAKEN = {8: ("stage2", 32), 16: ("down3", 48)}
ACTIVATIONS = {"relu": jax.nn.relu, "silu": jax.nn.silu}


def start(rng):
    weights = {}

    def add(name, inputs, outputs, kernel, bias=0.0):
        weights[name + ".weight"] = rng.normal(0, (2 / (inputs * kernel * kernel)) ** 0.5, (outputs, inputs, kernel, kernel))
        weights[name + ".bias"] = np.full(outputs, bias)

    for name, inputs, outputs, _, _ in LAYERS:
        add(name, inputs, outputs, 3)
    for stride in STRIDES:
        add(f"head{stride}", TAKEN[stride][1], HEAD, 3)
        for part, size in PARTS.items():
            add(f"{part}{stride}", HEAD, size, 1, -4.0 if part in ("object", "class") else 1.0 if part == "box" else 0.0)
    return {name: jnp.asarray(value, jnp.float32) for name, value in weights.items()}


def run(weights, pictures, activation):
    def conv(name, x, stride, pad):
        y = jax.lax.conv_general_dilated(x, weights[name + ".weight"], (stride, stride), ((pad, pad), (pad, pad)))
        return y + weights[name + ".bias"][None, :, None, None]

    x, kept = pictures, {}
    for name, _, _, stride, shortcut in LAYERS:
        x = activation(conv(name, x, stride, 1))
        if shortcut:
            x = x + kept[shortcut]
        kept[name] = x
    answers = {}
    for stride in STRIDES:
        h = activation(conv(f"head{stride}", kept[TAKEN[stride][0]], 1, 1))
        for part in PARTS:
            answers[part, stride] = conv(f"{part}{stride}", h, 1, 0)
    return answers


def targets(objects):
    """For each stride: which class a cell stands for (-1: none), and its distances in strides."""
    found = {}
    for stride in STRIDES:
        cells = SIDE // stride
        centres = (np.arange(cells) + 0.5) * stride
        labels, distances = np.full((cells, cells), -1), np.zeros((4, cells, cells))
        for kind, x, y, w, h in sorted(objects, key=lambda o: -o[3]):  # smaller ones last, over larger
            if (w > 26) != (stride == 16):
                continue
            sides = np.stack([np.broadcast_to(v, (cells, cells)) for v in (
                (centres - (x - w / 2))[None, :], (centres - (y - h / 2))[:, None],
                (x + w / 2 - centres)[None, :], (y + h / 2 - centres)[:, None])])
            near = (np.abs(centres - x)[None, :] < stride * 1.2) & (np.abs(centres - y)[:, None] < stride * 1.2)
            own = near & (sides.min(0) > 0)
            labels[own] = kind
            distances[:, own] = sides[:, own] / stride
        found[stride] = labels.astype(np.int8), distances.astype(np.float32)
    return found


def overlap_loss(a, b):
    """1 - generalized intersection over union of boxes given as distances from one point, [..., 4 at axis 1]."""
    area = lambda d: (d[:, 0] + d[:, 2]) * (d[:, 1] + d[:, 3])
    least, most = jnp.minimum(a, b), jnp.maximum(a, b)  # all distances reach out from the point
    both = area(jnp.maximum(least, 0))
    union, hull = area(a) + area(b) - both, area(most)
    return 1 - both / (union + 1e-6) + (hull - union) / (hull + 1e-6)


def loss_of(weights, pictures, wanted, activation):
    answers, total = run(weights, pictures, activation), 0.0
    for stride in STRIDES:
        labels, distances = wanted[stride]
        there = (labels >= 0).astype(jnp.float32)
        count = there.sum() + 1
        one_hot = (labels[:, None] == jnp.arange(len(NAMES))[None, :, None, None]).astype(jnp.float32)
        cross = lambda logits, truth: jnp.maximum(logits, 0) - logits * truth + jnp.log1p(jnp.exp(-jnp.abs(logits)))
        box = jax.nn.softplus(answers["box", stride])
        shares = jax.nn.log_softmax(answers["bins", stride].reshape(len(pictures), 4, BINS, *labels.shape[1:]), axis=2)
        low = jnp.clip(jnp.floor(distances), 0, BINS - 2)
        part = jnp.clip(distances - low, 0, 1)
        at = lambda bins: jnp.take_along_axis(shares, bins.astype(jnp.int32)[:, :, None], axis=2)[:, :, 0]
        expected = (jnp.exp(shares) * jnp.arange(BINS)[None, None, :, None, None]).sum(2)
        total += cross(answers["class", stride], one_hot).sum() / count + cross(answers["object", stride][:, 0], there).sum() / count
        total += 2 * ((overlap_loss(box, distances) + overlap_loss(expected, distances)) * there).sum() / count
        total -= 0.25 * ((at(low) * (1 - part) + at(low + 1) * part).sum(1) * there).sum() / count
    return total


def train(data, wanted, activation, steps, seed):
    weights = start(np.random.default_rng(seed))
    moments = jax.tree.map(lambda w: (jnp.zeros_like(w), jnp.zeros_like(w)), weights)

    @jax.jit
    def step(weights, moments, pictures, wanted, t):
        pictures = pictures.astype(jnp.float32).transpose(0, 3, 1, 2) / 255
        value, slopes = jax.value_and_grad(loss_of)(weights, pictures, wanted, activation)
        rate = 2e-3 * jnp.minimum(1, t / 200) * 0.5 * (1 + jnp.cos(jnp.pi * t / steps)) + 1e-6
        new_weights, new_moments = {}, {}
        for name, w in weights.items():
            m, v = moments[name]
            m, v = 0.9 * m + 0.1 * slopes[name], 0.99 * v + 0.01 * slopes[name] ** 2
            new_weights[name] = w - rate * m / (1 - 0.9 ** t) / (jnp.sqrt(v / (1 - 0.99 ** t)) + 1e-8)
            new_moments[name] = m, v
        return new_weights, new_moments, value

    rng, batch = np.random.default_rng(seed), 128
    for t in range(1, steps + 1):
        rows = rng.integers(0, len(data), batch)
        own = {s: (labels[rows], distances[rows]) for s, (labels, distances) in wanted.items()}
        weights, moments, value = step(weights, moments, data[rows], own, t)
        if t % 500 == 0:
            print(f"step {t}: loss {float(value):.3f}", flush=True)
    return {name: np.asarray(w) for name, w in weights.items()}


def export(weights, activation, path):
    nodes, held = [], []

    def conv(name, x, stride, pad):
        for part in ("weight", "bias"):
            held.append(numpy_helper.from_array(weights[f"{name}.{part}"].astype(np.float32), f"{name}.{part}"))
        kernel = weights[name + ".weight"].shape[2:]
        nodes.append(helper.make_node("Conv", [x, name + ".weight", name + ".bias"], [name], name=name, strides=[stride] * 2,
                                      pads=[pad] * 4, kernel_shape=list(kernel)))
        return name

    def activate(x):
        if activation == "relu":
            nodes.append(helper.make_node("Relu", [x], [x + "/relu"], name=x + "/relu"))
            return x + "/relu"
        nodes.append(helper.make_node("Sigmoid", [x], [x + "/sigmoid"], name=x + "/sigmoid"))
        nodes.append(helper.make_node("Mul", [x, x + "/sigmoid"], [x + "/silu"], name=x + "/silu"))
        return x + "/silu"

    x, kept, outputs = "images", {}, []
    for name, _, _, stride, shortcut in LAYERS:
        x = activate(conv(name, x, stride, 1))
        if shortcut:
            nodes.append(helper.make_node("Add", [x, kept[shortcut]], [name + "/sum"], name=name + "/sum"))
            x = name + "/sum"
        kept[name] = x
    for stride in STRIDES:
        h = activate(conv(f"head{stride}", kept[TAKEN[stride][0]], 1, 1))
        for part, size in PARTS.items():
            name = conv(f"{part}{stride}", h, 1, 0)
            outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size, SIDE // stride, SIDE // stride]))
    image = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])
    graph = helper.make_graph(nodes, "detector", [image], outputs, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="train.py")
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--pictures", type=int, default=30000)
    asked = parser.parse_args()
    rng = np.random.default_rng(1000)
    drawn = [draw(rng) for _ in range(asked.pictures)]
    data = np.stack([picture for picture, _ in drawn])
    told = [targets(objects) for _, objects in drawn]
    wanted = {s: tuple(np.stack([t[s][i] for t in told]) for i in (0, 1)) for s in STRIDES}
    print(f"{len(data)} pictures, most objects {MOST}", flush=True)
    for name, activation in ACTIVATIONS.items():
        export(train(data, wanted, activation, asked.steps, seed=len(name)), name, asked.out / f"{name}.onnx")


if __name__ == "__main__":
    main()
