"""Random cases: few in every run, as many again as a campaign has in ``./oriel test long``."""

import pytest


def cases(few: int, many: int) -> pytest.MarkDecorator:
    """For tests that count their cases themselves, of seeds from one on: ``number``."""
    return pytest.mark.parametrize("number", [few, pytest.param(many, marks=pytest.mark.long)])


def seeds(few: int, many: int, first: int = 0) -> pytest.MarkDecorator:
    """For tests of one case each: ``seed``."""
    long = [pytest.param(first + seed, marks=pytest.mark.long) for seed in range(few, many)]
    return pytest.mark.parametrize("seed", [*range(first, first + few), *long])
