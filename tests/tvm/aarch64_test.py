"""The server for another processor: seqto-tvm, cross-compiled, under qemu, runs what is compiled for it here."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, tvm  # noqa: E402

tvm.skip_without_tvm()
WHEELS = models.SOURCE / ".deps/tvm_aarch64"
COMPILER = "aarch64-linux-gnu-g++"
missing = [tool for tool in (COMPILER, "qemu-aarch64", "cmake") if not shutil.which(tool)]
if missing or not WHEELS.exists():
    print(f"skipped: {', '.join(missing) or WHEELS} is missing (tools/setup.sh aarch64)")
    sys.exit(77)
import numpy as np  # noqa: E402


class Aarch64(unittest.TestCase):
    def test_cross_compiled(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="seqto-aarch64-"))
        self.addCleanup(shutil.rmtree, folder)
        build = folder / "build"
        for step in (["-S", models.SOURCE / "tvm", "-B", build, "-G", "Ninja", "-DCMAKE_SYSTEM_NAME=Linux",
                      "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={COMPILER}",
                      f"-DSEQTO_TVM_WHEELS={WHEELS}"], ["--build", build]):
            done = subprocess.run(["cmake", *map(str, step)], capture_output=True, text=True, timeout=900)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        server = tvm.Program(["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", build / "seqto-tvm", "serve", "--port",
                              "0", "--key", "arm"], r"listening on \S+:(\d+)")
        self.addCleanup(server.stop)
        data = folder / "digits.npz"
        full = np.load(models.DIGITS_DATA)
        np.savez(data, **{name: full[name][:4] for name in full.files})
        quantized = folder / "quantized.onnx"
        done = models.seqto("quantize", models.DIGITS, "-o", quantized, "--data", data)
        self.assertEqual(done.returncode, 0, done.stderr)
        for model in (models.DIGITS, quantized):
            arrays = []
            for device in ("cpu", f"tvm+rpc:127.0.0.1:{server.match[1]}:arm:llvm -mtriple=aarch64-linux-gnu"):
                out = folder / "out.npz"
                done = models.seqto("run", model, "--data", data, "--device", device, "-o", out, "-q",
                                    env={"XDG_CACHE_HOME": str(folder / "cache")})
                self.assertEqual(done.returncode, 0, done.stderr)
                arrays.append(np.load(out)["logits"])
            span = arrays[0].max() - arrays[0].min()
            self.assertLessEqual(np.abs(arrays[0] - arrays[1]).max(), (1e-5 if model is models.DIGITS else 0.03) * span)


if __name__ == "__main__":
    unittest.main()
