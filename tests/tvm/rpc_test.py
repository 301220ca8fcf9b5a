"""Models run by TVM over its RPC: our server, TVM's own, a tracker; and studies over links that break."""

import json
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, tvm  # noqa: E402

tvm.skip_without_tvm()
import numpy as np  # noqa: E402

CACHE = tempfile.mkdtemp(prefix="seqto-tvm-cache-")  # of the whole script: every study compiles the same candidates
ENV = {"XDG_CACHE_HOME": CACHE}


def tearDownModule():
    shutil.rmtree(CACHE)


class WithServers(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-rpc-test-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def ending(self, program):
        self.addCleanup(program.stop)
        return program


class Run(WithServers):
    def setUp(self):
        super().setUp()
        self.data = self.dir / "digits.npz"
        full = np.load(models.DIGITS_DATA)
        np.savez(self.data, **{name: full[name][:6] for name in full.files})

    def run_on(self, device, *flags):
        out = self.dir / "out.npz"
        out.unlink(missing_ok=True)
        done = models.seqto("run", models.DIGITS, "--data", self.data, "--device", device, "-o", out, "-q", *flags,
                            env=ENV)
        return done, (dict(np.load(out)) if out.exists() else None)

    def same_as_here(self, device):
        done, expected = self.run_on("tvm:llvm")
        self.assertEqual(done.returncode, 0, done.stderr)
        done, found = self.run_on(device)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, values in expected.items():
            np.testing.assert_array_equal(values, found[name])

    def test_our_server(self):
        server = self.ending(tvm.serve("--threads", "2"))
        self.same_as_here(f"tvm+rpc:127.0.0.1:{server.port}:k:llvm")

    def test_tvms_own_server(self):
        server = self.ending(tvm.python_serve())
        self.same_as_here(f"tvm+rpc:127.0.0.1:{server.port}:k:llvm")

    def test_tracker(self):
        tracker = self.ending(tvm.tracker())
        self.ending(tvm.serve("--tracker", f"127.0.0.1:{tracker.port}", key="board"))
        for _ in range(2):
            self.same_as_here(f"tvm+tracker:127.0.0.1:{tracker.port}:board:llvm")

    def test_tvms_own_client(self):
        """What is compiled for seqto runs from Python too."""
        server = self.ending(tvm.serve())
        code = ("import sys, numpy, tvm\nfrom tvm import rpc\n"
                "s = rpc.connect('127.0.0.1', int(sys.argv[1]), 'k')\n"
                "x = tvm.runtime.tensor(numpy.arange(4, dtype='float32'), s.cpu(0))\nprint(x.numpy().sum())\n")
        done = subprocess.run([tvm.PYTHON, "-c", code, str(server.port)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.stdout.strip(), "6.0", done.stderr)

    def test_uploaded_once(self):
        given = self.dir / "given"
        given.mkdir()
        for i in range(20): (given / f"mine{i}").write_text("stays")
        folder = given / "seqto-uploads"
        server = self.ending(tvm.serve("--folder", given))
        device = f"tvm+rpc:127.0.0.1:{server.port}:k:llvm"
        self.same_as_here(device)
        files = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
        self.assertEqual(len(files), 1)
        self.same_as_here(device)
        self.assertEqual({p.name: p.stat().st_mtime_ns for p in folder.iterdir()}, files)
        for path in folder.iterdir():
            path.unlink()
        self.same_as_here(device)
        self.assertEqual({p.name for p in folder.iterdir()}, set(files))
        self.assertEqual(len(list(given.iterdir())), 21, "a file of the user's own is gone")

    def test_wrong_key(self):
        server = self.ending(tvm.serve())
        done, _ = self.run_on(f"tvm+rpc:127.0.0.1:{server.port}:other:llvm", "--reconnect", "0")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("another key", done.stderr)

    def test_nobody_listens(self):
        done, _ = self.run_on(f"tvm+rpc:127.0.0.1:{tvm.free_port()}:k:llvm", "--reconnect", "0")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("refused", done.stderr)

    def test_something_else_listens(self):
        def greet(listening):
            while True:
                try:
                    client, _ = listening.accept()
                    client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                except OSError:
                    return
        with socket.create_server(("127.0.0.1", 0)) as listening:
            threading.Thread(target=greet, args=(listening,), daemon=True).start()
            port = listening.getsockname()[1]
            done, _ = self.run_on(f"tvm+rpc:127.0.0.1:{port}:k:llvm", "--reconnect", "0")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("no TVM RPC server", done.stderr)

    def test_device_serve_is_the_server_and_ends_cleanly(self):
        program = tvm.Program([models.BINARY, "device", "serve", "--port", "0", "--key", "k"],
                              r"listening on \S+:(\d+)", env={"TMPDIR": str(self.dir)})
        folders = list(self.dir.glob("seqto-tvm-*"))
        self.assertEqual(len(folders), 1)
        self.same_as_here(f"tvm+rpc:127.0.0.1:{program.match[1]}:k:llvm")
        self.assertEqual(program.stop(signal.SIGTERM), 0)
        self.assertFalse(folders[0].exists())

    def test_no_server_leaves_its_folder(self):
        def serve():
            return tvm.Program([tvm.WORKER, "serve", "--port", "0"], r"listening", env={"TMPDIR": str(folder)})

        folder = self.dir / "temporary"
        folder.mkdir()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number):
                program = serve()
                self.assertEqual(len(list(folder.glob("seqto-tvm-*"))), 1)
                self.assertEqual(program.stop(number), 0)
                self.assertEqual(list(folder.iterdir()), [])
        serve().stop(signal.SIGKILL)
        (left,) = folder.glob("seqto-tvm-*")
        alive, other = serve(), serve()
        self.assertFalse(left.exists(), "the next server removes what one that was killed left")
        self.assertEqual(len(list(folder.glob("seqto-tvm-*"))), 2, "those of living servers stay")
        self.assertEqual((alive.stop(), other.stop()), (0, 0))
        self.assertEqual(list(folder.iterdir()), [])

    def test_other_machines_are_kept_out(self):
        done = models.seqto("device", "serve", "--host", "0.0.0.0", "--port", "0")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("loopback", done.stderr)


class Study(WithServers):
    """The example's study on loopback, disturbed in several ways: its trials are those of an undisturbed one."""

    FLAGS = ["--strategy", "incremental", "--schemes", "int8,float32", "--calibration-samples", "16",
             "--evaluation-samples", "24", "--max-evaluations", "5", "-q"]
    seconds = None

    def command(self, port, out, *flags):
        return [models.BINARY, "tune", models.DIGITS, "--data", models.DIGITS_DATA, "--device",
                f"tvm+rpc:127.0.0.1:{port}:k:llvm", "-o", out, *self.FLAGS, *flags]

    def start(self, port, out, *flags):
        return subprocess.Popen([str(word) for word in self.command(port, out, *flags)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env={**tvm.os.environ, **ENV})

    def trials(self, out):
        def plain(value):
            if isinstance(value, dict):
                return {k: plain(v) for k, v in value.items() if "latenc" not in k and not k.endswith("_ns")}
            return [plain(v) for v in value] if isinstance(value, list) else value
        file = out / "study.jsonl"
        entries = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [plain(entry["trial"]) for entry in entries if "trial" in entry]

    def wait_for_trials(self, process, out, count):
        deadline = time.monotonic() + 300
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if len(self.trials(out)) >= count:
                    return
            except ValueError:  # the last line is being written
                pass
            time.sleep(0.01)

    def finished(self, process, code=0):
        _, said = process.communicate(timeout=600)
        self.assertEqual(process.returncode, code, said)
        return said

    def expected(self):
        """The trials of an undisturbed study, and how long it took; made once."""
        if Study.seconds is None:
            server = tvm.serve()
            out = pathlib.Path(CACHE) / "undisturbed"
            self.finished(self.start(server.port, pathlib.Path(CACHE) / "warm"))  # fills the cache of compiled models
            start = time.monotonic()
            self.finished(self.start(server.port, out))
            Study.seconds = time.monotonic() - start
            server.stop()
            Study.undisturbed = self.trials(out)
            self.assertEqual(len(Study.undisturbed), 5)
            self.assertTrue(all("failure" not in trial or not trial["failure"] for trial in Study.undisturbed))
        return Study.undisturbed

    def compare(self, out, what, start):
        self.assertEqual(self.trials(out), self.expected())
        seconds = time.monotonic() - start
        print(f"{what}: {seconds:.2f} s, undisturbed {Study.seconds:.2f} s", flush=True)
        return seconds

    def test_server_killed_and_restarted(self):
        self.expected()
        server, out = tvm.serve(), self.dir / "study"
        start = time.monotonic()
        process = self.start(server.port, out)
        self.wait_for_trials(process, out, 2)
        self.assertIsNone(process.poll())
        server.stop(signal.SIGKILL)
        time.sleep(1)
        self.ending(tvm.serve(port=server.port))
        self.finished(process)
        self.compare(out, "server killed and restarted after 1 s", start)

    def test_server_that_hangs(self):
        self.expected()
        server, out = self.ending(tvm.serve()), self.dir / "study"
        start = time.monotonic()
        process = self.start(server.port, out, "--run-timeout", "2")
        self.wait_for_trials(process, out, 2)
        self.assertIsNone(process.poll())
        server.send(signal.SIGSTOP)
        time.sleep(4)
        server.send(signal.SIGCONT)
        self.finished(process)
        self.compare(out, "server that hung for 4 s", start)

    def through(self, what, **faults):
        self.dir = pathlib.Path(tempfile.mkdtemp(dir=self.dir))
        self.expected()
        server, out = self.ending(tvm.serve()), self.dir / "study"
        proxy = tvm.Proxy(server.port, **faults)
        self.addCleanup(proxy.close)
        start = time.monotonic()
        self.finished(self.start(proxy.port, out, "--run-timeout", "5"))
        proxy.seconds = self.compare(out, f"{what}, {proxy.faults} of {proxy.connections} connections", start)
        return proxy

    def test_link_cut(self):
        calm = self.through("the same link without a fault")
        proxy = self.through("30 % of connections cut", cut=0.3, seed=2)
        self.assertGreater(proxy.connections, 1)
        print(f"30 % of connections cut: {proxy.seconds / calm.seconds:.2f} x the time without", flush=True)

    def test_every_other_connection_cut(self):
        proxy = self.through("half of the connections cut", cut=0.5, seed=1)
        self.assertGreater(proxy.faults, 0)

    def test_garbage(self):
        proxy = self.through("garbage from the server", garbage=0.5, seed=1)
        self.assertGreater(proxy.faults, 0)

    def test_slow(self):
        self.through("5 ms slower each way", delay=0.005)

    def test_device_that_stays_away(self):
        self.expected()
        server, out = tvm.serve(), self.dir / "study"
        process = self.start(server.port, out, "--reconnect", "1")
        self.wait_for_trials(process, out, 2)
        self.assertIsNone(process.poll())
        server.stop(signal.SIGKILL)
        said = self.finished(process, code=4)
        self.assertIn("away", said)
        here = self.trials(out)
        self.assertEqual(here, self.expected()[:len(here)])
        self.ending(tvm.serve(port=server.port))
        start = time.monotonic()
        self.finished(self.start(server.port, out))
        self.compare(out, "continued after the device was back", start)


if __name__ == "__main__":
    unittest.main()
