"""Hypothesis strategies: small clusters, pods that every filter minds, and what can happen to them."""

import dataclasses

from hypothesis import strategies as st

from stowplan.core.domain import (
    AccessMode,
    BoundPod,
    ClusterEvent,
    Gpu,
    GpuRequest,
    Hardware,
    HostPort,
    InlineDisk,
    LabelSelector,
    NamespaceSet,
    Node,
    NodeAffinity,
    NodeSelectorTerm,
    NodeSet,
    Operator,
    PersistentVolumeClaim,
    PodAffinityTerm,
    PodBound,
    PodNominated,
    PodShape,
    PodVolume,
    Requirement,
    Resources,
    SpreadConstraint,
    StorageSet,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    WhenUnsatisfiable,
)

NODE_NAMES = [f"n{number}" for number in range(6)]
ADDRESSES = ["0.0.0.0", "10.0.0.1", "10.0.0.2"]  # noqa: S104  (values of the API, nothing is bound)
KEYS = ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"]

pod_labels = st.sampled_from([(), (("app", "a"),), (("app", "b"),), (("app", "a"), ("tier", "1"))])
selectors = st.sampled_from(
    [
        None,
        LabelSelector(),
        LabelSelector((Requirement("app", Operator.IN, ("a",)),)),
        LabelSelector((Requirement("app", Operator.NOT_IN, ("a",)),)),
        LabelSelector((Requirement("tier", Operator.EXISTS),)),
    ]
)
namespace_selectors = st.sampled_from(
    [None, None, LabelSelector(), LabelSelector((Requirement("team", Operator.IN, ("red",)),))]
)
affinity_terms = st.builds(
    PodAffinityTerm,
    topology_key=st.sampled_from(KEYS),
    selector=selectors,
    namespaces=st.sampled_from([(), (), ("default",), ("other",)]),
    namespace_selector=namespace_selectors,
)
spread_constraints = st.builds(
    SpreadConstraint,
    max_skew=st.integers(1, 2),
    topology_key=st.sampled_from(KEYS),
    when_unsatisfiable=st.sampled_from([*WhenUnsatisfiable, WhenUnsatisfiable.DO_NOT_SCHEDULE]),
    selector=selectors,
    min_domains=st.integers(1, 3),
    honor_node_affinity=st.booleans(),
    honor_node_taints=st.booleans(),
)
taints = st.builds(Taint, st.just("t"), st.sampled_from(["", "x"]), st.sampled_from(list(TaintEffect)))
tolerations = st.builds(
    Toleration, st.just("t"), st.sampled_from(list(TolerationOperator)), st.sampled_from(["", "x"])
)
volumes = st.sampled_from(
    [
        PodVolume("v", claim="shared"),
        PodVolume("v", claim="alone"),
        PodVolume("v", claim="missing"),
        PodVolume("v", disk=InlineDisk("gcePersistentDisk", ("pd",), read_only=False)),
        PodVolume("v", disk=InlineDisk("gcePersistentDisk", ("pd",), read_only=True)),
        PodVolume("v", disk=InlineDisk("rbd", ("rbd", "i"), read_only=False, monitors=("m1", "m2"))),
        PodVolume("v", disk=InlineDisk("rbd", ("rbd", "i"), read_only=False, monitors=("m2",))),
    ]
)


