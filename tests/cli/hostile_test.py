"""Documents and models made to harm: an error that says what was found, never a signal."""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

DEEP = 100_000
LISTS = "[" * DEEP + "]" * DEEP
OBJECTS = '{"x":' * DEEP + "1" + "}" * DEEP


class Hostile(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-hostile-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.model = models.conv(self.dir / "m.onnx")

    def refused(self, said, *words):
        done = models.seqto(*words)
        self.assertEqual(done.returncode, 3, f"{words}: {done.stderr[-500:]}")
        self.assertIn(said, done.stderr[-2000:])

    def test_deep_plans(self):
        plan = self.dir / "plan.json"
        for value in (LISTS, OBJECTS):
            plan.write_text('{"schema_version": 1, "schemes": {"conv": %s}}' % value)
            self.refused("inside each other", "plan", "convert", plan, "--model", self.model, "--to", "nncf")
            self.refused("inside each other", "quantize", self.model, "--mode", "weights", "--plan", plan, "-o",
                         self.dir / "o.onnx")

    def test_deep_studies(self):
        (self.dir / "study.jsonl").write_text('{"study": 1, "header": %s}\n' % OBJECTS)
        self.refused("inside each other", "report", self.dir)
        (self.dir / "summary.json").write_text('{"schema_version": 1, "options": %s}' % OBJECTS)
        self.refused("inside each other", "check", self.dir, "--max-loss", 1)

    def test_deep_configurations(self):
        for name, text in (("published.json", OBJECTS), ("lists.toml", f"device = {LISTS}"),
                           ("keys.toml", ".".join("a" * 2_000_000) + " = 1"),
                           ("tables.toml", "[" + ".".join("a" * 2_000_000) + "]\nb = 1"),
                           ("arrays.toml", "[[" + ".".join("a" * 2_000_000) + "]]\nb = 1")):
            config = self.dir / name
            config.write_text(text)
            self.refused("expected", "tune", self.model, "--data", "random", "--config", config, "-o", self.dir / "out")

    def test_dots_in_texts_are_no_parts_of_keys(self):
        config = self.dir / "c.toml"
        config.write_text('exclude = ["' + "a.b" * 200 + '", \'' + "." * 200 + "']  # " + "." * 200 + "\ndata = \"random\"\n")
        self.refused("nowhere", "tune", self.dir / "nowhere.onnx", "--config", config, "-o", self.dir / "out")

    def test_texts_that_are_no_utf8(self):
        model = onnx.load(self.model)
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
        path = self.dir / "latin.onnx"
        path.write_bytes(model.SerializeToString().replace(b"batch", b"b\xe4tch"))
        done = models.seqto("inspect", "--json", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["inputs"][0]["shape"][0], "b\ufffdtch")


if __name__ == "__main__":
    unittest.main()
