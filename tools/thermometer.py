#!/usr/bin/env python3
"""The state of the house in figures: `./dev thermometer`. Counts only; nothing here passes or fails."""

import collections
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOST_FILES, MOST_LINES, MOST_PARAMETERS, MOST_WORDS = 45, 500, 5, 35
COMPARED = re.compile(r"op_type\s*[!=]=")
# std::unordered_map<std::string, const Node*> producers_ and the like: the graph's edges, kept once more.
PRIVATE_MAP = re.compile(r"(?:unordered_)?map<std::string(?:_view)?, [^;()]*>\s+(?:\w+, )*(?:producer|reader|use|consumer)s?_?[;, ]")
FUNCTION = re.compile(r"^(?!\s*(?:return|if|for|while|else|switch|throw|case)\b)[\w:<>,&*\s\[\]]+?[\s&*]([\w:~]+)\(([^;{}]*?)\)\s*(?:const)?\s*(?:noexcept)?\s*(?::[^;{]*)?\{",
                      re.M)


def files(pattern):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", pattern], cwd=ROOT, capture_output=True, text=True)
    return [ROOT / f for f in listed.stdout.split() if (ROOT / f).exists()]


def sources(pattern):
    return [f for f in files(pattern) if f.suffix in (".h", ".cc")]


def lines(paths):
    return sum(len(p.read_text(errors="replace").splitlines()) for p in paths)


def parameters(text):
    """Top-level commas of a parameter list and one."""
    depth, count = 0, 1 if text.strip() else 0
    for c in text:
        depth += (c in "<([{") - (c in ">)]}")
        count += c == "," and depth == 0
    return count


def wide_functions():
    found = set()
    for path in sources("src/*") + sources("cli/*"):
        if path.suffix != ".cc":
            continue
        for match in FUNCTION.finditer(path.read_text(errors="replace")):
            if parameters(match[2]) > MOST_PARAMETERS:
                found.add(f"{match[1]} ({parameters(match[2])}, {path.relative_to(ROOT)})")
    return sorted(found)


def long_sentences():
    count = 0
    for path in files("README.md") + files("docs/*.md"):
        text = re.sub(r"```.*?```|^\s*[|#].*$", "", path.read_text(), flags=re.S | re.M)
        count += sum(len(s.split()) > MOST_WORDS for s in re.split(r"(?<=[.!?])\s+", text))
    return count


# A struct of options as a whole: its members stand below, none of its functions.
OPTIONS = re.compile(r"^struct (\w+Options)\b[^;{]*\{(.*?)^\};", re.M | re.S)
MEMBER = re.compile(r"^  ([\w:][\w:<>, *]*?)[ *]+(\w+)(?: = [^;]*|\{[^;]*\})?((?:, \w+(?: = [^;,]+)?)*);", re.M)
# A layer's word against the options of all: the double is what it is for, and unset fields mean the other struct's.
OVERRIDES = {"LayerOptions"}
# Not a setting but what the work is about.
SUBJECTS = {"Plan", "std::optional<Plan>", "Corrections", "Metrics"}


def doubled_fields():
    """Names of fields that two structs of options have; a member that is such a struct is how one contains the other."""
    owners = collections.defaultdict(list)
    for header in files("include/seqto/*.h"):
        for struct, body in OPTIONS.findall(re.sub(r"//[^\n]*", "", header.read_text())):
            for kind, first, others in MEMBER.findall(body) if struct not in OVERRIDES else ():
                if kind.endswith("Options") or kind in SUBJECTS:
                    continue
                for name in [first, *re.findall(r", (\w+)", others)]:
                    owners[name].append(struct.removesuffix("Options"))
    return [f"{name} ({', '.join(structs)})" for name, structs in sorted(owners.items()) if len(structs) > 1]


def main():
    src = sources("src/*")
    folders = collections.Counter(p.parent.relative_to(ROOT).as_posix() for p in src)
    rooms = {room: lines(sources(f"src/{room}/*")) for room in ("quantization", "orchestrator", "search")}
    wide = [f"{n} {d}" for d, n in folders.most_common() if n > MOST_FILES]
    long_files = [f"{lines([p])} {p.relative_to(ROOT)}" for p in src if lines([p]) > MOST_LINES]
    compared = collections.Counter()
    maps = []
    for p in src:
        text = p.read_text(errors="replace")
        if p.stem != "op_traits" and (n := len(COMPARED.findall(text))):
            compared[p.relative_to(ROOT).parent.as_posix()] += n
        if p.stem != "graph_view":
            maps += [f"{p.relative_to(ROOT)}" for _ in PRIVATE_MAP.findall(text)]
    functions = wide_functions()
    headers = files("include/seqto/*.h")
    fields = sum(len(re.findall(r"^  [\w:<>, *]+ \w+(?: = [^;]+)?(?:, \w+(?: = [^;]+)?)*;", p.read_text(), re.M)) for p in headers)
    doubled = doubled_fields()
    flags = sum(len(re.findall(r"add_(?:option|flag)\w*\(", p.read_text())) for p in sources("cli/*"))
    rows = [
        ("lines of src", lines(src)),
        ("of src/quantization + src/orchestrator + src/search", sum(rooms.values())),
        (f"folders of src over {MOST_FILES} files", f"{len(wide)}: {', '.join(wide)}" if wide else 0),
        ("largest folder of src", "{1} {0}".format(*folders.most_common(1)[0])),
        (f"files of src over {MOST_LINES} lines", f"{len(long_files)}: {', '.join(long_files)}" if long_files else 0),
        (f"functions with more than {MOST_PARAMETERS} parameters", len(functions)),
        ("op_type comparisons outside op_traits", f"{sum(compared.values())}: " + ", ".join(f"{n} {d}" for d, n in compared.most_common())),
        ("private maps of producers and readers", f"{len(maps)}: {', '.join(sorted(set(maps)))}" if maps else 0),
        ("public headers", len(headers)),
        ("fields in them", fields),
        ("fields in two option structs", f"{len(doubled)}: {', '.join(doubled)}" if doubled else 0),
        ("definitions of flags in cli", flags),
        ("lines of README", lines(files("README.md"))),
        (f"sentences over {MOST_WORDS} words in README and docs", long_sentences()),
    ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")
    for function in functions:
        print(f"  {function}")


if __name__ == "__main__":
    main()
