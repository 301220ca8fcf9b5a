"""Checks that a file includes only from its own room and wing, or from those to their left, and says which order it
checked."""

import pathlib
import re
import sys

ROOMS = ["base", "model", "data", "runner", "quantization", "metrics", "search", "visualizer", "orchestrator"]
# Folders of a room, left to right. What lies in the room itself is to the right of them.
WINGS = {
    "quantization": ["plan", "arithmetic", "calibration", "encode", "improve", "lower", "read", "dialects"],
    "runner": ["text", "worker"],
    "metrics": ["loss", "task"],
    "search": ["front", "strategies", "latency"],
    "orchestrator": ["hub", "study", "published", "one_pass", "cached", "tune"],
}
LARGEST_FOLDER = 45  # files
# These see the public headers and nothing else of ours.
OUTSIDE = ["cli", "examples", "python", "tvm"]
# But for what the server for devices, a CMake project of its own, is built from as well: it needs nothing else of ours.
# The Python package has the command inside, and rows that are made of the public headers.
SHARED = {"tvm": ["base/locked_folder.h"], "python": ["commands.h", "option_fields.h"]}
ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
FIRST_LINE = re.compile(r"^// Room: (\w+)\. \S.*\.")
PRIVATE_FIRST_LINE = re.compile(r"^// (?:Room: ([\w/]+)\. )?\S")
ONNX = re.compile(r"^(onnx|google/protobuf)/")
TVM = re.compile(r"^(tvm|dlpack)/")
JSON = re.compile(r"\b[jJ]son::parse\(")
ORT = re.compile(r"^(onnxruntime/.*)?onnxruntime_\w+\.h$")


def sources(folder):
    return sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cc"))


def includes(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1], match[2]


def public_rooms(problems):
    """The room of each public header, from its first line."""
    rooms = {}
    for path in sources("include/seqto"):
        lines = path.read_text(encoding="utf-8").splitlines()
        match = FIRST_LINE.match(lines[0]) if lines else None
        if not match or match[1] not in ROOMS:
            problems.append(f"{path.relative_to(ROOT)}:1: the first line must be '// Room: <room>. What it is for.'")
        else:
            rooms["seqto/" + path.relative_to(ROOT / "include/seqto").as_posix()] = match[1]
    return rooms


def wing_of(path):
    """The wing of a path inside src, "room/wing/file"; its place in the room."""
    parts = pathlib.PurePath(path).parts
    wings = WINGS.get(parts[0], [])
    if len(parts) == 2:
        return "", len(wings)
    return parts[1], wings.index(parts[1]) if parts[1] in wings else -1


def check_folders(problems):
    """No folder too wide, no wing that has no place, and headers that say where they lie and what they are for."""
    folders = {}
    for path in sources("src"):
        inside = path.relative_to(ROOT / "src")
        folder = inside.parent.as_posix()
        folders[folder] = folders.get(folder, 0) + 1
        if path.suffix == ".h":
            lines = path.read_text(encoding="utf-8").splitlines()
            match = PRIVATE_FIRST_LINE.match(lines[0]) if lines else None
            if not match or match[1] not in (None, folder):
                problems.append(f"src/{inside}:1: the first line must say what the header is for, and that it lies in "
                                f"{folder} where it names a room")
        if wing_of(inside)[1] < 0:
            known = ", ".join(WINGS.get(inside.parts[0], [])) or "none"
            problems.append(f"src/{inside}: '{wing_of(inside)[0]}' is not a wing of {inside.parts[0]}, which has {known}")
    for folder, count in folders.items():
        if count > LARGEST_FOLDER:
            problems.append(f"src/{folder}: {count} files; at most {LARGEST_FOLDER} lie in one folder")


