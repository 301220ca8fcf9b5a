"""The machine fails: disks, folders, files, memory, descriptors, the clock. Each run says what was found and what to do, ends
with the documented exit code, and goes on to the study of an undisturbed run when the machine is well again."""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402
from testing.studies import lines, trials, without_times  # noqa: E402

# Clocks and disks as the tests like them, in front of the system's.
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) static __typeof__(name)* real; if (!real) real = (__typeof__(name)*)dlsym(RTLD_NEXT, #name)

int clock_gettime(clockid_t clock, struct timespec* t) {
  REAL(clock_gettime);
  static long calls;
  int result = real(clock, t);
  if (clock == CLOCK_REALTIME && getenv("JUMPS"))
    t->tv_sec += (++calls % 3 - 1) * 100000000L;  /* three years there and back */
  return result;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*start)(void*), void* argument) {
  REAL(pthread_create);
  return getenv("NO_THREADS") ? EAGAIN : real(thread, how, start, argument);
}

static void wait_for_disk(void) {
  if (getenv("SLOW")) usleep(atoi(getenv("SLOW")) * 1000);
}

/* Whether it is a file in the folder $DISK. */
static int on_disk(int file) {
  char link[32], path[4096];
  const char* disk = getenv("DISK");
  if (!disk) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  return length > 0 && !strncmp(path, disk, strlen(disk));
}

ssize_t write(int file, const void* bytes, size_t count) {
  REAL(write);
  static size_t used;
  if (!on_disk(file)) return real(file, bytes, count);
  wait_for_disk();
  if (getenv("QUOTA")) {
    size_t quota = strtoul(getenv("QUOTA"), 0, 10), left = used < quota ? quota - used : 0;
    if (!left && count) { errno = EDQUOT; return -1; }
    if (count > left) count = left;
    used += count;
  }
  return real(file, bytes, count);
}

