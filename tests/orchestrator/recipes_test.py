"""A plan holds all that makes its file: `quantize --plan` writes the study's bytes again, for every plan of a study."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402

CASES = pathlib.Path(os.environ.get("SEQTO_CASES_DIR", models.SOURCE / "../shared/cases")).resolve()
SAMPLES = ["--calibration-samples", 32]
SEARCH = [*SAMPLES, "--search-samples", 24, "--evaluation-samples", 40, "--search-evaluations", 30]
DATA = ["--data", models.DIGITS_DATA]
USAGE, INVALID = 2, 3


def plan_hash(plan):
    """As docs/reference/formats.md has it."""
    text = ""
    for layer, entry in sorted(plan["schemes"].items()):
        fields = dict(entry) if isinstance(entry, dict) else {"scheme": entry}
        scheme = fields.pop("scheme")
        if scheme != "float32":
            text += f"{layer}\n{scheme}" + (f" {json.dumps(fields, separators=(',', ':'))}" if fields else "") + "\n"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class RecipesTest(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-recipes-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def tune(self, name, *flags):
        done = models.seqto("-q", "tune", models.DIGITS, *DATA, *flags, "-o", self.dir / name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.dir / name

    def quantize(self, plan, *flags, model=models.DIGITS, code=0):
        """The bytes that come of the plan, and what was said."""
        out = self.dir / "again.onnx"
        out.unlink(missing_ok=True)
        done = models.seqto("quantize", model, "--plan", plan, *flags, "-o", out)
        self.assertEqual(done.returncode, code, done.stderr)
        return out.read_bytes() if out.exists() else None, done.stderr

    def check(self, study, model=models.DIGITS, data=DATA):
        plans = [p for p in sorted((study / "plans").glob("*.json"))
                 if "schemes" in json.loads(p.read_text()) and p.stem != "float"]
        summary = json.loads((study / "summary.json").read_text())
        self.assertLessEqual({p["id"] for p in summary["front"]} | {"full"}, {p.stem for p in plans} | {"float"})
        for plan in plans:
            if re.fullmatch("[0-9a-f]{16}", plan.stem):
                self.assertEqual(plan_hash(json.loads(plan.read_text())), plan.stem, "a plan's file is named by its hash")
            expected = (study / "models" / f"{plan.stem}.onnx").read_bytes()
            self.assertEqual(self.quantize(plan, *data, model=model)[0], expected, f"{study.name} {plan.stem}")
            self.assertEqual(self.quantize(plan, model=model)[0], expected, f"{study.name} {plan.stem}, without data")
        return plans

    def test_searches(self):
        """Types, granularity, rounding and own biases are in the plan; nothing is said of them on the command line."""
        study = self.tune("searched", *SEARCH, "--rounding", "learned")
        self.check(study)
        types = {json.loads(p.read_text())["recipe"]["quantize"]["per_channel"] for p in study.glob("plans/*.json")
                 if "recipe" in json.loads(p.read_text())}
        self.assertIn(True, types, "a search writes per channel")

    def test_improved_searches(self):
        """The float model was rewritten; its plans know how without the data."""
        self.check(self.tune("improved", *SEARCH, "--bias-correction", "full"))

    def test_the_default(self):
        study = self.tune("default", "--search-evaluations", 30)
        plans = self.check(study)
        names = {json.loads(p.read_text())["recipe"].get("rewritten", {}).get("file") for p in plans}
        self.assertEqual(len(names - {None}), 1, "all plans share the rewritten model")
        self.tune("default", "--search-evaluations", 30, "--no-resume", "--schemes", "int8_weights,float32", "--no-improve")
        self.assertEqual(list(study.glob("plans/rewritten-*")), [], "a study that is begun anew removes it")

    def test_what_needs_no_samples_serves_an_export_of_another_day(self):
        again = onnx.load(models.DIGITS)
        again.producer_name = "another day"
        onnx.save(again, self.dir / "exported.onnx")
        study = self.tune("stored", *SEARCH, "--schemes", "int8_weights,float16,float32", "--no-improve", "--rounding", "nearest")
        plan = next(p for p in sorted(study.glob("plans/*.json")) if "int8_weights" in p.read_text())
        self.assertTrue(self.quantize(plan, model=self.dir / "exported.onnx")[0])
        static = self.tune("static", *SEARCH, "--schemes", "int8,float32", "--no-improve")
        self.assertIn("without --data", self.quantize(static / "plans/full.json", model=self.dir / "exported.onnx", code=USAGE)[1])

    @unittest.skipUnless((CASES / "resnet8").is_dir(), f"no cases at {CASES}")
    def test_a_trained_network(self):
        case = CASES / "resnet8"
        flags = json.loads((case / "case.json").read_text())
        data = ["--data", case / flags["data"], "--labels", case / flags["labels"], "--preprocess", case / flags["preprocess"]]
        study = self.dir / "resnet8"
        done = models.seqto("-q", "tune", case / "model.onnx", *data, "--samples", 120, "--search-evaluations", 20, "-o", study)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check(study, case / "model.onnx", [*data, "--samples", 120])

    def test_a_model_that_there_was_no_time_to_rewrite(self):
        """The study says so; its plans go by the model that it had."""
        study = self.tune("before", *SEARCH, "--improve")
        lines = (study / "study.jsonl").read_text().splitlines(keepends=True)
        (self.dir / "cut").mkdir()
        (self.dir / "cut/study.jsonl").write_text(lines[0] + json.dumps({"note": "not rewritten", "value": True}) + "\n")
        self.check(self.tune("cut", *SEARCH, "--improve"))

    def test_refined_ranges_and_clipping(self):
        self.check(self.tune("refined", *SEARCH, "--refine-ranges", "--rounding", "learned", "--weight-clipping", "mse",
                             "--method", "percentile", "--percentile", 99.9))

    def test_fields(self):
        schemes = "int8,int8+method=percentile:99+rounding=nearest,int8+method=mse+per_channel=false,float32"
        self.check(self.tune("fields", *SEARCH, "--schemes", schemes, "--rounding", "learned"))

    def test_biases_of_single_plans(self):
        study = self.tune("own", *SAMPLES, "--search-evaluations", 60, "--evaluation-samples", 100, "--improve", "--objectives", "kl,size", "--schemes", "int8,float32")
        plans = self.check(study)
        self.assertIn(2, [len(json.loads(p.read_text())["recipe"]["corrections"]) for p in plans], "shared and own ones")

    def test_published_procedure(self):
        self.check(self.tune("published", *SAMPLES, "--strategy", "incremental", "--max-evaluations", 5))
        self.check(self.tune("other_types", *SAMPLES, "--strategy", "incremental", "--max-evaluations", 5,
                             "--activation-type", "uint8", "--per-channel", "--exclude", "op:Gemm"))
        self.check(self.tune("dynamic", *SAMPLES, "--strategy", "incremental", "--max-evaluations", 5, "--schemes",
                             "int8_dynamic,float32"))

    def test_a_plan_goes_nowhere_without_its_files(self):
        study = self.tune("out", *SEARCH, "--rounding", "learned")
        plan = study / "plans/full.json"
        recipe = json.loads(plan.read_text())["recipe"]
        ranges = recipe["ranges"][""]["file"]
        alone = self.dir / "alone.json"
        shutil.copy(plan, alone)
        self.assertIn(ranges, self.quantize(alone, code=INVALID)[1])
        shutil.copy(study / "plans" / ranges, self.dir)
        for entry in recipe["corrections"]:
            shutil.copy(study / "plans" / entry["file"], self.dir)
        self.assertEqual(self.quantize(alone)[0], (study / "models/full.onnx").read_bytes())
        (self.dir / ranges).write_text((self.dir / ranges).read_text() + " ")
        self.assertIn("SHA-256", self.quantize(alone, code=INVALID)[1])
        text = json.loads(plan.read_text())
        text["recipe"]["ranges"][""]["file"] = "../out/plans/" + ranges
        alone.write_text(json.dumps(text))
        self.assertIn("beside the plan", self.quantize(alone, code=INVALID)[1])
        text["recipe"] = {"quantize": 1}
        alone.write_text(json.dumps(text))
        self.assertIn("recipe", self.quantize(alone, code=INVALID)[1])
        del text["recipe"]
        alone.write_text(json.dumps(text))
        self.assertIn("--data", self.quantize(alone, code=USAGE)[1])

    def test_flags_go_before_the_plan_and_are_not_silent(self):
        study = self.tune("out", *SEARCH, "--rounding", "learned")
        plan, expected = study / "plans/full.json", (study / "models/full.onnx").read_bytes()
        own = json.loads(plan.read_text())["recipe"]["quantize"]
        self.assertEqual((own["activation_type"], own["per_channel"]), ("uint8", True))
        same, said = self.quantize(plan, "--activation-type", "uint8", "--per-channel")
        self.assertEqual(same, expected)
        self.assertNotIn("go before", said)
        other, said = self.quantize(plan, "--activation-type", "int8")
        self.assertNotEqual(other, expected)
        self.assertIn("activation_type", said)
        self.assertIn("--improve", self.quantize(plan, "--improve", code=USAGE)[1])
        self.assertIn("calibration", self.quantize(plan, *DATA, "--method", "mse", code=USAGE)[1])

    def test_other_data_and_other_models_are_learned_anew(self):
        study = self.tune("out", *SEARCH, "--rounding", "learned")
        plan, expected = study / "plans/full.json", (study / "models/full.onnx").read_bytes()
        arrays = dict(np.load(models.DIGITS_DATA))
        other_data = self.dir / "other.npz"
        np.savez(other_data, **{name: array[::-1] for name, array in arrays.items()})
        anew, said = self.quantize(plan, "--data", other_data)
        self.assertIn("anew", said)
        self.assertNotEqual(anew, expected)
        retrained = onnx.load(models.DIGITS)
        for tensor in retrained.graph.initializer:
            array = numpy_helper.to_array(tensor)
            if array.dtype == np.float32:
                tensor.CopyFrom(numpy_helper.from_array(array * np.float32(1.5), tensor.name))
        onnx.save(retrained, self.dir / "retrained.onnx")
        self.assertIn("another model", self.quantize(plan, model=self.dir / "retrained.onnx", code=USAGE)[1])
        anew, said = self.quantize(plan, *DATA, model=self.dir / "retrained.onnx")
        self.assertIn("anew", said)
        scales = [{t.name: numpy_helper.to_array(t) for t in onnx.load_from_string(b).graph.initializer
                   if t.name.endswith("_scale")} for b in (anew, expected)]
        self.assertEqual(scales[0].keys(), scales[1].keys())
        self.assertTrue(any(not np.array_equal(scales[0][n], scales[1][n]) for n in scales[0]))
        ranges = self.dir / "ranges.json"
        done = models.seqto("calibrate", models.DIGITS, *DATA, "-o", ranges)
        self.assertEqual(done.returncode, 0, done.stderr)
        given = self.quantize(plan, *DATA, "--ranges", ranges, model=self.dir / "retrained.onnx")[0]
        self.assertNotEqual(given, anew, "ranges that the user gives go before those of the data")


if __name__ == "__main__":
    unit.main()
