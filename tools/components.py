"""What the program is made of beside its own code: components.py OUT NAME=FILE ... writes OUT/licences.txt, which
`seqto --licenses` prints, and OUT/sbom.cdx.json (CycloneDX 1.6). FILE: a library or header of the distribution, or the
licence of what the set-up brought; the former's package says version and licence. Same inputs, same bytes."""
import functools
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Name -> (SPDX, home page, key of tools/versions.txt where the set-up brings it).
KNOWN = {
    "archive": ("BSD-2-Clause", "https://libarchive.org", None),
    "cli11": ("BSD-3-Clause", "https://github.com/CLIUtils/CLI11", None),
    "dagre": ("MIT", "https://github.com/dagrejs/dagre", "DAGRE_VERSION"),
    "duktape": ("MIT", "https://duktape.org", None),
    "echarts": ("Apache-2.0", "https://echarts.apache.org", "ECHARTS_VERSION"),
    "eigen": ("MPL-2.0", "https://eigen.tuxfamily.org", None),
    "fmt": ("MIT", "https://fmt.dev", None),
    "nettle": ("LGPL-3.0-or-later OR GPL-2.0-or-later", "https://www.lysator.liu.se/~nisse/nettle", None),
    "nlohmann_json": ("MIT", "https://json.nlohmann.me", None),
    "onnx": ("Apache-2.0", "https://onnx.ai", "ONNX_VERSION"),
    "onnxruntime": ("MIT", "https://onnxruntime.ai", "ONNXRUNTIME_VERSION"),
    "png": ("libpng-2.0", "http://www.libpng.org", None),
    "protobuf": ("BSD-3-Clause", "https://protobuf.dev", None),
    "spdlog": ("MIT", "https://github.com/gabime/spdlog", None),
    "tomlplusplus": ("MIT", "https://marzer.github.io/tomlplusplus", None),
    "turbojpeg": ("IJG AND BSD-3-Clause AND Zlib", "https://libjpeg-turbo.org", None),
    "xxhash": ("BSD-2-Clause", "https://xxhash.com", None),
    "yaml": ("MIT", "https://pyyaml.org/wiki/LibYAML", None),
    "zlib": ("Zlib", "https://zlib.net", None),
}


@functools.cache
def pinned():
    lines = (ROOT / "tools/versions.txt").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def asked(*words):
    try:
        return subprocess.run(["dpkg-query", *words], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""  # another distribution


def package_of(file):
    owner = asked("-S", file) or asked("-S", str(pathlib.Path(file).resolve())) or asked("-S", "*/" + pathlib.Path(file).name)
    return re.split("[:,]", owner, maxsplit=1)[0]


def text_of(file):
    return file.read_text(errors="replace") if file.is_file() else ""  # the set-up of another processor has none


def component(name, file):
    spdx, home, key = KNOWN[name]
    if key:
        return {"name": name, "version": pinned()[key], "spdx": spdx, "home": home, "linked": name != "onnxruntime",
                "text": text_of(pathlib.Path(file))}
    package = package_of(file)
    version = asked("-W", "-f=${Version}", package) if package else ""
    return {"name": name, "version": re.sub(r"^\d+:", "", version) or "unknown", "spdx": spdx, "home": home,
            "linked": not file.endswith(".so"),
            "text": text_of(pathlib.Path("/usr/share/doc") / package / "copyright") if package else ""}


def licences(components):
    rows = "\n".join(f"{c['name']:16}{c['version']:28}{c['spdx']:40}{'inside' if c['linked'] else 'loaded'}" for c in components)
    texts = "".join(f"\n{'=' * 100}\n{c['name']} {c['version']}, {c['spdx']}, {c['home']}\n{'=' * 100}\n\n{c['text'].strip()}\n"
                    for c in components if c["text"])
    return f"seqto is licensed under Apache-2.0. It holds, or loads from the system, the work of others:\n\n{rows}\n{texts}"


def sbom(components, version):
    listed = [{"type": "library", "bom-ref": c["name"], "name": c["name"], "version": c["version"],
               "licenses": [{"expression": c["spdx"]}], "externalReferences": [{"type": "website", "url": c["home"]}]}
              for c in components]
    own = {"type": "application", "bom-ref": "seqto", "name": "seqto", "version": version, "licenses": [{"expression": "Apache-2.0"}]}
    of_all = hashlib.sha256(json.dumps(listed).encode()).hexdigest()
    return {"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6",
            "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, 'seqto ' + of_all)}", "version": 1,
            "metadata": {"component": own}, "components": listed,
            "dependencies": [{"ref": "seqto", "dependsOn": [c["name"] for c in components]}]}


def write(path, text):
    if not path.exists() or path.read_text() != text:  # what is built of it stays as it is
        path.write_text(text)


def main():
    folder, version, *given = sys.argv[1:]
    components = sorted((component(*pair.split("=", 1)) for pair in given), key=lambda c: c["name"])
    out = pathlib.Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    write(out / "licences.txt", licences(components))
    write(out / "sbom.cdx.json", json.dumps(sbom(components, version), indent=1) + "\n")


main()
