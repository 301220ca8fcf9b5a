"""Every calibration method against onnxruntime's calibrators and against the formulas of docs/design/calibration.md.

Equal means equal floats. Both run the float model on one thread. The example is always compared; real models where
SEQTO_CASES_DIR has them.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationMethod, create_calibrator, quant_utils
from onnxruntime.quantization.calibrate import TensorsData, load_tensors_data

sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))
import cases  # noqa: E402

SAMPLES = 12
NewOptions = onnxruntime.SessionOptions
M = CalibrationMethod
# our flags, their method, their options, samples a collect_data call (0: all)
METHODS = {
    "minmax": ([], M.MinMax, {}, 0),
    "minmax symmetric": (["--symmetric-ranges", "true"], M.MinMax, {"symmetric": True}, 0),
    "moving_average": (["--method", "moving_average"], M.MinMax, {"moving_average": True}, 0),
    "moving_average chunks": (["--method", "moving_average", "--chunk-samples", "5", "--moving-average-constant", "0.3"],
                              M.MinMax, {"moving_average": True, "averaging_constant": 0.3}, 5),
    "percentile": (["--method", "percentile"], M.Percentile, {}, 0),
    "percentile 99": (["--method", "percentile", "--percentile", "99", "--bins", "500"], M.Percentile,
                      {"percentile": 99, "num_bins": 500}, 0),
    "percentile asymmetric": (["--method", "percentile", "--symmetric-ranges", "false", "--percentile", "99.9"],
                              M.Percentile, {"percentile": 99.9, "symmetric": False}, 0),
    "distribution": (["--method", "distribution"], M.Distribution, {}, 0),
    "entropy 128": (["--method", "entropy", "--bins", "128", "--quantized-bins", "128"], M.Entropy, {}, 0),
}


def one_thread():
    options = NewOptions()
    options.intra_op_num_threads = 1
    return options


def theirs(model, samples, method, options, chunk, scratch):
    onnxruntime.SessionOptions = one_thread
    stdout, sys.stdout = sys.stdout, open(os.devnull, "w")
    try:
        calibrator = create_calibrator(model, augmented_model_path=str(scratch / "augmented.onnx"),
                                       calibrate_method=method, extra_options=options)
        chunk = chunk or len(samples)
        for start in range(0, len(samples), chunk):
            calibrator.collect_data(cases.Samples(samples[start:start + chunk]))
        return calibrator.compute_data()
    finally:
        sys.stdout = stdout
        onnxruntime.SessionOptions = NewOptions


def ours(model, data, flags, out):
    subprocess.run([os.environ["SEQTO_BINARY"], "calibrate", model, "--data", data, "--threads", "1", "-o", out, *flags],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return load_tensors_data(out)


def same(a, b, what):
    a, b = np.asarray(a).reshape(-1), np.asarray(b).reshape(-1)
    assert a.shape == b.shape and (a == b).all(), f"{what}: {a[:4]} expected, {b[:4]} found"


def check_equal(name, model, samples, data, scratch):
    for method, (flags, kind, options, chunk) in METHODS.items():
        expected = theirs(model, samples, kind, options, chunk, scratch)
        actual = ours(model, data, flags, scratch / "actual.json")
        assert actual.calibration_method == expected.calibration_method
        for tensor in actual.keys():
            e, a = expected[tensor], actual[tensor]
            for field in ("lowest", "highest", "avg", "std"):
                if hasattr(e, field):
                    same(getattr(e, field), getattr(a, field), f"{name} {method} {tensor} {field}")
            if kind in (M.Distribution, M.Entropy):
                edges = "hist_edges" if kind == M.Distribution else "bins"
                same(e.hist, a.hist, f"{name} {method} {tensor} hist")
                same(getattr(e, edges), getattr(a, edges), f"{name} {method} {tensor} edges")
        print(f"{name} {method}: {len(list(actual.keys()))} tensors equal")


def kl(counts, begin, end, levels):
    kept = counts[begin:end].astype(np.float64)
    if kept.sum() == 0:
        return np.inf
    size, q = end - begin, np.zeros(end - begin)
    for level in range(levels):
        part = slice(level * size // levels, (level + 1) * size // levels)
        full = kept[part] != 0
        if full.any():
            q[part] = np.where(full, kept[part].sum() / full.sum(), 0)
    p = kept.copy()
    p[0] += counts[:begin].sum()
    p[-1] += counts[end:].sum()
    p /= p.sum()
    at = p > 0
    return float((p[at] * np.log(p[at] / (q[at] / kept.sum() + 1e-9))).sum())


def check_entropy(name, model, data, scratch):
    cut = 0
    observed = ours(model, data, [], scratch / "minmax.json")
    for tensor, r in ours(model, data, ["--method", "entropy", "--bins", "2048"], scratch / "entropy.json").items():
        counts, edges = np.asarray(r.hist), np.asarray(r.bins)
        low, high = float(r.lowest), float(r.highest)
        full = observed[tensor]
        assert low >= full.lowest and high <= full.highest
        zero = max(int(np.searchsorted(edges, 0, side="right")) - 1, 0)
        occupied = np.flatnonzero(counts)
        first, last = min(occupied[0], zero), max(occupied[-1], zero) + 1
        begin = int(np.argmin(np.abs(edges - low))) if low > full.lowest else first
        end = int(np.argmin(np.abs(edges - high))) if high < full.highest else last
        best = kl(counts, begin, end, 256)
        assert best <= kl(counts, first, last, 256) + 1e-9, (name, tensor)
        cut += (begin, end) != (first, last)
        # No other end does better alone.
        for place in range(0, 65, 4):
            b, e = zero - (zero - first) * place // 64, zero + 1 + (last - zero - 1) * place // 64
            if e - begin >= 256 and full.highest > 0:
                assert best <= kl(counts, begin, e, 256) + 1e-9, (name, tensor, place, "high")
            if end - b >= 256 and full.lowest < 0:
                assert best <= kl(counts, b, end, 256) + 1e-9, (name, tensor, place, "low")
    assert cut > 0, "entropy never clips"
    print(f"{name} entropy: minimum of the formula; clips {cut} tensors")


def squared_error(counts, edges, low, high):
    low, high = np.float32(min(low, 0)), np.float32(max(high, 0))
    zero, scale = quant_utils.compute_scale_zp(low, high, np.array(-128, np.int8), np.array(127, np.int8))[:2]
    centres = (edges[:-1].astype(np.float64) + edges[1:]) / 2
    codes = np.clip(np.round(centres / float(scale)) + int(zero), -128, 127) - int(zero)
    return float((counts * (centres - codes * float(scale)) ** 2).sum())


def check_mse(name, model, data, scratch):
    cut = 0
    observed = ours(model, data, [], scratch / "minmax.json")
    for tensor, r in ours(model, data, ["--method", "mse"], scratch / "mse.json").items():
        counts, edges = np.asarray(r.hist), np.asarray(r.bins)
        low, high = float(r.lowest), float(r.highest)
        least = float(np.asarray(observed[tensor].lowest).reshape(-1)[0])
        most = float(np.asarray(observed[tensor].highest).reshape(-1)[0])
        best = squared_error(counts, edges, low, high)
        cut += (low, high) != (least, most)
        for place in range(1, 65, 3):
            if most > 0:
                assert best <= squared_error(counts, edges, low, most * place / 64) * (1 + 1e-5), (name, tensor, place)
            if least < 0:
                assert best <= squared_error(counts, edges, least * place / 64, high) * (1 + 1e-5), (name, tensor, place)
    assert cut > 0, "mse never clips"
    print(f"{name} mse: no better end; clips {cut} tensors")


def check_fast(name, model, data, scratch):
    """One pass over the optimised model: equal to the exact ranges but for rounding."""
    magnitude = {t: max(abs(float(np.asarray(v).reshape(-1)[0])) for v in (r.lowest, r.highest))
                 for t, r in ours(model, data, [], scratch / "minmax.json").items()}
    for flags in ([], ["--method", "percentile", "--percentile", "99.9"], ["--method", "distribution"]):
        exact = ours(model, data, flags, scratch / "exact.json")
        fast = ours(model, data, [*flags, "--fast-ranges"], scratch / "fast.json")
        assert set(exact.keys()) == set(fast.keys()), (name, flags, set(exact.keys()) ^ set(fast.keys()))
        for tensor, e in exact.items():
            f = fast[tensor]
            if flags:  # Thresholds and outer edges lie on the edges of bins, which are not the same bins.
                bins = np.asarray(getattr(f, "hist_edges" if "distribution" in flags else "bins"))
                allowed = float(bins[1] - bins[0]) + 2 * magnitude[tensor] / 2048
            else:
                allowed = 1e-5 * max(abs(float(np.asarray(v).reshape(-1)[0])) for v in (e.lowest, e.highest)) + 1e-6
            for field in ("lowest", "highest"):
                a, b = (float(np.asarray(getattr(x, field)).reshape(-1)[0]) for x in (e, f))
                assert abs(a - b) <= allowed, (name, flags, tensor, field, a, b)
    print(f"{name} fast: as exact but for rounding")


def check_tables(name, model, data, scratch):
    cache = ours(model, data, ["--tensorrt-table", str(scratch / "table")], scratch / "ranges.json")
    quant_utils.write_calibration_table(TensorsData(cache.calibration_method, cache.data), str(scratch))
    for kind in ("flatbuffers", "cache"):
        mine, other = (scratch / f"table.{kind}").read_bytes(), (scratch / f"calibration.{kind}").read_bytes()
        assert mine == other, f"{name}: {kind} differs, {len(mine)} and {len(other)} bytes"
    assert json.loads((scratch / "table.json").read_text()) == json.loads((scratch / "calibration.json").read_text())
    print(f"{name} TensorRT tables: identical")


def check_tensor_method(name, model, data, scratch):
    minmax = ours(model, data, [], scratch / "a.json")
    percentile = ours(model, data, ["--method", "percentile", "--percentile", "95"], scratch / "b.json")
    chosen = next(t for t in minmax.keys() if minmax[t].highest != percentile[t].highest)
    mixed = ours(model, data, ["--percentile", "95", "--tensor-method", f"{chosen}=percentile"], scratch / "c.json")
    for tensor in mixed.keys():
        same((percentile if tensor == chosen else minmax)[tensor].highest, mixed[tensor].highest, f"{name} {tensor}")


def main():
    example = Path(__file__).parents[2] / "examples" / "digits"
    x = np.load(example / "digits.npz")["x"][:SAMPLES].astype(np.float32)
    jobs = [("examples/digits", onnx.load(example / "model.onnx"), [{"x": v[None]} for v in x])]
    root = os.environ.get("SEQTO_CASES_DIR", "")
    if os.path.isdir(root):
        for name in ("resnet20", "mobilenetv2"):
            folder = Path(root) / name
            case = json.loads((folder / "case.json").read_text())
            model = onnx.load(folder / case["model"])
            for i, node in enumerate(model.graph.node):
                node.name = node.name or f"node_{i}"
            jobs.append((name, model, cases.inputs(folder, case, model, 5)))
    else:
        print(f"skipped: the real models, SEQTO_CASES_DIR '{root}' is not there")
    for name, model, samples in jobs:
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder)
            path, data = scratch / "model.onnx", scratch / "data.npz"
            onnx.save(model, path)
            np.savez(data, **{k: np.concatenate([s[k] for s in samples]) for k in samples[0]})
            check_equal(name, path, samples, data, scratch)
            check_fast(name, path, data, scratch)
            if name == "mobilenetv2":
                continue
            check_entropy(name, path, data, scratch)
            check_mse(name, path, data, scratch)
            check_tables(name, path, data, scratch)
            check_tensor_method(name, path, data, scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
