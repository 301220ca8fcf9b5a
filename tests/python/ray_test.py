"""The bridge to Ray: what travels, retries, and evaluators that come and go. With a child that only speaks the lines; the
last part needs Ray, beside this Python or named by SEQTO_RAY_PYTHON. ray_nodes.sh has real studies and nodes that die."""

import concurrent.futures
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import package  # noqa: F401
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from seqto._bridge import Bridge, PoolError
from seqto._child import Child, ChildError
from seqto._keywords import as_config, from_config
from seqto._parcels import Store, pack_folder, pieces
from seqto._shipment import Delivery, shipment
from testing import unit

FAKE = str(pathlib.Path(__file__).with_name("fake_eval.py"))


def make_study(root):
    """A folder as `tune` keeps it, of a model with weights in a file below its folder's."""
    weight = numpy_helper.from_array(np.zeros((4, 4), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4])
    model = helper.make_model(helper.make_graph([node], "g", [value("x")], [value("y")], [weight]), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])
    (root / "in/w").mkdir(parents=True)
    (root / "in/data/more").mkdir(parents=True)
    onnx.save(model, root / "in/m.onnx", save_as_external_data=True, location="w/a.bin", size_threshold=0)
    (root / "in/data/one").write_text("1")
    (root / "in/data/more/two").write_text("2")
    (root / "in/truth.json").write_text("{}")
    (root / "out/models").mkdir(parents=True)
    (root / "out/models/1.onnx").write_text("not sent")
    (root / "out/study.jsonl").write_text(json.dumps({"study": 1, "header": {"model_path": str(root / "in/m.onnx")}}) + "\n")
    (root / "out/tune.toml").write_text(
        f'model = "{root}/in/m.onnx"\ndata = "{root}/in/data"\nmetric = ["top1", "map=50={root}/in/truth.json"]\n'
        f'device = ["cpu"]\nthreads = 2\noutput = "{root}/out"\n'.replace("map=50=", "map50="))
    return root / "out"


class Folder(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="seqto-ray-"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)


class Travel(Folder):
    def test_a_parcel_arrives_whole_and_once(self):
        (self.root / "a/b").mkdir(parents=True)
        (self.root / "a/x").write_bytes(b"")
        (self.root / "a/b/y").write_bytes(b"12345")
        parcel = pack_folder(self.root / "a")
        store = Store(self.root / "store")
        store.unpack(parcel, [b"12", b"345"])
        store.unpack(parcel, [b"never read"])
        self.assertEqual(pack_folder(store.place(parcel)).digest, parcel.digest)
        self.assertEqual(b"".join(pieces(parcel)), b"12345")
        self.assertTrue(parcel.is_at_its_root())
        (self.root / "a/b/y").write_bytes(b"12346")
        self.assertFalse(parcel.is_at_its_root())

    def test_what_breaks_off_leaves_nothing(self):
        (self.root / "x").write_bytes(b"12345")
        parcel = pack_folder(self.root)
        store = Store(self.root / "store")

        def broken():
            yield b"12"
            raise OSError("gone")

        with self.assertRaises(OSError):
            store.unpack(parcel, broken())
        self.assertFalse(store.has(parcel))

    def test_the_last_one_removes_the_store(self):
        first, second = Store(self.root / "store"), Store(self.root / "store")
        first.close()
        self.assertTrue(second.folder.exists())
        second.close()
        self.assertFalse(second.folder.exists())
        # a killed process holds it no more
        script = f"import os, sys; sys.path[:0] = {sys.path[:1]}; from seqto._parcels import Store; import pathlib\n" \
                 f"s = Store(pathlib.Path({str(self.root / 'store')!r})); os.kill(os.getpid(), 9)"
        subprocess.run([sys.executable, "-c", script], check=False)
        self.assertTrue(first.folder.exists())
        Store(self.root / "store").close()
        self.assertFalse(first.folder.exists())

    def test_a_study_on_another_machine(self):
        sent = shipment(make_study(self.root))
        self.assertEqual(set(sent.inputs), {f"{self.root}/in/{name}" for name in ("m.onnx", "data", "truth.json")})
        self.assertEqual([name for name, _ in sent.study.files], ["study.jsonl"])
        self.assertEqual([sent.setting(*pair) for pair in (("device", ""), ("threads", "1"), ("jobs", "7"))], ["cpu", "2", "7"])
        contents = {parcel.digest: list(pieces(parcel)) for parcel in sent.parcels}
        shutil.move(self.root / "in", self.root / "elsewhere")
        shutil.move(self.root / "out", self.root / "other")
        store = Store(self.root / "store")
        there = Delivery(sent, store)
        self.assertEqual(set(there.missing()), set(contents))
        for parcel in sent.parcels:
            store.unpack(parcel, contents[parcel.digest])
        self.assertEqual(there.missing(), [])
        child = Child([FAKE, "eval", str(there.folder()), "-"])
        trial = json.loads(child.evaluate('{"number": 3}'))["trial"]
        child.close()
        self.assertEqual((trial["weights"], trial["data"]), (64, ["more", "one"]))
        self.assertTrue(trial["model"].startswith(str(store.folder)))
        config = (there.folder() / "tune.toml").read_text()
        self.assertIn(f'output = "{self.root}/out"', config)
        self.assertIn(f'"map50={store.folder}', config)

    def test_keywords_of_python_travel_as_well(self):
        given = {"threads": 2, "labels": self.root, "limits": {"size_bytes": 1e6}, "executor": "ray", "progress": print}
        text = as_config("ray", pathlib.Path("/m.onnx"), pathlib.Path("/x.npz"), given)
        self.assertEqual(from_config(text), {"model": "/m.onnx", "data": "/x.npz", "threads": 2, "labels": str(self.root),
                                             "limits": {"size_bytes": 1e6}})
        metrics = from_config(as_config("ray", pathlib.Path("/m"), pathlib.Path("/x"), {"metrics": ["mae", "nme=t.json"]}))["metrics"]
        self.assertEqual(metrics, ["mae", f"nme={os.getcwd()}/t.json"])
        with self.assertRaisesRegex(TypeError, "value of JSON"):
            as_config("ray", pathlib.Path("/m.onnx"), pathlib.Path("/x.npz"), {"metrics": [print]})
        with self.assertRaisesRegex(ValueError, "'ray:ADDRESS' expected"):
            as_config("slurm", pathlib.Path("/m.onnx"), pathlib.Path("/x.npz"), {})

    def test_what_is_there_is_used_in_place(self):
        sent = shipment(make_study(self.root))
        there = Delivery(sent, Store(self.root / "store"))
        self.assertEqual(there.missing(), [sent.study.digest])


