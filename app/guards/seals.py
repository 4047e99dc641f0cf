"""Seals for the entries of a token file, so that a damaged entry never grants more access.

A seal is the first field of its entry, and a digest of the other fields. If an entry is truncated
or damaged, its fields differ from its seal. An entry without a seal is accepted unchanged.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

_SEAL_DIGITS = 32
#: The first line of an entry, and the seal that ``sealed`` writes below it.
_HEAD = re.compile(
    r"""(?P<line>^[ \t]*\[\[[ \t]*token[ \t]*\]\].*)\n(?:seal = "[^"\n]*"\n)?""", re.MULTILINE
)


def fits(entry: Mapping[str, Any]) -> bool:
    """Return whether the fields of an entry match its seal.

    Additional fields at the end are accepted, because each field only limits the access.
    """
    fields = [(name, value) for name, value in entry.items() if name != "seal"]
    return any(_seal(fields[:count]) == entry["seal"] for count in range(1, len(fields) + 1))


def sealed(text: str) -> str:
    """Return the text of a valid token file with a new seal in each entry.

    Raises:
        ValueError: An entry is not a table ``[[token]]``, or its seal is not its first field.
    """
    entries = _entries(text)
    seals = [_seal(entry.items()) for entry in entries]
    heads = list(_HEAD.finditer(text))
    pieces, end = [], 0
    for head, seal in zip(heads, seals, strict=False):
        pieces += [text[end : head.start()], f'{head["line"]}\nseal = "{seal}"\n']
        end = head.end()
    new = "".join([*pieces, text[end:]])
    # A line of a multi-line string can look like the first line of an entry.
    if len(heads) != len(entries) or _entries(new) != entries:
        message = "each token must be a table [[token]], with its seal as the first field"
        raise ValueError(message)
    return new


def _entries(text: str) -> list[dict[str, Any]]:
    """Return the entries of a token file without their seals."""
    try:
        entries = tomllib.loads(text).get("token", [])
    except tomllib.TOMLDecodeError:
        return []
    return [{name: entry[name] for name in entry if name != "seal"} for entry in entries]


def _seal(fields: Iterable[tuple[str, Any]]) -> str:
    text = json.dumps(dict(fields), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_SEAL_DIGITS]
