"""An NVIDIA GPU: models compiled by TVM, here and behind a server, and ONNX Runtime's providers of SEQTO_GPU_LIBRARIES
(as "cuda=/path/libonnxruntime.so.1.31.1,webgpu=..."). Outputs are held against those of ONNX Runtime on the CPU."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, tvm, unit  # noqa: E402

import numpy as np  # noqa: E402


def has_gpu():
    try:
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False).stdout.startswith(b"GPU")
    except OSError:
        return False


if not has_gpu():
    print("skipped: no NVIDIA GPU here (nvidia-smi)")
    sys.exit(77)

TARGET = "cuda -arch=sm_80"  # an older one than that of the machine: kernels are compiled where they run
LIBRARIES = dict(pair.split("=", 1) for pair in os.environ.get("SEQTO_GPU_LIBRARIES", "").split(",") if pair)


class OnGpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-gpu-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.env = {"XDG_CACHE_HOME": str(cls.dir / "cache")}
        cls.data = cls.dir / "digits.npz"
        full = np.load(models.DIGITS_DATA)
        np.savez(cls.data, **{name: full[name][:8] for name in full.files})
        cls.models = {"float": models.DIGITS, "int8": cls.dir / "int8.onnx"}
        cls.good("quantize", models.DIGITS, "-o", cls.models["int8"], "--data", models.DIGITS_DATA, "--per-channel",
                 "--symmetric-activations")

    @classmethod
    def good(cls, *words, env=None):
        done = models.seqto(*words, env={**cls.env, **(env or {})})
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done

    def outputs(self, form, device, env=None):
        out = self.dir / "out.npz"
        out.unlink(missing_ok=True)
        self.good("run", self.models[form], "--data", self.data, "--device", device, "-o", out, "-q", env=env)
        return dict(np.load(out))

    def close(self, form, device, env=None):
        """A float convolution rounds elsewhere than an integer one: a step of the last layer here and there."""
        for name, expected in self.outputs(form, "cpu").items():
            found = self.outputs(form, device, env)[name]
            part = 0.03 if form == "int8" else 2e-3  # of the range; kernels of GPUs may round products to 11 bits
            self.assertLessEqual(np.abs(found - expected).max(), part * np.ptp(expected), (form, device))
            self.assertGreater(np.abs(found).max(), 0)

    def tuned(self, name, *devices, env=None):
        flags = [word for device in devices for word in ("--device", device)]
        self.good("tune", models.DIGITS, "--data", models.DIGITS_DATA, "--calibration-samples", 32,
                  "--evaluation-samples", 40, "--max-evaluations", 6, "-o", self.dir / name, *flags, env=env)
        lines = [json.loads(line) for line in (self.dir / name / "study.jsonl").read_text().splitlines()]
        return [line["trial"] for line in lines if "trial" in line]


class Tvm(OnGpu):
    @classmethod
    def setUpClass(cls):
        if not tvm.WORKER.exists():
            raise unittest.SkipTest("built without TVM (SEQTO_TVM)")
        super().setUpClass()

    def test_outputs(self):
        for form in self.models:
            with self.subTest(form=form):
                self.close(form, f"tvm:{TARGET}")

    def test_behind_our_server(self):
        server = tvm.serve()
        self.addCleanup(server.stop)
        for form in self.models:
            with self.subTest(form=form):
                self.close(form, f"tvm+rpc:127.0.0.1:{server.port}:k:{TARGET}")

    def test_tune(self):
        trials = self.tuned("tvm", f"tvm:{TARGET}")
        good = [trial for trial in trials if trial["outcome"] == "ok"]  # TVM does not take every scheme
        self.assertEqual([trial["id"] for trial in good[:3]], [trial["id"] for trial in trials[:3]])
        self.assertTrue(all(trial["latency_ns"]["median"] > 0 for trial in good))


@unittest.skipUnless(LIBRARIES, "SEQTO_GPU_LIBRARIES names no ONNX Runtime with a provider for GPUs")
class Providers(OnGpu):
    def test_outputs(self):
        for device, library in LIBRARIES.items():
            for form in self.models:
                with self.subTest(device=device, form=form):
                    self.close(form, device, {"SEQTO_ORT_LIBRARY": library})

    def test_tune_beside_the_cpu(self):
        for device, library in LIBRARIES.items():
            with self.subTest(device=device):
                trials = self.tuned(device, "cpu", device, env={"SEQTO_ORT_LIBRARY": library})
                self.assertEqual([trial["elsewhere"][device]["outcome"] for trial in trials], ["ok"] * len(trials))
                summary = json.loads((self.dir / device / "summary.json").read_text())
                self.assertNotEqual(list(summary["elsewhere"][device]["placement"]), ["CPUExecutionProvider"])


if __name__ == "__main__":
    unit.main()
