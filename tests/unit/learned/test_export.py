"""A release answers as the network it came from, at every size, and holds nothing but the model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.encoder import SCHEMA, FeatureGroup, nominal_statistics
from stowplan.core.policy.learned import Release
from stowplan.core.policy.learned.graphs import Graphs
from stowplan.core.policy.learned.sizes import NetworkShape
from stowplan.errors import InternalError, InvalidFile
from tests.learned_cases import NO_TORCH

torch = pytest.importorskip("torch", reason=NO_TORCH)
from stowplan.learn import export  # noqa: E402
from stowplan.learn.export import (  # noqa: E402
    MOST_DIFFERENCE,
    export_release,
    largest_difference,
    sizes_of_schema,
)
from stowplan.learn.network import PolicyNetwork  # noqa: E402


def network() -> PolicyNetwork:
    """Return one of the size that is served, with numbers that matter everywhere."""
    torch.manual_seed(5)
    made = PolicyNetwork(sizes_of_schema(NetworkShape()))
    with torch.no_grad():
        torch.nn.init.normal_(made.group_head.weight, std=0.2)
        torch.nn.init.normal_(made.value_head.weight, std=0.2)
    return made


def released(made: PolicyNetwork) -> Release:
    return export_release(
        made,
        name="of-a-test",
        statistics=nominal_statistics(SCHEMA),
        training="ab" * 32,
        off=[FeatureGroup.RTT, FeatureGroup.MBPI],
    )


@pytest.fixture(scope="module")
def exported() -> tuple[PolicyNetwork, Release, Graphs]:
    made = network()
    release = released(made)
    assert made.training  # as it was handed in
    made.eval()
    return made, release, Graphs(release)


@settings(max_examples=40)
@given(groups=st.integers(1, 256), nodes=st.integers(0, 2000), seed=st.integers(0, 999))
def test_the_graphs_answer_as_the_network(
    exported: tuple[PolicyNetwork, Release, Graphs], groups: int, nodes: int, seed: int
) -> None:
    made, _, graphs = exported
    assert largest_difference(made, graphs, np.random.default_rng(seed), groups, nodes) <= MOST_DIFFERENCE


@pytest.mark.parametrize(("groups", "nodes"), [(1, 0), (1, 1), (2, 1), (256, 1), (256, 2), (1, 5000)])
def test_they_do_at_the_edges_too(
    exported: tuple[PolicyNetwork, Release, Graphs], groups: int, nodes: int
) -> None:
    made, _, graphs = exported
    assert largest_difference(made, graphs, np.random.default_rng(1), groups, nodes) <= MOST_DIFFERENCE


def test_a_release_is_small_and_says_what_it_is(
    exported: tuple[PolicyNetwork, Release, Graphs],
) -> None:
    made, release, _ = exported
    assert sum(map(len, release.files.values())) < 1 << 20
    manifest = release.manifest
    assert (manifest.name, manifest.training) == ("of-a-test", "ab" * 32)
    assert manifest.schema.id == SCHEMA.id
    assert manifest.network == made.sizes
    assert manifest.off == (FeatureGroup.MBPI, FeatureGroup.RTT)


def test_nothing_of_the_machine_is_in_it(exported: tuple[PolicyNetwork, Release, Graphs]) -> None:
    for name, content in exported[1].files.items():
        for trace in (b".py", b"/home", b"/work", b"site-packages"):
            assert trace not in content, (name, trace)


def test_graphs_that_answer_otherwise_leave_no_release(monkeypatch: pytest.MonkeyPatch) -> None:
    made = network()
    exports = export._graph

    def with_a_shifted_head(*arguments: object) -> bytes:
        with torch.no_grad():
            made.group_head.bias.add_(0.01)
        content = exports(*arguments)  # pyright: ignore[reportArgumentType]
        with torch.no_grad():
            made.group_head.bias.sub_(0.01)
        return content

    monkeypatch.setattr(export, "_graph", with_a_shifted_head)
    with pytest.raises(InternalError, match=r"'of-a-test' differ from its network by 0\.0"):
        released(made)


def test_a_network_for_other_columns_is_refused() -> None:
    sizes = sizes_of_schema(NetworkShape())
    other = PolicyNetwork(type(sizes)(task_features=3, cluster_features=4, node_features=sizes.node_features))
    with pytest.raises(InvalidFile, match="its network takes 3 numbers of a task, its columns give"):
        released(other)
