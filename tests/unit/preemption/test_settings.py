"""The limits of a preemptor as the configuration sets them."""

from stowplan.core.preemption import SearchSettings
from stowplan.serve.preemption import PreemptorSettings
from stowplan.serve.sections import PreemptionConfig


def test_the_configuration_has_the_defaults_of_the_preemptor() -> None:
    assert PreemptorSettings.of(PreemptionConfig()) == PreemptorSettings()


def test_every_limit_is_taken_from_the_configuration() -> None:
    config = PreemptionConfig(
        percent_of_nodes=3,
        minimum_nodes=7,
        requests=2,
        within_s=4.0,
        first_pause_s=0.5,
        longest_pause_s=1.5,
    )
    expected = PreemptorSettings(
        SearchSettings(percent_of_nodes=3, minimum_nodes=7),
        requests=2,
        within_s=4.0,
        first_pause_s=0.5,
        longest_pause_s=1.5,
    )
    assert PreemptorSettings.of(config) == expected