def check_rooms(public, problems):
    ort_users = set()
    files = [(p, p.relative_to(ROOT / "src").parts[0]) for p in sources("src")]
    files += [(ROOT / "include" / name, room) for name, room in public.items()]
    for path, room in files:
        name = path.relative_to(ROOT)
        if room not in ROOMS:
            problems.append(f"{name}: '{room}' is not a room; rooms are {', '.join(ROOMS)}")
            continue
        own_wing = wing_of(path.relative_to(ROOT / "src")) if name.parts[0] == "src" else None
        for number, quote, header in includes(path):
            where = f"{name}:{number}"
            target = None
            if header.startswith("seqto/"):
                target = public.get(header)
                if target is None:
                    problems.append(f"{where}: no public header '{header}' with a room")
            elif quote == '"':
                target = header.split("/")[0]
                if own_wing is None:
                    problems.append(f"{where}: a public header includes the private '{header}'")
                elif target not in ROOMS:
                    problems.append(f"{where}: write '{header}' as \"<room>/{header}\"")
                    target = None
                elif target == room and own_wing and wing_of(header)[1] > own_wing[1]:
                    problems.append(f"{where}: {room}/{own_wing[0]} includes '{header}', a wing to its right")
            elif ONNX.match(header) and room != "model":
                problems.append(f"{where}: <{header}>: onnx and protobuf headers belong to src/model alone")
            elif TVM.match(header):
                problems.append(f"{where}: <{header}>: TVM's headers belong to tvm/ alone")
            elif ORT.match(header):
                ort_users.add(str(name))
                if room != "runner":
                    problems.append(f"{where}: <{header}>: ONNX Runtime headers belong to src/runner alone")
            if target and ROOMS.index(target) > ROOMS.index(room):
                problems.append(f"{where}: {room} includes '{header}' of {target}, which is to its right")
    # cmake leaves files of this name out where the runtime is left out.
    strangers = sorted(name for name in ort_users if not pathlib.Path(name).name.startswith("onnxruntime_"))
    if strangers:
        problems.append(f"ONNX Runtime headers belong in src/runner/onnxruntime_*.cc, found in {', '.join(strangers)}")
    return len(files)


def check_json(problems):
    """One function limits how deep JSON is nested: all texts go through it."""
    for path in sources("src") + sources("cli"):
        if path.relative_to(ROOT).as_posix() != "src/base/json.h":
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                # The command line knows public headers alone, and parses what the library wrote.
                if JSON.search(line) and "_to_json(" not in line:
                    problems.append(f"{path.relative_to(ROOT)}:{number}: parse JSON with parse_json() of base/json.h")


def check_outside(public, problems):
    count = 0
    for folder in OUTSIDE:
        for path in sources(folder):
            count += 1
            own = (ROOT / folder, path.parent)
            for number, quote, header in includes(path):
                where = f"{path.relative_to(ROOT)}:{number}"
                if header.startswith("seqto/"):
                    if header not in public:
                        problems.append(f"{where}: no public header '{header}' with a room")
                elif header in SHARED.get(folder, []):
                    continue
                elif quote == '"' and not any((base / header).exists() for base in own):
                    problems.append(f"{where}: {folder} includes '{header}'; it may use \"seqto/*.h\" only")
                elif TVM.match(header) and folder != "tvm":
                    problems.append(f"{where}: <{header}>: TVM's headers belong to tvm/ alone")
                elif ONNX.match(header) or ORT.match(header):
                    problems.append(f"{where}: <{header}>: {folder} may use \"seqto/*.h\" only")
    return count


def main():
    problems = []
    public = public_rooms(problems)
    count = check_rooms(public, problems) + check_outside(public, problems)
    check_folders(problems)
    check_json(problems)
    print(" < ".join(ROOMS) + " < { " + ", ".join(OUTSIDE) + " }")
    for room in ROOMS:
        headers = sorted(name for name, of in public.items() if of == room)
        print(f"  {room}: {len(sources('src/' + room))} files in src/{room}; public: {', '.join(headers) or 'none'}")
        if room in WINGS:
            print("    " + " < ".join(f"{wing} ({len(sources(f'src/{room}/{wing}'))})" for wing in WINGS[room]))
    print(f"{count} files checked, {len(problems)} problems")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
