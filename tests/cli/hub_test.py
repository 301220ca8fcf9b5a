"""seqto hub against a server that cuts, redirects, lies and packs traps; nothing unverified is ever used."""

import hashlib
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest

import numpy as np
import onnx
import onnx.numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.hub_server import Hub  # noqa: E402

USAGE, INVALID, UNAVAILABLE, INTERRUPTED = 2, 3, 4, 130
BODY = bytes(range(256)) * 400


def packed(*members, mode="w:gz"):
    """A .tar.gz of (name, bytes) pairs and TarInfo objects."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, compresslevel=1) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                tar.addfile(info, io.BytesIO(member[1]))
    return buffer.getvalue()


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


class HubTest(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-hub-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.cache = self.dir / "cache"
        self.hub = Hub()
        self.addCleanup(self.hub.close)
        self.env = {"SEQTO_HUB_URL": self.hub.url, "SEQTO_HUB_CACHE": str(self.cache), "SEQTO_HUB_MANIFEST": "",
                    "no_proxy": "*"}

    def run_hub(self, *words, code=0, said=(), env=None):
        done = models.seqto("hub", *words, env=self.env | (env or {}))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in said:
            self.assertIn(word, done.stdout + done.stderr)
        self.assertNotIn("internal error", done.stderr)
        return done.stdout

    def start(self, *words):
        return subprocess.Popen([models.BINARY, "hub", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=os.environ | self.env)

    def cached(self, suffix=""):
        """What the cache holds but for lists and locks."""
        return sorted(p for p in self.cache.rglob("*" + suffix)
                      if p.is_file() and p.suffix != ".lock" and not p.name.startswith("manifest_"))

    def fetched(self, name="Net", body=BODY):
        path = pathlib.Path(self.run_hub("fetch", name).strip())
        self.assertEqual(path.read_bytes(), body)
        self.assertEqual(self.cached(".part"), [])
        return path

    def wait_for(self, condition):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline, "waited in vain")
            time.sleep(0.01)


class List(HubTest):
    def setUp(self):
        super().setUp()
        for name, opset, tags in (("MobileNet v2-1.0", 10, ["vision"]), ("MobileNet v2-1.0", 12, ["vision"]),
                                  ("GPT-2", 10, ["text", "gpt-2"])):
            self.hub.add(name, BODY, opset, tags=tags)

    def names(self, *words):
        return [(m["model"], m["opset"]) for m in json.loads(self.run_hub("list", *words, "--json"))]

    def test_filters(self):
        self.assertEqual(len(self.names()), 3)
        self.assertEqual(self.names("mobilenet"), [("MobileNet v2-1.0", 10), ("MobileNet v2-1.0", 12)])
        self.assertEqual(self.names("g*2"), [("GPT-2", 10)])
        self.assertEqual(self.names("--opset", 10), [("MobileNet v2-1.0", 10), ("GPT-2", 10)])
        self.assertEqual(self.names("--tag", "TEXT,none"), [("GPT-2", 10)])
        self.assertEqual(self.names("mobile", "--opset", 13), [])

    def test_text_and_ports(self):
        said = self.run_hub("list")
        self.assertIn("GPT-2@10", said)
        self.assertIn("x Nx1x8x8", said)
        self.assertIn("3 models", said)
        entry = json.loads(self.run_hub("list", "gpt", "--json"))[0]
        self.assertEqual(entry["inputs"], [{"name": "x", "type": "tensor(float)", "shape": ["N", "1", "8", "8"]}])

    def test_names(self):
        self.assertTrue(self.run_hub("fetch", "mobilenet V2-1.0").strip().endswith("-12.onnx"), "the largest opset")
        self.assertTrue(self.run_hub("fetch", "MobileNet v2-1.0@10").strip().endswith("-10.onnx"))
        self.run_hub("fetch", "MobileNet v2-1.0@9", code=INVALID, said=["opset 10 or 12"])
        self.run_hub("fetch", "GTP-2", code=INVALID, said=["nearest", "GPT-2"])

    def test_manifest_of_another_place(self):
        self.hub.files["/lists/mine.json"] = json.dumps(self.hub.models[2:]).encode()
        env = {"SEQTO_HUB_MANIFEST": self.hub.url + "/lists/mine.json"}
        self.run_hub("list", env=env, said=["1 model\n"])
        self.run_hub("list", "--hub-manifest", self.hub.url + "/ONNX_HUB_MANIFEST.json", env=env, said=["3 models"])

    def test_broken_lists(self):
        for text, said in ((b"{}", "no JSON list"), (b"<html>", "no JSON list"), (b"[1]", "entry 0"),
                           (b"[{}]", "no name"),
                           (b'[{"model": "a"}]', "no model_path"),
                           (b'[{"model": "a", "model_path": "../../a.onnx"}]', "unsafe path"),
                           (b'[{"model": "a", "model_path": "/etc/a.onnx"}]', "unsafe path"),
                           (b'[{"model": "a", "model_path": "a", "metadata": {"model_sha": "xyz"}}]', "no SHA-256")):
            with self.subTest(text=text):
                self.hub.files["/ONNX_HUB_MANIFEST.json"] = text
                self.run_hub("list", code=INVALID, said=[said, "[hub]"])
        self.hub.files.clear()
        self.run_hub("list", code=UNAVAILABLE, said=["404"], env={"SEQTO_HUB_CACHE": str(self.dir / "empty")})

    def test_not_a_url(self):
        for url in ("file:///etc", "ftp://127.0.0.1", "nothing"):
            self.run_hub("list", "--hub-url", url, code=USAGE, said=["https://"])


class Fetch(HubTest):
    def test_progress_is_told_as_people_read_sizes(self):
        self.hub.add("Net", BODY)
        done = models.seqto("hub", "fetch", "Net", env=self.env)
        self.assertRegex(done.stderr, r"fetch [\d.]+ [kM]?B/[\d.]+ [kM]?B")

    def test_once(self):
        path = self.hub.add("Net", BODY)
        self.assertEqual(self.fetched(), self.fetched())
        self.assertEqual(len(self.hub.asked(path)), 1)

    def test_copies(self):
        self.hub.add("Net", BODY, archive=packed(("net/net.onnx", BODY), ("net/test_data_set_0/input_0.pb", b"in"),
                                                 ("net/test_data_set_0/output_0.pb", b"out"),
                                                 ("net/test_data_set_10/input_0.pb", b"10"),
                                                 ("net/test_data_set_2/input_0.pb", b"2"), ("net/._net.onnx", b"mac")))
        out = self.dir / "out"
        said = self.run_hub("fetch", "Net", "--test-data", "-o", out).split()
        own = out / "net-12"
        self.assertEqual(said, [str(own / "net-12.onnx")] + [str(own / f"test_data_set_{i}") for i in (0, 2, 10)])
        self.assertEqual((own / "test_data_set_0/output_0.pb").read_bytes(), b"out")
        self.assertEqual(list(self.dir.rglob("._*")), [])
        before = len(self.hub.requests)
        self.run_hub("fetch", "Net", "--test-data", "--offline")
        self.assertEqual(len(self.hub.requests), before)
        self.hub.add("Two", BODY, archive=packed(("two/two.onnx", BODY), ("two/test_data_set_0/input_0.pb", b"two's")))
        self.run_hub("fetch", "Net", "Two", "--test-data", "-o", out)
        self.assertEqual((own / "test_data_set_0/input_0.pb").read_bytes(), b"in", "another model's test data")
        self.assertEqual(self.run_hub("fetch", "Net", "-o", out).split(), [str(out / "net-12.onnx")])

    def test_wrong_hash(self):
        path = self.hub.add("Net", BODY)
        self.hub.files[path] = BODY[:-1] + b"!"
        self.run_hub("fetch", "Net", code=INVALID, said=["SHA-256", hashlib.sha256(BODY).hexdigest(), "not used"])
        self.assertEqual(self.cached(), [])

    def test_too_long_and_too_short(self):
        path = self.hub.add("Net", BODY)
        self.hub.files[path] = BODY + b"more"
        self.run_hub("fetch", "Net", code=INVALID, said=["more than"])
        self.hub.files[path] = BODY[:1000]
        shutil.rmtree(self.cache)
        self.run_hub("fetch", "Net", code=UNAVAILABLE, said=["ended at byte 1000"])

    def test_no_hash_no_file(self):
        path = self.hub.add("Net", BODY, model_sha="")
        self.run_hub("fetch", "Net", code=INVALID, said=["no SHA-256", "cannot be verified"])
        self.assertEqual(self.hub.asked(path), [])

    def test_pointer(self):
        path = self.hub.add("Net", BODY, model_bytes=0)
        self.hub.files[path] = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n"
        self.run_hub("fetch", "Net", code=INVALID, said=["Git LFS pointer"])

    def test_cut_again_and_again(self):
        path = self.hub.add("Net", BODY)
        self.hub.ways[path] = {"cut": 15000}
        self.fetched()
        asked = self.hub.asked(path)
        self.assertEqual(asked[0], None)
        self.assertEqual(asked[1], "bytes=15000-")
        self.assertGreater(len(asked), 6)

    def test_cut_and_wrong(self):
        path = self.hub.add("Net", BODY)
        self.hub.files[path] = bytes(reversed(BODY))
        self.hub.ways[path] = {"cut": 60000}
        self.run_hub("fetch", "Net", code=INVALID, said=["SHA-256"])

    def test_cut_without_ranges(self):
        path = self.hub.add("Net", BODY)
        self.hub.ways[path] = {"cut": [50000, 1000], "ranges": False}
        self.fetched()
        self.assertEqual(len(self.hub.asked(path)), 3)

    def test_errors_that_pass(self):
        path = self.hub.add("Net", BODY)
        self.hub.ways[path] = {"errors": [503, "drop", 429]}
        self.fetched()

    def test_errors_that_stay(self):
        path = self.hub.add("Net", BODY)
        self.hub.ways[path] = {"errors": [404] * 9}
        self.run_hub("fetch", "Net", code=UNAVAILABLE, said=["404", path])
        self.assertEqual(len(self.hub.asked(path)), 1, "not asked again")

    def test_goes_on_from_what_is_there(self):
        path = self.hub.add("Net", BODY)
        place = self.fetched()
        for part, ranges in ((BODY[:70000], ["bytes=70000-"]), (BODY, [f"bytes={len(BODY)}-"]),
                             (b"?" * 70000, ["bytes=70000-", None])):
            with self.subTest(ranges=ranges):
                place.unlink()
                place.with_name(place.name + ".part").write_bytes(part)
                self.hub.requests.clear()
                self.fetched()
                self.assertEqual(self.hub.asked(path), ranges)

    def test_interrupted(self):
        path = self.hub.add("Net", BODY)
        stay = threading.Event()
        self.hub.ways[path] = {"cut": [60000], "stay": stay}
        process = self.start("fetch", "Net")
        self.wait_for(lambda: any(p.stat().st_size == 60000 for p in self.cached(".part")))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), INTERRUPTED)
        process.communicate()
        stay.set()
        self.fetched()
        self.assertEqual(self.hub.asked(path), [None, "bytes=60000-"])

    def test_redirects(self):
        path = self.hub.add("Net", BODY)
        self.hub.files["/elsewhere/net"] = self.hub.files.pop(path)
        self.hub.ways[path] = {"redirect": "/hop"}
        self.hub.ways["/hop"] = {"redirect": self.hub.url + "/elsewhere/net"}
        self.hub.ways["/elsewhere/net"] = {"cut": [60000]}
        self.fetched()
        self.assertEqual(self.hub.asked("/elsewhere/net"), [None, "bytes=60000-"])

    def test_redirects_to_nowhere(self):
        path = self.hub.add("Net", BODY)
        self.hub.ways["/ONNX_HUB_MANIFEST.json"] = {}
        for target in (path, "file:///etc/passwd"):
            self.hub.ways[path] = {"redirect": target}
            self.run_hub("fetch", "Net", code=UNAVAILABLE)
            self.assertEqual(self.cached(), [p for p in self.cached(".part") if p.stat().st_size == 0])

    def test_odd_names(self):
        self.hub.add("Net", BODY, path="a b/c%20d.onnx")
        self.hub.files["/a%20b/c%2520d.onnx"] = self.hub.files.pop("/a b/c%20d.onnx")
        self.fetched()

    def test_two_at_once(self):
        archive = packed(("net/test_data_set_0/input_0.pb", b"in" * 1000))
        path = self.hub.add("Net", BODY, archive=archive)
        gate = threading.Event()
        self.hub.ways[path] = {"gate": gate}
        processes = [self.start("fetch", "Net", "--test-data") for _ in range(3)]
        self.wait_for(lambda: self.hub.asked(path))
        time.sleep(0.3)
        gate.set()
        said = [p.communicate(timeout=60) for p in processes]
        self.assertEqual([p.returncode for p in processes], [0, 0, 0], said)
        self.assertEqual(len({out for out, _ in said}), 1)
        self.assertEqual(len(self.hub.asked(path)), 1)
        self.assertEqual(len(self.hub.asked(path.replace(".onnx", ".tar.gz"))), 1)

    def test_offline(self):
        self.hub.add("Net", BODY)
        self.hub.add("Other", BODY[:500])
        self.run_hub("list", "--offline", code=UNAVAILABLE, said=["--offline"])
        self.fetched()
        before = len(self.hub.requests)
        self.run_hub("list", "--offline", said=["2 models"])
        self.run_hub("fetch", "Net", "--offline")
        self.run_hub("fetch", "Other", "--offline", code=UNAVAILABLE, said=["not in the cache"])
        self.assertEqual(len(self.hub.requests), before)

    def test_offline_in_a_cache_of_others(self):
        self.hub.add("Net", BODY)
        self.fetched()
        for path in [self.dir, *self.dir.rglob("*")]: path.chmod(0o755 if path.is_dir() else 0o444)
        if os.geteuid() == 0 and not os.access(models.BINARY, os.X_OK): self.skipTest("nobody may run the binary")
        user = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
        if not user: [path.chmod(0o555) for path in self.dir.rglob("*") if path.is_dir()]
        done = subprocess.run([models.BINARY, "hub", "fetch", "Net", "--offline"], env=os.environ | self.env,
                              capture_output=True, text=True, **user)
        if not user: [path.chmod(0o755) for path in self.dir.rglob("*") if path.is_dir()]
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_server_is_gone(self):
        self.hub.add("Net", BODY)
        self.fetched()
        self.hub.ways["/ONNX_HUB_MANIFEST.json"] = {"errors": [404] * 9}
        self.run_hub("fetch", "Net", said=["list of last time"])

    def test_verify(self):
        self.run_hub("verify", said=["0 files"])
        self.hub.add("Net", BODY)
        self.hub.add("Other", BODY[:500])
        place = self.fetched()
        self.run_hub("fetch", "Other")
        self.run_hub("verify", said=["2 files, 0 damaged"])
        place.write_bytes(BODY[:-1] + b"!")
        self.run_hub("verify", code=INVALID, said=["DAMAGED", place.name, "2 files, 1 damaged"])
        self.run_hub("fetch", "Net", "--offline", code=UNAVAILABLE, said=["damaged"])
        self.fetched()


class Hostile(HubTest):
    def refused(self, archive, *said):
        self.hub.models.clear()
        self.hub.add("Net", BODY, archive=archive)
        shutil.rmtree(self.cache, ignore_errors=True)
        self.run_hub("fetch", "Net", "--test-data", code=INVALID, said=["not used", *said])
        self.assertEqual([p for p in self.cached() if not p.name.endswith((".onnx", ".tar.gz"))], [])
        self.assertEqual([p for p in self.dir.rglob("*") if "evil" in p.name], [])

    def test_names(self):
        for name in ("../evil", "a/../../evil", "/tmp/seqto-evil", "a/b/../../../evil", "a\\..\\evil", "evil\n",
                     "x" * 1200 + "evil"):
            with self.subTest(name=name):
                self.refused(packed((name, b"x")), "unsafe name")
        self.assertFalse(os.path.exists("/tmp/seqto-evil"))

    def test_links_and_devices(self):
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE):
            with self.subTest(kind=kind):
                self.refused(packed(("a", b"x"), special("evil", kind, "/etc/passwd")), "link or device")
        self.refused(packed(special("d", tarfile.SYMTYPE, str(self.dir)), ("d/evil", b"x")), "link or device")

    def test_twice(self):
        self.refused(packed(("a", b"x"), ("a", b"y")), "twice")
        self.refused(packed(("a", b"x"), ("a/b", b"y")), "as a file and as a folder")

    def test_bombs(self):
        self.refused(packed(("zeros", bytes(100 << 20))), "bytes unpacked")
        self.refused(packed(*((f"f{i}", b"") for i in range(20001))), "entries")

    def test_broken(self):
        good = packed(("net/test_data_set_0/input_0.pb", os.urandom(5000)))
        for archive in (good[:-2000], good[:100], b"no archive", b"", packed()):
            with self.subTest(size=len(archive)):
                self.refused(archive)
        self.refused(b"\xfd7zXZ\x00" + b"0" * 100)


class Tune(HubTest):
    def test_from_the_hub(self):
        path = self.hub.add("Digits", models.DIGITS.read_bytes())
        words = ["tune", "hub:digits", "--data", models.DIGITS_DATA, "--max-evaluations", 3, "--evaluation-samples", 10]
        done = models.seqto(*words, "-o", self.dir / "out", env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.dir / "out/report.html").is_file())
        done = models.seqto(*words, "-o", self.dir / "again", "--offline", env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.hub.asked(path)), 1)
        done = models.seqto(*words[:1], "hub:digitz", *words[2:], "-o", self.dir / "no", env=self.env)
        self.assertEqual(done.returncode, INVALID)
        self.assertIn("Digits", done.stderr)


class EveryWord(HubTest):
    """hub:NAME stands for a model's file wherever a word reads one, with one request for all of them."""

    def run_word(self, *words, code=0, said=()):
        done = models.seqto(*words, env=self.env)
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        for text in said:
            self.assertIn(text, done.stdout + done.stderr)
        return done.stdout

    def test_every_word(self):
        digits, few = self.hub.add("Digits", models.DIGITS.read_bytes()), ("--data", models.DIGITS_DATA, "--samples", 12)
        net, int8 = "hub:digits@12", self.dir / "int8.onnx"
        self.assertIn("block5_dw", self.run_word("inspect", net))
        self.run_word("prepare", net, "-o", self.dir / "p.onnx")
        self.run_word("calibrate", net, *few, "-o", self.dir / "r.json")
        self.run_word("quantize", net, *few, "-o", int8)
        self.run_word("analyze", net, *few)
        self.run_word("run", net, *few, "-o", self.dir / "y.npz")
        tolerant = ("--abs-tol", 9, "--mean-tol", 9)
        self.assertEqual(json.loads(self.run_word("validate", net, int8, *few, *tolerant, "--json"))["reference"]["path"], net)
        self.run_word("validate", models.DIGITS, net, *few, "--abs-tol", 0)
        found = json.loads(self.run_word("bench", net, int8, "--launches", 1, "--rounds", 2, "--json"))
        self.assertEqual([m["path"] for m in found["models"]], [net, str(int8)])
        self.run_word("check", int8, "--reference", net, *few, "--max-loss", 1, "--no-latency")
        self.assertIn("hub:digits", self.run_word("check", "hub:digits", "--max-size", "1MB", "--json"))
        self.run_word("audit", int8, "--reference", net, *few)
        self.run_word("plan", "convert", "--model", net, "--quantized", int8, "--to", "onnxruntime")
        config = self.dir / "quantize.toml"
        config.write_text(f'model = "{net}"\nmode = "weights"\noutput = "w.onnx"\n')
        self.run_word("quantize", "--config", config)
        self.assertTrue((self.dir / "w.onnx").is_file())
        self.assertEqual(len(self.hub.asked(digits)), 1)
        self.run_word("inspect", net, "--offline")
        self.run_word("inspect", "hub:digitz", code=INVALID, said=["Digits"])
        self.run_word("quantize", "hub:digits@7", "--mode", "weights", "-o", "x.onnx", code=INVALID, said=["opset 12"])
        self.run_word("inspect", net, "--offline", "--hub-cache", self.dir / "empty", code=UNAVAILABLE)

    def test_test_data_serve_validate(self):
        """Without --data the hub's own: what the model should answer, or samples for two models."""
        x = np.load(models.DIGITS_DATA)["x"][:2]
        self.run_word("run", models.DIGITS, "--data", models.DIGITS_DATA, "--samples", 2, "-o", self.dir / "y.npz")
        y = np.load(self.dir / "y.npz")["logits"]
        members = []
        for i in range(2):
            for name, array, tensor in (("input_0", x[i:i + 1], "x"), ("output_0", y[i:i + 1], "logits")):
                data = onnx.numpy_helper.from_array(array.astype(np.float32).reshape((1, 1, 8, 8) if tensor == "x" else (1, 10)),
                                                    tensor)
                members.append((f"net/test_data_set_{i}/{name}.pb", data.SerializeToString()))
        self.hub.add("Digits", models.DIGITS.read_bytes(), archive=packed(("net/net.onnx", BODY), *members))
        self.assertIn("over 2 samples", self.run_word("validate", "hub:digits"))
        self.run_word("quantize", models.DIGITS, "--mode", "weights", "-o", self.dir / "w.onnx")
        self.run_word("validate", "hub:digits", self.dir / "w.onnx", "--abs-tol", 9, "--mean-tol", 9, said=["over 2 samples"])
        self.run_word("validate", models.DIGITS, code=USAGE, said=["--data"])
        self.hub.add("Plain", models.DIGITS.read_bytes())
        self.run_word("validate", "hub:plain", code=INVALID, said=["no archive with test data"])


if __name__ == "__main__":
    unittest.main()
