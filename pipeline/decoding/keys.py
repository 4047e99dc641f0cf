"""The keys of messages: whatever their serde, a key is a text from here on."""

import json
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.decoding.reasons import CODES, Reasons
from oriel.pipeline.decoding.values import numbers, texts


def read_keys(serde: str, keys: pa.BinaryArray, reasons: Reasons) -> pa.StringArray:
    """The keys of ``serde`` as text, null where there is none; a bad one sets its reason.

    Numbers are written in decimal.
    """
    if serde == "string":
        return texts(serde, keys, reasons)
    if serde == "json":
        return _json_texts(keys, reasons)
    return numbers(serde, keys, reasons).cast(pa.string())


def _json_texts(keys: pa.BinaryArray, reasons: Reasons) -> pa.StringArray:
    """JSON in one spelling: names sorted, no blanks; a text without its quotes, null as none.

    Each distinct key is read once.
    """
    coded = pc.dictionary_encode(keys)
    found = [_json_text(key) for key in coded.dictionary.to_pylist()]
    spellings = pa.array(
        [None if isinstance(each, Reason) else each for each in found], pa.string()
    )
    codes = np.array([CODES[each] if isinstance(each, Reason) else 0 for each in found], np.int8)
    has_key = np.asarray(coded.indices.is_valid())
    codes_of_rows = np.zeros(len(keys), np.int8)
    codes_of_rows[has_key] = codes[np.asarray(coded.indices.drop_null())]
    free = reasons == 0
    reasons[free] = codes_of_rows[free]
    return spellings.take(coded.indices)


def _json_text(key: bytes) -> str | Reason | None:
    try:
        content = json.loads(key.decode(), parse_constant=_refuse)
        if isinstance(content, str | None):
            text = content
        else:
            text = json.dumps(
                content,
                sort_keys=True,
                ensure_ascii=False,
                allow_nan=False,
                separators=(",", ":"),
            )
        if text is not None:
            text.encode()
    except UnicodeDecodeError:
        return Reason.NOT_UTF8
    except (ValueError, RecursionError):
        # Half a surrogate pair is a UnicodeEncodeError, which is a ValueError.
        return Reason.NOT_JSON
    return text


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)
