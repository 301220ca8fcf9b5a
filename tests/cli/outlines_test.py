"""mask_map50_95 against pycocotools, and map50_95 of turned boxes against pycocotools' matching with overlaps by scipy."""

import contextlib
import io
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

import numpy as np
import onnx
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, HalfspaceIntersection

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402

try:
    from pycocotools import mask as coco_mask
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
except ImportError:
    COCO, COCOeval = None, object

INVALID = 3
CLASSES, IMAGES = 3, 10
WIDTH, HEIGHT = 64, 48   # of the input; images are of another size
GRID = (12, 16)          # rows and columns of the prototypes
PROTOTYPES = 4
METRICS = ("map50", "map50_95")


def inside(corners):
    """The pixels of GRID whose middles a polygon surrounds an odd number of times; corners as shares of the image."""
    y, x = np.mgrid[:GRID[0], :GRID[1]]
    y, x = (y + 0.5) / GRID[0], (x + 0.5) / GRID[1]
    odd = np.zeros(GRID, bool)
    for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, 0)):
        if ay == by: continue
        odd ^= ((ay <= y) != (by <= y)) & (x >= ax + (y - ay) / (by - ay) * (bx - ax))
    return odd


def star(random, middle, size, corners):
    angles = np.sort(random.uniform(0, 2 * np.pi, corners))
    return (middle + size * random.uniform(0.5, 1, (corners, 1)) * np.stack([np.cos(angles), np.sin(angles)], 1)).astype(np.float32)


def around(corners):
    return np.concatenate([np.min(corners, 0), np.max(corners, 0)])


def box_overlap(a, b):
    size = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    area = lambda box: np.prod(box[2:] - box[:2])
    common = np.prod(size) if (size > 0).all() else 0
    return common / (area(a) + area(b) - common)


def turned(x, y, w, h, angle):
    """Corners in pixels."""
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.array([x, y]) + np.array([[-w, -h], [w, -h], [w, h], [-w, h]]) / 2 @ turn.T


def common_area(a, b):
    """Of two convex polygons: the volume of what all their sides' half planes share."""
    planes = np.concatenate([ConvexHull(a).equations, ConvexHull(b).equations])
    room = linprog([0, 0, -1], A_ub=np.column_stack([planes[:, :2], np.ones(len(planes))]), b_ub=-planes[:, 2], bounds=[(None, None)] * 3)
    if not room.success or room.x[2] <= 1e-9:
        return 0
    return ConvexHull(HalfspaceIntersection(planes, room.x[:2]).intersections).volume


def turned_overlap(a, b):
    common, area = common_area(a, b), lambda corners: ConvexHull(corners).volume
    return common / (area(a) + area(b) - common)


class TurnedEvaluation(COCOeval):
    def computeIoU(self, image, category):
        found, objects = self._dts[image, category], self._gts[image, category]
        found = [found[i] for i in np.argsort([-d["score"] for d in found], kind="mergesort")]
        if not found or not objects: return []
        return np.array([[turned_overlap(d["corners"], o["corners"]) for o in objects] for d in found])


def suppressed(found, overlap):
    """`found`: (shape, score, class, ...) of one image."""
    kept = []
    for d in sorted(found, key=lambda d: -d[1]):
        if all(d[2] != k[2] or overlap(d[0], k[0]) <= 0.6 for k in kept): kept.append(d)
    return kept[:100]


def evaluated(truth, results, kind, evaluation=COCOeval):
    """At an overlap of a half, and at all."""
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = truth
        coco.createIndex()
        run = evaluation(coco, coco.loadRes(results), kind)
        run.evaluate()
        run.accumulate()
        run.summarize()
    return run.stats[1], run.stats[0]


