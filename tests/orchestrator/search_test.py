"""`tune` with the strategies that search: samples that do not overlap, a front on samples no search has seen, limits, budgets,
resumption, and the same plans again."""

import json
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

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

DATA = ["--data", models.DIGITS_DATA, "--calibration-samples", 32, "--search-samples", 40]
SIZE = ["--objectives", "kl,size"]
GATE_NOT_MET = 5


def trials(folder):
    lines = [json.loads(line) for line in (folder / "study.jsonl").read_text().splitlines()]
    return [line["trial"] for line in lines if "trial" in line]


class SearchTest(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.dir)

    def tune(self, name, *flags, code=0):
        out = self.dir / name
        done = models.seqto("tune", models.DIGITS, *DATA, *flags, "-q", "-o", out)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads((out / "summary.json").read_text()), trials(out), done

    def test_chain_is_the_default_and_beats_full_int8(self):
        summary, all_trials, done = self.tune("out")
        self.assertEqual(summary["options"]["strategy"], "chain")
        self.assertEqual(summary["objectives"], ["kl", "size", "latency"])
        self.assertEqual(summary["samples"]["search"], 40)
        full = summary["fully_quantized"]
        self.assertTrue(any(p["size_bytes"] <= full["size_bytes"] and p["losses"]["kl"] < full["losses"]["kl"]
                            for p in summary["front"]))
        counts = {}
        for t in all_trials:
            if t["id"] != "float":
                counts.setdefault(t.get("part", "evaluation"), []).append(len(t["samples"]["kl"]))
        self.assertEqual(set(counts["evaluation"]), {summary["samples"]["evaluation"]})
        self.assertEqual((set(counts["search"]), set(counts["acceptance"])), ({20}, {20}))
        steps = {t.get("step") for t in all_trials}
        self.assertLessEqual({"uniform", "one-in", "chain"}, steps)
        for p in summary["front"]:
            low, high = p["intervals"]["kl"]
            self.assertTrue(low <= p["losses"]["kl"] <= high)
            self.assertTrue((self.dir / "out" / p["file"]).exists())
            self.assertEqual((self.dir / "out" / p["file"]).stat().st_size, p["size_bytes"])
        self.assertIn("changed", done.stdout)

    def test_latencies_that_a_search_follows_are_learned_from_plans_timed_in_turn(self):
        summary, all_trials, _ = self.tune("out", "--schemes", "int8,int8_weights,float32")
        notes = {}
        for line in (self.dir / "out" / "study.jsonl").read_text().splitlines():
            line = json.loads(line)
            if "note" in line:
                notes[line["note"]] = line["value"]
        model = notes["latency model"]
        timed = {tuple(m["schemes"]): m["ns"] for m in model["measured"]}
        groups = len(next(iter(timed)))
        self.assertIn(("float32",) * groups, timed)
        self.assertIn(("int8",) * groups, timed)
        mixed = [s for s in timed if 0 < s.count("int8") < groups]
        self.assertGreater(len(mixed), 3)
        # Searches for latency alone go by the pooled loss.
        for t in all_trials:
            self.assertEqual("pooled_kl" in t, "part" in t and t["outcome"] == "ok", t["id"])
        said = [n for n in summary["notes"] if "before they were timed" in n]
        self.assertEqual(len(said), 1 if len(notes.get("latency errors", [])) >= 3 else 0)
        # Whoever goes on takes what was learned.
        before = (self.dir / "out" / "study.jsonl").read_text().count('"latency model"')
        self.tune("out", "--schemes", "int8,int8_weights,float32")
        self.assertEqual((self.dir / "out" / "study.jsonl").read_text().count('"latency model"'), before)
        _, without, _ = self.tune("size", *SIZE)
        self.assertFalse(any("pooled_kl" in t for t in without))

    def test_every_strategy_ends_and_gives_the_same_again(self):
        for strategy in ("chain", "dynamic_program", "sensitivity_list", "greedy_revert", "greedy_bits", "weighted_error",
                         "mean_activation_variance", "nsga2", "random"):
            with self.subTest(strategy):
                flags = ["--strategy", strategy, *SIZE, "--search-evaluations", 40]
                _, first, _ = self.tune(strategy, *flags, "--jobs", 1)
                _, second, _ = self.tune(strategy + "2", *flags, "--jobs", 2)
                self.assertEqual([(t["id"], t.get("part")) for t in first], [(t["id"], t.get("part")) for t in second])
                self.assertEqual([t["losses"] for t in first], [t["losses"] for t in second])

    def test_the_seed_draws_the_plans(self):
        flags = [*SIZE, "--strategy", "random", "--search-evaluations", 10]
        drawn = []
        for name, seed in (("one", 1), ("two", 2), ("again", 1)):
            _, all_trials, _ = self.tune(name, *flags, "--seed", seed)
            drawn.append([t["id"] for t in all_trials if t.get("part") == "search"])
        self.assertEqual(drawn[0], drawn[2])
        self.assertNotEqual(drawn[0], drawn[1])

    def test_racing_runs_fewer_samples_for_a_front_as_good(self):
        flags = [*SIZE, "--search-evaluations", 60]
        raced, some, _ = self.tune("raced", *flags)
        whole, every, _ = self.tune("whole", *flags, "--no-racing")
        runs = [sum(len(t["samples"]["kl"]) for t in ts if t.get("part") == "search") for ts in (some, every)]
        self.assertEqual(runs[1], 20 * sum(t.get("part") == "search" for t in every))
        self.assertLess(runs[0], 0.75 * runs[1])
        self.assertTrue(all(4 <= len(t["samples"]["kl"]) <= 20 for t in some if t.get("part") in ("search", "acceptance")))
        self.assertGreater(raced["hypervolume"], 0.98 * whole["hypervolume"])

    def test_weights_are_learned_unless_told_otherwise_and_plans_say_so(self):
        only = [*SIZE, "--schemes", "int8_weights,float32", "--search-evaluations", 20]
        learned, _, _ = self.tune("learned", *only)
        plain, _, _ = self.tune("plain", *only, "--rounding", "nearest")
        hurried, _, _ = self.tune("hurried", *only, "--max-time", 100)
        smallest = [min(s["front"], key=lambda p: p["size_bytes"]) for s in (plain, hurried, learned)]
        self.assertLessEqual(max(p["size_bytes"] for p in smallest) / min(p["size_bytes"] for p in smallest), 1.05)
        losses = [p["losses"]["kl"] for p in smallest]
        self.assertLess(losses[2], losses[0] / 2, "the digits' weights are learned on 32 samples")
        self.assertLess(losses[1], losses[0] / 2, "a small network is learned under a short limit too")
        shortest, _, _ = self.tune("shortest", *only, "--max-time", 0.01)
        said = [any("rounding is not learned; --improve learns it" in n for n in s["notes"])
                for s in (plain, hurried, learned, shortest)]
        self.assertEqual(said, [False, False, False, True], "who named roundings or has time enough needs no word")

        plan = self.dir / "learned" / smallest[2]["plan"]
        fields = [entry for entry in json.loads(plan.read_text())["schemes"].values() if isinstance(entry, dict)]
        self.assertIn({"scheme": "int8_weights", "rounding": "learned"}, fields)
        notes = [json.loads(line) for line in (self.dir / "learned" / "study.jsonl").read_text().splitlines()]
        tried = next(n["value"] for n in notes if n.get("note") == "what if")
        entries = [e for g in tried["groups"] for c in g["choices"] for e in c["layers"].values() if isinstance(e, dict)]
        self.assertIn({"scheme": "int8_weights", "rounding": "learned"}, entries, "the page's plans are the same")
        again = self.dir / "again.onnx"
        done = models.seqto("quantize", models.DIGITS, "--plan", plan, "-o", again)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(again.read_bytes(), (self.dir / "learned" / smallest[2]["file"]).read_bytes(), "the plan names them")
        done = models.seqto("quantize", models.DIGITS, "--plan", plan, "--data", models.DIGITS_DATA, "-o", again)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(again.read_bytes(), (self.dir / "learned" / smallest[2]["file"]).read_bytes())

    def test_a_short_search_has_a_plan_before_it_calibrates(self):
        """Nothing of it needs ranges; it is the plan that a search with time enough comes by, and its file."""
        weights = ["--schemes", "int8_weights,float32", "--bias-correction", "fast"]
        for name in ("out", "out2", "out3"):  # a machine that stops for a while takes fewer samples
            summary, _, _ = self.tune(name, *SIZE, *weights, "--max-time", 0.001)
            lines = [json.loads(line) for line in (self.dir / name / "study.jsonl").read_text().splitlines()]
            if "fewer samples" not in [line.get("note") for line in lines]:
                break
        done = [line["trial"]["id"] if "trial" in line else line["note"] for line in lines if "header" not in line]
        [first] = [t for t in trials(self.dir / name) if t.get("step") == "uniform"]
        self.assertEqual(set(first["plan"].values()), {"int8_weights"})
        for later in ("ranges", "improved ranges", "published"):
            self.assertLess(done.index(first["id"]), done.index(later), later)
        self.assertIn(first["id"], [p["id"] for p in summary["front"]])
        _, patient, _ = self.tune("patient", *SIZE, *weights, "--search-evaluations", 10)
        [same] = [t for t in patient if t["id"] == first["id"] and t.get("part", "evaluation") == "evaluation"]
        self.assertEqual(same["losses"], first["losses"])
        [file, again] = [self.dir / of / "models" / f"{first['id']}.onnx" for of in (name, "patient")]
        self.assertEqual(file.read_bytes(), again.read_bytes())

    def test_a_search_cut_off_behind_its_first_plan_goes_on_with_its_biases(self):
        """They are kept: a run with time enough would learn the rounding, and the file would not be the one that was measured."""
        weights = ["--schemes", "int8_weights,float32", "--search-evaluations", 10]
        self.tune("out", *SIZE, *weights, "--max-time", 0.001)
        [first] = [t for t in trials(self.dir / "out") if t.get("step") == "uniform"]
        study, file = self.dir / "out" / "study.jsonl", self.dir / "out" / "models" / f"{first['id']}.onnx"
        expected = file.read_bytes()
        file.unlink()
        lines = study.read_text().splitlines()
        place = next(i for i, line in enumerate(lines) if json.loads(line).get("trial", {}).get("id") == first["id"])
        study.write_text("".join(line + "\n" for line in lines[:place + 1]))
        _, gone_on, _ = self.tune("out", *SIZE, *weights)
        evaluated = [t["id"] for t in gone_on if t.get("part", "evaluation") == "evaluation"]
        self.assertEqual(evaluated[:3], ["float", first["id"], "published"])
        self.assertEqual(evaluated.count(first["id"]), 1)
        self.assertEqual(file.read_bytes(), expected)

    def test_fields_are_choices(self):
        """Each has its own codes: the file of a uniform plan is the one that `quantize` makes of it."""
        schemes = "int8,int8+method=percentile:99+rounding=nearest,int8+method=mse+per_channel=false,float32"
        flags = [*SIZE, "--schemes", schemes, "--rounding", "learned", "--search-evaluations", 100]
        summary, all_trials, _ = self.tune("out", *flags)
        nearest = {"scheme": "int8", "method": "percentile:99", "rounding": "nearest"}
        per_tensor = {"scheme": "int8", "method": "mse", "per_channel": False}
        written = [("int8", {"scheme": "int8", "rounding": "learned"}), (nearest, nearest),
                   (per_tensor, {**per_tensor, "rounding": "learned"})]
        tried = [t for t in all_trials if t.get("part") == "search" and t.get("step") == "one-in"]
        alone = [list(t["plan"].values()) for t in tried]
        for choice, _ in written:
            self.assertEqual(sum(choice in values for values in alone), sum("int8" in values for values in alone))
        uniform = [t for t in all_trials if t.get("part", "evaluation") == "evaluation"
                   and (t["id"] == "full" or t.get("step") == "uniform")]
        self.assertEqual(len(uniform), 3)
        best = min(uniform, key=lambda t: t["losses"]["kl"])
        self.assertTrue(any(p["losses"]["kl"] <= best["losses"]["kl"] * 1.1 and p["size_bytes"] <= best["size_bytes"]
                            for p in summary["front"]))

        compared = 0
        for trial in uniform:
            [asked] = [w for choice, w in written if choice == next(iter(trial["plan"].values()))]
            plan = self.dir / "out" / "plans" / f"{trial['id']}.json"
            if not plan.exists():
                continue
            compared += 1
            self.assertEqual(next(iter(json.loads(plan.read_text())["schemes"].values())), asked)
            again = self.dir / "again.onnx"
            types = ("--activation-type", "uint8", "--per-channel") if "uint8" in json.dumps(summary["options"]) else ()
            done = models.seqto("quantize", models.DIGITS, "--plan", plan, "--data", models.DIGITS_DATA,
                                *types, "-o", again)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(again.read_bytes(), (self.dir / "out" / "models" / f"{trial['id']}.onnx").read_bytes())
        self.assertGreater(compared, 0)

        before = (self.dir / "out" / "study.jsonl").read_text().count("\n")
        self.tune("out", *flags)
        after = [json.loads(line) for line in (self.dir / "out" / "study.jsonl").read_text().splitlines()]
        self.assertFalse([line for line in after[before:] if "trial" in line], "all of it was there")
        done = models.seqto("tune", models.DIGITS, *DATA, "--schemes", "int8+bits=4,float32", "-o", self.dir / "bad")
        self.assertEqual(done.returncode, 2)
        self.assertIn("bits", done.stderr)
        self.assertFalse((self.dir / "bad").exists())

    def test_limits_choose_or_say_what_is_missing(self):
        summary, _, _ = self.tune("out", *SIZE)
        ordered = sorted(p["losses"]["kl"] for p in summary["front"])
        limit = ordered[1] * 1.0001
        flags = [*SIZE, "--max-loss", f"kl={limit}"]
        summary, _, _ = self.tune("out", *flags)  # the study goes on; another limit makes no other study
        selected = next(p for p in summary["front"] if p["id"] == summary["selected"])
        self.assertLessEqual(selected["losses"]["kl"], limit)
        self.assertTrue(all(found["met"] for found in summary["limits"]))
        summary, _, done = self.tune("out", *flags, "--max-size", "1k", code=GATE_NOT_MET)
        self.assertGreater(len(summary["front"]), 1)
        self.assertIn("--max-size", done.stderr)
        point = next(p for p in [*summary["front"], summary["fully_quantized"], summary["baseline"]] if p["id"] == summary["selected"])
        self.assertIn(f"the nearest is {point['name']}: ", done.stderr)  # as the table calls it

    def test_a_share_of_the_size_is_of_the_file_that_is_given(self):
        """Of float16 weights, which are widened to be searched."""
        sizes = [64, 96, 96, 96, 10]
        weights = [(f"w{i}", models.weight(*size, seed=i).astype(np.float16)) for i, size in enumerate(zip(sizes, sizes[1:]))]
        nodes = [models.node("Cast", ["x"], ["h0"], to=onnx.TensorProto.FLOAT16)]
        for i, (name, _) in enumerate(weights):
            nodes += [models.node("MatMul", [f"h{i}", name], [f"p{i}"]), models.node("Tanh", [f"p{i}"], [f"h{i + 1}"])]
        nodes.append(models.node("Cast", [f"p{len(weights) - 1}"], ["y"], to=onnx.TensorProto.FLOAT))
        models.save(self.dir / "half.onnx", nodes, [("x", ["n", 64])], [("y", ["n", 10])], weights)
        np.savez(self.dir / "x.npz", x=np.random.default_rng(1).normal(size=(200, 64)).astype(np.float32))
        done = models.seqto("tune", self.dir / "half.onnx", "--data", self.dir / "x.npz", "-o", self.dir / "out", *SIZE, "--max-size", "60%")
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((self.dir / "out/summary.json").read_text())
        [selected] = [p for p in summary["front"] if p["id"] == summary["selected"]]
        self.assertLessEqual(selected["size_bytes"], 0.6 * summary["baseline"]["size_bytes"])
        # The search aims at the limit: it finds plans below it and does not end far from it.
        below = [p["size_bytes"] / summary["baseline"]["size_bytes"] for p in summary["front"]]
        self.assertGreater(max(share for share in below if share <= 0.6), 0.5)

    def test_a_limit_of_what_is_not_measured_is_refused_before_the_search(self):
        data = self.dir / "unlabelled.npz"
        np.savez(data, x=np.load(models.DIGITS_DATA)["x"])
        out = self.dir / "out"
        for flag, value, figure in (("--min-accuracy", "0.7", "top1"), ("--max-accuracy-drop", "map50_95=0.01", "map50_95_drop"),
                                    ("--max-loss", "wer=0.2", "wer"), ("--max-loss", "kll=0.2", "kll")):
            done = models.seqto("tune", models.DIGITS, "--data", data, *SIZE, flag, value, "-o", out)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"{flag}: a limit of {figure} found, which was not measured; one of ", done.stderr)
            study = (out / "study.jsonl").read_text() if out.exists() else ""
            self.assertNotIn('"trial"', study, "nothing but the float model was measured")
        self.assertIn("did you mean 'kl'?", done.stderr)

    def test_fields_of_schemes_are_refused_before_anything_runs(self):
        for scheme, said in (("int4_weights+block_size=17", "block size 17 found; a power of 2"),
                             ("int4_weights+bits=3", "3 bits found; 2, 4 or 8 expected"),
                             ("int4_weights+block_size=abc", "'block_size': \"abc\" found; a whole number expected"),
                             ("int8+per_channel=2", "'per_channel': 2 found; true or false expected")):
            done = models.seqto("tune", models.DIGITS, *DATA, "--schemes", scheme, "-o", self.dir / "out")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertNotIn("exception", done.stderr)
            self.assertFalse((self.dir / "out").exists(), scheme)
        done = models.seqto("tune", models.DIGITS, *DATA, "--schemes", "int8_dynamic,float32", "--weight-type", "int4", "-o", self.dir / "out")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("int8_dynamic among the schemes and weights of int4 found", done.stderr)
        for form in ("folded", "qdq"):
            done = models.seqto("quantize", models.DIGITS, "--mode", "weights", "--weight-bits", 2, "--int4-format", form, "-o", self.dir / "out")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"2 bits in the format {form}", done.stderr)
        # A tied table keeps 8 bits, and comes first.
        nodes = [models.node("Gather", ["table", "ids"], ["h"]), models.node("Transpose", ["table"], ["t"], perm=[1, 0]),
                 models.node("MatMul", ["h", "t"], ["y"])]
        tied = models.save(self.dir / "tied.onnx", nodes, [("ids", [1, 8])], [("y", [1, 8, 96])], [("table", models.weight(96, 64))])
        model = onnx.load(tied)
        model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
        onnx.save(model, tied)
        done = models.seqto("quantize", tied, "--mode", "weights", "--weight-bits", 2, "--int4-format", "qdq", "-o", self.dir / "out")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("2 bits in the format qdq", done.stderr)

    def test_budgets_keep_a_reserve_for_the_report(self):
        summary, all_trials, _ = self.tune("few", *SIZE, "--max-evaluations", 30, "--max-front", 5)
        self.assertLessEqual(len(all_trials), 30)
        self.assertTrue(any("--max-evaluations" in note for note in summary["notes"]))
        steps = [t.get("step") for t in all_trials if t.get("part", "evaluation") == "evaluation"]
        self.assertTrue({"one-in", "chain", "swap"} & set(steps), steps)
        start = time.monotonic()
        summary, _, _ = self.tune("short", "--max-time", 0.01)
        self.assertGreater(len(summary["front"]), 0)
        self.assertTrue(any("--max-time" in note for note in summary["notes"]))
        self.assertLess(time.monotonic() - start, 120)

    def test_no_more_trials_than_the_references_end_a_study(self):
        for count in (1, 3):
            out = self.dir / f"few_{count}"
            done = models.seqto("tune", models.DIGITS, "--data", models.DIGITS_DATA, "--schemes", "int8", "--max-evaluations", count, "-q",
                                "-o", out, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("stopped at --max-evaluations", (out / "summary.json").read_text())

    def test_the_shortest_time_gives_a_plan_and_a_longer_one_the_rest(self):
        flags = [*SIZE, "--search-evaluations", 12]
        summary, first, _ = self.tune("out", *flags, "--max-time", 0.001)
        self.assertEqual(first[0]["id"], "float")
        self.assertEqual(first[-1]["id"], "published")
        searched = [t for t in first if t.get("step") == "uniform"]
        self.assertEqual([(set(t["plan"].values()), t.get("part", "evaluation")) for t in searched], [({"int8_weights"}, "evaluation")])
        self.assertEqual([p["id"] for p in summary["front"]], [searched[0]["id"]])
        self.assertEqual(summary["samples"]["evaluation"], len(searched[0]["samples"]["kl"]))
        left_out = next(note for note in summary["notes"] if "--max-time left none" in note)
        for what in ("error analysis", "timed in turn", "plots/*.svg"):
            self.assertIn(what, left_out)
        out = self.dir / "out"
        self.assertTrue((out / "report.html").exists() and (out / summary["front"][0]["file"]).exists())
        self.assertEqual(list(out.glob("plots/*.svg")), [])
        self.assertEqual(models.seqto("report", out).returncode, 0)
        self.assertTrue((out / "plots/front.svg").is_file())

        summary, more, _ = self.tune("out", *flags)
        self.assertEqual([t["id"] for t in more[:len(first)]], [t["id"] for t in first])
        self.assertIn("full", [t["id"] for t in more])
        self.assertIn('"note":"sensitivity"', (out / "study.jsonl").read_text())
        self.assertFalse(any("--max-time left none" in note for note in summary["notes"]))
        self.assertTrue({"one-in", "chain"} & {t.get("step") for t in more})

    def test_op_types_that_are_asked_for_limit_the_search_not_the_published_reference(self):
        summary, _, _ = self.tune("out", "--schemes", "float16", "--op-types-to-quantize", "Gemm", "--max-evaluations", 4)
        whole, _, _ = self.tune("whole", "--schemes", "float16", "--max-evaluations", 4)
        self.assertEqual(summary["fully_quantized"]["size_bytes"], whole["fully_quantized"]["size_bytes"])

    def test_without_a_layer_to_choose_for(self):
        summary, _, _ = self.tune("nothing", "--exclude", "*")
        self.assertEqual([p["name"] for p in summary["front"] if set(p["schemes"]) != {"float32"}], [])

    def test_a_search_goes_on_with_other_objectives(self):
        short = ["--search-evaluations", 4, "--evaluation-samples", 40]
        for objectives in ("kl,size,latency", "kl,size", "kl,size,top1"):
            summary, _, _ = self.tune("out", "--objectives", objectives, *short)
            self.assertEqual(summary["objectives"], objectives.split(","))
        said = models.seqto("tune", models.DIGITS, *DATA, "--improve", *short, "-q", "-o", self.dir / "out")
        self.assertEqual(said.returncode, 3)
        self.assertIn("--improve found, which learns layers of any width", said.stderr)

    def test_a_killed_search_goes_on(self):
        whole, reference, _ = self.tune("whole", *SIZE)
        out = self.dir / "killed"
        command = [models.BINARY, *map(str, ["tune", models.DIGITS, *DATA, *SIZE, "-q", "-o", out])]
        for wanted in (12, 30):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            study = out / "study.jsonl"
            while process.poll() is None and not (study.exists() and study.read_text().count('"trial"') >= wanted):
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            process.wait()
        summary, resumed, _ = self.tune("killed", *SIZE)
        # Moves and races see what is known by then, so a batch that was cut may lead to other ones; what is measured alike
        # is alike.
        key = lambda t: (t["id"], t.get("part"), len(t.get("samples", {}).get("kl", [])))
        known = {key(t): t["losses"] for t in reference}
        self.assertGreater(sum(key(t) in known for t in resumed), 20)
        for t in resumed:
            if key(t) in known:
                self.assertEqual(t["losses"], known[key(t)])
        self.assertLess(abs(summary["hypervolume"] - whole["hypervolume"]), 0.02)

    def test_a_task_metric_is_an_objective(self):
        summary, all_trials, done = self.tune("accuracy", "--objectives", "accuracy,size", "--search-evaluations", 40)
        self.assertEqual(summary["objectives"], ["accuracy", "size"])
        self.assertIn("accuracy drop", done.stdout)
        parts = {part: [t for t in all_trials if t.get("part", "evaluation") == part]
                 for part in ("search", "acceptance", "evaluation")}
        self.assertTrue(parts["search"] and parts["acceptance"])
        # Plans are found by kl; those that were confirmed, and the report's, hold the metric.
        self.assertFalse(any("accuracy" in t["metrics"] for t in parts["search"]))
        self.assertTrue(all("accuracy" in t["metrics"] for t in parts["acceptance"] + parts["evaluation"]))
        baseline = summary["baseline"]["metrics"]["accuracy"]
        reported = {t["id"]: (1 - t["metrics"]["accuracy"], t["size_bytes"]) for t in parts["evaluation"]}
        for point in summary["front"]:
            drop = point["drops"]["accuracy"]
            self.assertAlmostEqual(drop["value"], baseline - point["metrics"]["accuracy"], places=12)
            self.assertTrue(drop["interval"][0] <= drop["value"] <= drop["interval"][1])
            own = reported[point["id"]]
            self.assertFalse(any(o != own and o[0] <= own[0] and o[1] <= own[1] for i, o in reported.items()
                                 if i != "published"))
        done = models.seqto("check", self.dir / "accuracy", "--max-accuracy-drop", "accuracy=0.5", "--json")
        selected = next(p for p in summary["front"] if p["id"] == summary["selected"])
        self.assertEqual(json.loads(done.stdout)["figures"]["accuracy_drop"]["interval"],
                         selected["drops"]["accuracy"]["interval"])
        study = (self.dir / "accuracy/report.html").read_text()
        self.assertIn("accuracy drop", study)

    def test_objectives_that_cannot_be(self):
        def fails(code, part, *flags):
            done = models.seqto("tune", models.DIGITS, *DATA, "-o", self.dir / "bad", *flags)
            self.assertEqual((done.returncode, part in done.stderr), (code, True), done.stderr)

        fails(2, "'bleu' found", "--objectives", "bleu,size")
        fails(2, "found twice", "--objectives", "kl,kl,size")
        fails(2, "a loss or a task metric", "--objectives", "size,latency")
        fails(3, "a target of 1 found", "--objectives", "mae,size")
        shutil.rmtree(self.dir / "bad")
        fails(2, "map50=FILE.json expected", "--objectives", "map50,size")

    def test_a_command_is_an_objective(self):
        script = self.dir / "off.py"
        script.write_text("import sys, numpy\na, b = (numpy.load(path) for path in sys.argv[1:3])\n"
                          "print(float(abs(a['logits'] - b['logits']).mean()))\n")
        summary, all_trials, _ = self.tune("command", "--objectives", "off,size", "--search-evaluations", 20, "--max-front", 4,
                                           "--metric-command", f"off:min:{sys.executable} {script}")
        self.assertEqual(summary["objectives"], ["off", "size"])
        for point in summary["front"]:
            self.assertEqual(point["drops"]["off"], {"value": point["metrics"]["off"], "interval": None})
        self.assertTrue(any("off has no interval" in note for note in summary["notes"]))

    def test_groups_are_kept_together(self):
        inspected = models.seqto("inspect", models.DIGITS, "--json")
        groups = json.loads(inspected.stdout)["groups"]
        together = ",".join(group[0] for group in groups[:2])
        _, all_trials, _ = self.tune("out", *SIZE, "--group", together, "--search-evaluations", 20)
        first, second = groups[0][0], groups[1][0]
        for t in all_trials:
            if t["id"] not in ("float", "full", "published"):
                self.assertEqual(t["plan"].get(first), t["plan"].get(second))


if __name__ == "__main__":
    unittest.main()
