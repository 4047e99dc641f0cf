"""A store's definition as texts: sources, steps and functions, the same in every run.

A store's table keeps them, so that a topology that would go on otherwise than it began is noticed.
So a text must not change while the topology doesn't, and must change with it. Of a Python function
it has the name alone: byte code differs from one version of Python to the next, and what a
function calls is not in it. A changed body is not noticed. ``peek`` changes no row and is in none.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from typing import Any

from oriel.pipeline.language.topology.aggregations import Columns, Functions
from oriel.pipeline.language.topology.inputs import Input, Join, Side, sides_of
from oriel.pipeline.language.topology.sources import Source, StoreSource
from oriel.pipeline.language.topology.steps import Branches, Peek, Step
from oriel.pipeline.language.topology.stores import Store

_DDL_WORD = re.compile(r"`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\w+|[^\s\w]")
_NAME = re.compile(r"[\w`']")
#: Spark's other names of types.
_SYNONYMS = {
    "BYTE": "TINYINT", "SHORT": "SMALLINT", "INTEGER": "INT", "LONG": "BIGINT", "REAL": "FLOAT",
    "DEC": "DECIMAL", "NUMERIC": "DECIMAL",
}  # fmt: skip


def source_texts(store: Store) -> tuple[str, ...]:
    """Each source of ``store``: its topic, its schema, and what else it says of its records."""
    return tuple(_source_text(source) for source in store.sources)


def step_texts(store: Store) -> tuple[str, ...]:
    """Each input of ``store``: what is read, its row-wise steps, its join with both sides.

    Behind them the steps of the aggregation's rows, if there are any.
    """
    texts = [_input_text(origin) for origin in store.inputs]
    if len(texts) > 1 and isinstance(store.aggregation, Columns):
        columns = [", ".join(of_stream) for of_stream in store.aggregation.of_stream]
        names = [columns[origin.stream] for origin in store.inputs]
        texts = [f"{text}: {of_input}" for text, of_input in zip(texts, names, strict=True)]
    if store.row_steps:
        texts.append(f"rows.{store.aggregated_rows}")
    return tuple(texts)


def function_texts(store: Store) -> tuple[str, ...]:
    """The names of the functions that ``store`` calls, and the schema of what they give."""
    aggregation = store.aggregation
    if not isinstance(aggregation, Functions):
        return ()
    schemas = () if aggregation.schema is None else (f"schema {schema_text(aggregation.schema)}",)
    return (*aggregation.names, *schemas)


def schema_text(ddl: str) -> str:
    """A schema in one spelling: ``a  long, b: array<int>`` is ``a BIGINT, b ARRAY<INT>``."""
    words = [word for word in _DDL_WORD.findall(ddl) if not word.startswith(":")]
    text = ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        # A name has its type behind it, a type has not: names keep their case.
        is_type = word.isidentifier() and not _NAME.match(following)
        needs_space = text.endswith(",") or (_NAME.match(word) and _NAME.match(text[-1:]))
        spelled = _SYNONYMS.get(word.upper(), word.upper()) if is_type else word
        text += f" {spelled}" if needs_space else spelled
    return text


def _source_text(source: Source) -> str:
    """A source, with each of its fields that is not left as it is by default."""
    if isinstance(source, StoreSource):
        return str(source)
    extras = [
        f"{field.name} {value}"
        for field in fields(source)
        if field.compare and field.name not in {"topic", "schema"}
        if (value := getattr(source, field.name)) != _default(field)
    ]
    return "; ".join([f"{source.topic} ({schema_text(source.schema)})", *extras])


def _default(field: Any) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _input_text(origin: Input | Side) -> str:
    read = origin.source.topic if origin.join is None else _join_text(origin.join)
    return "".join([read, *(f".{step}" for step in _without_peeks(origin.steps))])


def _without_peeks(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, Branches):
            rest = (tuple(s for s in chain if not isinstance(s, Peek)) for chain in step.chains)
            yield Branches(tuple(rest))
        elif not isinstance(step, Peek):
            yield step


def _join_text(join: Join) -> str:
    left, *others = map(_input_text, sides_of(join))
    of_others = f" with {', '.join(f'({text})' for text in others)}" if others else ""
    return f"({left}).{join}{of_others}"