class LocalEvaluator:
    """A child on a thread."""

    def __init__(self, pool):
        self.pool, self.child = pool, None
        self.thread = concurrent.futures.ThreadPoolExecutor(1)

    def begin(self):
        if not self.pool.sent:
            return ["all"]
        self.child = Child([FAKE, "eval", str(self.pool.folder), "-"])
        return []

    def start(self):
        return self.thread.submit(self.begin)

    def evaluate(self, proposal):
        return self.thread.submit(lambda: self.child.evaluate(proposal))

    def end(self):
        if self.child:
            self.thread.submit(self.child.close)
        self.thread.shutdown()


class LocalPool:
    def __init__(self, folder, size):
        self.folder, self.size, self.sent, self.made = folder, size, [], 0

    def room(self):
        return self.size

    def make(self):
        self.made += 1
        return LocalEvaluator(self)

    def send(self, missing):
        self.sent += missing


class Retries(Folder):
    def through(self, proposals, size=2, pool=None):
        pool = pool or LocalPool(make_study(self.root), size)
        lines, said = [], []
        bridge = Bridge(pool, lambda line: lines.append(json.loads(line)), said.append)
        try:
            bridge.run(map(json.dumps, proposals))
        finally:
            bridge.end()
        results = {line["number"]: line for line in lines if "number" in line}
        self.assertEqual(len(results), sum("number" in line for line in lines))
        return results, [line["ready"] for line in lines if "ready" in line], said, pool

    def test_all_are_measured_side_by_side(self):
        results, ready, said, pool = self.through([{"number": n, "seconds": 0.2} for n in range(6)])
        self.assertEqual(sorted(results), list(range(6)))
        self.assertEqual(len({r["trial"]["pid"] for r in results.values()}), 2)
        self.assertEqual((ready, said, pool.made), ([1, 2], [], 2))

    def test_a_killed_child_is_replaced_and_its_candidate_measured_again(self):
        once = str(self.root / "once")
        results, ready, said, pool = self.through([{"number": n, "seconds": 0.1} for n in range(4)] + [{"number": 4, "once": once}])
        self.assertTrue(all("trial" in r for r in results.values()))
        self.assertEqual(sorted(results), list(range(5)))
        self.assertEqual(pool.made, 3)
        self.assertIn(1, ready[2:])
        self.assertIn("ended with -9", said[0])

    def test_what_kills_three_is_given_back_as_an_error(self):
        results, _, said, pool = self.through([{"number": 0, "poison": True}, *({"number": n} for n in range(1, 4))])
        self.assertIn("poisoned", results[0]["error"])
        self.assertTrue(all("trial" in results[n] for n in range(1, 4)))
        self.assertEqual(len(said), 3)

    def test_room_that_comes_later_is_used(self):
        pool = LocalPool(make_study(self.root), 1)
        threading.Timer(1.5, lambda: setattr(pool, "size", 2)).start()
        results, ready, _, _ = self.through([{"number": n, "seconds": 0.5} for n in range(8)], pool=pool)
        self.assertEqual((len(results), ready), (8, [1, 2]))

    def test_evaluators_that_never_start_end_it(self):
        folder = make_study(self.root)
        with open(folder / "study.jsonl", "a") as study:
            study.write("refuse\n")
        with self.assertRaisesRegex(PoolError, "of another model"):
            self.through([{"number": 0}], pool=LocalPool(folder, 1))


def python_with_ray():
    named = os.environ.get("SEQTO_RAY_PYTHON")
    return named or (sys.executable if importlib.util.find_spec("ray") else None)


@unittest.skipUnless(python_with_ray(), "Ray is not installed: pip install ray, or SEQTO_RAY_PYTHON=python that has it")
class WithRay(Folder):
    def test_a_cluster_of_this_machine(self):
        folder = make_study(self.root)
        environment = dict(os.environ, SEQTO_WORKER=FAKE, TMPDIR=str(self.root))
        proposals = [{"number": n, "seconds": 0.1} for n in range(10)]
        proposals += [{"number": 10, "once": str(self.root / "once")}, {"number": 11, "poison": True}]
        done = subprocess.run([python_with_ray(), "-m", "seqto.ray", str(folder), "--workers", "1"], env=environment,
                              input="".join(json.dumps(p) + "\n" for p in proposals), stdout=subprocess.PIPE, text=True,
                              check=True)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(lines[0], {"ready": 1})
        results = {line["number"]: line for line in lines if "number" in line}
        self.assertEqual(sorted(results), list(range(12)))
        self.assertIn("poisoned", results.pop(11)["error"])
        self.assertTrue(all("trial" in result for result in results.values()))
        self.assertEqual(list(self.root.glob("seqto-*")), [])  # nothing is left on the node


if __name__ == "__main__":
    unit.main()
