"""`seqto tune` with candidates that make the runtime abort, hang or eat memory: they are failed trials that say why, and all
others are those of a run that nothing disturbed. What is left of workers when `tune` is killed: nothing."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402
from testing.processes import children  # noqa: E402

LIBRARY = os.environ.get("SEQTO_MISBEHAVING_ORT_LIBRARY", "")
DATA = ["--data", models.DIGITS_DATA, "--evaluation-samples", 40, "--strategy", "incremental"]


def trials(out):
    """Every trial without its times."""
    found = []
    for entry in map(json.loads, (out / "study.jsonl").read_text().splitlines()):
        if "trial" in entry:
            entry["trial"].pop("latency_ns", None)
            found.append(entry["trial"])
    return found


def blob_folders(pid):
    """Those that a worker was started with."""
    try:
        words = (pathlib.Path("/proc") / str(pid) / "cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [pathlib.Path(folder) for flag, folder in zip(words, words[1:]) if flag == "--blobs"]


def alive(pid):
    try:
        return (pathlib.Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Workers(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-worker-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def tune(self, name, *more, env=None):
        out = self.dir / name
        done = models.seqto("tune", models.DIGITS, *DATA, "-o", out, "-q", *more, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out

    def dequantizers(self, trial):
        """How many DequantizeLinear the candidate's model has: by this the runtime is told which to fail."""
        (self.dir / "plan.json").write_text(json.dumps({"schemes": trial["plan"]}))
        made = self.dir / "candidate.onnx"
        done = models.seqto("quantize", models.DIGITS, *DATA[:2], "--samples", 50, "--plan", self.dir / "plan.json", "-o", made)
        self.assertEqual(done.returncode, 0, done.stderr)
        return made.read_bytes().count(b"DequantizeLinear")

    def test_same_trials_with_and_without_workers(self):
        one, two = self.tune("worker"), self.tune("here", "--in-process")
        self.assertGreater(len(trials(one)), 5)
        self.assertEqual(trials(one), trials(two))
        files = [{p.name: p.read_bytes() for p in (o / "models").iterdir()} for o in (one, two)]
        self.assertEqual(files[0], files[1])

    def test_candidates_that_misbehave_are_failed_trials(self):
        if not os.path.exists(LIBRARY):
            self.skipTest("no runtime that misbehaves")
        undisturbed = trials(self.tune("undisturbed", env={"SEQTO_ORT_LIBRARY": LIBRARY}))
        counts = {t["id"]: self.dequantizers(t) for t in undisturbed if t["id"] not in ("float", "full")}
        full = self.dequantizers(undisturbed[1])
        distinct = [c for c in dict.fromkeys(counts.values()) if c not in (0, full)]
        self.assertGreaterEqual(len(distinct), 4, counts)
        deeds = dict(zip(distinct, (("load:abort", "signal 6 (Aborted) while it loaded the model"),
                                    ("run:spin", "did not answer within 3 s while it ran the model"),
                                    ("run:allocate", "500 MB are allowed"),
                                    ("run:exit", "exit code 3 while it ran the model"))))
        rules = ",".join(f"{deed}:{count}" for count, (deed, _) in deeds.items())
        out = self.tune("disturbed", "--run-timeout", 3, "--worker-memory", "500MB",
                        env={"SEQTO_ORT_LIBRARY": LIBRARY, "SEQTO_MISBEHAVE": rules})
        disturbed = trials(out)
        self.assertEqual([t["id"] for t in disturbed], [t["id"] for t in undisturbed])
        failed = 0
        for got, expected in zip(disturbed, undisturbed):
            if counts.get(got["id"]) in deeds:
                failed += 1
                self.assertEqual(got["outcome"], "failed", got["id"])
                self.assertIn(deeds[counts[got["id"]]][1], got["failure"])
                self.assertNotIn("size_bytes", got)
            else:
                self.assertEqual(got, expected)
        self.assertGreaterEqual(failed, 4)
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual(summary["evaluations"], len(undisturbed))

    def test_nothing_outlives_a_killed_tune(self):
        process = subprocess.Popen([models.BINARY, *map(str, ["tune", models.DIGITS, *DATA, "-o", self.dir / "killed", "-q"])],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        workers, folders, deadline = [], [], time.monotonic() + 60
        while not folders and process.poll() is None and time.monotonic() < deadline:
            workers = children(process.pid)
            folders = [f for w in workers for f in blob_folders(w)]
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertTrue(folders, "the study ended, or a minute passed, before a worker with a folder was seen")
        while any(map(alive, workers)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(any(map(alive, workers)))
        # What it left in shared memory goes with the next run.
        self.tune("next", "--max-evaluations", 2)
        self.assertEqual([f for f in folders if f.exists()], [])

    def test_a_fully_quantized_model_that_crashes_ends_the_run_with_its_reason(self):
        if not os.path.exists(LIBRARY):
            self.skipTest("no runtime that misbehaves")
        done = models.seqto("tune", models.DIGITS, *DATA, "-o", self.dir / "out", "-q",
                            env={"SEQTO_ORT_LIBRARY": LIBRARY, "SEQTO_MISBEHAVE": f"run:abort:{self.full_count()}"})
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("the fully quantized model does not run", done.stderr)
        self.assertIn("signal 6 (Aborted)", done.stderr)

    def full_count(self):
        return self.dequantizers(trials(self.tune("full", "--max-evaluations", 2))[1])


if __name__ == "__main__":
    unit.main()
