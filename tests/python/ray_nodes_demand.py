"""Real studies on Ray nodes that die: the trials are those of a local run. SEQTO_RAY_PYTHON names a Python with Ray.

Two nodes of one CPU each, on the loopback of a namespace of their own (as root). First a child, an actor and a node are
killed and a node joins; then the driver is killed, with all that it started, and the same command goes on.
"""
import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ.get("SEQTO_BUILD_DIR", SOURCE / "build"))
BINARY = os.environ.get("SEQTO_BINARY", str(BUILD / "bin/seqto"))
PYTHON = os.environ.get("SEQTO_RAY_PYTHON", "")
RAY = str(pathlib.Path(PYTHON).parent / "ray")
HEAD = "127.0.0.1:6399"
CASE = pathlib.Path(os.environ.get("SEQTO_CASES_DIR", SOURCE.parent / "shared/cases")) / "resnet20"
TIMES = {"latency_ns", "device_latencies", "wall_seconds"}
ENVIRONMENT = dict(os.environ, PYTHONPATH=str(BUILD / "python"), SEQTO_WORKER=BINARY, RAY_AUTH_MODE="token",
                   RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0",
                   PATH=f"{pathlib.Path(PYTHON).parent}:{os.environ['PATH']}")


def say(*words):
    print(f"{time.monotonic() - START:6.1f} s ", *words, flush=True)


def start_node(*words):
    before = raylets()
    subprocess.run([RAY, "start", "--node-ip-address=127.0.0.1", "--num-cpus=1", "--object-store-memory=200000000",
                    "--disable-usage-stats", *words], env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return (raylets() - before).pop()


def processes():
    """(pid, parent, command line) of all in this namespace."""
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            yield int(folder.name), parent, words


def raylets():
    return {pid for pid, _, words in processes() if words.split(" ")[0].endswith("raylet/raylet")}


def evaluators():
    """(child, actor) pairs."""
    return [(pid, parent) for pid, parent, words in processes() if words.startswith(f"{BINARY} eval ")]


def command(out, *words):
    info = json.loads((CASE / "case.json").read_text())
    return [BINARY, "tune", str(CASE / info["model"]), "--data", str(CASE / info["data"]), "--labels", str(CASE / info["labels"]),
            "--preprocess", str(CASE / info["preprocess"]), "--objectives", "kl,size", "--quick", "--search-samples", "300",
            "--no-racing", "--evaluation-samples", "64", "--search-evaluations", "60", "-o", str(out), *words]


def begin(out):
    with open(out.with_suffix(".log"), "a") as log:
        return subprocess.Popen(command(out, "--workers", f"ray:{HEAD}"), env=ENVIRONMENT, start_new_session=True,
                                stdout=log, stderr=log)


def trials(out):
    path = out / "study.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [without_times(entry["trial"]) for entry in map(json.loads, lines) if "trial" in entry]


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(entry) for key, entry in value.items() if key not in TIMES}
    return [without_times(entry) for entry in value] if isinstance(value, list) else value


def wait_for(out, count, run):
    while len(trials(out)) < count:
        assert run.poll() is None, f"the run ended with {run.poll()} after {len(trials(out))} trials"
        time.sleep(0.05)
    say(f"{len(trials(out))} trials")


def check(out, local, run):
    assert run.wait(600) == 0, out.with_suffix(".log").read_text()
    assert trials(out) == trials(local), "other trials than those of the local run"
    say(f"ended: {len(trials(out))} trials, equal to the local run's")


def kill(pid, what):
    os.kill(pid, signal.SIGKILL)
    say("killed", what)


def enter_namespace():
    """Everything in it dies with it."""
    unshare = ["unshare", "-n", "-p", "-f", "--mount-proc", "--kill-child"]
    if not PYTHON or not CASE.is_dir():
        sys.exit(skipped("SEQTO_RAY_PYTHON and the cases are needed"))
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], check=False).returncode:
        sys.exit(skipped("no namespaces here"))
    os.execvp("unshare", [*unshare, "env", "SEQTO_IN_NAMESPACE=1", sys.executable, *sys.argv])


def skipped(why):
    print("skipped:", why)
    return 77


def main():
    work = pathlib.Path(tempfile.mkdtemp(prefix="seqto-nodes-"))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(command(work / "local"), env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    say(f"local run: {len(trials(work / 'local'))} trials")
    start_node("--head", "--port=6399", "--include-dashboard=false")
    second = start_node(f"--address={HEAD}")
    say("two nodes")

    run = begin(work / "nodes")
    wait_for(work / "nodes", 12, run)
    kill(evaluators()[0][0], "a child")
    wait_for(work / "nodes", 24, run)
    kill(evaluators()[-1][1], "an actor")
    wait_for(work / "nodes", 36, run)
    kill(second, "the second node")
    start_node(f"--address={HEAD}")
    say("a node joined")
    check(work / "nodes", work / "local", run)

    run = begin(work / "driver")
    wait_for(work / "driver", 20, run)
    os.killpg(run.pid, signal.SIGKILL)
    for pid, _, words in processes():
        if "seqto.ray" in words:
            os.kill(pid, signal.SIGKILL)
    run.wait()
    say(f"killed the driver after {len(trials(work / 'driver'))} trials")
    check(work / "driver", work / "local", begin(work / "driver"))
    shutil.rmtree(work)


START = time.monotonic()
if __name__ == "__main__":
    if "SEQTO_IN_NAMESPACE" not in os.environ:
        enter_namespace()
    main()
