"""The wheels of `./dev wheel` and `./dev wheel abi3`, installed where nothing of the build is known; skips where none was made."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(os.environ.get("SEQTO_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
TAG = "cp312-abi3" if sys.version_info >= (3, 12) else f"cp{sys.version_info[0]}{sys.version_info[1]}"
WHEELS = [(sys.executable, wheel) for wheel in SOURCE.glob(f"dist/seqto-*-{TAG}-*.whl")]
NEWER = SOURCE / ".deps/wheel_abi3/bin/python"  # on a system whose Python is older than 3.12
WHEELS += [(NEWER, wheel) for wheel in SOURCE.glob("dist/abi3/seqto-*.whl") if NEWER.exists()]
if not WHEELS:
    print("skipped: no wheel for this Python in dist; ./dev wheel makes it")
    sys.exit(77)
SYSTEMS_OWN = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}


class Wheel:
    python = wheel = None

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="seqto-wheel-")
        cls.addClassCleanup(scratch.cleanup)
        cls.dir = pathlib.Path(scratch.name)
        cls.run_words(cls.python, "-m", "venv", "--without-pip", cls.dir / "venv")
        cls.bin = cls.dir / "venv/bin"
        site = next((cls.dir / "venv/lib").glob("python*/site-packages"))
        others = cls.run_words(cls.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        (site / "others.pth").write_text(others)
        cls.run_words(cls.bin / "python", "-m", "pip", "-q", "install", "--no-deps", "--no-index", "--ignore-installed", cls.wheel)

    @classmethod
    def run_words(cls, *words):
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8"}
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=300, cwd=cls.dir,
                              env=environment)
        if done.returncode:
            raise AssertionError(f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_small_and_complete(self):
        self.assertLess(self.wheel.stat().st_size, 12 << 20)
        names = zipfile.ZipFile(self.wheel).namelist()
        for wanted in ("seqto/_core.pyi", "seqto/py.typed", "seqto/licences/onnx", "seqto/licences/libprotobuf-dev"):
            self.assertIn(wanted, names)

    def test_needs_the_system_alone(self):
        core = next((self.dir / "venv/lib").glob("python*/site-packages/seqto/_core*.so"))
        needed = re.findall(r"NEEDED.*\[(.*)\]", self.run_words("readelf", "-d", core))
        self.assertLessEqual(set(needed), SYSTEMS_OWN)
        self.assertNotIn(str(SOURCE), subprocess.run(["strings", core], capture_output=True, text=True).stdout)

    def test_tune_by_command_and_by_package(self):
        digits = SOURCE / "examples/digits"
        limits = ("--strategy", "incremental", "--max-evaluations", 3, "--evaluation-samples", 20)
        self.run_words(self.bin / "seqto", "-q", "tune", digits / "model.onnx", "--data", digits / "digits.npz", *limits,
                       "-o", "command")
        script = f"""
import numpy, seqto
x = numpy.load({str(digits / 'digits.npz')!r})['x']
study = seqto.tune({str(digits / 'model.onnx')!r}, x, 'package', strategy='incremental', max_evaluations=3, evaluation_samples=20)
print(study.summary['evaluations'])
"""
        self.assertEqual(self.run_words(self.bin / "python", "-c", script), "3\n")


for number, (python, wheel) in enumerate(WHEELS):
    globals()[f"Wheel{number}"] = type(f"Wheel{number}", (Wheel, unittest.TestCase), {"python": python, "wheel": wheel})


if __name__ == "__main__":
    unittest.main()
