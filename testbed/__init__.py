"""A real Kubernetes on one machine: by hand (`make cluster`), or by the fixtures of tests/cluster."""
