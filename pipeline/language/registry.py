"""What the steps of the language share: the builder's registry, and checks of arguments."""

from dataclasses import dataclass, field

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.topology import Store
from oriel.pipeline.windows import Duration, EmitStrategy, NoWindows, Windows, to_ms
from oriel.storage import InvalidDefinition, check_store_name


@dataclass
class Registry:
    """What a builder has been told: stores, and aggregations waiting for a name."""

    stores: list[Store] = field(default_factory=list)
    waiting: dict[object, str] = field(default_factory=dict)


def checked_windows(windows: Windows) -> Windows:
    """Return ``windows``.

    Raises:
        InvalidTopology: it is no window definition.
    """
    if not isinstance(windows, Windows) or isinstance(windows, NoWindows):
        message = (
            f"windowed_by: expects TimeWindows, SlidingWindows or SessionWindows, not {windows!r}"
        )
        raise InvalidTopology(message)
    return windows


def checked_strategy(strategy: EmitStrategy, windows: Windows, step: str = "emit") -> EmitStrategy:
    """Return ``strategy``; ``step`` is where it was given.

    Raises:
        InvalidTopology: it is none, or waits for windows that there aren't.
    """
    if not isinstance(strategy, EmitStrategy):
        wanted = "an EmitStrategy such as on_window_close()"
        if step == "suppress":
            wanted = "until_window_closes()"
        message = f"{step}: expects {wanted}, not {strategy!r}"
        raise InvalidTopology(message)
    if strategy.name == "window-close" and isinstance(windows, NoWindows):
        message = f"{step}: without windows nothing ever closes; call windowed_by() before"
        raise InvalidTopology(message)
    return strategy


def checked_name(registry: Registry, name: str) -> str:
    """Return ``name``.

    Raises:
        InvalidTopology: it is no store name, or taken.
    """
    try:
        check_store_name(name)
    except InvalidDefinition as error:
        raise InvalidTopology(str(error)) from error
    for store in registry.stores:
        if store.name.lower() == name.lower():
            # Each has a folder, and some file systems don't tell these names apart.
            and_this = "" if store.name == name else f" and {name!r}: case does not tell them apart"
            message = f"materialize: two stores are named {store.name!r}{and_this}"
            raise InvalidTopology(message)
    return name


def checked_retention(name: str, windows: Windows, retention: Duration | None) -> int | None:
    """Return the retention in ms, None for all.

    Raises:
        InvalidTopology: it is negative, shorter than the windows need, or there are none.
        IllegalArgument: it is no number of ms that fits into 64 bits.
    """
    if retention is None:
        return None
    if isinstance(windows, NoWindows):
        message = f"materialize: the store {name!r} has no windows that could expire"
        raise InvalidTopology(message)
    retention_ms = to_ms(retention, f"materialize: the retention period of store {name!r}")
    least = windows.least_retention_ms
    if retention_ms < 0:
        message = f"Retention of the window store {name!r} must not be negative"
        raise InvalidTopology(message)
    if retention_ms < least:
        message = (
            f"The retention period of the window store {name!r} must be no smaller than "
            f"{_LEAST_RETENTION[windows.kind]}. Got retention=[{retention_ms}], needed=[{least}]"
        )
        raise InvalidTopology(message)
    return retention_ms


_LEAST_RETENTION = {
    "sliding": "2 * time difference plus the grace period",
    "tumbling": "its window size plus the grace period",
    "hopping": "its window size plus the grace period",
    "session": "the inactivity gap plus the grace period",
}


def require_expressions(step: str, *expressions: object) -> None:
    """Refuse what is neither SQL text nor a Spark column, such as a Python function.

    Raises:
        InvalidTopology: one is neither.
    """
    for expression in expressions:
        if isinstance(expression, str) or type(expression).__module__.startswith("pyspark."):
            continue
        message = f"{step}: expects SQL text or a Spark Column, not {expression!r}"
        raise InvalidTopology(message)
