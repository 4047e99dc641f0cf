"""Normalized texts of schemas, so that two spellings of a schema are one definition."""

import re

_DDL_WORD = re.compile(r"`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\w+|[^\s\w]")
_NAME = re.compile(r"[\w`']")
#: Synonyms of types in Spark.
_SYNONYMS = {
    "BYTE": "TINYINT", "SHORT": "SMALLINT", "INTEGER": "INT", "LONG": "BIGINT", "REAL": "FLOAT",
    "DEC": "DECIMAL", "NUMERIC": "DECIMAL",
}  # fmt: skip


def schema_text(ddl: str) -> str:
    """Normalize a schema: ``a  long, b: array<int>`` is ``a BIGINT, b ARRAY<INT>``."""
    words = [word for word in _DDL_WORD.findall(ddl) if not word.startswith(":")]
    text = ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        # A name precedes its type, and keeps its case.
        is_type = word.isidentifier() and not _NAME.match(following)
        needs_space = text.endswith(",") or (_NAME.match(word) and _NAME.match(text[-1:]))
        spelled = _SYNONYMS.get(word.upper(), word.upper()) if is_type else word
        text += f" {spelled}" if needs_space else spelled
    return text
