"""What `cmake --install` leaves: it runs from any folder, with the ONNX Runtime that it brings along."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

SOURCE = pathlib.Path(os.environ["SEQTO_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["SEQTO_BUILD_DIR"])
# What a user has who never heard of the build.
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8"}


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300,
                          env=ENVIRONMENT, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        run("cmake", "--install", BUILD, "--prefix", cls.dir / "first")
        cls.root = cls.dir / "elsewhere" / "tree"
        cls.root.parent.mkdir()
        (cls.dir / "first").rename(cls.root)
        cls.seqto = cls.root / "bin/seqto"

    def test_tune_after_a_move(self):
        out = self.dir / "out"
        self.assertRegex(run(self.seqto, "--version"), r"^seqto \d+\.\d+\.\d+\n$")
        sample = self.root / "share/seqto/digits"
        run(self.seqto, "-q", "tune", sample / "model.onnx", "--data", sample / "digits.npz", "--max-evaluations", 4,
            "--strategy", "incremental", "--evaluation-samples", 20, "-o", out)
        self.assertEqual(json.loads((out / "summary.json").read_text())["evaluations"], 4)

    def test_brings_its_own_runtime(self):
        sample = self.root / "share/seqto/digits"
        done = subprocess.run([self.seqto, "run", sample / "model.onnx", "--data", sample / "digits.npz", "--samples", "1",
                               "-o", self.dir / "y.npz"],
                              capture_output=True, text=True, timeout=60, env={**ENVIRONMENT, "LD_DEBUG": "files"})
        self.assertEqual(done.returncode, 0, done.stderr)
        loaded = set(re.findall(r"calling init: (\S*libonnxruntime\.so\S*)", done.stderr))
        self.assertEqual(loaded, {str(path) for path in (self.root / "lib/seqto").glob("libonnxruntime.so*")})

    def test_examples(self):
        build, sample = self.dir / "examples", self.root / "share/seqto/digits"
        model, data = sample / "model.onnx", sample / "digits.npz"
        run("cmake", "-G", "Ninja", "-S", SOURCE / "examples/library", "-B", build, f"-DCMAKE_PREFIX_PATH={self.root}")
        run("cmake", "--build", build, "-j", "2")
        said = run(build / "quantize_by_plan", model, data, self.dir / "q.onnx")
        self.assertIn("23 layers in int8", said)
        self.assertIn("same first class for", run(build / "parity_test", model, self.dir / "q.onnx", data))
        said = run(build / "choose_by_own_metric", model, data, self.dir / "tuned", "0.5")
        self.assertRegex(said, r"\nchosen: .*/models/[0-9a-f]{16}\.onnx\n$")
        # The finished study is read, not made again; no point can gain confidence on every sample.
        done = subprocess.run([build / "choose_by_own_metric", model, data, self.dir / "tuned", "-1"],
                              capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
        self.assertEqual(done.returncode, 5, done.stderr)

    def test_a_newer_version_is_not_found(self):
        project = self.dir / "newer"
        project.mkdir()
        (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\nproject(newer LANGUAGES CXX)\n"
                                                "find_package(seqto 99 REQUIRED)\n")
        done = subprocess.run(["cmake", "-G", "Ninja", "-S", project, "-B", project / "build",
                               f"-DCMAKE_PREFIX_PATH={self.root}"],
                              capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("requested version", done.stderr)

    def test_nothing_private_is_shown(self):
        text = "".join(path.read_text() for path in (self.root / "lib/cmake/seqto").iterdir())
        self.assertNotIn(str(SOURCE), text)
        self.assertNotIn(str(BUILD), text)
        headers = {path.name for path in (self.root / "include/seqto").iterdir()}
        self.assertEqual(headers, {path.name for path in (SOURCE / "include/seqto").glob("*.h")})


if __name__ == "__main__":
    if models.sanitized() or not models.built_with("SEQTO_ONNXRUNTIME:BOOL=ON"):
        print("skipped: this build is not one to install")
        sys.exit(77)
    if not (BUILD / "lib/libseqto.so").exists():
        print("skipped: libseqto.so is not built here")
        sys.exit(77)
    unittest.main()
