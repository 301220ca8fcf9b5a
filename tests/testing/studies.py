"""What a study's folder holds, for comparing one with another."""

import json


def lines(out):
    file = out / "study.jsonl"
    if not file.exists():
        return []
    return [line for line in file.read_text().split("\n")[:-1]]


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items()
                if k not in ("latency_ns", "latency", "device_latencies", "wall_seconds") and not k.endswith("_ns")}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def trials(out):
    """Every trial of the study without its times, in order."""
    return [without_times(entry["trial"]) for entry in map(json.loads, lines(out)) if "trial" in entry]


def files(out):
    return {str(p.relative_to(out)): p.read_bytes() for folder in ("models", "plans") for p in (out / folder).iterdir()}
