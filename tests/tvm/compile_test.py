"""Models compiled and run by TVM on this machine: what comes out, what is refused, and compilers that misbehave."""

import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, tvm  # noqa: E402

tvm.skip_without_tvm()
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import helper  # noqa: E402


class Compile(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-tvm-test-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.env = {"XDG_CACHE_HOME": str(self.dir / "cache")}

    def run_on(self, device, model, data, *more, env=None):
        out = self.dir / f"{abs(hash((device, str(model))))}.npz"
        out.unlink(missing_ok=True)
        done = models.seqto("run", model, "--data", data, "--device", device, "-o", out, "-q", *more,
                            env={**self.env, **(env or {})})
        return done, (dict(np.load(out)) if out.exists() else {})

    def outputs(self, device, model, data, *more, **options):
        done, arrays = self.run_on(device, model, data, *more, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return arrays

    def compiled(self):
        return sorted(p for p in (self.dir / "cache/seqto/tvm").iterdir() if ".tmp-" not in p.name)

    def digits_data(self, samples=8):
        """A few samples: the first ones of the example's data."""
        path = self.dir / "digits.npz"
        full = np.load(models.DIGITS_DATA)
        np.savez(path, **{name: full[name][:samples] for name in full.files})
        return path

    def quantized(self, model, data, *flags):
        out = self.dir / f"quantized{len(list(self.dir.glob('quantized*')))}.onnx"
        done = models.seqto("quantize", model, "-o", out, "--data", data, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out

    def close_to_onnxruntime(self, model, data, steps=0.0):
        """`steps`: how far apart quantized outputs may be, as part of the range of each output."""
        expected = self.outputs("cpu", model, data)
        found = self.outputs("tvm:llvm", model, data)
        self.assertEqual(expected.keys(), found.keys())
        for name, values in expected.items():
            self.assertEqual(values.shape, found[name].shape)
            limit = 1e-4 * max(1.0, np.abs(values).max()) + steps * (values.max() - values.min())
            self.assertLessEqual(np.abs(values - found[name]).max(), limit, name)

    def test_float(self):
        self.close_to_onnxruntime(models.DIGITS, self.digits_data())
        conv = models.conv(self.dir / "conv.onnx", before=("Relu", "Sigmoid"))
        self.close_to_onnxruntime(conv, models.arrays(self.dir / "x.npz", samples=4))

    def test_quantized(self):
        data = self.digits_data()
        for flags in ((), ("--per-channel",), ("--activation-type", "uint8")):
            with self.subTest(flags=flags):
                # A float convolution rounds elsewhere than an integer one: a step of the last layer here and there.
                self.close_to_onnxruntime(self.quantized(models.DIGITS, data, *flags), data, steps=0.03)

    def test_several_outputs_and_an_open_first_dimension(self):
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="matmul"),
                 helper.make_node("ReduceSum", ["y"], ["s"], name="sum", keepdims=0)]
        model = models.save(self.dir / "two.onnx", nodes, [("x", ["n", 6])], [("y", ["n", 3]), ("s", [])],
                            [("w", models.weight(6, 3))])
        self.close_to_onnxruntime(model, models.arrays(self.dir / "x.npz", samples=3, shape=(6,)))

    def test_compiled_once(self):
        data = self.digits_data()
        self.outputs("tvm:llvm", models.DIGITS, data)
        first = self.compiled()
        self.assertEqual(len(first), 1)
        before = (first[0] / "model.so").stat().st_mtime_ns
        self.outputs("tvm:llvm", models.DIGITS, data)
        self.assertEqual(self.compiled(), first)
        self.assertEqual((first[0] / "model.so").stat().st_mtime_ns, before)
        self.assertEqual(list((self.dir / "cache/seqto/tvm").glob("*.tmp-*")), [])

    def test_refused_before_compiling(self):
        data = self.digits_data()
        linear = self.quantized(models.DIGITS, data, "--format", "qoperator")
        foreign = models.save(self.dir / "foreign.onnx",
                              [helper.make_node("Gelu", ["x"], ["y"], name="activation", domain="com.microsoft")],
                              [("x", [1, 4])], [("y", [1, 4])])
        model = onnx.load(foreign)
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        onnx.save(model, foreign)
        open_shape = models.save(self.dir / "open.onnx", [helper.make_node("Relu", ["x"], ["y"], name="relu")],
                                 [("x", [1, "width"])], [("y", [1, "width"])])
        four = models.arrays(self.dir / "four.npz", samples=2, shape=(4,))
        for model, arrays, words in ((linear, data, ("QLinear", "QDQ", "layer")),
                                     (foreign, four, ("com.microsoft.Gelu", "activation")),
                                     (open_shape, four, ("shape", "'x'", "fixed"))):
            with self.subTest(model=model.name):
                done, _ = self.run_on("tvm:llvm", model, arrays)
                self.assertEqual(done.returncode, 3, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)
        self.assertFalse((self.dir / "cache/seqto/tvm").exists())

    def test_bad_targets(self):
        data = self.digits_data()
        for device in ("tvm:", "tvm:llvm mtriple", "tvm+rpc:localhost", "tvm+rpc:localhost:1:k", "tvm+what:llvm"):
            with self.subTest(device=device):
                done, _ = self.run_on(device, models.DIGITS, data)
                self.assertEqual(done.returncode, 2, done.stderr)
        done, _ = self.run_on("tvm:cuda", models.DIGITS, data)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("--plugin", done.stderr)

    def fake_python(self, text):
        """Stands for a Python with TVM: tells a version, and does `text` in place of compiling."""
        path = self.dir / "python"
        path.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then printf 0.27.0; exit; fi\n{text}\n')
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        return {"SEQTO_TVM_PYTHON": str(path)}

    def test_compiler_that_crashes(self):
        # TVM's own does for this target, off macOS; the device is not asked for before there is something to run.
        done, _ = self.run_on("tvm+rpc:127.0.0.1:1:k:metal", models.DIGITS, self.digits_data())
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("signal 11", done.stderr)

    def test_compiler_that_is_killed(self):
        done, _ = self.run_on("tvm:llvm", models.DIGITS, self.digits_data(), env=self.fake_python("kill -SEGV $$"))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("signal 11", done.stderr)
        self.assertEqual(list((self.dir / "cache/seqto/tvm").iterdir()), [])

    def test_compiler_that_hangs(self):
        start = time.monotonic()
        done, _ = self.run_on("tvm:llvm", models.DIGITS, self.digits_data(), "--compile-timeout", "1",
                              env=self.fake_python("sleep 1000 & wait"))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("--compile-timeout", done.stderr)
        self.assertLess(time.monotonic() - start, 500)

    def test_compiler_that_refuses(self):
        odd = models.save(self.dir / "odd.onnx", [helper.make_node("Det", ["x"], ["y"], name="determinant")],
                          [("x", [1, 3, 3])], [("y", [1])])
        done, _ = self.run_on("tvm:llvm", odd, models.arrays(self.dir / "x.npz", samples=2, shape=(3, 3)))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("Det", done.stderr)

    def test_no_python(self):
        done, _ = self.run_on("tvm:llvm", models.DIGITS, self.digits_data(), env={"SEQTO_TVM_PYTHON": "/nowhere"})
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("tools/setup.sh tvm", done.stderr)

    def test_code_for_other_devices(self):
        """Only compiled: there is no such device here."""
        script = models.SOURCE / "src/runner/tvm_compile.py"
        targets = {"cuda": '{"kind":"cuda","arch":"sm_86","host":{"kind":"llvm"}}',
                   "opencl": '{"kind":"opencl","host":{"kind":"llvm"}}'}
        if any(shutil.which(linker) for linker in ("ld.lld", "ld.lld-14", "aarch64-linux-gnu-ld")):
            targets["mali"] = ('{"kind":"opencl","device":"mali",'
                               '"host":{"kind":"llvm","mtriple":"aarch64-linux-android"}}')
        if shutil.which("aarch64-linux-gnu-g++"):
            targets["aarch64"] = '{"kind":"llvm","mtriple":"aarch64-linux-gnu"}'
        for name, target in targets.items():
            with self.subTest(target=name):
                folder = self.dir / name
                folder.mkdir()
                done = subprocess.run([tvm.PYTHON, "-B", script, models.DIGITS, folder, target], capture_output=True,
                                      text=True, timeout=300, env={**os.environ, **self.env})
                self.assertEqual(done.returncode, 0, done.stderr)
                library = (folder / "model.so").read_bytes()
                self.assertEqual(library[:4], b"\x7fELF")
                machine = int.from_bytes(library[18:20], "little")
                self.assertEqual(machine, 183 if name in ("mali", "aarch64") else machine)


if __name__ == "__main__":
    unittest.main()
