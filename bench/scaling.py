"""Ray workers: two against one, what a candidate costs beside a local child, and a driver of 64. SEQTO_RAY_PYTHON names a Python with Ray.

usage: ./dev bench scaling [--write]     (--write: bench/results/scaling.md)

Every part keeps as many proposals in flight as evaluators are ready, as `tune` does, and counts from the first line out to the last one back.
"""
import importlib.util
import itertools
import json
import os
import pathlib
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from _ratios import folder, header
from _scaling_eval import cpu_seconds

BINARY = os.environ["SEQTO_BINARY"]
SOURCE = pathlib.Path(os.environ["SEQTO_SOURCE_DIR"])
PYTHON = os.environ.get("SEQTO_RAY_PYTHON") or (sys.executable if importlib.util.find_spec("ray") else None)
FAKE = str(SOURCE / "bench" / "_scaling_eval.py")
CASE = pathlib.Path(os.environ["SEQTO_CASES_DIR"]) / "resnet20"
ROUNDS, CANDIDATES, ROUND_TRIPS, MANY = 5, 120, 200, 64
ENVIRONMENT = dict(os.environ, PYTHONPATH=os.path.join(os.environ["SEQTO_BUILD_DIR"], "python"), SEQTO_WORKER=BINARY,
                   RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0", RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0")  # loopback, as seqto.ray


def tune(out, *words, **environment):
    info = json.loads((CASE / "case.json").read_text())
    at = lambda name: str(CASE / info[name])
    return subprocess.run([BINARY, "tune", at("model"), "--data", at("data"), "--labels", at("labels"), "--preprocess", at("preprocess"),
                           "--objectives", "kl,size", "--quick", "--search-samples", "300", "-q", "-o", out, *words],
                          check=True, stdout=subprocess.DEVNULL, env=dict(ENVIRONMENT, **environment))


