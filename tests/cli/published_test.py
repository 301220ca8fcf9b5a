"""The published tool's files: its configuration does what it did there, its results are drawn."""

import json
import pathlib
import shutil
import struct
import sys
import tempfile
import unittest
import zlib

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.hub_server import Hub  # noqa: E402

INVALID = 3


def png(path, seed):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def configuration(**changes):
    """As the published tool ships it."""
    config = {
        "run_type": "onnx",
        "onnx_hub": {"activate": True, "start": 0, "end": 200,
                     "filter": {"enabled": True, "name": "MobileNet v2-1.0", "opset": 10}},
        "tvm": {"devices": {"id": 0, "selected": "default",
                            "default": {"key": "android", "host_type": "default", "target": "opencl",
                                        "target_framework": "opencl", "host": "llvm -mtriple=arm64-linux-android",
                                        "address": "0.0.0.0", "port": 9092}}},
        "onnx": {"threshold": 0, "preprocess_model": False, "quantize_static": False},
        "options": {"preprocessing_setting": "imagenet", "nodes_to_exclude": [], "skipped_nodes": []},
        "images": {"note": "a note", "images_folder_rel_path": "/images/imagenet/",
                   "calibration_images_rel_path": "/images/fifty/",
                   "small_calibr_images_folder_rel_path": "/images/thirty/", "random_enabled": True, "random_k": 4,
                   "chunk": 2},
        "visualizer": {"labels": ["Dissimilarity", "Size", "Execution Time"], "active_labels": [True, True, False]},
    }
    for key, value in changes.items():
        config[key] = config[key] | value if isinstance(value, dict) and key in config else value
    return config


