#!/usr/bin/env python3
"""In place of `seqto eval DIR -`: speaks its lines, and does what the proposals say."""
import json
import os
import pathlib
import sys
import time

FOLDER = pathlib.Path(sys.argv[2])


def setting(name):
    lines = dict(line.split(" = ", 1) for line in (FOLDER / "tune.toml").read_text().splitlines())
    return json.loads(lines[name])


if "refuse" in (FOLDER / "study.jsonl").read_text():
    sys.exit("the study is of another model")
print(json.dumps({"ready": 1}), flush=True)
for line in sys.stdin:
    proposal = json.loads(line)
    time.sleep(proposal.get("seconds", 0))
    if proposal.get("poison"):
        sys.exit("poisoned")
    if "once" in proposal and not os.path.exists(proposal["once"]):
        pathlib.Path(proposal["once"]).touch()
        os.kill(os.getpid(), 9)
    model, data = pathlib.Path(setting("model")), pathlib.Path(setting("data"))
    trial = {"model": str(model), "weights": (model.parent / "w/a.bin").stat().st_size, "pid": os.getpid(),
             "data": sorted(path.name for path in data.iterdir())}
    print(json.dumps({"number": proposal["number"], "trial": trial}), flush=True)
