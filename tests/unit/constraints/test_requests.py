"""The arithmetic of pod requests, on examples worked by hand."""

from fractions import Fraction

from stowplan.core.constraints.requests import (
    Container,
    PodRequests,
    aggregate,
    effective_requests,
    is_counted,
)

MIB = 1024 * 1024


def asks(cpu: str | None = None, memory: int | None = None, *, is_sidecar: bool = False) -> Container:
    amounts: dict[str, Fraction] = {}
    if cpu is not None:
        amounts["cpu"] = Fraction(cpu)
    if memory is not None:
        amounts["memory"] = Fraction(memory)
    return Container(amounts, is_sidecar=is_sidecar)


def test_containers_add_up_and_init_containers_set_a_floor() -> None:
    total = aggregate([asks("2", 100), asks("1", 100)], [asks("2", 100), asks("2", 300)])
    assert total == {"cpu": 3, "memory": 300}


def test_a_sidecar_counts_beside_the_containers_and_beside_the_init_containers_after_it() -> None:
    sidecar = asks("1", is_sidecar=True)
    assert aggregate([asks("1")], [asks("3"), sidecar])["cpu"] == 3
    assert aggregate([asks("1")], [sidecar, asks("3")])["cpu"] == 4
    assert aggregate([asks("5")], [sidecar, asks("3")])["cpu"] == 6


def test_amounts_are_rounded_once_after_they_are_added() -> None:
    half = PodRequests([asks("0.0005"), asks("0.0005")])
    assert effective_requests(half)[0]["cpu"] == 1
    assert effective_requests(PodRequests([asks("0.0005")]))[0]["cpu"] == 1


def test_overhead_comes_on_top_and_pod_level_requests_replace_the_sum() -> None:
    pod = PodRequests(
        [asks("1", 100)],
        overhead={"cpu": Fraction(1, 4)},
        pod_level={"cpu": Fraction(3), "example.com/x": Fraction(9)},
    )
    requests, _, _ = effective_requests(pod)
    assert dict(requests) == {"cpu": 3250, "memory": 100}


def test_scoring_assumes_something_of_containers_that_request_nothing() -> None:
    requests, cpu_milli, memory_bytes = effective_requests(PodRequests([asks(), asks("1")]))
    assert dict(requests) == {"cpu": 1000}
    assert (cpu_milli, memory_bytes) == (1100, 400 * MIB)


def test_an_explicit_zero_is_not_replaced_in_scoring() -> None:
    assert effective_requests(PodRequests([asks("0", 0)]))[1:] == (0, 0)


def test_pod_level_requests_leave_nothing_to_assume() -> None:
    pod = PodRequests([asks(), asks()], pod_level={"cpu": Fraction(2)})
    assert effective_requests(pod)[1:] == (2000, 400 * MIB)


def test_a_resize_counts_the_largest_of_wanted_allocated_and_actual() -> None:
    variants = [PodRequests([asks("1", 50)]), PodRequests([asks("2")]), PodRequests([asks("1.5", 70)])]
    assert dict(effective_requests(*variants)[0]) == {"cpu": 2000, "memory": 70}


def test_names_that_mean_nothing_to_the_scheduler_are_dropped() -> None:
    assert is_counted("nvidia.com/gpu")
    assert is_counted("hugepages-2Mi")
    assert not is_counted("storage")
    assert dict(effective_requests(PodRequests([Container({"storage": Fraction(5)})]))[0]) == {}
