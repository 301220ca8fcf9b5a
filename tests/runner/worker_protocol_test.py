"""`seqto worker` through plain pipes, by docs/reference/worker_protocol.md alone."""

import base64
import hashlib
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

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402

TYPES = {"float32": np.float32, "int64": np.int64, "uint8": np.uint8}


class Worker:
    def __init__(self, blobs, env=None):
        self.blobs = blobs
        self.process = subprocess.Popen([models.BINARY, "worker", "--blobs", str(blobs)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})})
        self.last = 0

    def write(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def send(self, verb, **fields):
        self.last += 1
        self.write(json.dumps({"id": self.last, "verb": verb, **fields}))
        return self.last

    def read(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def ask(self, verb, **fields):
        sent, reply = self.send(verb, **fields), self.read()
        assert reply["id"] == sent, reply
        return reply

    def put(self, data):
        name = hashlib.sha256(data).hexdigest()
        if not (self.blobs / name).exists():
            (self.blobs / (name + ".part")).write_bytes(data)
            (self.blobs / (name + ".part")).rename(self.blobs / name)
        return name

    def tensor(self, array, blob=None):
        data, kind = array.tobytes(), next(k for k, v in TYPES.items() if v == array.dtype)
        message = {"type": kind, "dims": list(array.shape)}
        if blob if blob is not None else len(data) > 1024:
            return {**message, "blob": self.put(data)}
        return {**message, "base64": base64.b64encode(data).decode()}

    def array(self, message):
        if "blob" in message:
            data = (self.blobs / message["blob"]).read_bytes()
            (self.blobs / message["blob"]).unlink()
        else:
            data = base64.b64decode(message["base64"])
        return np.frombuffer(data, TYPES[message["type"]]).reshape(message["dims"])

    def end(self):
        self.process.stdin.close()
        rest = self.process.stdout.read()
        code = self.process.wait(60)
        self.process.stdout.close()
        self.process.stderr.close()
        return code, rest


def scaler(size, weight):
    """y = x * w, and its weight apart from it."""
    node = helper.make_node("Mul", ["x", "w"], ["y"])
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [size]) for n in ("x", "y")]
    graph = helper.make_graph([node], "g", io[:1], io[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    whole.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model.SerializeToString(), whole.SerializeToString()


def endless():
    body = helper.make_graph([helper.make_node("Identity", ["before"], ["after"]), helper.make_node("Sin", ["a"], ["b"])], "body",
                             [helper.make_tensor_value_info("i", TensorProto.INT64, []),
                              helper.make_tensor_value_info("before", TensorProto.BOOL, []),
                              helper.make_tensor_value_info("a", TensorProto.FLOAT, [4])],
                             [helper.make_tensor_value_info("after", TensorProto.BOOL, []),
                              helper.make_tensor_value_info("b", TensorProto.FLOAT, [4])])
    graph = helper.make_graph([helper.make_node("Loop", ["trips", "go", "x"], ["y"], body=body)], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
                              [numpy_helper.from_array(np.array(2**63 - 1, np.int64), "trips"),
                               numpy_helper.from_array(np.array(True), "go")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


class Linked:
    """A worker with --stream: no folder is shared."""

    def __init__(self, kept):
        self.process = subprocess.Popen([models.BINARY, "worker", "--stream", "--blobs", str(kept)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.last = self.sent = 0

    def ask(self, blobs=(), **request):
        """The reply, and the blobs that came with it. `blobs` are sent before."""
        for name, data in dict(blobs).items():
            self.process.stdin.write(json.dumps({"blob": name, "bytes": len(data)}).encode() + b"\n" + data)
            self.sent += len(data)
        self.last += 1
        self.process.stdin.write(json.dumps({"id": self.last, **request}).encode() + b"\n")
        self.process.stdin.flush()
        came = {}
        while True:
            message = json.loads(self.process.stdout.readline())
            if "blob" not in message:
                assert message["id"] == self.last
                return message, came
            came[message["blob"]] = self.process.stdout.read(message["bytes"])

    def give(self, blobs, **request):
        """Asks, gives what is lacking, and asks again."""
        reply, came = self.ask(**request)
        if "lacks" in reply:
            reply, came = self.ask({name: blobs[name] for name in reply["lacks"]}, **request)
        return reply["ok"], came

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(60)


class OverALink(unittest.TestCase):
    def setUp(self):
        self.kept = pathlib.Path(tempfile.mkdtemp(prefix="seqto-protocol-"))
        self.addCleanup(shutil.rmtree, self.kept)
        self.weight = np.arange(5000, dtype=np.float32)
        proto = scaler(5000, self.weight)[0]
        self.blobs = {"w0": self.weight.tobytes(), "x-1": (self.weight + 1).tobytes()}
        self.model = {"proto": {"type": "uint8", "dims": [len(proto)], "base64": base64.b64encode(proto).decode()},
                      "weights": [{"name": "w", "type": "float32", "dims": [5000], "blob": "w0"}]}
        self.inputs = [{"type": "float32", "dims": [5000], "blob": "x-1"}]

    def run_once(self, worker):
        loaded, came = worker.give(self.blobs, verb="load", model=self.model)
        self.assertEqual(came, {})
        ran, came = worker.give(self.blobs, verb="run", session=loaded["session"], inputs=self.inputs)
        output, = came.values()
        self.assertEqual(list(came), [ran["outputs"][0]["blob"]])
        np.testing.assert_array_equal(np.frombuffer(output, np.float32), self.weight * (self.weight + 1))

    def test_blobs_are_asked_for_and_kept(self):
        worker = Linked(self.kept)
        self.assertEqual(worker.ask(verb="load", model=self.model)[0]["lacks"], ["w0"])
        self.run_once(worker)
        self.assertEqual(worker.sent, 40000)
        self.run_once(worker)
        self.assertEqual(worker.sent, 40000)
        self.assertEqual(worker.end(), 0)
        self.assertEqual(sorted(p.name for p in self.kept.iterdir()), ["w0", "x-1"])  # outputs are not
        later = Linked(self.kept)
        self.run_once(later)
        self.assertEqual(later.sent, 0)
        (self.kept / "x-1").unlink()  # another worker made room
        self.run_once(later)
        self.assertEqual(later.sent, 20000)
        self.assertEqual(later.end(), 0)

    def test_a_blob_cut_short_is_the_end(self):
        worker = Linked(self.kept)
        worker.process.stdin.write(b'{"blob": "w0", "bytes": 1000}\n' + b"x" * 999)
        self.assertEqual(worker.end(), 0)
        self.assertEqual(list(self.kept.iterdir()), [])

    def test_a_name_that_leads_out_is_refused(self):
        worker = Linked(self.kept)
        self.addCleanup(worker.end)
        worker.process.stdin.write(b'{"blob": "../w0", "bytes": 3}\n')
        worker.process.stdin.flush()
        reply = json.loads(worker.process.stdout.readline())
        self.assertIn("is no name of a blob", reply["error"]["message"])


def as_bytes(text):
    return np.frombuffer(text, np.uint8)


class Protocol(unittest.TestCase):
    def setUp(self):
        self.blobs = pathlib.Path(tempfile.mkdtemp(prefix="seqto-protocol-"))
        self.addCleanup(shutil.rmtree, self.blobs)
        self.worker = Worker(self.blobs)
        self.addCleanup(self.kill)

    def kill(self):
        self.worker.process.kill()
        self.worker.process.wait()
        for pipe in (self.worker.process.stdin, self.worker.process.stdout, self.worker.process.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass

    def load(self, model):
        return self.worker.ask("load", model={"proto": self.worker.tensor(as_bytes(model)), "weights": []})["ok"]["session"]

    def error(self, reply, code, part):
        self.assertEqual(reply["error"]["code"], code, reply)
        self.assertIn(part, reply["error"]["message"])

    def test_hello(self):
        reply = self.worker.ask("hello", protocol=1)["ok"]
        self.assertEqual((reply["protocol"], reply["device"], reply["threads"]), (1, "cpu", 1))
        self.assertTrue(reply["runner"].startswith("onnxruntime "))
        # What the kernel can hold it to is in force: Confine.* of the room base looks at what that means.
        status = pathlib.Path(f"/proc/{self.worker.process.pid}/status").read_text()
        self.assertEqual("network" in reply["confined"], "Seccomp:\t2" in status)
        self.assertLessEqual(set(reply["confined"]), {"writing", "network"})
        self.error(self.worker.ask("hello", protocol=99), "invalid_input", "protocol 99 found")

    def test_a_file(self):
        loaded = self.worker.ask("load", file=str(models.DIGITS))["ok"]
        self.assertEqual((loaded["inputs"], loaded["outputs"]), (["x"], ["logits"]))
        x = np.load(models.DIGITS_DATA)["x"][:1].astype(np.float32)
        reply = self.worker.ask("run", session=loaded["session"], inputs=[self.worker.tensor(x)])["ok"]
        import onnxruntime
        expected = onnxruntime.InferenceSession(str(models.DIGITS)).run(None, {"x": x})[0]
        np.testing.assert_allclose(self.worker.array(reply["outputs"][0]), expected, rtol=1e-5, atol=1e-5)
        self.assertGreater(reply["ns"], 0)

    def test_models_share_a_weight(self):
        size = 5000
        weight = np.arange(size, dtype=np.float32)
        proto, whole = scaler(size, weight)
        w = {"name": "w", **self.worker.tensor(weight)}
        apart = [self.worker.ask("load", model={"proto": self.worker.tensor(as_bytes(proto)), "weights": [w]}) for _ in range(2)]
        self.assertEqual(len(list(self.blobs.iterdir())), 1)
        x = np.full(size, 0.5, np.float32)
        sessions = [a["ok"]["session"] for a in apart] + [self.load(whole)]
        self.assertEqual(len(set(sessions)), 3)
        for file in self.blobs.iterdir():
            file.unlink()  # all is loaded
        for session in sessions:
            reply = self.worker.ask("run", session=session, inputs=[self.worker.tensor(x)])["ok"]
            np.testing.assert_array_equal(self.worker.array(reply["outputs"][0]), x * weight)
        self.assertEqual(len(list(self.blobs.iterdir())), 1)  # x

    def test_small_blob_and_big_text(self):
        for size, blob in ((3, True), (5000, False)):
            weight = np.ones(size, np.float32)
            session, x = self.load(scaler(size, weight)[1]), np.arange(size, dtype=np.float32)
            reply = self.worker.ask("run", session=session, inputs=[self.worker.tensor(x, blob=blob)])["ok"]
            np.testing.assert_array_equal(self.worker.array(reply["outputs"][0]), x)

    def test_time(self):
        session = self.load(scaler(3, np.ones(3, np.float32))[1])
        ns = self.worker.ask("time", session=session, inputs=[self.worker.tensor(np.ones(3, np.float32))], repeats=5)["ok"]["ns"]
        self.assertEqual(len(ns), 5)
        self.assertTrue(all(n > 0 for n in ns))

    def test_optimize(self):
        proto = self.worker.tensor(as_bytes(scaler(5000, np.ones(5000, np.float32))[1]))
        model = self.worker.ask("optimize", model={"proto": proto, "weights": []})["ok"]["model"]
        self.assertEqual([w["name"] for w in model["weights"]], ["w"])
        self.assertEqual(onnx.load_from_string(self.worker.array(model["proto"]).tobytes()).graph.node[0].op_type, "Mul")

    def test_memory_and_places(self):
        model = {"proto": self.worker.tensor(np.frombuffer(models.DIGITS.read_bytes(), np.uint8)), "weights": []}
        inputs = [self.worker.tensor(np.zeros((1, 1, 8, 8), np.float32))]
        nodes = self.worker.ask("place", model=model, inputs=inputs, runs=5)["ok"]["nodes"]
        self.assertTrue(nodes)
        self.assertEqual({n["provider"] for n in nodes}, {"CPUExecutionProvider"})
        self.assertTrue(all(n["ns"] >= 0 for n in nodes))
        memory = self.worker.ask("memory")["ok"]
        self.assertGreaterEqual(memory["peak_bytes"], memory["resident_bytes"])
        self.assertGreater(memory["resident_bytes"], 1 << 20)

    def test_unload(self):
        session = self.load(scaler(3, np.ones(3, np.float32))[1])
        self.assertEqual(self.worker.ask("unload", session=session)["ok"], {})
        self.error(self.worker.ask("run", session=session, inputs=[]), "invalid_input", f"no session {session} found")

    def test_replies_out_of_order(self):
        session = self.load(endless())
        x = [self.worker.tensor(np.ones(4, np.float32))]
        running, waiting = (self.worker.send("run", session=session, inputs=x) for _ in range(2))
        hello = self.worker.ask("hello", protocol=1)  # answered while the run goes on
        self.assertIn("ok", hello)
        cancel = self.worker.send("cancel", request=waiting)
        replies = {r["id"]: r for r in (self.worker.read(), self.worker.read())}
        self.error(replies[waiting], "interrupted", "cancelled")
        self.assertEqual(replies[cancel]["ok"], {"found": True})
        replies = {}
        while running not in replies:
            self.worker.send("cancel", request=running)
            reply = self.worker.read()
            replies[reply["id"]] = reply
            time.sleep(0.01)
        self.error(replies[running], "interrupted", "cancelled")
        self.worker.write(json.dumps({"id": 1000, "verb": "cancel", "request": 12345}))
        while (reply := self.worker.read())["id"] != 1000:
            pass
        self.assertEqual(reply["ok"], {"found": False})

    def test_garbage_gets_an_error_and_the_worker_goes_on(self):
        for line in ("garbage", "{", "[]", "7", '"x"', "null", '{"id": "one", "verb": "hello"}', '{"verb": "hello", "protocol": 1}',
                     "\x00\x01", '{"id": 1.5, "verb": "hello"}', "[" * 5000):
            self.worker.write(line)
            reply = self.worker.read()
            self.assertEqual(reply["error"]["code"], "invalid_input", line)
        self.worker.write("")  # no request, no reply
        session = self.load(scaler(300, np.ones(300, np.float32))[1])
        x = self.worker.tensor(np.ones(300, np.float32))
        good = {"session": session, "inputs": [x]}
        (self.blobs / "short").write_bytes(b"1234")
        for verb, fields, part in (
                ("fly", {}, "verb 'fly' found"), ("hello", {}, "'protocol'"), ("hello", {"protocol": "1"}, "'protocol'"),
                ("load", {}, "'model'"), ("load", {"model": {}}, "'proto'"), ("load", {"file": 7}, "'file'"),
                ("load", {"file": "/nowhere.onnx"}, "/nowhere.onnx"), ("load", {"file": str(models.DIGITS), "optimization": "x"}, "'x'"),
                ("load", {"model": {"proto": self.worker.tensor(as_bytes(b"no model")), "weights": []}}, "not an ONNX model"),
                ("run", {}, "'session'"), ("run", {"session": 99, "inputs": []}, "no session 99"),
                ("run", {"session": session}, "'inputs'"), ("run", {**good, "inputs": 5}, "list of tensors"),
                ("run", {**good, "inputs": []}, "0 inputs found"), ("run", {**good, "inputs": [7]}, "'type'"),
                ("run", {**good, "inputs": [{**x, "type": "float99"}]}, "float99"),
                ("run", {**good, "inputs": [{**x, "dims": [301]}]}, "1200 bytes found"),
                ("run", {**good, "inputs": [{**x, "dims": [-300]}]}, "1200 bytes found"),
                ("run", {**good, "inputs": [{**x, "dims": [2**62, 2**62]}]}, "1200 bytes found"),
                ("run", {**good, "inputs": [{"type": "float32", "dims": [300], "blob": "short"}]}, "4 bytes found"),
                ("run", {**good, "inputs": [{"type": "float32", "dims": [300], "blob": "nowhere"}]}, "no blob 'nowhere'"),
                ("run", {**good, "inputs": [{"type": "float32", "dims": [300], "blob": "../../etc/passwd"}]}, "no blob"),
                ("run", {**good, "inputs": [{"type": "float32", "dims": [300], "base64": "?"}]}, "base64"),
                ("time", {**good}, "'repeats'"), ("unload", {"session": 99}, "no session 99"), ("cancel", {}, "'request'")):
            with self.subTest(verb=verb, fields=str(fields)[:200]):
                self.error(self.worker.ask(verb, **fields), "invalid_input", part)
        self.assertIn("ok", self.worker.ask("run", **good))

    def test_shutdown_finishes_what_was_asked(self):
        session = self.load(scaler(3, np.ones(3, np.float32))[1])
        run = self.worker.send("run", session=session, inputs=[self.worker.tensor(np.ones(3, np.float32))])
        stop = self.worker.send("shutdown")
        self.assertEqual([self.worker.read()["id"] for _ in range(2)], [run, stop])
        self.assertEqual(self.worker.end(), (0, ""))

    def test_end_of_input_finishes_what_was_asked(self):
        session = self.load(scaler(3, np.ones(3, np.float32))[1])
        asked = [self.worker.send("run", session=session, inputs=[self.worker.tensor(np.ones(3, np.float32))]) for _ in range(5)]
        code, rest = self.worker.end()
        self.assertEqual(code, 0)
        self.assertEqual([json.loads(line)["id"] for line in rest.splitlines()], asked)

    def test_ends_with_its_asker_in_the_middle_of_a_run(self):
        session = self.load(endless())
        self.worker.send("run", session=session, inputs=[self.worker.tensor(np.ones(4, np.float32))])
        self.worker.process.stdin.close()
        self.worker.process.stdout.close()
        self.assertEqual(self.worker.process.wait(60), 0)

    def test_what_a_library_prints_is_no_reply(self):
        library = os.environ.get("SEQTO_MISBEHAVING_ORT_LIBRARY", "")
        if not os.path.exists(library):
            self.skipTest("no runtime that prints")
        self.kill()
        self.worker = Worker(self.blobs, {"SEQTO_ORT_LIBRARY": library})
        model = onnx.load_from_string(scaler(3, np.ones(3, np.float32))[1])
        model.graph.name = "misbehave_run_print"
        session = self.load(model.SerializeToString())
        self.assertIn("ok", self.worker.ask("run", session=session, inputs=[self.worker.tensor(np.ones(3, np.float32))]))
        self.worker.process.kill()
        self.assertIn("printed by a library", self.worker.process.stderr.read())

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_what_runs_models_is_confined(self):
        """A library in the place of the runtime finds what a model that took it over would find."""
        confined = self.worker.ask("hello", protocol=1)["ok"]["confined"]
        with tempfile.TemporaryDirectory() as folder:
            source, library, victim = (pathlib.Path(folder) / n for n in ("runtime.c", "libonnxruntime.so", "victim"))
            source.write_text(f"""
                #include <fcntl.h>
                #include <stdio.h>
                #include <sys/socket.h>
                static const char* version(void) {{ return "0.1"; }}
                static const void* base[] = {{0, version}};
                const void* OrtGetApiBase(void) {{
                  fprintf(stderr, "writing %d, network %d, reading %d\\n", open("{victim}", O_CREAT | O_WRONLY, 0600) >= 0,
                          socket(AF_INET, SOCK_STREAM, 0) >= 0, open("{source}", O_RDONLY) >= 0);
                  return base;
                }}""")
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
            done = subprocess.run([models.BINARY, "worker", "--blobs", str(self.blobs), "--runtime-library", library],
                                  capture_output=True, text=True, input='{"id": 1, "verb": "hello", "protocol": 1}\n')
            self.assertIn(f"writing {int('writing' not in confined)}, network {int('network' not in confined)}, reading 1", done.stderr)
            self.assertEqual(victim.exists(), "writing" not in confined)
            self.assertEqual(json.loads(done.stdout)["error"]["code"], "unavailable")

    def test_needs_its_folder(self):
        done = models.seqto("worker", "--blobs", "/nowhere")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere", done.stderr)

    def test_termination(self):
        self.worker.ask("hello", protocol=1)
        self.worker.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.worker.process.wait(60), -signal.SIGTERM)


if __name__ == "__main__":
    unit.main()
