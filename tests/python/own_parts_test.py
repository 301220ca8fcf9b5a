"""Own parts in Python: data sets, metrics, devices and strategies. They give what the library's own give that do the same."""

import _thread
import importlib.util
import json
import random
import threading
import time
import unittest

import package  # noqa: F401
import numpy as np
import onnx
import onnxruntime

import seqto
from testing import models, unit
from api_test import ARRAYS, MODEL, TYPES, X, Folder

HOW = {"objectives": ["kl", "size"], "calibration_samples": 16, "search_samples": 16, "evaluation_samples": 64,
       "schemes": ["int8", "int8_weights", "float32"], "front": 6, "racing": False, "correct_weights": False,
       "fast_types": False, "improve": False, "isolated": False}

# A strategy that does not search takes no settings of a search.
INCREMENTAL = {**{k: v for k, v in HOW.items() if k not in ("search_samples", "front", "racing")}, "strategy": "incremental"}


class Digits:
    """As a torch Dataset has it: samples without an axis for the batch, and labels."""

    def __init__(self, labels=True):
        self.labels, self.reads, self.fails_at = labels, 0, None

    def __len__(self):
        return len(ARRAYS["x"])

    def __getitem__(self, index):
        self.reads += 1
        if self.reads == self.fails_at:
            raise LookupError(f"no file for {index}")
        x = ARRAYS["x"][index].astype(np.float32)
        return (x, int(ARRAYS["y"][index])) if self.labels else {"x": x}


def right(answers, labels):
    return (answers["logits"].argmax(axis=1) == labels).astype(float)


