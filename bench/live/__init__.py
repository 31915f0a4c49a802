"""What the benchmarks of the live scheduler share."""
