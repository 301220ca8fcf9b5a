"""What an evaluator needs of a study, to be sent to machines that have neither its folder nor its data."""
from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ._core import load, version
from ._parcels import Parcel, Store, pack, pack_file, pack_folder

CONFIG = "tune.toml"
STUDY = "study.jsonl"
REPORTS = {CONFIG, "summary.json", "report.html"}  # of a study's folder, what nobody measures by

# Settings whose paths are each machine's own.
OWN = {"output", "runtime-library", "tvm-plugin", "hub-cache", "metric-command", "library", "worker", "tvm_plugins"}
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
PATH = re.compile(r"([\w-]+=)?(/.*)", re.DOTALL)  # also of "--metric NAME=FILE"


@dataclass(frozen=True)
class Shipment:
    version: str
    config: str
    study: Parcel
    inputs: dict[str, Parcel]  # by the path in the configuration

    @property
    def parcels(self) -> list[Parcel]:
        return [self.study, *self.inputs.values()]

    def setting(self, name: str, default: str) -> str:
        """Of several, the first."""
        found = re.search(rf'^{name} = \[?"?([^",\]\n]*)', self.config, re.MULTILINE)
        return found[1] if found else default


def shipment(folder: Path) -> Shipment:
    """Of the study as it is now: it may grow meanwhile."""
    header = json.loads((folder / STUDY).read_bytes().partition(b"\n")[0])["header"]
    model = os.path.abspath(header["model_path"])
    config = re.sub(r"^model = .*", lambda _: f"model = {_quoted(model)}", (folder / CONFIG).read_text(), count=1, flags=re.M)
    inputs: dict[str, Parcel] = {}

    def take(path: str) -> str:
        if path not in inputs and os.path.exists(path):
            beside = load(path).external_files if path == model else []
            inputs[path] = pack_folder(Path(path)) if os.path.isdir(path) else pack_file(Path(path), map(Path, beside))
        return path

    map_paths(config, take)
    left_out = REPORTS | {Path(path).name for path in inputs if Path(path).parent == folder.absolute()}
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name not in left_out)
    return Shipment(version, config, pack(folder, tuple((path.name, path.stat().st_size) for path in files)), inputs)


def map_paths(config: str, change: Callable[[str], str]) -> str:
    """The configuration with every absolute path of an input changed."""

    def changed(match: re.Match[str]) -> str:
        path = PATH.fullmatch(json.loads(match[0]))
        return _quoted((path[1] or "") + change(path[2])) if path else match[0]

    lines = (line.partition(" = ") for line in config.splitlines(keepends=True))
    return "".join(key + equals + (value if key in OWN else STRING.sub(changed, value)) for key, equals, value in lines)


class Delivery:
    """A shipment on the machine that it came to."""

    def __init__(self, shipment: Shipment, store: Store):
        self.shipment, self.store = shipment, store
        self._in_place = {path for path, parcel in shipment.inputs.items() if not store.has(parcel) and parcel.is_at_its_root()}

    def missing(self) -> list[str]:
        """Digests of what this machine needs to be sent."""
        needed = [self.shipment.study, *(p for path, p in self.shipment.inputs.items() if path not in self._in_place)]
        return [parcel.digest for parcel in needed if not self.store.has(parcel)]

    def folder(self) -> Path:
        """The study, with paths of this machine; nothing may be missing."""

        def here(path: str) -> str:
            parcel = self.shipment.inputs.get(path)
            if parcel is None or path in self._in_place:
                return path
            return str(self.store.place(parcel) / os.path.relpath(path, parcel.root))

        folder = self.store.place(self.shipment.study)
        written = folder / f"{CONFIG}.{os.getpid()}"
        written.write_text(map_paths(self.shipment.config, here))
        written.rename(folder / CONFIG)
        return folder


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
