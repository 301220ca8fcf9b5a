"""Files made for a target, run on its own runtime: `tune --target openvino-cpu --device openvino`, by the ONNX Runtime with
OpenVINO that `tools/setup.sh test` brings. Each row is a file of one study, all measured in it on the same samples.

Columns: network, file, bytes saved of those that the uniform file by onnxruntime's defaults saves, loss (KL) with its
interval, loss over that uniform file's, latency over float's with its interval."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from _cases import case_words
from _ratios import Ratios, folder, header

SOURCE, CASES = (pathlib.Path(os.environ[name]) for name in ("SEQTO_SOURCE_DIR", "SEQTO_CASES_DIR"))
TARGET, DEVICE = "openvino-cpu", "openvino"
NETWORKS, SECONDS, KEPT = ("resnet20", "resnet8", "tiny_encoder"), 120, 0.98


def study(name, out, library):
    model, words = case_words(name)
    subprocess.run([os.environ["SEQTO_BINARY"], "tune", model, *words, "--target", TARGET, "--device", DEVICE,
                    "--max-time", str(SECONDS), "-o", out, "-q"], check=True, env={**os.environ, "SEQTO_ORT_LIBRARY": str(library)},
                   stdout=subprocess.DEVNULL)
    return json.loads((out / "summary.json").read_text())


def row(name, what, point, uniform):
    low, high = point["intervals"]["kl"]
    time = point["latency_ns"].get("over_float")
    latency = "{:.2f} ({:.2f} to {:.2f})".format(time["value"], *time["interval"]) if time else "-"
    return (f"| {name} | {what} | {point['size_reduction_kept']:.1%} | {point['losses']['kl']:.2e} ({low:.1e} to {high:.1e}) | "
            f"{point['losses']['kl'] / uniform:.5f} | {latency} |")


def main():
    libraries = sorted((SOURCE / ".deps/openvino").glob("libonnxruntime.so*"))
    if not libraries:
        print("skipped: no onnxruntime-openvino in .deps/openvino (tools/setup.sh test)")
        return 0
    networks = [name for name in NETWORKS if (CASES / name).exists()]
    text = header("targets", networks, "bench/targets.py") + \
        "| network | file | size reduction kept | loss | over the uniform file's | latency over float's |\n|---|---|---|---|---|---|\n"
    ratios = Ratios("targets", networks)
    with tempfile.TemporaryDirectory() as work:
        for name in networks:
            summary = study(name, pathlib.Path(work) / name, libraries[0])
            uniform = summary["fully_quantized"]
            points = [p for p in [*summary["front"], *summary["others"]] if p["losses"]["kl"] is not None]
            small = min((p for p in points if p["size_reduction_kept"] >= KEPT), key=lambda p: p["losses"]["kl"])
            fast = min(points, key=lambda p: p["latency_ns"]["median"] if p["latency_ns"] else float("inf"))
            full = next((p for p in points if p["id"] == "full"), None)
            loss = uniform["losses"]["kl"]
            rows = [row(name, "onnxruntime's defaults, all layers", uniform, loss)]
            if full: rows.append(row(name, "the target's int8, all layers", full, loss))
            rows += [row(name, f"the least loss at {KEPT:.0%} or more", small, loss), row(name, "the fastest", fast, loss)]
            print("\n".join(rows), flush=True)
            text += "\n".join(rows) + "\n"
            ratios.add(f"{name}: loss at {KEPT:.0%} of the size reduction over the uniform file's", max(1e-9, small["losses"]["kl"] / loss), "lower")
    if "--write" in sys.argv:
        (folder() / "targets.md").write_text("# Files for a target, on its runtime\n\n" + text)
    return ratios.finish()


if __name__ == "__main__":
    sys.exit(main())
