"""Folders and globs of models: a study each, one table and one page; a model that fails ends only its own study."""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.hub_server import Hub  # noqa: E402

USAGE, INVALID, GATE = 2, 3, 5


class ManyModels(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-many-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.models, self.out = self.dir / "models", self.dir / "out"
        self.models.mkdir()

    def tune(self, model, *words, code=0, env=None):
        done = models.seqto("tune", model, "--data", models.DIGITS_DATA, "--max-evaluations", 3, "--evaluation-samples",
                            8, "-o", self.out, *words, env=env)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def overview(self):
        return json.loads((self.out / "overview.json").read_text())["models"]

    def test_folder(self):
        for name in ("one", "two & <b>", "one_quant"):
            shutil.copy(models.DIGITS, self.models / f"{name}.onnx")
        (self.models / "broken.onnx").write_bytes(b"this is no model")
        models.conv(self.models / "other.onnx")
        (self.models / "notes.txt").write_text("nothing")
        done = self.tune(self.models, code=INVALID)
        self.assertIn("not tuned: one_quant.onnx", done.stderr)
        self.assertIn("2 of 4 models failed: broken, other", done.stderr)
        entries = {e["model"]: e for e in self.overview()}
        self.assertEqual(list(entries), ["broken", "one", "other", "two____b_"])
        for name in ("one", "two____b_"):
            self.assertEqual(entries[name]["summary"]["evaluations"], 3)
            self.assertTrue((self.out / name / "report.html").is_file())
            self.assertTrue((self.out / name / "models/full.onnx").is_file())
        self.assertIn("[load]", entries["broken"]["failure"])
        self.assertIn("[data]", entries["other"]["failure"])
        for name in entries:
            self.assertIn(name, done.stdout)
        self.assertIn(entries["broken"]["failure"], done.stdout)
        page = (self.out / "index.html").read_text()
        self.assertIn('href="./one/report.html"', page)
        self.assertIn("4 models", page)
        self.assertNotIn("http", page.replace("http-equiv", ""))
        self.assertLessEqual(max(map(len, done.stdout.split("\nall:")[0].split("\nbroken:")[0].splitlines())), 100)

    def test_json(self):
        shutil.copy(models.DIGITS, self.models / "one.onnx")
        done = self.tune(self.models, "--json")
        self.assertEqual(json.loads(done.stdout), json.loads((self.out / "overview.json").read_text()))

    def test_goes_on(self):
        shutil.copy(models.DIGITS, self.models / "one.onnx")
        self.tune(self.models)
        before = (self.out / "one/study.jsonl").read_text().count('"trial"')
        shutil.copy(models.DIGITS, self.models / "two.onnx")
        self.tune(self.models)
        self.assertEqual((self.out / "one/study.jsonl").read_text().count('"trial"'), before)
        self.assertEqual(len(self.overview()), 2)

    def test_all_fail(self):
        (self.models / "a.onnx").write_bytes(b"no model")
        (self.models / "b.onnx").write_bytes(b"no model either")
        done = self.tune(self.models, code=INVALID)
        self.assertIn("a.onnx", done.stderr)
        self.assertEqual(len(self.overview()), 2)

    def test_what_a_library_throws_ends_one_study(self):
        (self.models / "a.onnx").symlink_to("a.onnx")
        shutil.copy(models.DIGITS, self.models / "b.onnx")
        self.assertIn("1 of 2 models failed: a", self.tune(self.models, code=INVALID).stderr)
        entries = {e["model"]: e for e in self.overview()}
        self.assertIn("symbolic links", entries["a"]["failure"])
        self.assertEqual(entries["b"]["summary"]["evaluations"], 3)

    def test_empty_folder(self):
        self.assertIn("no .onnx file", self.tune(self.models, code=INVALID).stderr)
        shutil.copy(models.DIGITS, self.models / "my_quantum.onnx")
        self.assertIn("no .onnx file but those with _quant", self.tune(self.models, code=INVALID).stderr)

    def test_all_that_miss_a_limit_are_named(self):
        for name in ("one", "two"):
            shutil.copy(models.DIGITS, self.models / f"{name}.onnx")
        said = self.tune(self.models, "--max-size", "1B", code=GATE).stderr
        for name in ("one", "two"):
            self.assertIn(f"{name}: no point of the front meets every limit", said)

    def test_prepared_and_excluded(self):
        shutil.copy(models.DIGITS, self.models / "one.onnx")
        done = self.tune(self.models, "--prepare-models", "--exclude-if-present", "no_such_node")
        self.assertIn("no node is called 'no_such_node'", done.stderr)
        self.assertTrue((self.out / "one/prepared.onnx").is_file())
        layer = next(x["name"] for x in self.overview()[0]["summary"]["fully_quantized"]["layers"])
        shutil.rmtree(self.out)
        self.tune(self.models, "--exclude-if-present", f"{layer},no_such_node")
        full = next(json.loads(line)["trial"] for line in (self.out / "one/study.jsonl").read_text().splitlines()
                    if '"id":"full"' in line)
        self.assertNotIn(layer, full["plan"])
        self.assertGreater(len(full["plan"]), 10)

    def test_files_beside_are_the_models(self):
        for name in ("one", "two"):
            (self.models / name).mkdir(parents=True)
            shutil.copy(models.DIGITS, self.models / name / "model.onnx")
        (self.models / "one/special_tokens_map.json").write_text("{}")
        for name in ("one", "two"):
            self.tune(self.models / name / "model.onnx", "--prepare-models", "--no-resume")
            self.assertEqual((self.out / "special_tokens_map.json").exists(), name == "one")

    def test_hub_glob(self):
        hub = Hub()
        self.addCleanup(hub.close)
        body = models.DIGITS.read_bytes()
        for name, opset in (("Digits", 12), ("Digits", 13), ("Digits small", 13), ("Other", 13)):
            hub.add(name, body, opset)
        hub.files[hub.add("Digits gone", body, 13)] = b"gone"
        env = {"SEQTO_HUB_URL": hub.url, "SEQTO_HUB_CACHE": str(self.dir / "cache"), "no_proxy": "*"}
        self.tune("hub:digits*@13", env=env, code=INVALID)
        entries = {e["model"]: e for e in self.overview()}
        self.assertEqual(list(entries), ["Digits@13", "Digits_small@13", "Digits_gone@13"])
        self.assertIn("[hub]", entries["Digits_gone@13"]["failure"])
        shutil.rmtree(self.out)
        self.tune("hub:*", "--hub-first", 1, "--hub-last", 2, env=env)
        self.assertEqual([e["model"] for e in self.overview()], ["Digits@13", "Digits_small@13"])
        self.tune("hub:nothing*", code=INVALID, env=env)
        for glob in ("hub:*@x", "hub:*@13x", "hub:*@"):
            done = self.tune(glob, code=USAGE, env=env)
            self.assertIn(f"{glob} found; the number of an opset expected", done.stderr)


if __name__ == "__main__":
    unittest.main()
