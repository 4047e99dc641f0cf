"""Tests of position bounds: their syntax and what satisfies them."""

import pytest

from oriel.storage import PositionBound, parse_offset_bound
from oriel.storage.position import OffsetBound

_OFFSETS = {"flights": {"0": 100, "1": 0}}


def test_no_bound_is_always_satisfied() -> None:
    """An empty bound is satisfied, even by a store before its first batch."""
    assert PositionBound().missing(0, {}) == []


@pytest.mark.parametrize(("version", "satisfied"), [(16, False), (17, True), (18, True)])
def test_a_version_bound_is_inclusive(version: int, satisfied: bool) -> None:
    """A version bound is satisfied by that version and every later one."""
    assert (PositionBound(17).missing(version, {}) == []) == satisfied


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "satisfied"),
    [
        ("flights", "0", 100, True),
        ("flights", "0", 101, False),
        ("flights", "1", 0, True),
        ("flights", "2", 0, False),
        ("other", "0", 0, False),
    ],
)
def test_an_offset_bound_needs_that_partition_to_be_as_far(
    topic: str,
    partition: str,
    offset: int,
    satisfied: bool,
) -> None:
    """An offset bound on an unknown topic or partition is not satisfied (KIP-796)."""
    bound = PositionBound(min_offsets=(OffsetBound(topic, partition, offset),))
    assert (bound.missing(5, _OFFSETS) == []) == satisfied


def test_all_bounds_must_hold_and_the_lacking_ones_are_named() -> None:
    """Each bound that is not satisfied is named with the current value."""
    bounds = (OffsetBound("flights", "0", 100), OffsetBound("flights", "1", 7))
    assert PositionBound(3, bounds).missing(2, _OFFSETS) == [
        "version 2 is less than 3",
        "offset 0 of flights:1 is less than 7",
    ]


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("flights:0:12345", OffsetBound("flights", "0", 12345)),
        ("a.b-c_d:007:0", OffsetBound("a.b-c_d", "7", 0)),
        ("flights:0", None),
        ("flights:0:-1", None),
        ("flights:x:1", None),
        (":0:1", None),
        ("", None),
        ("flights:0:1:2", None),
    ],
)
def test_offset_bounds_are_topic_partition_offset(text: str, bound: OffsetBound | None) -> None:
    """Only topic:partition:offset is a valid bound, and the partition 007 is 7."""
    assert parse_offset_bound(text) == bound