@unittest.skipIf(COCO is None, "pycocotools is not there")
class Outlines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-outlines-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)

    def truth(self, objects, width, height):
        """`objects`: (image, parts as shares, class, crowd)."""
        annotations = []
        for image, parts, label, crowd in objects:
            box = around(np.concatenate(parts)) * np.tile([width, height], 2)
            annotations.append({"id": len(annotations) + 1, "image_id": image + 1, "category_id": label + 1, "iscrowd": int(crowd),
                                "bbox": [*map(float, box[:2]), *map(float, box[2:] - box[:2])], "area": float(np.prod(box[2:] - box[:2])),
                                "segmentation": {"counts": [1, 2], "size": [1, 3]} if crowd
                                else [[float(v) for v in (part * [width, height]).ravel()] for part in parts]})
        return {"images": [{"id": i + 1, "file_name": str(i), "width": width, "height": height} for i in range(IMAGES)], "info": {},
                "annotations": annotations, "categories": [{"id": k + 1, "name": str(k)} for k in range(CLASSES)]}

    def model(self, arrays, metadata=()):
        """Passes on each array as the output of its name."""
        nodes = [models.node("Identity", [f"in_{name}"], [name]) for name in arrays]
        shape = lambda name: [1, *arrays[name].shape[1:]]
        path = models.save(self.dir / "head.onnx", nodes, [(f"in_{name}", shape(name)) for name in arrays], [(name, shape(name)) for name in arrays])
        model = onnx.load(path)
        onnx.helper.set_model_props(model, dict(metadata))
        onnx.save(model, path)
        np.savez(self.dir / "x.npz", **{f"in_{name}": array.astype(np.float32) for name, array in arrays.items()})
        return path

    def measure(self, arrays, decoder, truth, metrics):
        labels, file = self.dir / "truth.json", self.dir / "decoder.json"
        labels.write_text(json.dumps(truth))
        file.write_text(json.dumps(decoder))
        asked = [flag for metric in metrics for flag in ("--metric", f"{metric}={file}")]
        done = models.seqto("--json", "run", self.model(arrays), "--data", self.dir / "x.npz", "-o", self.dir / "o.npz", "--labels", labels, *asked)
        return done if done.returncode else json.loads(done.stdout)["metrics"]

    def masks(self):
        """Objects of one part or two, some of them crowds, and rows whose prototypes are the objects with some noise."""
        random = np.random.default_rng(3)
        objects, results, places = [], [], 12
        rows, prototypes = np.zeros((IMAGES, 4 + CLASSES + PROTOTYPES, places)), random.normal(-1, 0.6, (IMAGES, PROTOTYPES, *GRID))
        for i in range(IMAGES):
            own = []
            for k in range(int(random.integers(1, PROTOTYPES + 1))):
                middle, size = random.uniform(0.3, 0.7, 2), random.uniform(0.15, 0.3)
                parts = [star(random, middle, size, int(random.integers(3, 9)))]
                if random.random() < 0.4: parts.append(star(random, middle + 0.15, size / 2, 5))
                crowd = random.random() < 0.15
                own.append((i, parts, int(random.integers(0, CLASSES)), crowd))
                prototypes[i, k][np.any([inside(part) for part in parts], 0)] += 2.2
            objects += own
            for p in range(places):
                k = int(random.integers(0, len(own)))
                box = (around(np.concatenate(own[k][1])) + random.normal(0, 0.03, 4)) * np.tile([WIDTH, HEIGHT], 2)
                rows[i, :4, p] = [*(box[:2] + box[2:]) / 2, *np.maximum(box[2:] - box[:2], 1)]
                rows[i, 4 + own[k][2], p] = random.uniform(0.1, 1)
                rows[i, 4 + CLASSES:, p] = random.normal(0, 0.1, PROTOTYPES)
                rows[i, 4 + CLASSES + k, p] += 1
        rows, prototypes = rows.astype(np.float32).astype(np.float64), prototypes.astype(np.float32).astype(np.float64)
        y, x = np.mgrid[:GRID[0], :GRID[1]]
        y, x = (y + 0.5) / GRID[0], (x + 0.5) / GRID[1]
        for i, row in enumerate(rows):
            size = np.array([WIDTH, HEIGHT])
            found = []
            for p in range(places):
                box = np.concatenate([row[:2, p] - row[2:4, p] / 2, row[:2, p] + row[2:4, p] / 2]) / [*size, *size]
                for c in range(CLASSES):
                    if row[4 + c, p] >= 0.001: found.append((box, row[4 + c, p], c, row[4 + CLASSES:, p]))
            for box, score, label, weights in suppressed(found, box_overlap):
                mask = (np.tensordot(weights, prototypes[i], 1) > 0) & (x >= box[0]) & (x < box[2]) & (y >= box[1]) & (y < box[3])
                results.append({"image_id": i + 1, "category_id": label + 1, "score": float(score),
                                "segmentation": coco_mask.encode(np.asfortranarray(mask, dtype=np.uint8))})
        return objects, rows, prototypes, results

    def expected_masks(self, objects, results):
        truth = self.truth(objects, GRID[1], GRID[0])
        for (_, parts, _, crowd), annotation in zip(objects, truth["annotations"]):
            corners = around(np.concatenate(parts))[[[0, 1], [2, 1], [2, 3], [0, 3]]]
            mask = inside(corners) if crowd else np.any([inside(part) for part in parts], 0)
            annotation["segmentation"] = coco_mask.encode(np.asfortranarray(mask, dtype=np.uint8))
        return evaluated(truth, results, "segm")

    def test_masks(self):
        objects, rows, prototypes, results = self.masks()
        expected = self.expected_masks(objects, results)
        self.assertTrue(0.1 < expected[1] < expected[0] < 0.9, expected)
        truth, arrays = self.truth(objects, 100, 80), {"head": rows, "masks": prototypes}
        decoder = {"outputs": ["head"], "classes": CLASSES, "objectness": False, "layout": "channels_first", "input": [WIDTH, HEIGHT],
                   "masks": "masks"}
        found = self.measure(arrays, decoder, truth, [f"mask_{m}" for m in METRICS])
        for metric, value in zip(METRICS, expected): self.assertAlmostEqual(found[f"mask_{metric}"], value, delta=1e-6)
        # Boxes are measured as without masks.
        plain = {**decoder, "extra": PROTOTYPES}
        del plain["masks"]
        self.assertEqual(self.measure(arrays, decoder, truth, METRICS), self.measure(arrays, plain, truth, METRICS))
        for change, outlines, part in (({"masks": "mask"}, True, "no output 'mask' found"), ({"masks": "head"}, True, "8 values for each box expected"),
                                       ({"masks": "", "extra": 4}, True, "a decoder without masks"), ({}, False, "no outlines found")):
            told = json.loads(json.dumps(truth))
            for annotation in told["annotations"]:
                if not outlines: del annotation["segmentation"]
            done = self.measure(arrays, {**decoder, **change}, told, ["mask_map50"])
            self.assertEqual((done.returncode, part in done.stderr), (INVALID, True), done.stderr)

    def turned(self):
        random = np.random.default_rng(5)
        objects, results, places = [], [], 10
        rows = np.zeros((IMAGES, 4 + CLASSES + 1, places))
        for i in range(IMAGES):
            own = []
            for _ in range(int(random.integers(1, 4))):
                shape = np.array([random.uniform(16, 48), random.uniform(14, 34), random.uniform(8, 28), random.uniform(5, 12),
                                  random.uniform(-np.pi, np.pi)])
                own.append((shape, int(random.integers(0, CLASSES))))
                objects.append((i, [(turned(*shape) / [WIDTH, HEIGHT]).astype(np.float32)], own[-1][1], False))
            found = []
            for p in range(places):
                shape, label = own[int(random.integers(0, len(own)))]
                shape = (shape + random.normal(0, [1.5, 1.5, 1.5, 0.7, 0.12])).astype(np.float32)
                rows[i, :4, p], rows[i, -1, p] = shape[:4], shape[4]
                rows[i, 4 + label, p] = np.float32(random.uniform(0.1, 1))
                found.append((turned(*shape.astype(np.float64)), rows[i, 4 + label, p], label))
            for corners, score, label in suppressed(found, turned_overlap):
                box = around(corners)
                results.append({"image_id": i + 1, "category_id": label + 1, "score": float(score), "corners": corners,
                                "bbox": [*map(float, box[:2]), *map(float, box[2:] - box[:2])]})
        return objects, rows, results

    def test_turned_boxes(self):
        objects, rows, results = self.turned()
        truth = self.truth(objects, WIDTH, HEIGHT)
        for (_, parts, _, _), annotation in zip(objects, truth["annotations"]): annotation["corners"] = parts[0] * [WIDTH, HEIGHT]
        expected = evaluated(truth, results, "bbox", TurnedEvaluation)
        self.assertTrue(0.1 < expected[1] < expected[0] < 0.95, expected)
        truth = self.truth(objects, 100, 80)
        decoder = {"classes": CLASSES, "objectness": False, "layout": "channels_first", "input": [WIDTH, HEIGHT], "angle": True}
        found = self.measure({"head": rows}, decoder, truth, METRICS)
        for metric, value in zip(METRICS, expected): self.assertAlmostEqual(found[metric], value, delta=1e-5)
        # As upright boxes they are others.
        upright = {**decoder, "extra": 1}
        del upright["angle"]
        self.assertLess(self.measure({"head": rows}, upright, truth, METRICS)["map50_95"], 0.7 * expected[1])

    def test_found_by_what_the_file_notes(self):
        """`check` is told nothing; the model's first input is a picture, which nothing reads."""
        names = ("names", "{0: 'a', 1: 'b', 2: 'c'}")
        objects, rows, prototypes, results = self.masks()
        turned = self.turned()
        turned_truth = self.truth(turned[0], WIDTH, HEIGHT)
        for (_, parts, _, _), annotation in zip(turned[0], turned_truth["annotations"]): annotation["corners"] = parts[0] * [WIDTH, HEIGHT]
        of_turned = evaluated(turned_truth, turned[2], "bbox", TurnedEvaluation)[1]
        cells = 4 * 3 + 2 * 1  # of strides 16 and 32
        filled = lambda array: np.concatenate([array, np.zeros((*array.shape[:2], cells - array.shape[2]))], 2)
        picture = np.zeros((IMAGES, 3, HEIGHT, WIDTH))
        for arrays, metadata, truth, metric, expected, delta in (
                ({"head": filled(rows), "masks": prototypes}, [names], self.truth(objects, 100, 80), "mask_map50_95",
                 self.expected_masks(objects, results)[1], 1e-6),
                ({"head": filled(turned[1])}, [names, ("task", "obb")], self.truth(turned[0], 100, 80), "map50_95", of_turned, 1e-5)):
            model = self.model({"picture": picture, **arrays}, metadata)
            graph = onnx.load(model)
            del graph.graph.output[0]
            del graph.graph.node[0]
            onnx.save(graph, model)
            (self.dir / "truth.json").write_text(json.dumps(truth))
            done = models.seqto("--json", "check", model, "--reference", model, "--data", self.dir / "x.npz", "--labels", self.dir / "truth.json",
                                "--metric", metric, "--max-accuracy-drop", f"{metric}=0.01")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertAlmostEqual(json.loads(done.stdout)["figures"][metric]["value"], expected, delta=delta)


if __name__ == "__main__":
    unit.main()
