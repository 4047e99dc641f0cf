"""Reasons by numbers: a block has one for each row, 0 where the row is good so far."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.windows import Flags

_REASONS = [None, *Reason]
CODES = {reason: code for code, reason in enumerate(_REASONS)}
_NAMES = pa.array([reason and reason.value for reason in _REASONS], pa.string())

#: The codes of a block's rows.
Reasons: TypeAlias = npt.NDArray[np.int8]


def no_reasons(length: int) -> Reasons:
    """The reasons of rows that are all good."""
    return np.zeros(length, np.int8)


def set_reason(reasons: Reasons, fault: Flags, reason: Reason) -> None:
    """Set the reason where there is a fault and no reason as yet."""
    reasons[fault & (reasons == 0)] = CODES[reason]


def reason_names(reasons: Reasons) -> pa.StringArray:
    """The reasons as the dead-letter table has them, null for a good row."""
    return _NAMES.take(pa.array(reasons))
