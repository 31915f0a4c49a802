"""Learn the parameters of the Spark rule `size-shares` by playing episodes, and keep them as data.

    python tools/learn_spark_shares.py ../shared/data/tpch/tpch_stages.json.gz \
        src/stowplan/simulate/spark/shares.json --seed 1 --generations 60

The file is written after each generation, with seed, generation and job sequences. The same arguments give
the same parameters; sequences are those of seeds 1000 to 8999, results are published for seeds 0 to 9.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from stowplan.simulate.spark import SparkProfiles
from stowplan.simulate.spark.tuning import Training, learn


def main() -> None:
    """Learn, and tell about each generation."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("profiles", type=Path, help="measured stages of TPC-H queries")
    parser.add_argument("out", type=Path, help="file of parameters to write")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--generations", type=int, required=True)
    options = parser.parse_args()
    training = Training(seed=options.seed, generations=options.generations)
    for generation in learn(SparkProfiles.load(options.profiles), training):
        learned = msgspec.json.format(msgspec.json.encode(generation.learned), indent=2)
        options.out.write_bytes(learned + b"\n")
        print(
            f"{generation.learned.generations:4} best {generation.best:.4f} of fair, "
            f"step {generation.step:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
