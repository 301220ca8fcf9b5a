"""The cases that benchmarks run on, with the scripts beside them."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np


def case_on_one_core(bench):
    """The case's folder and the scripts that come with the cases, every side on one core; (None, None) and a line that says so
    where they are absent."""
    cases = os.environ["SEQTO_CASES_DIR"]
    case = os.path.join(cases, os.environ.get("SEQTO_BENCH_CASE", "mobilenetv2"))
    scripts = os.path.join(cases, "..", "bench")
    if not os.path.isdir(case) or not os.path.isdir(scripts):
        print(f"{bench}: skipped, the cases are not there")
        return None, None
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return case, scripts


def baseline(scripts):
    """The words that begin the published procedure's script. Its sessions get one thread: ONNX Runtime's own choice is all cores,
    whatever the process may use."""
    return [sys.executable, "-B", str(pathlib.Path(__file__).with_name("_one_thread.py")), os.path.join(scripts, "seqto_baseline.py")]


def make_inputs(case, path, count):
    """Writes the case's first inputs, x and y, to an .npz; returns x."""
    script = pathlib.Path(case).parent.parent / "bench" / "make_inputs.py"
    subprocess.run([sys.executable, script, case, path, "--limit", str(count)], check=True, stdout=subprocess.DEVNULL)
    return np.load(path)["x"].astype(np.float32)


def case_words(name):
    """A case's model, and the flags that give its data."""
    case = pathlib.Path(os.environ["SEQTO_CASES_DIR"]) / name
    given = json.loads((case / "case.json").read_text())
    data = (case / given["data"]).resolve()
    words = ["--data", data.parent if data.name == "images" else data]  # labels lie beside them
    if "preprocess" in given: words += ["--preprocess", case / given["preprocess"]]
    return case / given["model"], words
