"""Puts heads behind the trained nets of this folder: the forms in which exporters write detectors.

    python heads.py OUT.onnx [--net relu] [--form yolov8] [--set KEY=VALUE ...]

needs: pip install numpy onnx

Forms: `yolov8` [1, 4 + classes, cells]; `yolov8_last`, the same with the channels last; `yolov5` [1, cells, 5 + classes]; `yolox`,
the same and not decoded; `end_to_end` [1, 50, 6], the best cells with their class; `detr`, boxes and logits apart; `listed`, boxes,
scores and labels of what a NonMaxSuppression leaves, as torchvision has it.
"""
import argparse
import dataclasses
import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from shapes import NAMES, SIDE

STRIDES, BINS = (8, 16), 8  # of the nets; bins: whole distances from 0 on
FOLDER = Path(__file__).parent
FORMS = ("yolov8", "yolov8_last", "yolov5", "yolox", "end_to_end", "detr", "listed")


@dataclasses.dataclass
class Head:
    net: str = "relu"
    form: str = "yolov8"
    bins: bool = True  # sides as a mean over shares of whole distances, else directly
    score_late: bool = True  # Sigmoid behind the Concat of the strides, else before it
    scale_late: bool = True  # boxes become pixels behind the Concat of the strides, else before it
    shares: bool = False  # boxes as shares of the picture, not in pixels
    corners: bool = False  # left, top, right, bottom, not middle and size
    power: bool = False  # the score is the root of class and object, as FCOS has it
    split: bool = False  # strides and parts by Slice out of one Concat, as older YOLO exports do
    bytes_in: bool = False  # the picture from 0 to 255, divided in the graph
    opset: int = 17


def drawn(seed):
    """A head by chance."""
    rng = np.random.default_rng(seed)
    flips = {f.name: bool(rng.integers(2)) for f in dataclasses.fields(Head) if isinstance(f.default, bool)}
    return Head(net=str(rng.choice(["relu", "silu"])), form=str(rng.choice(FORMS)), opset=int(rng.choice([13, 17])), **flips)


class Writer:
    def __init__(self, model):
        self.graph = model.graph

    def constant(self, name, value):
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, kind, name, *inputs, **attributes):
        inputs = [i if isinstance(i, str) else self.constant(f"{name}.{k}", i) for k, i in enumerate(inputs)]
        self.graph.node.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name


def floats(values):
    return np.asarray(values, np.float32)