def onnxruntime_cpu(model, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(bytes(model), options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)


class Random:
    """The plans of a seed, some at a time."""

    def __init__(self, trials, batch=4):
        self.left, self.batch, self.random, self.told = trials, batch, random.Random(1), []

    def ask(self, space):
        count = min(self.batch, self.left)
        self.left -= count
        return [space.plan([self.random.choice(group.choices) for group in space.groups]) for _ in range(count)]

    def tell(self, plan, trial):
        self.told.append((plan, trial))


def trials(study):
    lines = [json.loads(line) for line in (study.folder / "study.jsonl").read_text().splitlines()]
    return [line["trial"] for line in lines if "trial" in line]


def figures(study):
    return [(t["id"], t.get("part"), t["size_bytes"], t["losses"]) for t in trials(study)]


class Data(Folder):
    def test_a_sequence_is_read_sample_by_sample_and_gives_what_the_array_gives(self):
        data = Digits(labels=False)
        found, wanted = seqto.calibrate(MODEL, data, samples=48), seqto.calibrate(MODEL, X)
        self.assertEqual({t: found[t] for t in found}, {t: wanted[t] for t in wanted})
        self.assertEqual(data.reads, 48 + 2)  # the first one three times
        made = seqto.quantize(MODEL, Digits(), samples=48, **TYPES)
        self.assertEqual(made.model, seqto.quantize(MODEL, X, **TYPES).model)
        self.assertTrue(seqto.validate(MODEL, MODEL, Digits(), samples=20))

    def test_tune(self):
        how = dict(INCREMENTAL, max_evaluations=6)
        data = Digits()
        own = seqto.tune(MODEL, data, self.dir / "own", **how)
        array = seqto.tune(MODEL, ARRAYS, self.dir / "array", **how)
        self.assertEqual(figures(own), figures(array))
        self.assertEqual(own.float.metrics, array.float.metrics)
        self.assertFalse((self.dir / "own/data.npz").exists())
        again = seqto.tune(MODEL, Digits(), self.dir / "own", **how)
        self.assertEqual(figures(again), figures(array))
        with self.assertRaisesRegex(seqto.Error, "data_fingerprint found"):
            seqto.tune(MODEL, Digits(labels=False), self.dir / "own", **how)

    def test_the_first_label_need_not_be_known(self):
        labels = np.where(np.arange(len(ARRAYS["y"])) % 5 == 0, -1, ARRAYS["y"])

        class Some(Digits):
            def __getitem__(self, index):
                return super().__getitem__(index)[0], labels[index]

        own, array = (seqto.validate(MODEL, MODEL, data, samples=40, metrics=["accuracy"], task="classify").to_dict()
                      for data in (Some(), dict(ARRAYS, y=labels)))
        self.assertIn("top1", own["metrics"])
        self.assertEqual(own["metrics"], array["metrics"])

    def test_bench_takes_all_samples(self):
        read = set()

        class Told(Digits):
            def __getitem__(self, index):
                read.add(index)
                return super().__getitem__(index)

        seqto.bench(MODEL, Told(), launches=1, rounds=14)
        self.assertIn(11, read)

    def test_targets(self):
        class Numbers(Digits):
            def __getitem__(self, index):
                return {"x": super().__getitem__(index)[0], "y": np.full(10, 0.5)}

        seen = []

        def distance(answers, targets):
            seen.append(targets)
            return -np.abs(answers["logits"] - targets).mean(axis=1)

        parity = seqto.validate(MODEL, MODEL, Numbers(), samples=8, metrics=[distance, "mae"])
        self.assertEqual((seen[0].shape, seen[0].dtype, seen[0][0, 0]), ((8, 10), np.float32, 0.5))
        found = {name: metric["candidate"] for name, metric in parity.to_dict()["metrics"].items()}
        self.assertAlmostEqual(found["distance"], -found["mae"], places=5)

    def test_what_is_wrong_is_named(self):
        class Noisy(Digits):
            def __getitem__(self, index):
                return np.random.rand(1, 8, 8)

        class Empty(Digits):
            def __len__(self):
                return 0

        class Wide(Digits):
            def __getitem__(self, index):
                return np.zeros((1, 8, 9))

        for data, words in ((Noisy(), "augmentation"), (Empty(), "no samples"), (Wide(), "1, 1, 8, 9.*8, 8. expected")):
            with self.assertRaisesRegex(seqto.Error, words):
                seqto.calibrate(MODEL, data)
        broken = Digits()
        broken.fails_at = 30
        with self.assertRaisesRegex(LookupError, "no file for"):
            seqto.calibrate(MODEL, broken)
        broken.reads, broken.fails_at = 0, 100
        with self.assertRaisesRegex(LookupError, "no file for"):
            seqto.tune(MODEL, broken, self.dir / "out", **HOW)
        with self.assertRaisesRegex(seqto.Error, "leave these options out"):
            seqto.tune(MODEL, Digits(), self.dir / "out", samples=100, **HOW)


class Metrics(Folder):
    def test_a_function_is_a_metric_like_any_other(self):
        def sure(answers, labels):
            e = np.exp(answers["logits"] - answers["logits"].max(axis=1, keepdims=True))
            return (e / e.sum(axis=1, keepdims=True))[np.arange(len(labels)), labels]

        strategy = Random(12)
        study = seqto.tune(MODEL, ARRAYS, self.dir / "out", metrics=[right, sure], strategy=strategy,
                           limits={"sure": 0.5}, **dict(HOW, objectives=["sure", "size"]))
        self.assertEqual(study.summary["objectives"], ["sure", "size"])
        self.assertGreater(len(study.front), 0)
        for t in trials(study):
            if t.get("part") != "search":
                self.assertEqual(t["samples"]["right"], t["samples"]["top1"])
                self.assertEqual((t["metrics"]["right"], t["intervals"]["right"]), (t["metrics"]["top1"], t["intervals"]["top1"]))
                self.assertGreater(t["metrics"]["sure"], 0.9)
        for _, trial in strategy.told:
            self.assertEqual(trial.objectives, [1 - trial.metrics["sure"], trial.size_bytes])
        with self.assertRaisesRegex(seqto.Error, "metrics"):
            seqto.tune(MODEL, ARRAYS, self.dir / "out", strategy=Random(12), **HOW)

    def test_one_number_and_no_labels(self):
        def largest(answers, truth):
            self.assertIsNone(truth)
            return answers["logits"].max()

        parity = seqto.validate(MODEL, MODEL, X, metrics=[largest])
        session = onnxruntime.InferenceSession(MODEL)
        wanted = max(session.run(None, {"x": x[None]})[0].max() for x in X)
        self.assertAlmostEqual(parity.to_dict()["metrics"]["largest"]["candidate"], float(wanted), places=4)

    def test_what_is_wrong_is_named(self):
        def broken(answers, labels):
            raise ZeroDivisionError("no samples of that kind")

        def square(answers, labels):
            return answers["logits"]

        def kl(answers, labels):
            return 0

        for metric, error in ((broken, ZeroDivisionError), (square, seqto.Error), (kl, seqto.Error), (3, TypeError),
                              (lambda answers, labels: 0, TypeError)):
            with self.assertRaises(error):
                seqto.tune(MODEL, ARRAYS, self.dir / "out", metrics=[metric], **HOW)

    def test_positions_that_a_mask_leaves_out_are_no_array(self):
        model = str(models.save(self.dir / "tokens.onnx", [models.node("Gather", ["table", "input_ids"], ["rows"]),
                                                           models.node("Cast", ["attention_mask"], ["mask"], to=1),
                                                           models.node("Unsqueeze", ["mask", "last"], ["column"]),
                                                           models.node("Mul", ["rows", "column"], ["logits"])],
                                [("input_ids", ["b", "n"], 7), ("attention_mask", ["b", "n"], 7)], [("logits", ["b", "n", 6])],
                                [("table", models.weight(6, 6)), ("last", np.int64([-1]))]))
        ids = np.random.default_rng(0).integers(0, 6, (8, 5))
        mask = np.ones_like(ids)

        def mean(answers, truth):
            self.assertEqual(answers["logits"].shape, (8, 5, 6))
            return answers["logits"].mean()

        seqto.validate(model, model, {"input_ids": ids, "attention_mask": mask}, metrics=[mean])
        mask[:, 3:] = 0
        with self.assertRaisesRegex(seqto.Error, "mean: output 'logits' has 144 of 240 values.*without padding"):
            seqto.validate(model, model, {"input_ids": ids, "attention_mask": mask}, metrics=[mean])

    def test_a_limit_is_a_number(self):
        with self.assertRaisesRegex(TypeError, "kl: nan found"):
            seqto.validate(MODEL, MODEL, X[:20], limits={"kl": float("nan")})

    def test_a_number_or_one_for_each_sample_is_due(self):
        for name, gives, found in (("nan", float("nan"), "nan gave nan"), ("inf", np.full(20, np.inf), "inf gave inf"),
                                   ("few", np.ones(3), "few gave an array of 1 axes and 3 values")):
            def metric(answers, labels, gives=gives):
                return gives

            metric.__name__ = name
            with self.assertRaisesRegex(seqto.Error, f"{found}; one number expected, or one for each sample"):
                seqto.validate(MODEL, MODEL, X[:20], metrics=[metric])
        with self.assertRaisesRegex(seqto.Error, "f gave nan"):
            def f(answers, labels):
                return float("nan")
            seqto.tune(MODEL, ARRAYS, self.dir / "nan", metrics=[f], **dict(HOW, objectives=["f", "size"]))
        some = dict(ARRAYS, y=np.where(np.arange(len(ARRAYS["y"])) % 2, ARRAYS["y"], -1))

        def known(answers, labels):
            return right(answers, labels)[labels >= 0]

        self.assertTrue(seqto.validate(MODEL, MODEL, some, samples=20, metrics=[known]))


class Devices(Folder):
    def test_a_function_that_runs_models_gives_the_losses_of_the_cpu(self):
        how = dict(INCREMENTAL, max_evaluations=6)
        own = seqto.tune(MODEL, ARRAYS, self.dir / "own", device=onnxruntime_cpu, **how)
        cpu = seqto.tune(MODEL, ARRAYS, self.dir / "cpu", **how)
        self.assertEqual(figures(own), figures(cpu))
        self.assertEqual(own.summary["options"]["device"], "onnxruntime_cpu")
        self.assertGreater(own.selected.latency_ns, 0)

    def test_other_verbs(self):
        def as_written(model):
            return onnxruntime_cpu(model, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)

        own, cpu = seqto.calibrate(MODEL, X, device=as_written), seqto.calibrate(MODEL, X)
        self.assertEqual({t: own[t] for t in own}, {t: cpu[t] for t in cpu})
        made = seqto.quantize(MODEL, X, **TYPES).model
        self.assertEqual(seqto.quantize(MODEL, X, device=as_written, **TYPES).model, made)
        self.assertEqual(seqto.validate(MODEL, made, X, device=onnxruntime_cpu).to_dict()["outputs"],
                         seqto.validate(MODEL, made, X).to_dict()["outputs"])
        with self.assertRaisesRegex(TypeError, "a function that loads"):
            seqto.calibrate(MODEL, X, device=3)

    def test_it_may_tell_how_long_it_took_and_stand_beside_others(self):
        class Timed:
            latency_ns, told = 0, 12345

            def __init__(self, model):
                self.run = onnxruntime_cpu(model)

            def __call__(self, inputs):
                self.latency_ns = self.told
                return dict(zip(["logits"], self.run(inputs)))

        study = seqto.tune(MODEL, ARRAYS, self.dir / "out", devices={"mine": Timed}, max_evaluations=4,
                           **INCREMENTAL)
        self.assertEqual(study.selected.latency_ns, 12345)
        both = seqto.tune(MODEL, ARRAYS, self.dir / "both", devices=["cpu", Timed], max_evaluations=4,
                          **INCREMENTAL)
        self.assertEqual(list(both.summary["elsewhere"]), ["Timed"])
        for told in (12344.6, np.float32(12345)):
            Timed.told = told
            study = seqto.tune(MODEL, ARRAYS, self.dir / type(told).__name__, devices={"mine": Timed}, max_evaluations=2, **INCREMENTAL)
            self.assertEqual(study.selected.latency_ns, 12345)
        for told in ("1 ms", float("nan"), -1):
            Timed.told = told
            with self.assertRaisesRegex(seqto.Error, "latency_ns of .* found; a number of nanoseconds, 0 or more, expected"):
                seqto.tune(MODEL, ARRAYS, self.dir / str(told), devices={"mine": Timed}, max_evaluations=2, **INCREMENTAL)

    def test_a_failing_candidate_is_a_failed_trial_and_a_failing_device_ends_the_run(self):
        strategy = Random(8)

        def shaky(model):
            if len(strategy.told) == 4:
                raise MemoryError("out of cells")
            return onnxruntime_cpu(model)

        study = seqto.tune(MODEL, ARRAYS, self.dir / "out", device=shaky, strategy=strategy, **HOW)
        self.assertEqual([t["failure"] for t in trials(study) if t.get("failure")], ["[shaky] MemoryError: out of cells"] * 4)
        self.assertEqual([trial.failure is None for _, trial in strategy.told], [True] * 4 + [False] * 4)
        self.assertEqual(strategy.told[4][1].objectives, [np.inf, np.inf])
        self.assertGreater(len(study.front), 0)

        def bare(model):
            run = onnxruntime_cpu(model)
            return lambda inputs: run(inputs)[0]

        def gone(model):
            raise ConnectionError("no route to the board")

        with self.assertRaisesRegex(ConnectionError, "no route"):
            seqto.tune(MODEL, ARRAYS, self.dir / "gone", device=gone, **HOW)
        with self.assertRaisesRegex(seqto.Error, "a dict by name, or a list"):
            seqto.tune(MODEL, ARRAYS, self.dir / "gone", device=bare, **HOW)


    def test_a_device_that_does_not_run_the_fully_quantized_model_goes_on(self):
        def particular(model):
            graph = onnx.load_from_string(bytes(model)).graph
            scales = {w.name: w.dims for w in graph.initializer}
            read = {n.output[0]: n for n in graph.node if n.op_type == "DequantizeLinear"}
            weights = [read.get(n.input[1]) for n in graph.node if n.op_type == "Conv"]
            if all(w and len(scales[w.input[1]]) == 1 for w in weights):
                raise MemoryError("out of scales")
            return onnxruntime_cpu(model)

        study = seqto.tune(MODEL, ARRAYS, self.dir / "out", device=particular, max_evaluations=14,
                           **dict(HOW, per_channel=True))
        self.assertNotIn("full", [t["id"] for t in trials(study)])
        self.assertEqual(study.summary["fully_quantized"]["id"], "published")
        self.assertGreater(len(study.front), 0)


class Strategies(Folder):
    def test_an_own_search(self):
        strategy = Random(20)
        study = seqto.tune(MODEL, ARRAYS, self.dir / "out", strategy=strategy, **HOW)
        self.assertEqual(study.summary["options"]["strategy"], "Random")
        self.assertEqual(len(strategy.told), 20)
        searched = [t for t in trials(study) if t.get("part") == "search"]
        told = {}
        for plan, trial in strategy.told:
            self.assertIsNone(trial.failure)
            self.assertEqual(trial.objectives, [trial.losses["kl"], trial.size_bytes])
            told.setdefault(plan.hash, (trial.size_bytes, trial.losses["kl"]))
        self.assertEqual(list(told.values()), [(t["size_bytes"], t["losses"]["kl"]) for t in searched])
        best = min(told.values(), key=lambda f: f[1])
        self.assertIn(best[0], [t["size_bytes"] for t in trials(study) if "part" not in t])

        again = Random(20)
        seqto.tune(MODEL, ARRAYS, self.dir / "out", strategy=again, **HOW)
        self.assertEqual([t.objectives for _, t in again.told], [t.objectives for _, t in strategy.told])
        self.assertEqual(len([t for t in trials(study) if t.get("part") == "search"]), len(searched))
        again.name = "other"
        with self.assertRaisesRegex(seqto.Error, 'strategy found "Random", expected "other"'):
            seqto.tune(MODEL, ARRAYS, self.dir / "out", strategy=again, **HOW)

    def test_a_batch_at_a_time_or_all_at_once(self):
        one, all_at_once = (seqto.tune(MODEL, ARRAYS, self.dir / str(batch), strategy=Random(12, batch), **HOW)
                            for batch in (1, 12))
        self.assertEqual(figures(one), figures(all_at_once))

    def test_what_is_wrong_is_named(self):
        class Broken(Random):
            def tell(self, plan, trial):
                raise KeyError("lost")

        class Wrong(Random):
            def ask(self, space):
                return [3]

        class Misspelt(Random):
            def ask(self, space):
                return [space.plan(["int9"] * len(space.groups))]

        for strategy, error, words in ((Broken(4), KeyError, "lost"), (Wrong(4), TypeError, "a list of plans"),
                                       (Misspelt(4), seqto.Error, "did you mean 'int8'"), (3, TypeError, "ask")):
            with self.assertRaisesRegex(error, words):
                seqto.tune(MODEL, ARRAYS, self.dir / type(strategy).__name__, strategy=strategy, **HOW)

    def test_ctrl_c(self):
        class Slow(Random):
            def ask(self, space):
                time.sleep(0.05)
                if not self.told:
                    threading.Timer(0.2, _thread.interrupt_main).start()
                return super().ask(space)

        with self.assertRaises(KeyboardInterrupt):
            seqto.tune(MODEL, ARRAYS, self.dir / "out", strategy=Slow(10**6, 1), **HOW)
        self.assertTrue((self.dir / "out/study.jsonl").exists())

    @unittest.skipUnless(importlib.util.find_spec("optuna"), "optuna is not here")
    def test_optuna(self):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)

        class Nsga2:
            def __init__(self, trials):
                sampler = optuna.samplers.NSGAIISampler(population_size=10, seed=0)
                self.study, self.left = optuna.create_study(directions=["minimize"] * 2, sampler=sampler), trials

            def ask(self, space):
                if self.left == 0:
                    return []
                self.left, self.trial = self.left - 1, self.study.ask()
                return [space.plan([self.trial.suggest_categorical(str(i), group.choices)
                                    for i, group in enumerate(space.groups)])]

            def tell(self, plan, result):
                self.study.tell(self.trial, result.objectives)

        strategy, how = Nsga2(60), dict(HOW, schemes=["int4_weights", "int8_weights", "float16", "float32"])
        study = seqto.tune(MODEL, ARRAYS, self.dir / "out", strategy=strategy, **how)
        self.assertEqual(len(strategy.study.trials), 60)
        searched = {(t["losses"]["kl"], t["size_bytes"]) for t in trials(study) if t.get("part") == "search"}
        self.assertLessEqual({tuple(t.values) for t in strategy.study.best_trials}, searched)
        self.assertGreater(len(study.front), 2)
        # The same again, from the study alone.
        again = Nsga2(60)
        seqto.tune(MODEL, ARRAYS, self.dir / "out", strategy=again, **how)
        self.assertEqual([t.values for t in again.study.trials], [t.values for t in strategy.study.trials])


if __name__ == "__main__":
    unit.main()
