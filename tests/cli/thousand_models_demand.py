"""`tune` of a folder of 1,000 models, or as many as the argument says, each with other weights: it is interrupted in the
middle, goes on, and ends with a study, a report and a row of the overview for each. Prints its time and its memory."""

import json
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402


def write_model(path, seed):
    nodes = [models.node("Conv", ["x", "w"], ["c"]), models.node("Relu", ["c"], ["r"]),
             models.node("GlobalAveragePool", ["r"], ["p"]), models.node("Flatten", ["p"], ["f"]),
             models.node("MatMul", ["f", "v"], ["y"])]
    models.save(path, nodes, [("x", [1, 3, 8, 8])], [("y", [1, 10])],
                [("w", models.weight(16, 3, 3, 3, seed=seed)), ("v", models.weight(16, 10, seed=seed))])


def main(count):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="seqto-thousand-"))
    out = folder / "out"
    try:
        (folder / "models").mkdir()
        for i in range(count):
            write_model(folder / "models" / f"m{i:04}.onnx", i)
        data = models.arrays(folder / "x.npz")
        command = [models.BINARY, "tune", folder / "models", "--data", data, "--max-evaluations", 3, "-o", out]
        begin = time.monotonic()
        first = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(list(out.glob("*/summary.json"))) < count // 2:
            assert first.poll() is None, f"it ended by itself, with {first.returncode}"
            time.sleep(0.2)
        first.send_signal(signal.SIGINT)
        assert first.wait(timeout=60) == 130, first.returncode
        before = len(list(out.glob("*/summary.json")))
        second = models.seqto(*command[1:], timeout=3600)
        assert second.returncode == 0, second.stderr[-2000:]
        entries = json.loads((out / "overview.json").read_text())["models"]
        assert len(entries) == count, len(entries)
        for entry in entries:
            assert "failure" not in entry, entry["failure"]
            for name in ("study.jsonl", "summary.json", "report.html"):
                assert (out / entry["model"] / name).is_file(), (entry["model"], name)
        trials = sum(path.read_text().count('"trial"') for path in out.glob("*/study.jsonl"))
        page = (out / "index.html").stat().st_size
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"{count} models, {trials} trials, interrupted after {before}: {time.monotonic() - begin:.0f} s, "
              f"{memory:.0f} MB at most, overview of {page / 1e6:.1f} MB")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
