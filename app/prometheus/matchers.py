"""The matchers of selectors: ``=``, ``!=``, ``=~`` and ``!~``.

A label that a series does not have is the empty string, as in Prometheus. RE2 evaluates regular
expressions, so none can need exponential time.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oriel.app.contract import InvalidParameter

Mask = npt.NDArray[np.bool_]

#: A piece of a regular expression that matches exactly one string. Grafana writes the values of a
#: variable as such pieces with ``|`` between them.
_LITERAL = re.compile(r"(?:[^\\.+*?()|\[\]{}^$]|\\[^a-zA-Z0-9])*+")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Matcher(NamedTuple):
    """One matcher of a selector.

    Attributes:
        label: The name of the label.
        value: The string or the regular expression.
        is_regex: True for ``=~`` and ``!~``.
        is_negated: True for ``!=`` and ``!~``.
    """

    label: str
    value: str
    is_regex: bool
    is_negated: bool

    def literals(self) -> frozenset[str] | None:
        """Return the only values that match, None if others can match."""
        if self.is_negated:
            return None
        if not self.is_regex:
            return frozenset({self.value})
        pieces = self.value.split("|")
        if not all(map(_LITERAL.fullmatch, pieces)):
            return None
        return frozenset(_ESCAPE.sub(r"\1", piece) for piece in pieces)

    def mask(self, values: Sequence[str]) -> Mask:
        """Return for each value whether it matches.

        Raises:
            InvalidParameter: RE2 rejects the regular expression.
        """
        column = pa.array(values, pa.large_string())
        if self.is_regex:
            try:
                # A regular expression matches the whole value, and a dot matches a line break.
                found = pc.match_substring_regex(column, f"^(?s:{self.value})$")
            except pa.ArrowInvalid as error:
                message = (
                    f"query: {self.value[:80]!r} is not a regular expression of RE2. Correct it."
                )
                raise InvalidParameter(message) from error
        else:
            found = pc.equal(column, pa.scalar(self.value, pa.large_string()))
        mask: Mask = np.asarray(found)
        return ~mask if self.is_negated else mask


def mask_of(matchers: Sequence[Matcher], label: str, values: Sequence[str]) -> Mask:
    """Return for each value of a label whether it meets all matchers of this label."""
    mask = np.ones(len(values), np.bool_)
    for matcher in matchers:
        if matcher.label == label:
            mask &= matcher.mask(values)
    return mask
