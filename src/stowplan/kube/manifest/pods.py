"""Pods out of API objects: the shape that decides where they may run.

Defaults are those of the API server 1.37 (`pkg/apis/core/v1/defaults.go`, the pod strategy): limits stand
in for missing requests, container ports of pods on the host's network are host ports, label keys are merged
into selectors, and pod-level requests that are left open follow from the containers' requests and the
pod-level limits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from stowplan.core.constraints.requests import (
    Container,
    PodRequests,
    aggregate,
    effective_requests,
    maximum,
)
from stowplan.core.domain import (
    PODS,
    HostPort,
    InlineDisk,
    NodeAffinity,
    Operator,
    PodShape,
    PodVolume,
    PreferredNodeTerm,
    Requirement,
    SpreadConstraint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    WhenUnsatisfiable,
)
from stowplan.errors import InvalidObject, InvalidQuantity
from stowplan.kube.manifest.cursor import Cursor
from stowplan.kube.manifest.migration import migrated_volume
from stowplan.kube.manifest.selectors import (
    label_selector,
    node_terms,
    pod_affinity_terms,
    term_of,
    weighted_pod_affinity_terms,
    with_label_keys,
)

__all__ = ["read_pod_shape"]

_EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  (a value of the API, nothing is bound)
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_POLICIES: Final = ("Honor", "Ignore")
_TEMPLATE_LABELS: Final = ("workflows.argoproj.io/template", "workflows.argoproj.io/workflow-template")
_NO_AMOUNTS: Final[Mapping[str, Fraction]] = {}


def read_pod_shape(namespace: str, name: str, cursor: Cursor) -> PodShape:
    """Return the shape of a pod as far as it says itself; `ShapeContext.complete` adds the rest.

    `spec.nodeName` is not part of it (a pod that has one is bound). The priority is 0 where it is left to a
    class.
    """
    spec = cursor["spec"]
    labels = cursor["metadata"]["labels"].label_map()
    affinity = spec["affinity"]
    on_host = spec["hostNetwork"].flag()
    containers, init_containers = list(spec["containers"].items()), list(spec["initContainers"].items())
    if not containers:
        spec["containers"].fail("a pod has at least one container")
    try:
        variants = _requests(cursor)
        requests, score_cpu_milli, score_memory_bytes = effective_requests(*variants)
        pending_score = _pending_score(variants)
    except InvalidQuantity as error:
        raise InvalidObject(f"Pod {namespace}/{name}: the sum of its requests: {error}") from error
    pod_affinity, anti_affinity = affinity["podAffinity"], affinity["podAntiAffinity"]
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    return PodShape(
        namespace=namespace,
        labels=tuple(sorted(labels.items())),
        requests=requests,
        score_cpu_milli=score_cpu_milli,
        score_memory_bytes=score_memory_bytes,
        node_selector=tuple(
            Requirement(key, Operator.IN, (value.text(),))
            for key, value in sorted(spec["nodeSelector"].entries())
        ),
        node_affinity=NodeAffinity(
            required=node_terms(affinity["nodeAffinity"][required]),
            preferred=tuple(
                PreferredNodeTerm(item["weight"].integer(), term_of(item["preference"]))
                for item in affinity["nodeAffinity"][preferred].items()
            ),
        ),
        affinity=pod_affinity_terms(pod_affinity[required], labels),
        anti_affinity=pod_affinity_terms(anti_affinity[required], labels),
        preferred_affinity=weighted_pod_affinity_terms(pod_affinity[preferred], labels),
        preferred_anti_affinity=weighted_pod_affinity_terms(anti_affinity[preferred], labels),
        tolerations=tuple(_toleration(item) for item in spec["tolerations"].items()),
        spread=tuple(_spread(item, labels) for item in spec["topologySpreadConstraints"].items()),
        host_ports=_host_ports(containers, init_containers, on_host=on_host),
        volumes=tuple(_volumes(spec["volumes"], name, cursor["metadata"]["uid"].text())),
        images=tuple(
            _image(item["image"].text()) for item in [*init_containers, *containers] if item["image"].is_set
        ),
        scheduling_gates=tuple(
            item["name"].required_text("name the gate") for item in spec["schedulingGates"].items()
        ),
        resource_claims=tuple(
            item["name"].required_text("name the claim") for item in spec["resourceClaims"].items()
        ),
        priority=spec["priority"].integer(),
        scheduler_name=spec["schedulerName"].text() or "default-scheduler",
        host_network=on_host,
        required_features=_required_features(spec, [*init_containers, *containers]),
        template=next((labels[key] for key in _TEMPLATE_LABELS if key in labels), ""),
        pending_score=pending_score,
    )


def _toleration(cursor: Cursor) -> Toleration:
    operator = cursor["operator"].text() or "Equal"
    if operator not in tuple(TolerationOperator):
        cursor["operator"].fail(f"write one of {', '.join(TolerationOperator)}")
    effect = cursor["effect"].text()
    if effect and effect not in tuple(TaintEffect):
        cursor["effect"].fail(f"write one of {', '.join(TaintEffect)}, or leave it out for all")
    return Toleration(
        key=cursor["key"].text(),
        operator=TolerationOperator(operator),
        value=cursor["value"].text(),
        effect=TaintEffect(effect) if effect else None,
    )


def _spread(cursor: Cursor, labels: dict[str, str]) -> SpreadConstraint:
    max_skew = cursor["maxSkew"].integer()
    if max_skew < 1:
        cursor["maxSkew"].fail("a skew of at least 1 must be allowed")
    min_domains = cursor["minDomains"].integer(1)
    if min_domains < 1:
        cursor["minDomains"].fail("write a number of at least 1, or leave it out")
    selector = label_selector(cursor["labelSelector"])
    return SpreadConstraint(
        max_skew=max_skew,
        topology_key=cursor["topologyKey"].required_text("name the node label that makes the domains"),
        when_unsatisfiable=WhenUnsatisfiable(cursor["whenUnsatisfiable"].one_of(tuple(WhenUnsatisfiable))),
        selector=with_label_keys(selector, cursor["matchLabelKeys"], cursor["mismatchLabelKeys"], labels),
        min_domains=min_domains,
        honor_node_affinity=cursor["nodeAffinityPolicy"].one_of(_POLICIES, "Honor") == "Honor",
        honor_node_taints=cursor["nodeTaintsPolicy"].one_of(_POLICIES, "Ignore") == "Honor",
    )


def _is_sidecar(container: Cursor) -> bool:
    return container["restartPolicy"].text() == "Always"


def _host_ports(
    containers: list[Cursor], init_containers: list[Cursor], *, on_host: bool
) -> tuple[HostPort, ...]:
    found: list[HostPort] = []
    for container in [*(item for item in init_containers if _is_sidecar(item)), *containers]:
        for port in container["ports"].items():
            number = port["hostPort"].integer()
            if number == 0 and on_host:
                number = port["containerPort"].integer()
            if not 0 <= number <= 65535:
                port["hostPort"].fail("a port lies between 1 and 65535")
            if number:
                protocol = port["protocol"].one_of(_PROTOCOLS, "TCP")
                found.append(HostPort(protocol, port["hostIP"].text() or _EVERY_ADDRESS, number))
    return tuple(found)


def _image(image: str) -> str:
    """Return an image name as nodes report it: one without a tag or digest is `latest`."""
    last = image.rpartition("/")[2]
    return image if ":" in last or "@" in image else f"{image}:latest"


# ---- requests ----


def _container(cursor: Cursor) -> Container:
    resources = cursor["resources"]
    limits, requests = resources["limits"].quantities(), resources["requests"].quantities()
    if PODS in requests:
        resources["requests"][PODS].fail("the pod count is not requested, leave it out")
    return Container({**limits, **requests}, is_sidecar=_is_sidecar(cursor))


def _limits(cursor: Cursor) -> Container:
    return Container(cursor["resources"]["limits"].quantities(), is_sidecar=_is_sidecar(cursor))


def _requests(cursor: Cursor) -> list[PodRequests]:
    """Return what the pod requests: as written, and for a bound pod also what is allocated and actual."""
    spec, status = cursor["spec"], cursor["status"]
    containers, init_containers = spec["containers"], spec["initContainers"]
    wanted = PodRequests(
        containers=[_container(item) for item in containers.items()],
        init_containers=[_container(item) for item in init_containers.items()],
        overhead=spec["overhead"].quantities(),
        pod_level=_pod_level(spec),
    )
    if not spec["nodeName"].text():
        return [wanted]
    return _with_status(
        cursor,
        wanted,
        {**_statuses(status["initContainerStatuses"]), **_statuses(status["containerStatuses"])},
    )


def _pending_score(variants: list[PodRequests]) -> tuple[int, int] | None:
    """Return what scoring counts of the pod while it is pending; None: the same as once it is bound.

    kube-scheduler 1.37 leaves pod-level resources out there: its NodeResourcesFit scorer is not told of the
    gate.
    """
    if not any(one.pod_level for one in variants):
        return None
    _, cpu_milli, memory_bytes = effective_requests(
        *(dataclasses.replace(one, pod_level={}) for one in variants)
    )
    return cpu_milli, memory_bytes


def _pod_level(spec: Cursor) -> dict[str, Fraction]:
    """Return the pod-level requests, completed as the API server completes them."""
    resources = spec["resources"]
    limits, requests = resources["limits"].quantities(), resources["requests"].quantities()
    if not limits and not requests:
        return {}
    containers, init_containers = list(spec["containers"].items()), list(spec["initContainers"].items())
    limited = aggregate([_limits(item) for item in containers], [_limits(item) for item in init_containers])
    for name, amount in limited.items():
        if name.startswith("hugepages-") and name not in requests:
            limits.setdefault(name, amount)
    summed = aggregate(
        [_container(item) for item in containers], [_container(item) for item in init_containers]
    )
    for name in ("cpu", "memory"):
        if name in summed:
            requests.setdefault(name, summed[name])
    for name, amount in limits.items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            requests.setdefault(name, amount)
    return requests


def _statuses(cursor: Cursor) -> dict[str, Cursor]:
    return {item["name"].text(): item for item in cursor.items()}


def _with_status(cursor: Cursor, wanted: PodRequests, statuses: dict[str, Cursor]) -> list[PodRequests]:
    """Add what a resize in place has allocated and actuated (KEP-1287)."""
    reason = next(
        (
            c["reason"].text()
            for c in cursor["status"]["conditions"].items()
            if c["type"].text() == "PodResizePending"
        ),
        "",
    )
    is_infeasible = reason == "Infeasible"

    def variant(*fields: str) -> PodRequests:
        def one(item: Cursor, container: Container) -> Container:
            status = statuses.get(item["name"].text())
            if status is not None:
                given = {"actual": status["resources"]["requests"], "allocated": status["allocatedResources"]}
                for field in fields:
                    if given[field].is_set:
                        return Container(given[field].quantities(), is_sidecar=container.is_sidecar)
            return Container(_NO_AMOUNTS, is_sidecar=container.is_sidecar) if is_infeasible else container

        spec = cursor["spec"]
        return PodRequests(
            [one(*pair) for pair in zip(spec["containers"].items(), wanted.containers, strict=True)],
            [one(*pair) for pair in zip(spec["initContainers"].items(), wanted.init_containers, strict=True)],
            wanted.overhead,
            wanted.pod_level,
        )

    allocated, actual = variant("allocated"), variant("actual", "allocated")
    status = cursor["status"]
    given = {"allocated": status["allocatedResources"], "actual": status["resources"]["requests"]}
    if all(one.is_set for one in given.values()):
        allocated, actual = (
            PodRequests([Container(given[name].quantities())], overhead=wanted.overhead)
            for name in ("allocated", "actual")
        )
    pod_level = wanted.pod_level
    if pod_level and status["resources"].is_set:
        spec_level = _NO_AMOUNTS if is_infeasible else pod_level
        pod_level = maximum(spec_level, *(one.quantities() for one in given.values()))
    variants = [allocated, actual] if is_infeasible else [wanted, allocated, actual]
    return [dataclasses.replace(one, overhead=wanted.overhead, pod_level=pod_level) for one in variants]


# ---- volumes ----


def _volumes(cursor: Cursor, pod_name: str, pod_uid: str) -> list[PodVolume]:
    found: list[PodVolume] = []
    for item in cursor.items():
        name = item["name"].required_text("name the volume")
        if item["persistentVolumeClaim"].is_set:
            claim = item["persistentVolumeClaim"]["claimName"].required_text("name the claim")
            found.append(PodVolume(name, claim=claim))
        elif item["ephemeral"].is_set:
            found.append(PodVolume(name, claim=f"{pod_name}-{name}", is_ephemeral=True, pod_uid=pod_uid))
        else:
            disk, migrated = _inline_disk(item), migrated_volume(item, None)
            if disk is not None or migrated is not None:
                found.append(
                    PodVolume(
                        name,
                        disk=disk,
                        csi_driver=None if migrated is None else migrated.driver,
                        csi_handle=None if migrated is None else migrated.handle,
                    )
                )
    return found


def _inline_disk(cursor: Cursor) -> InlineDisk | None:
    for kind, identity in (
        ("gcePersistentDisk", ("pdName",)),
        ("awsElasticBlockStore", ("volumeID",)),
        ("iscsi", ("iqn",)),
        ("rbd", ("pool", "image")),
    ):
        source = cursor[kind]
        if source.is_set:
            defaults = {"pool": "rbd"}
            return InlineDisk(
                kind,
                tuple(source[field].text() or defaults.get(field, "") for field in identity),
                read_only=source["readOnly"].flag(),
                monitors=source["monitors"].texts() if kind == "rbd" else (),
            )
    return None


# ---- node features ----


def _required_features(spec: Cursor, containers: list[Cursor]) -> tuple[str, ...]:
    """Return the node features that the spec needs (component-helpers `nodedeclaredfeatures`, 1.37)."""
    needed: list[str] = []
    if any(
        rule["action"].text() == "RestartAllContainers"
        for container in containers
        for rule in container["restartPolicyRules"].items()
    ):
        needed.append("RestartAllContainersOnContainerExits")
    if spec["hostNetwork"].flag() and not spec["hostUsers"].flag(default=True):
        needed.append("UserNamespacesHostNetworkSupport")
    mounting = [*containers, *spec["ephemeralContainers"].items()]
    if any(
        list(mount["bindMountOptions"].items())
        for container in mounting
        for mount in container["volumeMounts"].items()
    ):
        needed.append("VolumeBindMountOptions")
    return tuple(needed)
