"""Kubernetes quantities, against values worked out by hand from the API's grammar."""

import pytest

from stowplan.core.domain import CPU, MEMORY, Resources, describe_amount
from stowplan.core.domain.quantity import (
    MAX_INT64,
    format_bytes,
    format_cpu,
    milli_value,
    parse_quantity,
    value,
)
from stowplan.errors import InvalidQuantity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1", 1),
        ("+3", 3),
        ("1.", 1),
        (".5k", 500),
        ("1k", 1000),
        ("2M", 2_000_000),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1Ki", 1024),
        ("1.5Mi", 1_572_864),
        ("1Gi", 2**30),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E+3", 1000),
        ("12e-1", 2),  # 1.2, rounded up
        ("1m", 1),  # a thousandth, rounded up to a whole unit
        ("999u", 1),
        ("1n", 1),
        ("0m", 0),
        ("-0", 0),
        (str(MAX_INT64), MAX_INT64),
        (7, 7),
        (0.5, 1),
        (1e3, 1000),
    ],
)
def test_whole_units_round_up(text: str | float, expected: int) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1000),
        ("500m", 500),
        ("0.1", 100),
        ("1u", 1),
        ("2.0005", 2001),
        (2, 2000),
        (0.25, 250),
        ("1e1", 10000),
    ],
)
def test_thousandths_round_up(text: str | float, expected: int) -> None:
    assert milli_value(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", " ", "1 Gi", " 1", "1Gi ", "Gi", "1gi", "1GI", "1K", "1mi", "1i", "--1", "1.2.3", "0x10", "1e",
     "1e1.5", "\N{ARABIC-INDIC DIGIT ONE}", "nan", "inf", "-inf", "1_000", "1,5", "1e3Ki", "1Kim"],
)  # fmt: skip
def test_what_is_no_quantity_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(InvalidQuantity) as refusal:
        parse_quantity(text)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize("text", ["-1", "-1m", "-0.001Ki", -5, -0.1])
def test_negative_amounts_are_refused_as_negative(text: str | float) -> None:
    with pytest.raises(InvalidQuantity, match="negative"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["9223372036854775808", "8Ei", "10E", "1e19", "1e1000", 1e300])
def test_amounts_beyond_63_bits_are_refused_as_too_large(text: str | float) -> None:
    with pytest.raises(InvalidQuantity, match=r"larger than 2\^63-1"):
        parse_quantity(text)


def test_hostile_exponents_cost_nothing() -> None:
    with pytest.raises(InvalidQuantity, match="exponent"):
        parse_quantity("1e999999999999")


@pytest.mark.parametrize("number", [True, False, float("nan"), float("inf"), None, [], {}])
def test_values_of_another_type_are_refused(number: object) -> None:
    with pytest.raises(InvalidQuantity):
        parse_quantity(number)  # pyright: ignore[reportArgumentType]


def test_milli_cores_that_overflow_are_refused() -> None:
    assert value("9223372036854776") == 9223372036854776
    with pytest.raises(InvalidQuantity, match="thousandths"):
        milli_value("9223372036854776")


def test_a_refused_resource_is_named() -> None:
    with pytest.raises(InvalidQuantity, match=r"resource 'memory': .*'1XB'"):
        Resources.from_quantities({"cpu": "1", "memory": "1XB"})


def test_resources_count_cpu_in_thousandths_and_the_rest_in_units() -> None:
    resources = Resources.from_quantities({"memory": "1Gi", "cpu": "1500m", "nvidia.com/gpu": 2})
    assert dict(resources) == {"cpu": 1500, "memory": 2**30, "nvidia.com/gpu": 2}
    assert repr(resources) == "Resources(cpu=1500m, memory=1Gi, nvidia.com/gpu=2)"


def test_resources_are_equal_and_hash_by_content() -> None:
    one, other = Resources({"cpu": 1, "memory": 2}), Resources({"memory": 2, "cpu": 1})
    assert one == other
    assert hash(one) == hash(other)
    assert one != Resources({"cpu": 1})
    assert Resources({"cpu": 0}) != Resources()  # asking for none is not the same as not asking


def test_arithmetic_of_resources_is_over_the_union_of_names() -> None:
    one, other = Resources({"cpu": 3, "memory": 5}), Resources({"cpu": 1, "disk": 7})
    assert dict(one.plus(other)) == {"cpu": 4, "disk": 7, "memory": 5}
    assert dict(one.maximum(other)) == {"cpu": 3, "disk": 7, "memory": 5}
    assert dict(one.replaced(other)) == {"cpu": 1, "disk": 7, "memory": 5}
    with pytest.raises(InvalidQuantity, match="cpu"):
        Resources({"cpu": MAX_INT64}).plus({"cpu": 1})


def test_amounts_are_shown_as_a_person_writes_them() -> None:
    assert (format_cpu(250), format_cpu(4000)) == ("250m", "4")
    assert (format_bytes(2**30), format_bytes(1536 * 2**20), format_bytes(1000)) == ("1Gi", "1536Mi", "1000")
    assert describe_amount(CPU, 100) == "100m"
    assert describe_amount(MEMORY, 2**40) == "1Ti"
    assert describe_amount("hugepages-2Mi", 2**21) == "2Mi"
    assert describe_amount("example.com/foo", 3) == "3"
