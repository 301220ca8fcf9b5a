"""docs/guide/from_other_tools.md: what the right column says to type works, and the left one of onnxruntime names what it has."""

import inspect
import json
import os
import pathlib
import re
import shlex
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

if models.built_with("SEQTO_ONNXRUNTIME:BOOL=OFF") or models.sanitized():
    print("skipped: the commands need the runtime, and under a sanitizer they take too long")
    sys.exit(77)
PAGE = models.SOURCE / "docs/guide/from_other_tools.md"
SPAN = re.compile(r"`([^`]+)`")
WORDS = {"analyze", "prepare", "quantize", "report", "tune"}
PUBLISHED = {"run_type": "onnx", "onnx_hub": {"activate": False}, "local_models": "models",
             "onnx": {"threshold": 2, "preprocess_model": False, "quantize_static": True},
             "images": {"images_folder_rel_path": "/data", "calibration_images_rel_path": "/data",
                        "small_calibr_images_folder_rel_path": "/data", "random_enabled": False, "chunk": 2},
             "options": {"preprocessing_setting": "imagenet", "nodes_to_exclude": [], "skipped_nodes": []},
             "visualizer": {"active_labels": [True, True, False]}}
OVERRIDES = {"x": [{"quant_type": "QUInt8", "scale": 0.02, "zero_point": 3}]}


def tables():
    """(word that flags alone belong to, [(left, right)])"""
    for table in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.M):
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()]
        yield SPAN.findall(rows[0][1])[0].removeprefix("seqto "), rows[2:]


class Lines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-lines-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        for name, value in (("CONFIG", PUBLISHED), ("OVERRIDES", OVERRIDES),
                            ("SCOPE", {"ignored_scope": {"names": ["stem"]}})):
            (cls.dir / name).write_text(json.dumps(value))
        done = models.seqto("calibrate", models.DIGITS, "--data", models.DIGITS_DATA, "-o", cls.dir / "RANGES")
        assert done.returncode == 0, done.stderr

    def command(self, span, word):
        words = shlex.split(span)
        if words[0] not in WORDS:
            words.insert(0, word)
        known = {"DATA": models.DIGITS_DATA, "NODE": "stem"}
        words = [str(known.get(w, self.dir / w if w.isupper() else w)) for w in words]
        if words[0] == "report" or "--config" in words:
            return words
        words.insert(1, str(models.DIGITS))
        if words[0] != "prepare" and "--data" not in words and "weights" not in words:
            words += ["--data", str(models.DIGITS_DATA)]
        if "-o" not in words and words[0] != "analyze":
            words += ["-o", tempfile.mkdtemp(dir=self.dir) + "/out"]
        if words[0] == "tune":
            words += ["--quick", "--samples", "60"]
            for flag, value in (("--max-evaluations", "4"), ("--objectives", "kl,size")):
                words += [flag, value] if flag not in words else []
        return words

    def test_each_one_works(self):
        ran = 0
        for word, rows in tables():
            for _, right in rows:
                for span in SPAN.findall(right):
                    if not span.startswith("--") and span.split()[0] not in WORDS:
                        continue
                    if "CONFIG" in span or "RESULT" in span:
                        continue  # tests/cli/published_test.py
                    words = self.command(span, word)
                    with self.subTest(line=span):
                        done = models.seqto("-q", *words)
                        self.assertEqual(done.returncode, 0, f"{words}\n{done.stderr}")
                        ran += 1
        self.assertGreater(ran, 40)

    def test_onnxruntimes_names(self):
        from onnxruntime import quantization
        from onnxruntime.quantization import matmul_nbits_quantizer
        known = {**vars(quantization), **vars(matmul_nbits_quantizer)}
        parameters = set(inspect.signature(quantization.quantize_static).parameters)
        _, rows = next(tables())
        for left, _ in rows:
            for span in SPAN.findall(left):
                with self.subTest(name=span):
                    name, given, value = span.partition("=")
                    if not given or "(" in name:
                        self.assertTrue({name.partition("(")[0]} & ({*known, *parameters, "QOperator", "Percentile"}))
                    else:
                        self.assertIn(name, parameters)
                        eval(value, known)


if __name__ == "__main__":
    unittest.main()
