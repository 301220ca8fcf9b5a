"""Files made for a target, run on its own runtime: `tune --target T`, and each file of the study there. Each row is a file of one
study. A row's file is chosen by what the study measured; its loss is that on samples which the study did not see.

usage: ./dev bench targets [--target T]

- openvino-cpu (default): the study itself runs on OpenVINO, by the ONNX Runtime that `tools/setup.sh test` brings, and so do its files
- onnxruntime-web-wasm: the study runs on the CPU, of all schemes in which weights have a byte or more; then its files run under Node

Columns: network, file, bytes saved of those that the uniform file by onnxruntime's defaults saves, unseen loss (KL) with its
interval, loss over that uniform file's, latency over float's with its interval."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import _oracle_web as web_runtime
from _cases import case_words, make_inputs
from _ratios import Ratios, folder, header

SOURCE, CASES = (pathlib.Path(os.environ[name]) for name in ("SEQTO_SOURCE_DIR", "SEQTO_CASES_DIR"))
NETWORKS, SECONDS, KEPT = ("resnet20", "resnet8", "tiny_encoder"), 120, 0.98
SEEN, UNSEEN = 500, 200  # samples of the study, and those that it does not see
TINY = 1e-12  # as seqto's: keeps a share of 0 finite


def study(model, data, target, out, *words, env=None):
    subprocess.run([os.environ["SEQTO_BINARY"], "tune", model, *data, "--target", target, *words, "--max-time", str(SECONDS), "-o", out, "-q"],
                   check=True, env={**os.environ, **(env or {})}, stdout=subprocess.DEVNULL)
    return json.loads((out / "summary.json").read_text())


def split(name, out):
    """The case's samples as arrays: data for the study, and those that it does not see."""
    case = CASES / name
    given = case / json.loads((case / "case.json").read_text())["data"]
    if given.suffix != ".npz":
        given = out / "all.npz"
        make_inputs(str(case), given, SEEN + UNSEEN)
    arrays = {n: x for n, x in np.load(given).items() if n != "y"}
    np.savez(out / "seen.npz", **{n: x[:-UNSEEN] for n, x in arrays.items()})
    return out / "seen.npz", {n: x[-UNSEEN:] for n, x in arrays.items()}


def points_of(summary, written):
    """The uniform file and the others, each with what the study measured as `seen_kl`."""
    points = [summary["fully_quantized"], *summary["front"], *summary["others"]]
    points = [p for p in points if p.get("file") and (written / p["file"]).exists()]
    for point in points:
        point["seen_kl"] = point["losses"]["kl"]
    return points


def on_openvino(name, out):
    """The study's points with their losses on the device, on samples that the study did not see."""
    out.mkdir()
    environment = {"SEQTO_ORT_LIBRARY": str(next(iter(sorted((SOURCE / ".deps/openvino").glob("libonnxruntime.so*")))))}
    seen, unseen = split(name, out)
    np.savez(out / "unseen.npz", **unseen)
    model = case_words(name)[0]
    points = points_of(study(model, ["--data", seen], "openvino-cpu", out / "study", "--device", "openvino", env=environment), out / "study")
    for point in points:
        told = subprocess.run([os.environ["SEQTO_BINARY"], "-q", "--json", "check", out / "study" / point["file"], "--reference", model, "--data",
                               out / "unseen.npz", "--device", "openvino", "--reference-device", "openvino", "--max-loss", "kl=1e9"],
                              check=True, env={**os.environ, **environment}, capture_output=True, text=True).stdout
        found = json.loads(told)["figures"]["kl"]
        point.update(losses={"kl": found["value"]}, intervals={"kl": found["interval"]})
    return points[0], points[1:]


def shares(outputs):
    """The softmax of each row, which seqto's loss compares."""
    x = np.concatenate([next(iter(o.values())).reshape(1, -1) for o in outputs]).astype(np.float64)
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def interval(values):
    means = np.random.default_rng(0).choice(values, (1000, len(values))).mean(1)
    return [float(x) for x in np.quantile(means, (0.025, 0.975))]


