"""Fake nodes: kwok plays their kubelets, with stages of our own that keep times, durations and use."""

from testbed.kwok.annotations import PodScript, Times, times
from testbed.kwok.daemon import start, wait_until_schedulable
from testbed.kwok.manifests import FAKE_NODE, NODE_PORT, NOT_READY, TOLERATION

__all__ = [
    "FAKE_NODE",
    "NODE_PORT",
    "NOT_READY",
    "TOLERATION",
    "PodScript",
    "Times",
    "start",
    "times",
    "wait_until_schedulable",
]
