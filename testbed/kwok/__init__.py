"""Fake nodes: kwok plays their kubelets, with stages of our own that keep times, durations and use."""

from testbed.kwok.annotations import pod_annotations, times
from testbed.kwok.daemon import NODE_PORT, start
from testbed.kwok.manifests import FAKE_NODE, NOT_READY, TOLERATION

__all__ = ["FAKE_NODE", "NODE_PORT", "NOT_READY", "TOLERATION", "pod_annotations", "start", "times"]
