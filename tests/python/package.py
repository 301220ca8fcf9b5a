"""The package under test: as it was built, beside its extension; a test skips where that was left out."""

import os
import pathlib
import sys

sys.dont_write_bytecode = True
SOURCE = pathlib.Path(os.environ.get("SEQTO_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("SEQTO_BUILD_DIR", SOURCE / "build"))
PACKAGE = BUILD / "python"
if not any((PACKAGE / "seqto").glob("_core*.so")):
    print("skipped: the Python extension was not built; it needs nanobind and Python's headers")
    sys.exit(77)
sys.path[:0] = [str(PACKAGE), str(SOURCE / "tests"), str(SOURCE / "tests/differential")]
os.environ["PYTHONPATH"] = str(PACKAGE)
# No package is installed here whose command workers could be started with.
os.environ.setdefault("SEQTO_WORKER", str(BUILD / "bin/seqto"))
