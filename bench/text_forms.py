"""What the forms of files for text models are worth on ONNX Runtime's CPU provider: in one run, in turn, on one thread.

Dynamic int8 as onnxruntime's quantizer writes it (`--compat onnxruntime`) and as `seqto quantize --mode dynamic` does: there an
Add before a layer normalization is a Sum (`sums_for_adds`), as is that of a bias in static files. Static int8 of all layers that onnxruntime's quantizer lists, in
the types that are fast, and as `seqto quantize` does: what lies between products stays in float (`float_between_products`), and
Sums. Under each release of the runtime that is installed. Then what `--target` writes for OpenVINO and for the web, with and
without `float_between_products`, on OpenVINO and under Node, where `./dev setup runtimes` brought them. Error: the mean squared
error of the outputs over their mean square, on samples that calibrated none of the files, under the newest release, or OpenVINO. Times over float's; OpenVINO computes floats in
bfloat16 where the processor does.

usage: ./dev bench text_forms [--write]     (a page and ratios in bench/results)
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

import _oracle_openvino
import _oracle_web
from _ratios import Ratios, folder, header
from encoder import save_encoder

ROOT = pathlib.Path(os.environ["SEQTO_SOURCE_DIR"])
CASES = ("tiny_encoder", "tiny_lm")
SAMPLES, TIMED, ROUNDS = 64, 4, 40
STATIC = ["--no-improve", "--data"]
NAMED = ["--activation-type", "uint8", "--weight-type", "int8", "--per-channel", "--exclude-output-op-types", "MatMul,Gemm"]
FORMS = {"float": None, "dynamic, onnxruntime's": ["--mode", "dynamic", "--compat", "onnxruntime"], "dynamic": ["--mode", "dynamic"],
         "static, all layers": [*NAMED, *STATIC], "static": STATIC}
TARGETS = {"openvino-cpu": _oracle_openvino, "onnxruntime-web-wasm": _oracle_web}
WEB = ROOT / "bench/_text_forms_web.mjs"


def networks(work):
    """Name, model, samples to calibrate with, and others to measure on."""
    for case in CASES:
        path = pathlib.Path(os.environ["SEQTO_CASES_DIR"]) / case
        if path.is_dir():
            data = np.load(path / "inputs.npz")
            inputs = [i.name for i in onnx.load(path / "model.onnx", load_external_data=False).graph.input]
            yield case, path / "model.onnx", *({name: data[name][rows] for name in inputs} for rows in (slice(SAMPLES, 2 * SAMPLES), slice(SAMPLES)))
    path = os.path.join(work, "generated.onnx")
    save_encoder(path, layers=3, words=2000)
    yield "encoder of 3 layers of 768", path, *({"input_ids": np.random.default_rng(seed).integers(0, 2000, (SAMPLES, 128))} for seed in (1, 0))


def releases():
    """Name and folder of each release; this Python's own first."""
    yield "", None
    for path in sorted((ROOT / ".deps/runtimes").glob("onnxruntime-*-python"), reverse=True):
        yield path.name.split("-")[1], str(path)


def on_onnxruntime():
    """The release, and what makes a function of a file."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3

    def opened(file):
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        return lambda feed: session.run(None, feed)[0]
    return onnxruntime.__version__, opened


def on_openvino():
    import openvino
    core = openvino.Core()

    def opened(file):
        compiled = core.compile_model(file, "CPU", {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY"})
        return lambda feed: compiled(feed)[0].copy()
    return f"OpenVINO {openvino.__version__.split('-')[0]}", opened


def timed(runtime, files, data, errors):
    """In a process of one release: prints its version, times over the first file's, and errors where they are asked for."""
    release, opened = runtime()
    sessions = [opened(file) for file in files]
    samples = np.load(data)
    feeds = [{name: samples[name][i:i + 1] for name in samples.files} for i in range(SAMPLES)]
    times = [[] for _ in files]
    for _ in range(ROUNDS):
        for own, session in zip(times, sessions):
            start = time.perf_counter()
            for feed in feeds[:TIMED]: session(feed)
            own.append(time.perf_counter() - start)
    result = {"release": release, "times": [statistics.median(own) / statistics.median(times[0]) for own in times]}
    if errors:
        wanted = [sessions[0](feed) for feed in feeds]
        result["errors"] = [float(np.mean([np.square(s(feed) - w).mean() / np.square(w).mean() for feed, w in zip(feeds, wanted)]))
                            for s in sessions]
    print(json.dumps(result))


