#!/usr/bin/env python3
"""Do two builds of seqto write the same files? Every case under 20 option sets of `quantize`, and `tune` on request.

  tools/same_files.py BEFORE AFTER [--cases DIR] [--only CASE,...] [--tune] [--samples N]

Prints what differs and ends with 1 if anything does. Times, and what depends on them, are not compared.
"""

import argparse
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

OPTION_SETS = {
    "qdq": [],
    "channel": ["--per-channel"],
    "uint8": ["--activation-type", "uint8", "--weight-type", "uint8"],
    "reduced": ["--reduce-range", "--per-channel"],
    "symmetric": ["--symmetric-activations"],
    "int16": ["--activation-type", "int16", "--weight-type", "int16"],
    "int4": ["--weight-type", "int4", "--per-channel"],
    "pairs": ["--add-qdq-pair-to-weight", "--reduce-range"],
    "dedicated": ["--dedicated-qdq-pair"],
    "compat": ["--compat", "onnxruntime"],
    "qoperator": ["--format", "qoperator"],
    "qoperator_channel": ["--format", "qoperator", "--per-channel", "--activation-type", "uint8"],
    "dynamic": ["--mode", "dynamic"],
    "dynamic_channel": ["--mode", "dynamic", "--per-channel"],
    "weights8": ["--mode", "weights", "--weight-bits", "8"],
    "weights4": ["--mode", "weights", "--weight-bits", "4"],
    "folded4": ["--mode", "weights", "--weight-bits", "4", "--int4-format", "folded"],
    "float16": ["--mode", "float16"],
    "improved": ["--center", "--equalize", "--bias-correction", "fast"],
    "rounded": ["--rounding", "learned", "--per-channel"],
}
TUNE = ["--seed", "1", "--max-evaluations", "40", "--objectives", "kl,size"]
TIMES = re.compile(r"latency|second|time|host|elapsed|version|load|cpu|memory", re.I)



def run(binary, arguments):
    done = subprocess.run([binary, "-q", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def timeless(value):
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if not TIMES.search(k)}
    return [timeless(v) for v in value] if isinstance(value, list) else value


def case_arguments(case, samples):
    described = json.loads((case / "case.json").read_text())
    arguments = [case / described["model"], "--samples", samples]
    if not described.get("data"):
        return [*arguments, "--data", "random"], described
    arguments += ["--data", (case / described["data"]).resolve()]
    if described.get("preprocess"):
        arguments += ["--preprocess", case / described["preprocess"]]
    return arguments, described


def quantized(binary, arguments, options, folder):
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "model.onnx"
    code, said = run(binary, ["quantize", *arguments, *options, "-o", out])
    files = {p.name: digest(p) for p in sorted(folder.iterdir())}
    return code, re.sub(r"\d+(\.\d+)? ?m?s\b", "", said.replace(str(folder), "")), files


def tuned(binary, arguments, folder):
    code, said = run(binary, ["tune", *arguments, *TUNE, "-o", folder])
    files = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).as_posix()
        if inside.startswith(("plans/", "models/")) and path.is_file():
            files[inside] = digest(path)
    study = folder / "study.jsonl"
    lines = [timeless(json.loads(line)) for line in study.read_text().splitlines()] if study.exists() else []
    files["study.jsonl"] = hashlib.sha256(json.dumps(lines, sort_keys=True).encode()).hexdigest()
    return code, "", files


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before"), parser.add_argument("after")
    here = pathlib.Path(__file__).resolve().parents[1]
    parser.add_argument("--cases", type=pathlib.Path, default=here.parent / "shared" / "cases")
    parser.add_argument("--only", default="")
    parser.add_argument("--sets", default="")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--tune", action="store_true")
    asked = parser.parse_args()
    sets = {k: v for k, v in OPTION_SETS.items() if not asked.sets or k in asked.sets.split(",")}
    compared, different, refused = 0, 0, 0
    for case in sorted(p.parent for p in asked.cases.glob("*/case.json")):
        if asked.only and case.name not in asked.only.split(","):
            continue
        arguments, _ = case_arguments(case, asked.samples)
        for name, options in {**({} if asked.tune else sets), **({"tune": None} if asked.tune else {})}.items():
            with tempfile.TemporaryDirectory() as temporary:
                results = []
                for side, binary in (("a", asked.before), ("b", asked.after)):
                    folder = pathlib.Path(temporary) / side
                    results.append(tuned(binary, arguments, folder) if options is None
                                   else quantized(binary, arguments, options, folder))
                compared += 1
                refused += results[0][0] != 0
                if results[0] != results[1]:
                    different += 1
                    print(f"{case.name} {name}: differs: {results[0]} | {results[1]}"[:600], flush=True)
        print(f"{case.name}: done", flush=True)
    print(f"{compared} compared, {refused} of them refused by the first, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
