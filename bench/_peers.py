"""Other tools for comparisons, each in a virtual environment of its own, which is made when it is first asked for."""
import os
import pathlib
import subprocess
import sys

ONNXRUNTIME = (pathlib.Path(__file__).parents[1] / "tools/locks/onnxruntime.txt").read_text().split()[0]  # with its release
NNCF = ("nncf", ["nncf==3.4.0", "onnx", ONNXRUNTIME])
AIMET = ("aimet_onnx", ["aimet-onnx==2.42.0"])


def python_with(root, tool, bench):
    """Path of a Python that can import the tool, or None after a line that says what pip said.

    SEQTO_NNCF_PYTHON, SEQTO_AIMET_ONNX_PYTHON: one that can already.
    """
    module, packages = tool
    own = os.environ.get(f"SEQTO_{module.upper()}_PYTHON")
    if own:
        return own
    python = root / ".cache" / module.split("_")[0] / "bin" / "python"
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
        pinned = [package.split("==") for package in packages if "==" in package]
        check = (f"import {module}; from importlib.metadata import version; "
                 f"raise SystemExit(any(version(name) != asked for name, asked in {pinned}))")
        has = subprocess.run([python, "-c", check], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        if has.returncode:
            subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True, stderr=subprocess.PIPE)
        return str(python)
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
        print(f"{bench}: {module} skipped, it cannot be installed: {said[-1] if said else error}", file=sys.stderr, flush=True)
        return None