def timed_apart(how, files, data):
    return json.loads(subprocess.run([sys.executable, "-B", __file__, "--timed", how, data, *files], check=True, capture_output=True,
                                     text=True).stdout.splitlines()[-1])


def timed_on_the_web(files, data, work):
    samples = np.load(data)
    kinds = {"i": "int64", "f": "float32"}
    feeds = [{name: {"type": kinds[samples[name].dtype.kind], "dims": [1, *samples[name].shape[1:]],
                     "values": samples[name][i].ravel().tolist()} for name in samples.files} for i in range(TIMED)]
    feeds_file = os.path.join(work, "feeds.json")
    pathlib.Path(feeds_file).write_text(json.dumps(feeds))
    return json.loads(subprocess.run(["node", WEB, _oracle_web.FOLDER, feeds_file, str(ROUNDS), *files], check=True, capture_output=True,
                                     text=True).stdout.splitlines()[-1])


def written(model, forms, data, work):
    files = []
    for form, words in forms.items():
        files.append(str(model) if words is None else os.path.join(work, f"{form}.onnx"))
        if words is None: continue
        words = [*words, data] if words[-1] == "--data" else words
        subprocess.run([os.environ["SEQTO_BINARY"], "-q", "quantize", model, "-o", files[-1], *words], check=True,
                       stdout=subprocess.DEVNULL)
    return files


def forms_of_target(target, work):
    """Of `target`, and of a table that differs in what lies between products."""
    table = os.path.join(work, f"{target}.toml")
    pathlib.Path(table).write_text(f'name = "all-layers"\nextends = "{target}"\nknown = "run"\nsources = ["bench"]\n'
                                   "float_between_products = false\n")
    return {"float": None, "static, all layers": ["--target", table, *STATIC], "static": ["--target", target, *STATIC]}


def rows(network, forms, found):
    for k, form in enumerate(forms):
        error = f"{found['errors'][k]:.3g}" if "errors" in found else ""
        yield f"| {network} | {found['release']} | {form} | {found['times'][k]:.2f} | {error} |"


def main():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lines, names, ratios = [], [], Ratios("text_forms")

    def add(network, forms, found):
        for line in rows(network, forms, found):
            lines.append(line)
            print(line, flush=True)

    with tempfile.TemporaryDirectory() as work:
        for network, model, *samples in networks(work):
            names.append(network)
            calibration, data = (os.path.join(work, name) for name in ("calibration.npz", "data.npz"))
            for path, arrays in zip((calibration, data), samples): np.savez(path, **arrays)
            files = written(model, FORMS, calibration, work)
            for release, path in releases():
                found = timed_apart(path or "newest", files, data)
                add(network, FORMS, found)
                if path: continue
                t, e = found["times"], found["errors"]
                ratios.add(f"{network}: dynamic, time over onnxruntime's form", t[2] / t[1], "lower")
                ratios.add(f"{network}: static, time over all layers'", t[4] / t[3], "lower")
                ratios.add(f"{network}: static, error over all layers'", e[4] / e[3], "lower")
            for target, runtime in TARGETS.items():
                if missing := runtime.missing():
                    print(f"{target}: {missing}", file=sys.stderr)
                    continue
                forms = forms_of_target(target, work)
                files = written(model, forms, calibration, work)
                found = timed_on_the_web(files, data, work) if runtime is _oracle_web else timed_apart("openvino", files, data)
                add(network, forms, found)
                ratios.add(f"{network}: {target}, time over all layers'", found["times"][2] / found["times"][1], "lower")
                if "errors" in found:
                    ratios.add(f"{network}: {target}, error over all layers'", found["errors"][2] / found["errors"][1], "lower")
    ratios.networks = names
    if "--write" in sys.argv:
        table = "\n".join(["| network | release | form | time | error |", "|---|---|---|---|---|", *lines])
        (folder() / "text_forms.md").write_text("# Forms of text models\n\n" + header("text_forms", names, "bench/text_forms.py") + table + "\n")
    return ratios.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--timed"]:
        how, data, *files = sys.argv[2:]
        if how not in ("newest", "openvino"): sys.path.insert(0, how)
        timed(on_openvino if how == "openvino" else on_onnxruntime, files, data, errors=how in ("newest", "openvino"))
    else:
        sys.exit(main())
