"""Writes option_fields.h: the fields of the public option structs, with the comments of include/seqto.

    generate_options.py INCLUDE_DIR OUTPUT

Keyword arguments of the Python package, their stubs and their documentation come from these rows, so that a field has one
spelling and one description.
"""
import re
import sys
from pathlib import Path

STRUCTS = {
    "dataset.h": ["AudioWindows", "TextOptions", "StateLink", "StateReset", "DatasetOptions"],
    "runner.h": ["RunnerOptions"],
    "plan.h": ["WeightOnlyOptions", "Float16Options", "GroupOptions"],
    "calibrate.h": ["CalibrateOptions"],
    "quantize.h": ["QuantizeOptions"],
    "improve.h": ["ImproveOptions"],
    "explain.h": ["AnalyzeOptions"],
    "model.h": ["PrepareOptions"],
    "metrics.h": ["MetricOptions"],
    "validate.h": ["GateOptions", "ParityOptions"],
    "bench.h": ["BenchOptions"],
    "search.h": ["StrategyOptions"],
    "tune.h": ["TuneOptions"],
}
# What a study sets by itself, and what only an ablation changes.
LEFT_OUT = {"StrategyOptions": {"tuning", "seed", "max_size_bytes", "max_latency_ns"},
            "TuneOptions": {"config", "workers", "names_method"}}
DECLARATION = re.compile(r"^(?P<type>[\w:]+(?:<.*>)?)\s+(?P<names>\w+\s*(?:[={,;]).*|\w+;)(?:\s*//\s*(?P<trailing>.*))?$")


def body(text, struct):
    start = re.search(rf"^struct {struct} {{$", text, re.M).end()
    return text[start:text.index("\n};", start)]


def statements(lines):
    """Declarations on one line each, with the comment before and behind them; nested types and functions are left out."""
    comment, depth, pending = [], 0, ""
    for line in lines:
        line = line.strip()
        if depth == 0 and not pending and line.startswith("//"):
            if line.startswith("// ---"):
                comment = []
            else:
                comment.append(line[2:].strip())
            continue
        code, _, behind = line.partition("//")
        depth += code.count("{") - code.count("}")
        if depth or (code.strip() in ("}", "};")):
            comment = []
            continue
        if not code.strip():
            if behind and pending == "" and comment is not None:
                comment.append(behind.strip())
            elif not line:
                comment = []
            continue
        pending = f"{pending} {code.strip()}".strip()
        if pending.endswith(";"):
            yield pending[:-1], comment + ([behind.strip()] if behind else [])
            comment, pending = [], ""


def fields(text, struct):
    rows = []
    for code, comment in statements(body(text, struct).splitlines()):
        if re.match(r"(enum|struct|using|static|bool operator|auto )", code) or re.search(r"\)\s*(const)?$", code):
            continue
        kind = re.match(r"[\w:]+(?:<[^;=]*>)?", code)[0]
        if kind.startswith("std::function"):
            continue
        for declarator in re.split(r",\s*(?=\w+\s*(?:=|\{|,|$))", code[len(kind):].strip()):
            rows.append((re.match(r"\w+", declarator)[0], " ".join(comment)))
    return [row for row in rows if row[0] not in LEFT_OUT.get(struct, ())]


def main():
    include, output = Path(sys.argv[1]), Path(sys.argv[2])
    lines = ["// Made by python/generate_options.py from include/seqto.", "#pragma once", '#include "seqto/bench.h"',
             '#include "seqto/tune.h"', '#include "seqto/validate.h"', "", "namespace seqto::python {", ""]
    for header, structs in STRUCTS.items():
        text = (include / header).read_text()
        for struct in structs:
            lines += ["template <class F>", f"void for_each_field({struct}& o, F&& f) {{"]
            lines += [f'  f("{name}", o.{name}, R"doc({comment})doc");' for name, comment in fields(text, struct)]
            lines += ["}", ""]
    lines += ["}  // namespace seqto::python", ""]
    output.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
