"""Measurements against peers and limits: one module per question, `python -m bench` runs them.

A module named `bench/<area>_<question>.py` with `def run(*, quick: bool) -> list[Row]` is found by itself.
Limits are data in `limits.toml`; results are kept in `results/`; `docs/BENCHMARKS.md` is generated from both.
"""
