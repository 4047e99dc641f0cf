"""The keys of messages as strings, for every serde."""

import json
from math import isinf
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.decoding.row_errors import RowErrors, WrongType, out_of_range
from oriel.pipeline.decoding.values import numbers, texts


def read_keys(serde: str, keys: pa.BinaryArray, row_errors: RowErrors) -> pa.StringArray:
    """Return keys as strings, null for a null or invalid key. Numbers become decimal strings.

    JSON keys have one spelling: sorted names and no blanks. A JSON string loses its quotes, and
    JSON's null becomes a null key. An invalid key sets the reason of its row.
    """
    if serde == "string":
        return texts(serde, keys, row_errors)
    if serde != "json":
        return numbers(serde, keys, row_errors).cast(pa.string())
    # Each distinct key is parsed once.
    coded = pc.dictionary_encode(keys)
    found = [_canonical_json_key(key) for key in coded.dictionary.to_pylist()]
    strings = pa.array(
        [None if isinstance(each, Reason | WrongType) else each for each in found], pa.string()
    )
    for index, wrong in enumerate(found):
        if isinstance(wrong, WrongType):
            rows = pc.fill_null(pc.equal(coded.indices, index), False)  # noqa: FBT003
            for row in np.flatnonzero(np.asarray(rows)).tolist():
                row_errors.set_one(row, Reason.WRONG_TYPE, wrong.detail)
    for reason in (Reason.NOT_UTF8, Reason.NOT_JSON):
        is_invalid = pa.array([each is reason for each in found], pa.bool_())
        invalid = pc.fill_null(is_invalid.take(coded.indices), False)  # noqa: FBT003
        row_errors.set(np.asarray(invalid), reason)
    return strings.take(coded.indices)


def _canonical_json_key(key: bytes) -> str | Reason | WrongType | None:
    try:
        content = json.loads(
            key.decode(), parse_constant=_reject_constant, parse_float=_parse_float
        )
        if isinstance(content, str | None):
            text = content
        else:
            text = json.dumps(
                content, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
            )
        if text is not None:
            text.encode()
    except UnicodeDecodeError:
        return Reason.NOT_UTF8
    except WrongType as error:
        error.path.append("key")
        return error
    except (ValueError, RecursionError):
        # Half of a surrogate pair raises a UnicodeEncodeError, which is a ValueError.
        return Reason.NOT_JSON
    return text


def _parse_float(digits: str) -> float:
    number = float(digits)
    if isinf(number):
        raise out_of_range(pa.float64(), digits)
    return number


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(name)
