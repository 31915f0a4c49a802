"""Train by examples/training/smoke.yaml and demand that the result beats random placement by a margin.

    python tools/train_smoke.py [--out DIR]

The margin is over scenarios that training does not draw, with nothing at random, as the network would
serve: exit code 1 when it is missed, or when a choice was made that constraints refuse.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path

from stowplan.cli.process import run
from stowplan.learn.rules import FIRST_RULE

CONFIG = Path(__file__).resolve().parent.parent / "examples" / "training" / "smoke.yaml"
MOST_OF_RANDOM = 0.97
"""Mean completion may be at most this share of random placement's; the rule that the network starts from
meets it too."""
MOST_OF_FIRST = 1.05
"""Mean completion may be at most this share of that of the rule that the network starts from; a proposal."""


def check(out: Path) -> list[str]:
    """Return what is not as it must be."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["stage"] == "validation"][-1]
    share = math.exp(last["completion_against_random"])
    of_first = math.exp(last[f"completion_against_{FIRST_RULE}"])
    print(f"mean completion is {share:.3f} of random placement's (at most {MOST_OF_RANDOM})")
    print(f"mean completion is {of_first:.3f} of that of {FIRST_RULE} (at most {MOST_OF_FIRST})")
    found = [
        (share <= MOST_OF_RANDOM, "it does not beat random placement by the margin"),
        (of_first <= MOST_OF_FIRST, "it is worse than the rule that it starts from"),
        (not any(line.get("illegal", 0.0) for line in lines), "it chose what constraints refuse"),
    ]
    return [words for holds, words in found if not holds]


def main() -> int:
    """Train and check."""
    parser = argparse.ArgumentParser(description="Train for a few minutes and check what came of it.")
    parser.add_argument("--out", type=Path, help="where results are kept; else they are thrown away")
    out = parser.parse_args().out
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        folder = out or Path(scratch)
        code = run(["train", "--config", str(CONFIG), "--out", str(folder)])
        if code:
            return code
        problems = check(folder)
    print(f"{time.perf_counter() - began:.0f} s")
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
