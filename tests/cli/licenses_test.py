"""What is brought in: `seqto --licenses` and the bill of materials, held against what the build linked; locks of the set-up."""
import json
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.models import SOURCE, seqto  # noqa: E402

PINS = dict(line.split("=", 1) for line in (SOURCE / "tools/versions.txt").read_text().splitlines() if "=" in line)
BUILD = pathlib.Path(os.environ.get("SEQTO_BUILD_DIR", SOURCE / "build"))


class Licences(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = seqto("--licenses")
        assert done.returncode == 0, done.stderr
        cls.text = done.stdout
        cls.rows = dict(re.findall(r"^(\w+) {2,}(\S+) +\S.*(?:inside|loaded)$", cls.text, re.M))
        cls.sbom = json.loads((BUILD / "generated/sbom.cdx.json").read_text())

    def test_whatever_the_build_links_is_there(self):
        linked = re.findall(r"^SEQTO_(\w+)_LIBRARY:", (BUILD / "CMakeCache.txt").read_text(), re.M)
        self.assertGreater(len(linked), 5)
        self.assertLessEqual(set(linked) - {"cbc"}, set(self.rows), "cbc is for a benchmark")
        for name in ("onnx", "echarts", "dagre", "spdlog", "eigen", "cli11", "nlohmann_json", "tomlplusplus"):
            self.assertIn(name, self.rows)

    def test_versions_are_those_of_the_set_up(self):
        self.assertEqual(self.rows["onnx"], PINS["ONNX_VERSION"])
        self.assertEqual(self.rows["echarts"], PINS["ECHARTS_VERSION"])

    def test_the_texts_are_there(self):
        for words in ("Apache License", "Permission is hereby granted, free of charge", "Redistribution and use in source and binary"):
            self.assertIn(words, self.text)

    def test_bill_of_materials(self):
        self.assertEqual((self.sbom["bomFormat"], self.sbom["specVersion"]), ("CycloneDX", "1.6"))
        self.assertRegex(self.sbom["serialNumber"], r"^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
        listed = {c["name"]: c["version"] for c in self.sbom["components"]}
        self.assertEqual(listed, self.rows)
        self.assertTrue(all(c["licenses"][0]["expression"] for c in self.sbom["components"]))
        self.assertEqual(set(self.sbom["dependencies"][0]["dependsOn"]), set(listed))
        version = seqto("--version").stdout.split()[-1]
        self.assertEqual(self.sbom["metadata"]["component"]["version"], version)


class Locks(unittest.TestCase):
    """A download that no lock names, or a lock older than its version, would not be what was looked at."""
    def test_they_have_the_versions_and_hashes(self):
        for lock in sorted((SOURCE / "tools/locks").glob("*.txt")):
            text = lock.read_text()
            if lock.name == "npm.txt":
                for package, key in (("echarts", "ECHARTS"), ("dagrejs-dagre", "DAGRE"), ("onnxruntime-web", "ONNXRUNTIME_WEB")):
                    self.assertRegex(text, rf"(?m)^[0-9a-f]{{64}}  {package}-{re.escape(PINS[key + '_VERSION'])}\.tgz$")
                continue
            requirements = text.replace("\\\n", " ").strip().split("\n")
            for line in requirements:
                self.assertRegex(line, r"^[\w.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", lock.name)
                name, version = re.match(r"([\w.-]+)==(\S+)", line).groups()
                if lock.name == "onnxruntime_old.txt": name = "onnxruntime-old"
                pin = PINS.get(name.upper().replace("-", "_").removeprefix("APACHE_") + "_VERSION", version)
                self.assertEqual(version, pin, f"{lock.name}: {name}; tools/lock.sh writes the locks anew")

    def test_every_download_asks_for_a_hash(self):
        for name in ("setup.sh", "setup_wheel.sh"):
            for line in (SOURCE / "tools" / name).read_text().replace("\\\n", " ").split("\n"):
                if re.search(r"^\s*[^#]*\bpip\b.* (install|download) ", line):
                    self.assertIn("--require-hashes", line, name)


if __name__ == "__main__":
    unittest.main()
