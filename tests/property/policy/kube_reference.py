"""kube-scheduler's scores once more, node by node in plain Python, straight from the plugins' definitions."""

import math
from collections.abc import Mapping

from stowplan.core.domain import ClusterState, NodeSelectorTerm, PodAffinityTerm, PodShape, WhenUnsatisfiable

MIB = 1024 * 1024


def totals(state: ClusterState, shape: PodShape, feasible: list[str]) -> dict[str, int]:
    """Return the weighted total of every feasible node by name."""
    parts = [
        (1, {name: least_allocated(state, shape, name) for name in feasible}),
        (1, {name: balanced(state, shape, name) for name in feasible}),
        (1, {name: images(state, shape, name) for name in feasible}),
        (3, default_normalise({name: soft_taints(state, shape, name) for name in feasible}, reverse=True)),
        (2, default_normalise({name: preferred(state, shape, name) for name in feasible}, reverse=False)),
        (2, spread(state, shape, feasible)),
        (2, pod_affinity(state, shape, feasible)),
    ]
    return {name: sum(weight * scores[name] for weight, scores in parts) for name in feasible}


def labels_of(state: ClusterState, name: str) -> dict[str, str]:
    return dict(state.node(state.row(name)).labels)


def least_allocated(state: ClusterState, shape: PodShape, name: str) -> int:
    row = state.row(name)
    scores = []
    for column, asked in ((0, shape.score_cpu_milli), (1, shape.score_memory_bytes)):
        allocatable = int(state.allocatable[row, column])
        if allocatable:
            wanted = int(state.scored[row, column]) + asked
            scores.append(0 if wanted > allocatable else (allocatable - wanted) * 100 // allocatable)
    return sum(scores) // len(scores) if scores else 0


def balanced(state: ClusterState, shape: PodShape, name: str) -> int:
    asked = [shape.requests.get("cpu", 0), shape.requests.get("memory", 0)]
    if not any(asked):
        return 0
    row = state.row(name)

    def score(extra: list[int]) -> int:
        shares = []
        for column in (0, 1):
            allocatable = int(state.allocatable[row, column])
            if allocatable:
                shares.append(min((int(state.requested[row, column]) + extra[column]) / allocatable, 1.0))
        deviation = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
        return int((1 - deviation) * 100.0)

    return 50 + (50 + score(asked) - score([0, 0])) // 2


def images(state: ClusterState, shape: PodShape, name: str) -> int:
    row, total = state.row(name), 0
    if not shape.images:
        return 0
    for image in shape.images:
        sizes = state.images.get(image, {})
        if row in sizes:
            total += int(float(next(iter(sizes.values()))) * (len(sizes) / state.node_count))
    most = 1000 * MIB * len(shape.images)
    within = min(max(total, 23 * MIB), most)
    return 100 * (within - 23 * MIB) // (most - 23 * MIB)


def soft_taints(state: ClusterState, shape: PodShape, name: str) -> int:
    def tolerated(key: str, value: str) -> bool:
        return any(
            t.effect in (None, "PreferNoSchedule")
            and t.key in ("", key)
            and (t.operator == "Exists" or t.value == value)
            for t in shape.tolerations
        )

    return sum(
        t.effect == "PreferNoSchedule" and not tolerated(t.key, t.value)
        for t in state.node(state.row(name)).taints
    )


def default_normalise(counts: Mapping[str, int], *, reverse: bool) -> dict[str, int]:
    largest = max(counts.values(), default=0)
    if largest == 0:
        return dict.fromkeys(counts, 100 if reverse else 0)
    scaled = {name: 100 * count // largest for name, count in counts.items()}
    return {name: 100 - score for name, score in scaled.items()} if reverse else scaled


def matches_term(term: NodeSelectorTerm, state: ClusterState, name: str) -> bool:
    return term.matches(labels_of(state, name), name)


def preferred(state: ClusterState, shape: PodShape, name: str) -> int:
    return sum(p.weight for p in shape.node_affinity.preferred if matches_term(p.term, state, name))


def may_run(state: ClusterState, shape: PodShape, name: str) -> bool:
    labels = labels_of(state, name)
    if not all(r.matches_value(labels.get(r.key)) for r in shape.node_selector):
        return False
    required = shape.node_affinity.required
    return required is None or any(matches_term(term, state, name) for term in required)


def spread(  # noqa: C901 - one plugin, told in one piece
    state: ClusterState, shape: PodShape, feasible: list[str]
) -> dict[str, int]:
    if shape.spread:
        soft = [
            (c.topology_key, c.max_skew, c.selector, c.honor_node_affinity)
            for c in shape.spread
            if c.when_unsatisfiable is WhenUnsatisfiable.SCHEDULE_ANYWAY
        ]
    elif shape.default_spread_selector is not None and shape.default_spread_selector.requirements:
        soft = [
            ("kubernetes.io/hostname", 3, shape.default_spread_selector, True),
            ("topology.kubernetes.io/zone", 5, shape.default_spread_selector, True),
        ]
    else:
        soft = []
    if not soft:
        return dict.fromkeys(feasible, 0)

    def has_all(name: str) -> bool:
        return not shape.spread or all(key in labels_of(state, name) for key, _, _, _ in soft)

    def pods_on(name: str, selector: object) -> int:
        return sum(
            not pod.is_terminating
            and pod.shape.namespace == shape.namespace
            and bool(selector and selector.requirements)  # type: ignore[attr-defined]
            and selector.matches(dict(pod.shape.labels))  # type: ignore[attr-defined]
            for pod in state.pods_on[state.row(name)].values()
        )

    ignored = {name for name in feasible if not has_all(name)}
    scores = {}
    weights, counts = [], []
    for key, _, selector, honor in soft:
        domains = {labels_of(state, name).get(key, "") for name in feasible if name not in ignored}
        size = len(feasible) - len(ignored) if key == "kubernetes.io/hostname" else len(domains)
        weights.append(math.log(size + 2))
        count = dict.fromkeys(domains, 0)
        for name, _ in state.rows():
            value = labels_of(state, name).get(key, "")
            if has_all(name) and value in count and (not honor or may_run(state, shape, name)):
                count[value] += pods_on(name, selector)
        counts.append(count)
    for name in feasible:
        if name in ignored:
            continue
        score = 0.0
        for (key, skew, selector, _), weight, count in zip(soft, weights, counts, strict=True):
            if key in labels_of(state, name):
                by_host = key == "kubernetes.io/hostname"
                pods = pods_on(name, selector) if by_host else count[labels_of(state, name)[key]]
                score += pods * weight + (skew - 1)
        scores[name] = math.floor(score) + (score - math.floor(score) >= 0.5)
    largest, smallest = max(scores.values(), default=0), min(scores.values(), default=0)
    return {
        name: 0
        if name in ignored
        else 100
        if largest == 0
        else 100 * (largest + smallest - scores[name]) // largest
        for name in feasible
    }


def pod_affinity(  # noqa: C901 - one plugin, told in one piece
    state: ClusterState, shape: PodShape, feasible: list[str]
) -> dict[str, int]:
    def speaks_of(term: PodAffinityTerm, owner: PodShape, other: PodShape) -> bool:
        if term.selector is None or not term.selector.matches(dict(other.labels)):
            return False
        if other.namespace in term.namespaces:
            return True
        if term.namespace_selector is not None:
            if not term.namespace_selector.requirements:
                return True
            known = state.namespaces.get(other.namespace)
            return known is not None and term.namespace_selector.matches(dict(known))
        return not term.namespaces and owner.namespace == other.namespace

    earned: dict[tuple[str, str], int] = {}
    for name, row in state.rows():
        for pod in state.pods_on[row].values():
            theirs = pod.shape
            votes = [(w.weight, w.term, shape, theirs) for w in shape.preferred_affinity]
            votes += [(-w.weight, w.term, shape, theirs) for w in shape.preferred_anti_affinity]
            votes += [(1, term, theirs, shape) for term in theirs.affinity]
            votes += [(w.weight, w.term, theirs, shape) for w in theirs.preferred_affinity]
            votes += [(-w.weight, w.term, theirs, shape) for w in theirs.preferred_anti_affinity]
            for weight, term, owner, other in votes:
                value = labels_of(state, name).get(term.topology_key)
                if value is not None and speaks_of(term, owner, other):
                    key = (term.topology_key, value)
                    earned[key] = earned.get(key, 0) + weight
    raw = {
        name: sum(
            amount for (key, value), amount in earned.items() if labels_of(state, name).get(key) == value
        )
        for name in feasible
    }
    if not raw:
        return {}
    least, most = min(raw.values()), max(raw.values())
    if least == most:
        return dict.fromkeys(feasible, 0)
    return {name: int(100.0 * ((score - least) / (most - least))) for name, score in raw.items()}
