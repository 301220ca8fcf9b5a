"""Workers at the end of ssh and adb: a real sshd on loopback, a fake adb. What they measure is what `cpu` measures; the
link is cut in the middle; a machine that stays away ends the study, which goes on when it is back."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import unit  # noqa: E402
from testing.models import BINARY, DIGITS, DIGITS_DATA, seqto  # noqa: E402
from testing.sshd import Sshd  # noqa: E402

WORDS = ["tune", DIGITS, "--data", DIGITS_DATA, "--calibration-samples", 32, "--evaluation-samples", 40, "--max-evaluations", 8,
         "--strategy", "incremental",
         "--activation-type", "uint8", "--weight-type", "int8", "--per-channel", "--reduce-range"]  # those of cpu depend on it


def trials(folder):
    lines = [json.loads(line) for line in (folder / "study.jsonl").read_text().splitlines()]
    return [line["trial"] for line in lines if "trial" in line]


def losses(folder):
    """What is measured of every candidate, but for times."""
    return [(t["id"], t["outcome"], t["size_bytes"], t["losses"]) for t in trials(folder)]


def crossed(stderr):
    """Bytes of blobs that went over the link, message by message."""
    return [int(n) for n in re.findall(r"over the link: \d+ blobs, (\d+) bytes", stderr)]


class Folder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.local = cls.folder / "local"
        reply = seqto(*WORDS, "-o", cls.local)
        assert reply.returncode == 0, reply.stderr


class Ssh(Folder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "sshd").mkdir()
        cls.sshd = Sshd(cls.folder / "sshd")
        cls.addClassCleanup(cls.sshd.stop)

    def tune(self, name, *words, **options):
        return seqto(*WORDS, "--device", "ssh:board", "-o", self.folder / name, *words, env=self.sshd.env(), **options)

    def test_1_it_measures_what_cpu_measures(self):
        reply = self.tune("ssh", "-v")
        self.assertEqual(reply.returncode, 0, reply.stderr)
        self.assertIn("copying this program to ssh:board", reply.stderr)
        self.assertEqual(losses(self.folder / "ssh"), losses(self.local))
        self.assertTrue(all(t["latency_ns"]["median"] > 0 for t in trials(self.folder / "ssh")))
        # All is there the second time, but finalists, whose choice depends on times.
        again = self.tune("again", "-v")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertNotIn("copying", again.stderr)
        self.assertEqual(losses(self.folder / "again"), losses(self.local))
        first, second = (sum(crossed(r.stderr)) for r in (reply, again))
        self.assertLess(second, first / 4)
        # Every blob crossed once, however many candidates have it.
        kept = list((self.sshd.folder / "cache/seqto/blobs").iterdir())
        self.assertGreater(len(kept), 20)
        self.assertEqual(first + second, sum(blob.stat().st_size for blob in kept))

    def test_2_a_cut_link_loses_no_candidate(self):
        cuts, done = [], threading.Event()

        def cut():
            """After every candidate: on a busy machine a connection takes its time."""
            seen = 0
            while not done.wait(0.02):
                study = self.folder / "cut/study.jsonl"
                if study.exists() and study.read_text().count('{"trial"') > seen:
                    seen += 1
                    cuts.append(self.sshd.cut())

        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            reply = self.tune("cut", "-v")
        finally:
            done.set()
            cutter.join()
        self.assertEqual(reply.returncode, 0, reply.stderr)
        self.assertGreater(sum(cuts), 0)
        self.assertRegex(reply.stderr, "the link broke, connecting again|no connection yet")
        self.assertEqual(losses(self.folder / "cut"), losses(self.local))

    def test_3_the_study_goes_on_when_the_machine_is_back(self):
        output = self.folder / "away"
        command = [BINARY, *map(str, WORDS), "--device", "ssh:board", "--reconnect", "0.5", "-o", str(output)]
        run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **self.sshd.env()})
        while run.poll() is None and not (output.exists() and (output / "study.jsonl").exists() and len(trials(output)) > 1):
            time.sleep(0.02)
        self.sshd.stop()
        stderr = run.communicate(timeout=60)[1]
        self.sshd.start()
        self.assertEqual(run.returncode, 4, stderr)
        self.assertIn("the same command goes on", stderr)
        begun = len(trials(output))
        self.assertLess(begun, 8)
        reply = self.tune("away", "--reconnect", "0.5")
        self.assertEqual(reply.returncode, 0, reply.stderr)
        self.assertEqual(losses(output), losses(self.local))

    def test_4_bench(self):
        reply = seqto("bench", DIGITS, "--data", DIGITS_DATA, "--device", "ssh:board/cpu", "--json", env=self.sshd.env())
        self.assertEqual(reply.returncode, 0, reply.stderr)
        self.assertGreater(json.loads(reply.stdout)["models"][0]["latency_ns"]["p50"], 0)

    def test_5_what_ssh_says_reaches_the_user(self):
        strange = self.folder / "strange"
        strange.mkdir()
        config = (self.sshd.folder / "ssh_config").read_text()
        for name, change, said in (("key", f"IdentityFile {self.sshd.folder}/host", "Permission denied"),
                                   ("known", "UserKnownHostsFile /dev/null", "Host key verification failed"),
                                   ("port", "Port 1", "Connection refused")):
            word = change.split()[0]
            (strange / "config").write_text(re.sub(rf"{word} .*", change, config))
            (strange / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {strange}/config "$@"\n')
            (strange / "ssh").chmod(0o755)
            reply = seqto("bench", DIGITS, "--data", DIGITS_DATA, "--device", "ssh:board",
                          env={"PATH": f"{strange}:{os.environ['PATH']}"})
            with self.subTest(name):
                self.assertEqual(reply.returncode, 4)
                self.assertIn(said, reply.stderr)
                self.assertIn("`ssh board true` has to work without a question", reply.stderr)


class Adb(Folder):
    def adb(self, there=""):
        """A shell of this machine that looks like a device of its own."""
        here = self.folder / "here"
        here.mkdir(exist_ok=True)
        (here / "adb").write_text('#!/bin/sh\ntest "$1 $2 $3 $4" = "-s board shell -T" || exit 1\n'
                                  f'exec env TMPDIR={self.folder} PATH={there}:/usr/bin:/bin sh -c "$5"\n')
        (here / "adb").chmod(0o755)
        return {"PATH": f"{here}:{os.environ['PATH']}"}

    def test_a_seqto_that_is_there_is_used(self):
        there = self.folder / "there"
        there.mkdir()
        (there / "seqto").symlink_to(BINARY)
        reply = seqto(*WORDS, "--device", "adb:board", "-o", self.folder / "adb", "-v", env=self.adb(there))
        self.assertEqual(reply.returncode, 0, reply.stderr)
        self.assertNotIn("copying", reply.stderr)
        self.assertEqual(losses(self.folder / "adb"), losses(self.local))

    def test_a_message_takes_several_samples(self):
        there, said = self.folder / "listening", self.folder / "said"
        there.mkdir()
        (there / "seqto").write_text(f'#!/bin/sh\ntee -a {said} | {BINARY} "$@"\n')
        (there / "seqto").chmod(0o755)
        for chunk in (1, 8):
            said.unlink(missing_ok=True)
            reply = seqto(*WORDS, "--device", "adb:board", "-o", self.folder / f"chunk{chunk}", "--chunk", chunk, env=self.adb(there))
            self.assertEqual(reply.returncode, 0, reply.stderr)
            self.assertEqual(losses(self.folder / f"chunk{chunk}"), losses(self.local))
            self.assertEqual(b"run_many" in said.read_bytes(), chunk > 1)

    def test_a_package_for_another_processor(self):
        """SEQTO_AARCH64_WORKER: seqto for 64-bit ARM; SEQTO_AARCH64_RUNTIME: its ONNX Runtime. QEMU_LD_PREFIX: the system
        for it, with proc/cpuinfo of an ARM processor: of this machine's the runtime makes nothing."""
        worker, runtime = (os.environ.get(f"SEQTO_AARCH64_{what}") for what in ("WORKER", "RUNTIME"))
        if not worker or not runtime or not shutil.which("qemu-aarch64"):
            self.skipTest("SEQTO_AARCH64_WORKER and SEQTO_AARCH64_RUNTIME name no files, or there is no qemu-aarch64")
        tree = self.folder / "tree/seqto-aarch64"
        (tree / "bin").mkdir(parents=True)
        (tree / "lib/seqto").mkdir(parents=True)
        shutil.copy(worker, tree / "bin/seqto-aarch64")
        shutil.copy(runtime, tree / "lib/seqto/libonnxruntime.so")
        (tree / "bin/seqto").write_text(
            f'#!/bin/sh\ntop=$(dirname "$0")\nunset LD_LIBRARY_PATH\nexec {shutil.which("qemu-aarch64")} '
            f'-L "{os.environ.get("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu")}" '
            '-E SEQTO_ORT_LIBRARY="$top/../lib/seqto/libonnxruntime.so" "$top/seqto-aarch64" "$@"\n')
        (tree / "bin/seqto").chmod(0o755)
        package = self.folder / "seqto-aarch64.tar.gz"
        subprocess.run(["tar", "-czf", package, "-C", self.folder / "tree", "."], check=True)
        output = self.folder / "aarch64"
        reply = seqto(*WORDS, "--device", "adb:board", "-o", output, "-v", timeout=1200,
                      env={**self.adb(), "SEQTO_WORKER_PACKAGE": str(package)})
        self.assertEqual(reply.returncode, 0, reply.stderr)
        self.assertIn(f"copying {package} to adb:board", reply.stderr)
        for there, here in zip(trials(output), trials(self.local), strict=True):
            self.assertEqual((there["id"], there["outcome"]), (here["id"], "ok"))
            # Other kernels round otherwise.
            self.assertAlmostEqual(there["losses"]["kl"], here["losses"]["kl"], delta=0.05 * here["losses"]["kl"] + 1e-6)


if __name__ == "__main__":
    unit.main()
