"""What every word prints under --json, against docs/reference/schemas: a key more, less or of another type fails."""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.hub_server import Hub  # noqa: E402

try:
    import jsonschema
    import referencing
except ImportError:
    print("skipped: jsonschema is missing (tools/setup.sh test)")
    sys.exit(77)
if models.built_with("SEQTO_ONNXRUNTIME:BOOL=OFF"):
    print("skipped: most words need the runtime")
    sys.exit(77)

FOLDER = models.SOURCE / "docs/reference/schemas"
SCHEMAS = {path.name.split(".")[0]: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.iterdir()}
REGISTRY = referencing.Registry().with_resources(
    (f"{name}.schema.json", referencing.Resource.from_contents(schema)) for name, schema in SCHEMAS.items())
DATA = ("--data", models.DIGITS_DATA)
TRIED = set()


class Schemas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-schemas-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.int8 = cls.dir / "int8.onnx"
        cls.study = cls.dir / "study"
        cls.made = cls.printed("quantize", models.DIGITS, *DATA, "-o", cls.int8, "--explain")
        cls.tuned = cls.printed("tune", models.DIGITS, *DATA, "-o", cls.study, "--objectives", "kl,size",
                                "--max-evaluations", 12, "--no-improve", "--max-size", "90kB")

    @classmethod
    def printed(cls, *words, code=0, env=None):
        done = models.seqto("-q", "--json", *words, env=env)
        if done.returncode != code:
            raise AssertionError(f"{words} ended with {done.returncode}:\n{done.stderr}")
        return json.loads(done.stdout)

    def check(self, name, value):
        TRIED.add(name)
        jsonschema.Draft202012Validator(SCHEMAS[name], registry=REGISTRY).validate(value)

    def test_schemas_are_strict(self):
        """Whatever is called an object says which keys it has, or what all of its values are; options are their reader's."""
        def walk(value, path):
            if isinstance(value, list):
                for i, entry in enumerate(value):
                    walk(entry, f"{path}/{i}")
            elif isinstance(value, dict):
                fields = "scheme" in value.get("properties", ()) and "op_type" not in value["properties"]  # those of a scheme are its own
                if value.get("type") == "object" and not fields and not path.endswith(("/options", "/environment")):
                    self.assertIn("additionalProperties", value, path)
                for key, entry in value.items():
                    walk(entry, f"{path}/{key}")

        for name, schema in SCHEMAS.items():
            jsonschema.Draft202012Validator.check_schema(schema)
            walk(schema, name)

    def test_another_key_is_found(self):
        for change in (lambda s: s.update(more=1), lambda s: s.pop("answer"), lambda s: s["front"][0].update(id=1),
                       lambda s: s["front"][0]["losses"].update(kl="0")):
            changed = json.loads(json.dumps(self.tuned))
            change(changed)
            with self.assertRaises(jsonschema.ValidationError):
                self.check("summary", changed)

    def test_models(self):
        self.check("inspect", self.printed("inspect", models.DIGITS))
        self.check("inspect", self.printed("inspect", self.int8))
        self.check("prepare", self.printed("prepare", models.DIGITS, "-o", self.dir / "prepared.onnx"))
        self.check("calibrate", self.printed("calibrate", models.DIGITS, *DATA, "-o", self.dir / "ranges.json"))
        self.check("quantize", self.made)
        self.check("quantize", self.printed("quantize", models.DIGITS, "--mode", "weights", "-o", self.dir / "w.onnx"))
        self.check("analyze", self.printed("analyze", models.DIGITS, *DATA, "--samples", 20))
        self.check("lint", self.printed("lint", self.int8))
        self.check("one_in", self.printed("analyze", models.DIGITS, *DATA, "--samples", 20, "--one-in", "int8,int8_weights"))
        self.check("run", self.printed("run", models.DIGITS, *DATA, "-o", self.dir / "outputs.npz"))
        self.check("run", self.printed("run", models.DIGITS, *DATA, "-o", self.dir / "outputs.npz", "--metric", "accuracy"))

    def test_comparisons_of_models(self):
        pair = (models.DIGITS, self.int8)
        self.check("validate", self.printed("validate", *pair, *DATA, code=5))
        self.check("invariance", self.printed("validate", models.DIGITS, "--invariance", *DATA, "--samples", 20))
        self.check("validate", self.printed("validate", *pair, *DATA, "--abs-tol", 9, "--mean-tol", 9, "--metric", "accuracy"))
        self.check("runtimes", self.printed("validate", *pair, *DATA, "--runtimes", "cpu:unoptimized", "--samples", 20, code=5))
        self.check("bench", self.printed("bench", *pair, "--launches", 1, "--rounds", 2))
        self.check("audit", self.printed("audit", self.int8, *DATA, "--samples", 20))
        self.check("audit_float16", self.printed("audit", models.DIGITS, *DATA, "--samples", 4, "--float16"))
        self.check("check", self.printed("check", self.int8, "--reference", models.DIGITS, *DATA, "--max-loss", 0.1))
        self.check("check", self.printed("check", self.int8, "--max-size", "1kB", code=5))

    def test_studies(self):
        self.check("summary", self.tuned)
        self.check("summary", json.loads((self.study / "summary.json").read_text(encoding="utf-8")))
        self.check("check", self.printed("check", self.study, "--max-loss", 0.1))
        other = self.dir / "other"
        self.check("summary", self.printed("tune", models.DIGITS, *DATA, "-o", other, "--strategy", "incremental",
                                           "--max-evaluations", 3))
        self.check("comparison", self.printed("report", self.study, other, "-o", self.dir / "comparison"))
        several = self.dir / "models"
        several.mkdir()
        shutil.copy(models.DIGITS, several / "good.onnx")
        (several / "bad.onnx").write_bytes(b"no model")
        self.check("overview", self.printed("tune", several, *DATA, "-o", self.dir / "all", "--strategy", "incremental",
                                            "--max-evaluations", 2, code=3))

    def test_lines_of_ask_and_eval(self):
        begun = self.dir / "begun"
        models.seqto("-q", "tune", models.DIGITS, *DATA, "-o", begun, "--objectives", "kl,size", "--no-improve", "--begin")
        proposals = models.seqto("-q", "ask", begun).stdout.splitlines()
        self.assertGreater(len(proposals), 0)
        for line in proposals:
            self.check("proposal", json.loads(line))
        (self.dir / "proposal").write_text(proposals[0], encoding="utf-8")
        self.check("result", json.loads(models.seqto("-q", "eval", begun, self.dir / "proposal").stdout))
        for line in (self.study / "study.jsonl").read_text(encoding="utf-8").splitlines():
            line = json.loads(line)
            if "trial" in line:
                self.check("result", {"number": line["trial"]["number"], "trial": line["trial"]})

    def test_hub(self):
        hub = Hub()
        self.addCleanup(hub.close)
        hub.add("Net", b"model", 12, tags=["vision"])
        env = {"SEQTO_HUB_URL": hub.url, "SEQTO_HUB_CACHE": str(self.dir / "cache"), "SEQTO_HUB_MANIFEST": "", "no_proxy": "*"}
        for words in (("list",), ("fetch", "Net"), ("verify",)):
            found = self.printed("hub", *words, env=env)
            self.assertEqual(len(found), 1)
            self.check("hub", found)

    def test_z_each_schema_was_held_against_something(self):
        self.assertEqual(TRIED, set(SCHEMAS))


if __name__ == "__main__":
    unittest.main()
