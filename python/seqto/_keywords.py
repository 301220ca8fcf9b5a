"""Keyword arguments of seqto.tune as a file, for evaluators on other machines: KEY = JSON, a line each."""
from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = {"progress", "executor", "resume"}  # what an evaluator has no use for
FILES = {"labels", "preprocess", "calibration_data", "ranking_data", "groups"}


def as_config(executor: str, model: Path, data: Path, keywords: Mapping[str, Any]) -> str:
    if executor.partition(":")[0] != "ray":
        raise ValueError(f"executor {executor!r} found; 'ray' or 'ray:ADDRESS' expected")
    if not data.parts:
        raise TypeError("executor with samples that are read one by one found; a path, arrays or batches expected")
    os.environ.setdefault("SEQTO_PYTHON", sys.executable)
    values: dict[str, Any] = {"keywords": True, "model": model.absolute(), "data": data if str(data) == "random" else data.absolute()}
    values |= {key: _absolute(value) if key in FILES else value for key, value in keywords.items() if key not in HERE}
    if isinstance(values.get("metrics"), (list, tuple)):
        values["metrics"] = [_with_absolute_file(metric) for metric in values["metrics"]]
    return "".join(f"{key} = {_text(key, value)}\n" for key, value in values.items())


def from_config(text: str) -> dict[str, Any]:
    pairs = (line.partition(" = ") for line in text.splitlines())
    values = {key: json.loads(value) for key, _, value in pairs}
    return {key: value for key, value in values.items() if key != "keywords"}


def _absolute(value: Any) -> Any:
    return os.path.abspath(value) if isinstance(value, (str, os.PathLike)) and os.path.exists(value) else value


def _with_absolute_file(metric: Any) -> Any:
    name, equals, file = metric.partition("=") if isinstance(metric, str) else (metric, "", "")
    return f"{name}={os.path.abspath(file)}" if equals else name


def _text(key: str, value: Any) -> str:
    try:
        return json.dumps(value, default=os.fspath, ensure_ascii=False)
    except TypeError:
        raise TypeError(f"executor with {key}={value!r} found; another machine needs a value of JSON") from None
