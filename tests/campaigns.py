"""Sizes of campaigns: tests that check many random cases, or every step of something.

Every lane checks the first cases. `./oriel test long` checks the full size in addition.
"""

import os
from typing import Any

import pytest

#: Environment variable with which the `oriel` script requests full sizes.
SIZE = "ORIEL_TESTS_SIZE"


def full(*values: Any, id: str | None = None) -> list[Any]:  # noqa: A002 - as in pytest.param
    """Return the parameters of one full-size case, or no case unless full sizes are requested."""
    if os.environ.get(SIZE) != "full":
        return []
    return [pytest.param(*values, id=id, marks=pytest.mark.long)]


def cases(few: int, many: int) -> pytest.MarkDecorator:
    """Parametrize a test with the ``number`` of cases that it checks, from the first seed on."""
    return pytest.mark.parametrize("number", [few, *full(many)])


def seeds(few: int, many: int, first: int = 0) -> pytest.MarkDecorator:
    """Parametrize a test of one case with its ``seed``."""
    long = [case for seed in range(few, many) for case in full(first + seed)]
    return pytest.mark.parametrize("seed", [*range(first, first + few), *long])
