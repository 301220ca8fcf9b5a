"""`tune` whose processes are killed at random moments: each study goes on and ends as one that nothing disturbed, times apart,
and after each kill all models that are there load. With a number as argument: so many kills (kills_demand.py: 200)."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.processes import children  # noqa: E402
from testing.studies import files, lines, trials  # noqa: E402

FEW = 4
VICTIMS = ("driver", "worker", "both")
STRATEGIES = (["--strategy", "incremental"], [], ["--strategy", "nsga2", "--seed", 3, "--jobs", 2])


def command(out, flags):
    words = ["tune", models.DIGITS, "--data", models.DIGITS_DATA, "--objectives", "kl", "size", "--evaluation-samples", 40,
             "--max-evaluations", 12, "-o", out, "-q", *flags]
    return [models.BINARY, *map(str, words)]


class Series:
    def __init__(self, folder, seed):
        self.folder, self.random = folder, random.Random(seed)
        self.killed = dict.fromkeys(VICTIMS, 0)
        self.studies = self.loaded = 0
        self.wholes = [self.whole(flags, f"whole-{i}") for i, flags in enumerate(STRATEGIES)]

    def whole(self, flags, name):
        out, start = self.folder / name, time.monotonic()
        done = subprocess.run(command(out, flags), capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        assert len(trials(out)) >= 5
        return out, time.monotonic() - start

    def kills(self):
        return sum(self.killed.values())

    def kill(self, process):
        """Whether anyone was there to be killed."""
        victim = self.random.choice(VICTIMS)
        workers = [] if victim == "driver" else children(process.pid)
        if victim == "worker" and not workers:
            return False
        for pid in workers + ([] if victim == "worker" else [process.pid]):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.killed[victim] += 1
        return True

    def run(self, out, flags, seconds, kill):
        """Runs the command, perhaps with a kill; whether it came to its end."""
        process = subprocess.Popen(command(out, flags), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if kill:
            try:
                process.wait(self.random.uniform(0, seconds))
            except subprocess.TimeoutExpired:
                self.kill(process)
        said = process.communicate(timeout=600)[1]
        assert process.returncode in (0, -signal.SIGKILL), f"exit code {process.returncode}: {said}"
        return process.returncode == 0

    def check_loadable(self, out):
        for model in out.glob("models/*.onnx"):
            onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
            self.loaded += 1
        if len(trials(out)) >= 2:
            done = models.seqto("report", out, "-q")
            assert done.returncode == 0, done.stderr

    def study(self, most):
        number = self.random.randrange(len(STRATEGIES))
        (whole, seconds), flags = self.wholes[number], STRATEGIES[number]
        out = self.folder / "killed"
        shutil.rmtree(out, ignore_errors=True)
        end, kills = self.kills() + most, self.random.randrange(1, 5)
        while not self.run(out, flags, seconds, kills > 0 and self.kills() < end):
            kills -= 1
            if out.exists():
                self.check_loadable(out)
        self.check_loadable(out)
        assert trials(out) == trials(whole), f"{flags}: other trials, kept in {out}"
        fronts = [[p["id"] for p in json.loads((o / "summary.json").read_text())["front"]] for o in (out, whole)]
        assert fronts[0] == fronts[1], f"{flags}: fronts {fronts}"
        assert files(out) == files(whole), f"{flags}: other files, kept in {out}"
        assert not list(out.rglob("*.tmp-*")), list(out.rglob("*.tmp-*"))
        assert len(lines(out)) >= len(trials(out))
        self.studies += 1


def main(count):
    seed = int(os.environ.get("SEQTO_SEED", time.time_ns() % 1_000_000))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="seqto-kills-"))
    print(f"seed {seed} (SEQTO_SEED), {folder}", flush=True)
    series = Series(folder, seed)
    while series.kills() < count:
        series.study(count - series.kills())
    told = ", ".join(f"{n} of {victim}" for victim, n in series.killed.items())
    print(f"{series.kills()} kills ({told}) in {series.studies} studies: all ended as undisturbed; {series.loaded} models loaded")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else FEW)
