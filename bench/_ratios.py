"""Ratios of a benchmark, stored with --write in bench/results/NAME.json and held against what is stored with --check.

A ratio is a figure of two sides of one run, so that it may be compared with that of another day: name -> {value, better},
`better` being "lower" or "higher". --check ends with code 5 where a ratio is more than 10 % worse than stored.

    _ratios.py NAME PROGRAM [ARG ...]    runs a C++ benchmark and takes the ratios from what it prints: lines
                                         `ratio NAME VALUE lower|higher`, and of google-benchmark the times of
                                         `KERNELS/...` against those of `portable/...`
"""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOM = 1.10
WORSE = 5
RATIO = re.compile(r"^ratio (\S.*) ([-+.\deE]+) (lower|higher)$", re.M)
TIMED = re.compile(r"^(\w+)/(\S+?)(?:/min_time:\S+)?\s+([\d.]+) ns\s", re.M)


def machine():
    model = "unknown"
    try:
        found = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
        model = found[1].strip() if found else model
    except OSError:
        pass
    return {"cpu": model, "cores": os.cpu_count()}


def header(command, networks, script):
    """The first lines of a written page."""
    on = machine()
    return (f"Written by `./dev bench {command}` on {datetime.date.today()}; {script} says what the columns are.\n"
            f"Machine: {on['cpu']}, {on['cores']} cores. Networks: {', '.join(networks)}.\n\n")


def is_worse(stored, value):
    if stored["better"] == "lower":
        return value > stored["value"] * ROOM
    return value < stored["value"] / ROOM


def compared(stored, found):
    """(line for each stored ratio, whether one is worse)."""
    lines, worse = [], False
    for name, old in stored.items():
        if name not in found:
            lines.append(f"  not measured  {name}: {old['value']:.3f} stored")
            continue
        value = found[name]["value"]
        bad = is_worse(old, value)
        worse |= bad
        lines.append(f"  {'WORSE' if bad else 'ok':12}  {name}: {value:.3f} found, {old['value']:.3f} stored, "
                     f"{old['better']} is better")
    return lines, worse


def folder():
    return pathlib.Path(os.environ["SEQTO_SOURCE_DIR"]) / "bench" / "results"


class Ratios:
    def __init__(self, name, networks=(), flags=None):
        self.name, self.networks, self.found = name, list(networks), {}
        self.counts = {}  # stored beside the ratios, for pages; not compared
        self.flags = sys.argv[1:] if flags is None else flags

    def add(self, name, value, better):
        assert better in ("lower", "higher"), better
        self.found[name] = {"value": float(f"{value:.4g}"), "better": better}

    def finish(self):
        """Writes or checks as the flags say; the exit code."""
        path = folder() / f"{self.name}.json"
        if "--write" in self.flags:
            counts = {"counts": self.counts} if self.counts else {}
            path.write_text(json.dumps({"schema_version": 1, "bench": self.name, "date": str(datetime.date.today()), "machine": machine(),
                                        "networks": self.networks, "ratios": self.found, **counts}, indent=1) + "\n")
            print(f"wrote {path.name}: {len(self.found)} ratios")
        if "--check" not in self.flags:
            return 0
        if not path.exists():
            print(f"{self.name}: nothing is stored; ./dev bench {self.name} --write stores the ratios")
            return 3
        lines, worse = compared(json.loads(path.read_text())["ratios"], self.found)
        print("\n".join([f"{self.name}, against {path.name}:", *lines]))
        return WORSE if worse else 0


def printed_ratios(text):
    """{name: {value, better}} of a C++ benchmark's output."""
    found = {name: {"value": float(value), "better": better} for name, value, better in RATIO.findall(text)}
    times = {(kernels, what): float(ns) for kernels, what, ns in TIMED.findall(text)}
    for (kernels, what), ns in times.items():
        if kernels != "portable" and ("portable", what) in times:
            found[f"{kernels} faster than portable, {what}"] = {"value": times["portable", what] / ns, "better": "higher"}
    return found


def main(name, program, *flags):
    own = [flag for flag in flags if flag in ("--write", "--check")]
    process = subprocess.Popen([program, *(flag for flag in flags if flag not in own)], stdout=subprocess.PIPE, text=True)
    text = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        text += line
    if process.wait():
        return process.returncode
    ratios = Ratios(name, flags=own)
    for what, ratio in printed_ratios(text).items():
        ratios.add(what, ratio["value"], ratio["better"])
    return ratios.finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