def on_web(name, out):
    """The same points with the losses of what Node's runs answered; none has a latency."""
    out.mkdir()
    seen, unseen = split(name, out)
    model = case_words(name)[0]
    summary = study(model, ["--data", seen], "onnxruntime-web-wasm", out / "study", "--schemes", "int8,int8_weights,float16,float32")
    web = web_runtime.Web()
    inputs = web.inputs(model)
    arrays = [unseen[n] for n in inputs] if all(n in unseen for n in inputs) else [unseen["x"]]
    samples = [{n: x[i:i + 1] for n, x in zip(inputs, arrays)} for i in range(UNSEEN)]
    expected = shares(web.run(model, samples))
    points = points_of(summary, out / "study")
    for point in points:
        found = shares(web.run(out / "study" / point["file"], samples))
        each = (expected * (np.log(expected + TINY) - np.log(found + TINY))).sum(1)
        point.update(losses={"kl": float(each.mean())}, intervals={"kl": interval(each)}, latency_ns={})
    web.close()
    return points[0], points[1:]


def row(name, what, point, uniform):
    low, high = point["intervals"]["kl"]
    time = (point["latency_ns"] or {}).get("over_float")
    latency = "{:.2f} ({:.2f} to {:.2f})".format(time["value"], *time["interval"]) if time else "-"
    return (f"| {name} | {what} | {point['size_reduction_kept']:.1%} | {point['losses']['kl']:.2e} ({low:.1e} to {high:.1e}) | "
            f"{point['losses']['kl'] / uniform:.5f} | {latency} |")


RUNS = {"openvino-cpu": ("targets", on_openvino), "onnxruntime-web-wasm": ("targets_web", on_web)}


def missing(target):
    """What is not there; empty: all is."""
    if target == "onnxruntime-web-wasm": return web_runtime.missing()
    return "" if any((SOURCE / ".deps/openvino").glob("libonnxruntime.so*")) else "no onnxruntime-openvino in .deps/openvino (tools/setup.sh test)"


def main():
    target = sys.argv[sys.argv.index("--target") + 1] if "--target" in sys.argv else "openvino-cpu"
    if lacking := missing(target):
        print("skipped:", lacking)
        return 0
    page, measured = RUNS[target]
    networks = [name for name in NETWORKS if (CASES / name).exists()]
    text = header(f"targets --target {target}", networks, "bench/targets.py") + \
        "| network | file | size reduction kept | loss | over the uniform file's | latency over float's |\n|---|---|---|---|---|---|\n"
    ratios = Ratios(page, networks)
    with tempfile.TemporaryDirectory() as work:
        for name in networks:
            uniform, points = measured(name, pathlib.Path(work) / name)
            loss = uniform["losses"]["kl"]
            points = [p for p in points if p["seen_kl"] is not None]
            small = min((p for p in points if p["size_reduction_kept"] >= KEPT), key=lambda p: p["seen_kl"])
            full = next((p for p in points if p["id"] == "full"), None)
            refused = uniform["id"] == "full"  # then the target's int8 is what `tune` compares with
            rows = [row(name, "onnxruntime's defaults do not run; the target's int8" if refused else "onnxruntime's defaults, all layers", uniform, loss)]
            if full and not refused: rows.append(row(name, "the target's int8, all layers", full, loss))
            rows.append(row(name, f"the least loss in the study at {KEPT:.0%} or more", small, loss))
            if timed := [p for p in points if p["latency_ns"]]:
                rows.append(row(name, "the fastest", min(timed, key=lambda p: p["latency_ns"]["median"]), loss))
            print("\n".join(rows), flush=True)
            text += "\n".join(rows) + "\n"
            ratios.add(f"{name}: loss at {KEPT:.0%} of the size reduction over the uniform file's", max(1e-9, small["losses"]["kl"] / loss), "lower")
    if "--write" in sys.argv:
        (folder() / f"{page}.md").write_text(f"# Files for {target}, on its runtime\n\n" + text)
    return ratios.finish()


if __name__ == "__main__":
    sys.exit(main())
