"""`tune --max-time` of a decoder that takes long for its limit: each candidate is measured once, on the samples of the
report, so the front has several sizes; who goes on with the study goes on so."""
import json
import pathlib
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.decoder import Decoder  # noqa: E402
from testing.models import sanitized, seqto  # noqa: E402

SIZE = {"layers": 4, "width": 384, "heads": 6, "kv_heads": 2, "wide": 1024, "words": 8000}
SECONDS = 8


def tune(scratch, seconds, *flags):
    done = seqto("tune", scratch / "model.onnx", "--data", scratch / "ids.npz", "-o", scratch / "out", "--max-time",
                 seconds, *flags, "-q")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (scratch / "out" / "study.jsonl").read_text().splitlines()]
    trials = [line["trial"] for line in lines if "trial" in line and line["trial"]["id"] not in ("float", "published")]
    return json.loads((scratch / "out" / "summary.json").read_text()), trials


def main():
    if sanitized():
        return 77
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        Decoder(scratch / "model.onnx", **SIZE)
        ids = np.random.default_rng(3).integers(0, SIZE["words"], (128, 64))
        np.savez(scratch / "ids.npz", input_ids=ids)

        summary, trials = tune(scratch, SECONDS)
        print(summary["samples"], *[(t["step"], t["size_bytes"], t["losses"]["kl"]) for t in trials], *summary["notes"],
              sep="\n  ")
        assert summary["samples"]["search"] == 0, "the limit lasts for few candidates"
        assert any("few candidates" in note for note in summary["notes"]), summary["notes"]
        assert {t.get("part", "evaluation") for t in trials} == {"evaluation"}
        assert trials[0]["step"] == "uniform"
        assert all(len(t["samples"]["kl"]) == summary["samples"]["evaluation"] for t in trials)
        assert all(low <= point["losses"]["kl"] <= high for point in summary["front"]
                   for low, high in [point["intervals"]["kl"]])

        again, more = tune(scratch, 4 * SECONDS, "--max-evaluations", 9)  # float and published are two of them
        assert again["samples"] == summary["samples"], "as the study has them"
        assert [t["id"] for t in more[:len(trials)]] == [t["id"] for t in trials]
        assert {t.get("part", "evaluation") for t in more} == {"evaluation"}
        steps = 3 * ["uniform"] + 3 * ["chain"] + ["uniform"]  # static layers last
        assert [t["step"] for t in more] == steps[:len(more)] and len(more) >= 4, "a busy machine gets fewer"
        assert len({t["size_bytes"] for t in more}) == len(more)
    return 0


if __name__ == "__main__":
    sys.exit(main())
