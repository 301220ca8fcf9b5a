"""What the forms of files for text models are worth on ONNX Runtime's CPU provider: in one run, in turn, on one thread.

Dynamic int8 as onnxruntime's quantizer writes it (`--compat onnxruntime`) and as `seqto quantize --mode dynamic` does: there an
Add before a layer normalization is a Sum (`sums_for_adds`), as is that of a bias in static files. Static int8 of all layers that onnxruntime's quantizer lists, in
the types that are fast, and as `seqto quantize` does: what lies between products stays in float (`float_between_products`), and
Sums. Under each release of the runtime that is installed. Error: the mean squared error of the outputs over their mean square,
under the newest release. Times over float's.

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

from _ratios import Ratios, folder, header
from encoder import save_encoder

ROOT = pathlib.Path(os.environ["SEQTO_SOURCE_DIR"])
CASES = ("tiny_encoder", "tiny_lm")
SAMPLES, TIMED, ROUNDS = 64, 4, 40
STATIC = ["--no-improve", "--data"]
NAMED = ["--activation-type", "uint8", "--weight-type", "int8", "--per-channel", "--exclude-output-op-types", "MatMul,Gemm"]
FORMS = {"float": None, "dynamic, onnxruntime's": ["--mode", "dynamic", "--compat", "onnxruntime"], "dynamic": ["--mode", "dynamic"],
         "static, all layers": [*NAMED, *STATIC], "static": STATIC}


def networks(work):
    for case in CASES:
        path = pathlib.Path(os.environ["SEQTO_CASES_DIR"]) / case
        if path.is_dir():
            data = np.load(path / "inputs.npz")
            inputs = [i.name for i in onnx.load(path / "model.onnx", load_external_data=False).graph.input]
            yield case, path / "model.onnx", {name: data[name][:SAMPLES] for name in inputs}
    path = os.path.join(work, "generated.onnx")
    save_encoder(path, layers=3, words=2000)
    yield "encoder of 3 layers of 768", path, {"input_ids": np.random.default_rng(0).integers(0, 2000, (SAMPLES, 128))}


def releases():
    """Name and folder of each release; this Python's own first."""
    yield "", None
    for path in sorted((ROOT / ".deps/runtimes").glob("onnxruntime-*-python"), reverse=True):
        yield path.name.split("-")[1], str(path)


def timed(files, data, errors):
    """In a process of one release: prints its version, times over the first file's, and errors where they are asked for."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    sessions = [onnxruntime.InferenceSession(f, options, providers=["CPUExecutionProvider"]) for f in files]
    samples = np.load(data)
    feeds = [{name: samples[name][i:i + 1] for name in samples.files} for i in range(SAMPLES)]
    times = [[] for _ in files]
    for _ in range(ROUNDS):
        for own, session in zip(times, sessions):
            start = time.perf_counter()
            for feed in feeds[:TIMED]: session.run(None, feed)
            own.append(time.perf_counter() - start)
    result = {"release": onnxruntime.__version__, "times": [statistics.median(own) / statistics.median(times[0]) for own in times]}
    if errors:
        wanted = [sessions[0].run(None, feed)[0] for feed in feeds]
        result["errors"] = [float(np.mean([np.square(s.run(None, feed)[0] - w).mean() / np.square(w).mean() for feed, w in zip(feeds, wanted)]))
                            for s in sessions]
    print(json.dumps(result))


def main():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lines, names, ratios = [], [], Ratios("text_forms")
    with tempfile.TemporaryDirectory() as work:
        for network, model, samples in networks(work):
            names.append(network)
            data = os.path.join(work, "data.npz")
            np.savez(data, **samples)
            files = []
            for form, words in FORMS.items():
                files.append(str(model) if words is None else os.path.join(work, f"{form}.onnx"))
                if words is None: continue
                words = [*words, data] if words[-1] == "--data" else words
                subprocess.run([os.environ["SEQTO_BINARY"], "-q", "quantize", model, "-o", files[-1], *words], check=True, stdout=subprocess.DEVNULL)
            for release, path in releases():
                found = json.loads(subprocess.run([sys.executable, "-B", __file__, "--timed", path or "", data, *files], check=True,
                                                  capture_output=True, text=True).stdout.splitlines()[-1])
                for k, form in enumerate(FORMS):
                    error = f"{found['errors'][k]:.3g}" if "errors" in found else ""
                    lines.append(f"| {network} | {found['release']} | {form} | {found['times'][k]:.2f} | {error} |")
                    print(lines[-1], flush=True)
                if path: continue
                t, e = found["times"], found["errors"]
                ratios.add(f"{network}: dynamic, time over onnxruntime's form", t[2] / t[1], "lower")
                ratios.add(f"{network}: static, time over all layers'", t[4] / t[3], "lower")
                ratios.add(f"{network}: static, error over all layers'", e[4] / e[3], "lower")
    ratios.networks = names
    if "--write" in sys.argv:
        table = "\n".join(["| network | release | form | time | error |", "|---|---|---|---|---|", *lines])
        (folder() / "text_forms.md").write_text("# Forms of text models\n\n" + header("text_forms", names, "bench/text_forms.py") + table + "\n")
    return ratios.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--timed"]:
        if sys.argv[2]: sys.path.insert(0, sys.argv[2])
        timed(sys.argv[4:], sys.argv[3], errors=not sys.argv[2])
    else:
        sys.exit(main())
