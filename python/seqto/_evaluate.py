"""`python -m seqto._evaluate DIR -`: `seqto eval DIR -` for a study that Python began."""
import os
import sys
from pathlib import Path

from ._core import Evaluator
from ._keywords import from_config


def main() -> None:
    folder = sys.argv[1]
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    keywords = from_config(Path(folder, "tune.toml").read_text())
    evaluator = Evaluator(keywords.pop("model"), keywords.pop("data"), folder, **keywords)
    print('{"ready": 1}', file=out)
    for line in sys.stdin:
        print(evaluator.answer(line), file=out)


if __name__ == "__main__":
    main()
