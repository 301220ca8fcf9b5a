"""map50 and map50_95 against pycocotools, for each form of a detector's head, and of keypoints; and FastestDet on COCO images where the
case is there."""

import contextlib
import io
import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402

try:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
except ImportError:
    COCO = None

INVALID = 3
CLASSES, IMAGES, SIDE = 3, 12, 64
CASES = pathlib.Path(os.environ.get("SEQTO_CASES_DIR", models.SOURCE.parent / "shared/cases"))


def sigmoid(x):
    return 1 / (1 + np.exp(-np.asarray(x, np.float64)))


def logit(p):
    return np.log(p / (1 - p))


def overlap(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0
    area = lambda box: (box[2] - box[0]) * (box[3] - box[1])
    return width * height / (area(a) + area(b) - width * height)


def suppress(boxes, scores, labels, threshold=0.6, most=100):
    kept = []
    for i in np.argsort(-scores, kind="stable"):
        if len(kept) == most:
            break
        if all(labels[i] != labels[k] or overlap(boxes[i], boxes[k]) <= threshold for k in kept):
            kept.append(i)
    return [(boxes[i], scores[i], labels[i]) for i in kept]


def detections(boxes, objectness, classes, threshold=0.001, best_only=False):
    """Of one image; `boxes` are corners as shares of it."""
    rows = []
    for i in range(len(boxes)):
        if objectness[i] < threshold:
            continue
        for c in [int(np.argmax(classes[i]))] if best_only else range(classes.shape[1]):
            if objectness[i] * classes[i, c] >= threshold:
                rows.append((boxes[i], objectness[i] * classes[i, c], c))
    if not rows:
        return []
    return suppress([r[0] for r in rows], np.array([r[1] for r in rows]), [r[2] for r in rows])


def ap50(truth, found, statistic=1):
    """pycocotools' figure, 0 for that of all overlaps; `truth` is COCO's dictionary, `found` a list of detections for each image in its order."""
    ids = {i: c["id"] for i, c in enumerate(sorted(truth["categories"], key=lambda c: c["id"]))}
    results = [{"image_id": image["id"], "category_id": ids[label], "score": float(score),
                "bbox": [box[0] * image["width"], box[1] * image["height"], (box[2] - box[0]) * image["width"],
                         (box[3] - box[1]) * image["height"]]}
               for image, boxes in zip(truth["images"], found) for box, score, label in boxes]
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = truth
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.stats[statistic]


def truth_of(boxes_of_images, names, sides):
    annotations = []
    for i, boxes in enumerate(boxes_of_images):
        width, height = sides[i]
        for box, label, crowd in boxes:
            x, y, w, h = box[0] * width, box[1] * height, (box[2] - box[0]) * width, (box[3] - box[1]) * height
            annotations.append({"id": len(annotations) + 1, "image_id": i + 7, "category_id": 10 * label + 1,
                                "bbox": [x, y, w, h], "area": w * h, "iscrowd": int(crowd)})
    images = [{"id": i + 7, "file_name": names[i], "width": sides[i][0], "height": sides[i][1]}
              for i in range(len(names))]
    top = max([a["category_id"] for a in annotations] + [10 * CLASSES - 9])
    return {"images": images, "annotations": annotations, "info": {},
            "categories": [{"id": k, "name": str(k)} for k in range(1, top + 1, 10)]}


@unittest.skipIf(COCO is None, "pycocotools is not there")
class Map50(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-map50-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        # Objects, and guesses near some of them, near others of another class, and far from all.
        random = np.random.default_rng(11)
        cls.objects, cls.guesses = [], []
        for _ in range(IMAGES):
            objects, guesses = [], []
            for _ in range(random.integers(0, 6)):
                size = random.uniform(0.1, 0.4, 2)
                corner = random.uniform(0, 1 - size)
                box = np.concatenate([corner, corner + size])
                objects.append((box, int(random.integers(0, CLASSES)), random.random() < 0.15))
                for _ in range(random.integers(0, 4)):
                    guesses.append((box + random.normal(0, 0.03, 4), objects[-1][1] if random.random() < 0.8 else 0))
            for _ in range(random.integers(1, 4)):
                corner = random.uniform(0, 0.7, 2)
                guesses.append((np.concatenate([corner, corner + random.uniform(0.1, 0.3, 2)]), 1))
            cls.objects.append(objects)
            cls.guesses.append(guesses)
        cls.truth = truth_of(cls.objects, [str(i) for i in range(IMAGES)], [(100 + i, 80) for i in range(IMAGES)])
        cls.labels = cls.dir / "truth.json"
        cls.labels.write_text(json.dumps(cls.truth))

    def measure(self, rows, decoder, labels=None, metric="map50"):
        """`rows`: the head's output for each image; the model passes its input on."""
        rows = np.asarray(rows, np.float32)
        model = models.save(self.dir / "head.onnx", [models.node("Identity", ["x"], ["head"])],
                            [("x", [1, *rows.shape[1:]])], [("head", [1, *rows.shape[1:]])])
        np.savez(self.dir / "x.npz", x=rows)
        (self.dir / "decoder.json").write_text(json.dumps(decoder))
        done = models.seqto("run", model, "--data", self.dir / "x.npz", "-o", self.dir / "o.npz", "--labels",
                            labels or self.labels, "--metric", f"{metric}={self.dir / 'decoder.json'}", "--json")
        if done.returncode:
            return done
        found = json.loads(done.stdout)
        low, high = found["intervals"][metric]
        self.assertTrue(low <= found["metrics"][metric] <= high)
        return found["metrics"][metric]

    def places(self, count):
        """x, y, w, h in pixels, objectness and classes for `count` places of each image."""
        random = np.random.default_rng(12)
        rows = np.zeros((IMAGES, count, 5 + CLASSES))
        for i, guesses in enumerate(self.guesses):
            for k, (box, label) in enumerate(guesses[:count]):
                middle, size = (box[:2] + box[2:]) / 2 * SIDE, np.maximum(box[2:] - box[:2], 0.01) * SIDE
                rows[i, k, :4] = [*middle, *size]
                rows[i, k, 4] = random.uniform(0.2, 1)
                rows[i, k, 5:] = random.uniform(0, 0.3, CLASSES)
                rows[i, k, 5 + label] = random.uniform(0.3, 1)
        return rows.astype(np.float32).astype(np.float64)

    def expected(self, rows, statistic=1):
        found = []
        for row in rows:
            xy, wh = row[:, :2] / SIDE, row[:, 2:4] / SIDE
            found.append(detections(np.hstack([xy - wh / 2, xy + wh / 2]), row[:, 4], row[:, 5:]))
        return ap50(self.truth, found, statistic)

    def test_all_overlaps(self):
        rows = self.places(24)
        expected = self.expected(rows, statistic=0)
        self.assertTrue(0.05 < expected < 0.9 * self.expected(rows), expected)
        self.assertAlmostEqual(self.measure(rows, {"classes": CLASSES, "input": [SIDE, SIDE]}, metric="map50_95"), expected, delta=1e-6)

    def test_detections_that_are_suppressed_already(self):
        rows = self.places(24)
        found = []
        for row in rows:
            xy, wh = row[:, :2] / SIDE, row[:, 2:4] / SIDE
            found.append(detections(np.hstack([xy - wh / 2, xy + wh / 2]), row[:, 4], row[:, 5:]))
        most = max(len(of_image) for of_image in found)
        given = np.zeros((IMAGES, most, 6))
        for i, of_image in enumerate(found):
            for k, (box, score, label) in enumerate(of_image):
                given[i, k] = [*box * SIDE, score, label]
        decoder = {"decode": "found", "box": "xyxy", "input": [SIDE, SIDE]}
        self.assertAlmostEqual(self.measure(given, decoder), ap50(self.truth, found), delta=1e-6)

    def test_boxes_as_they_are(self):
        rows = self.places(24)
        expected = self.expected(rows)
        self.assertTrue(0.1 < expected < 0.9, expected)
        decoder = {"classes": CLASSES, "input": [SIDE, SIDE]}
        self.assertAlmostEqual(self.measure(rows, decoder), expected, delta=1e-6)
        self.assertAlmostEqual(self.measure(rows.transpose(0, 2, 1), {**decoder, "layout": "channels_first"}), expected,
                               delta=1e-6)
        shares = rows.copy()
        shares[..., :4] /= SIDE
        self.assertAlmostEqual(self.measure(shares, {"classes": CLASSES}), expected, delta=1e-6)
        corners = shares.copy()
        corners[..., :2], corners[..., 2:4] = shares[..., :2] - shares[..., 2:4] / 2, shares[..., :2] + shares[..., 2:4] / 2
        self.assertAlmostEqual(self.measure(corners, {"classes": CLASSES, "box": "xyxy"}), expected, delta=1e-6)
        logits = shares.copy()
        logits[..., 4:] = logit(np.clip(shares[..., 4:], 1e-6, 1 - 1e-6))
        self.assertAlmostEqual(self.measure(logits, {"classes": CLASSES, "activation": "sigmoid"}), expected, delta=1e-6)

    def test_yolov8_has_no_objectness(self):
        rows = self.places(24)
        rows[..., 5:] *= rows[..., 4:5]
        rows[..., 4] = 1
        expected = self.expected(rows)
        found = self.measure(np.delete(rows, 4, axis=2).transpose(0, 2, 1),
                             {"classes": CLASSES, "objectness": False, "layout": "channels_first", "input": [SIDE, SIDE]})
        self.assertAlmostEqual(found, expected, delta=1e-6)

    def grid(self, decode, anchors):
        """A head of 4 x 4 cells and what its numbers mean, by formulas of its own."""
        cells, channels = 4, 5 + CLASSES
        random = np.random.default_rng(13)
        raw = random.normal(0, 1, (IMAGES, anchors, channels, cells, cells)).astype(np.float32)
        raw[:, :, 4:] -= 1
        sizes = [[10 + 6 * a, 14 + 5 * a] for a in range(anchors)]
        found = []
        for image in raw.astype(np.float64):
            rows = []
            for a in range(anchors):
                for y in range(cells):
                    for x in range(cells):
                        v = image[a, :, y, x]
                        if decode == "yolov3":
                            mx, my = (sigmoid(v[0]) + x) / cells, (sigmoid(v[1]) + y) / cells
                            w, h = np.exp(v[2]) * sizes[a][0] / SIDE, np.exp(v[3]) * sizes[a][1] / SIDE
                        elif decode == "yolov5":
                            mx, my = (2 * sigmoid(v[0]) - 0.5 + x) / cells, (2 * sigmoid(v[1]) - 0.5 + y) / cells
                            w, h = (2 * sigmoid(v[2]))**2 * sizes[a][0] / SIDE, (2 * sigmoid(v[3]))**2 * sizes[a][1] / SIDE
                        else:
                            mx, my, w, h = (v[0] + x) / cells, (v[1] + y) / cells, np.exp(v[2]) / cells, np.exp(v[3]) / cells
                        rows.append([mx - w / 2, my - h / 2, mx + w / 2, my + h / 2, *sigmoid(v[4:])])
            rows = np.array(rows)
            found.append(detections(rows[:, :4], rows[:, 4], rows[:, 5:]))
        return raw, sizes, ap50(self.truth, found)

    def test_grids(self):
        for decode in ("yolov3", "yolov5"):
            raw, sizes, expected = self.grid(decode, 2)
            decoder = {"classes": CLASSES, "decode": decode, "activation": "sigmoid", "input": [SIDE, SIDE],
                       "outputs": [{"name": "head", "anchors": sizes}]}
            first = self.measure(raw.reshape(IMAGES, -1, 4, 4), {**decoder, "layout": "channels_first"})
            self.assertAlmostEqual(first, expected, delta=1e-6)
            self.assertAlmostEqual(self.measure(raw.transpose(0, 1, 3, 4, 2), decoder), expected, delta=1e-6)
        refused = self.measure(raw.transpose(0, 3, 4, 1, 2).reshape(IMAGES, 4, 4, -1), decoder).stderr
        self.assertIn("an axis for the boxes of a cell, before rows and columns, expected", refused)
        raw, _, expected = self.grid("yolox", 1)
        decoder = {"classes": CLASSES, "decode": "yolox", "activation": "sigmoid", "input": [SIDE, SIDE], "strides": [16]}
        rows = raw[:, 0].transpose(0, 2, 3, 1).reshape(IMAGES, 16, -1)
        self.assertAlmostEqual(self.measure(rows, decoder), expected, delta=1e-6)

    def keypoints(self, count):
        """A truth with `count` keypoints for each object, some of them not labelled, and rows of a head that finds some of them."""
        random = np.random.default_rng(14)
        truth, rows = json.loads(json.dumps(self.truth)), self.places(24)
        for annotation in truth["annotations"]:
            x, y, w, h = annotation["bbox"]
            points = np.stack([random.uniform(x, x + w, count), random.uniform(y, y + h, count), random.integers(0, 3, count)], 1)
            points[:, 2] *= random.random() > 0.2  # some objects have none
            annotation["keypoints"] = [float(v) for v in points.ravel()]
            annotation["num_keypoints"] = int((points[:, 2] > 0).sum())
            annotation["area"] *= 0.6
        found = np.zeros((IMAGES, 24, count, 3))
        for i, image in enumerate(truth["images"]):
            own = [a for a in truth["annotations"] if a["image_id"] == image["id"]]
            for k in range(24):
                box = rows[i, k, :4] / SIDE
                near = min(own, default=None, key=lambda a: abs(a["bbox"][0] / image["width"] - box[0] + box[2] / 2))
                if near is not None and rows[i, k, 4] > 0:
                    points = np.reshape(near["keypoints"], (count, 3))[:, :2] / (image["width"], image["height"])
                    found[i, k, :, :2] = (points + random.normal(0, random.uniform(0, 0.08), (count, 2))) * SIDE
        for category in truth["categories"]:
            category["keypoints"] = [str(k) for k in range(count)]
        return truth, np.concatenate([rows, found.reshape(IMAGES, 24, -1)], 2).astype(np.float32).astype(np.float64)

    def expected_keypoints(self, truth, rows, count):
        ids = sorted(category["id"] for category in truth["categories"])
        results = []
        for image, row in zip(truth["images"], rows):
            xy, wh = row[:, :2] / SIDE, row[:, 2:4] / SIDE
            boxes = np.hstack([xy - wh / 2, xy + wh / 2])
            for box, score, label in detections(boxes, row[:, 4], row[:, 5:5 + CLASSES]):
                at = next(i for i in range(len(boxes)) if boxes[i] is box or np.array_equal(boxes[i], box))
                points = row[at, 5 + CLASSES:].reshape(count, 3) / SIDE * (image["width"], image["height"], 1)
                results.append({"image_id": image["id"], "category_id": ids[label], "score": float(score),
                                "keypoints": [float(v) for v in points.ravel()]})
        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO()
            coco.dataset = truth
            coco.createIndex()
            evaluation = COCOeval(coco, coco.loadRes(results), "keypoints")
            evaluation.params.maxDets = [100]
            if count != 17:
                evaluation.params.kpt_oks_sigmas = np.full(count, 1 / count)
            evaluation.evaluate()
            evaluation.accumulate()
        precision = evaluation.eval["precision"][..., 0, 0]  # overlaps, recalls, classes
        mean = lambda part: part[part > -1].mean()
        return mean(precision[0]), mean(precision)

    def test_keypoints(self):
        for count in (17, 5):
            truth, rows = self.keypoints(count)
            labels = self.dir / "keypoints.json"
            labels.write_text(json.dumps(truth))
            at_half, at_all = self.expected_keypoints(truth, rows, count)
            self.assertTrue(0.05 < at_all < 0.9 * at_half < 0.9, (at_half, at_all))
            decoder = {"classes": CLASSES, "input": [SIDE, SIDE], "keypoints": [count, 3]}
            for metric, expected in (("keypoint_map50", at_half), ("keypoint_map50_95", at_all)):
                self.assertAlmostEqual(self.measure(rows, decoder, labels, metric), expected, delta=1e-6)
        done = self.measure(rows, {"classes": CLASSES, "keypoints": [3, 2], "extra": 9}, labels, "keypoint_map50")
        self.assertEqual((done.returncode, "objects of 5 keypoints found" in done.stderr), (INVALID, True), done.stderr)
        done = self.measure(rows, {"classes": CLASSES, "extra": 15}, labels, "keypoint_map50")
        self.assertEqual((done.returncode, "a decoder without keypoints" in done.stderr), (INVALID, True), done.stderr)
        done = self.measure(rows, {"classes": CLASSES, "keypoints": [5, 3]}, metric="keypoint_map50")
        self.assertEqual((done.returncode, "no labelled keypoints found" in done.stderr), (INVALID, True), done.stderr)

    def test_an_object_of_no_class(self):
        done = self.measure(self.places(24)[..., :-1], {"classes": CLASSES - 1, "input": [SIDE, SIDE]})
        self.assertEqual(done.returncode, INVALID)
        self.assertIn(f"an object of class {CLASSES - 1} and a detector of {CLASSES - 1} found; classes from 0 to {CLASSES - 2}", done.stderr)

    def test_errors(self):
        rows = self.places(8)
        for decoder, part in (({}, "classes"), ({"classes": 4}, "9 values for each box expected"),
                              ({"classes": 3, "clases": 3}, "clases"), ({"classes": 3, "decode": "ssd"}, "fastestdet"),
                              ({"classes": 3, "decode": "yolov5"}, "anchors"),
                              ({"classes": 3, "outputs": ["tail"]}, "'tail'"),
                              ({"classes": 3, "keypoints": [17]}, "[17] found; how many"),
                              ({"classes": 3, "decode": "yolox", "strides": [8], "input": [64, 64]}, "64 expected")):
            done = self.measure(rows, decoder)
            self.assertEqual((done.returncode, part in done.stderr), (INVALID, True), done.stderr)
        empty = self.dir / "none"
        empty.mkdir()
        done = self.measure(rows, {"classes": 3}, labels=empty)
        self.assertEqual((done.returncode, "no objects found" in done.stderr), (INVALID, True), done.stderr)
        (self.dir / "bad.json").write_text(json.dumps({"images": [], "categories": []}))
        done = self.measure(rows, {"classes": 3}, labels=self.dir / "bad.json")
        self.assertEqual((done.returncode, "annotations" in done.stderr), (INVALID, True), done.stderr)

    @unittest.skipUnless((CASES / "fastestdet").is_dir(), "the case fastestdet is not there")
    def test_fastestdet(self):
        case, count = CASES / "fastestdet", 40
        decoder = {"classes": 80, "layout": "channels_first", "objectness": "first", "decode": "fastestdet",
                   "score_powers": [0.6, 0.4], "multi_label": False}
        (self.dir / "fastestdet.json").write_text(json.dumps(decoder))
        out = self.dir / "fastestdet.npz"
        done = models.seqto("run", case / "model.onnx", "--data", CASES / "data/coco/images", "--labels",
                            CASES / "data/coco/labels", "--preprocess", case / "preprocess.json", "--samples", count, "-o", out,
                            "--metric", f"map50={self.dir / 'fastestdet.json'}", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        measured = json.loads(done.stdout)["metrics"]["map50"]
        names = sorted(p.name for p in (CASES / "data/coco/images").iterdir())[:count]
        objects = []
        for name in names:
            file = CASES / "data/coco/labels" / (name[:-4] + ".txt")
            lines = file.read_text().split("\n") if file.exists() else []
            boxes = [[float(v) for v in line.split()] for line in lines if line.strip()]
            objects.append([((b[1] - b[3] / 2, b[2] - b[4] / 2, b[1] + b[3] / 2, b[2] + b[4] / 2), int(b[0]), False)
                            for b in boxes])
        truth = truth_of(objects, names, [(352, 352)] * count)
        truth["categories"] = [{"id": 10 * k + 1, "name": str(k)} for k in range(80)]
        found = []
        for head in next(iter(np.load(out).values())).astype(np.float64):
            y, x = np.mgrid[:22, :22]
            mx, my = (np.tanh(head[1]) + x) / 22, (np.tanh(head[2]) + y) / 22
            w, h = sigmoid(head[3]), sigmoid(head[4])
            boxes = np.stack([mx - w / 2, my - h / 2, mx + w / 2, my + h / 2], -1).reshape(-1, 4)
            found.append(detections(boxes, head[0].reshape(-1)**0.6, (head[5:].reshape(80, -1).T)**0.4, best_only=True))
        self.assertAlmostEqual(measured, ap50(truth, found), delta=1e-6)
        self.assertGreater(measured, 0.2)


if __name__ == "__main__":
    unit.main()
