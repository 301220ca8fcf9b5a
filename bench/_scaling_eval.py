#!/usr/bin/env python3
"""In place of `seqto eval DIR -`: answers with the trials of DIR/study.jsonl, each after SEQTO_FAKE_SECONDS, SEQTO_FAKE_READY
at a time. At the end SEQTO_FAKE_REPORT gets the lines that came, the seconds, and what its parent computed meanwhile."""
import heapq
import json
import os
import pathlib
import select
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def answers(folder):
    """By number: the line."""
    with open(pathlib.Path(folder, "study.jsonl")) as lines:
        trials = [entry["trial"] for entry in map(json.loads, lines) if "trial" in entry]
    return {trial["number"]: json.dumps({"number": trial["number"], "trial": trial}) for trial in trials}


def main():
    known, seconds = answers(sys.argv[2]), float(os.environ.get("SEQTO_FAKE_SECONDS", "0"))
    print(json.dumps({"ready": int(os.environ.get("SEQTO_FAKE_READY", "1"))}), flush=True)
    due, read, rest, came, first, last = [], True, b"", [], None, None
    while read or due:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else None
        if read and select.select([0], [], [], wait)[0]:
            block = os.read(0, 1 << 20)
            read = bool(block)
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                first = first or (time.monotonic(), cpu_seconds(os.getppid()))
                came.append(line.decode())
                heapq.heappush(due, (time.monotonic() + seconds, json.loads(line)["number"]))
        elif not read:
            time.sleep(wait or 0)
        while due and due[0][0] <= time.monotonic():
            print(known[heapq.heappop(due)[1]], flush=True)
            last = (time.monotonic(), cpu_seconds(os.getppid()))
    if report := os.environ.get("SEQTO_FAKE_REPORT"):
        pathlib.Path(report).write_text(json.dumps({"lines": came, "seconds": last[0] - first[0], "cpu": last[1] - first[1]}))


if __name__ == "__main__":
    main()
