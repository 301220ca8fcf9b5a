"""One study on many machines: ask, eval and tell end with the study of a local run, whatever the order, whoever dies."""

import concurrent.futures
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

BINARY = str(models.BINARY)
STUDY = ["tune", models.DIGITS, "--data", models.DIGITS_DATA, "--objectives", "kl,size", "--threads", 1,
         "--calibration-samples", 20, "--search-samples", 16, "--evaluation-samples", 40, "--max-front", 4,
         "--search-evaluations", 22, "-q"]


def seqto(*words, given=None, fails=None):
    done = subprocess.run([BINARY, *map(str, words)], input=given, capture_output=True, text=True, timeout=300)
    if done.returncode != (fails or 0):
        raise AssertionError(f"{words[:3]} ended with {done.returncode}: {done.stderr}")
    return done.stderr if fails else done.stdout


def lines(text):
    return [line for line in text.split("\n") if line]


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items()
                if k not in ("latency_ns", "device_latencies", "wall_seconds")}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def study(out):
    whole = (out / "study.jsonl").read_text().rpartition("\n")[0]
    return [without_times(json.loads(line)) for line in lines(whole)]


class Evaluator:
    """`seqto eval DIR -`, kept."""

    def __init__(self, out):
        self.child = subprocess.Popen([BINARY, "eval", out, "-", "-q"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True)
        self.ready = json.loads(self.child.stdout.readline())

    def measure(self, proposal):
        self.child.stdin.write(proposal + "\n")
        self.child.stdin.flush()
        return self.child.stdout.readline()

    def close(self):
        self.child.stdin.close()
        self.child.stdout.close()
        return self.child.wait(60)


class Ask(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-ask-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.local = cls.dir / "local"
        seqto(*STUDY, "-o", cls.local)
        cls.begun = cls.dir / "begun"
        seqto(*STUDY, "-o", cls.begun, "--begin")

    def begin(self, name):
        out = self.dir / name
        shutil.copytree(self.begun, out)
        return out

    def one_in(self, name):
        """A study whose first step, of a few proposals, is done; and the proposals of the next."""
        out = self.begin(name)
        seqto("tell", out, *lines(seqto("eval", out, *lines(seqto("ask", out, "-q")), "-q")), "-q")
        return out, lines(seqto("ask", out, "-q"))

    def finish(self, out):
        seqto("tune", "--config", out / "tune.toml", "-q")
        ours, theirs = study(out), study(self.local)
        self.assertEqual([e for e in ours if "trial" in e], [e for e in theirs if "trial" in e])
        names = [[e["note"] for e in entries if "note" in e] for entries in (ours, theirs)]
        self.assertEqual(names[0][:len(names[1])], names[1])
        ours, theirs = (json.loads((folder / "summary.json").read_text()) for folder in (out, self.local))
        self.assertEqual([p["id"] for p in ours["front"]], [p["id"] for p in theirs["front"]])

    def step(self, out, evaluators):
        """Measures what is asked for in any order, side by side, and tells at once. False: the search is over."""
        proposals = lines(seqto("ask", out, "-q"))
        self.assertEqual(lines(seqto("ask", out, "-q")), proposals, "asking changes nothing")
        random.Random(len(proposals)).shuffle(proposals)

        def work(evaluator, mine):
            for proposal in mine:
                seqto("tell", out, evaluator.measure(proposal), "-q")

        with concurrent.futures.ThreadPoolExecutor() as pool:
            shares = [proposals[i::len(evaluators)] for i in range(len(evaluators))]
            for job in [pool.submit(work, *pair) for pair in zip(evaluators, shares)]:
                job.result()
        return bool(proposals)

    def test_any_order_gives_the_study_of_a_local_run(self):
        out = self.begin("any_order")
        before = {p: p.read_bytes() for p in out.iterdir() if p.is_file()}
        evaluators = [Evaluator(out), Evaluator(out)]
        self.assertEqual(evaluators[0].ready, {"ready": 1})
        self.assertEqual({p: p.read_bytes() for p in out.iterdir() if p.is_file()}, before, "eval writes nothing")
        while self.step(out, evaluators):
            pass
        self.assertEqual([e.close() for e in evaluators], [0, 0])
        self.finish(out)

    def test_xargs_is_engine_enough(self):
        out = self.begin("xargs")
        line = '"$0" ask "$1" -q | xargs -r -P2 -d "\\n" -n1 "$0" eval "$1" -q | "$0" tell "$1" - -q'
        for _ in range(100):
            if not lines(seqto("ask", out, "-q")):
                break
            subprocess.run(["sh", "-c", line, BINARY, str(out)], check=True, timeout=300)
        self.finish(out)

    def test_a_copy_of_the_folder_will_do(self):
        out, copy = self.begin("original"), self.dir / "elsewhere"
        data = self.dir / "moved.npz"
        shutil.copy(models.DIGITS_DATA, data)
        shutil.copytree(out, copy)
        toml = copy / "tune.toml"
        toml.write_text(toml.read_text().replace("digits.npz", "gone.npz"))
        for path in copy.rglob("*"):
            path.chmod(0o555 if path.is_dir() else 0o444)
        proposal = lines(seqto("ask", out, "-q"))[0]
        result = seqto("eval", copy, "--data", data, proposal, "-q")
        self.assertEqual(without_times(json.loads(result)), without_times(json.loads(seqto("eval", out, proposal, "-q"))))
        self.assertIn("gone.npz", seqto("eval", copy, proposal, "-q", fails=3))
        other = self.dir / "other.npz"
        np.savez(other, **{name: values[:-1] for name, values in np.load(data).items()})
        self.assertIn("data_fingerprint", seqto("eval", out, "--data", other, proposal, "-q", fails=3))

    def test_what_nobody_asked_for_is_refused(self):
        out, proposals = self.one_in("refused")
        results = [json.loads(line) for line in lines(seqto("eval", out, *proposals[:3], "-q"))]
        later = dict(results[0], number=9999, trial=dict(results[0]["trial"], number=9999))
        self.assertIn("nobody asked for", seqto("tell", out, json.dumps(later), "-q", fails=3))
        self.assertIn("of another study", seqto("tell", out, json.dumps(dict(results[0], study="0" * 16)), "-q", fails=3))
        swapped = dict(results[1], trial=dict(results[1]["trial"], plan=results[0]["trial"]["plan"]))
        self.assertIn("another plan", seqto("tell", out, json.dumps(swapped), "-q", fails=3))
        self.assertIn("was not measured: no power",
                      seqto("tell", out, '{"number": %d, "error": "no power"}' % results[0]["number"], "-q", fails=4))
        self.assertIn("a line of `seqto eval`", seqto("tell", out, "{}", "-q", fails=3))
        self.assertEqual(lines(seqto("ask", out, "-q")), proposals)
        # Those beside a refused one are taken; the first comes last, and telling again changes nothing.
        both = self.dir / "both.jsonl"
        as_lines = lambda *told: "".join(json.dumps(r) + "\n" for r in told)
        both.write_text(as_lines(later, results[2]))
        seqto("tell", out, both, "-q", fails=3)
        self.assertIn("a line of `seqto eval`", seqto("tell", out, "-", "-q", given=as_lines({}, later, results[1]), fails=3))
        self.assertEqual(lines(seqto("ask", out, "-q")), proposals[:1] + proposals[3:])
        count = len(study(out))
        for _ in range(2):
            seqto("tell", out, json.dumps(results[0]), "-q")
            self.assertEqual(len(study(out)), count + 3)
        self.assertEqual(lines(seqto("ask", out, "-q")), proposals[3:])
        self.assertIn("has of another plan", seqto("tell", out, json.dumps(
            dict(results[0], trial=dict(results[0]["trial"], plan={}))), "-q", fails=3))

    def test_a_result_names_its_study(self):
        told = []
        for name, samples in (("one", 90), ("same", 90), ("other", 80)):
            out = self.dir / name
            seqto(*STUDY, "--samples", samples, "--begin", "-o", out)
            told.append(json.loads(seqto("eval", out, lines(seqto("ask", out, "-q"))[0], "-q"))["study"])
        self.assertEqual(told[0], told[1])
        self.assertNotEqual(told[0], told[2])
        result = seqto("eval", self.dir / "other", lines(seqto("ask", self.dir / "one", "-q"))[0], "-q")
        self.assertIn("of another study", seqto("tell", self.dir / "one", result, "-q", fails=3))
        done = subprocess.run([BINARY, *map(str, STUDY), "--samples", "90", "--workers", f"{BINARY} eval {self.dir / 'other'} - -q",
                               "-o", str(self.dir / "same")], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("in another study", done.stderr)

    def test_begin_goes_on_with_its_own_study_alone(self):
        out = self.begin("begun_again")
        proposals = lines(seqto("ask", out, "-q"))
        seqto(*STUDY, "-o", out, "--begin")
        self.assertEqual(lines(seqto("ask", out, "-q")), proposals)
        other = [*STUDY, "--samples", 90, "-o", out, "--begin"]
        self.assertIn("a study of something else", seqto(*other, fails=3))
        self.assertEqual(lines(seqto("ask", out, "-q")), proposals)
        seqto(*other, "--no-resume")
        self.assertNotEqual(study(out)[0]["header"], study(self.begun)[0]["header"])
        self.assertTrue(lines(seqto("ask", out, "-q")))

    def test_a_killed_tell_loses_its_result_at_most(self):
        out, proposals = self.one_in("killed")
        self.assertGreater(len(proposals), 6)
        results = lines(seqto("eval", out, *proposals[:6], "-q"))
        clock = random.Random(3)
        for result in reversed(results):
            for _ in range(3):
                child = subprocess.Popen([BINARY, "tell", out, result, "-q"])
                time.sleep(clock.uniform(0, 0.03))
                child.send_signal(signal.SIGKILL)
                child.wait()
            seqto("tell", out, result, "-q")
        self.assertEqual(lines(seqto("ask", out, "-q")), proposals[6:])
        evaluators = [Evaluator(out)]
        while self.step(out, evaluators):
            pass
        evaluators[0].close()
        self.finish(out)

    def test_workers_are_such_a_command(self):
        out = self.dir / "workers"
        command = f"{BINARY} eval {out} - -q"
        seqto(*STUDY, "-o", out, "--workers", command)
        self.finish(out)

    def test_workers_that_say_nothing_are_told_of(self):
        run = subprocess.Popen([BINARY, *map(str, STUDY[:-1]), "-o", str(self.dir / "silent"), "--workers", "cat"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = next((line for line in run.stderr if "workers of `cat`" in line), "")
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
        self.assertIn('the line {"ready": N} expected first', said)
        said = seqto(*STUDY, "-o", self.dir / "chatty", "--workers", "echo hello; cat", fails=4)
        self.assertIn("hello", said)

    def test_workers_that_hang_are_given_up_with_the_time(self):
        for name, command in (("hang", """echo '{"ready": 2}'; exec sleep 1000"""), ("never", "exec sleep 1000")):
            out, begin = self.dir / name, time.monotonic()
            run = subprocess.run([BINARY, *map(str, STUDY[:-1]), "-o", str(out), "--workers", command, "--max-time", "6"],
                                 capture_output=True, text=True, timeout=120)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("were not waited for", run.stderr)
            self.assertLess(time.monotonic() - begin, 6 + 10)
            summary = json.loads((out / "summary.json").read_text())
            self.assertTrue(summary["front"])
            self.assertTrue(any("stopped at --max-time" in note for note in summary["notes"]), summary["notes"])

    def test_a_run_goes_on_after_its_workers_and_itself_are_gone(self):
        out = self.dir / "gone"
        tired = f"{BINARY} eval {out} - -q | sed -u 8q"
        said = seqto(*STUDY, "-o", out, "--workers", tired, fails=4)
        self.assertIn("the study is kept", said)
        self.kill_after(4, out, "--workers", f"{BINARY} eval {out} - -q")
        self.finish(out)

    def test_a_local_run_that_was_killed_goes_on_with_its_step(self):
        out = self.begin("local_killed")
        for _ in range(3):
            self.kill_after(4, out)
        self.finish(out)

    def kill_after(self, trials, out, *more):
        known = len(study(out))
        run = subprocess.Popen([BINARY, *map(str, STUDY), "-o", out, *more], stdout=subprocess.DEVNULL)
        while len(study(out)) < known + trials and run.poll() is None:
            time.sleep(0.01)
        run.kill()
        run.wait()

    def test_what_cannot_be_handed_out_is_said(self):
        out = self.dir / "none"
        self.assertIn("--begin", seqto("ask", self.dir / "nowhere", "-q", fails=3))
        self.assertIn("--max-time", seqto(*STUDY, "-o", out, "--begin", "--max-time", 60, fails=2))
        self.assertIn("for the report alone", seqto(*STUDY, "-o", out, "--begin", "--strategy", "incremental", fails=2))
        begun = self.begin("early")
        entries = lines((begun / "study.jsonl").read_text())
        (begun / "study.jsonl").write_text("".join(e + "\n" for e in entries if "search begins" not in e))
        self.assertIn("has not got as far", seqto("eval", begun, "{}", "-q", fails=3))


if __name__ == "__main__":
    unittest.main()
