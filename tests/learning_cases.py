"""A tiny training: the recordings that come with Stowplan, few nodes, a network that runs in microseconds."""

from stowplan.core.policy.learned.sizes import NetworkShape
from stowplan.learn.scenarios import Ranges
from stowplan.learn.settings import Checks, Imitation, Measuring, Outcomes, Ppo, Settings

SHAPE = NetworkShape(
    width=16, heads=2, layers=1, feed_forward=16, node_hidden=16, keys=8, slowdown_keys=4, frequencies=2
)
RANGES = Ranges(nodes=(4, 5), machine_types=(2, 2), workflows=(3, 4), most_tasks=120, gpu_share=0.0)


def tiny_settings() -> Settings:
    return Settings(
        seed=3,
        threads=1,
        warm_up=1,
        checkpoint_every=1,
        network=SHAPE,
        ranges=RANGES,
        measuring=Measuring(scenarios=2, kept_decisions=40),
        outcomes=Outcomes(iterations=1, scenarios=2, kept_decisions=40, rules=("srpt-fastest", "random")),
        imitation=Imitation(iterations=1, scenarios=1, kept_decisions=40, teachers=("srpt-fastest", "srpt")),
        ppo=Ppo(iterations=2, scenarios=1, rollouts=2, kept_decisions=40),
        checks=Checks(scenarios=1, every=2, rules=("srpt-fastest",)),
    )
