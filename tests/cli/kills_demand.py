"""200 kills, or as many as the argument says; see kills_test.py."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import kills_test  # noqa: E402

if __name__ == "__main__":
    kills_test.main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
