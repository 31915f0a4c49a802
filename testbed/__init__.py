"""A real Kubernetes on one machine, for tests and by hand: `make cluster`, or the fixtures of tests/cluster."""