def build(head):
    """The model, and how its outputs are read: the JSON of docs/reference/metrics.md."""
    model = onnx.load(FOLDER / f"{head.net}.onnx")
    w, classes = Writer(model), len(NAMES)
    del model.graph.output[:]
    model.opset_import[0].version = head.opset
    if head.bytes_in:
        for node in model.graph.node:
            node.input[:] = ["images/unit" if name == "images" else name for name in node.input]
        w.op("Mul", "images/unit", "images", floats(1 / 255))
        model.graph.node.insert(0, model.graph.node.pop())

    cells = [(SIDE // s) ** 2 for s in STRIDES]
    rows = lambda name, size: w.op("Reshape", f"{name}/rows", name, np.array([1, size, -1], np.int64))
    total = sum(cells)
    grid = [np.stack([g.ravel() for g in np.meshgrid(*[(np.arange(SIDE // s) + 0.5)] * 2)]) for s in STRIDES]

    def distances(stride):
        if not head.bins:
            return w.op("Softplus", f"sides{stride}", rows(f"box{stride}", 4))
        shares = w.op("Reshape", f"bins{stride}/rows", f"bins{stride}", np.array([1, 4, BINS, -1], np.int64))
        shares = w.op("Transpose", f"bins{stride}/last", shares, perm=[0, 1, 3, 2])
        shares = w.op("Softmax", f"bins{stride}/shares", shares, axis=3)
        mean = w.op("MatMul", f"bins{stride}/mean", shares, floats(np.arange(BINS))[:, None])
        return w.op("Squeeze", f"sides{stride}", mean, np.array([3], np.int64))

    def as_boxes(name, sides, points):
        """Corners or middle and size in strides, of [1, 4, cells]."""
        first = w.op("Slice", f"{name}/first", sides, *[np.array([v], np.int64) for v in (0, 2, 1)])
        second = w.op("Slice", f"{name}/second", sides, *[np.array([v], np.int64) for v in (2, 4, 1)])
        low = w.op("Sub", f"{name}/low", floats(points)[None], first)
        high = w.op("Add", f"{name}/high", floats(points)[None], second)
        if head.corners and head.form != "yolox" or head.form in ("end_to_end", "listed"):
            return w.op("Concat", f"{name}/corners", low, high, axis=1)
        middle = w.op("Mul", f"{name}/middle", w.op("Add", f"{name}/both", low, high), floats(0.5))
        return w.op("Concat", f"{name}/middle_size", middle, w.op("Sub", f"{name}/size", high, low), axis=1)

    raw = head.form == "yolox"
    unit = SIDE if head.shares and not raw else 1
    sides = [distances(s) for s in STRIDES]
    if raw:
        boxes = []
        for s, side, points in zip(STRIDES, sides, grid):
            box = as_boxes(f"boxes{s}", side, points)
            middle = w.op("Slice", f"boxes{s}/xy", box, *[np.array([v], np.int64) for v in (0, 2, 1)])
            size = w.op("Slice", f"boxes{s}/wh", box, *[np.array([v], np.int64) for v in (2, 4, 1)])
            boxes.append(w.op("Concat", f"boxes{s}/raw", w.op("Sub", f"boxes{s}/offset", middle, floats(points - 0.5)[None]),
                              w.op("Log", f"boxes{s}/log", size), axis=1))
        box = w.op("Concat", "boxes", *boxes, axis=2)
    elif head.scale_late:
        box = as_boxes("boxes", w.op("Concat", "sides", *sides, axis=2), np.concatenate(grid, 1))
        box = w.op("Mul", "boxes/scaled", box, floats(np.concatenate([np.full(c, s / unit) for c, s in zip(cells, STRIDES)]))[None, None])
    else:
        box = w.op("Concat", "boxes", *[w.op("Mul", f"boxes{s}/scaled", as_boxes(f"boxes{s}", side, points), floats(s / unit))
                                        for s, side, points in zip(STRIDES, sides, grid)], axis=2)

    def scores(part, size):
        of = [rows(f"{part}{s}", size) for s in STRIDES]
        if head.form == "detr" and part == "class":
            return w.op("Concat", "class", *of, axis=2)
        if head.score_late:
            return w.op("Sigmoid", f"{part}/score", w.op("Concat", part, *of, axis=2))
        return w.op("Concat", part, *[w.op("Sigmoid", f"{o}/score", o) for o in of], axis=2)

    score = scores("class", classes)
    if head.power and head.form in ("yolov8", "yolov8_last", "end_to_end"):
        score = w.op("Sqrt", "score/root", w.op("Mul", "score/product", score, scores("object", 1)))
    parts = [box] + ([scores("object", 1)] if head.form in ("yolov5", "yolox") else []) + [score]
    read = {"classes": classes, "input": [SIDE, SIDE]}
    if head.corners and not raw:
        read["box"] = "xyxy"
    if unit != 1:
        del read["input"]
    shape = [1, 4 + classes, total]
    if head.form == "yolov8":
        w.op("Concat", "output0", *parts, axis=1)
        read.update(objectness=False, layout="channels_first")
    elif head.form in ("yolov8_last", "yolov5", "yolox"):
        joined = w.op("Concat", "joined", *parts, axis=1)
        w.op("Transpose", "output0", joined, perm=[0, 2, 1])
        shape = [1, total, 4 + classes + (head.form != "yolov8_last")]
        if head.form == "yolov8_last":
            read["objectness"] = False
        if raw:
            read.update(decode="yolox", strides=list(STRIDES))
    elif head.form == "end_to_end":
        best = w.op("ReduceMax", "best", score, axes=[1], keepdims=0)
        model.graph.node.append(helper.make_node("TopK", [best, w.constant("most", np.array([50], np.int64))], ["top", "places"],
                                                 name="top", axis=1))
        label = w.op("ArgMax", "label", score, axis=1, keepdims=0)
        label = w.op("Cast", "label/float", w.op("GatherElements", "label/top", label, "places", axis=1), to=TensorProto.FLOAT)
        index = w.op("Expand", "places/four", w.op("Unsqueeze", "places/last", "places", np.array([2], np.int64)),
                     np.array([1, 1, 4], np.int64))
        taken = w.op("GatherElements", "boxes/top", w.op("Transpose", "boxes/last", box, perm=[0, 2, 1]), index, axis=1)
        last = lambda name: w.op("Unsqueeze", f"{name}/last", name, np.array([2], np.int64))
        w.op("Concat", "output0", taken, last("top"), last(label), axis=2)
        shape, read = [1, 50, 6], {"decode": "found", "box": "xyxy", **({} if unit != 1 else {"input": [SIDE, SIDE]})}
    elif head.form == "listed":
        limits = [w.constant(f"kept/{k}", v) for k, v in enumerate((np.array([50], np.int64), floats([0.6]), floats([0.05])))]
        kept = w.op("NonMaxSuppression", "kept", w.op("Transpose", "boxes/last", box, perm=[0, 2, 1]), score, *limits)
        column = lambda name, at: w.op("Gather", name, kept, np.array(at, np.int64), axis=1)
        alone = lambda name: w.op("Squeeze", f"{name}/alone", name, np.array([0], np.int64))
        w.op("Gather", "box_list", alone("boxes/last"), column("kept/place", 2), axis=0)
        w.op("GatherND", "score_list", alone(score), column("kept/class_and_place", [1, 2]))
        w.op("Add", "label_list", column("kept/class", 1), np.array(1, np.int64))
        read = {"outputs": [{"name": "box_list", "scores": "score_list", "classes": "label_list"}], "decode": "found", "box": "xyxy",
                "class_numbers": "from_one", **({} if unit != 1 else {"input": [SIDE, SIDE]})}
        for name, kind, *more in (("box_list", TensorProto.FLOAT, 4), ("label_list", TensorProto.INT64), ("score_list", TensorProto.FLOAT)):
            model.graph.output.append(helper.make_tensor_value_info(name, kind, ["objects", *more]))
    else:
        w.op("Transpose", "pred_boxes", box, perm=[0, 2, 1])
        w.op("Transpose", "logits", score, perm=[0, 2, 1])
        read.update(outputs=[{"name": "pred_boxes", "scores": "logits"}], objectness=False, activation="sigmoid")
        for name, size in (("logits", classes), ("pred_boxes", 4)):
            model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, total, size]))
    if head.form not in ("detr", "listed"):
        model.graph.output.append(helper.make_tensor_value_info("output0", TensorProto.FLOAT, shape))
    if head.split:
        split_parts(w, model)
    drop_unused(model, {o.name for o in model.graph.output})
    used = {name for node in model.graph.node for name in node.input}
    kept = [i for i in model.graph.initializer if i.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    onnx.checker.check_model(model, full_check=True)
    return model, read


def split_parts(w, model):
    """The last 1x1 convolutions of a stride as one, and what they give sliced out of it."""
    convs = {node.name: node for node in model.graph.node if node.op_type == "Conv"}
    held = {i.name: i for i in model.graph.initializer}
    for stride in STRIDES:
        parts = [convs[f"{part}{stride}"] for part in ("box", "bins", "object", "class")]
        arrays = {kind: np.concatenate([numpy_helper.to_array(held[f"{p.name}.{kind}"]) for p in parts]) for kind in ("weight", "bias")}
        joint, at = f"joint{stride}", 0
        nodes = [helper.make_node("Conv", [parts[0].input[0], w.constant(f"{joint}.weight", arrays["weight"]),
                                           w.constant(f"{joint}.bias", arrays["bias"])], [joint], name=joint, kernel_shape=[1, 1])]
        for p in parts:
            size = len(numpy_helper.to_array(held[f"{p.name}.bias"]))
            bounds = [w.constant(f"{p.name}.{k}", np.array([v], np.int64)) for k, v in (("from", at), ("to", at + size), ("axis", 1))]
            nodes.append(helper.make_node("Slice", [joint, *bounds], [p.name], name=p.name))
            at += size
        place = min(i for i, node in enumerate(model.graph.node) if node.name in {p.name for p in parts})
        rest = [node for node in model.graph.node if node.name not in {p.name for p in parts}]
        before = rest[:place]
        del model.graph.node[:]
        model.graph.node.extend([*before, *nodes, *rest[place:]])


def drop_unused(model, wanted):
    kept = []
    for node in reversed(model.graph.node):
        if any(name in wanted for name in node.output):
            wanted.update(node.input)
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(kept))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--net", default="relu")
    parser.add_argument("--form", default="yolov8", choices=FORMS)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    asked = parser.parse_args()
    more = {key: json.loads(value) for key, value in (pair.split("=") for pair in asked.set)}
    model, read = build(Head(net=asked.net, form=asked.form, **more))
    onnx.save(model, asked.out)
    print(json.dumps(read))


if __name__ == "__main__":
    main()
