"""What the policy is trained on: random clusters under random load, so wide that real ones are among them."""

from stowplan.learn.scenarios.draw import Scenario, draw_scenario
from stowplan.learn.scenarios.ranges import Ranges
from stowplan.learn.scenarios.recordings import TEST_FAMILIES, TRAINING_FAMILIES, Split, load_recordings

__all__ = [
    "TEST_FAMILIES",
    "TRAINING_FAMILIES",
    "Ranges",
    "Scenario",
    "Split",
    "draw_scenario",
    "load_recordings",
]
