"""Flags that nothing reads in the mode, plan or form that they were given for: told of, since they would do nothing."""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

DATA = ("--data", models.DIGITS_DATA)
IDLE = "found, where it does nothing"


class IdleFlags(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-idle-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.out = self.dir / "out.onnx"

    def quantize(self, *words):
        return models.seqto("quantize", models.DIGITS, *words, "-o", self.out)

    def refused(self, said, *words):
        done = self.quantize(*words)
        self.assertEqual(done.returncode, 2, (words, done.stderr))
        for text in (IDLE, *said):
            self.assertIn(text, done.stderr)
        self.assertFalse(self.out.exists())

    def taken(self, *words):
        done = self.quantize(*words)
        self.assertEqual(done.returncode, 0, (words, done.stderr))
        content = self.out.read_bytes()
        self.out.unlink()
        return content

    def test_validate_refuses_what_its_comparison_does_not_read(self):
        model = models.DIGITS
        for words, said in ((["--invariance", "--abs-tol", 1], "--abs-tol with --invariance"), (["--invariance", "--worst", 3], "--worst with"),
                            ([model, "--confident"], "--confident without a limit"), ([model, "--pad-to", 4], "--pad-to without --invariance"),
                            (["--runtimes", "cpu", "--pad-to", 4], "--pad-to without --invariance")):
            done = models.seqto("validate", model, *words, *DATA, "--samples", 2)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)

    def test_each_mode_refuses_what_another_reads(self):
        for mode, flags, other in (("static", "--weight-bits 4", "weights with 4 bits"),
                                   ("static", "--weight-block-size 32", "weights"),
                                   ("static", "--int4-format qdq", "weights with 4 bits"),
                                   ("static", "--float16-compute", "float16"),
                                   ("static", "--per-token", "dynamic"),
                                   ("static", "--nnapi-sigmoid", "static in the form qoperator"),
                                   ("static", "--format qoperator --dedicated-qdq-pair", "static in the form qdq"),
                                   ("dynamic", "--activation-type int16", "static"),
                                   ("dynamic", "--calibration-method entropy", "static"),
                                   ("dynamic", "--weight-bits 4", "weights with 4 bits"),
                                   ("dynamic", "--add-qdq-pair-to-weight", "static"),
                                   ("weights", "--activation-type int16", "static"),
                                   ("weights", "--percentile 99", "static"),
                                   ("weights", "--fast-ranges", "static"),
                                   ("weights", "--per-token", "dynamic"),
                                   ("weights", "--format qoperator", "static"),
                                   ("weights", "--int4-format qdq", "weights with 4 bits"),
                                   ("float16", "--weight-type int4", "static, dynamic, weights")):
            with self.subTest(mode=mode, flags=flags):
                words = flags.split()
                flag = words[2 if words[0] == "--format" and len(words) > 2 else 0].replace("--fast", "--exact")
                self.refused([f"{flag} with layers in ", f"choose another mode: {other}\n"], "--mode", mode, *words, *DATA)

    def test_what_a_mode_reads_changes_its_file(self):
        for mode, *flags in (("static", "--symmetric-activations", "--activation-type int8 --weight-type int8"),
                             ("dynamic", "--min-real-range 9", "--weight-type int8"), ("dynamic", "--weight-block-size 16"),
                             ("weights", "--symmetric-weights false"),
                             ("weights", "--weight-bits 4 --accuracy-level 4 --weight-block-size 16"),
                             ("float16", "--float16-compute --float16-block-ops Conv")):
            with self.subTest(mode=mode, flags=flags):
                first, *common = [f.split() for f in flags]
                common = [word for words in common for word in words]
                rest = ["--mode", mode, *common, *(DATA if mode == "static" else ()), "--quick"]
                self.assertNotEqual(self.taken(*rest, *first), self.taken(*rest))

    def test_accuracy_levels_that_no_kernel_has(self):
        for level in (2, 3):
            done = self.quantize("--mode", "weights", "--weight-bits", 4, "--accuracy-level", level)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, "--accuracy-level.*0, ?1.*4")

    def test_eight_bits_are_what_others_have(self):
        self.taken("--mode", "dynamic", "--weight-bits", 8)

    def test_flags_that_need_another(self):
        self.refused(["--smooth-alpha without --smooth-quant"], "--smooth-alpha", "0.3", *DATA)
        self.refused(["--float16-block-ops without --float16-compute"], "--mode", "float16", "--float16-block-ops", "Conv")

    def test_a_device_of_no_kind_where_nothing_runs(self):
        done = self.quantize("--mode", "weights", "--device", "nosuch")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("device 'nosuch' found; cpu, one of", done.stderr)
        self.taken("--mode", "weights", "--device", "cuda")

    def test_a_plan_reads_what_any_of_its_layers_reads(self):
        listed = json.loads(models.seqto("inspect", models.DIGITS, "--json").stdout)["layers"]
        first, second = [layer["name"] for layer in listed if layer["weight_bytes"]][:2]
        plan = self.dir / "plan.json"

        def write(*schemes):
            plan.write_text(json.dumps({"schemes": dict(zip((first, second), schemes))}))

        write("int8_weights", {"scheme": "int8", "smooth_quant": True})
        self.taken("--plan", plan, "--percentile", 99, "--method", "percentile", "--weight-block-size", 16, "--smooth-alpha", "0.3", *DATA)
        self.refused(["--per-token with layers in int8, int8_weights"], "--plan", plan, "--per-token", *DATA)
        write("int8_weights", "float16")
        self.refused(["--percentile with layers in float16, int8_weights"], "--plan", plan, "--percentile", 99, *DATA)
        write("float32")
        self.taken("--plan", plan, "--per-channel")

    def test_a_file_of_flags_may_be_for_several_modes(self):
        file = self.dir / "flags.toml"
        file.write_text("weight-bits = 4\npercentile = 99.9\n")
        self.assertNotEqual(self.taken("--config", file, "--mode", "weights"), self.taken("--mode", "weights"))
        self.taken("--config", file, "--quick", *DATA)
        file.write_text('mode = "weights"\nweight-bits = 4\npercentile = 99.9\n')
        self.refused(["--percentile with layers in int4_weights"], "--config", file)
        self.taken("--config", file, "--mode", "static", "--quick", *DATA)

    def analyze(self, *words):
        done = models.seqto("analyze", models.DIGITS, *DATA, "--samples", 8, *words)
        self.assertEqual(done.returncode, 2, (words, done.stderr))
        return done.stderr

    def test_analyze_without_one_in(self):
        plan = self.dir / "p.json"
        for words in (("--size", "0.3", "--plan-out", plan), ("--plan-out", plan), ("--task", "bogus"), ("--pooling", "mean")):
            self.assertIn(f"{words[0]} without --one-in {IDLE}; give --one-in SCHEMES", self.analyze(*words))
        self.assertFalse(plan.exists())
        self.assertIn("--one-in and --per-channel-detail found", self.analyze("--one-in", "int8_weights", "--per-channel-detail"))

    def test_analyze_of_a_model_that_is_quantized(self):
        self.quantize("--mode", "weights")
        for words in (("--per-channel",), ("--calibration-method", "mse"), ("--exclude", "nothing"), ("--weight-type", "uint8"),
                      ("--ranges", "r.json"), ("--op-types", "Conv"), ("--min-real-range", 1)):
            self.assertIn("with --quantized found, whose model is not quantized here", self.analyze("--quantized", self.out, *words))
        done = models.seqto("analyze", models.DIGITS, *DATA, "--samples", 8, "--quantized", self.out, "--per-channel-detail")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_published_procedure_refuses_what_a_search_reads(self):
        for flag in (("--search-samples", 8), ("--search-evaluations", 9), ("--max-front", 3), ("--no-racing",)):
            done = models.seqto("tune", models.DIGITS, *DATA, "--strategy", "incremental", *flag, "-o", self.dir / "out")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"{flag[0]} with strategy incremental found", done.stderr)


if __name__ == "__main__":
    unittest.main()
