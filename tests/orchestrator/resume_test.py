"""A study that was killed, torn or interrupted ends as one that was left in peace; two runs write the same bytes."""

import fcntl
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
from testing.studies import files, lines, trials, without_times  # noqa: E402


class Job:
    """One model with its data and the flags that keep it short."""

    def __init__(self, model, data, *more):
        self.model, self.words = model, ["--data", data, *more]

    def command(self, out):
        words = ["tune", self.model, "--strategy", "incremental", *self.words, "-o", out, "-q"]
        return [models.BINARY, *map(str, words)]

    def run(self, out):
        return subprocess.run(self.command(out), capture_output=True, text=True, timeout=1000)


def resnet20():
    folder = pathlib.Path(os.environ.get("SEQTO_CASES_DIR", "")) / "resnet20"
    if not (folder / "case.json").is_file():
        return None
    case = json.loads((folder / "case.json").read_text())
    more = ["--calibration-samples", 10, "--evaluation-samples", 20, "--max-evaluations", 12]
    for flag in ("labels", "preprocess"):
        value = case.get(flag)
        if value:
            more += [f"--{flag}", folder / value if (folder / value).exists() else value]
    return Job(folder / case["model"], folder / case["data"], *more)


class Resume(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-resume-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def whole(self, job, name="whole"):
        out = self.dir / name
        done = job.run(out)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out

    def same(self, out, whole):
        got, expected = trials(out), trials(whole)
        self.assertGreaterEqual(len(expected), 3)
        self.assertEqual([t.get("id") for t in got], [t.get("id") for t in expected])
        self.assertEqual(got, expected)
        self.assertEqual(len({json.dumps(t, sort_keys=True) for t in got}), len(got), "a trial twice")
        self.assertEqual(list(out.rglob("*.tmp-*")), [])
        fronts = [[p["id"] for p in json.loads((o / "summary.json").read_text())["front"]] for o in (out, whole)]
        self.assertEqual(fronts[0], fronts[1])
        # A study that was killed may not have more or other files than one that was not.
        self.assertEqual(files(out), files(whole))

    def killed(self, job, out, after, with_signal=signal.SIGKILL):
        """Runs until the study has `after` lines, then signals. Whether it was still running."""
        process = subprocess.Popen(job.command(out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 300
        while process.poll() is None and len(lines(out)) < after and time.monotonic() < deadline:
            time.sleep(0.0005)
        running = process.poll() is None
        if running:
            process.send_signal(with_signal)
        _, said = process.communicate(timeout=300)
        return running, process.returncode, said

    def interrupted(self, job, name, after):
        """An interrupted study and what it said. A run may end just before the signal comes, but not three in turn."""
        for i in range(3):
            out = self.dir / f"{name}{i}"
            _, code, said = self.killed(job, out, after, signal.SIGINT)
            if code != 0:
                self.assertEqual(code, 130, said)
                return out, said
        self.fail("three runs ended with 0: SIGINT is ignored, or they were done before it came")

    def every_moment(self, job, moments):
        whole = self.whole(job)
        total = len(lines(whole))
        hits = 0
        for after in moments(total):
            with self.subTest(after=after):
                out = self.dir / f"killed-{after}"
                running, _, _ = self.killed(job, out, after)
                hits += running
                done = job.run(out)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.same(out, whole)
        self.assertGreater(hits, 0, "no run was killed in time")

    def digits(self, evaluations=16):
        return Job(models.DIGITS, models.DIGITS_DATA, "--max-evaluations", evaluations)

    def test_killed_at_any_moment(self):
        self.every_moment(self.digits(), lambda total: [1, 2, 3, 4, 6, 9, total - 1])

    def test_killed_twice(self):
        job = self.digits()
        whole, out = self.whole(job), self.dir / "twice"
        self.killed(job, out, 3)
        self.killed(job, out, 8)
        self.assertEqual(job.run(out).returncode, 0)
        self.same(out, whole)

    def test_a_header_alone_is_no_study(self):
        """Of a run that was killed before it noted that --max-time lasts for fewer samples."""
        job, out = self.digits(), self.dir / "header"
        whole = self.whole(job)
        header = json.loads(lines(whole)[0])
        header["header"]["evaluation_samples"] -= 1
        out.mkdir()
        (out / "study.jsonl").write_text(json.dumps(header) + "\n")
        done = job.run(out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.same(out, whole)

    def test_interrupted_twice_has_a_report_each_time(self):
        """Though onnxruntime's int8, with which candidates are compared, is not made again."""
        class Search(Job):
            def command(self, out):
                return [word for word in super().command(out) if word not in ("--strategy", "incremental")]

        job, out = Search(models.DIGITS, models.DIGITS_DATA), self.dir / "interrupted"
        for more in (12, 2):
            (out / "summary.json").unlink(missing_ok=True)
            running, code, said = self.killed(job, out, len(lines(out)) + more, signal.SIGINT)
            self.assertTrue(running, "it ended before the signal")
            self.assertEqual(code, 130, said)
            self.assertTrue((out / "summary.json").is_file(), said)
            self.assertTrue((out / "models/published.onnx").is_file(), said)

    def test_a_study_that_is_being_written_is_not_begun_anew(self):
        job, out = self.digits(), self.dir / "held"
        self.assertEqual(job.run(out).returncode, 0)
        before = files(out)
        with open(out / "study.jsonl", "a") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            done = subprocess.run([*job.command(out), "--no-resume"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"is being written by process {os.getpid()}", done.stderr)
        self.assertEqual(files(out), before)

    def test_another_machine_is_told(self):
        out, job = self.dir / "out", Job(models.DIGITS, models.DIGITS_DATA, "--max-evaluations", 6, "--objectives", "kl,latency")
        self.assertEqual(job.run(out).returncode, 0)
        text = (out / "study.jsonl").read_text()
        header = json.loads(text.splitlines()[0])
        environment = json.loads(header["header"]["environment_json"])
        header["header"]["environment_json"] = json.dumps({**environment, "cpu": "another"})
        (out / "study.jsonl").write_text("\n".join([json.dumps(header), *text.splitlines()[1:], ""]))
        done = subprocess.run([w for w in job.command(out) if w != "-q"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"another" expected', done.stderr)

    def test_an_edited_target_is_another_study(self):
        target = self.dir / "mine.toml"
        target.write_text((models.SOURCE / "targets/onnxruntime-cpu-x86.toml").read_text())
        words = ("tune", models.DIGITS, "--data", models.DIGITS_DATA, "--max-evaluations", 6, "--target", target, "--objectives",
                 "kl,size", "-q", "-o", self.dir / "out")
        for _ in range(2):
            done = models.seqto(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
        target.write_text(target.read_text() + "# edited\n")
        done = models.seqto(*words)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("target_sha256", done.stderr)

    def test_torn_last_line(self):
        job = self.digits()
        whole = self.whole(job)
        text = (whole / "study.jsonl").read_bytes()
        ends = [i + 1 for i, byte in enumerate(text) if byte == 10]
        for line in (1, 2, len(ends) // 2, len(ends) - 2):
            for cut in (1, (ends[line] - ends[line - 1]) // 2, ends[line] - ends[line - 1] - 1):
                with self.subTest(line=line, cut=cut):
                    out = self.dir / f"torn-{line}-{cut}"
                    out.mkdir()
                    (out / "study.jsonl").write_bytes(text[:ends[line - 1] + cut])
                    done = job.run(out)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.same(out, whole)

    def test_torn_header(self):
        job = self.digits()
        whole, out = self.whole(job), self.dir / "header"
        out.mkdir()
        (out / "study.jsonl").write_bytes((whole / "study.jsonl").read_bytes()[:40])
        done = job.run(out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.same(out, whole)

    def test_finished_study_adds_nothing(self):
        job = self.digits()
        out = self.whole(job)
        before = trials(out)
        self.assertEqual(job.run(out).returncode, 0)
        self.assertEqual(trials(out), before)

    def test_larger_limit_goes_on(self):
        whole, out = self.whole(self.digits(12)), self.dir / "more"
        self.assertEqual(self.digits(5).run(out).returncode, 0)
        self.assertEqual(len(trials(out)), 5)
        self.assertEqual(self.digits(12).run(out).returncode, 0)
        self.assertEqual(trials(out), trials(whole))

    def test_interrupted(self):
        job = Job(models.DIGITS, models.DIGITS_DATA)
        whole = self.whole(job)
        out, said = self.interrupted(job, "interrupted", len(lines(whole)) // 2)
        self.assertIn("interrupted", said)
        self.assertTrue((out / "report.html").is_file())
        self.assertTrue((out / "summary.json").is_file())
        self.assertLess(len(trials(out)), len(trials(whole)))
        done = job.run(out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(trials(out), trials(whole))

    def test_interrupted_early(self):
        """Before there is anything to report: no report, but 130 and a study that goes on."""
        job = self.digits()
        whole = self.whole(job)
        out, _ = self.interrupted(job, "early", 1)
        self.assertEqual(job.run(out).returncode, 0)
        self.assertEqual(trials(out), trials(whole))

    def test_deterministic(self):
        job = self.digits()
        one, two = self.whole(job, "one"), self.whole(job, "two")
        self.assertEqual([p for p in files(one)], [p for p in files(two)])
        self.assertEqual(files(one), files(two))

        def all_lines(out):
            return [without_times(json.loads(line)) for line in lines(out)]

        self.assertEqual(all_lines(one), all_lines(two))

    def test_resnet20_killed(self):
        job = resnet20()
        if job is None:
            self.skipTest("no case resnet20 in SEQTO_CASES_DIR")
        self.every_moment(job, lambda total: [3, total - 4])


if __name__ == "__main__":
    unit.main()
