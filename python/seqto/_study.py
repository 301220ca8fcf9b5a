"""What `tune` leaves: a view of summary.json and of the files beside it."""
from __future__ import annotations

import functools
import html
import json
import os
import typing
from pathlib import Path

from . import _core


class Point(typing.NamedTuple):
    """A candidate of a study, with its figures on the samples of the report."""

    name: str  #: "1", "2" ... along the front, "float", "int8"
    id: str
    size_bytes: int
    latency_ns: int | None  #: the median of a sample
    losses: dict[str, float]  #: against the float model
    metrics: dict[str, float]  #: from labels
    layers: dict[str, str]  #: the scheme of each quantizable layer


def _point(found: dict[str, typing.Any]) -> Point:
    latency = found["latency_ns"]
    return Point(found["name"], found["id"], found["size_bytes"], latency and latency["median"], found["losses"] or {},
                 found["metrics"] or {}, {layer["name"]: layer["scheme"] for layer in found["layers"]})


class Study:
    """A folder that `tune` wrote. Points are called as in the table: "1", "2" ..., "selected", "int8", "float"."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    @functools.cached_property
    def summary(self) -> dict[str, typing.Any]:
        """summary.json, docs/reference/formats.md."""
        file = self.folder / "summary.json"
        if not file.is_file():
            error = _core.Error(f"[study] no summary.json found in {self.folder}; the folder of a finished tune() expected")
            error.code = _core.Code.invalid_input
            raise error
        return typing.cast("dict[str, typing.Any]", json.loads(file.read_text()))

    @property
    def answer(self) -> str:
        """What to use, in a sentence."""
        return str(self.summary["answer"])

    @property
    def front(self) -> list[Point]:
        """The points that no other one beats, from the smallest file up."""
        return [_point(p) for p in self.summary["front"]]

    @property
    def float(self) -> Point:
        """The original model."""
        return _point(self.summary["baseline"])

    @property
    def int8(self) -> Point:
        """Every layer in int8."""
        return _point(self.summary["fully_quantized"])

    @property
    def selected(self) -> Point:
        """What to use."""
        points = [*self.summary["front"], self.summary["fully_quantized"], self.summary["baseline"]]
        return _point(next(p for p in points if p["id"] == self.summary["selected"]))

    def path(self, name: str = "selected") -> Path:
        """The model file of a point. Raises Error(invalid_input) with the names that there are."""
        return Path(_core.study_files(self.folder, name)[0])

    def model(self, name: str = "selected") -> _core.Model:
        """The model of a point."""
        return _core.load(self.path(name))

    def plan(self, name: str = "selected") -> _core.Plan:
        """The plan of a point."""
        return _core.Plan.load(_core.study_files(self.folder, name)[1])

    def to_pandas(self) -> typing.Any:
        """A pandas.DataFrame with a row for each point of the front; needs the package pandas."""
        import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]

        rows = [{"name": p.name, "size_bytes": p.size_bytes, "latency_ns": p.latency_ns, **p.losses, **p.metrics}
                for p in self.front]
        return pandas.DataFrame(rows).set_index("name")

    def __str__(self) -> str:
        return _core.study_table(self.folder)

    def __repr__(self) -> str:
        return f"<seqto.Study {str(self.folder)!r}: {self.answer}>"

    def _repr_html_(self) -> str:
        plot = self.folder / "plots" / "front.svg"
        return f"<pre>{html.escape(str(self))}</pre>" + (plot.read_text() if plot.exists() else "")
