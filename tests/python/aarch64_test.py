"""The wheel for 64-bit ARM under qemu: it writes the bytes that x86 writes, and tunes. Skips where `./dev wheel aarch64` was not run."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(os.environ.get("SEQTO_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BINARY = os.environ.get("SEQTO_BINARY", str(SOURCE / "build/bin/seqto"))
ARM = SOURCE / ".deps/aarch64"
WHEELS = sorted(SOURCE.glob("dist/aarch64/seqto-*.whl"))
PYTHONS = sorted(ARM.glob("python/usr/bin/python3.*[0-9]"))
DIGITS = SOURCE / "examples/digits"
CPUINFO = """processor\t: 0
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd08
CPU revision\t: 3
"""
if not (WHEELS and PYTHONS and shutil.which("qemu-aarch64")):
    print("skipped: no wheel for 64-bit ARM, or no qemu to run it; ./dev wheel aarch64 makes both")
    sys.exit(77)
MODES = {"static": ("--ranges", "ranges.json", "--activation-type", "uint8", "--per-channel"), "operators": ("--ranges", "ranges.json", "--format", "qoperator"),
         "dynamic": ("--mode", "dynamic"), "weights": ("--mode", "weights"), "int4": ("--mode", "weights", "--weight-type", "int4"),
         "float16": ("--mode", "float16")}


class Aarch64(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="seqto-aarch64-")
        cls.addClassCleanup(scratch.cleanup)
        cls.dir = pathlib.Path(scratch.name)
        zipfile.ZipFile(WHEELS[-1]).extractall(cls.dir / "site")
        # What ONNX Runtime reads there is of the machine below; where that is no ARM core, it ends by a signal.
        root = cls.dir / "root"
        (root / "proc").mkdir(parents=True)
        (root / "proc/cpuinfo").write_text(CPUINFO)
        for entry in (ARM / "python").iterdir():
            (root / entry.name).symlink_to(entry)
        # The command, and what workers are started with: this machine's shell starts qemu.
        cls.command = cls.dir / "seqto"
        cls.command.write_text(f"#!/bin/sh\nexec qemu-aarch64 -L '{root}' '{PYTHONS[-1]}' -m seqto \"$@\"\n")
        cls.command.chmod(0o755)

    def run_words(self, *words):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.dir), "LANG": "C.UTF-8", "PYTHONHOME": str(ARM / "python/usr"),
                       "PYTHONPATH": f"{self.dir}/site:{ARM}/packages", "SEQTO_WORKER": str(self.command)}
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=900, cwd=self.dir, env=environment)
        self.assertEqual(done.returncode, 0, f"{words}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_the_same_bytes(self):
        model = DIGITS / "model.onnx"
        self.run_words(BINARY, "calibrate", model, "--data", DIGITS / "digits.npz", "-o", "ranges.json")
        for mode, flags in MODES.items():
            with self.subTest(mode=mode):
                self.run_words(BINARY, "-q", "quantize", model, *flags, "-o", "x86.onnx")
                self.run_words(self.command, "-q", "quantize", model, *flags, "-o", "arm.onnx")
                self.assertEqual((self.dir / "x86.onnx").read_bytes(), (self.dir / "arm.onnx").read_bytes())

    def test_tune(self):
        said = self.run_words(self.command, "tune", DIGITS / "model.onnx", "--data", DIGITS / "digits.npz", "--objectives", "kl,size",
                              "--quick", "--max-evaluations", 12, "--evaluation-samples", 20, "-o", "out")
        self.assertIn("models/selected.onnx", said)
        self.assertTrue((self.dir / "out/models/selected.onnx").exists())
        self.assertTrue((self.dir / "out/report.html").exists())


if __name__ == "__main__":
    unittest.main()
