"""Where the installed packages keep what the library loads and starts."""
from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path


def library() -> str:
    """The C library inside the package onnxruntime, of whatever flavour; "" where none is installed."""
    found = importlib.util.find_spec("onnxruntime")
    for folder in (found.submodule_search_locations or []) if found else []:
        for path in sorted(Path(folder, "capi").glob("libonnxruntime.so*"), reverse=True):
            return str(path)
    return ""


def worker() -> str:
    """The command, which workers are started with."""
    beside = Path(sysconfig.get_path("scripts"), "seqto")
    return str(beside) if beside.exists() else shutil.which("seqto") or ""


def run_command() -> None:
    """`seqto`: the command line, in this process."""
    import sys

    from ._core import run_command

    os.environ.setdefault("SEQTO_ORT_LIBRARY", library())
    os.environ.setdefault("SEQTO_WORKER", worker())
    os.environ.setdefault("SEQTO_PYTHON", sys.executable)
    run_command(["seqto", *sys.argv[1:]])
