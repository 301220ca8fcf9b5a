"""One study on two devices, with OpenVINO's provider as the second: the same candidates on both, a front for each, what
the first device tells unchanged by the second; a provider that is missing or does not start is an error."""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import unit  # noqa: E402
from testing.models import DIGITS, DIGITS_DATA, openvino_libraries, seqto  # noqa: E402

LIBRARIES = openvino_libraries()
WORDS = ["--data", DIGITS_DATA, "--calibration-samples", 32, "--evaluation-samples", 40, "--max-evaluations", 8,
         "--strategy", "incremental"]


def tune(folder, *devices, **options):
    flags = [word for device in devices for word in ("--device", device)]
    return seqto("tune", DIGITS, *WORDS, *flags, "-o", folder, **options)


def trials(folder):
    lines = [json.loads(line) for line in (folder / "study.jsonl").read_text().splitlines()]
    return [line["trial"] for line in lines if "trial" in line]


class Missing(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def test_what_is_not_there_says_what_is_needed(self):
        reply = tune(self.folder / "a", "tensorrt")
        self.assertEqual(reply.returncode, 4)
        self.assertIn("onnxruntime-gpu", reply.stderr)
        self.assertIn("CPUExecutionProvider", reply.stderr)
        reply = tune(self.folder / "b", "toaster")
        self.assertEqual(reply.returncode, 4)
        self.assertIn("--device list", reply.stderr)
        self.assertEqual(tune(self.folder / "c", "cpu", "cpu").returncode, 2)
        self.assertFalse((self.folder / "a/study.jsonl").exists())

    def test_the_list_names_every_device(self):
        reply = seqto("tune", "--device", "list")
        self.assertEqual(reply.returncode, 0)
        rows = {line.split()[0]: line.split()[1] for line in reply.stdout.splitlines()}
        self.assertEqual(rows["cpu"], "there")
        for device in ("cuda", "tensorrt", "openvino", "webgpu", "xnnpack", "coreml", "ssh:HOST", "adb:SERIAL"):
            self.assertIn(rows[device], ("there", "missing"))
        self.assertIn("onnxruntime-openvino", reply.stdout)


@unittest.skipUnless(LIBRARIES, "no onnxruntime-openvino in .deps/openvino; `tools/setup.sh test` brings it")
class TwoDevices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.env = {"SEQTO_ORT_LIBRARY": str(LIBRARIES[0])}
        cls.reply = tune(cls.folder / "both", "cpu", "openvino", env=cls.env)
        assert cls.reply.returncode == 0, cls.reply.stderr
        cls.summary = json.loads((cls.folder / "both/summary.json").read_text())

    def test_every_candidate_is_measured_on_both(self):
        found = trials(self.folder / "both")
        self.assertEqual(len(found), 8)
        for trial in found:
            self.assertEqual(list(trial["elsewhere"]), ["openvino"])
            there = trial["elsewhere"]["openvino"]
            self.assertEqual(there["outcome"], "ok")
            self.assertGreater(there["latency_ns"]["median"], 0)
            self.assertEqual(there["size_bytes"], trial["size_bytes"])
        self.assertEqual(found[0]["elsewhere"]["openvino"]["losses"]["kl"], 0)  # float against itself
        self.assertGreater(found[1]["elsewhere"]["openvino"]["losses"]["kl"], 0)

    def test_the_first_device_tells_what_it_tells_alone(self):
        reply = tune(self.folder / "alone", "cpu", env=self.env)
        self.assertEqual(reply.returncode, 0, reply.stderr)
        figures = lambda folder: [(t["id"], t["size_bytes"], t["losses"]) for t in trials(folder)]
        self.assertEqual(figures(self.folder / "alone"), figures(self.folder / "both"))

    def test_each_device_has_its_front_and_its_files(self):
        there = self.summary["elsewhere"]["openvino"]
        self.assertEqual(self.summary["device"], "cpu")
        for front in (self.summary, there):
            self.assertTrue(front["front"])
            for point in front["front"]:
                self.assertTrue((self.folder / "both" / point["file"]).is_file())
                self.assertTrue((self.folder / "both" / point["plan"]).is_file())
        self.assertIn("on openvino:", self.reply.stdout)
        page = (self.folder / "both/report.html").read_text()
        self.assertIn("<h2>Devices</h2>", page)
        self.assertIn("Nodes of the fully quantized model on openvino", page)

    def check(self, *words, code=0):
        reply = seqto("check", self.folder / "both", *words, "--json")
        self.assertEqual(reply.returncode, code, reply.stderr)
        return json.loads(reply.stdout) if code != 3 else reply.stderr

    def test_the_gate_takes_the_device_that_is_named(self):
        there = self.summary["elsewhere"]["openvino"]
        for device, front in (("cpu", self.summary), ("openvino", there)):
            for asked, point in (("fully_quantized", front["fully_quantized"]),
                                 ("selected", next(p for p in front["front"] if p["id"] == front["selected"]))):
                found = self.check("--device", device, "--id", asked, "--max-size", "10GB")
                self.assertEqual(found["candidate"], point["id"])
                self.assertEqual(found["figures"]["latency_ns"]["value"], point["latency_ns"]["median"])
                self.assertEqual(found["figures"]["kl"]["value"], point["losses"]["kl"])
                self.assertAlmostEqual(found["figures"]["latency_ratio"]["value"], point["latency_ns"]["over_float"]["value"])
        self.assertEqual(self.check("--max-size", "10GB"), self.check("--max-size", "10GB", "--device", "cpu"))
        self.check("--device", "openvino", "--max-size", "1", code=5)
        said = self.check("--device", "cuda", "--max-size", "10GB", code=3)
        self.assertIn("was measured on cpu, openvino; choose one of them", said)

    def test_a_lock_of_a_device_names_its_runtime(self):
        lock = self.folder / "lock.json"
        self.check("--device", "openvino", "--max-size", "10GB", "--lock", lock)
        self.assertIn("openvino", json.loads(lock.read_text())["versions"]["runner"].lower())
        self.check("--device", "openvino", "--against", lock)

    def test_the_provider_is_verified(self):
        self.assertIn("OpenVINOExecutionProvider", self.summary["elsewhere"]["openvino"]["placement"])
        reply = tune(self.folder / "wrong", "openvino", "--provider-option", "device_type=NPU", env=self.env)
        self.assertEqual(reply.returncode, 4, reply.stderr)

    def test_an_unknown_provider_option_is_an_error(self):
        reply = seqto("run", DIGITS, "--data", DIGITS_DATA, "--samples", 2, "--device", "openvino", "--provider-option",
                      "no_such_option=1", "-o", self.folder / "x.npz", env=self.env)
        self.assertEqual(reply.returncode, 4, reply.stderr)
        reply = seqto("run", "--device", "openvino", "--provider-option", "num_of_threads=1", "--provider-option",
                      "device_type=CPU", DIGITS, "--data", DIGITS_DATA, "--samples", 2, "-o", self.folder / "x.npz",
                      env=self.env)
        self.assertEqual(reply.returncode, 0, reply.stderr)  # known ones; the model after them is not taken for one
        reply = seqto("run", DIGITS, "--data", DIGITS_DATA, "--device", "openvino", "--provider-option", "flag", "-o",
                      self.folder / "x.npz", env=self.env)
        self.assertEqual(reply.returncode, 2, reply.stderr)


if __name__ == "__main__":
    unit.main()
