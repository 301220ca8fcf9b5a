"""What Qualcomm's compiler for the HTP made of a file: whether each node is computed there, on codes or in float16. The
compiler comes for Windows on x86-64 and runs in Wine; no device is needed."""
import collections
import contextlib
import os
import pathlib
import re
import subprocess
import tempfile

import onnx

FOLDER = pathlib.Path(os.environ["SEQTO_SOURCE_DIR"]) / ".deps/qnn"
WINE = pathlib.Path("/usr/lib/wine/wine64")
OPTIONS = {"backend_path": "QnnHtp.dll", "htp_arch": "73", "enable_htp_fp16_precision": "1"}
UNIT = re.compile(r"Validation (PASSED|FAILED) for \d+ nodes in OrtNodeUnit \((\w+)\)")
MEMBER = re.compile(r"^\tOperator type: (\w+) Node name: (.*) Node index: \d+$")
PAIR = ("QuantizeLinear", "DequantizeLinear")
# ONNX Runtime has moved pairs past these before the provider sees them: a pair's name there may be another's.
MOVERS = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice")


class Refused(Exception):
    pass


def missing():
    """What is not there; empty: all is."""
    if not WINE.exists(): return "no Wine on this machine (./dev setup qnn)"
    return "" if (FOLDER / "compile.exe").exists() else "no compiler of Qualcomm's in .deps/qnn (./dev setup qnn)"


class Unit:
    def __init__(self, passed, op_type):
        self.passed, self.op_type, self.members, self.reason = passed, op_type, [], ""

    def verdict(self, op_type):
        if op_type in PAIR and self.op_type in MOVERS: return None
        if op_type in PAIR: return "fused" if self.passed and self.op_type not in PAIR else "conversion"
        if not self.passed: return "refused"
        return "integers" if any(op in PAIR for op, _ in self.members) else "float"


class Compiler:
    """Stays for many files: its start takes seconds."""

    def __init__(self):
        self.home = tempfile.TemporaryDirectory()
        words = [f for option in OPTIONS.items() for f in option]
        self.process = subprocess.Popen([WINE, "compile.exe", "onnxruntime_providers_qnn.dll", *words], cwd=FOLDER, text=True, errors="replace",
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "WINEDEBUG": "-all", "WINEPREFIX": self.home.name})

    def compile(self, path):
        """The groups of nodes in the order in which the provider spoke of them; throws where it ends on the file."""
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        units = []
        for line in self.process.stdout:
            line = line.rstrip("\r\n")
            if found := UNIT.search(line): units.append(Unit(found[1] == "PASSED", found[2]))
            elif found := MEMBER.match(line): units[-1].members.append(found.groups())
            elif line.startswith("\tREASON : "): units[-1].reason = line.split(" : ", 1)[1]
            elif line == "compiled":
                pathlib.Path(f"{path}.ctx").unlink(missing_ok=True)
                return units
            elif line.startswith("failed: "): raise Refused(line)
        raise Refused(f"the compiler ended ({self.process.wait()})")


compiler = None


def read(path):
    global compiler
    if compiler is None or compiler.process.poll() is not None: compiler = Compiler()
    return compiler.compile(path)


class Truth:
    """Nodes are spoken of twice where the provider changes the layout; the last time counts. A DequantizeLinear has
    become one for each reader: a conversion where one of them is."""

    def __init__(self, path):
        graph = onnx.load(path).graph
        self.read_outputs = {o.name for o in graph.output} & {i for n in graph.node for i in n.input}
        last = {name: unit for unit in read(path) for _, name in unit.members}
        self.units = collections.defaultdict(list)
        for name, unit in last.items(): self.units[name.split("/duplicated")[0]].append(unit)

    def of(self, node):
        # That of an output is another one, made anew with another name.
        if node.op_type == "DequantizeLinear" and node.output[0] in self.read_outputs: return None
        found = {unit.verdict(node.op_type) for unit in self.units.get(node.name, [])} - {None}
        return "conversion" if "conversion" in found else min(found, default=None)

    def why(self, node):
        return " ".join(unit.reason for unit in self.units.get(node.name, []))


def runs(path):
    with contextlib.suppress(Refused):
        read(path)
        return True
    return False


def version():
    pins = (pathlib.Path(os.environ["SEQTO_SOURCE_DIR"]) / "tools/versions.txt").read_text()
    return f"Qualcomm's compiler for HTP v73 (onnxruntime-qnn {re.search(r'ONNXRUNTIME_QNN_VERSION=(.*)', pins)[1]})"
