"""Tests of shards: each key has one shard, which scalar and vectorized code agree on."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.storage.shards import ALL_KEYS, Shard

#: From the reference implementation (Austin Appleby's, in C).
KNOWN = {
    "": 0,
    "a": 2456313694,
    "EWR": 443809405,
    "abcd": 646393889,
    "hello world": 1151865881,
    "é€": 2923925273,
}
KEYS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=60)


@given(KEYS, st.integers(1, 12), st.integers(0, 3))
def test_a_key_is_in_one_shard(keys: list[str], count: int, cut: int) -> None:
    """Exactly one mask has a key, and it belongs to ``owner``, also in chunks and slices."""
    column = pa.chunked_array(
        [
            pa.array(["x", *keys], pa.string())[1:],
            pa.array(keys, pa.large_string())[cut:].cast("string"),
        ]
    )
    masks = {n: Shard(n, count).mask(column) for n in range(1, count + 1)}
    for row, key in enumerate(keys + keys[cut:]):
        assert [n for n, mask in masks.items() if mask[row]] == [Shard(1, count).owner(key)]


def test_the_hash_is_murmurs() -> None:
    """The shard of a key follows from 32-bit MurmurHash2 with seed 0."""
    # The largest number of shards shows the upper bits of the hash.
    for key, hashed in KNOWN.items():
        assert Shard(1, 9999).owner(key) == (hashed * 9999 >> 32) + 1


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/2/3", "-1/2", "", "1/99999"])
def test_an_invalid_shard_is_an_error(text: str) -> None:
    """The error for an invalid shard has the expected format."""
    with pytest.raises(ValueError, match="Write NUMBER/COUNT"):
        Shard.parse(text)


def test_a_shard_is_written_as_it_is_read() -> None:
    """A shard is formatted as it is parsed."""
    assert str(Shard.parse("2/8")) == "2/8"
    assert ALL_KEYS.is_all
    assert not Shard.parse("2/8").is_all