class Configuration(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-published-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.file = self.dir / "config.json"
        for folder, count in (("imagenet", 9), ("fifty", 6), ("thirty", 3)):
            (self.dir / "images" / folder).mkdir(parents=True)
            for i in range(count):
                png(self.dir / "images" / folder / f"{i}.png", 100 * count + i)

    def printed(self, **changes):
        self.file.write_text(json.dumps(configuration(**changes)))
        done = models.seqto("tune", "--config", self.file, "--print-config")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.native = self.dir / "native.toml"
        self.native.write_text(done.stdout)
        self.warned = done.stderr
        return done.stdout

    def has(self, lines, got):
        for line in lines:
            self.assertIn("\n" + line + "\n", "\n" + got)

    def test_as_it_is(self):
        self.has(['model = "hub:*MobileNet v2-1.0*@10"', "hub-first = 0", "hub-last = 200",
                  f'data = "{self.dir}/images/imagenet"', f'calibration-data = "{self.dir}/images/fifty"',
                  f'ranking-data = "{self.dir}/images/thirty"', "calibration-samples = 0", "random-samples = 4",
                  "chunk = 2", 'preprocess = "imagenet"', 'objectives = ["rank_dissimilarity", "size"]',
                  'schemes = ["int8_dynamic", "float32"]', 'weight-type = "uint8"', 'strategy = "incremental"',
                  '# device = ["cpu"]', f'output = "{self.dir}/seqto-results"'], self.printed())
        self.assertEqual(self.warned, "")
        again = models.seqto("tune", "--config", self.native, "--print-config")
        self.assertEqual(again.stdout, self.native.read_text())

    def test_other_values(self):
        self.has(['device = ["tvm+tracker:0.0.0.0:9092:android:opencl -mtriple=arm64-linux-android"]',
                  "threshold = 0.02", "prepare-models = true", 'schemes = ["int8", "float32"]',
                  'objectives = ["rank_dissimilarity", "size", "latency"]', 'exclude-if-present = ["a", "b"]',
                  f'model = "{self.dir}/local_models"'],
                 self.printed(run_type="tvm", onnx_hub={"activate": False},
                              onnx={"threshold": 2, "preprocess_model": True, "quantize_static": True},
                              options={"nodes_to_exclude": ["a", "b"]},
                              visualizer={"active_labels": [True, True, True]}))
        device = configuration()["tvm"]["devices"] | {"selected": "mine", "mine": {
            "key": "k", "host_type": "local", "target": "llvm", "address": "127.0.0.1", "port": "1"}}
        self.has(['device = ["tvm:llvm"]'], self.printed(run_type="tvm", tvm={"devices": device}))

    def test_preprocessing(self):
        for name, said in (("disable_preprocessing", '"none"'), ("library_torch_to_keras", '"imagenet"'),
                           ("onnx", "short_side"), ("googlenet", "bgr"), ("resnet", "0.5")):
            with self.subTest(name=name):
                got = self.printed(options={"preprocessing_setting": name})
                self.assertIn(said, next(line for line in got.splitlines() if line.startswith("preprocess =")))

    def test_named_where_they_mean_nothing(self):
        self.printed(surprise={"a": {"b": 1}, "c": 2}, options={"skipped_nodes": ["a"], "colour": "red"},
                     images={"random_k": 300}, visualizer={"labels": ["x", "y", "z"]})
        for key in ("'surprise.a.b'", "'surprise.c'", "'options.colour'", "'options.skipped_nodes'",
                    "'visualizer.labels'", "images.random_k is 300"):
            self.assertIn(key, self.warned)
        self.assertEqual(self.warned.count("warning: "), 6)

    def test_refused(self):
        for changes, said in (({"run_type": "tpu"}, "run_type"),
                              ({"options": {"preprocessing_setting": "keras"}}, "keras"),
                              ({"images": {"chunk": "many"}}, "images.chunk"),
                              ({"onnx": {"threshold": "low"}}, "threshold"),
                              ({"onnx_hub": {"activate": "yes"}}, "onnx_hub.activate"),
                              ({"images": {"images_folder_rel_path": None}}, "images_folder_rel_path"),
                              ({"visualizer": {"active_labels": [False]}}, "active_labels"),
                              ({"options": {"nodes_to_exclude": [1]}}, "nodes_to_exclude")):
            with self.subTest(said=said):
                self.file.write_text(json.dumps(configuration(**changes)))
                done = models.seqto("tune", "--config", self.file)
                self.assertEqual(done.returncode, INVALID, done.stderr)
                self.assertIn(said, done.stderr)
        self.file.write_text("{")
        done = models.seqto("tune", "--config", self.file)
        self.assertEqual(done.returncode, INVALID, done.stderr)
        self.assertIn("no JSON object", done.stderr)

    def run_it(self, *words, env=None, **changes):
        self.file.write_text(json.dumps(configuration(**changes)))
        done = models.seqto("tune", "--config", self.file, *words, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {e["model"]: e for e in json.loads((self.dir / "seqto-results/overview.json").read_text())["models"]}

    def test_local_models(self):
        (self.dir / "local_models").mkdir()
        models.conv(self.dir / "local_models/a.onnx")
        models.conv(self.dir / "local_models/b.onnx", before=["Relu"])
        entries = self.run_it(onnx_hub={"activate": False}, onnx={"quantize_static": True},
                              options={"preprocessing_setting": "disable_preprocessing",
                                       "nodes_to_exclude": ["before_0"]})
        self.assertEqual(list(entries), ["a", "b"])
        for entry in entries.values():
            self.assertEqual(entry["summary"]["samples"], {"calibration": 6, "search": 0, "evaluation": 4})
            self.assertEqual(entry["summary"]["objectives"], ["rank_dissimilarity", "size"])

    def test_dynamic(self):
        """As shipped: dynamic candidates, compared with the published static quantization, in its order."""
        (self.dir / "local_models").mkdir()
        models.conv(self.dir / "local_models/a.onnx")
        entries = self.run_it(onnx_hub={"activate": False}, options={"preprocessing_setting": "disable_preprocessing"})
        out = self.dir / "seqto-results/a"
        self.assertEqual(entries["a"]["summary"]["fully_quantized"]["id"], "published")
        ops = {node.op_type for node in onnx.load(out / "models/full.onnx").graph.node}
        self.assertIn("ConvInteger", ops)
        self.assertNotIn("QuantizeLinear", ops)
        lines = (out / "study.jsonl").read_text().splitlines()
        trials = [json.loads(line)["trial"] for line in lines if '"trial"' in line]
        self.assertEqual({s for t in trials if t["id"] not in ("float", "published") for s in t["plan"].values()},
                         {"int8_dynamic"})
        done = models.seqto("tune", self.dir / "local_models/a.onnx", "--data", self.dir / "images/imagenet", "-o", out,
                            "--strategy", "incremental", "--schemes", "int8,int8_dynamic,float32")
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_hub(self):
        hub = Hub()
        self.addCleanup(hub.close)
        body = models.conv(self.dir / "m.onnx").read_bytes()
        for name, opset in (("MobileNet v2-1.0", 10), ("MobileNet v2-1.0-fp32", 12), ("Other", 12)):
            hub.add(name, body, opset)
        env = {"SEQTO_HUB_URL": hub.url, "SEQTO_HUB_CACHE": str(self.dir / "cache"), "no_proxy": "*"}
        common = {"onnx": {"quantize_static": True}, "options": {"preprocessing_setting": "disable_preprocessing"}}
        self.assertEqual(list(self.run_it(env=env, **common)), ["MobileNet_v2-1.0@10"])
        shutil.rmtree(self.dir / "seqto-results")
        found = {"start": 1, "end": 2, "filter": {"enabled": False}}
        self.assertEqual(list(self.run_it(env=env, onnx_hub=found, **common)), ["MobileNet_v2-1.0-fp32@12", "Other@12"])


class Results(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-results-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.file = self.dir / "0e7c_mobilenetv2-10_upd_onnx_out.json"
        self.results = {
            "activations": [["input", 0.56], ["472", 0.54]], "weights": [["545", 1.0]],
            "excluded_nodes": ["input", "Conv_0", "472", "Gemm_104"], "skipped_nodes": ["input", "472"],
            "dissimilarities": [40.5, 44.25, 0.0],
            "benchmarks": {"original": 0.01, "quantized": [0.06, 0.05, 0.02]},
            "size": {"original": "13.32 MB", "quantized": ["3.43 MB", "900.5 KB", "1.0 GB"]}}

    def write(self, **changes):
        self.file.write_text(json.dumps(self.results | changes))
        return self.file

    def test_one(self):
        done = models.seqto("report", self.write())
        self.assertEqual(done.returncode, 0, done.stderr)
        out = self.file.with_suffix("")
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual(summary["model"]["path"], "mobilenetv2-10_upd_onnx")
        self.assertEqual(summary["fully_quantized"]["size_bytes"], round(3.43 * 2**20))
        self.assertEqual(summary["fully_quantized"]["losses"]["rank_dissimilarity"], 0.405)
        self.assertIsNone(summary["fully_quantized"]["losses"]["kl"])
        self.assertEqual(summary["fully_quantized"]["latency_ns"]["median"], 60_000_000)
        self.assertEqual([(p["id"], p["size_bytes"]) for p in summary["front"]],
                         [("cycle-1", round(900.5 * 1024)), ("full", round(3.43 * 2**20))])
        self.assertIn("40.5", done.stdout.replace("0.405", "40.5"))
        for name in ("front", "exclusion"):
            self.assertIn("<svg", (out / f"plots/{name}.svg").read_text())
        page = (out / "report.html").read_text()
        self.assertIn("made by the published tool", page)
        self.assertNotIn("nan", page.split("<script")[0].split("<h1>")[1])
        self.assertNotIn("other first class", page.split("<script")[0].replace("0.0 % other", ""))

    def test_folder(self):
        self.write()
        (self.dir / "other_out_2.json").write_text(self.file.read_text())
        (self.dir / "notes.json").write_text("{}")
        done = models.seqto("report", self.dir, "-o", self.dir / "drawn")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.dir / "drawn/index.html").is_file())
        self.assertTrue((self.dir / "drawn/other_out_2/report.html").is_file())

    def test_refused(self):
        for changes, said in (({"dissimilarities": [1.0]}, "1 dissimilarities"), ({"size": {}}, "/size"),
                              ({"dissimilarities": ["a"] * 3}, "a number"),
                              ({"size": {"original": "13 stones", "quantized": ["1.0 MB"] * 3}}, "13 stones")):
            with self.subTest(said=said):
                done = models.seqto("report", self.write(**changes))
                self.assertEqual(done.returncode, INVALID, done.stderr)
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
