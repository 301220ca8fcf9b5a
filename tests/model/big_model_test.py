"""A model of 3 GB, its weights in an external file: quantized within 1.3 times its size of memory, right on samples, run
by ONNX Runtime; written again above 2 GB; and a writer that is killed. Skipped where disk or memory are short."""

import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

LAYERS, WIDE, NARROW = 6, 16384, 8192  # 6 weights of 512 MB


def short_of():
    free = shutil.disk_usage(tempfile.gettempdir()).free
    memory = int(next(line for line in open("/proc/meminfo") if line.startswith("MemAvailable")).split()[1]) * 1024
    if free < 10e9:
        return f"{free / 1e9:.0f} GB of disk free, 10 needed"
    if memory < 6e9:
        return f"{memory / 1e9:.0f} GB of memory free, 6 needed"
    return None


def write_model(folder):
    """Each weight is one block of 4 MB over and over, scaled by a power of two that differs between the weights."""
    block = np.random.default_rng(0).normal(size=(1 << 20)).astype(np.float32)
    nodes, weights, name = [], [], "x"
    with open(folder / "m.data", "wb") as data:
        for i in range(LAYERS):
            shape = (NARROW, WIDE) if i % 2 == 0 else (WIDE, NARROW)
            piece = (block * np.float32(2.0 ** -(i + 4))).tobytes()
            offset = data.tell()
            for _ in range(shape[0] * shape[1] // block.size):
                data.write(piece)
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=shape,
                                 data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "m.data"), ("offset", offset), ("length", data.tell() - offset)):
                tensor.external_data.add(key=key, value=str(value))
            weights.append(tensor)
            nodes.append(helper.make_node("MatMul", [name, f"w{i}"], [f"y{i}"], name=f"layer{i}"))
            name = f"y{i}"
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, NARROW]) for n in ("x", name)]
    model = helper.make_model(helper.make_graph(nodes, "g", [info[0]], [info[1]], weights),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "m.onnx"))
    return block


def run(*words):
    """Exit code, what was said, and the peak of memory."""
    done = subprocess.run([sys.executable, "-S", str(models.SOURCE / "tests/testing/peak.py"), models.BINARY,
                           *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout, int(done.stdout.split()[-1])


class BigModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-big-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.block = write_model(cls.dir)
        cls.size = (cls.dir / "m.data").stat().st_size

    def test_quantized_and_run(self):
        limits = {"x": 4.0, **{f"y{i}": 60.0 for i in range(LAYERS)}}
        ranges = {"data": {name: {"lowest": -value, "highest": value} for name, value in limits.items()}}
        (self.dir / "r.json").write_text(json.dumps(ranges))
        out = self.dir / "q.onnx"
        code, said, peak = run("quantize", self.dir / "m.onnx", "--ranges", self.dir / "r.json", "--per-channel",
                               "-o", out)
        self.assertEqual(code, 0, said)
        self.assertLess(peak, (10 if models.sanitized() else 1.3) * self.size)
        self.assertLess(out.stat().st_size, 0.26 * self.size)
        model = onnx.load(str(out))
        tensors = {t.name: t for t in model.graph.initializer}
        for i in (0, LAYERS - 1):
            codes, scales = (numpy_helper.to_array(tensors[f"w{i}{end}"]) for end in ("_quantized", "_scale"))
            columns = codes.shape[1]
            rows = self.block.size // columns  # the weight repeats after so many
            block = self.block.reshape(rows, columns) * np.float32(2.0 ** -(i + 4))
            expected = np.abs(block).max(axis=0) / 127
            np.testing.assert_allclose(scales, expected, rtol=1e-6)
            np.testing.assert_array_equal(codes[-rows:], np.clip(np.rint(block / scales), -128, 127).astype(np.int8))
        del tensors, model
        x = np.random.default_rng(1).normal(size=(1, NARROW)).astype(np.float32)
        got = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        self.assertTrue(np.isfinite(got).all())
        y = x
        data = np.memmap(self.dir / "m.data", np.float32, "r").reshape(LAYERS, -1)
        for i in range(LAYERS):
            y = y @ data[i].reshape((NARROW, WIDE) if i % 2 == 0 else (WIDE, NARROW))
        cosine = (got * y).sum() / np.linalg.norm(got) / np.linalg.norm(y)
        self.assertGreater(cosine, 0.9)
        out.unlink()

    def test_written_again_above_2_gb_and_killed(self):
        out = self.dir / "p.onnx"
        code, said, peak = run("prepare", self.dir / "m.onnx", "--skip-optimization", "-o", out)
        self.assertEqual(code, 0, said)
        self.assertLess(peak, (10 if models.sanitized() else 1.3) * self.size)
        written = self.dir / "p.onnx.data"
        ours, original = (np.memmap(f, np.uint8, "r") for f in (written, self.dir / "m.data"))
        self.assertEqual(ours.size, original.size)
        for at in range(0, original.size, 1 << 28):
            np.testing.assert_array_equal(ours[at:at + 4096], original[at:at + 4096])
        del ours, original
        onnx.checker.check_model(str(out))
        stamp = (out.stat().st_mtime_ns, written.stat().st_mtime_ns)

        process = subprocess.Popen([models.BINARY, "prepare", self.dir / "m.onnx", "--skip-optimization", "-o", out],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not list(self.dir.glob("p.onnx*.tmp-*")):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertEqual(process.returncode, -signal.SIGKILL, "it was too fast to be killed")
        self.assertEqual((out.stat().st_mtime_ns, written.stat().st_mtime_ns), stamp)
        onnx.checker.check_model(str(out))
        for left in self.dir.glob("p.onnx*"):
            left.unlink()


if __name__ == "__main__":
    lacking = short_of()
    if lacking:
        print(f"skipped: {lacking}")
        sys.exit(77)
    unittest.main()
