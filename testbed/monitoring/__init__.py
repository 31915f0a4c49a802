"""Prometheus and node exporters on the test cluster, from Debian's packages."""

from testbed.monitoring.debian import fetch
from testbed.monitoring.interface import Sample, Target, query, targets
from testbed.monitoring.service import start

__all__ = ["Sample", "Target", "fetch", "query", "start", "targets"]