@st.composite
def shapes(draw: st.DrawFn) -> PodShape:
    """Draw a pod shape; each of its fields is set now and then."""

    def some(strategy: st.SearchStrategy[object], most: int = 1) -> tuple[object, ...]:
        return tuple(draw(st.lists(strategy, max_size=most))) if draw(st.booleans()) else ()

    required = draw(
        st.sampled_from(
            [
                None,
                None,
                (),
                (NodeSelectorTerm((Requirement("rack", Operator.NOT_IN, ("r1",)),)),),
                (NodeSelectorTerm(fields=(Requirement("metadata.name", Operator.IN, ("n1",)),)),),
                (NodeSelectorTerm((Requirement("gen", Operator.GT, ("1",)),)), NodeSelectorTerm()),
            ]
        )
    )
    return PodShape(
        namespace=draw(st.sampled_from(["default", "other"])),
        labels=draw(pod_labels),
        requests=Resources({"cpu": draw(st.sampled_from([0, 500, 1000])), "memory": 100}),
        gpu=draw(st.sampled_from([None, None, GpuRequest(1, 500), GpuRequest(2, 1000, ("A",))])),
        node_affinity=NodeAffinity(required=required),
        affinity=some(affinity_terms, 2),  # pyright: ignore[reportArgumentType]
        anti_affinity=some(affinity_terms, 2),  # pyright: ignore[reportArgumentType]
        tolerations=some(tolerations),  # pyright: ignore[reportArgumentType]
        spread=some(spread_constraints, 2),  # pyright: ignore[reportArgumentType]
        host_ports=some(  # pyright: ignore[reportArgumentType]
            st.builds(
                HostPort,
                st.just("TCP"),
                st.sampled_from(ADDRESSES),
                st.just(80),
            )
        ),
        volumes=some(volumes),  # pyright: ignore[reportArgumentType]
    )


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """Draw a node of that name."""
    labels = {"kubernetes.io/hostname": name}
    if draw(st.booleans()):
        labels["topology.kubernetes.io/zone"] = draw(st.sampled_from(["z1", "z2"]))
    if draw(st.booleans()):
        labels["rack"] = draw(st.sampled_from(["r1", "r2"]))
    if draw(st.booleans()):
        labels["gen"] = draw(st.sampled_from(["1", "2", "x"]))
    return Node(
        name,
        Resources({"cpu": 4000, "memory": 1000, "pods": draw(st.sampled_from([2, 10]))}),
        labels=tuple(sorted(labels.items())),
        taints=tuple(draw(st.lists(taints, max_size=1))),
        unschedulable=draw(st.sampled_from([False, False, False, True])),
        hardware=Hardware(gpus=(Gpu("A"), Gpu("A"))),
    )


claims = st.sampled_from(
    [
        StorageSet(PersistentVolumeClaim("default", "shared", (AccessMode.READ_WRITE_MANY,), volume="pv")),
        StorageSet(PersistentVolumeClaim("default", "alone", (AccessMode.READ_WRITE_ONCE_POD,), volume="pv")),
        StorageSet(PersistentVolumeClaim("other", "alone", (AccessMode.READ_WRITE_ONCE_POD,))),
    ]
)
namespaces = st.sampled_from(
    [NamespaceSet("default", (("team", "red"),)), NamespaceSet("default", ()), NamespaceSet("other", ())]
)


def bindings(known: list[PodShape], key: str) -> st.SearchStrategy[ClusterEvent]:
    """Draw the binding of a pod of a known shape; a pod that uses shared GPUs uses the first ones."""
    return st.builds(
        lambda shape, node, is_terminating: PodBound(
            BoundPod(
                key, shape, tuple(range(shape.gpu.count)) if shape.gpu else (), is_terminating=is_terminating
            ),
            node,
        ),
        st.sampled_from(known),
        st.sampled_from(NODE_NAMES),
        st.booleans(),
    )


def nominations(known: list[PodShape], key: str) -> st.SearchStrategy[ClusterEvent]:
    """Draw that a waiting pod of a known shape is promised a node, which need not be there."""
    return st.builds(
        lambda shape, node, priority: PodNominated(
            BoundPod(key, dataclasses.replace(shape, priority=priority, own_nomination=key)), node
        ),
        st.sampled_from(known),
        st.sampled_from([*NODE_NAMES, "gone"]),
        st.integers(-1, 1),
    )


def node_changes() -> st.SearchStrategy[ClusterEvent]:
    """Draw a node that changed."""
    return st.sampled_from(NODE_NAMES).flatmap(nodes).map(NodeSet)
