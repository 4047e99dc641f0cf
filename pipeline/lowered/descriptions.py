"""The definition of a store as text: its sources, steps and functions.

The table of a store records these texts, so that a start detects a changed topology. A text must be
the same in every run, and must change with the topology. For a Python function, it has only the
name, because byte code depends on the version of Python and does not contain called functions. So
a changed body is not detected. ``peek`` changes no row, so it is not in the texts.
"""

from dataclasses import MISSING, fields
from typing import Any

from oriel.pipeline.language import Source, schema_text
from oriel.pipeline.lowered.inputs import Input, Join
from oriel.pipeline.lowered.stores import Store


def source_texts(store: Store) -> tuple[str, ...]:
    """Return the topic, the schema and the format of each source of a store."""
    return tuple(_source_text(source) for source in store.sources)


def step_texts(store: Store) -> tuple[str, ...]:
    """Return a text for each input of a store, with its source, its join and its row-wise steps.

    If the rows of the aggregation have steps, the last text has these steps.
    """
    texts = [_input_text(origin) for origin in store.inputs]
    if len(texts) > 1 and store.aggregation.aggregates:
        columns = [", ".join(of_stream) for of_stream in store.aggregation.aggregates]
        names = [columns[origin.stream] for origin in store.inputs]
        texts = [f"{text}: {of_input}" for text, of_input in zip(texts, names, strict=True)]
    if store.row_steps:
        texts.append(f"rows.{store.aggregated_rows}")
    return tuple(texts)


def function_texts(store: Store) -> tuple[str, ...]:
    """Return the names of the functions of a store, and the schema of their results."""
    return store.aggregation.function_texts


def _source_text(source: Source) -> str:
    """Return a source with each field that is not the default."""
    if source.store_name:
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


def _input_text(origin: Input) -> str:
    read = origin.source.topic if origin.join is None else _join_text(origin.join)
    steps = filter(None, (step.for_definition() for step in origin.steps))
    return "".join([read, *(f".{step}" for step in steps)])


def _join_text(join: Join) -> str:
    left, *others = map(_input_text, join.inputs)
    of_others = f" with {', '.join(f'({text})' for text in others)}" if others else ""
    return f"({left}).{join}{of_others}"