int rename(const char* from, const char* to) {
  REAL(rename);
  wait_for_disk();
  return real(from, to);
}
"""


def can_mount():
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


class Machine(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-machine-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.model = self.dir / "model.onnx"
        shutil.copy(models.DIGITS, self.model)
        self.data = models.DIGITS_DATA

    def words(self, out, *more):
        words = [models.BINARY, "tune", "-q", self.model, "--data", self.data, "--objectives", "kl", "size",
                 "--evaluation-samples", 20, "--max-evaluations", 8, "-o", out, *more]
        if "--max-evaluations" in more:
            at = words.index("--max-evaluations")
            del words[at:at + 2]
        return [str(word) for word in words if word != "-q" or "-v" not in more]

    def tune(self, out, *more, prefix=(), **how):
        return subprocess.run([*prefix, *self.words(out, *more)], capture_output=True, text=True, timeout=300, **how)

    def begin(self, out, after, *more, prefix=(), **how):
        """A run that goes on; its study has `after` lines."""
        process = subprocess.Popen([*prefix, *self.words(out, *more)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, **how)
        while process.poll() is None and len(lines(out)) < after:
            time.sleep(0.002)
        self.assertIsNone(process.poll(), "it ended too early")
        return process

    def ended(self, process, code, *parts):
        said = process.communicate(timeout=300)[1]
        self.says(process.returncode, said, code, *parts)

    def says(self, got, said, code, *parts):
        self.assertEqual(got, code, said)
        for part in parts:
            self.assertIn(part, said)

    def check_goes_on(self, out):
        done = self.tune(out)
        self.assertEqual(done.returncode, 0, done.stderr)
        whole = self.dir / "whole"
        self.assertEqual(self.tune(whole).returncode, 0)
        self.assertEqual(trials(out), trials(whole))

    def mounted(self, size):
        if not can_mount():
            self.skipTest("mounting takes root")
        disk = self.dir / "disk"
        disk.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], capture_output=True)
        if done.returncode:
            self.skipTest("no tmpfs to be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk])
        return disk

    def remount(self, disk, how):
        subprocess.run(["mount", "-o", f"remount,{how}", disk], check=True)

    def test_full_disk(self):
        disk = self.mounted("16k")
        for size in ("16k", "28k", "56k"):
            self.remount(disk, f"size={size}")
            done = self.tune(disk / "out")
            self.says(done.returncode, done.stderr, 3, "No space left on device", "make room")
        self.remount(disk, "size=20m")
        self.check_goes_on(disk / "out")

    def test_read_only_folder(self):
        disk = self.mounted("1m")
        self.remount(disk, "ro")
        done = self.tune(disk / "out")
        self.says(done.returncode, done.stderr, 3, "Read-only file system", "choose another")
        done = models.seqto("quantize", self.model, "--mode", "weights", "-o", disk / "out.onnx")
        self.says(done.returncode, done.stderr, 3, "Read-only file system", "choose another")

    def test_files_are_limited(self):
        out = self.dir / "out.onnx"
        done = subprocess.run([models.BINARY, "quantize", self.model, "--mode", "weights", "-o", out], capture_output=True,
                              text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
        self.says(done.returncode, done.stderr, 3, "File too large", "make room")
        self.assertEqual([p.name for p in self.dir.iterdir()], ["model.onnx"])

    def test_the_folder_is_removed(self):
        out = self.dir / "out"
        process = self.begin(out, 3)
        shutil.rmtree(out, ignore_errors=True)
        shutil.rmtree(out, ignore_errors=True)  # what was written in between
        self.ended(process, 3, "was removed, renamed or replaced", "run again")

    def test_the_folder_is_renamed(self):
        out = self.dir / "out"
        process = self.begin(out, 3)
        out.rename(self.dir / "renamed")
        self.ended(process, 3, "was removed, renamed or replaced", "with its new name")
        self.check_goes_on(self.dir / "renamed")

    def test_the_model_is_cut_off(self):
        out, content = self.dir / "out", self.model.read_bytes()
        process = self.begin(out, 2)
        self.model.write_bytes(b"")
        self.ended(process, 3, "cut off while they were read", "run again")
        self.model.write_bytes(content)
        self.check_goes_on(out)

    def test_the_model_is_replaced(self):
        out, other = self.dir / "out", self.dir / "other.onnx"
        content = self.model.read_bytes()
        process = self.begin(out, 3, "-v")
        changed = onnx.load(self.model)
        changed.doc_string = "changed"
        onnx.save(changed, other)
        other.rename(self.model)
        self.ended(process, 0, "was written while the run used it", "another --output")
        done = self.tune(out)
        self.says(done.returncode, done.stderr, 3, "a study of something else", "choose another folder or delete it")
        self.model.write_bytes(content)
        self.check_goes_on(out)

    def test_two_runs_in_one_folder(self):
        out = self.dir / "out"
        process = self.begin(out, 2)
        process.send_signal(signal.SIGSTOP)
        done = self.tune(out)
        process.send_signal(signal.SIGCONT)
        self.says(done.returncode, done.stderr, 3, f"process {process.pid} (", "seqto tune", "wait for it")
        self.ended(process, 0)
        self.check_goes_on(out)

    def test_shared_memory_is_full(self):
        if not can_mount():
            self.skipTest("mounting takes root")
        fill = "mount -t tmpfs -o size=4k tmpfs {0} && head -c 4096 /dev/zero > {0}/fill"
        (self.dir / "tmp").mkdir()
        shm, tmp = fill.format("/dev/shm"), fill.format(self.dir / "tmp")

        def shell(script):
            return ["unshare", "-m", "sh", "-c", f'{script} && exec "$0" "$@"']

        done = self.tune(self.dir / "one", prefix=shell(shm))
        self.says(done.returncode, done.stderr, 0)
        done = self.tune(self.dir / "two", prefix=shell(f"{shm} && {tmp}"), env={**os.environ, "TMPDIR": str(self.dir / "tmp")})
        self.says(done.returncode, done.stderr, 4, "no room for", "set TMPDIR")
        self.check_goes_on(self.dir / "two")

    def test_a_worker_finds_no_room(self):
        disk, out = self.mounted("32m"), self.dir / "out"
        # Weights and inputs go with the requests; outputs of 590 kB are files.
        self.data = models.arrays(self.dir / "x.npz")
        nodes = [models.node("Conv", ["x", "w"], ["c"]), models.node("Conv", ["c", "v"], ["d"]),
                 models.node("Resize", ["d", "", "scales"], ["y"])]
        models.save(self.model, nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4, 192, 192])],
                    [("w", models.weight(4, 3, 3, 3)), ("v", models.weight(4, 4, 1, 1)),
                     ("scales", np.float32([1, 1, 32, 32]))])
        shell = ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=4k tmpfs /dev/shm && head -c 4096 /dev/zero > "
                 '/dev/shm/fill && exec "$0" "$@"']
        process = self.begin(out, 2, prefix=shell, env={**os.environ, "TMPDIR": str(disk)})
        with contextlib.suppress(OSError), open(disk / "fill", "wb", 0) as file:
            while True:
                file.write(bytes(4096))
        self.ended(process, 4, "no room for", "set TMPDIR")
        self.check_goes_on(out)

    @unittest.skipIf(models.sanitized(), "UBSan asks by a pipe whether an address can be read")
    def test_few_descriptors(self):
        failed = 0
        for limit in (6, 8, 10, 12, 14, 20):
            done = self.tune(self.dir / f"out-{limit}",
                             preexec_fn=lambda n=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
            failed += done.returncode != 0
            if done.returncode:
                self.assertIn(done.returncode, (3, 4), done.stderr)
                self.assertIn("Too many open files", done.stderr)
        self.assertGreater(failed, 0)
        self.check_goes_on(self.dir / "out-10")

    @unittest.skipIf(models.sanitized(), "shadow memory is larger than the limits")
    def test_little_memory(self):
        failed = 0
        for megabytes in (110, 130, 140, 150, 160, 200, 1000):
            size, out = megabytes << 20, self.dir / f"out-{megabytes}"
            done = self.tune(out, preexec_fn=lambda n=size: resource.setrlimit(resource.RLIMIT_AS, (n, n)))
            self.assertFalse([t for t in trials(out) if t["failure"]], "a candidate is blamed for the machine")
            failed += done.returncode != 0
            if done.returncode:
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertRegex(done.stderr, "memory|failed to map segment")
        self.assertGreater(failed, 0)
        self.check_goes_on(self.dir / "out-150")

    def shim(self, **variables):
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not compiler or models.sanitized():
            self.skipTest("no compiler for what stands in front of the system")
        library = self.dir / "shim.so"
        (self.dir / "shim.c").write_text(SHIM)
        subprocess.run([compiler, "-shared", "-fPIC", self.dir / "shim.c", "-o", library, "-ldl"], check=True)
        return {**os.environ, "LD_PRELOAD": str(library), **variables}

    def test_no_more_threads(self):
        """Weights large enough for several."""
        model, out = self.dir / "wide.onnx", self.dir / "wide_int4.onnx"
        models.save(model, [models.node("MatMul", ["x", "w"], ["y"])], [("x", [1, 1024])], [("y", [1, 1024])], [("w", models.weight(1024, 1024))])
        words = [models.BINARY, "quantize", model, "--mode", "weights", "--weight-bits", "4", "-o", out]
        subprocess.run(words, check=True, capture_output=True)
        expected = out.read_bytes()
        done = subprocess.run(words, capture_output=True, text=True, env=self.shim(NO_THREADS="1"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(out.read_bytes(), expected)

    def test_the_clock_jumps(self):
        out = self.dir / "out"
        done = self.tune(out, env=self.shim(JUMPS="1"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(json.loads((out / "summary.json").read_text())["wall_seconds"], 0)
        self.check_goes_on(out)

    def test_the_quota_is_used_up(self):
        for quota in (1_000, 9_000, 30_000):  # in the first line, among trials, in a model
            out = self.dir / f"out-{quota}"
            done = self.tune(out, env=self.shim(DISK=str(out), QUOTA=str(quota)))
            self.says(done.returncode, done.stderr, 3, "Disk quota exceeded", "make room")
            self.check_goes_on(out)

    def test_the_disk_is_slow(self):
        out = self.dir / "out"
        done = self.tune(out, env=self.shim(DISK=str(out), SLOW="50"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_goes_on(out)

    def test_ten_thousand_trials(self):
        out = self.dir / "out"
        self.assertEqual(self.tune(out).returncode, 0)
        found = lines(out)
        last = max(i for i, line in enumerate(found) if line.startswith('{"trial"'))
        trial = json.loads(found[last])
        more, count = [], len(trials(out))
        for number in range(count, 10_000):
            trial["trial"].update(id=f"{number:016x}", number=number)
            trial["trial"]["size_bytes"] += 1
            more.append(json.dumps(trial, separators=(",", ":")))
        (out / "study.jsonl").write_text("\n".join(found[:last + 1] + more + found[last + 1:]) + "\n")

        def seconds(*words):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=300)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.assertEqual(done.returncode, 0, done.stderr)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        report = seconds(models.BINARY, "report", out, "-q")
        process = self.begin(out, len(lines(out)) + 1, "--max-evaluations", 10_001)
        words = (pathlib.Path("/proc") / str(process.pid) / "stat").read_text().rsplit(")", 1)[1].split()
        resumed = sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")
        process.kill()
        process.communicate()
        print(f"10,000 trials: report {report:.1f} s, resume {resumed:.1f} s of the processor")
        if not models.sanitized():
            self.assertLess(report, 3)
            self.assertLess(resumed, 3)
        self.assertGreater(len(trials(out)), 10_000)


if __name__ == "__main__":
    unit.main()
