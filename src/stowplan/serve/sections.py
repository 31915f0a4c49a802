"""The sections of the configuration, each for one concern; `config` reads them from file and environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt

from stowplan.serve.logs import LogFormat, LogLevel
from stowplan.serve.scheduler.interface import Mode
from stowplan.serve.scheduler.turns import AT_ONCE

__all__ = [
    "ExtenderConfig",
    "HistoryConfig",
    "HttpConfig",
    "KubernetesConfig",
    "LeaseConfig",
    "LogConfig",
    "LookAheadConfig",
    "Port",
    "PreemptionConfig",
    "SchedulerConfig",
    "Section",
]

Port = Annotated[int, Field(ge=0, le=65535)]


class Section(BaseModel):
    """Settings of one concern; what is not known is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class KubernetesConfig(Section):
    """Which cluster, and as whom.

    Without a kubeconfig: KUBECONFIG, the service account of the pod, `~/.kube/config`, in this order.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    request_timeout_s: PositiveFloat = 30.0


class LookAheadConfig(Section):
    """Whether the best plan of a cycle is sought by foreseeing its consequences, and for how long."""

    enable: bool = True
    budget_ms: PositiveFloat = 20.0
    alternatives: tuple[str, ...] = ("srpt", "kube-scheduler")


class SchedulerConfig(Section):
    """Which pods, in which way, by which policy.

    Attributes:
        mode: how decisions become facts.
        name: the scheduler that pods name in `spec.schedulerName` to be bound by Stowplan (binder mode).
        policy, policy_options: see `stowplan policies`.
        fallback: what decides when the policy fails; "" for none.
        rules: a file with the operator's rule table.
        node_pool: labels of the nodes that Stowplan may use; empty: all.
        placement: in gate mode, how the chosen node is written on the pod.
        bindings: at most so many placements are carried out at once.
        placements_per_cycle: at most so many are decided before other work has its turn.
        drain_s: on SIGTERM, bindings under way are waited for at most so long.
        seed: of the generator that breaks ties.
    """

    mode: Mode = Mode.EXTENDER
    name: str = "stowplan"
    policy: str = "srpt-physics"
    policy_options: dict[str, Any] = Field(default_factory=dict[str, Any])
    fallback: str = "kube-scheduler"
    look_ahead: LookAheadConfig = LookAheadConfig()
    rules: Path | None = None
    node_pool: dict[str, str] = Field(default_factory=dict[str, str])
    placement: Literal["prefer", "require", "none"] = "prefer"
    bindings: PositiveInt = AT_ONCE
    placements_per_cycle: PositiveInt = 256
    drain_s: PositiveFloat = 20.0
    seed: int = 0


class PreemptionConfig(Section):
    """Whether pods of lower priority are ended for one that found no node (binder mode), and how.

    Attributes:
        percent_of_nodes, minimum_nodes: candidates are sought until there are so many, in hundredths of the
            nodes that could help and at least; kube-scheduler's `minCandidateNodesPercentage` and
            `minCandidateNodesAbsolute`.
        requests: so many pods are being ended at once.
        within_s: a pod that cannot be ended is tried again for so long.
        first_pause_s, longest_pause_s: between tries.
    """

    enable: bool = True
    percent_of_nodes: Annotated[int, Field(ge=0, le=100)] = 10
    minimum_nodes: PositiveInt = 100
    requests: PositiveInt = 16
    within_s: PositiveFloat = 10.0
    first_pause_s: PositiveFloat = 0.1
    longest_pause_s: PositiveFloat = 2.0


class ExtenderConfig(Section):
    """Where kube-scheduler asks in extender mode, and how long an answer may take.

    Attributes:
        in_flight_s: how long a pod that was scored counts as being on its best node, unless the cluster says
            sooner where it is; 0: not at all.
        certificate, key: files of the serving certificate and its key; without, it is served without TLS.
        client_authority: only its clients are let in.
        reload_s: how often these files are looked at; what was renewed serves new connections.
    """

    host: str = "127.0.0.1"
    port: Port = 10452
    budget_ms: PositiveFloat = 50.0
    in_flight_s: NonNegativeFloat = 2.0
    certificate: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None
    reload_s: PositiveFloat = 10.0


class HttpConfig(Section):
    """Where health, metrics, status and explanations are served."""

    host: str = "127.0.0.1"
    port: Port = 10451


class HistoryConfig(Section):
    """Where what ran is kept; without a URL nothing is, and expected durations are all the same."""

    url: str = ""
    keep_days: PositiveFloat = 90.0
    refit_s: PositiveFloat = 60.0


class LeaseConfig(Section):
    """The election among several instances; without it an instance leads at once and must be the only one."""

    enable: bool = True
    namespace: str = "kube-system"
    name: str = "stowplan-scheduler"
    duration_s: PositiveFloat = 15.0
    renew_s: PositiveFloat = 10.0
    retry_s: PositiveFloat = 2.0


class LogConfig(Section):
    """What the logs say, and how."""

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.JSON