class Cluster:
    """One of its own on loopback, of `cpus`, whose children are `child`."""

    SCRIPT = ("import ray, sys; found = ray.init('local', num_cpus=int(sys.argv[1]), include_dashboard=False, object_store_memory=300 << 20, "
              "log_to_driver=False); print('at', found.address_info['address'], flush=True); sys.stdin.read()")

    def __init__(self, cpus, child, **environment):
        self.head = subprocess.Popen([PYTHON, "-c", self.SCRIPT, str(cpus)], env=dict(ENVIRONMENT, SEQTO_WORKER=child, **environment),
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = next(line.split()[1] for line in self.head.stdout if line.startswith("at "))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.head.communicate()

    def bridge(self, study, workers):
        return Lines([PYTHON, "-m", "seqto.ray", str(study), "--address", self.address, "--workers", str(workers)], workers)


class Lines:
    """A command that speaks them, kept."""

    def __init__(self, command, ready=1):
        self.child = subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = 0
        while self.ready < ready:
            self.ready = json.loads(self.child.stdout.readline()).get("ready", self.ready)

    def measure(self, proposals):
        """(seconds, CPU seconds of the command without its children)."""
        proposals = iter(proposals)
        begin, used = time.monotonic(), cpu_seconds(self.child.pid)

        def send(count):
            lines = list(itertools.islice(proposals, count))
            self.child.stdin.write("".join(line + "\n" for line in lines))
            self.child.stdin.flush()
            return len(lines)

        out = send(self.ready)
        while out:
            result = json.loads(self.child.stdout.readline())
            assert "trial" in result, result
            out += send(1) - 1
        return time.monotonic() - begin, cpu_seconds(self.child.pid) - used

    def close(self):
        self.child.stdin.close()
        self.child.wait()
        self.child.stdout.close()


class Two:
    """Two such commands without Ray: what the machine has for two."""

    def __init__(self, *lines):
        self.lines = lines

    def measure(self, proposals):
        left, begin = iter(proposals), time.monotonic()
        lock = threading.Lock()

        def next_of(left):
            with lock:
                return next(left, None)

        threads = [threading.Thread(target=one.measure, args=(iter(lambda: next_of(left), None),)) for one in self.lines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.monotonic() - begin, 0

    def close(self):
        for one in self.lines:
            one.close()


def medians(sides, proposals):
    """Seconds a candidate of each, measured in turn."""
    found = [[side.measure(proposals)[0] / len(proposals) for side in sides] for _ in range(ROUNDS)]
    for side in sides:
        side.close()
    return [statistics.median(column) for column in zip(*found)]


def two_against_one(study, proposals):
    proposals = list(itertools.islice(itertools.cycle(proposals), CANDIDATES))
    here = [BINARY, "eval", str(study), "-", "-q"]
    with Cluster(3, BINARY) as cluster:  # one or two of the three evaluators measure at a time
        return medians([Lines(here), Two(Lines(here), Lines(here)), cluster.bridge(study, 1), cluster.bridge(study, 2)], proposals)


def round_trip(study, proposals):
    """Seconds a candidate that takes no time: of a child, and of one behind Ray."""
    proposals = list(itertools.islice(itertools.cycle(proposals), ROUND_TRIPS))
    with Cluster(2, FAKE) as cluster:
        return medians([Lines([FAKE, "eval", str(study), "-"]), cluster.bridge(study, 1)], proposals)


def driver_of_many(study, proposals):
    """(candidates a second, CPU seconds a candidate) of the bridge, evaluations taking a second."""
    proposals = list(itertools.islice(itertools.cycle(proposals), 20 * MANY))
    with Cluster(MANY, FAKE, SEQTO_FAKE_SECONDS="1") as cluster:
        many = cluster.bridge(study, MANY)
        many.measure(proposals[:2 * MANY])
        seconds, used = many.measure(proposals)
        many.close()
    return len(proposals) / seconds, used / len(proposals)


def search_of_many(study, work):
    """What the search itself has to do: the trials of `study` again, by evaluations that take a second. (lines, seconds, CPU seconds)"""
    report = work / "report.json"
    tune(str(work / "again"), "--workers", f"exec {FAKE} eval {study} -", SEQTO_FAKE_SECONDS="1", SEQTO_FAKE_READY=str(MANY),
         SEQTO_FAKE_REPORT=str(report))
    found = json.loads(report.read_text())
    return found["lines"], found["seconds"], found["cpu"]


def page(figures):
    alone, pair, one, two = figures["real"]
    direct, through = figures["empty"]
    rate, bridge_cpu = figures["bridge"]
    lines, seconds, search_cpu = figures["search"]
    search_each = search_cpu / len(lines)
    slower = max(bridge_cpu, search_each)
    rows = [("one `seqto eval DIR -`, candidates a minute", f"{60 / alone:.0f}", ""),
            ("two of them against one: what the machine has", f"{alone / pair:.2f} x", ""),
            ("one Ray worker", f"{60 / one:.0f}", ""),
            ("two Ray workers", f"{60 / two:.0f}", ""),
            ("two against one", f"{one / two:.2f} x", "1.8 x"),
            ("a candidate through Ray more than by a child's pipe, evaluations of no length", f"{1e3 * (through - direct):.2f} ms", "5 ms"),
            (f"bridge of {MANY} workers, evaluations of 1 s: candidates a second", f"{rate:.1f}", ""),
            ("... its processor time, a candidate", f"{1e3 * bridge_cpu:.2f} ms", ""),
            ("... it is busy", f"{100 * rate * bridge_cpu:.1f} % of a core", "10 %"),
            ("`seqto tune` in its search, a candidate", f"{1e3 * search_each:.2f} ms", ""),
            (f"... both at {rate:.0f} candidates a second", f"{100 * rate * (bridge_cpu + search_each):.1f} % of a core", "10 %")]
    text = "# scaling\n\n" + header("scaling --write", [CASE.name], "bench/scaling.py")
    text += "| what | figure | goal |\n|---|---|---|\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)
    text += (f"\nThe slower of bridge and search needs {1e3 * slower:.1f} ms a candidate, so a driver is full at {1 / slower:.0f} candidates a second: "
             f"about {0.1 / slower:.0f} workers with evaluations of 0.1 s, {1 / slower:.0f} with 1 s, {10 / slower:.0f} with 10 s.\n"
             f"The search is the limit long before: its steps depend on each other. {len(lines)} candidates of {CASE.name} with {MANY} evaluators of 1 s took "
             f"{seconds:.0f} s: {len(lines) / seconds:.1f} were busy on average.\n")
    return text


def main():
    if not PYTHON or not CASE.is_dir():
        print("scaling: skipped; it needs Ray (pip install ray, or SEQTO_RAY_PYTHON) and the cases")
        return 0
    with tempfile.TemporaryDirectory(prefix="seqto-scaling-") as work:
        study = pathlib.Path(work, "study")
        tune(str(study))
        lines, *search = search_of_many(study, pathlib.Path(work))
        figures = {"search": (lines, *search), "real": two_against_one(study, lines), "empty": round_trip(study, lines),
                   "bridge": driver_of_many(study, lines)}
    text = page(figures)
    print(text, end="")
    if "--write" in sys.argv:
        (folder() / "scaling.md").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
