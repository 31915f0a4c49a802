"""A recorded cycle decided again, and compared with what was decided then, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stowplan.core.engine import CycleReport, Engine
from stowplan.core.lookahead import Counted, LookAhead
from stowplan.core.policy import Policy, make_policy
from stowplan.core.policy.interface import Replayable
from stowplan.core.record.outcome import first_difference, outcome_to_plain
from stowplan.core.record.reading import Chain, RecordedCycle
from stowplan.core.record.values import Plain, pack, unpack
from stowplan.errors import InvalidInput, ReplayDiffers, UnknownName

__all__ = ["Replayed", "decided_to_plain", "replay"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """A cycle that came out the same again."""

    recorded: RecordedCycle
    report: CycleReport


def decided_to_plain(report: CycleReport, pending: Sequence[object], examined: int | None) -> Plain:
    """Return what a record holds of a decided cycle.

    Args:
        report: what came of it.
        pending: the tasks that were decided on.
        examined: how many plans look-ahead had time for; None: it was not asked.
    """
    return {
        "limit": report.limit,
        "closed": list(report.closed),
        "examined": examined,
        "outcome": outcome_to_plain(report, pending),  # pyright: ignore[reportArgumentType]
    }


def replay(frames: Sequence[bytes], *, version: str, make: Callable[..., Policy] = make_policy) -> Replayed:
    """Decide the cycle of the last of `frames` again.

    Args:
        frames: its chain, the checkpoint first.
        version: of this Stowplan.
        make: makes a policy of a name and plain options.

    Raises:
        InvalidFile: the records are damaged.
        InvalidInput: another Stowplan decided, or by a policy that there is no longer.
        ReplayDiffers: it comes out otherwise; the message says where first.
    """
    chain = Chain()
    recorded = None
    for content in frames:
        recorded = chain.add(content)
    if recorded is None:
        raise InvalidInput("there is no record to replay; give the chain of frames of a decision")
    setup = recorded.setup
    if setup.version != version:
        raise InvalidInput(
            f"Stowplan {setup.version} decided, this is Stowplan {version}; "
            f"replay it with Stowplan {setup.version}"
        )
    report = _decide(recorded, make)
    decided = recorded.decided
    again = unpack(pack(decided_to_plain(report, recorded.pending, decided["examined"])))
    difference = first_difference(decided["outcome"], again["outcome"], recorded.pending)
    if difference:
        raise ReplayDiffers(f"the replay comes out otherwise: {difference}")
    return Replayed(recorded, report)


def _decide(recorded: RecordedCycle, make: Callable[..., Policy]) -> CycleReport:
    setup, decided = recorded.setup, recorded.decided
    try:
        policy = make(setup.policy, **setup.options)
        fallback = make(setup.fallback) if setup.fallback else None
    except (UnknownName, InvalidInput) as error:
        raise InvalidInput(
            f"the decision was made by policy {setup.policy!r}, which this Stowplan does not have so: {error}"
        ) from None
    if not isinstance(policy, Replayable):
        raise InvalidInput(f"policy {setup.policy!r} cannot be replayed: it does not say what it remembers")
    policy.recall(recorded.memory)
    if isinstance(policy, LookAhead):
        plans = int(decided["examined"] or 0)
        policy.make_budget = lambda: Counted(plans)
    engine = Engine(
        recorded.state,
        policy,
        rng=recorded.generator(),
        rules=setup.rules,
        fallback=fallback,
        explains=setup.explains,
    )
    return engine.cycle(
        recorded.now_s,
        recorded.pending,
        recorded.running,
        limit=decided["limit"],
        closed=decided["closed"],
        readings=recorded.readings,
    )
