"""A seeded generator of clusters and pods that put every filter to the test, alone and with others."""

from testbed.differential.generator.cluster import Case, generate
from testbed.differential.generator.world import APART, EMPHASES, Manifest

__all__ = ["APART", "EMPHASES", "Case", "Manifest", "generate"]
